//! What is known of dirty pages: their marks, their log sequence numbers, and how many there are.

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::memory::frame::{Frame, Mark};
use crate::policy::state::PolicyState;
use crate::state::pace::BATCH_PAGES;
use crate::state::shared::PoolShared;
use crate::sync::Ordering;

/// Frames that are looked at under one hold of the policy lock.
const FRAMES_A_PIECE: usize = 1024;

/// The log sequence number from which on the changes were logged that the page in `frame` has and its file
/// lacks. None if there are none.
fn rec_lsn(frame: &Frame, policy: &PolicyState) -> Option<u64> {
    let lsn = Some(frame.rec_lsn()).filter(|lsn| *lsn != u64::MAX)?;
    let page = frame.page()?;
    if frame.is_dirty() {
        return Some(lsn);
    }
    // The page is clean. Its number counts only under an exclusive latch: the holder may have logged a change
    // before it marks the page dirty.
    let word = policy.file(page.file())?.table.get(page.number())?;
    word.state().is_exclusive().then_some(lsn)
}

impl PoolShared {
    /// A clean page is about to be changed; called under its exclusive latch.
    ///
    /// `granted_lsn` is where the log ended when the latch was granted.
    pub(crate) fn mark_dirty(&self, frame: &Frame, granted_lsn: u64) {
        if frame.mark_dirty() {
            frame.set_rec_lsn(granted_lsn);
            let dirty = self.counters.dirty_frames.fetch_add(1, Ordering::Relaxed) + 1;
            // Wakes the writer at the limit, and for every [`BATCH_PAGES`] pages above it.
            let limit = self.dirty_limit.load(Ordering::Relaxed);
            // A small pool has no [`BATCH_PAGES`] above its limit.
            let step = (limit / 8).clamp(1, BATCH_PAGES as u64);
            let is_due = dirty >= limit && (dirty - limit).is_multiple_of(step);
            if is_due && self.owner.is_here() {
                self.write_back.kick();
            }
        }
    }

    /// Notes where the log ends, for a page just latched exclusively. Returns it.
    pub(crate) fn note_grant(&self, frame: &Frame) -> u64 {
        let end = self.log.end();
        // From here on the engine may log a change. Until it marks the page dirty, this number counts because
        // the page is latched exclusively.
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
        self.min_rec_lsn(|_| {})
    }

    /// The least [`rec_lsn`] of all frames. Looks at [`FRAMES_A_PIECE`] frames at a time, and calls `between`
    /// after each piece with the least so far.
    ///
    /// A change that was logged before the first piece is found in whatever piece its frame is: a departing
    /// page stays in its frame until it is written. A change that is logged later may be of a page in a piece
    /// that is done, so the result is at most where the log ended at the start. Files are looked at last:
    /// what is written meanwhile is noted there before its frame is clean.
    fn min_rec_lsn(&self, mut between: impl FnMut(Option<u64>)) -> Option<u64> {
        let end = self.log.end();
        let mut least: Option<u64> = None;
        for piece in self.frames.pieces(FRAMES_A_PIECE) {
            {
                let policy = self.policy.lock();
                let in_piece = piece.iter().filter_map(|frame| rec_lsn(frame, &policy)).min();
                least = least.into_iter().chain(in_piece).min();
            }
            between(least);
        }
        let unsynced = self.policy.lock().files.iter().filter_map(|file| file.unsynced.least()).min();
        least.into_iter().chain(unsynced).min().map(|least| least.min(end))
    }

