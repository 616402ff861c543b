//! Frames that policies never see: the clean reserve, and buffers for pages that hooks prepare.

use std::time::Instant;

use crate::memory::lease::{FrameLease, FreeLeases};
use crate::sync::{AtomicU32, Condvar, Mutex, Ordering};

/// The clean reserve: frames for which those of dirty victims are exchanged, and to which pages on their way
/// to their files are copied. Which frames these are changes with each exchange; how many there are does not,
/// but for those it has [borrowed](crate::write::borrowing).
///
/// They are handed out in the order of their addresses, round and round: pages that come in one after the
/// other lie side by side in memory as their predecessors did, and a transfer of one piece costs kernel and
/// device less than one of many.
///
/// It has two marks. *High* is how many frames there are without borrowed ones; the background writer does
/// not rest before all are free again. *Low* is how many of them are kept for misses: copies of pages that
/// stay in memory do not get the last *low* free frames.
pub(crate) struct Reserve {
    free: Mutex<FreeLeases>,
    returned: Condvar,
    /// As many as `free` has, for looks without the lock.
    count: AtomicU32,
    high: usize,
    low: usize,
    /// Frames of the pool that it has besides its own. Changed under the policy lock.
    borrowed: AtomicU32,
    borrowed_max: usize,
}

impl Reserve {
    /// All of `leases`, of which the last `low` that are free are for misses. They may be exchanged for any
    /// frames below `frames`, of which it may borrow `borrowed_max`.
    pub fn new(frames: u32, leases: Vec<FrameLease>, low: usize, borrowed_max: usize) -> Self {
        let high = leases.len();
        let free = FreeLeases::new(frames, leases);
        Self {
            free: Mutex::new(free),
            returned: Condvar::default(),
            count: AtomicU32::new(high as u32),
            high,
            low,
            borrowed: AtomicU32::new(0),
            borrowed_max,
        }
    }

    /// How many frames it has, free or not, besides those that it has borrowed.
    pub fn frames(&self) -> usize {
        self.high
    }

    /// How many frames of the pool it has.
    pub fn borrowed(&self) -> usize {
        self.borrowed.load(Ordering::Relaxed) as usize
    }

    /// How many more it may borrow.
    pub fn may_borrow(&self) -> usize {
        self.borrowed_max - self.borrowed()
    }

    /// This number of frames of the pool are its own until it returns them, free or not. To be called under
    /// the policy lock, as [`repay`](Self::repay).
    pub fn borrow(&self, frames: usize) {
        debug_assert!(frames <= self.may_borrow());
        self.borrowed.fetch_add(frames as u32, Ordering::Relaxed);
    }

    /// Whether there were more free frames a moment ago than its own number, so that some are to be repaid
    /// whether or not a miss needs them. A miss that finds no other frame [gets](Self::repay) all that are
    /// free at once.
    pub fn has_surplus(&self) -> bool {
        self.borrowed() > 0 && self.free() > self.high
    }

    /// Free frames to be given back to the pool, as many as it has borrowed, except for the last `kept` that
    /// are free.
    pub fn repay(&self, kept: usize) -> Vec<FrameLease> {
        let mut free = self.free.lock();
        let count = free.len().saturating_sub(kept).min(self.borrowed());
        let repaid: Vec<_> = (0..count).map_while(|_| self.take_from(&mut free)).collect();
        self.borrowed.fetch_sub(repaid.len() as u32, Ordering::Relaxed);
        repaid
    }

    /// How many were free a moment ago.
    pub fn free(&self) -> usize {
        self.count.load(Ordering::Relaxed) as usize
    }

    /// Whether a frame could be had a moment ago.
    pub fn has_free(&self) -> bool {
        self.free() > 0
    }

    /// A frame for a victim.
    pub fn take(&self) -> Option<FrameLease> {
        self.take_leaving(0)
    }

    /// A frame for a page that is not a victim: none if that leaves less than the low mark.
    pub fn take_spare(&self) -> Option<FrameLease> {
        self.take_leaving(self.low)
    }

