//! Two quantities measured side by side, and what was asked for of them.

use crate::rounds::Spread;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// A ratio of at least this.
    AtLeast(f64),
    /// A ratio of at most this.
    AtMost(f64),
    /// At most this by itself, whatever it is held against.
    OursAtMost(f64),
    /// Nothing: it is told to compare others with.
    None,
}

/// Two quantities measured side by side, round by round.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// What was measured.
    pub work: &'static str,
    /// Of the two quantities.
    pub unit: &'static str,
    /// What it is held against.
    pub against: String,
    /// Ours and theirs.
    pub rounds: Vec<(f64, f64)>,
    /// What was asked for.
    pub bar: Bar,
}

impl Comparison {
    /// Ours to theirs.
    pub fn ratio(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(ours, theirs)| ours / theirs))
    }

    /// Ours.
    pub fn ours(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(ours, _)| *ours))
    }

    /// Theirs.
    pub fn theirs(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(_, theirs)| *theirs))
    }

    /// Whether the middle of the rounds is what was asked for; none if nothing was.
    pub fn is_met(&self) -> Option<bool> {
        match self.bar {
            Bar::AtLeast(bar) => Some(self.ratio().median >= bar),
            Bar::AtMost(bar) => Some(self.ratio().median <= bar),
            Bar::OursAtMost(bar) => Some(self.ours().median <= bar),
            Bar::None => None,
        }
    }
}
