//! A file's page words: one table from page 0 on, for which addresses are reserved when the file is opened.
//!
//! A word is reached without a lock, never moves, and may be pointed to as long as the file is open. Hits
//! reach it by one comparison with a constant ([`PageTable::map`]), since words that were never made can be
//! looked at, too. The table grows to the highest page that was touched; memory is taken where words are
//! used.
//!
//! [`WORDS_RESERVED`] words are reserved, or fewer where the process may not have that many addresses: of
//! those that a limit leaves, a table takes a share, and all tables together leave a quarter of the limit to
//! the rest of the process. Pages beyond have their words in *far chunks* of doubling sizes, each allocated
//! as a whole when one of its pages is first touched: the first reaches from a power of two to the next.
//! Finding such a word takes a look into a directory of chunks, which hits on all other pages are spared.
//!
//! A file that is closed and opened anew has another number and another table. The versions of its pages
//! begin at that table's *first version*. First versions of different files are spread over the range of
//! versions. So a version of an earlier table recurs in a later one only if a page has changed as often as
//! the two first versions are apart: with a thousand files opened, at least four hundred thousand times.

use std::sync::OnceLock;

use bufpool_policies::{FileId, PageId};

use crate::memory::arena::FrameMap;
use crate::page::word::PageWord;
use crate::page::words::{WORDS_RESERVED, WordMap, WordTable};
use crate::sync::{AtomicU64, Mutex, Ordering};

/// The table grows by multiples of this many words: those of a page of the system.
const GROWTH: u64 = if cfg!(bufpool_loom) { 1 } else { 512 };
/// Places for far chunks. A chunk's number is that of the highest bit of the page numbers there.
const CHUNKS: usize = u64::BITS as usize;

/// The page words of one file.
pub(crate) struct PageTable {
    /// Where the frames lie whose pages the words are of: those of the file's pool.
    frames: FrameMap,
    near: WordTable,
    /// Those of pages beyond the capacity of `near`.
    far: [OnceLock<WordTable>; CHUNKS],
    /// Held while words are made; true once the table was [released](Self::release).
    is_released: Mutex<bool>,
    first_version: u32,
}

/// Why a page has no word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoWord {
    /// The budget has no more.
    Budget,
    /// The system refuses the memory, or a limit on the process's addresses has no room for it.
    Memory { bytes: u64 },
    /// The file was closed.
    Closed,
}

/// Memory for page tables, shared by all files of a pool.
pub(crate) struct PageTableBudget {
    bytes_max: u64,
    bytes: AtomicU64,
}

