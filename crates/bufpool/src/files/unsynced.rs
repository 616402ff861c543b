//! What was written to a file and may not be on its device yet, and from where on the log is needed for it.
//!
//! A page is written, that is noted here, and only then the page counts as clean. So a flush that finds it
//! clean finds it here, or comes after the sync that has covered it.

use crate::sync::{AtomicBool, AtomicU64, Ordering};

/// No log record is needed.
const NONE: u64 = u64::MAX;

/// See the [module](self). There is one sync at a time.
pub(crate) struct Unsynced {
    /// Something was written since the last sync began.
    is_any: AtomicBool,
    /// The least log sequence number of changes of pages written since the last sync began.
    written: AtomicU64,
    /// Of those that the sync under way covers, or that a failed one has not made durable.
    syncing: AtomicU64,
}

impl Unsynced {
    /// No log record is needed. `is_any`: what is found in the file may be as little durable as what was
    /// written.
    pub fn new(is_any: bool) -> Self {
        Self { is_any: AtomicBool::new(is_any), written: AtomicU64::new(NONE), syncing: AtomicU64::new(NONE) }
    }

    /// Something was written. To be called before a written page counts as clean.
    pub fn set(&self) {
        // Release: a sync that sees this covers what was written. An exchange, as that of `begin_sync`: of
        // these the model checker knows that each sees the one before.
        self.is_any.swap(true, Ordering::Release);
    }

    /// Whether a flush would sync the file.
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The write of a page is over, whose changes were logged from `rec_lsn` on. To be called before the page
    /// counts as clean.
    pub fn note(&self, rec_lsn: u64) {
        self.written.fetch_min(rec_lsn, Ordering::AcqRel);
    }

    /// Whether a number was noted since the last sync began.
    fn is_noted(&self) -> bool {
        self.written.load(Ordering::Acquire) != NONE
    }

    /// A sync begins, unless nothing was written since the last one began. [`least`](Self::least) sees all
    /// the while what it covers.
    pub fn begin_sync(&self) -> bool {
        // Numbers are noted after writes: one may be left of a write that an earlier sync has covered.
        let is_any = self.is_any.swap(false, Ordering::AcqRel) || self.is_noted();
        if is_any {
            self.move_noted();
        }
        is_any
    }

    fn move_noted(&self) {
        let mut noted = self.written.load(Ordering::Acquire);
        loop {
            self.syncing.fetch_min(noted, Ordering::AcqRel);
            match self.written.compare_exchange(noted, NONE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(lesser) => noted = lesser,
            }
        }
    }

    /// What was written before the sync began is on the device.
    pub fn forget_synced(&self) {
        self.syncing.store(NONE, Ordering::Release);
    }

    /// What the device has is taken for the file: no log record is needed. `is_any` as at first.
    pub fn begin_anew(&self, is_any: bool) {
        self.move_noted();
        self.forget_synced();
        self.is_any.store(is_any, Ordering::Release);
    }

    /// The least number of all.
    pub fn least(&self) -> Option<u64> {
        // In this order, since numbers go from `written` to `syncing`.
        let [written, syncing] = [&self.written, &self.syncing].map(|lsn| lsn.load(Ordering::Acquire));
        Some(written.min(syncing)).filter(|lsn| *lsn != NONE)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_number_stays_until_a_sync_that_began_later_has_succeeded() {
        let lsn = Unsynced::new(false);
        assert_eq!((lsn.least(), lsn.is_noted()), (None, false));
        assert!(!lsn.begin_sync());
        lsn.note(7);
        lsn.note(9);
        assert!(lsn.begin_sync());
        assert_eq!((lsn.least(), lsn.is_noted()), (Some(7), false));
        lsn.note(8);
        assert_eq!(lsn.least(), Some(7));
        lsn.forget_synced();
        assert_eq!((lsn.least(), lsn.is_noted()), (Some(8), true));
        // A sync that fails forgets nothing.
        assert!(lsn.begin_sync());
        lsn.note(12);
        assert!(lsn.begin_sync());
        assert_eq!(lsn.least(), Some(8));
        lsn.forget_synced();
        assert_eq!(lsn.least(), None);
        lsn.note(3);
        lsn.begin_anew(true);
        assert_eq!((lsn.least(), lsn.is_any()), (None, true));
    }

    #[test]
    fn what_was_written_is_synced_once() {
        let unsynced = Unsynced::new(true);
        assert!(unsynced.is_any() && unsynced.begin_sync() && !unsynced.is_any());
        assert!(!unsynced.begin_sync());
        unsynced.set();
        assert!(unsynced.begin_sync() && !unsynced.begin_sync());
    }
}
