//! From where on the log is needed for what was written to a file and may not be on its device yet.

use crate::sync::{AtomicU64, Ordering};

/// No log record is needed.
const NONE: u64 = u64::MAX;

/// Least log sequence numbers of changes that were written and not synced.
pub(crate) struct UnsyncedLsn {
    /// Of pages written since the last sync began.
    written: AtomicU64,
    /// Of those that the sync under way covers, or that a failed one has not made durable.
    syncing: AtomicU64,
}

impl UnsyncedLsn {
    /// Nothing was written yet.
    pub fn new() -> Self {
        Self { written: AtomicU64::new(NONE), syncing: AtomicU64::new(NONE) }
    }

    /// The write of a page is over, whose changes were logged from `rec_lsn` on. To be called before the page
    /// counts as clean.
    pub fn note(&self, rec_lsn: u64) {
        self.written.fetch_min(rec_lsn, Ordering::AcqRel);
    }

    /// Whether something was noted since the last sync began.
    pub fn is_noted(&self) -> bool {
        self.written.load(Ordering::Acquire) != NONE
    }

    /// A sync begins; there is one at a time. [`least`](Self::least) sees all the while what it covers.
    pub fn begin_sync(&self) {
        let mut noted = self.written.load(Ordering::Acquire);
        loop {
            self.syncing.fetch_min(noted, Ordering::AcqRel);
            match self.written.compare_exchange(noted, NONE, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return,
                Err(lesser) => noted = lesser,
            }
        }
    }

    /// What was written before the sync began is on the device, or what the device has is taken for the file.
    pub fn forget_synced(&self) {
        self.syncing.store(NONE, Ordering::Release);
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
        let lsn = UnsyncedLsn::new();
        assert_eq!((lsn.least(), lsn.is_noted()), (None, false));
        lsn.note(7);
        lsn.note(9);
        lsn.begin_sync();
        assert_eq!((lsn.least(), lsn.is_noted()), (Some(7), false));
        lsn.note(8);
        assert_eq!(lsn.least(), Some(7));
        lsn.forget_synced();
        assert_eq!((lsn.least(), lsn.is_noted()), (Some(8), true));
        // A sync that fails forgets nothing.
        lsn.begin_sync();
        lsn.note(12);
        lsn.begin_sync();
        assert_eq!(lsn.least(), Some(8));
        lsn.forget_synced();
        assert_eq!(lsn.least(), None);
    }
}
