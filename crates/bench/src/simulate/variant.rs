//! Policies with the rules of other programs: our policy with its departures from that program switched.
//!
//! A variant shows what makes our miss ratio differ from another program's. The head of each policy's file
//! lists its departures.

use bufpool_policies::classic::{LibCacheSimWTinyLfu, Lirs, LirsParameters, OneLevel};

/// A policy with other rules than its default ones. Its name is that of the policy and, after a colon, what
/// differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// LIRS that remembers 2,500 times as many evictions as there are frames, which misses as its authors'
    /// program does.
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
