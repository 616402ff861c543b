//! The policy lock.

use loom::sync::Arc;
use loom::thread;

use super::model;
use crate::policy::mutex::PolicyMutex;

/// One thread at a time has the policy lock, and no thread sleeps on when the lock is free.
#[test]
fn the_policy_lock_excludes_and_wakes() {
    model(|| {
        let mutex = Arc::new(PolicyMutex::new(0));
        let add = |mutex: &PolicyMutex<u32>| {
            let mut count = mutex.lock();
            let seen = *count;
            thread::yield_now();
            *count = seen + 1;
        };
        let others = [(); 2].map(|()| {
            let mutex = Arc::clone(&mutex);
            thread::spawn(move || add(&mutex))
        });
        add(&mutex);
        others.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*mutex.lock(), 3);
    });
}