    /// As [`take`](Self::take), but waits for a frame to be given back, no longer than `until`.
    pub fn take_until(&self, until: Instant) -> Option<FrameLease> {
        let mut free = self.free.lock();
        // Loom knows no time: a thread that waits there gets a frame, or the model ends in a deadlock.
        while free.len() == 0 && (cfg!(bufpool_loom) || Instant::now() < until) {
            free = self.returned.wait(free, Some(until));
        }
        self.take_from(&mut free)
    }

    /// Waits until there may be a frame for a page that is not a victim, no longer than `until`.
    pub fn wait_for_spare(&self, until: Instant) {
        let mut free = self.free.lock();
        while free.len() <= self.low && Instant::now() < until {
            free = self.returned.wait(free, Some(until));
        }
    }

    fn take_leaving(&self, left: usize) -> Option<FrameLease> {
        let mut free = self.free.lock();
        if free.len() <= left { None } else { self.take_from(&mut free) }
    }

    fn take_from(&self, free: &mut FreeLeases) -> Option<FrameLease> {
        let lease = free.take();
        self.count.store(free.len() as u32, Ordering::Relaxed);
        lease
    }

    pub fn metadata_bytes(&self) -> usize {
        self.free.lock().metadata_bytes()
    }

    pub fn give_back(&self, leases: impl IntoIterator<Item = FrameLease>) {
        let mut free = self.free.lock();
        leases.into_iter().for_each(|lease| free.put(lease));
        self.count.store(free.len() as u32, Ordering::Relaxed);
        drop(free);
        self.returned.notify_all();
    }

    /// Whether a thread waits for a frame.
    #[cfg(all(test, not(bufpool_loom)))]
    pub fn is_waited_for(&self) -> bool {
        self.returned.is_waited_for()
    }
}

/// Frames in which hooks prepare pages for their files, so that what is in memory stays as the engine left
/// it.
///
/// A thread that has some only does I/O before giving them back, so waiting for them ends.
pub(crate) struct HookBuffers {
    free: Mutex<Vec<FrameLease>>,
    returned: Condvar,
}

impl HookBuffers {
    pub fn new(leases: Vec<FrameLease>) -> Self {
        Self { free: Mutex::new(leases), returned: Condvar::default() }
    }

    /// From 1 to `most` (not 0) buffers, after waiting for the first. The caller has none yet.
    pub fn take(&self, most: usize) -> Vec<FrameLease> {
        let mut free = self.free.lock();
        while free.is_empty() {
            free = self.returned.wait(free, None);
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
    use crate::memory::arena::Arena;

    fn leases(frames: u32) -> Vec<FrameLease> {
        Arena::new(frames, 4096).unwrap().1
    }

    #[test]
    fn the_last_frames_are_for_victims() {
        let reserve = Reserve::new(4, leases(4), 2, 0);
        let spare: Vec<_> = std::iter::from_fn(|| reserve.take_spare()).collect();
        assert_eq!(spare.len(), 2);
        let victims: Vec<_> = std::iter::from_fn(|| reserve.take()).collect();
        assert_eq!((victims.len(), reserve.has_free()), (2, false));
        spare.into_iter().chain(victims).for_each(|lease| reserve.give_back([lease]));
        assert!(reserve.has_free() && reserve.take_spare().is_some());
    }

    #[test]
    fn a_frame_that_comes_back_ends_the_wait_for_it() {
        let reserve = Reserve::new(1, leases(1), 0, 0);
        let lease = reserve.take().unwrap();
        assert!(reserve.take_until(Instant::now()).is_none());
        std::thread::scope(|scope| {
            let far = Instant::now() + std::time::Duration::from_secs(60);
            let waiting = scope.spawn({
                let reserve = &reserve;
                move || reserve.take_until(far)
            });
            reserve.give_back([lease]);
            assert!(waiting.join().unwrap().is_some());
        });
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
