//! What a file allows: which pages it has, and whether it is closed, poisoned or for reading only.
//!
//! Looked at without a lock by every access. A thread that closes or shortens a file must know that no page
//! is loaded behind its back, so it and a loader do two things each, with a fence in between: the closer
//! holds loads off, then looks at the page words; the loader marks the page's word as *loading*, then looks
//! at the gate. One of them sees the other.
//!
//! A load that is held off is not refused: whether the file is closed or shortened is not decided yet. The
//! loader makes the page absent again and waits at the gate until [`HoldOff`] is dropped, and looks again;
//! what has been decided is in the gate by then.

use std::time::Instant;

use crate::sync::{AtomicU8, AtomicU64, Condvar, Mutex, Ordering, fence};
use crate::wakers::{PoolWaker, Wakers};

const READ_ONLY: u8 = 1;
const POISONED: u8 = 2;
const CLOSED: u8 = 4;

/// Beyond every page: no load is held off.
const NO_PAGE: u64 = u64::MAX;

pub(crate) struct Gate {
    flags: AtomicU8,
    pages: AtomicU64,
    /// Loads of pages from here on are held off.
    held_off_from: AtomicU64,
    /// Futures that wait until loads are no longer held off.
    waiting: Mutex<Wakers>,
    /// Loads are no longer held off.
    decided: Condvar,
}

/// Loads are held off until this is dropped. One at a time for each file.
pub(crate) struct HoldOff<'g> {
    gate: &'g Gate,
}

impl Gate {
    pub fn new(read_only: bool, pages: u64) -> Self {
        Self {
            flags: AtomicU8::new(if read_only { READ_ONLY } else { 0 }),
            pages: AtomicU64::new(pages),
            held_off_from: AtomicU64::new(NO_PAGE),
            waiting: Mutex::default(),
            decided: Condvar::default(),
        }
    }

    /// How many pages the file has.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.pages.load(Ordering::Acquire)
    }

    pub fn set_pages(&self, pages: u64) {
        self.pages.store(pages, Ordering::Release);
    }

    pub fn is_poisoned(&self) -> bool {
        self.flags.load(Ordering::Acquire) & POISONED != 0
    }

    pub fn set_poisoned(&self, poisoned: bool) {
        if poisoned {
            self.flags.fetch_or(POISONED, Ordering::AcqRel);
        } else {
            self.flags.fetch_and(!POISONED, Ordering::AcqRel);
        }
    }

    pub fn is_read_only(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & READ_ONLY != 0
    }

    pub fn is_closed(&self) -> bool {
        self.flags.load(Ordering::Acquire) & CLOSED != 0
    }

    /// Marks the file as closed for good. The caller holds loads off.
    pub fn set_closed(&self) {
        self.flags.fetch_or(CLOSED, Ordering::AcqRel);
    }

    /// Neither read-only, poisoned nor closed.
    #[inline]
    pub fn takes_writes(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }

    /// Nobody begins to load a page from `from` on until the value is dropped; a load that has begun is seen
    /// by the next look at the words.
    pub fn hold_off_loads(&self, from: u64) -> HoldOff<'_> {
        debug_assert!(!self.holds_off(NO_PAGE - 1), "one operation at a time");
        self.held_off_from.store(from, Ordering::Relaxed);
        // Pairs with the fence in `fence_before_load`.
        fence(Ordering::SeqCst);
        HoldOff { gate: self }
    }

    /// For a thread that has just won the right to load a page, before it asks whether it may.
    pub fn fence_before_load(&self) {
        fence(Ordering::SeqCst);
    }

    /// Loads of page `number` are held off. If not, what was decided before is in the gate.
    pub fn holds_off(&self, number: u64) -> bool {
        // Acquire pairs with the release in the drop of `HoldOff`.
        number >= self.held_off_from.load(Ordering::Acquire)
    }

    /// Waits until page `number` may be loaded, or it is decided that it may not. False if that takes longer
    /// than until the deadline. The caller holds no right to load a page of the file.
    pub fn wait_until_decided(&self, number: u64, deadline: Instant) -> bool {
        let mut waiting = self.waiting.lock();
        while self.holds_off(number) {
            // Loom knows no time: there all waits end by a notification.
            if !cfg!(bufpool_loom) && Instant::now() >= deadline {
                return false;
            }
            waiting = self.decided.wait(waiting, Some(deadline));
        }
        true
    }

    /// As waiting, for future number `id`: `waker` is woken when page `number` is no longer held off. False
    /// if it is not held off now.
    pub fn park_future(&self, number: u64, id: u64, waker: PoolWaker) -> bool {
        let displaced = {
            let mut waiting = self.waiting.lock();
            if !self.holds_off(number) {
                drop(waiting);
                return false;
            }
            waiting.park(id, waker)
        };
        drop(displaced);
        true
    }

    /// Future number `id` no longer waits.
    pub fn unpark_future(&self, id: u64) {
        let waker = self.waiting.lock().unpark(id);
        // After the lock.
        drop(waker);
    }
}

