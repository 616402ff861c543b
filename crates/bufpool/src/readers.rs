//! Threads that read pages without a latch, and how a frame waits until they have left it.
//!
//! An optimistic reader may still look at a frame whose page has left; it will find out and throw away what it read. But memory
//! that it reads with atomic loads must not be written in any other way meanwhile, and the frame's next page is. So a thread says when it
//! begins and ends an optimistic read, in a counter of its own that nobody else writes, and a frame that held a page of
//! an optimistic file is used again only after every read that was going on when the page left is over.
//!
//! Reader and waiter each store, then load: the reader its counter, then the page word; the waiter the page word, then the
//! counters. One of them must see the other, which takes a full barrier on both sides. The reader, who is in a hurry, makes do with a
//! barrier for the compiler, and the waiter has the kernel run one on every processor where the process is
//! (`membarrier`); where the kernel has no such call the reader pays for its own.

use std::cell::Cell;
use std::sync::atomic::compiler_fence;
use std::time::{Duration, Instant};

use crossbeam::utils::CachePadded;
use parking_lot::Mutex;

use crate::hot_thread::{hot, no_reader};
use crate::sync::{AtomicU64, Ordering, const_unless_loom, fence, relax};
use crate::sys;

/// Looks at a counter before the waiter yields.
const LOOKS: u32 = if cfg!(bufpool_loom) { u32::MAX } else { 64 };
/// Looks before it sleeps in between.
const LOOKS_AWAKE: u32 = 128;
const NAP: Duration = Duration::from_micros(50);

/// One thread's optimistic reads.
pub(crate) struct Reader {
    /// How many have ended, times 4; 3 more while one is going on. Written by the thread.
    sections: CachePadded<AtomicU64>,
    /// The waiter's barrier does not reach this thread.
    fences_itself: bool,
}

/// An optimistic read that is going on.
pub(crate) struct Section<'r> {
    reader: &'r Reader,
}

/// The bit of a counter that says that a read is going on.
const READING: u64 = 2;
/// What a read adds when it begins, and when it ends.
const BEGINS: u64 = 3;
const ENDS: u64 = 1;

/// Why readers were not waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stuck {
    /// The caller is reading itself.
    Own,
    /// The time was up.
    TimedOut,
}

impl Reader {
    pub fn new(fences_itself: bool) -> Self {
        Self { sections: CachePadded::new(AtomicU64::new(0)), fences_itself }
    }

    const_unless_loom! {
        /// Stands for none: its read never ends, so none can begin.
        pub fn nobody() -> Self {
            Self { sections: CachePadded::new(AtomicU64::new(BEGINS)), fences_itself: true }
        }
    }

    /// Begins a read, for the reader's own thread. None within another.
    #[inline]
    pub fn enter(&self) -> Option<Section<'_>> {
        let section = self.enter_unfenced()?;
        if self.fences_itself {
            fence(Ordering::SeqCst);
        }
        Some(section)
    }

    /// As [`enter`](Self::enter), of a reader that the waiter's barrier reaches.
    #[inline(always)]
    fn enter_unfenced(&self) -> Option<Section<'_>> {
        let sections = self.sections.load(Ordering::Relaxed);
        if sections & READING != 0 {
            return None;
        }
        self.sections.store(sections + BEGINS, Ordering::Relaxed);
        // Nothing of the read moves before the store in the program; `membarrier` does the rest.
        compiler_fence(Ordering::SeqCst);
        Some(Section { reader: self })
    }

    fn is_reading(&self) -> bool {
        self.sections.load(Ordering::Relaxed) & READING != 0
    }

    /// Waits until the read that may be going on now is over. After a barrier. False if that takes too long.
    pub fn wait(&self, is_late: impl Fn() -> bool) -> bool {
        // Acquire: what the reader did is over for whoever sees the next count.
        let seen = self.sections.load(Ordering::Acquire);
        let mut looks = 0;
        while seen & READING != 0 && self.sections.load(Ordering::Acquire) == seen {
            if is_late() {
                return false;
            }
            looks += 1;
            if looks < LOOKS {
                relax();
            } else if looks < LOOKS_AWAKE {
                std::thread::yield_now();
            } else {
                std::thread::sleep(NAP);
            }
        }
        true
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        let sections = &self.reader.sections;
        // Release: the read's loads come before.
        sections.store(sections.load(Ordering::Relaxed) + ENDS, Ordering::Release);
    }
}

