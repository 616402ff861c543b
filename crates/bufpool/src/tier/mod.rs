//! A second place for pages: what a pool gives up it may keep there, and what it needs again it looks for
//! there before it reads the file.
//!
//! A tier is slower than frames and faster than the file: compressed memory (`CompressedTier`), a local drive
//! before an object store ([`FileTier`]), or memory of another machine. A pool that is given one by
//! [`PoolOptions::tier`](crate::PoolOptions::tier) *demotes* clean, verified pages to it when they leave
//! memory, and on a miss *takes* a page from it (DEMOTE, Wong and Wilkes, USENIX 2002). So the two act as one
//! cache of their summed size.
//!
//! # What a tier may do wrong
//!
//! Anything but keep a thread, and make up an [`Envelope`]. It may lose pages, answer late or never, hand out
//! other bytes, another page, an older version of the page or a buffer of another length, and panic: each of
//! these is a miss in the tier, counted, and the page is read from its file. No page is ever served that
//! differs from what its file has, because
//!
//! * a copy carries an [`Envelope`]: name, [`Version`] and a hash of the bytes, which the pool checks;
//! * a miss asks for one version, which the pool knows without I/O, and no two contents of a page have the
//!   same. It changes when the page leaves memory, when its file is shortened below it, and with each opening
//!   of the file. So a copy that should have been [forgotten](Tier::forget) is never asked for again.
//!
//! A tier that keeps envelopes as bytes must not write the version that it is asked for into that of an older
//! copy: the hash is of the bytes alone, and the pool would believe it.
//!
//! Bytes travel in buffers of the tier's own ([`TierPage`], [`TierBuffer`]), never in frames: what a tier
//! that is stuck holds is bounded, and no memory of the pool waits for it.
//!
//! # Is it worth it?
//!
//! The pool compares what it waits for the tier with what hits in it save. A tier is *passed by* if it costs
//! more than half of that, refuses nearly every page, does not answer, or hits none of as many questions in a
//! row as sixteen times the pool's frames: then pages are read from their files at once. One page in 1,024,
//! of small pools one in 64, goes on being demoted, and asked for beside the read, so that a tier that pays
//! again is used again. One in which nothing hits may be cold: for the next 4,096 questions all pages go on
//! being demoted, and are asked for beside the read. To a tier that several pools share
//! ([`TierPolicy::DemoteAdapt`]) a pool that it does not pay for goes on demoting all pages: nobody waits for
//! that, and others may be served with them. [`TierStats`] tells.

pub(crate) mod admission;
mod buffer;
#[cfg(feature = "zstd")]
mod compressed;
mod copies;
mod deadlines;
mod done;
mod file;
mod gauge;
mod hash;
pub(crate) mod link;
#[cfg(all(test, not(bufpool_loom)))]
pub(crate) mod loses;
mod memory;
mod questions;
mod stats;

use std::ops::Range;
use std::sync::Arc;

use bufpool_policies::FileId;
pub use bufpool_policies::tier::Segments;

pub use buffer::{Envelope, TierBuffer, TierPage};
#[cfg(feature = "zstd")]
pub use compressed::CompressedTier;
pub use done::TierDone;
pub use file::FileTier;
pub use gauge::PassedBy;
pub use memory::MemoryTier;
pub use stats::{TierReport, TierStats};

use crate::engine::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{Backend, Opener};

/// A second place for clean, verified pages. It may lose any of them at any time; nothing is lost with it.
///
/// Called by any thread of the pool, without its locks, and with no latch that others could wait for. It must
/// not call into the pool. What it costs the pool when it misbehaves is said in the [module](self).
pub trait Tier: Send + Sync {
    /// A pool begins to use the tier, before any other call. May block.
    ///
    /// # Errors
    ///
    /// If the tier cannot serve this pool, which then does not open.
    fn attach(&self, to: &Attachment) -> Result<()>;

    /// Offers a page that leaves memory. Never waits: a tier that has no room for it at once refuses. The
    /// same page again replaces what is there.
    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted;

    /// A page has been read from its file, because the tier did not have it. As [`demote`](Self::demote), but
    /// the tier may leave the page to the pool ([`Demoted::PassedUp`]). Called under [`TierPolicy::Promote`],
    /// where the pool gives up first what the tier keeps, and under [`TierPolicy::DemoteAdapt`] for files
    /// that are open for reading only. A tier that does not define this keeps none.
    fn fill(&self, _page: PageName, _version: Version, _bytes: TierPage) -> Demoted {
        Demoted::PassedUp
    }

    /// Under [`TierPolicy::Promote`]: how long pages stay in memory. Told before questions.
    fn hear_life(&self, _life: Life) {}

