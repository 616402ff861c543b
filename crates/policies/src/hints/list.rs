//! One list of disclosed reads.

use std::collections::{VecDeque, hash_map::Entry};

use super::page_map::PageMap;
use crate::ids::PageId;

/// Hints that a list holds ahead of its reader at most.
pub const HINTS_MAX: usize = 1 << 16;

/// The position of a use that is not disclosed.
pub const NEVER: u64 = u64::MAX;

/// Reads in the order in which they will be made, from the reader's next one on.
///
/// A position is the number of a read since the list was opened. Every call costs O(1), but for steps over
/// hints that are passed. Holds about 24 bytes a hint, and 40 more a page.
#[derive(Default)]
pub struct HintList {
    /// The hints ahead.
    hints: VecDeque<Hint>,
    /// Of the first of them.
    position: u64,
    /// For each page that is named ahead.
    pages: PageMap<Uses>,
}

struct Hint {
    page: PageId,
    /// The next position of the same page, or [`NEVER`].
    next: u64,
}

/// Positions of a page ahead.
struct Uses {
    first: u64,
    last: u64,
}

/// What an access was for a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumed {
    /// The hint that it used.
    pub position: u64,
    /// Hints before that one, which were dropped.
    pub skipped: u64,
}

/// A hint that is behind the reader now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Which page it named.
    pub page: PageId,
    /// Its position.
    pub position: u64,
    /// The next position that names the page, or [`NEVER`].
    pub next: u64,
}

impl HintList {
    /// A list without hints.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a read. Returns its position, and `None` if [`HINTS_MAX`] are ahead: then nothing has changed.
    pub fn push(&mut self, page: PageId) -> Option<u64> {
        if self.hints.len() == HINTS_MAX {
            return None;
        }
        let position = self.end();
        match self.pages.entry(page) {
            Entry::Vacant(entry) => {
                entry.insert(Uses { first: position, last: position });
            }
            Entry::Occupied(mut entry) => {
                let last = std::mem::replace(&mut entry.get_mut().last, position);
                self.hints[(last - self.position) as usize].next = position;
            }
        }
        self.hints.push_back(Hint { page, next: NEVER });
        Some(position)
    }

    /// Of the reader's next read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Behind the last read that is disclosed.
    pub fn end(&self) -> u64 {
        self.position + self.hints.len() as u64
    }

    /// How many reads are ahead.
    pub fn len(&self) -> usize {
        self.hints.len()
    }

    /// Whether no read is ahead.
    pub fn is_empty(&self) -> bool {
        self.hints.is_empty()
    }

    /// The page at a position that is ahead.
    pub fn page_at(&self, position: u64) -> Option<PageId> {
        let at = position.checked_sub(self.position)?;
        self.hints.get(usize::try_from(at).ok()?).map(|hint| hint.page)
    }

    /// The next use after the one at `position`, which is ahead, of the same page; [`NEVER`] if none is
    /// disclosed.
    pub fn use_after(&self, position: u64) -> u64 {
        let at = position.checked_sub(self.position).and_then(|at| self.hints.get(at as usize));
        at.map_or(NEVER, |hint| hint.next)
    }

    /// The position of the next read of `page`, if it is disclosed.
    pub fn next_use(&self, page: PageId) -> Option<u64> {
        self.pages.get(&page).map(|uses| uses.first)
    }

