//! What the pool does with reads that a workload discloses.

use bufpool::HintPolicy;
use clap::ValueEnum;

/// Pages of a batch of `aggressive`: the default of the papers.
const BATCH: u16 = 16;

/// Uses of disclosed reads, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Hints {
    /// The workload discloses nothing
    Off,
    /// The pool's default
    Auto,
    /// Batches at the first opportunity that does no harm
    Aggressive,
    /// As far ahead as it takes that the reader does not wait
    Horizon,
}

impl Hints {
    /// The pool's option for it.
    pub fn policy(self) -> HintPolicy {
        match self {
            Self::Off => HintPolicy::Off,
            Self::Auto => HintPolicy::Auto,
            Self::Aggressive => HintPolicy::Aggressive { batch: BATCH },
            Self::Horizon => HintPolicy::Horizon,
        }
    }
}
