//! What a file allows: which pages it has, and whether it is closed, poisoned or for reading only.
//!
//! Looked at without a lock by every access. Whoever closes a file or shortens it must know that no page is loaded behind its back,
//! so it and a loader do two things each, with a fence in between: the closer closes the gate, then looks at the page words; the
//! loader marks the page's word as *loading*, then looks at the gate. One of them sees the other.

use crate::sync::{AtomicU8, AtomicU64, Ordering, fence};

const READ_ONLY: u8 = 1;
const POISONED: u8 = 2;
const CLOSED: u8 = 4;

pub(crate) struct Gate {
    flags: AtomicU8,
    pages: AtomicU64,
}

impl Gate {
    pub fn new(read_only: bool, pages: u64) -> Self {
        Self { flags: AtomicU8::new(if read_only { READ_ONLY } else { 0 }), pages: AtomicU64::new(pages) }
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

    /// Neither read-only, poisoned nor closed.
    #[inline]
    pub fn takes_writes(&self) -> bool {
        self.flags.load(Ordering::Relaxed) == 0
    }

    /// Nobody begins to load a page from here on (or may again); a load that has begun is seen by whoever looks at the words next.
    pub fn set_closed_fenced(&self, closed: bool) {
        if closed {
            self.flags.fetch_or(CLOSED, Ordering::Relaxed);
        } else {
            self.flags.fetch_and(!CLOSED, Ordering::Relaxed);
        }
        // Pairs with the fence in `fence_before_load`.
        fence(Ordering::SeqCst);
    }

    /// As [`set_closed_fenced`](Self::set_closed_fenced), for pages from `pages` on.
    pub fn set_pages_fenced(&self, pages: u64) {
        self.pages.store(pages, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// For a thread that has just won the right to load a page, before it asks whether it may.
    pub fn fence_before_load(&self) {
        fence(Ordering::SeqCst);
    }
}
