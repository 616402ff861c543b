//! The one switch between the real primitives and loom's (`--cfg bufpool_loom`).
//!
//! Used by the page word, page tables, the frame table, the latches, the reserve, a file's gate, the access
//! log and the policy lock. All other code is not explored by the model checker, and uses std and
//! parking_lot directly. Loom knows no time, so waits have no deadline there.

#[cfg(not(bufpool_loom))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

#[cfg(bufpool_loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering, fence};

/// The reader's half of a pair with [`barrier_everywhere`](crate::sys::barrier_everywhere). It only keeps
/// the order in the program; the other half makes that the order for all processors. The model checker has
/// no such pair, so it gets a full fence.
#[inline(always)]
pub(crate) fn barrier_if_asked() {
    #[cfg(not(bufpool_loom))]
    std::sync::atomic::compiler_fence(Ordering::SeqCst);
    #[cfg(bufpool_loom)]
    fence(Ordering::SeqCst);
}

/// Defines a function that is `const` except under the model checker, whose values cannot be made in
/// constants.
macro_rules! const_unless_loom {
    ($(#[$attribute:meta])* $visibility:vis fn $($rest:tt)*) => {
        #[cfg(not(bufpool_loom))]
        $(#[$attribute])*
        $visibility const fn $($rest)*
        #[cfg(bufpool_loom)]
        $(#[$attribute])*
        $visibility fn $($rest)*
    };
}
pub(crate) use const_unless_loom;

#[cfg(not(bufpool_loom))]
mod lock {
    use super::Instant;

    pub(crate) type MutexGuard<'a, T> = parking_lot::MutexGuard<'a, T>;

    /// A mutex without poisoning.
    #[derive(Default)]
    pub(crate) struct Mutex<T>(parking_lot::Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(parking_lot::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock()
        }

        #[inline]
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock()
        }

        /// Whether a thread has it now; changes nothing.
        #[inline]
        pub fn is_locked(&self) -> bool {
            self.0.is_locked()
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut()
        }
    }

    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        /// Waits for a notification or the deadline. May also return without either, so callers check again.
        pub fn wait<'a, T>(
            &self,
            mut guard: MutexGuard<'a, T>,
            deadline: Option<Instant>,
        ) -> MutexGuard<'a, T> {
            match deadline {
                Some(deadline) => drop(self.0.wait_until(&mut guard, deadline)),
                None => self.0.wait(&mut guard),
            }
            guard
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Whether a thread waits. Wakes one that does; it checks again, and goes on waiting.
        #[cfg(test)]
        pub fn is_waited_for(&self) -> bool {
            self.0.notify_one()
        }
    }

    /// A bounded pause in a loop that looks at a word again.
    pub(crate) fn relax() {
        std::hint::spin_loop();
    }
}

#[cfg(bufpool_loom)]
mod lock {
    use super::Instant;

    pub(crate) type MutexGuard<'a, T> = loom::sync::MutexGuard<'a, T>;

    /// A mutex without poisoning.
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T: Default> Default for Mutex<T> {
        fn default() -> Self {
            Self(loom::sync::Mutex::new(T::default()))
        }
    }

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }

        /// Not known under the model checker.
        pub fn is_locked(&self) -> bool {
            false
        }

        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap()
        }
    }

    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Default for Condvar {
        fn default() -> Self {
            Self(loom::sync::Condvar::new())
        }
    }

    impl Condvar {
        pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>, _: Option<Instant>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap()
        }

        pub fn notify_all(&self) {
            self.0.notify_all();
        }

        pub fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    pub(crate) fn relax() {
        loom::thread::yield_now();
    }
}

pub(crate) use lock::{Condvar, Mutex, MutexGuard, relax};

/// The time after `limit`; a year from now if that cannot be represented.
pub(crate) fn deadline_after(limit: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(limit).unwrap_or(now + Duration::from_secs(365 * 24 * 3600))
}