impl Drop for HoldOff<'_> {
    fn drop(&mut self) {
        let futures = {
            let mut waiting = self.gate.waiting.lock();
            // Release: a load that is let through sees what was decided.
            self.gate.held_off_from.store(NO_PAGE, Ordering::Release);
            waiting.take()
        };
        self.gate.decided.notify_all();
        futures.hand_over();
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Waker};

    use crate::io::sim::SimDevice;
    use crate::{ErrorKind, File, FileOptions, Pool, PoolOptions};

    const PAGES: u64 = 8;

    fn open() -> (Pool, File) {
        let device = SimDevice::new(1);
        device.put("data", &[0; 4096 * PAGES as usize]);
        let options = PoolOptions::new().page_bytes(4096).frames(64).threads_max(8).latch_wait_ms(20);
        let pool = options.read_ahead(false).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        (pool, file)
    }

    /// While an operation on pages from 4 on is not decided, each way to load one of them is held off, and
    /// the pages below are served.
    #[test]
    fn no_load_passes_the_gate_while_it_is_held_off() {
        let (pool, file) = open();
        let tenant = pool.default_tenant();
        let hold_off = file.shared.gate.hold_off_loads(4);
        let mut context = Context::from_waker(Waker::noop());
        for number in 4..PAGES {
            assert!(tenant.try_read(file.page(number)).unwrap().is_none());
            let waited = tenant.read(file.page(number)).map(drop);
            assert_eq!(waited.unwrap_err().kind(), ErrorKind::LatchTimeout);
            assert!(tenant.try_create(file.page(number)).unwrap().is_none());
            let mut read = pin!(tenant.read_async(file.page(number)));
            assert!(read.as_mut().poll(&mut context).is_pending());
            assert!(file.shared.table.get(number).unwrap().state().is_absent());
        }
        let many = tenant.read_many(&[file.page(0), file.page(5)]);
        assert!(matches!(many[..], [Ok(Some(_)), Ok(None)]));
        assert_eq!(tenant.prefetch((4..PAGES).map(|number| file.page(number))), 0);
        assert_eq!(pool.stats().misses, 1, "nothing was loaded");
        drop(many);
        let mut waiting = pin!(tenant.read_async(file.page(6)));
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        drop(hold_off);
        while waiting.as_mut().poll(&mut context).is_pending() {
            std::thread::yield_now();
        }
        (4..PAGES).for_each(|number| drop(tenant.try_read(file.page(number)).unwrap().unwrap()));
    }

    /// A file that is closed, or shortened, after an access has looked, and before its load asks.
    #[test]
    fn a_load_asks_anew_what_was_decided() {
        let (_pool, file) = open();
        let shared = &file.shared;
        assert!(shared.check_loadable(PAGES - 1, "read page").unwrap());
        shared.gate.set_pages(PAGES - 1);
        let error = shared.check_loadable(PAGES - 1, "read page").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PageBeyondEnd);
        shared.gate.set_closed();
        assert_eq!(shared.check_loadable(0, "read page").unwrap_err().kind(), ErrorKind::FileClosed);
    }
}
