//! Disclosed reads: what they bring where they are right, and cost where they are wrong.

mod index_scan;
mod join;
mod wrong;

use crate::rounds::Spread;

pub use self::index_scan::index_scans;
pub use self::join::joins;
pub use self::wrong::wrong_lists;

/// What was asked for of a ratio.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Bar {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
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
}
