//! The policy lock itself: who holds the policy, how others wait for it, and what that costs.
//!
//! A hold is shorter than going to sleep and being woken, so a thread that finds the lock taken looks again a
//! few times ([`SPINS`]) before it sleeps. The lock is not handed over: the first that comes takes it,
//! because a thread that is woken gets to run long after the lock came free. Of several that sleep one is
//! woken at a time, and the next one when that has had the lock, or found it taken and sleeps again.
//!
//! Holds are counted, and one in [`TIMED`] is timed.
//!
//! A hold may [leave](PolicyGuard::leave_next_miss) beside the lock what the next hold is likely to look at.
//! The thread that takes the lock next fetches that, so that its cache misses overlap.
//!
//! All that each hold changes here is in one cache line.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::AtomicU64 as Unmodelled;
use std::time::Instant;

use bufpool_policies::{FrameId, NextMiss, PageId};

use crate::sync::{AtomicU32, Condvar, Mutex, MutexGuard, Ordering, fence, relax};
use crate::sys::fetch_to_write;

/// Looks at the lock before a thread sleeps: several times as long as a hold.
const SPINS: u32 = if cfg!(bufpool_loom) { 0 } else { 128 };
/// One hold in this many is timed: a prime, so that no pattern of holds that a thread repeats is always timed
/// at the same place.
const TIMED: u64 = 61;
/// In [`PolicyMutex::sleepers`]: a thread was woken and has neither got the lock nor gone to sleep again.
const WAKING: u32 = 1 << 31;

/// Stands for nothing known in [`PolicyMutex::next_miss`].
const NO_FRAMES: u64 = u64::MAX;

/// What holds of the policy lock cost so far.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct HoldCounts {
    pub holds: u64,
    /// Times that a thread slept until the lock might be free.
    pub parks: u64,
    /// Holds that were timed, and the nanoseconds of all of them.
    timed: u64,
    timed_ns: u64,
}

impl HoldCounts {
    /// Nanoseconds of all holds, estimated from the timed ones.
    pub fn held_ns(&self) -> u64 {
        (u128::from(self.timed_ns) * u128::from(self.holds) / u128::from(self.timed.max(1))) as u64
    }
}

/// The policy, or whatever else is to be protected, behind the policy lock.
#[repr(C)]
pub(crate) struct PolicyMutex<T> {
    /// Threads that sleep or are about to, and [`WAKING`].
    sleepers: AtomicU32,
    /// A [`NextMiss`] in three numbers: victim and next frame (or [`NO_FRAMES`]), account, page. It is only
    /// used to fetch cache lines, so relaxed accesses are enough: one that is out of date, or mixed from two,
    /// costs time at most.
    next_miss: [Unmodelled; 3],
    /// Taken by `try_lock` only. Threads that have to wait sleep on `freed`.
    held: Mutex<Held<T>>,
    /// The lock of `freed`, on which threads sleep.
    room: Mutex<()>,
    freed: Condvar,
}

#[repr(C)]
struct Held<T> {
    counts: HoldCounts,
    value: T,
}

impl<T> PolicyMutex<T> {
    pub fn new(value: T) -> Self {
        Self {
            held: Mutex::new(Held { value, counts: HoldCounts::default() }),
            sleepers: AtomicU32::new(0),
            next_miss: [NO_FRAMES, 0, 0].map(Unmodelled::new),
            room: Mutex::default(),
            freed: Condvar::default(),
        }
    }

    /// Waits for the lock.
    #[inline]
    pub fn lock(&self) -> PolicyGuard<'_, T> {
        match self.held.try_lock() {
            Some(held) => PolicyGuard::begin(self, held),
            None => self.lock_slowly(),
        }
    }

    /// None if another thread has it.
    #[inline]
    pub fn try_lock(&self) -> Option<PolicyGuard<'_, T>> {
        self.held.try_lock().map(|held| PolicyGuard::begin(self, held))
    }

    /// What a hold has left last, for a thread that is about to take the lock; it may be out of date.
    #[inline]
    pub fn next_miss(&self) -> Option<NextMiss> {
        // It is in the cache line of the lock, which the caller changes next.
        fetch_to_write(self);
        let numbers = self.next_miss.each_ref().map(|number| number.load(Ordering::Relaxed));
        let [frames, account_and_choice, page] = numbers;
        (frames != NO_FRAMES).then_some(NextMiss {
            victim: FrameId(frames as u32),
            page: PageId(page),
            next: FrameId((frames >> u32::BITS) as u32),
            account: account_and_choice as u32,
            choice: FrameId((account_and_choice >> u32::BITS) as u32),
        })
    }

    pub fn get_mut(&mut self) -> &mut T {
        &mut self.held.get_mut().value
    }

    #[cold]
    fn lock_slowly(&self) -> PolicyGuard<'_, T> {
        if let Some(held) = self.spin() {
            return PolicyGuard::begin(self, held);
        }
        self.sleepers.fetch_add(1, Ordering::Relaxed);
        let mut parks = 0;
        let mut held = loop {
            let room = self.room.lock();
            // From here on the end of each hold wakes somebody. This fence lies between the change of
            // `sleepers` and the look at the lock; the fence in `Wake` lies between the release of the lock
            // and the look at `sleepers`. So either this thread finds the lock free, or the other sees that a
            // thread sleeps.
            self.sleepers.fetch_and(!WAKING, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if let Some(held) = self.held.try_lock() {
                break held;
            }
            parks += 1;
            drop(self.freed.wait(room, None));
            if let Some(held) = self.spin() {
                self.sleepers.fetch_and(!WAKING, Ordering::Relaxed);
                break held;
            }
        };
        self.sleepers.fetch_sub(1, Ordering::Relaxed);
        held.counts.parks += parks;
        PolicyGuard::begin(self, held)
    }

    fn spin(&self) -> Option<MutexGuard<'_, Held<T>>> {
        for _ in 0..SPINS {
            if !self.held.is_locked()
                && let Some(held) = self.held.try_lock()
            {
                return Some(held);
            }
            relax();
        }
        None
    }

    #[cold]
    fn wake_one(&self) {
        let seen = self.sleepers.load(Ordering::Relaxed);
        let is_first = seen & WAKING == 0
            && self
                .sleepers
                .compare_exchange(seen, seen | WAKING, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        // If the exchange fails, a thread has come or gone meanwhile, and looks at the lock afterwards.
        if is_first {
            // A thread that is about to sleep holds `room` until it waits on `freed`, so this notification
            // cannot come too early for it.
            drop(self.room.lock());
            self.freed.notify_one();
        }
    }
}