    /// Fills the buffer with that version of the page, and forgets the page unless the policy keeps it there;
    /// or says that it has no such copy. May wait for I/O neither itself nor by a lock: the answer comes by
    /// `done`, on any thread, now or later. Whoever answers, or drops `done`, holds no lock that a call of
    /// the tier wants: see [`TierDone`].
    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone);

    /// These pages are not asked for again in any version that the tier has. A call saves room and nothing
    /// depends on it: it may be late, and be done in part.
    fn forget(&self, pages: TierRange);

    /// What it has and what it did.
    fn report(&self) -> TierReport;

    /// The pool is closing and makes no more calls but `report`; those that were running on other threads are
    /// over, unless one has taken longer than `tier_wait_ms`. Does not wait for I/O that may be stuck.
    fn detach(&self) {}
}

/// What a tier is told of the pool that uses it.
#[non_exhaustive]
pub struct Attachment {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// What goes down, and what stays below.
    pub policy: TierPolicy,
    /// Frames of the pool.
    pub frames: u32,
    /// The pool is in deterministic mode, so that its answers must not depend on the time.
    pub is_deterministic: bool,
    /// Of what is drawn at random in that mode.
    pub seed: u64,
    /// Opens files for the backend.
    pub(crate) opener: Arc<dyn Opener>,
    /// Moves their bytes.
    pub(crate) backend: Arc<dyn Backend>,
}

/// Which contents of a page: see the [module](self).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Version {
    /// Drawn at random with each opening and reopening of the file for writing. Of a file that is open for
    /// reading only, that of [`FileOptions::epoch`](crate::FileOptions::epoch), if the engine gave one.
    pub epoch: u64,
    /// Differs from one stay of the page in memory to the next; 0 in a file that is open for reading only.
    pub count: u64,
}

/// How long pages stay in the pool's memory, in accesses that the pool has noted: references and loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// How many there have been.
    pub now: u64,
    /// How many since the last use of the page that left last.
    pub age: u64,
}

/// Neighbouring pages of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TierRange {
    /// The file's number in the pool.
    pub file: FileId,
    /// The engine's number for the file.
    pub file_tag: u64,
    /// Numbers of the pages.
    pub pages: Range<u64>,
}

/// What a tier made of a page that it was offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Demoted {
    /// It keeps the page.
    Stored,
    /// It had the page, and keeps it as it is offered.
    Present,
    /// It has no room at once, or cannot reach its place.
    Refused,
    /// It leaves the page to the pool: see [`Tier::fill`].
    PassedUp,
}

/// What goes down, and what stays below when a page is taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum TierPolicy {
    /// Pages go down when they leave memory, and leave the tier when they are taken: each page is in one
    /// place, and one pool with its tier acts as one LRU list. For a tier of one pool.
    #[default]
    Demote,
    /// As `Demote`, but pages that are read from files open for reading only go down as well, a page that is
    /// taken stays below for others, and where a page enters the tier's queue depends on which kind has been
    /// asked for again, those demoted or those read. For a tier of several pools, which read the same pages
    /// before any of them has given them up; where each wants what the others have just given up, `Demote`
    /// hits more. The tiers of this crate are of one pool, and refuse it.
    DemoteAdapt(Segments),
    /// No page goes down when it leaves memory. One that is read, from the tier or from its file, is passed
    /// up with a probability, and the tier has no copy then; else the tier keeps it, and it is the first to
    /// leave memory. The probability follows how long pages stay in memory and in the tier (PROMOTE, Gill,
    /// FAST 2008). Half the transfers of `Demote`, and a page is in memory to stay only after a few reads:
    /// for a tier whose transfers are dear, or that several pools share. Needs [`TierAdmit::All`], because
    /// pages are offered before anybody could know what they are worth; a limit of bytes a second holds.
    Promote,
    /// Pages go down when they leave memory, stay below when they are taken, and are not written again if
    /// they come back unchanged. For a tier much larger than the pool, where wear and bandwidth matter more
    /// than its size.
    Inclusive,
}

/// Which pages are offered to a tier.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum TierAdmit {
    /// All that leave memory, but those of scans that read their pages once.
    #[default]
    All,
    /// Those that came back, alone and not in a run of neighbours, before as many other pages had left memory
    /// as the pool has frames.
    SecondEviction,
    /// Those that were accessed again while they were in memory.
    HitOnce,
}

/// The error of a pool that wants a tier which has one.
fn in_use() -> Error {
    let message = "the tier is another pool's, expected one that no pool uses";
    Error::new(ErrorKind::InvalidOptions, "open tier", message)
}
