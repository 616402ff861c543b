//! A tier below a pool, against the same pool without one: what it brings where it pays, and what it costs
//! where it does not.

mod compressed;
mod delay;
mod faulty;
mod pays;
mod reads;
mod single;
mod source;
mod wasted;

use std::time::Duration;

pub use self::compressed::compressed;
pub use self::pays::pays;
pub use self::single::{demotions, hits};
pub use self::source::{Numbered, PAGE_BYTES};
pub use self::wasted::wasted;

/// How much is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Effort {
    /// Rounds of each side.
    pub rounds: usize,
    /// What a round without a tier takes.
    pub round: Duration,
    /// Time before the first round, in which a tier is filled, or found not to pay.
    pub warm_up: Duration,
    /// Of the pages that are read.
    pub seed: u64,
}
