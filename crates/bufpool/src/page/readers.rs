//! Threads that read pages without a latch, and how a frame waits until they have left it.
//!
//! An optimistic reader may still look at a frame whose page has left; it will find out and throw away what
//! it read. But memory that it reads with atomic loads must not be written in any other way meanwhile, and
//! the frame's next page is. So a thread says when it begins and ends an optimistic read, in a counter of its
//! own that nobody else writes, and a frame that held a page of an optimistic file is used again only after
//! every read that was going on when the page left is over.
//!
//! Reader and waiter each store, then load: the reader its counter, then the page word; the waiter the page
//! word, then the counters. One of them must see the other, which takes a full barrier on both sides. The
//! reader is on the fast path and uses only a compiler barrier. The waiter makes the kernel execute a full
//! barrier on every processor that runs the process (`membarrier`). Where the kernel lacks this call, readers
//! execute a full barrier themselves.

use std::marker::PhantomData;
use std::ptr::NonNull;

use parking_lot::{Mutex, MutexGuard};

use crate::sync::Ordering;
use crate::sys;
use crate::thread::hot::hot;
use crate::thread::reader::{BEGINS, Reader, ReaderRef, Section};

/// The readers of the process. One that is in the thread's own memory is here as long as the thread may use
/// it; one that fences itself lives for ever and, once its thread has ended, is used again.
struct ReaderRegistry {
    all: Vec<ReaderRef>,
    spare: Vec<&'static Reader>,
}

static REGISTRY: Mutex<ReaderRegistry> = Mutex::new(ReaderRegistry { all: Vec::new(), spare: Vec::new() });
/// The process that the registered threads are of: in the child of a fork there are none but the one that
/// forked. Changed under the registry's lock.
static PROCESS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);

/// Locks the registry. Asks the system for the process id (one cheap system call): in the child of a fork,
/// the first call removes the readers of the parent's other threads.
fn registry() -> MutexGuard<'static, ReaderRegistry> {
    let mut registry = REGISTRY.lock();
    let process = std::process::id();
    if PROCESS.load(Ordering::Relaxed) != process {
        let own = hot(|thread| thread.registered.get());
        registry.all.retain(|reader| Some(*reader) == own);
        PROCESS.store(process, Ordering::Relaxed);
    }
    registry
}

impl ReaderRegistry {
    /// The reader, if it is registered now.
    fn get(&self, reader: ReaderRef) -> Option<&Reader> {
        if !self.all.contains(&reader) {
            return None;
        }
        // SAFETY: as for `reading`.
        Some(unsafe { reader.0.as_ref() })
    }

    /// Those that are reading now, with the count of the read.
    fn reading(&self) -> Vec<(ReaderRef, u64)> {
        let reading = |reader: &ReaderRef| {
            // SAFETY: it is in the memory of a thread that has not ended, which takes it out before that
            // memory goes (`end`, under the lock that the caller holds), or was leaked. In the child of a
            // fork, the memory of the parent's other threads is still there.
            let count = unsafe { reader.0.as_ref() }.reading()?;
            Some((*reader, count))
        };
        self.all.iter().filter_map(reading).collect()
    }
}

/// The calling thread ends, and reads optimistically no more.
fn end() {
    let Some(reader) = hot(|thread| {
        thread.may_register.set(false);
        thread.registered.take()
    }) else {
        return;
    };
    if PROCESS.load(Ordering::Relaxed) != std::process::id() {
        // In the child of a fork: the lock may be held by a thread of the parent, for good. The first thread
        // of the child that takes it forgets this reader.
        hot(|thread| thread.reader.sections.store(BEGINS, Ordering::Relaxed));
        return;
    }
    let mut registry = registry();
    if reader == in_thread() {
        hot(|thread| thread.reader.sections.store(BEGINS, Ordering::Relaxed));
        registry.all.retain(|other| *other != reader);
    } else {
        // SAFETY: a reader that is not in its thread's own memory was leaked, and lives for ever.
        registry.spare.push(unsafe { reader.0.as_ref() });
    }
}

/// The reader in the calling thread's own memory.
#[inline(always)]
fn in_thread() -> ReaderRef {
    hot(|thread| ReaderRef(NonNull::from(&thread.reader)))
}

/// Begins an optimistic read of a thread that has made one before and need not fence its reads. None also if
/// the thread is within another read.
#[inline(always)]
pub(crate) fn enter_unfenced() -> Option<Section<'static>> {
    // SAFETY: in the thread's memory until the thread ends, with which the section stays.
    unsafe { in_thread().0.as_ref() }.enter_unfenced()
}

fn own() -> Option<ReaderRef> {
    hot(|thread| thread.registered.get())
}

/// The calling thread's reader, registered. Stays with its thread.
pub(crate) struct OwnReader(ReaderRef, PhantomData<*const ()>);

impl OwnReader {
    /// As [`Reader::enter`].
    pub fn enter(&self) -> Option<Section<'_>> {
        // SAFETY: it lives until the thread ends, with which this value and the section stay.
        unsafe { self.0.0.as_ref() }.enter()
    }
}

