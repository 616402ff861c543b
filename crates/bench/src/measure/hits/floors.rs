//! Lower bounds of the cost of a hit: pages in an array, without a pool, and with the words or the lock that
//! any pool adds.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use anyhow::Result;

use super::{Contender, PAGE_BYTES, contents, first_word};

/// The alignment of memory that `madvise` takes.
const SYSTEM_PAGE_BYTES: usize = 4096;

/// An array of pages of `BYTES` bytes, indexed directly: the lower bound.
pub struct Array<const BYTES: usize = PAGE_BYTES> {
    pages: Vec<[u8; BYTES]>,
    huge: bool,
}

impl<const BYTES: usize> Array<BYTES> {
    /// `pages` pages with their [`contents`]; if `huge`, in huge pages where the system has them, as a pool's
    /// memory is.
    pub fn new(pages: u32, huge: bool) -> Self {
        let mut array = Self { pages: Vec::with_capacity(pages as usize), huge };
        let spare = array.pages.spare_capacity_mut();
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        let start = spare.as_mut_ptr().map_addr(|at| at.next_multiple_of(SYSTEM_PAGE_BYTES));
        // SAFETY: the range is within the vector's own allocation, and the advice changes only how it is
        // backed.
        unsafe { libc::madvise(start.cast(), size_of_val(spare) - SYSTEM_PAGE_BYTES, advice) };
        for number in 0..pages {
            let mut page = [0; BYTES];
            page[..8].copy_from_slice(&contents(number).to_le_bytes());
            array.pages.push(page);
        }
        array
    }
}

impl<const BYTES: usize> Contender for Array<BYTES> {
    fn name(&self) -> String {
        if self.huge { "array-huge-pages".into() } else { "array".into() }
    }

    // The bench has callgrind count this function by its name. It is generic, so the compiler could inline it
    // into the bench, where it would have no name.
    #[inline(never)]
    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for page in pages {
            sum = sum.wrapping_add(first_word(&self.pages[*page as usize]));
        }
        Ok(sum)
    }
}

/// An array with a word for each page and nothing else: what translation and latch cost any pool on this
/// machine. A visit loads the page's word and finds the page by it. If `latched`, it adds a holder to the
/// word with one compare-and-swap and removes it with one subtraction; otherwise it loads the word again and
/// checks that it has not changed.
pub struct Words<'a> {
    array: &'a Array,
    words: Vec<AtomicU64>,
    latched: bool,
}

/// One holder in a word. The lower 32 bits are the page's index.
const HOLDER: u64 = 1 << 32;

impl<'a> Words<'a> {
    /// Words for the pages of `array`.
    pub fn new(array: &'a Array, latched: bool) -> Self {
        let words = (0..array.pages.len() as u64).map(AtomicU64::new).collect();
        Self { array, words, latched }
    }

    #[inline(always)]
    fn first_word_by(&self, word: u64) -> u64 {
        first_word(&self.array.pages[word as u32 as usize])
    }
}

impl Contender for Words<'_> {
    fn name(&self) -> String {
        if self.latched { "word-latched".into() } else { "word-checked".into() }
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for page in pages {
            let word = &self.words[*page as usize];
            let mut seen = word.load(Ordering::Acquire);
            if self.latched {
                while let Err(now) =
                    word.compare_exchange_weak(seen, seen + HOLDER, Ordering::Acquire, Ordering::Relaxed)
                {
                    seen = now;
                }
                sum = sum.wrapping_add(self.first_word_by(seen));
                word.fetch_sub(HOLDER, Ordering::Release);
            } else {
                sum = sum.wrapping_add(self.first_word_by(seen));
                fence(Ordering::Acquire);
                anyhow::ensure!(word.load(Ordering::Relaxed) == seen, "nobody writes");
            }
        }
        Ok(sum)
    }
}

/// A reader-writer lock around one word, read at each visit: what threads pay that take the same lock.
pub struct OneLock(parking_lot::RwLock<u64>);

impl OneLock {
    /// A lock around the first word of page `number`.
    pub fn new(number: u32) -> Self {
        Self(parking_lot::RwLock::new(contents(number)))
    }
}

impl Contender for OneLock {
    fn name(&self) -> String {
        "rw-lock".into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for _ in pages {
            sum = sum.wrapping_add(*self.0.read());
        }
        Ok(sum)
    }
}
