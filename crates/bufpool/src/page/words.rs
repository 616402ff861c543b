//! The memory of page words: reserved addresses that words come into being at.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use crate::page::word::PageWord;
use crate::sync;
#[cfg(not(bufpool_loom))]
use crate::sys::Reservation;
use crate::sys::{self, AddressSpace};

/// Page words that come into being from the first on, as many as are needed, and then stay where they are.
///
/// A word is found with one comparison and one load, because the addresses of all that may ever be are
/// reserved.
#[repr(C)]
pub(crate) struct WordTable {
    /// Where `memory` begins.
    start: NonNull<PageWord>,
    /// How many there are. Grows only.
    len: sync::AtomicU64,
    capacity: u64,
    memory: WordMemory,
}

// SAFETY: page words are for all threads, and `start` is the table's own.
unsafe impl Send for WordTable {}
// SAFETY: page words are for all threads, and `start` is the table's own.
unsafe impl Sync for WordTable {}

impl WordTable {
    /// An empty table that can grow to `capacity` words, or to a part of that where the process may not have
    /// that many addresses; to none where it may not have `least`. Under a limit on addresses it takes no
    /// more than [`reservable_bytes`], so that files leave the rest of the process what it needs.
    pub fn new(capacity: u64, least: u64) -> Self {
        let _one_at_a_time = ADDRESSES.lock();
        let words_max = reservable_bytes(sys::address_space()) / size_of::<u64>() as u64;
        let halves = std::iter::successors(Some(capacity), |words| Some(words / 2));
        let fitting = halves.skip_while(|words| *words > words_max);
        let reserved = fitting.take_while(|words| *words >= least.max(1)).find_map(|words| {
            let memory = WordMemory::reserve(words as usize)?;
            Some((memory, words))
        });
        let (memory, capacity) = reserved.unwrap_or((WordMemory::none(), 0));
        Self { start: memory.start(), len: sync::AtomicU64::new(0), capacity, memory }
    }

    /// A table of `words` words (not 0), all of them there; none if the system has no memory for them, or a
    /// limit on addresses has no room.
    pub fn whole(words: u64) -> Option<Self> {
        let memory = {
            let _one_at_a_time = ADDRESSES.lock();
            if words > needed_bytes_max(sys::address_space()) / size_of::<u64>() as u64 {
                return None;
            }
            WordMemory::reserve(words as usize)?
        };
        let table = Self { start: memory.start(), len: sync::AtomicU64::new(0), capacity: words, memory };
        table.grow(words).then_some(table)
    }

    /// The word at `index`, if there is one.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&PageWord> {
        // Acquire pairs with the release in `grow`.
        if index >= self.len.load(Ordering::Acquire) {
            return None;
        }
        self.memory.check(index as usize);
        // SAFETY: `index` is below the number of words.
        let word = unsafe { self.start.add(index as usize) };
        // SAFETY: the word is there until the table is dropped, and changed by atomic operations only.
        Some(unsafe { word.as_ref() })
    }

    /// All words.
    pub fn words(&self) -> &[PageWord] {
        // SAFETY: the first `len` words are there until the table is dropped, and changed by atomic
        // operations only; where there are none, the address is aligned and not null.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len() as usize) }
    }

    /// How many words there are.
    pub fn len(&self) -> u64 {
        self.len.load(Ordering::Acquire)
    }

    /// Where the words lie. None if fewer than [`WORDS_RESERVED`] are reserved: users of a map look at any of
    /// them, made or not.
    ///
    /// # Safety
    ///
    /// The map is not used once the table is dropped.
    pub unsafe fn map(&self) -> Option<WordMap> {
        (self.capacity >= WORDS_RESERVED).then_some(WordMap(self.start))
    }

    /// How many there may be.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Makes it `len` words, at most [`capacity`](Self::capacity); the new ones are those of absent pages.
    /// False if the system has no memory. Callers make one call at a time.
    pub fn grow(&self, len: u64) -> bool {
        assert!(self.len() <= len && len <= self.capacity);
        let grown = self.memory.open_up(len as usize);
        if grown {
            self.len.store(len, Ordering::Release);
        }
        grown
    }
}

/// Held while addresses are counted and taken, so that no two tables take the same ones.
static ADDRESSES: Mutex<()> = Mutex::new(());
/// The part of a limit on addresses that reservations of page tables leave to the rest of the process: a
/// quarter.
const RESERVATIONS_LEAVE: u64 = 4;
/// One table may reserve this part, a quarter, of the addresses that are left beyond that.
const RESERVATION_SHARE: u64 = 4;
/// Words that are needed at once leave this part of the limit, a sixteenth, to the rest of the process.
const NEEDED_WORDS_LEAVE: u64 = 16;

/// Bytes of addresses that a table may reserve for pages to come. 0 where the process is limited and what it
/// has taken is not known: such a file has its words in far chunks only.
fn reservable_bytes(space: AddressSpace) -> u64 {
    match space {
        AddressSpace::Unlimited => u64::MAX,
        AddressSpace::Limited { limit_bytes, left_bytes: Some(left) } => {
            left.saturating_sub(limit_bytes / RESERVATIONS_LEAVE) / RESERVATION_SHARE
        }
        AddressSpace::Limited { left_bytes: None, .. } => 0,
    }
}

