//! Shares that threads keep in hand.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::thread::spare::Spare;

/// A guard ends in a thread that leaves its share for the next guard, while the handle is given up. The
/// share is dropped once, and after all that was done with it.
#[test]
fn a_share_that_is_left_when_its_handle_is_given_up() {
    model(|| {
        struct Kept {
            spare: Spare,
            given_up: AtomicU64,
            shares: AtomicU64,
            contents: UnsafeCell<u32>,
        }
        // SAFETY: `contents` is only touched by who has a share; loom fails the model otherwise.
        unsafe impl Sync for Kept {}
        // SAFETY: what it has may be touched by any one thread at a time.
        unsafe impl Send for Kept {}

        fn let_go(kept: &Kept) {
            if kept.shares.fetch_sub(1, Ordering::AcqRel) == 1 {
                // SAFETY: nobody else has a share.
                kept.contents.with_mut(|contents| unsafe { *contents = 1 });
            }
        }

        let shared = std::ptr::without_provenance_mut(64);
        let kept = Arc::new(Kept {
            spare: Spare::shut(),
            given_up: AtomicU64::new(0),
            shares: AtomicU64::new(2),
            contents: UnsafeCell::new(0),
        });
        kept.spare.open();
        let guard = {
            let kept = Arc::clone(&kept);
            thread::spawn(move || {
                // SAFETY: the guard has a share.
                assert_eq!(kept.contents.with(|contents| unsafe { *contents }), 0);
                let is_left = kept.spare.put(shared);
                if is_left && kept.given_up.load(Ordering::Relaxed) != 0 && kept.spare.take_away(shared) {
                    let_go(&kept);
                }
            })
        };
        kept.given_up.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if kept.spare.take_away(shared) {
            let_go(&kept);
        }
        let_go(&kept);
        guard.join().unwrap();
        assert!(kept.spare.get().is_none());
        assert_eq!(kept.shares.load(Ordering::Acquire), 0);
        // SAFETY: the other thread has ended.
        assert_eq!(kept.contents.with(|contents| unsafe { *contents }), 1);
    });
}
