//! What the pool does with reads that a workload discloses, as a flag.

use bufpool::HintPolicy;
use clap::ValueEnum;

/// Pages of a batch of `aggressive`, as in the papers.
const BATCH: u16 = 16;

/// What the pool does with disclosed reads, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Hints {
    /// The workload discloses nothing
    Off,
    /// The pool's default
    Auto,
    /// Fetches ahead in batches, as soon as that costs no page that is needed sooner
    Aggressive,
    /// Fetches just far enough ahead that the reader does not wait
    Horizon,
}

impl Hints {
    /// The pool's option of this name.
    pub fn policy(self) -> HintPolicy {
        match self {
            Self::Off => HintPolicy::Off,
            Self::Auto => HintPolicy::Auto,
            Self::Aggressive => HintPolicy::Aggressive { batch: BATCH },
            Self::Horizon => HintPolicy::Horizon,
        }
    }
}