/// The calling thread's reader, registered if need be. For threads that [`enter_unfenced`] refuses: those
/// that have not read optimistically before, fence their reads, or are within a read. None if the thread is
/// ending.
#[cold]
pub(crate) fn own_reader() -> Option<OwnReader> {
    own().or_else(register).map(|reader| OwnReader(reader, PhantomData))
}

fn register() -> Option<ReaderRef> {
    if !hot(|thread| thread.may_register.get()) {
        return None;
    }
    static END: sys::ThreadEnd = sys::ThreadEnd::new(end);
    let is_told = END.call_in_this_thread();
    let mut registry = registry();
    let reader = if is_told && sys::has_membarrier() {
        hot(|thread| thread.reader.sections.store(0, Ordering::Relaxed));
        registry.all.push(in_thread());
        in_thread()
    } else if let Some(spare) = registry.spare.pop() {
        ReaderRef(NonNull::from(spare))
    } else {
        let made = ReaderRef(NonNull::from(Box::leak(Box::new(Reader::new(true)))));
        registry.all.push(made);
        made
    };
    hot(|thread| thread.registered.set(Some(reader)));
    Some(reader)
}

/// Optimistic reads that were going on at a moment, in all threads.
pub(crate) struct Reads(Vec<(ReaderRef, u64)>);

/// The reads that are going on now. A read that begins later finds every page absent that had left before.
/// Costs a `getpid`, and a `membarrier` if other threads are registered as readers.
pub(crate) fn going_on() -> Reads {
    let own = own();
    let is_alone = registry().all.iter().all(|reader| Some(*reader) == own);
    // A thread that registers from here on takes the lock after us, and sees that the page has left.
    if !is_alone {
        sys::barrier_everywhere();
    }
    Reads(REGISTRY.lock().reading())
}

/// The calling thread is within an optimistic read.
pub(crate) fn is_reading() -> bool {
    own().is_some_and(|own| REGISTRY.lock().get(own).is_some_and(|own| own.reading().is_some()))
}

impl Reads {
    /// Whether none of them goes on any more.
    pub fn are_over(&mut self) -> bool {
        if !self.0.is_empty() {
            // A reader that is no longer registered has ended its reads. A new reader at the same address may
            // be mistaken for it, which at worst waits for one more read.
            let registry = REGISTRY.lock();
            self.0.retain(|(reader, read)| registry.get(*reader).is_some_and(|reader| reader.is_at(*read)));
        }
        self.0.is_empty()
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn reads_going_on_are_seen_to_end() {
        let ((entered, has_entered), (leave, leaves)) = (channel(), channel::<()>());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let reader = own_reader().unwrap();
                let section = reader.enter();
                // One within another ends with the outer one.
                assert!(section.is_some() && reader.enter().is_none() && enter_unfenced().is_none());
                entered.send(()).unwrap();
                // Ends with the sender, too: a check that fails leaves nobody waiting.
                let _ = leaves.recv();
                drop(section);
            });
            let leave = leave;
            has_entered.recv().unwrap();
            let mut reads = going_on();
            assert!(!reads.are_over() && !is_reading());
            drop(leave);
            while !reads.are_over() {
                std::thread::yield_now();
            }
        });
        let reader = own_reader().unwrap();
        let section = reader.enter().unwrap();
        let mut reads = going_on();
        assert!(!reads.are_over() && is_reading());
        drop(section);
        assert!(reads.are_over() && !is_reading());
    }

    #[test]
    fn an_ended_thread_is_taken_out() {
        let reader = std::thread::spawn(|| {
            let reader = own_reader().unwrap().0;
            assert!(registry().get(reader).is_some());
            reader
        });
        let reader = reader.join().unwrap();
        if sys::has_membarrier() {
            // Another thread's may lie there by now, but not twice.
            assert!(registry().all.iter().filter(|other| **other == reader).count() <= 1);
        } else {
            assert!(registry().get(reader).is_some());
        }
        let all = registry().all.clone();
        assert!(all.iter().enumerate().all(|(at, one)| !all[..at].contains(one)));
    }

    /// Destructors of keys run after those of thread-local variables.
    #[test]
    fn a_thread_that_reads_first_when_it_ends_is_taken_out_too() {
        static SEEN: Mutex<Option<ReaderRef>> = Mutex::new(None);
        extern "C" fn read_late(_: *mut libc::c_void) {
            *SEEN.lock() = own_reader().map(|reader| reader.0);
        }
        let mut key = 0;
        // SAFETY: `key` is valid for the call, and the destructor looks at no value.
        assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(read_late)) }, 0);
        // Another test's thread may have come to lie in the same place meanwhile, but not each time.
        let is_out = (0..100).any(|_| {
            let value = std::ptr::NonNull::<libc::c_void>::dangling().as_ptr().expose_provenance();
            let thread = std::thread::spawn(move || {
                // SAFETY: the key was made, and nobody follows the value.
                unsafe { libc::pthread_setspecific(key, std::ptr::with_exposed_provenance(value)) }
            });
            assert_eq!(thread.join().unwrap(), 0);
            let seen = SEEN.lock().take().expect("it read");
            !sys::has_membarrier() || registry().get(seen).is_none()
        });
        assert!(is_out);
    }
}