/// The most bytes of addresses that words may take which are needed now.
fn needed_bytes_max(space: AddressSpace) -> u64 {
    match space {
        AddressSpace::Limited { limit_bytes, left_bytes: Some(left) } => {
            left.saturating_sub(limit_bytes / NEEDED_WORDS_LEAVE)
        }
        AddressSpace::Unlimited | AddressSpace::Limited { left_bytes: None, .. } => u64::MAX,
    }
}

/// Words for which each file reserves addresses; a power of two. 2^27 are 1 GiB of addresses, and 512 GiB of
/// 4 KiB pages.
pub(crate) const WORDS_RESERVED: u64 = if cfg!(bufpool_loom) { 4 } else { 1 << 27 };

/// Where the words of a table lie that has addresses for [`WORDS_RESERVED`]: all may be looked at, and those
/// beyond the table's length are absent pages', in memory that can be read only.
pub(crate) struct WordMap(NonNull<PageWord>);

// SAFETY: a pointer to words that are changed by atomic operations only, whichever thread has it.
unsafe impl Send for WordMap {}
// SAFETY: as for `Send`: words are atomic, and the pointer itself does not change.
unsafe impl Sync for WordMap {}

impl WordMap {
    /// Of no table.
    pub fn none() -> Self {
        Self(NonNull::dangling())
    }

    /// The word at `index`, if it is one of these. Beyond the table's length nothing but relaxed loads are
    /// allowed, which find 0.
    ///
    /// # Safety
    ///
    /// It is the map of a table.
    #[inline(always)]
    pub unsafe fn get(&self, index: u64) -> Option<&PageWord> {
        if index >= WORDS_RESERVED {
            return None;
        }
        // SAFETY: the map is of a table with addresses for `WORDS_RESERVED` words.
        let word = unsafe { self.0.add(index as usize) };
        // SAFETY: readable, and 0 if it was never written, until the table is dropped; changed by atomic
        // operations only.
        Some(unsafe { word.as_ref() })
    }
}

/// Where the words of a table lie: reserved addresses; or none, if none could be had.
#[cfg(not(bufpool_loom))]
struct WordMemory(Option<Reservation>);

#[cfg(not(bufpool_loom))]
impl WordMemory {
    fn none() -> Self {
        Self(None)
    }

    fn reserve(words: usize) -> Option<Self> {
        let bytes = words.checked_mul(size_of::<PageWord>())?;
        Some(Self(Some(Reservation::new(bytes).ok()?)))
    }

    /// Makes the first `words` words zeroed memory, which a page word may be: it is one atomic integer.
    fn open_up(&self, words: usize) -> bool {
        self.0.as_ref().is_some_and(|memory| memory.open_up(words * size_of::<PageWord>()).is_ok())
    }

    fn start(&self) -> NonNull<PageWord> {
        self.0.as_ref().map_or(NonNull::dangling(), |memory| memory.start().cast())
    }

    #[inline(always)]
    fn check(&self, _: usize) {}
}

/// The same for the model checker, which sees who looks at a word that may not be there yet.
#[cfg(bufpool_loom)]
struct WordMemory {
    words: Box<[PageWord]>,
    is_open: Box<[loom::cell::UnsafeCell<bool>]>,
}

#[cfg(bufpool_loom)]
impl WordMemory {
    fn none() -> Self {
        Self { words: Box::default(), is_open: Box::default() }
    }

    fn reserve(words: usize) -> Option<Self> {
        let is_open = (0..words).map(|_| loom::cell::UnsafeCell::new(false)).collect();
        Some(Self { words: (0..words).map(|_| PageWord::new()).collect(), is_open })
    }

    fn open_up(&self, words: usize) -> bool {
        for is_open in &self.is_open[..words] {
            // SAFETY: as long as a word is not open nobody else looks; loom fails the model if somebody does.
            if !is_open.with(|is_open| unsafe { *is_open }) {
                // SAFETY: nobody else looks yet; loom fails the model if somebody does.
                is_open.with_mut(|is_open| unsafe { *is_open = true });
            }
        }
        true
    }

    fn start(&self) -> NonNull<PageWord> {
        NonNull::from(&*self.words).cast()
    }

    fn check(&self, word: usize) {
        // SAFETY: written before the word was counted; loom fails the model if not.
        assert!(self.is_open[word].with(|is_open| unsafe { *is_open }), "not there yet");
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_left_a_quarter_by_reservations_and_a_sixteenth_by_words_that_are_needed() {
        let space = |left| AddressSpace::Limited { limit_bytes: 1600, left_bytes: left };
        let reservable = [1600, 800, 404, 400, 0].map(|left| reservable_bytes(space(Some(left))));
        assert_eq!(reservable, [300, 100, 1, 0, 0], "a quarter of what is left above 400");
        let needed = [1600, 101, 100, 0].map(|left| needed_bytes_max(space(Some(left))));
        assert_eq!(needed, [1500, 1, 0, 0], "what is left above 100");
        assert_eq!((reservable_bytes(space(None)), needed_bytes_max(space(None))), (0, u64::MAX));
        let unlimited = AddressSpace::Unlimited;
        assert_eq!((reservable_bytes(unlimited), needed_bytes_max(unlimited)), (u64::MAX, u64::MAX));
    }
}
