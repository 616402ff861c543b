//! What was written and not synced.

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::files::unsynced::UnsyncedLsn;
use crate::sync::{AtomicU64, Ordering};

/// A page is written and becomes clean while a sync begins. Whoever finds it clean finds what its redo needs.
#[test]
fn what_was_written_is_seen_until_it_is_synced() {
    model(|| {
        let shared = Arc::new((UnsyncedLsn::new(), AtomicU64::new(0)));
        let writing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.0.note(5);
                shared.1.store(1, Ordering::Release);
            })
        };
        let syncing = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || shared.0.begin_sync())
        };
        let is_clean = shared.1.load(Ordering::Acquire) == 1;
        let least = shared.0.least();
        assert!(!is_clean || least == Some(5), "{least:?}");
        writing.join().unwrap();
        syncing.join().unwrap();
        assert_eq!(shared.0.least(), Some(5));
    });
}
