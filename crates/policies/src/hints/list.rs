//! One list of disclosed reads.

use std::collections::{VecDeque, hash_map::Entry};

use super::page_map::PageMap;
use crate::ids::PageId;

/// Hints that a list holds ahead of its reader at most.
pub const HINTS_MAX: usize = 1 << 16;

/// After more than this many accesses out of order in a row, the hints before them count as skipped.
const OUT_OF_ORDER_MAX: u32 = 8;

/// The position of a use that is not disclosed.
pub const NEVER: u64 = u64::MAX;

/// Reads in the order in which they will be made, from the reader's next one on.
///
/// A position is the number of a read since the list was opened. Every call costs O(1), but for steps over
/// hints that are passed. Holds 24 bytes a hint, and 40 more a page.
#[derive(Clone, Default)]
pub struct HintList {
    /// The hints ahead.
    hints: VecDeque<Hint>,
    /// The position of the first hint.
    position: u64,
    /// For each page that is named ahead.
    pages: PageMap<Uses>,
    /// Accesses since the last one that used the first hint.
    out_of_order: u32,
    /// Reads between the two latest uses of the page that was named again last.
    period: u64,
    /// How many pages in a row, up to the last one, were named again after `period` reads.
    periodic: u64,
}

#[derive(Clone)]
struct Hint {
    page: PageId,
    /// The next position of the same page, or [`NEVER`].
    next: u64,
    /// Its page was accessed out of order, before those of earlier hints.
    is_used: bool,
}

/// Positions of a page ahead.
#[derive(Clone)]
struct Uses {
    first: u64,
    last: u64,
}

/// What an access was for a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Consumed {
    /// The hint that it used.
    pub position: u64,
    /// Hints that were dropped unused.
    pub skipped: u64,
}

/// A hint that is behind the reader now, or was used out of order. Each is told once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passed {
    /// Which page it named.
    pub page: PageId,
    /// Its position.
    pub position: u64,
    /// The next position that names the page, or [`NEVER`].
    pub next: u64,
}

