//! What was written and not synced.

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::files::unsynced::Unsynced;
use crate::sync::{AtomicU64, Mutex, Ordering};

/// A page is written and becomes clean while a sync begins. Whoever finds it clean finds what its redo needs.
#[test]
fn what_was_written_is_seen_until_it_is_synced() {
    model(|| {
        let shared = Arc::new((Unsynced::new(false), AtomicU64::new(0)));
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

/// A page is written and becomes clean while another thread flushes. Whoever finds it clean and flushes finds
/// it on the device, though the other flush may have had the sync.
#[test]
fn what_is_clean_is_durable_after_a_flush() {
    struct File {
        unsynced: Unsynced,
        is_clean: AtomicU64,
        /// Held during a sync.
        sync: Mutex<()>,
        written: AtomicU64,
        durable: AtomicU64,
    }

    fn flush(file: &File) {
        let _one_at_a_time = file.sync.lock();
        if file.unsynced.begin_sync() {
            file.durable.store(file.written.load(Ordering::Relaxed), Ordering::Relaxed);
            file.unsynced.forget_synced();
        }
    }

    model(|| {
        let file = Arc::new(File {
            unsynced: Unsynced::new(false),
            is_clean: AtomicU64::new(0),
            sync: Mutex::default(),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
        });
        let writing = {
            let file = Arc::clone(&file);
            thread::spawn(move || {
                file.written.store(1, Ordering::Relaxed);
                file.unsynced.set();
                file.is_clean.store(1, Ordering::Release);
            })
        };
        let flushing = {
            let file = Arc::clone(&file);
            thread::spawn(move || flush(&file))
        };
        let is_clean = file.is_clean.load(Ordering::Acquire) == 1;
        flush(&file);
        assert!(!is_clean || file.durable.load(Ordering::Relaxed) == 1, "clean, and not on the device");
        writing.join().unwrap();
        flushing.join().unwrap();
    });
}
