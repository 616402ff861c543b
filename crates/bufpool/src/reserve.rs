//! Frames that policies never see: the clean reserve, and buffers for pages that hooks prepare.

use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};

use crate::arena::FrameLease;

/// The clean reserve: frames that a dirty victim, or a page on its way to its file, is copied to.
///
/// Between two marks. *High* is how many there are; the background writer does not rest before all are free again. *Low* is how
/// many are kept for misses: copies of pages that nobody is about to evict are not taken from the last of them.
pub(crate) struct Reserve {
    free: Mutex<Vec<FrameLease>>,
    /// As many as `free` has, for looks without the lock.
    count: AtomicUsize,
    high: usize,
    low: usize,
}

impl Reserve {
    /// All of `leases`, of which the last `low` are for misses.
    pub fn new(leases: Vec<FrameLease>, low: usize) -> Self {
        let high = leases.len();
        Self { free: Mutex::new(leases), count: AtomicUsize::new(high), high, low }
    }

    /// How many frames it has, free or not.
    pub fn frames(&self) -> usize {
        self.high
    }

    /// Whether a frame could be had a moment ago.
    pub fn has_free(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// A frame for a victim.
    pub fn take(&self) -> Option<FrameLease> {
        self.take_leaving(0)
    }

    /// A frame for a page that is not a victim: none if that leaves less than the low mark.
    pub fn take_spare(&self) -> Option<FrameLease> {
        self.take_leaving(self.low)
    }

    fn take_leaving(&self, left: usize) -> Option<FrameLease> {
        let mut free = self.free.lock();
        if free.len() <= left {
            return None;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        free.pop()
    }

    pub fn give_back(&self, lease: FrameLease) {
        self.free.lock().push(lease);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Frames in which hooks prepare pages for their files, so that what is in memory stays as the engine left it.
///
/// Whoever has some does nothing but I/O before giving them back, so waiting for them ends.
pub(crate) struct HookBuffers {
    free: Mutex<Vec<FrameLease>>,
    returned: Condvar,
}

impl HookBuffers {
    pub fn new(leases: Vec<FrameLease>) -> Self {
        Self { free: Mutex::new(leases), returned: Condvar::new() }
    }

    /// From 1 to `most` (not 0) buffers, after waiting for the first. The caller has none yet.
    pub fn take(&self, most: usize) -> Vec<FrameLease> {
        let mut free = self.free.lock();
        while free.is_empty() {
            self.returned.wait(&mut free);
        }
        let left = free.len().saturating_sub(most);
        free.split_off(left)
    }

    pub fn give_back(&self, buffers: Vec<FrameLease>) {
        self.free.lock().extend(buffers);
        self.returned.notify_all();
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::arena::Arena;

    fn leases(frames: u32) -> Vec<FrameLease> {
        Arena::new(frames, 4096).unwrap().1
    }

    #[test]
    fn the_last_frames_are_for_victims() {
        let reserve = Reserve::new(leases(4), 2);
        let spare: Vec<_> = std::iter::from_fn(|| reserve.take_spare()).collect();
        assert_eq!(spare.len(), 2);
        let victims: Vec<_> = std::iter::from_fn(|| reserve.take()).collect();
        assert_eq!((victims.len(), reserve.has_free()), (2, false));
        spare.into_iter().chain(victims).for_each(|lease| reserve.give_back(lease));
        assert!(reserve.has_free() && reserve.take_spare().is_some());
    }

    #[test]
    fn buffers_are_shared_by_all_who_need_some() {
        let buffers = HookBuffers::new(leases(3));
        std::thread::scope(|scope| {
            for most in 1..=5 {
                let buffers = &buffers;
                scope.spawn(move || {
                    for _ in 0..200 {
                        let some = buffers.take(most);
                        assert!((1..=most.min(3)).contains(&some.len()));
                        buffers.give_back(some);
                    }
                });
            }
        });
        assert_eq!(buffers.take(9).len(), 3);
    }
}
