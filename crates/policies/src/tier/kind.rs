//! Lower caches by name, and how one is made.

use std::{fmt, str::FromStr};

use super::{AdaptTier, LruTier, PromoteTier, Segments, SlruTier, TierOrder};

/// Pages that a lower cache can have room for.
pub const TIER_FRAMES_MAX: u32 = (1 << 31) - 2;

/// The schemes of a lower cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum TierKind {
    /// LRU by reads; clients demote nothing.
    NoneLru,
    /// LRU by reads and demotions.
    DemoteLru,
    /// Pages that are read go next, pages that are demoted last.
    Demote,
    /// Segmented LRU.
    Slru {
        /// How much of it is for protected pages, at most 100.
        protected_percent: u8,
    },
    /// Ten segments of one size, entered by what reads and demotions were worth.
    AdaptUni,
    /// As [`AdaptUni`](Self::AdaptUni), but each segment is twice as large as the one before.
    AdaptExp,
    /// Pages are kept or passed up; clients demote nothing.
    Promote,
    /// LRU by reads; pages stay when they are taken, and clients demote nothing.
    Inclusive,
}

/// What a lower cache is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierSetup {
    /// Pages that there is room for, at most [`TIER_FRAMES_MAX`].
    pub frames: u32,
    /// Frames of all clients together.
    pub client_frames: u32,
    /// Seed of what is drawn at random.
    pub seed: u64,
}

impl TierKind {
    /// The names of all kinds, for messages. PERCENT stands for a number from 0 to 100.
    pub const NAMES: [&'static str; 8] = [
        "none-lru",
        "demote-lru",
        "demote",
        "slru/PERCENT",
        "adapt-uni",
        "adapt-exp",
        "promote",
        "inclusive",
    ];

    /// Whether clients offer it the clean pages that they eject.
    pub const fn demotes(self) -> bool {
        !matches!(self, Self::NoneLru | Self::Promote | Self::Inclusive)
    }

    /// The segments of an adaptive scheme.
    pub const fn segments(self) -> Option<Segments> {
        match self {
            Self::AdaptUni => Some(Segments::Uniform),
            Self::AdaptExp => Some(Segments::Exponential),
            _ => None,
        }
    }

    /// An empty lower cache.
    ///
    /// # Panics
    ///
    /// If there are more frames than [`TIER_FRAMES_MAX`], or a percentage is above 100.
    pub fn build(self, setup: TierSetup) -> Box<dyn TierOrder> {
        let TierSetup { frames, client_frames, seed } = setup;
        assert!(frames <= TIER_FRAMES_MAX, "{frames} frames, expected at most {TIER_FRAMES_MAX}");
        match self {
            Self::NoneLru | Self::DemoteLru => Box::new(LruTier::by_use(frames)),
            Self::Demote => Box::new(LruTier::exclusive(frames)),
            Self::Inclusive => Box::new(LruTier::inclusive(frames)),
            Self::Slru { protected_percent } => Box::new(SlruTier::new(frames, protected_percent)),
            Self::AdaptUni => Box::new(AdaptTier::new(frames, Segments::Uniform)),
            Self::AdaptExp => Box::new(AdaptTier::new(frames, Segments::Exponential)),
            Self::Promote => Box::new(PromoteTier::new(frames, client_frames, seed)),
        }
    }
}

impl fmt::Display for TierKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoneLru => f.pad("none-lru"),
            Self::DemoteLru => f.pad("demote-lru"),
            Self::Demote => f.pad("demote"),
            Self::Slru { protected_percent } => f.pad(&format!("slru/{protected_percent}")),
            Self::AdaptUni => f.pad("adapt-uni"),
            Self::AdaptExp => f.pad("adapt-exp"),
            Self::Promote => f.pad("promote"),
            Self::Inclusive => f.pad("inclusive"),
        }
    }
}

impl FromStr for TierKind {
    type Err = UnknownTier;

    fn from_str(name: &str) -> Result<Self, UnknownTier> {
        let kinds = [
            Self::NoneLru,
            Self::DemoteLru,
            Self::Demote,
            Self::AdaptUni,
            Self::AdaptExp,
            Self::Promote,
            Self::Inclusive,
        ];
        let plain = kinds.into_iter().find(|kind| kind.to_string() == name);
        let percent = || name.strip_prefix("slru/")?.parse().ok().filter(|percent| *percent <= 100);
        let slru = || percent().map(|protected_percent| Self::Slru { protected_percent });
        plain.or_else(slru).ok_or_else(|| UnknownTier { name: name.to_owned() })
    }
}

/// A name that no [`TierKind`] has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownTier {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known = TierKind::NAMES.join(" ");
        write!(f, "expected one of the kinds {known} with PERCENT from 0 to 100, found `{}`", self.name)
    }
}

impl std::error::Error for UnknownTier {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in TierKind::NAMES.map(|name| name.replace("PERCENT", "33")) {
            assert_eq!(name.parse::<TierKind>().map(|kind| kind.to_string()), Ok(name));
        }
        for name in ["slru", "slru/", "slru/101", "slru/-1", "slru/1.5", "lru", ""] {
            assert_eq!(name.parse::<TierKind>(), Err(UnknownTier { name: name.to_owned() }));
        }
    }
}