impl Passed {
    /// Whether the list names the page no further.
    pub fn is_last(&self) -> bool {
        self.next == NEVER
    }
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
                self.periodic = if position - last == self.period { self.periodic + 1 } else { 1 };
                self.period = position - last;
            }
        }
        self.hints.push_back(Hint { page, next: NEVER, is_used: false });
        Some(position)
    }

    /// The position of the reader's next read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The position after that of the last read that is disclosed.
    pub fn end(&self) -> u64 {
        self.position + self.hints.len() as u64
    }

    /// How many pages in a row, up to the last one that was named again, were named again after equally many
    /// reads. Pages named for the first time do not count.
    pub fn periodic(&self) -> u64 {
        self.periodic
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

    /// The pages that are named ahead, each once, in no order.
    pub fn pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.pages.keys().copied()
    }

    /// The pages from a position on, with their positions; but for those that were used out of order.
    pub fn from(&self, position: u64) -> impl Iterator<Item = (u64, PageId)> + '_ {
        let first = position.max(self.position);
        let skipped = usize::try_from(first - self.position).unwrap_or(usize::MAX);
        let hints = (first..).zip(self.hints.iter().skip(skipped));
        hints.filter(|(_, hint)| !hint.is_used).map(|(position, hint)| (position, hint.page))
    }

    /// `page` was accessed. Returns the hint that the access used: the page's next one, if that is among the
    /// next `window` hints. `None` if it is not: then the reader stays where it is.
    ///
    /// A reader may be a little out of order. So the hints before a later one stay for a while: they are
    /// dropped when several accesses in a row have used later ones. `passed` is told of each hint that is
    /// behind the reader now, or was used out of order.
    pub fn consume(&mut self, page: PageId, window: u64, mut passed: impl FnMut(Passed)) -> Option<Consumed> {
        let position = self.next_use(page)?;
        let ahead = position - self.position;
        if ahead >= window.max(1) {
            return None;
        }
        passed(self.use_hint(ahead as usize));
        self.out_of_order = if ahead == 0 { 0 } else { self.out_of_order + 1 };
        let mut skipped = 0;
        if self.out_of_order > OUT_OF_ORDER_MAX {
            skipped = self.pass(ahead, &mut passed);
        }
        self.drop_used();
        Some(Consumed { position, skipped })
    }

    /// Marks a hint as used, `ahead` hints behind the first one. The page's next use is the one after.
    fn use_hint(&mut self, ahead: usize) -> Passed {
        let hint = &mut self.hints[ahead];
        hint.is_used = true;
        let (page, next) = (hint.page, hint.next);
        if next == NEVER {
            self.pages.remove(&page);
        } else if let Some(uses) = self.pages.get_mut(&page) {
            uses.first = next;
        }
        Passed { page, position: self.position + ahead as u64, next }
    }

    /// The reader passes over the next `count` hints, or all if there are fewer. Returns how many of them
    /// were not used before.
    pub fn pass(&mut self, count: u64, mut passed: impl FnMut(Passed)) -> u64 {
        let mut unused = 0;
        for _ in 0..count.min(self.hints.len() as u64) {
            if !self.hints[0].is_used {
                unused += 1;
                passed(self.use_hint(0));
            }
            self.hints.pop_front();
            self.position += 1;
        }
        self.out_of_order = 0;
        self.drop_used();
        unused
    }

    /// Drops used hints at the front, so that the first hint is one that was not used.
    fn drop_used(&mut self) {
        while self.hints.front().is_some_and(|hint| hint.is_used) {
            self.hints.pop_front();
            self.position += 1;
        }
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.hints.capacity() * size_of::<Hint>() + self.pages.capacity() * size_of::<(PageId, Uses)>()
    }

    /// Panics if the state contradicts itself. For tests: costs O(hints).
    pub fn check_invariants(&self) {
        let mut firsts: PageMap<u64> = PageMap::default();
        let mut lasts: PageMap<u64> = PageMap::default();
        assert!(self.hints.front().is_none_or(|hint| !hint.is_used), "a used hint is next");
        for (at, hint) in self.hints.iter().enumerate().rev().filter(|(_, hint)| !hint.is_used) {
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
    #[derive(Default)]
    struct Naive {
        /// Each with whether it was used.
        hints: Vec<(PageId, bool)>,
        position: usize,
        out_of_order: u32,
        told: Vec<usize>,
    }

    impl Naive {
        fn next_use(&self, page: PageId) -> Option<u64> {
            let mut ahead = self.position..self.hints.len();
            ahead.find(|at| self.hints[*at] == (page, false)).map(|at| at as u64)
        }

        fn use_hint(&mut self, at: usize) {
            if !std::mem::replace(&mut self.hints[at].1, true) {
                self.told.push(at);
            }
        }

        fn consume(&mut self, page: PageId, window: u64) -> Option<Consumed> {
            let position = self.next_use(page)?;
            let at = position as usize;
            if at - self.position >= window.max(1) as usize {
                return None;
            }
            self.use_hint(at);
            self.out_of_order = if at == self.position { 0 } else { self.out_of_order + 1 };
            let before = self.told.len();
            if self.out_of_order > OUT_OF_ORDER_MAX {
                self.pass(at - self.position);
            }
            while self.hints.get(self.position).is_some_and(|hint| hint.1) {
                self.position += 1;
            }
            Some(Consumed { position, skipped: (self.told.len() - before) as u64 })
        }

        fn pass(&mut self, count: usize) -> usize {
            let before = self.told.len();
            let end = (self.position + count).min(self.hints.len());
            (self.position..end).for_each(|at| self.use_hint(at));
            (self.position, self.out_of_order) = (end, 0);
            while self.hints.get(self.position).is_some_and(|hint| hint.1) {
                self.position += 1;
            }
            self.told.len() - before
        }
    }

    #[test]
    fn agrees_with_a_search() {
        for seed in 0..400 {
            let mut random = SplitMix64::new(seed);
            let (mut list, mut naive) = (HintList::new(), Naive::default());
            let mut told = Vec::new();
            // With more consumed than pushed, a list is short and its reader mostly in order.
            let pushes = 1 + seed % 3;
            for _ in 0..300 {
                let page = PageId(random.next_u64() % 12);
                match random.next_u64() % 16 {
                    15 => {
                        let count = random.next_u64() % 3;
                        let passed = list.pass(count, |passed| told.push(passed));
                        assert_eq!(passed, naive.pass(count as usize) as u64);
                    }
                    choice if choice <= 4 * pushes => {
                        assert_eq!(list.push(page), Some(naive.hints.len() as u64));
                        naive.hints.push((page, false));
                    }
                    _ => {
                        let window = random.next_u64() % 20;
                        let consumed = list.consume(page, window, |passed| told.push(passed));
                        assert_eq!(consumed, naive.consume(page, window));
                    }
                }
                list.check_invariants();
                assert_eq!((list.position(), list.end()), (naive.position as u64, naive.hints.len() as u64));
                for page in (0..12).map(PageId) {
                    assert_eq!(list.next_use(page), naive.next_use(page));
                }
                assert_eq!(list.page_at(list.position()), naive.hints.get(naive.position).map(|hint| hint.0));
            }
            assert!(told.iter().map(|passed| passed.position as usize).eq(naive.told.iter().copied()));
            assert!(told.iter().all(|passed| naive.hints[passed.position as usize].0 == passed.page));
        }
    }

    /// A reader that changes the order here and there uses all hints; one that leaves some out drops these
    /// only.
    #[test]
    fn a_reader_may_be_a_little_out_of_order() {
        let mut list = HintList::new();
        (0..200).for_each(|page| assert_eq!(list.push(PageId(page)), Some(page)));
        let mut read = |page| list.consume(PageId(page), 100, |_| {}).map(|consumed| consumed.skipped);
        for first in (0..100).step_by(4) {
            let order = [first + 2, first, first + 3, first + 1];
            assert!(order.into_iter().all(|page| read(page) == Some(0)));
        }
        // Page 100 is left out.
        let skipped: Vec<u64> = (101..130).filter_map(&mut read).collect();
        assert_eq!((skipped.len(), skipped.iter().sum::<u64>()), (29, 1));
        assert_eq!(list.position(), 130);
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