/// A hold of the policy lock.
pub(crate) struct PolicyGuard<'a, T> {
    // Dropped in this order, and after the guard's own `drop`.
    held: MutexGuard<'a, Held<T>>,
    wake: Wake<'a, T>,
    /// Of a hold that is timed.
    begun: Option<Instant>,
}

/// Wakes a thread that sleeps, at the end of a hold.
struct Wake<'a, T>(&'a PolicyMutex<T>);

impl<T> Drop for Wake<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // See `lock_slowly`.
        fence(Ordering::SeqCst);
        if self.0.sleepers.load(Ordering::Relaxed) != 0 {
            self.0.wake_one();
        }
    }
}

impl<'a, T> PolicyGuard<'a, T> {
    #[inline]
    fn begin(mutex: &'a PolicyMutex<T>, mut held: MutexGuard<'a, Held<T>>) -> Self {
        held.counts.holds += 1;
        let begun = held.counts.holds.is_multiple_of(TIMED).then(Instant::now);
        Self { held, wake: Wake(mutex), begun }
    }

    /// Leaves beside the lock what the next hold is likely to look at.
    #[inline]
    pub fn leave_next_miss(&self, next_miss: Option<NextMiss>) {
        let pack = |high: u32, low: u32| u64::from(high) << u32::BITS | u64::from(low);
        let numbers = next_miss.map_or([NO_FRAMES, 0, 0], |miss| {
            let NextMiss { victim, page, next, account, choice } = miss;
            [pack(next.0, victim.0), pack(choice.0, account), page.0]
        });
        for (place, number) in self.wake.0.next_miss.iter().zip(numbers) {
            place.store(number, Ordering::Relaxed);
        }
    }

    /// Of all holds that have begun.
    pub fn counts(&self) -> HoldCounts {
        self.held.counts
    }
}

impl<T> Drop for PolicyGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        if let Some(begun) = self.begun {
            self.held.counts.timed += 1;
            self.held.counts.timed_ns += begun.elapsed().as_nanos() as u64;
        }
    }
}

impl<T> Deref for PolicyGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.held.value
    }
}

impl<T> DerefMut for PolicyGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.held.value
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;

    #[test]
    fn one_thread_at_a_time_has_the_lock() {
        const THREADS: u64 = 8;
        const HOLDS: u64 = 2_000;
        let mutex = Arc::new(PolicyMutex::new(0_u64));
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for _ in 0..HOLDS {
                        let mut count = mutex.lock();
                        let seen = *count;
                        std::hint::spin_loop();
                        *count = seen + 1;
                    }
                });
            }
        });
        assert_eq!(*mutex.lock(), THREADS * HOLDS);
        let counts = mutex.lock().counts();
        assert_eq!(counts.holds, THREADS * HOLDS + 2);
        assert_eq!(counts.timed, counts.holds / TIMED);
        assert_eq!(mutex.sleepers.load(Ordering::Relaxed) & !WAKING, 0);
    }

    /// However long the others take: a thread that sleeps is woken by the end of the hold.
    #[test]
    fn a_thread_that_sleeps_is_woken() {
        let mutex = PolicyMutex::new(());
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let held = mutex.lock();
            let sleeper = scope.spawn(|| {
                let counts = mutex.lock().counts();
                is_done.store(true, Ordering::Relaxed);
                counts
            });
            // It sleeps once it has let go of the room, which it takes after it has said that it will.
            while mutex.sleepers.load(Ordering::Relaxed) == 0 {
                std::thread::yield_now();
            }
            assert!(!is_done.load(Ordering::Relaxed));
            assert!(mutex.try_lock().is_none());
            drop(held);
            assert!(sleeper.join().unwrap().parks <= 1);
        });
        assert!(is_done.load(Ordering::Relaxed) && mutex.try_lock().is_some());
    }
}
