//! The well-known single-level replacement policies, one file each, all in the same frame: idea, paper,
//! departures from the paper, what a refused proposal does, cost; then fields, hit, insert, victim, check.
//!
//! They serve twice: as opponents in every table, where one instance owns all frames of a cache, and as
//! policies of one priority level of a tenant's pool, where an instance owns the level's frames.
//! A driver maps pages to frames, and tells the policy what happens in this order:
//!
//! - a resident page is referenced: [`OneLevel::hit`];
//! - a page comes in and a frame is free: [`OneLevel::insert`];
//! - a page comes in and no frame is free: [`OneLevel::victim`], as often as the answer turns out to be
//!   unusable, then [`OneLevel::remove`] for the frame taken, then [`OneLevel::insert`];
//! - a page leaves for another reason or another level: [`OneLevel::remove`]; one that comes from another
//!   level: [`OneLevel::insert`].
//!
//! Costs, with n resident pages. Time is per access; where it is amortised, the worst single call is O(n).
//! Memory is in bytes per frame, ghosts (pages that are remembered though they have left) included.
//!
//! | policy | hit | miss | memory |
//! | --- | --- | --- | --: |
//! | LRU, MRU | O(1), moves a list node | O(1) | 8 |
//! | FIFO | nothing | O(1) | 8 |
//! | CLOCK, SIEVE | sets a byte | O(1) amortised | 9 |
//! | LFU | O(1), moves a list node | O(1) | 12 to 44 |
//! | 2Q | O(1), moves a list node if hot | O(1) | 20 to 22 |
//! | ARC | O(1), moves a list node | O(1) | 31 to 35 |
//! | S3-FIFO | increments a byte | O(1) amortised | 29 to 33 |
//! | LIRS | O(1), moves a list node | O(1) | 54 to 61 |
//! | CLOCK-Pro | sets a bit | O(1) amortised | 59 to 63 |
//! | W-TinyLFU | O(1), moves a list node, counts | O(1), O(n) once in ten n accesses | 25 to 33 |
//! | OPT | O(log n) | O(log n) | 16 |
//!
//! Arrays are made for the capacity at the start; where they have to grow, they double. With k busy frames in
//! the way, `victim` asks about each of them once more than without.

mod arc;
mod clock;
mod clock_pro;
mod fifo;
mod lfu;
mod lirs;
mod local_frames;
mod lru;
mod mru;
mod opt;
mod s3_fifo;
mod segments;
mod sieve;
mod two_queue;
mod w_tinylfu;
mod w_tinylfu_libcachesim;

pub use arc::Arc;
pub use clock::Clock;
pub use clock_pro::{ClockPro, ClockProParameters};
pub use fifo::Fifo;
pub use lfu::Lfu;
pub use lirs::{Lirs, LirsParameters};
pub use lru::Lru;
pub use mru::Mru;
pub use opt::Opt;
pub use s3_fifo::{S3Fifo, S3FifoParameters};
pub use sieve::Sieve;
pub use two_queue::{TwoQueue, TwoQueueParameters};
pub use w_tinylfu::{WTinyLfu, WTinyLfuParameters};
pub use w_tinylfu_libcachesim::LibCacheSimWTinyLfu;

use crate::{FrameId, PageId};
use local_frames::LocalFrames;
use std::{fmt, str::FromStr};

/// A single-level replacement policy: a set of events and one question.
///
/// Deterministic: the same calls give the same answers. Per-frame arrays grow to the largest frame number
/// seen, so an instance that owns few frames of a large pool is made by [`build_for_level`].
///
/// # Panics
///
/// A call about a frame that is not in the state it supposes (a hit on an absent frame, an insertion into an
/// occupied one) is a bug of the driver. Debug builds panic; release builds may panic or decide badly, never
/// worse.
pub trait OneLevel: Send {
    /// The policy's name as users write it, for example `2q`.
    fn name(&self) -> &'static str;

    /// Sets the number of frames the policy reckons with, from which it derives its internal targets and the
    /// number of ghosts. It may differ from the number of resident pages at any time, in both directions.
    ///
    /// O(1) for a change by one; O(change) where ghosts have to go. New instances have the capacity given to
    /// their constructor.
    fn resize(&mut self, capacity: u32);

    /// The resident `page` in `frame` was referenced.
    fn hit(&mut self, frame: FrameId, page: PageId);

    /// Names the frame to evict so that `missing` can come in, among the frames for which `busy` is false.
    /// `None` if all are busy, or none is resident. Nothing is removed.
    ///
    /// The driver may refuse the answer, and ask again with a `busy` that knows more. What has happened to
    /// the state by then is said in each policy's file; it is always valid, and no page is lost from it.
    fn victim(&mut self, missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId>;

    /// `page` left `frame`, proposed by [`victim`](Self::victim) or not.
    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure);

    /// `page` came into `frame`: a miss was served, or the block was moved in from another level.
    fn insert(&mut self, frame: FrameId, page: PageId);

    /// Recounts everything from scratch. O(n).
    ///
    /// # Panics
    ///
    /// With a message that says which invariant does not hold.
    fn check_invariants(&self);

    /// Bytes of memory held for frames and ghosts.
    fn metadata_bytes(&self) -> usize;
}

/// Why a page leaves a policy's frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Departure {
    /// To make room. The policy may remember it as a ghost.
    Evicted,
    /// To another level, or because it ceased to exist. The policy forgets it.
    Moved,
}

/// The policies that need no knowledge of the future, which are those a priority level can have.
///
/// [`Opt`] is not among them: it needs the accesses to come, and is made by its own constructor.
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
    pub const ALL: [PolicyKind; 12] = [
        Self::Lru,
        Self::Mru,
        Self::Fifo,
        Self::Clock,
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
    type Err = UnknownPolicy;

    fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
        let known = Self::ALL.into_iter().find(|kind| kind.name() == name);
        known.ok_or_else(|| UnknownPolicy { name: name.to_owned() })
    }
}

/// A name that no [`PolicyKind`] has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownPolicy {
    /// The name as it was given.
    pub name: String,
}

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = PolicyKind::ALL.iter().map(|kind| kind.name()).collect();
        write!(f, "unknown policy {:?}; known are {}", self.name, known.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// A policy for a whole cache, whose frames are numbered densely from 0.
pub fn build(kind: PolicyKind, capacity: u32) -> Box<dyn OneLevel> {
    match kind {
        PolicyKind::Lru => Box::new(Lru::new(capacity)),
        PolicyKind::Mru => Box::new(Mru::new(capacity)),
        PolicyKind::Fifo => Box::new(Fifo::new(capacity)),
        PolicyKind::Clock => Box::new(Clock::new(capacity)),
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

/// The first frame that is not busy, walking `frames` in the order given.
fn first_free(
    mut frames: impl Iterator<Item = u32>,
    busy: &mut dyn FnMut(FrameId) -> bool,
) -> Option<FrameId> {
    frames.find_map(|frame| (!busy(FrameId(frame))).then_some(FrameId(frame)))
}

/// Makes `array` long enough for an entry of `frame`. Amortised O(1).
fn grow<T: Clone + Default>(array: &mut Vec<T>, frame: FrameId) {
    if frame.index() >= array.len() {
        array.resize(frame.index() + 1, T::default());
    }
}

/// `percent` of `capacity`, rounded down.
fn percent_of(percent: u32, capacity: u32) -> u32 {
    (u64::from(percent) * u64::from(capacity) / 100) as u32
}
