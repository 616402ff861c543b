//! A file's page words, in chunks of doubling sizes.
//!
//! The first chunk has [`CHUNK_FIRST`] words, and so has the second; each further one has twice as many. So 32 chunks reach every page
//! number, and the directory of chunks is a small array that stays in the first-level cache. A chunk is allocated when one of its pages
//! is first touched, as zeroed memory that the operating system backs only where it is used, and never moves: a word is reached with two
//! loads and no lock, and may be pointed to as long as the file is open.

use std::sync::atomic::{AtomicU64, Ordering};

use bufpool_policies::PageId;
use parking_lot::Mutex;

use crate::arena::WordChunk;
use crate::page_word::PageWord;

/// Words in the first chunk; a power of two.
const CHUNK_FIRST: u64 = 512;
/// Places for chunks. A chunk's number is that of the highest bit of the page numbers there, so that finding it takes no subtraction and
/// no comparison.
const CHUNKS: usize = u64::BITS as usize;
/// The chunks that cover every page number; the other places stay empty.
const CHUNKS_USED: std::ops::RangeInclusive<usize> =
    CHUNK_FIRST.ilog2() as usize - 1..=PageId::NUMBER_BITS as usize - 1;
const _: () = assert!(place((1 << PageId::NUMBER_BITS) - 1).0 == *CHUNKS_USED.end());

/// The page words of one file.
pub(crate) struct PageTable {
    chunks: [WordChunk; CHUNKS],
    /// Held while a chunk is made.
    growth: Mutex<()>,
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

/// Chunk, and index within it, of a page number. Of a number beyond 2^40 the chunk is not one of [`CHUNKS_USED`].
#[inline]
const fn place(number: u64) -> (usize, usize) {
    let highest = (number | (CHUNK_FIRST - 1)).ilog2();
    // In the first chunk this exchanges its halves, which harms nobody.
    (highest as usize, (number ^ (1 << highest)) as usize)
}

/// The first page number of a chunk.
fn first_of(chunk: usize) -> u64 {
    if chunk == *CHUNKS_USED.start() { 0 } else { 1 << chunk }
}

fn words_in(chunk: usize) -> u64 {
    CHUNK_FIRST.max(1 << chunk)
}

const fn bytes_of(words: u64) -> u64 {
    words * size_of::<PageWord>() as u64
}

impl PageTable {
    pub fn new() -> Self {
        Self { chunks: std::array::from_fn(|_| WordChunk::default()), growth: Mutex::new(()) }
    }

    /// The word of page `number`, if its chunk exists.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&PageWord> {
        let (chunk, index) = place(number);
        self.chunks[chunk % CHUNKS].get(index)
    }

    /// The word of page `number` (below 2^40), whose chunk is allocated if need be; `None` if that would pass the budget.
    #[cold]
    pub fn get_or_allocate(&self, number: u64, budget: &PageTableBudget) -> Option<&PageWord> {
        let (chunk, index) = place(number);
        let (words, count) = (&self.chunks[chunk], words_in(chunk));
        if words.get(index).is_none() {
            let _one_at_a_time = self.growth.lock();
            if words.words().is_empty() {
                if !budget.take(bytes_of(count)) {
                    return None;
                }
                words.allocate(count as usize);
            }
        }
        words.get(index)
    }

    /// All words of pages from `from` to below `to` whose chunks exist, with their numbers, in ascending order.
    pub fn words(&self, from: u64, to: u64) -> impl Iterator<Item = (u64, &PageWord)> {
        CHUNKS_USED.flat_map(move |chunk| {
            let first = first_of(chunk);
            let words = self.chunks[chunk].words();
            let begin = from.saturating_sub(first).min(words.len() as u64);
            let end = to.saturating_sub(first).min(words.len() as u64).max(begin);
            (first + begin..first + end).map(|number| (number, &words[place(number).1]))
        })
    }

    /// Bytes of all chunks, given back to `budget` when the file is closed.
    pub fn release(&self, budget: &PageTableBudget) {
        let allocated = self.chunks.iter().map(|chunk| bytes_of(chunk.words().len() as u64));
        budget.give_back(allocated.sum());
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn places_are_dense_and_distinct() {
        let mut next = 0;
        for chunk in CHUNKS_USED.take(6) {
            assert_eq!(first_of(chunk), next);
            let mut free = vec![true; words_in(chunk) as usize];
            for _ in 0..free.len() {
                let (found, index) = place(next);
                assert!(found == chunk && std::mem::replace(&mut free[index], false), "{next}");
                next += 1;
            }
        }
        for number in [1 << (PageId::NUMBER_BITS + 1), u64::MAX, u64::MAX - CHUNK_FIRST] {
            assert!(!CHUNKS_USED.contains(&place(number).0), "{number}");
        }
    }

    #[test]
    fn words_of_a_range_are_those_reached_one_by_one() {
        let table = PageTable::new();
        let budget = PageTableBudget::new(1 << 20);
        for number in [3, 700, 5000] {
            assert!(table.get(number).is_none());
            let word = table.get_or_allocate(number, &budget).unwrap();
            assert!(word.state().is_absent());
            assert!(std::ptr::eq(word, table.get(number).unwrap()));
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
            assert_eq!(found, expected, "{from}..{to}");
        }
    }

    #[test]
    fn threads_that_touch_a_chunk_together_find_one_word() {
        let (table, budget) = (PageTable::new(), PageTableBudget::new(1 << 20));
        let start = std::sync::Barrier::new(4);
        let find = || {
            start.wait();
            std::ptr::from_ref(table.get_or_allocate(900, &budget).unwrap()).addr()
        };
        let found: Vec<usize> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(found.iter().all(|address| *address == found[0]));
        assert_eq!(budget.bytes(), bytes_of(CHUNK_FIRST));
    }

    #[test]
    fn the_budget_is_kept_and_given_back() {
        let budget = PageTableBudget::new(bytes_of(CHUNK_FIRST) + 1);
        let table = PageTable::new();
        assert!(table.get_or_allocate(0, &budget).is_some());
        assert!(table.get_or_allocate(CHUNK_FIRST, &budget).is_none());
        assert_eq!(budget.bytes(), bytes_of(CHUNK_FIRST));
        table.release(&budget);
        assert_eq!(budget.bytes(), 0);
    }
}