    /// The pages from a position on, with their positions.
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, PageId)> + '_ {
        let first = position.max(self.position);
        let skipped = usize::try_from(first - self.position).unwrap_or(usize::MAX);
        (first..).zip(self.hints.iter().skip(skipped).map(|hint| hint.page))
    }

    /// `page` was accessed: which hint was that? The next one, or else one within `window` hints, and those
    /// before it are dropped. `None` if the list does not name the page there: the reader stays where it is.
    /// `passed` is told of each hint that is behind the reader now.
    pub fn consume(&mut self, page: PageId, window: u64, passed: impl FnMut(Passed)) -> Option<Consumed> {
        let position = self.next_use(page)?;
        let skipped = position - self.position;
        if skipped >= window.max(1) {
            return None;
        }
        self.pass(skipped + 1, passed);
        Some(Consumed { position, skipped })
    }

    /// The reader passes over the next `count` hints, or all if there are fewer. Returns how many.
    pub fn pass(&mut self, count: u64, mut passed: impl FnMut(Passed)) -> u64 {
        let count = count.min(self.hints.len() as u64);
        for hint in self.hints.drain(..count as usize) {
            let position = self.position;
            self.position += 1;
            if hint.next == NEVER {
                self.pages.remove(&hint.page);
            } else if let Some(uses) = self.pages.get_mut(&hint.page) {
                uses.first = hint.next;
            }
            passed(Passed { page: hint.page, position, next: hint.next });
        }
        count
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.hints.capacity() * size_of::<Hint>() + self.pages.capacity() * size_of::<(PageId, Uses)>()
    }

    /// Panics if the state contradicts itself. For tests: costs O(hints).
    pub fn check_invariants(&self) {
        let mut firsts: PageMap<u64> = PageMap::default();
        let mut lasts: PageMap<u64> = PageMap::default();
        for (at, hint) in self.hints.iter().enumerate().rev() {
            let position = self.position + at as u64;
            assert_eq!(hint.next, firsts.get(&hint.page).copied().unwrap_or(NEVER), "next use of {position}");
            firsts.insert(hint.page, position);
            lasts.entry(hint.page).or_insert(position);
        }
        assert_eq!(self.pages.len(), firsts.len(), "pages named");
        for (page, uses) in &self.pages {
            assert_eq!(
                (Some(&uses.first), Some(&uses.last)),
                (firsts.get(page), lasts.get(page)),
                "{page:?}"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// The same by searching.
    struct Naive {
        hints: Vec<PageId>,
        position: usize,
    }

    impl Naive {
        fn next_use(&self, page: PageId) -> Option<u64> {
            (self.position..self.hints.len()).find(|at| self.hints[*at] == page).map(|at| at as u64)
        }
    }

    #[test]
    fn agrees_with_a_search() {
        for seed in 0..200 {
            let mut random = SplitMix64::new(seed);
            let (mut list, mut naive) = (HintList::new(), Naive { hints: Vec::new(), position: 0 });
            let mut told = Vec::new();
            for _ in 0..300 {
                let page = PageId(random.next_u64() % 12);
                match random.next_u64() % 4 {
                    0 | 1 => {
                        assert_eq!(list.push(page), Some(naive.hints.len() as u64));
                        naive.hints.push(page);
                    }
                    2 => {
                        let window = random.next_u64() % 9;
                        let expected =
                            naive.next_use(page).filter(|at| at - naive.position as u64 >= window.max(1));
                        let near = naive.next_use(page).filter(|_| expected.is_none());
                        let consumed = list.consume(page, window, |passed| told.push(passed));
                        assert_eq!(consumed.map(|consumed| consumed.position), near);
                        if let Some(position) = near {
                            assert_eq!(consumed.unwrap().skipped, position - naive.position as u64);
                            naive.position = position as usize + 1;
                        }
                    }
                    _ => {
                        let count = random.next_u64() % 3;
                        let passed = list.pass(count, |passed| told.push(passed));
                        assert_eq!(passed, count.min((naive.hints.len() - naive.position) as u64));
                        naive.position += passed as usize;
                    }
                }
                list.check_invariants();
                assert_eq!((list.position(), list.end()), (naive.position as u64, naive.hints.len() as u64));
                for page in (0..12).map(PageId) {
                    assert_eq!(list.next_use(page), naive.next_use(page));
                }
                assert_eq!(list.page_at(list.position()), naive.hints.get(naive.position).copied());
            }
            for (at, passed) in told.iter().enumerate() {
                assert_eq!(
                    (passed.position, passed.page),
                    (at as u64, naive.hints[at]),
                    "each once, in order"
                );
            }
        }
    }

    #[test]
    fn a_full_list_takes_no_more() {
        let mut list = HintList::new();
        (0..HINTS_MAX as u64).for_each(|page| assert_eq!(list.push(PageId(page % 7)), Some(page)));
        assert_eq!(list.push(PageId(1)), None);
        assert_eq!(list.pass(1, |_| {}), 1);
        assert_eq!(list.push(PageId(1)), Some(HINTS_MAX as u64));
        list.check_invariants();
    }
}
