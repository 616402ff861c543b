//! A pool with a tier, against the same pool without one: what the tier gains where it pays, and what it
//! costs where it does not.

mod compressed;
mod delay;
mod faulty;
mod pays;
mod reads;
mod single;
mod source;
mod wasted;

use std::time::{Duration, Instant};

use anyhow::Result;

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
    /// Time that a round without a tier should take. `hits` and `compressed` have rounds of a fixed number of
    /// reads.
    pub round: Duration,
    /// Time of reads before the first round, in which a tier is filled, or found not to pay. `hits`,
    /// `demotions` and `compressed` do not use it.
    pub warm_up: Duration,
    /// Seed of the pages that are read.
    pub seed: u64,
}

impl Effort {
    /// Calls `read`, which reads `step` pages, for the time of the warm-up. Returns how many reads a round
    /// has, so that it takes [`Effort::round`].
    fn warm_up<T>(&self, step: usize, mut read: impl FnMut() -> Result<T>) -> Result<usize> {
        let begun = Instant::now();
        let mut reads = 0;
        while reads == 0 || begun.elapsed() < self.warm_up {
            read()?;
            reads += step;
        }
        let rounds = self.round.as_secs_f64() / begun.elapsed().as_secs_f64();
        Ok((reads as f64 * rounds).ceil() as usize)
    }
}
