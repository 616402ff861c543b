//! Frames that policies never see: the clean reserve, and buffers for pages that hooks prepare.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::arena::FrameLease;

/// The clean reserve: frames that a dirty victim, or a page on its way to its file, is copied to.
///
/// Between two marks. *High* is how many there are; the background writer does not rest before all are free again. *Low* is how
/// many are kept for misses: copies of pages that nobody is about to evict are not taken from the last of them.
pub(crate) struct Reserve {
    free: Mutex<FreeFrames>,
    returned: Condvar,
    /// As many as `free` has, for looks without the lock.
    count: AtomicUsize,
    high: usize,
    low: usize,
}

impl Reserve {
    /// All of `leases`, of neighbouring frames in order, of which the last `low` that are free are for misses.
    pub fn new(leases: Vec<FrameLease>, low: usize) -> Self {
        let high = leases.len();
        let free = FreeFrames::new(leases);
        Self { free: Mutex::new(free), returned: Condvar::new(), count: AtomicUsize::new(high), high, low }
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

    /// A frame for a victim, which may come free until then.
    pub fn take_until(&self, until: Instant) -> Option<FrameLease> {
        let mut free = self.free.lock();
        while free.count == 0 {
            if self.returned.wait_until(&mut free, until).timed_out() {
                break;
            }
        }
        self.take_from(&mut free)
    }

    fn take_leaving(&self, left: usize) -> Option<FrameLease> {
        let mut free = self.free.lock();
        if free.count <= left { None } else { self.take_from(&mut free) }
    }

    fn take_from(&self, free: &mut FreeFrames) -> Option<FrameLease> {
        let lease = free.take();
        self.count.store(free.count, Ordering::Relaxed);
        lease
    }

    pub fn give_back(&self, lease: FrameLease) {
        self.give_back_all([lease]);
    }

    pub fn give_back_all(&self, leases: impl IntoIterator<Item = FrameLease>) {
        let mut free = self.free.lock();
        leases.into_iter().for_each(|lease| free.put(lease));
        self.count.store(free.count, Ordering::Relaxed);
        drop(free);
        self.returned.notify_all();
    }
}

/// Free frames, handed out in the order of their addresses, round and round: pages that are taken one after the other and written together
/// lie side by side in memory, and a transfer of one piece costs kernel and device less than one of many.
struct FreeFrames {
    first: u32,
    leases: Box<[Option<FrameLease>]>,
    /// One bit a frame, set if it is free.
    bits: Box<[u64]>,
    /// Where to look next.
    next: usize,
    count: usize,
}

impl FreeFrames {
    fn new(leases: Vec<FrameLease>) -> Self {
        let count = leases.len();
        let mut free = Self {
            first: leases.first().map_or(0, |lease| lease.frame().0),
            leases: (0..count).map(|_| None).collect(),
            bits: vec![0; count.div_ceil(64)].into(),
            next: 0,
            count: 0,
        };
        leases.into_iter().for_each(|lease| free.put(lease));
        free
    }

    fn put(&mut self, lease: FrameLease) {
        let index = (lease.frame().0 - self.first) as usize;
        self.leases[index] = Some(lease);
        self.bits[index / 64] |= 1 << (index % 64);
        self.count += 1;
    }

    fn take(&mut self) -> Option<FrameLease> {
        let words = self.bits.len();
        let (word, bit) = (self.next / 64, self.next % 64);
        // The word looked at first comes again at the end, for what lies before `next`.
        let masked = |step| {
            let at = (word + step) % words;
            (at, self.bits[at] & if step == 0 { u64::MAX << bit } else { u64::MAX })
        };
        let (at, free) = (0..=words).filter(|_| self.count > 0).map(masked).find(|(_, free)| *free != 0)?;
        let index = at * 64 + free.trailing_zeros() as usize;
        self.bits[at] &= !(1 << (index % 64));
        self.count -= 1;
        self.next = (index + 1) % self.leases.len();
        self.leases[index].take()
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

    /// Against a plain set: nothing is lost or doubled, and what is taken one after the other are neighbours as far as there are any.
    #[test]
    fn frames_are_handed_out_round_and_round() {
        for frames in [1, 63, 64, 65, 200] {
            let reserve = Reserve::new(leases(frames), 0);
            let mut free: std::collections::BTreeSet<u32> = (0..frames).collect();
            let (mut taken, mut next, mut draw) = (Vec::new(), 0, 12345_u32);
            for _ in 0..2_000 {
                draw = draw.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                if (draw >> 16) % 3 > 0 {
                    let expected = free.range(next..).next().or(free.first()).copied();
                    let lease = reserve.take();
                    assert_eq!(lease.as_ref().map(|lease| lease.frame().0), expected);
                    let Some(lease) = lease else { continue };
                    free.remove(&lease.frame().0);
                    next = lease.frame().0 + 1;
                    taken.push(lease);
                } else if !taken.is_empty() {
                    let lease = taken.swap_remove((draw >> 20) as usize % taken.len());
                    free.insert(lease.frame().0);
                    reserve.give_back(lease);
                }
                assert_eq!(reserve.has_free(), !free.is_empty());
            }
        }
    }

    #[test]
    fn a_frame_that_comes_back_ends_the_wait_for_it() {
        let reserve = Reserve::new(leases(1), 0);
        let lease = reserve.take().unwrap();
        assert!(reserve.take_until(Instant::now()).is_none());
        std::thread::scope(|scope| {
            let far = Instant::now() + std::time::Duration::from_secs(60);
            let waiting = scope.spawn({
                let reserve = &reserve;
                move || reserve.take_until(far)
            });
            reserve.give_back(lease);
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
