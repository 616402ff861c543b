//! What is known of dirty pages: their marks, their log sequence numbers, and how many there are.

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::memory::frame::{Frame, Mark};
use crate::state::pace::BATCH_PAGES;
use crate::state::shared::PoolShared;
use crate::sync::Ordering;

impl PoolShared {
    /// A clean page is about to be changed; called under its exclusive latch.
    ///
    /// `granted_lsn` is where the log ended when the latch was granted.
    pub(crate) fn mark_dirty(&self, frame: &Frame, granted_lsn: u64) {
        if frame.mark_dirty() {
            frame.set_rec_lsn(granted_lsn);
            let dirty = self.counters.dirty_frames.fetch_add(1, Ordering::Relaxed) + 1;
            // Once at the limit, and once in a while above it.
            let limit = self.dirty_limit.load(Ordering::Relaxed);
            let is_due = dirty >= limit && (dirty - limit).is_multiple_of(BATCH_PAGES as u64);
            if is_due && self.owner.is_here() {
                self.write_back.kick();
            }
        }
    }

    /// Notes where the log ends, for a page just latched exclusively. Returns it.
    pub(crate) fn note_grant(&self, frame: &Frame) -> u64 {
        let end = self.log.end();
        // From here on the engine may log a change; until it makes the page dirty, the latch makes this
        // number count.
        if !frame.is_dirty() {
            frame.set_rec_lsn(end);
        }
        end
    }

    /// See [`Pool::min_dirty_lsn`](crate::Pool::min_dirty_lsn).
    pub(crate) fn min_dirty_lsn(&self) -> Option<u64> {
        if !self.log.is_some() || !self.owner.may_call() {
            return None;
        }
        let policy = self.policy.lock();
        let rec_lsn = |frame: &Frame| {
            let page = frame.page()?;
            let word = policy.file(page.file())?.table.get(page.number())?;
            let counts = frame.is_dirty() || word.state().is_exclusive();
            Some(frame.rec_lsn()).filter(|lsn| counts && *lsn != u64::MAX)
        };
        // A departing page stays in its frame until it is written.
        self.frames.iter().filter_map(|(_, frame)| rec_lsn(frame)).min()
    }

    /// For the background writer and explicit flushes only.
    pub(crate) fn advance_log(&self, lsn: u64, operation: &'static str) -> Result<()> {
        self.log.advance(lsn, operation).inspect_err(|_| {
            self.counters.log_failures.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The page's contents as of `mark` are in its file. True if that makes it clean.
    pub(crate) fn mark_clean(&self, entry: &Frame, mark: Mark) -> bool {
        let clean = entry.mark_written(mark);
        if clean {
            self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
        }
        clean
    }

    /// Pages of the file were written; to be called before their latches or frames are given back.
    pub(crate) fn count_written(&self, file: &FileShared, pages: usize) {
        file.set_unsynced();
        self.counters.writes.fetch_add(pages as u64, Ordering::Relaxed);
    }
}
