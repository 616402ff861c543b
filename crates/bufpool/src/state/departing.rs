//! The one way out of a frame.

use std::sync::atomic::Ordering;

use bufpool_policies::{FileId, FrameId, PageId};

use crate::files::word::OwnedWord;
use crate::memory::frame::Below;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Exclusive, HeldWord, Latch};
use crate::state::shared::PoolShared;
use crate::tier::link::Demotion;

/// Why a page leaves memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reason {
    /// Another page comes in, and the file has the same contents.
    Clean,
    /// Another page comes in, and the contents have just been written to the file.
    Written,
    /// Its file is closed, removed, reopened or shortened; dirty contents are lost.
    Dropped,
}

/// A page on its way out, still in its frame: its word is held exclusively, and the frame's lease is here.
///
/// It [finishes](Self::finish) or is [restored](Self::restore). Dropping it instead makes the page absent and
/// loses the frame.
#[must_use = "a lost departure is a lost frame"]
pub(crate) struct Departing {
    word: HeldWord<OwnedWord>,
    lease: FrameLease,
}

/// The word of a page that has left. Dropping it makes the page absent and wakes threads that wait for the
/// word.
#[must_use = "dropping it makes the page absent; some callers give back frames first"]
pub(crate) struct Absence {
    // Dropped in this order: the page is offered to the tier when nobody waits for its word any more.
    _word: HeldWord<OwnedWord>,
    _demotion: Option<Box<Demotion>>,
}

impl Departing {
    /// The latched page is to leave.
    pub fn new(latch: Latch<OwnedWord, Exclusive>) -> Self {
        let (word, lease) = latch.depart();
        Self { word, lease }
    }

    /// Of the parts of another, the lease of which was lent to a transfer.
    pub fn from_parts(word: HeldWord<OwnedWord>, lease: FrameLease) -> Self {
        Self { word, lease }
    }

    /// The lease goes into a transfer, and the word waits for its end.
    pub fn into_parts(self) -> (HeldWord<OwnedWord>, FrameLease) {
        (self.word, self.lease)
    }

    pub fn word(&self) -> &OwnedWord {
        self.word.word()
    }

    pub fn lease(&self) -> &FrameLease {
        &self.lease
    }

    pub fn frame(&self) -> FrameId {
        self.lease.frame()
    }

    /// What departures are sorted by.
    pub fn place(&self) -> (FileId, u64) {
        (self.word().file().id, self.word().number())
    }

    /// The page has left: its frame is empty, the departure is counted, and the page is absent once the
    /// second result is dropped. The only place where a page leaves a frame.
    pub fn finish(self, pool: &PoolShared, reason: Reason) -> (FrameLease, Absence) {
        let Self { word, lease } = self;
        let frame = pool.frames.get(lease.frame());
        let (file, number) = (word.word().file(), word.word().number());
        debug_assert_eq!(frame.page(), Some(PageId::in_file(file.id, number)));
        let goes_down = reason != Reason::Dropped && pool.tier.is_some();
        let demotion = if goes_down { self::demotion(pool, word.word(), &lease) } else { None };
        if reason == Reason::Written {
            pool.note_unsynced(file, frame);
        }
        let was_dirty = frame.vacate(file.optimistic);
        debug_assert!(!was_dirty || reason != Reason::Clean, "a dirty page is written before it leaves");
        debug_assert!(was_dirty || reason != Reason::Written, "nobody else cleans a departing page");
        match reason {
            Reason::Clean => pool.counters.left_clean.add(1),
            Reason::Written => _ = pool.counters.left_written.fetch_add(1, Ordering::Relaxed),
            Reason::Dropped => _ = pool.counters.left_dropped.fetch_add(1, Ordering::Relaxed),
        }
        if was_dirty {
            pool.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
        }
        (lease, Absence { _word: word, _demotion: demotion })
    }

    /// The page stays in its frame.
    pub fn restore(self) {
        self.word.restore(self.lease);
    }
}

/// A copy for the tier of a page that leaves the frame of this lease, if it is one for the tier.
#[cold]
fn demotion(pool: &PoolShared, word: &OwnedWord, lease: &FrameLease) -> Option<Box<Demotion>> {
    let (tier, file, frame) = (pool.tier.as_ref()?, word.file(), pool.frames.get(lease.frame()));
    let (name, version) = (file.page_name(word.number()), file.version(word.state()));
    let (contents, prepare) = (pool.arena.bytes(lease), |bytes: &mut [u8]| pool.make_as_in_file(name, bytes));
    if !tier.promotes() {
        return tier.offer(name, version, frame.worth(), contents, prepare).map(Box::new);
    }
    // Pages of a read-only file keep their version, so a copy in the tier stays valid as it is.
    let is_renewed = frame.below() != Below::Nothing && !file.is_read_only();
    if is_renewed { tier.renew(name, version, contents, prepare).map(Box::new) } else { None }
}