    /// Makes the log durable up to `lsn`, which may wait as long as the engine likes. For the background
    /// writer and explicit flushes only; misses never advance the log.
    pub(crate) fn advance_log(&self, lsn: u64, operation: &'static str) -> Result<()> {
        self.log.advance(lsn, operation).inspect_err(|_| {
            self.counters.log_failures.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// The page in `entry` was written to `file`, and is not synced.
    pub(crate) fn note_unsynced(&self, file: &FileShared, entry: &Frame) {
        if self.log.is_some() {
            file.unsynced.note(entry.rec_lsn());
        }
    }

    /// The contents as of `mark` of a page of `file` were written. True if that makes it clean.
    pub(crate) fn mark_clean(&self, file: &FileShared, entry: &Frame, mark: Mark) -> bool {
        self.note_unsynced(file, entry);
        let clean = entry.mark_written(mark);
        if clean {
            self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
        }
        clean
    }

    /// Pages of the file were written; to be called before their latches or frames are given back.
    pub(crate) fn count_written(&self, file: &FileShared, pages: usize) {
        file.unsynced.set();
        self.counters.writes.fetch_add(pages as u64, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    use super::*;
    use crate::engine::log::Log;
    use crate::io::sim::SimDevice;
    use crate::{File, FileOptions, Pool, PoolOptions};

    /// What is promised of a hold, whatever the size of a piece.
    const FEW_FRAMES: usize = 1024;
    const FRAMES: usize = 3 * FEW_FRAMES;
    const PAGES: u64 = 1024;

    /// Its end, one above the last record.
    struct Counted(Arc<AtomicU64>);

    impl Log for Counted {
        fn end(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }

        fn durable(&self) -> u64 {
            self.end()
        }

        fn advance(&self, _: u64) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Ok(())
        }
    }

    struct World {
        pool: Pool,
        file: File,
        log_end: Arc<AtomicU64>,
    }

    impl World {
        fn new() -> Self {
            let device = SimDevice::new(1);
            device.put("data", &vec![0; 512 * FRAMES]);
            let log_end = Arc::new(AtomicU64::new(1));
            let options = PoolOptions::new().page_bytes(512).frames(FRAMES as u32).read_ahead(false);
            let options = options.log(Box::new(Counted(Arc::clone(&log_end))));
            let pool = options.open_on(&device).unwrap();
            let file = pool.open_file("data", FileOptions::new()).unwrap();
            Self { pool, file, log_end }
        }

        /// Changes a page, and logs that.
        fn change(&self, page: u64) -> u64 {
            let tenant = self.pool.default_tenant();
            let mut guard = tenant.write(self.file.page(page)).unwrap();
            let lsn = self.log_end.fetch_add(1, Ordering::SeqCst);
            guard[0] = 1;
            guard.set_lsn(lsn);
            lsn
        }

        /// The piece of frames that a page lies in.
        fn piece(&self, page: u64) -> usize {
            let word = self.file.shared.table.get(page).unwrap();
            word.state().resident_frame().unwrap().index() / FRAMES_A_PIECE
        }

        /// A page in the frames of this piece.
        fn page_in(&self, piece: usize) -> u64 {
            let tenant = self.pool.default_tenant();
            let mut pages = 0..2 * PAGES;
            let found = pages.find(|page| {
                drop(tenant.read(self.file.page(*page)).unwrap());
                self.piece(*page) == piece
            });
            found.expect("a page in each piece")
        }
    }

    #[test]
    fn the_policy_lock_is_held_for_a_few_frames_at_a_time() {
        let world = World::new();
        let lsn = world.change(7);
        let holds = || world.pool.shared().policy.lock().counts().holds;
        let before = holds();
        assert_eq!(world.pool.min_dirty_lsn(), Some(lsn));
        assert!(holds() - before > (FRAMES / FEW_FRAMES) as u64);
    }

    #[test]
    fn what_changes_behind_the_look_is_not_logged_before_the_answer() {
        let world = World::new();
        let (early, late) = (world.page_in(0), world.page_in(1));
        let mut pieces = 0;
        let mut logged = Vec::new();
        let least = world.pool.shared().min_rec_lsn(|_| {
            pieces += 1;
            if pieces == 1 {
                logged = vec![world.change(early), world.change(late)];
            }
        });
        assert!(least.is_some_and(|least| least <= logged[0]), "{least:?} of {logged:?}");
        world.pool.shared().min_rec_lsn(|least| assert_eq!(least, Some(logged[0])));
    }
}
