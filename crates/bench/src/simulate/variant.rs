//! Policies as other programs have them: the same policy with its departures switched.
//!
//! They show what makes a miss ratio differ from another program's; see the head of each policy's file.

use bufpool_policies::classic::{LibCacheSimWTinyLfu, Lirs, LirsParameters, OneLevel};

/// A policy with other rules than its default ones. Named after a policy and, behind a colon, what is
/// different.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// LIRS that never forgets an eviction, as its authors' program.
    LirsUnbounded,
    /// LIRS with the history of libCacheSim.
    LirsLibCacheSim,
    /// W-TinyLFU with the rules of libCacheSim.
    WTinyLfuLibCacheSim,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 3] = [Self::LirsUnbounded, Self::LirsLibCacheSim, Self::WTinyLfuLibCacheSim];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LirsUnbounded => "lirs:unbounded",
            Self::LirsLibCacheSim => "lirs:libcachesim",
            Self::WTinyLfuLibCacheSim => "w-tinylfu:libcachesim",
        }
    }

    /// The policy, for a cache of `capacity` frames.
    pub fn build(self, capacity: u32) -> Box<dyn OneLevel> {
        let lirs = |parameters| Box::new(Lirs::with_parameters(capacity, parameters));
        let defaults = LirsParameters::default();
        match self {
            Self::LirsUnbounded => lirs(LirsParameters { history_percent: 250_000, ..defaults }),
            Self::LirsLibCacheSim => {
                lirs(LirsParameters { history_percent: 100, skip_repeats: false, ..defaults })
            }
            Self::WTinyLfuLibCacheSim => Box::new(LibCacheSimWTinyLfu::new(capacity)),
        }
    }
}