/// The readers of the process, those of ended threads included, which are used again.
struct Registry {
    all: Vec<&'static Reader>,
    spare: Vec<&'static Reader>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { all: Vec::new(), spare: Vec::new() });

/// Gives a reader back when its thread ends.
struct Registered(Cell<Option<&'static Reader>>);

impl Drop for Registered {
    fn drop(&mut self) {
        hot(|thread| thread.reader.set(no_reader()));
        REGISTRY.lock().spare.extend(self.0.take());
    }
}

thread_local! {
    static REGISTERED: Registered = const { Registered(Cell::new(None)) };
}

/// Begins an optimistic read of a thread that has made one before and need not fence its reads. None within another, too.
#[inline(always)]
pub(crate) fn enter_unfenced() -> Option<Section<'static>> {
    hot(|thread| thread.reader.get()).enter_unfenced()
}

/// The calling thread's reader, if it has one.
fn own() -> Option<&'static Reader> {
    REGISTERED.try_with(|registered| registered.0.get()).ok().flatten()
}

/// The calling thread's reader; none if the thread is ending.
#[cold]
pub(crate) fn register() -> Option<&'static Reader> {
    REGISTERED
        .try_with(|registered| {
            let reader = registered.0.get().unwrap_or_else(|| {
                let mut registry = REGISTRY.lock();
                registry.spare.pop().unwrap_or_else(|| {
                    let reader: &Reader = Box::leak(Box::new(Reader::new(!sys::has_membarrier())));
                    registry.all.push(reader);
                    reader
                })
            });
            registered.0.set(Some(reader));
            if !reader.fences_itself {
                hot(|thread| thread.reader.set(reader));
            }
            reader
        })
        .ok()
}

/// Waits until all optimistic reads of other threads that are going on now are over, at most for `limit`.
pub(crate) fn wait_for_all(limit: Duration) -> Result<(), Stuck> {
    if own().is_some_and(Reader::is_reading) {
        return Err(Stuck::Own);
    }
    let is_own = |reader: &Reader| own().is_some_and(|own| std::ptr::eq(own, reader));
    if REGISTRY.lock().all.iter().all(|reader| is_own(reader)) {
        // A thread that registers from here on takes the lock after us, and sees that the page has left.
        return Ok(());
    }
    sys::barrier_everywhere();
    let deadline = Cell::new(None);
    let is_late = || {
        let now = Instant::now();
        now >= deadline.get().unwrap_or_else(|| {
            deadline.set(Some(now + limit));
            now + limit
        })
    };
    for index in 0.. {
        let Some(reader) = REGISTRY.lock().all.get(index).copied() else { break };
        if !is_own(reader) && !reader.wait(is_late) {
            return Err(Stuck::TimedOut);
        }
    }
    Ok(())
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn reads_going_on_are_waited_for() {
        let (entered, leave) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let section = register().unwrap().enter();
                // One within another ends with the outer one.
                assert!(section.is_some() && own().unwrap().enter().is_none());
                entered.wait();
                leave.wait();
                drop(section);
            });
            entered.wait();
            assert_eq!(wait_for_all(Duration::from_millis(10)), Err(Stuck::TimedOut));
            leave.wait();
            assert_eq!(wait_for_all(Duration::from_secs(60)), Ok(()));
        });
        let section = register().unwrap().enter().unwrap();
        assert_eq!(wait_for_all(Duration::from_secs(60)), Err(Stuck::Own));
        drop(section);
        assert_eq!(wait_for_all(Duration::from_secs(60)), Ok(()));
    }
}