impl PageTableBudget {
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, bytes: AtomicU64::new(0) }
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    fn take(&self, bytes: u64) -> bool {
        let within = |now: u64| now.checked_add(bytes).filter(|&then| then <= self.bytes_max);
        self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Far chunk, and index within it, of a page number.
fn place(number: u64) -> (usize, usize) {
    let chunk = (number | (GROWTH - 1) | 1).ilog2() as usize;
    (chunk, (number - first_of(chunk)) as usize)
}

/// The first page number of a far chunk. The first chunk has the numbers from 0 on that are less than the
/// size of the next.
fn first_of(chunk: usize) -> u64 {
    if 1 << chunk < GROWTH { 0 } else { 1 << chunk }
}

fn words_in(chunk: usize) -> u64 {
    GROWTH.max(1 << chunk)
}

/// The first version of the pages of this file. Below 2^30, so that at least 2^30 changes pass before
/// versions wrap; not 0, because a word of zeros has no version yet.
fn first_version(file: FileId) -> u32 {
    // Multiples of the golden section are as far apart as they can be, however many there are.
    const GOLDEN_SECTION: u32 = 0x9e37_79b9;
    ((file.0 + 1).wrapping_mul(GOLDEN_SECTION) >> 2).max(1)
}

/// Counts 8 bytes a page word, also under the model checker, whose words are larger.
const fn bytes_of(words: u64) -> u64 {
    words * size_of::<u64>() as u64
}

impl PageTable {
    /// Of a file whose pages come into frames of the arena that `frames` is the map of.
    pub fn new(file: FileId, frames: FrameMap) -> Self {
        Self::with_reserved(WORDS_RESERVED, file, frames)
    }

    /// Reserves addresses of `words` words, a power of two, or of as many as can be had.
    fn with_reserved(words: u64, file: FileId, frames: FrameMap) -> Self {
        Self {
            frames,
            near: WordTable::new(words, GROWTH),
            far: std::array::from_fn(|_| OnceLock::new()),
            is_released: Mutex::default(),
            first_version: first_version(file),
        }
    }

    /// The word of page `number`, if it was made.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&PageWord> {
        self.near.get(number).or_else(|| self.get_far(number))
    }

    /// Where the words of pages below [`WORDS_RESERVED`] lie, made or not; none if that many addresses could
    /// not be reserved.
    ///
    /// # Safety
    ///
    /// The map is not used once the table is dropped.
    pub unsafe fn map(&self) -> Option<WordMap> {
        // SAFETY: the caller drops the map before the table, and `near` is the table's.
        unsafe { self.near.map() }
    }

    /// Where the frames lie whose numbers are in the words.
    #[inline(always)]
    pub fn frames(&self) -> &FrameMap {
        &self.frames
    }

    /// The word of page `number`, if it was made and lies in a far chunk.
    #[cold]
    pub fn get_far(&self, number: u64) -> Option<&PageWord> {
        // Far chunks are made only for numbers that the near table has no room for.
        let (chunk, index) = place(number);
        self.far[chunk].get()?.get(index as u64)
    }

    /// The word of page `number` (below 2^40), which is made if need be. The page may be brought in then.
    #[cold]
    pub fn get_or_allocate(&self, number: u64, budget: &PageTableBudget) -> Result<&PageWord, NoWord> {
        debug_assert!(number < 1 << PageId::NUMBER_BITS);
        if self.get(number).is_none() {
            let is_released = self.is_released.lock();
            if *is_released {
                return Err(NoWord::Closed);
            }
            if number < self.near.capacity() {
                self.grow_near(number + 1, budget)?;
            } else {
                self.make_far(number, budget)?;
            }
        }
        Ok(self.get_to_load(number).expect("the word was made"))
    }

    /// The word of page `number`, if it was made. The page may be brought in then.
    pub fn get_to_load(&self, number: u64) -> Option<&PageWord> {
        let word = self.get(number)?;
        word.set_first_version(self.first_version);
        Some(word)
    }

    /// Makes the near table at least `needed` words long; an eighth longer than it was, if the budget allows,
    /// so that a file that is read from beginning to end makes few steps.
    fn grow_near(&self, needed: u64, budget: &PageTableBudget) -> Result<(), NoWord> {
        let before = self.near.len();
        if needed <= before {
            return Ok(());
        }
        for wanted in [needed.max(before + before / 8), needed] {
            let len = wanted.next_multiple_of(GROWTH).min(self.near.capacity());
            let bytes = bytes_of(len - before);
            if budget.take(bytes) {
                if self.near.grow(len) {
                    return Ok(());
                }
                budget.give_back(bytes);
                return Err(NoWord::Memory { bytes });
            }
        }
        Err(NoWord::Budget)
    }

    fn make_far(&self, number: u64, budget: &PageTableBudget) -> Result<(), NoWord> {
        let chunk = place(number).0;
        if self.far[chunk].get().is_some() {
            return Ok(());
        }
        let bytes = bytes_of(words_in(chunk));
        if !budget.take(bytes) {
            return Err(NoWord::Budget);
        }
        let Some(words) = WordTable::whole(words_in(chunk)) else {
            budget.give_back(bytes);
            return Err(NoWord::Memory { bytes });
        };
        self.far[chunk].get_or_init(|| words);
        Ok(())
    }

    /// All words of pages from `from` to below `to` that were made, with their numbers, in ascending order.
    pub fn words(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &PageWord)> {
        let far = self.far_chunks().map(|(chunk, words)| (first_of(chunk), words));
        std::iter::once((0, self.near.words())).chain(far).flat_map(move |(first, words)| {
            let begin = from.saturating_sub(first).min(words.len() as u64);
            let end = to.saturating_sub(first).clamp(begin, words.len() as u64);
            (first + begin..).zip(&words[begin as usize..end as usize])
        })
    }

    fn far_chunks(&self) -> impl Iterator<Item = (usize, &[PageWord])> {
        self.far.iter().enumerate().filter_map(|(chunk, words)| Some((chunk, words.get()?.words())))
    }

    /// Gives the bytes of all words back to `budget`, when the file is closed. No more are made.
    pub fn release(&self, budget: &PageTableBudget) {
        let mut is_released = self.is_released.lock();
        debug_assert!(!*is_released, "a file is closed once");
        *is_released = true;
        let far: u64 = self.far_chunks().map(|(_, words)| words.len() as u64).sum();
        budget.give_back(bytes_of(self.near.len() + far));
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn with_reserved(words: u64) -> PageTable {
        PageTable::with_reserved(words, FileId(0), FrameMap::none())
    }

    /// As where the process may have no, few and plenty of addresses.
    const RESERVED: [u64; 4] = [0, GROWTH, 4 * GROWTH, WORDS_RESERVED];

    #[test]
    fn each_page_has_one_word_of_its_own() {
        for reserved in RESERVED {
            let (table, budget) = (with_reserved(reserved), PageTableBudget::new(u64::MAX));
            let mut addresses = HashSet::new();
            for number in (0..5000).chain([1 << 20, (1 << 20) + 1]) {
                let word = table.get_or_allocate(number, &budget).unwrap();
                assert!(word.state().is_absent());
                assert!(std::ptr::eq(word, table.get(number).unwrap()));
                assert!(addresses.insert(std::ptr::from_ref(word).addr()), "{number}");
            }
            for number in [1 << (PageId::NUMBER_BITS + 1), u64::MAX, u64::MAX - GROWTH] {
                assert!(table.get(number).is_none(), "{number}");
            }
            table.release(&budget);
            assert_eq!(budget.bytes(), 0);
        }
    }

    #[test]
    fn a_word_stays_where_it_is_while_the_table_grows() {
        let (table, budget) = (with_reserved(1 << 16), PageTableBudget::new(u64::MAX));
        let first = table.get_or_allocate(0, &budget).unwrap();
        for number in [600, 1 << 15, 1 << 17] {
            table.get_or_allocate(number, &budget).unwrap();
            assert!(std::ptr::eq(first, table.get(0).unwrap()));
        }
    }

    /// Or as far as is needed, where that is more, or where the budget ends before.
    #[test]
    fn a_table_grows_by_an_eighth() {
        let words = |limit, numbers: &[u64]| {
            let (table, budget) = (with_reserved(64 * GROWTH), PageTableBudget::new(limit));
            for number in numbers {
                table.get_or_allocate(*number, &budget).unwrap();
            }
            (table.near.len(), budget.bytes() / bytes_of(1))
        };
        let first = 16 * GROWTH - 1;
        assert_eq!(words(u64::MAX, &[first]), (16 * GROWTH, 16 * GROWTH));
        assert_eq!(words(u64::MAX, &[first, first + 1]), (18 * GROWTH, 18 * GROWTH));
        assert_eq!(words(u64::MAX, &[first, 20 * GROWTH]), (21 * GROWTH, 21 * GROWTH));
        assert_eq!(words(bytes_of(17 * GROWTH), &[first, first + 1]), (17 * GROWTH, 17 * GROWTH));
    }

    #[test]
    fn words_of_a_range_are_those_reached_one_by_one() {
        for reserved in RESERVED {
            let (table, budget) = (with_reserved(reserved), PageTableBudget::new(1 << 20));
            for number in [3, 700, 5000] {
                table.get_or_allocate(number, &budget).unwrap();
            }
            for (from, to) in [(0, 10_000), (500, 701), (700, 700), (4999, 5001), (9, 4)] {
                let found: Vec<u64> = table
                    .words(from, to)
                    .map(|(number, word)| {
                        assert!(std::ptr::eq(word, table.get(number).unwrap()));
                        number
                    })
                    .collect();
                let expected: Vec<u64> = (from..to).filter(|&number| table.get(number).is_some()).collect();
                assert_eq!(found, expected, "{from}..{to} of {reserved}");
            }
        }
    }

    #[test]
    fn threads_that_touch_new_pages_together_find_the_same_words() {
        for reserved in RESERVED {
            let (table, budget) = (with_reserved(reserved), PageTableBudget::new(1 << 20));
            let start = std::sync::Barrier::new(4);
            let find = || {
                start.wait();
                let words =
                    (0..3000).step_by(100).map(|number| table.get_or_allocate(number, &budget).unwrap());
                words.map(|word| std::ptr::from_ref(word).addr()).collect::<Vec<usize>>()
            };
            let found: Vec<Vec<usize>> = std::thread::scope(|scope| {
                let threads: Vec<_> = (0..4).map(|_| scope.spawn(find)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            assert!(found.iter().all(|addresses| *addresses == found[0]));
            table.release(&budget);
            assert_eq!(budget.bytes(), 0);
        }
    }

    #[test]
    fn the_budget_is_kept_and_given_back() {
        for (reserved, far) in [(WORDS_RESERVED, 2 * GROWTH), (GROWTH, GROWTH)] {
            let budget = PageTableBudget::new(bytes_of(GROWTH) + 1);
            let table = with_reserved(reserved);
            assert!(table.get_or_allocate(0, &budget).is_ok());
            assert_eq!(table.get_or_allocate(far, &budget).err(), Some(NoWord::Budget));
            assert_eq!(budget.bytes(), bytes_of(GROWTH));
            table.release(&budget);
            assert_eq!(table.get_or_allocate(far, &budget).err(), Some(NoWord::Closed));
            assert!(table.get_or_allocate(0, &budget).is_ok(), "words stay as long as their file");
            assert_eq!(budget.bytes(), 0);
        }
    }

    /// Those of a thousand files that are opened one after the other.
    #[test]
    fn first_versions_are_far_apart() {
        for from in [0, 7, 1 << 20] {
            let mut firsts: Vec<u32> =
                (from..from + 1000).map(|number| first_version(FileId(number))).collect();
            firsts.sort_unstable();
            assert!(firsts[0] > 0 && firsts.iter().all(|first| *first < 1 << 30));
            assert!(firsts.windows(2).all(|pair| pair[1] - pair[0] > 400_000), "{from}");
        }
    }

    /// A page that was never in memory has no version of before when the file is shortened below it.
    #[test]
    fn a_word_begins_at_the_first_version_of_its_table() {
        let (table, budget) = (with_reserved(WORDS_RESERVED), PageTableBudget::new(u64::MAX));
        let made = table.get_or_allocate(7, &budget).unwrap();
        assert_eq!(made.state().version(), first_version(FileId(0)));
        let neighbour = table.get(8).unwrap();
        neighbour.renew_absent();
        assert_eq!(neighbour.state().version(), 0);
        table.get_to_load(8).unwrap();
        neighbour.renew_absent();
        assert_eq!(neighbour.state().version(), first_version(FileId(0)) + 1);
        table.get_to_load(8).unwrap();
        assert_eq!(neighbour.state().version(), first_version(FileId(0)) + 1);
        table.release(&budget);
    }

    /// A table takes memory for the highest page only; far chunks come whole.
    #[test]
    fn a_table_takes_no_more_than_it_needs() {
        let budget = PageTableBudget::new(u64::MAX);
        let table = with_reserved(1 << 20);
        table.get_or_allocate(100_000, &budget).unwrap();
        assert_eq!(budget.bytes(), bytes_of(100_001_u64.next_multiple_of(GROWTH)));
        table.get_or_allocate(1 << 20, &budget).unwrap();
        assert_eq!(budget.bytes(), bytes_of(100_001_u64.next_multiple_of(GROWTH) + (1 << 20)));
    }

    #[test]
    fn a_map_has_the_words_of_the_table_and_absent_ones() {
        for reserved in RESERVED {
            let table = with_reserved(reserved);
            // SAFETY: the map is dropped before the table.
            let Some(map) = (unsafe { table.map() }) else {
                assert!(reserved < WORDS_RESERVED);
                continue;
            };
            // SAFETY: it is a table's.
            let word = |number| unsafe { map.get(number) };
            for number in [0, 7, 5000, WORDS_RESERVED - 1] {
                let seen = word(number).unwrap();
                assert!(seen.begin_optimistic().is_none() && seen.try_shared().is_err());
                if number < WORDS_RESERVED - 1 {
                    let made = table.get_or_allocate(number, &PageTableBudget::new(u64::MAX)).unwrap();
                    assert!(std::ptr::eq(seen, made));
                }
            }
            assert!([WORDS_RESERVED, u64::MAX].iter().all(|number| word(*number).is_none()));
        }
    }
}
