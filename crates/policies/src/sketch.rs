//! How often pages were referenced lately: approximate counts in little memory.
//!
//! **Idea.** A count-min sketch with 4-bit counters: a page has four counters, which it shares with other
//! pages. Its count is the least of them, which is never too low. All counters are halved after a number of
//! additions, so that old references fade.
//!
//! **Papers.** G. Cormode, S. Muthukrishnan: "An improved data stream summary: the count-min sketch and its
//! applications", Journal of Algorithms 55(1), 2005; aging by halving: G. Einziger, R. Friedman, B. Manes,
//! "TinyLFU: a highly efficient cache admission policy", ACM Transactions on Storage 13(4), 2017.
//!
//! **Layout.** The four counters of a page lie in one line of 64 bytes, one in each quarter of it: one cache
//! miss a look-up. The number of lines is a power of two. To double it, a copy of the table is appended. The
//! line of a page is then chosen by one more bit of its hash, and either line has the counts that the page
//! had before.

use crate::{PageId, random::mix64};

/// 64-bit words of a line, and of a quarter of it.
const LINE_WORDS: usize = 8;
const QUARTER_WORDS: usize = 2;
/// Counters of 4 bits in a word.
const WORD_COUNTERS: u64 = 16;
/// The largest count.
const COUNT_MAX: u64 = 15;
/// The low three bits of each counter. When a word is shifted right by one bit, the highest bit of a counter
/// comes from its neighbour and has to be cleared.
const HALVED: u64 = 0x7777_7777_7777_7777;

/// Reference counts up to 15. 8 to 16 bytes a frame.
pub(crate) struct Sketch {
    words: Vec<u64>,
    /// Additions since the last halving, plus half of those counted before it.
    additions: u64,
    /// Additions after which all counters are halved.
    sample: u64,
}

impl Sketch {
    /// A sketch for a cache of `frames` frames. All counters are halved after `sample` additions, and then
    /// after half as many each time.
    pub(crate) fn new(frames: u32, sample: u64) -> Self {
        let mut sketch = Self { words: vec![0; LINE_WORDS], additions: 0, sample };
        sketch.resize(frames, sample);
        sketch
    }

    /// Makes the sketch large enough for `frames` frames. Doubling costs O(frames) and keeps all counts; the
    /// table never shrinks.
    pub(crate) fn resize(&mut self, frames: u32, sample: u64) {
        self.sample = sample;
        while self.words.len() < frames as usize {
            self.words.extend_from_within(..);
        }
    }

    /// The count of `page`: at least its additions since they were last halved, at most 15.
    pub(crate) fn count(&self, page: PageId) -> u64 {
        let places = self.places(page).map(|(word, shift)| self.words[word] >> shift & COUNT_MAX);
        places.into_iter().min().unwrap_or(0)
    }

    /// Counts a reference to `page`. Only the smallest of its counters are incremented, so that pages which
    /// share the others are overestimated less. O(1), and O(frames) when counters are halved.
    pub(crate) fn add(&mut self, page: PageId) {
        let count = self.count(page);
        if count < COUNT_MAX {
            for (word, shift) in self.places(page) {
                if self.words[word] >> shift & COUNT_MAX == count {
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.additions += 1;
        if self.additions >= self.sample {
            self.halve();
        }
    }

    #[cold]
    fn halve(&mut self) {
        self.words.iter_mut().for_each(|word| *word = *word >> 1 & HALVED);
        self.additions /= 2;
    }

    /// The word and the shift of each of the page's counters.
    fn places(&self, page: PageId) -> [(usize, u32); 4] {
        let hash = mix64(page.0);
        let line = hash as usize & (self.words.len() / LINE_WORDS - 1);
        std::array::from_fn(|quarter| {
            let choice = hash >> (40 + 6 * quarter);
            let word = line * LINE_WORDS + quarter * QUARTER_WORDS + (choice & 1) as usize;
            (word, ((choice >> 1) % WORD_COUNTERS * 4) as u32)
        })
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>()
    }
}

#[cfg(test)]
mod tests {
    //! Goal: counts are never too low, exact while nothing is shared, halved on time, and survive doubling.
    //! Method: against a map from page to count, over few pages in a sketch large enough, and many in a small
    //! one.

    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const NEVER: u64 = u64::MAX;

    proptest! {
        #[test]
        fn counts_are_never_too_low(pages in prop::collection::vec(0..200u64, 1..1000), frames in 0..64u32) {
            let mut sketch = Sketch::new(frames, NEVER);
            let mut exact: HashMap<u64, u64> = HashMap::new();
            for page in pages {
                sketch.add(PageId(page));
                *exact.entry(page).or_default() += 1;
            }
            for (&page, &count) in &exact {
                prop_assert!(sketch.count(PageId(page)) >= count.min(COUNT_MAX));
            }
        }

        #[test]
        fn one_page_is_counted_exactly(additions in 0..40u64, frames in 1..1000u32, page: u64) {
            let mut sketch = Sketch::new(frames, NEVER);
            (0..additions).for_each(|_| sketch.add(PageId(page)));
            prop_assert_eq!(sketch.count(PageId(page)), additions.min(COUNT_MAX));
        }

        #[test]
        fn doubling_keeps_every_count(pages in prop::collection::vec(0..200u64, 1..500), frames in 1..500u32) {
            let mut sketch = Sketch::new(1, NEVER);
            pages.iter().for_each(|&page| sketch.add(PageId(page)));
            let before: Vec<u64> = (0..200).map(|page| sketch.count(PageId(page))).collect();
            sketch.resize(frames, NEVER);
            let after: Vec<u64> = (0..200).map(|page| sketch.count(PageId(page))).collect();
            prop_assert_eq!(before, after);
        }
    }

    #[test]
    fn counts_are_halved_after_a_sample() {
        let mut sketch = Sketch::new(100, 10);
        (0..9).for_each(|_| sketch.add(PageId(7)));
        assert_eq!(sketch.count(PageId(7)), 9);
        sketch.add(PageId(7));
        assert_eq!(sketch.count(PageId(7)), 5, "ten, halved");
        (0..5).for_each(|_| sketch.add(PageId(8)));
        assert_eq!(sketch.count(PageId(7)), 2, "half of the sample is over already after a halving");
        assert_eq!(sketch.count(PageId(8)), 2);
    }
}
