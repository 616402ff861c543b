//! A thread's optimistic reads, counted in a word of its own; who waits for them is in
//! [`readers`](crate::page::readers).

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::compiler_fence;

use crate::sync::{AtomicU64, Ordering, const_unless_loom, fence};

/// The bit of a counter that says that a read is going on.
pub(crate) const READING: u64 = 2;
/// What a read adds when it begins, and when it ends.
pub(crate) const BEGINS: u64 = 3;
pub(crate) const ENDS: u64 = 1;

/// One thread's optimistic reads.
pub(crate) struct Reader {
    /// How many have ended, times 4; 3 more while one is going on. Written by the thread.
    pub(crate) sections: AtomicU64,
    /// The waiter's barrier does not reach the thread, so each read begins with a full barrier.
    pub(crate) fences_itself: bool,
}

/// An optimistic read that is going on. Stays with its thread.
pub(crate) struct Section<'r> {
    reader: &'r Reader,
    /// The value of the counter when the read is over. It is known now, because no read begins within
    /// another.
    end: u64,
    _not_send: PhantomData<*const ()>,
}

impl Reader {
    pub fn new(fences_itself: bool) -> Self {
        Self { sections: AtomicU64::new(0), fences_itself }
    }

    const_unless_loom! {
        /// One that has not been registered: its read never ends, so none can begin.
        pub fn unregistered() -> Self {
            Self { sections: AtomicU64::new(BEGINS), fences_itself: false }
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
    pub fn enter_unfenced(&self) -> Option<Section<'_>> {
        let sections = self.sections.load(Ordering::Relaxed);
        if sections & READING != 0 {
            return None;
        }
        // Release, too: a waiter that sees this count without having seen the end of the read before comes
        // after that read all the same.
        self.sections.store(sections + BEGINS, Ordering::Release);
        // Nothing of the read moves before the store in the program; `membarrier` does the rest.
        compiler_fence(Ordering::SeqCst);
        Some(Section { reader: self, end: sections + BEGINS + ENDS, _not_send: PhantomData })
    }

    /// The count of the read that is going on now, if one is. After a barrier.
    pub fn reading(&self) -> Option<u64> {
        // Acquire: what the reader did is over for a thread that sees the next count.
        Some(self.sections.load(Ordering::Acquire)).filter(|sections| sections & READING != 0)
    }

    /// The read with this count goes on.
    pub fn is_at(&self, read: u64) -> bool {
        self.sections.load(Ordering::Acquire) == read
    }
}

impl Drop for Section<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // Release: the read's loads come before.
        self.reader.sections.store(self.end, Ordering::Release);
    }
}

/// A thread's reader, for that thread, and for others under the registry's lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReaderRef(pub(crate) NonNull<Reader>);

// SAFETY: a reader is a counter that is changed by atomic operations only, and a flag that never changes.
unsafe impl Send for ReaderRef {}
