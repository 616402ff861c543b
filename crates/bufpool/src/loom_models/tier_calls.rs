//! Calls of a tier, and the end of them.

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::sync::relax;
use crate::tier::calls::Calls;

/// A tier that a pool lets go of: it is detached once, when no call of it is running, and none begins later.
struct Tier {
    calls: Calls,
    is_attached: UnsafeCell<bool>,
}

// SAFETY: `is_attached` is read in calls, and changed when they are over, which the model checks.
unsafe impl Sync for Tier {}
// SAFETY: what it has may be touched by any one thread at a time.
unsafe impl Send for Tier {}

impl Tier {
    fn close(&self) {
        if !self.calls.end() {
            return;
        }
        while self.calls.are_running() {
            relax();
        }
        // SAFETY: no call is running, and none will; loom fails the model otherwise.
        assert!(
            self.is_attached.with_mut(|is_attached| unsafe { std::mem::replace(&mut *is_attached, false) })
        );
    }
}

#[test]
fn a_tier_is_detached_when_no_call_of_it_is_running() {
    model(|| {
        let tier = Arc::new(Tier { calls: Calls::new(), is_attached: UnsafeCell::new(true) });
        let caller = {
            let tier = Arc::clone(&tier);
            thread::spawn(move || {
                if let Some(_running) = tier.calls.begin() {
                    // SAFETY: within a call; loom fails the model if somebody changes it meanwhile.
                    assert!(tier.is_attached.with(|is_attached| unsafe { *is_attached }));
                }
            })
        };
        let closer = {
            let tier = Arc::clone(&tier);
            thread::spawn(move || tier.close())
        };
        tier.close();
        caller.join().unwrap();
        closer.join().unwrap();
        assert!(tier.calls.begin().is_none());
    });
}
