//! The policies by name, and how one is made.

use std::{fmt, str::FromStr};

use super::local_frames::LocalFrames;
use super::{
    Arc, Clock, ClockPro, Fifo, Fifo2, Lfu, Lirs, Lru, Mru, OneLevel, S3Fifo, Sieve, TwoQueue, WTinyLfu,
};
use crate::error::UnknownName;

/// The policies that need no knowledge of the future, which are those a priority level can have.
///
/// [`Opt`](super::Opt) is not among them: it needs the accesses to come, and is made by its own constructor.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum PolicyKind {
    /// Least recently used.
    Lru,
    /// Most recently used.
    Mru,
    /// First in, first out.
    Fifo,
    /// Second chance with one reference bit.
    Clock,
    /// An active and an inactive queue, and a second chance in the latter.
    Fifo2,
    /// Least frequently used.
    Lfu,
    /// 2Q: a probation queue and an LRU list of pages that came back.
    TwoQueue,
    /// Adaptive replacement cache.
    Arc,
    /// Low inter-reference recency set.
    Lirs,
    /// LIRS with reference bits, on one ring.
    ClockPro,
    /// FIFO with lazy promotion and a moving hand.
    Sieve,
    /// Three FIFO queues.
    S3Fifo,
    /// Admission by frequency behind a small LRU window.
    WTinyLfu,
}

impl PolicyKind {
    /// All of them.
    pub const ALL: [PolicyKind; 13] = [
        Self::Lru,
        Self::Mru,
        Self::Fifo,
        Self::Clock,
        Self::Fifo2,
        Self::Lfu,
        Self::TwoQueue,
        Self::Arc,
        Self::Lirs,
        Self::ClockPro,
        Self::Sieve,
        Self::S3Fifo,
        Self::WTinyLfu,
    ];

    /// The name that [`FromStr`] reads and `Display` writes.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lru => "lru",
            Self::Mru => "mru",
            Self::Fifo => "fifo",
            Self::Clock => "clock",
            Self::Fifo2 => "fifo2",
            Self::Lfu => "lfu",
            Self::TwoQueue => "2q",
            Self::Arc => "arc",
            Self::Lirs => "lirs",
            Self::ClockPro => "clock-pro",
            Self::Sieve => "sieve",
            Self::S3Fifo => "s3-fifo",
            Self::WTinyLfu => "w-tinylfu",
        }
    }
}

impl fmt::Display for PolicyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for PolicyKind {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownName {
            name: name.to_owned(),
            kind: "policies",
            known: Self::ALL.map(Self::name).into(),
        })
    }
}

/// A policy for a whole cache, whose frames are numbered densely from 0.
pub fn build(kind: PolicyKind, capacity: u32) -> Box<dyn OneLevel> {
    match kind {
        PolicyKind::Lru => Box::new(Lru::new(capacity)),
        PolicyKind::Mru => Box::new(Mru::new(capacity)),
        PolicyKind::Fifo => Box::new(Fifo::new(capacity)),
        PolicyKind::Clock => Box::new(Clock::new(capacity)),
        PolicyKind::Fifo2 => Box::new(Fifo2::new(capacity)),
        PolicyKind::Lfu => Box::new(Lfu::new(capacity)),
        PolicyKind::TwoQueue => Box::new(TwoQueue::new(capacity)),
        PolicyKind::Arc => Box::new(Arc::new(capacity)),
        PolicyKind::Lirs => Box::new(Lirs::new(capacity)),
        PolicyKind::ClockPro => Box::new(ClockPro::new(capacity)),
        PolicyKind::Sieve => Box::new(Sieve::new(capacity)),
        PolicyKind::S3Fifo => Box::new(S3Fifo::new(capacity)),
        PolicyKind::WTinyLfu => Box::new(WTinyLfu::new(capacity)),
    }
}

/// A policy for a priority level, whose frames may have any numbers: memory follows the largest number of
/// frames that the level ever had, not their numbers. Each call costs a look-up in a hash table more than
/// with [`build`].
pub fn build_for_level(kind: PolicyKind, capacity: u32) -> Box<dyn OneLevel> {
    Box::new(LocalFrames::new(build(kind, capacity)))
}
