//! Two quantities measured side by side, and the bar that their ratio is held against.

use crate::rounds::Spread;

/// What was asked of a measurement before it was made.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// A ratio of ours to theirs of at least this.
    AtLeast(f64),
    /// A ratio of ours to theirs of at most this.
    AtMost(f64),
    /// A value of ours of at most this, whatever theirs is.
    OursAtMost(f64),
    /// Nothing: the comparison is shown for reference.
    None,
}

/// Two quantities measured side by side, round by round.
#[derive(Clone, PartialEq, Debug)]
pub struct Comparison {
    /// What was measured.
    pub work: &'static str,
    /// The unit of both quantities.
    pub unit: &'static str,
    /// What `work` is compared with.
    pub against: String,
    /// Ours and theirs in each round.
    pub rounds: Vec<(f64, f64)>,
    /// What was asked of it.
    pub bar: Bar,
}

impl Comparison {
    /// The ratio of ours to theirs in each round.
    ///
    /// # Panics
    /// If there are no rounds.
    pub fn ratio(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(ours, theirs)| ours / theirs))
    }

    /// Ours over the rounds.
    ///
    /// # Panics
    /// If there are no rounds.
    pub fn ours(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(ours, _)| *ours))
    }

    /// Theirs over the rounds.
    ///
    /// # Panics
    /// If there are no rounds.
    pub fn theirs(&self) -> Spread {
        Spread::of(self.rounds.iter().map(|(_, theirs)| *theirs))
    }

    /// Whether the median of the rounds meets the bar; `None` without a bar.
    ///
    /// # Panics
    /// If there are no rounds.
    pub fn is_met(&self) -> Option<bool> {
        match self.bar {
            Bar::AtLeast(bar) => Some(self.ratio().median >= bar),
            Bar::AtMost(bar) => Some(self.ratio().median <= bar),
            Bar::OursAtMost(bar) => Some(self.ours().median <= bar),
            Bar::None => None,
        }
    }
}
