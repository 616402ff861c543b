//! Which pages may be taken from their frames: the rules, the directory's questions about them, and what it
//! then hands out.

use std::sync::Arc;

use bufpool_policies::{Claims, FrameId, PageId, TenantId};

use crate::files::open::OpenFiles;
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::memory::frame::{Frame, FrameTable};
use crate::memory::lease::FrameLease;
use crate::memory::reserve::Reserve;
use crate::page::latch::{Exclusive, Latch};
use crate::policy::ahead::BUSY_MAX;

/// A page that must leave.
pub(crate) struct Victim {
    /// Its word, held exclusively.
    pub latch: Latch<OwnedWord, Exclusive>,
    pub page: PageId,
    pub owner: TenantId,
    /// Of a dirty one: a frame of the reserve for the page that comes in, if there was one, so that this one
    /// may leave later.
    pub spare: Option<FrameLease>,
}

/// A frame for a page that must come in.
pub(crate) enum Admitted {
    /// It was free.
    Free(FrameLease),
    /// This page must leave first.
    Evict(Victim),
}

impl Admitted {
    /// Where the page comes in.
    pub fn frame(&self) -> FrameId {
        match self {
            Self::Free(lease) | Self::Evict(Victim { spare: Some(lease), .. }) => lease.frame(),
            Self::Evict(victim) => victim.latch.frame(),
        }
    }

    /// Whether the page, if it comes in at all, comes into this frame.
    pub fn keeps_frame(&self, frames: &FrameTable) -> bool {
        match self {
            Self::Free(_) | Self::Evict(Victim { spare: Some(_), .. }) => true,
            Self::Evict(Victim { latch, .. }) => !frames.get(latch.frame()).is_dirty(),
        }
    }

    /// Whether emptying the frame can neither fail nor make anybody wait.
    pub fn is_settled(&self, frames: &FrameTable) -> bool {
        let has_readers = |frame| frames.get(frame).may_have_readers();
        match self {
            Self::Free(lease) | Self::Evict(Victim { spare: Some(lease), .. }) => !has_readers(lease.frame()),
            Self::Evict(Victim { latch, .. }) => {
                !frames.get(latch.frame()).is_dirty() && !latch.word().file().optimistic
            }
        }
    }
}

/// What decides whether a page may be taken from its frame.
pub(crate) struct ClaimRules<'a> {
    pub frames: &'a FrameTable,
    /// Gives a frame for a dirty victim. The victim is then written later, by a thread that may advance the
    /// log first, so `durable_lsn` does not matter for it.
    pub reserve: &'a Reserve,
    /// The log is durable up to here.
    pub durable_lsn: u64,
    pub dirty: Dirty,
    /// Pages of optimistic files may be evicted. Their frames may have to be set aside until optimistic
    /// readers have left.
    pub takes_optimistic: bool,
}

/// What may become of dirty victims.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dirty {
    /// Exchanged for a frame of the reserve, or written by the caller.
    Written,
    /// Exchanged for a frame of the reserve.
    Exchanged,
    /// None may be taken; and after [`BUSY_MAX`] frames that cannot be taken the question ends.
    Left,
}

impl ClaimRules<'_> {
    /// The page in `frame` could be evicted as far as everything but its latch is concerned.
    ///
    /// A page whose write is in flight could not be evicted, because the end of the write marks the frame. So
    /// the choice of victims deviates from the exact order of the ledger, for the time of one write, where a
    /// background writer or a flush runs.
    fn allows(&self, frame: &Frame, file: &FileShared) -> bool {
        frame.pins() == 0
            && !frame.is_writing()
            && (self.takes_optimistic || !file.optimistic)
            && (!frame.is_dirty()
                || !file.is_poisoned()
                    && match self.dirty {
                        Dirty::Written => self.reserve.has_free() || frame.page_lsn() <= self.durable_lsn,
                        Dirty::Exchanged => self.reserve.has_free(),
                        Dirty::Left => false,
                    })
    }

    /// A frame of the reserve in exchange for that of a page which must leave.
    pub fn spare_for(&self, frame: FrameId) -> Option<FrameLease> {
        if self.frames.get(frame).is_dirty() { self.reserve.take() } else { None }
    }
}

/// The directory's questions, answered from page words and the frame table. Never waits.
pub(super) struct PoolClaims<'a> {
    pub rules: &'a ClaimRules<'a>,
    files: &'a OpenFiles,
    /// The page that the directory claimed last.
    taken: &'a mut Option<Latch<OwnedWord, Exclusive>>,
    /// Frames found busy.
    busy: u32,
}

impl<'a> PoolClaims<'a> {
    /// What the directory claims comes to lie in `taken`, which has nothing.
    pub fn new(
        rules: &'a ClaimRules<'a>,
        files: &'a OpenFiles,
        taken: &'a mut Option<Latch<OwnedWord, Exclusive>>,
    ) -> Self {
        Self { rules, files, taken, busy: 0 }
    }

    fn page_and_file(&self, frame: FrameId) -> Option<(PageId, &Arc<FileShared>)> {
        let page = self.rules.frames.get(frame).page()?;
        Some((page, self.files.get(page.file())?))
    }
}

impl Claims for PoolClaims<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        let could_be_taken = self.page_and_file(frame).is_some_and(|(page, file)| {
            let unlatched = file.table.get(page.number()).is_some_and(|word| word.state().is_unlatched());
            unlatched && self.rules.allows(self.rules.frames.get(frame), file)
        });
        self.busy += u32::from(!could_be_taken);
        !could_be_taken
    }

    fn is_modified(&mut self, frame: FrameId) -> bool {
        self.rules.frames.get(frame).is_dirty()
    }

    fn gives_up(&self) -> bool {
        self.rules.dirty == Dirty::Left && self.busy >= BUSY_MAX
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        let Some(page) = self.rules.frames.get(frame).page() else { return false };
        let Some(file) = self.files.shard(page.file()) else { return false };
        let word = OwnedWord::of_shard(file.clone(), page.number());
        let latch = Latch::try_new(word);
        // Pins, dirtiness and the right to write change only under a latch, so what holds now goes on
        // holding.
        let allows = |latch: &Latch<OwnedWord, Exclusive>| {
            latch.frame() == frame && self.rules.allows(self.rules.frames.get(frame), file)
        };
        *self.taken = latch.ok().filter(allows);
        self.taken.is_some()
    }
}
