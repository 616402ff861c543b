//! A second place for pages: pages that leave a pool's memory may be kept there, and a miss looks for its
//! page there before it reads the file.
//!
//! A tier is slower than frames and faster than the file: compressed memory (`CompressedTier`), a local drive
//! before an object store ([`FileTier`]), or memory of another machine. A pool that is given one by
//! [`PoolOptions::tier`](crate::PoolOptions::tier) *demotes* clean, verified pages to it when they leave
//! memory, and on a miss *takes* a page from it (DEMOTE, Wong and Wilkes, USENIX 2002). So the two act as one
//! cache of their summed size.
//!
//! # What a tier may do wrong
//!
//! Anything but block a thread that calls it, and make up an [`Envelope`]. It may lose pages, answer late or
//! never, hand out other bytes, another page, an older version of the page or a buffer of another length,
//! and panic: each of these is a miss in the tier, counted, and the page is read from its file. The pool
//! never serves a page that differs from what its file has, because
//!
//! * a copy carries an [`Envelope`]: name, [`Version`] and a hash of the bytes, which the pool checks;
//! * a miss asks for one version, which the pool knows without I/O, and no two contents of a page have the
//!   same. It changes when the page leaves memory, when its file is shortened below it, and with each opening
//!   of the file. So a copy that should have been [forgotten](Tier::forget) is never asked for again.
//!
//! A tier that keeps envelopes as bytes must not write the version that it is asked for into the envelope of
//! an older copy: the hash covers the bytes alone, and the pool would believe it.
//!
//! Bytes travel in buffers of their own ([`TierPage`], [`TierBuffer`]), never in frames. So a tier that is
//! stuck holds a bounded amount of memory, and no frame.
//!
//! # Is it worth it?
//!
//! The pool compares the time that it waits for the tier with the time that hits in it save. A tier is
//! *passed by* if the waits are more than half of what its hits save, if it refuses nearly every page, if it
//! does not answer, or if as many questions in a row miss as sixteen times the pool's frames. Then pages are
//! read from their files at once. One page in 1,024, in small pools up to one in 64, goes on being demoted,
//! and is asked for beside the read, so that a tier that pays again is used again. If none of these is missed
//! for 16 times as many misses, others take their place, among them the page just missed: so one miss in
//! 16,384 asks the tier at least. A tier in which nothing hits may be cold: for the next 4,096 questions all
//! pages go on being demoted, and are asked for beside the read. If several pools share the tier
//! ([`TierPolicy::DemoteAdapt`]), a pool that it does not pay for goes on demoting all pages, because nobody
//! waits for that, and other pools may be served with them. [`TierStats`] tells.

pub(crate) mod admission;
mod buffer;
pub(crate) mod calls;
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
mod usage;

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
/// Called by any thread of the pool, without the pool's locks, and with no latch held that others could wait
/// for. It must not call into the pool. The [module](self) says what a tier that misbehaves costs the pool.
pub trait Tier: Send + Sync {
    /// A pool begins to use the tier, before any other call. May block.
    ///
    /// # Errors
    ///
    /// If the tier cannot serve this pool, which then does not open. Nor does it if this panics.
    fn attach(&self, to: &Attachment) -> Result<()>;

    /// Offers a page that leaves memory. Never waits: a tier that has no room for it at once refuses. If the
    /// tier has the page already, this one replaces it.
    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted;

    /// Offers a page that has been read from its file, because the tier did not have it. As
    /// [`demote`](Self::demote), but the tier may leave the page to the pool ([`Demoted::PassedUp`]). Called
    /// under [`TierPolicy::Promote`], where the pages that the tier keeps are the first to leave memory, and
    /// under [`TierPolicy::DemoteAdapt`] for files that are open for reading only. By default the tier keeps
    /// no such page.
    fn fill(&self, _page: PageName, _version: Version, _bytes: TierPage) -> Demoted {
        Demoted::PassedUp
    }

    /// Under [`TierPolicy::Promote`], says how long pages stay in memory. Called before a question, if there
    /// is news.
    fn hear_life(&self, _life: Life) {}

    /// Fills the buffer with that version of the page, and forgets the page unless the policy keeps it
    /// there; or says that it has no such copy. Must not wait for I/O, nor for a lock that is held during
    /// I/O: the answer is given to `done`, on any thread, now or later. A thread that answers, or drops
    /// `done`, must hold no lock that a call of the tier needs: see [`TierDone`].
    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone);

    /// These pages are not asked for again in any version that the tier has. Forgetting them only saves
    /// room, so it may be done late or in part.
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
    /// What goes to the tier, and what stays there when it is taken.
    pub policy: TierPolicy,
    /// Frames of the pool.
    pub frames: u32,
    /// The pool is in deterministic mode, so that its answers must not depend on the time.
    pub is_deterministic: bool,
    /// The seed of random choices in that mode.
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

/// How long pages stay in the pool's memory. The unit is accesses that the pool has noted: references and
/// loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Noted accesses so far.
    pub now: u64,
    /// Noted accesses since the last use of the page that left memory last.
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

/// What goes to the tier, and what stays there when a page is taken.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum TierPolicy {
    /// Pages go down when they leave memory, and leave the tier when they are taken: each page is in one
    /// place, and one pool with its tier acts as one LRU list. For a tier of one pool.
    #[default]
    Demote,
    /// As `Demote`, with three differences. Pages that are read from files open for reading only go down as
    /// well. A page that is taken stays in the tier for others. Where a page enters the tier's queue depends
    /// on which kind has been asked for again, pages demoted or pages read. For a tier of several pools,
    /// which read the same pages before any of them has given them up; if each pool wants what the others
    /// have just given up, `Demote` hits more. The tiers of this crate are of one pool, and refuse this
    /// policy.
    DemoteAdapt(Segments),
    /// No page goes down when it leaves memory. A page that is read, from the tier or from its file, is with
    /// some probability passed up to the pool, and then the tier has no copy of it. Otherwise the tier keeps
    /// it, and it is among the first to leave memory. The probability follows how long pages stay in memory
    /// and in the tier (PROMOTE, Gill, FAST 2008). This needs half the transfers of `Demote`, but a page
    /// stays in memory only after a few reads: for a tier whose transfers are expensive, or that several
    /// pools share. Needs [`TierAdmit::All`], because pages are offered before it is known whether they are
    /// used again; a limit of bytes a second still applies.
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
    /// All pages that leave memory, except those of scans that read each page once.
    #[default]
    All,
    /// Pages that came back before as many other pages had left memory as the pool has frames, alone and not
    /// in a run of neighbours.
    SecondEviction,
    /// Pages that were accessed again while they were in memory.
    HitOnce,
}

/// The error of opening a pool with a tier that another pool uses.
fn in_use() -> Error {
    let message = "the tier is another pool's, expected one that no pool uses";
    Error::new(ErrorKind::InvalidOptions, "open tier", message)
}
