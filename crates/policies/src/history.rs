//! The pages evicted last, each with a stamp.
//!
//! A ring of evictions in order, and an index by page. A page that is taken back leaves a gap, which counts
//! as an eviction until it is the oldest; so the bound is on evictions remembered, not on pages. Memory is
//! 21 to 25 bytes for each of the most evictions ever remembered at a time.

use crate::PageId;
use crate::slot_index::SlotIndex;
use std::collections::VecDeque;

/// Positions count evictions modulo 2^30, which the index has room for: its slots are below 2^31 - 1. Far
/// fewer evictions are remembered at a time.
const POSITION_MASK: u32 = (1 << 30) - 1;
/// The stamp of a gap.
const TAKEN: u64 = u64::MAX;

/// Evicted pages and their stamps, oldest first.
#[derive(Default)]
pub(crate) struct History {
    evictions: VecDeque<(PageId, u64)>,
    /// The position of the oldest eviction.
    first: u32,
    /// Page to position.
    index: SlotIndex,
}

impl History {
    pub(crate) fn with_capacity(evictions: u32) -> Self {
        Self { evictions: VecDeque::with_capacity(evictions as usize), ..Self::default() }
    }

    /// The evictions remembered, gaps included.
    pub(crate) fn len(&self) -> u32 {
        self.evictions.len() as u32
    }

    /// Remembers `page`, which must not be remembered yet. `stamp` is below `u64::MAX`.
    pub(crate) fn push(&mut self, page: PageId, stamp: u64) {
        debug_assert_ne!(stamp, TAKEN, "the largest stamp marks gaps");
        let position = self.first.wrapping_add(self.len()) & POSITION_MASK;
        self.evictions.push_back((page, stamp));
        self.index.insert(page.0, position, page_at(&self.evictions, self.first));
    }

    /// Forgets `page`. Returns its stamp if it was remembered.
    pub(crate) fn take(&mut self, page: PageId) -> Option<u64> {
        let position = self.index.remove(page.0, page_at(&self.evictions, self.first))?;
        let (_, stamp) = &mut self.evictions[offset(position, self.first)];
        Some(std::mem::replace(stamp, TAKEN))
    }

    /// Forgets the oldest evictions until there are at most `evictions_max`.
    pub(crate) fn trim(&mut self, evictions_max: u32) {
        while self.len() > evictions_max {
            if let Some(&(page, stamp)) = self.evictions.front()
                && stamp != TAKEN
            {
                self.index.remove(page.0, page_at(&self.evictions, self.first));
            }
            self.evictions.pop_front();
            self.first = (self.first + 1) & POSITION_MASK;
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.evictions.capacity() * size_of::<(PageId, u64)>() + self.index.memory_bytes()
    }

    /// Looks every page up. Panics with a message if the index does not hold exactly the pages remembered.
    pub(crate) fn check_invariants(&self) {
        self.index.check_invariants(page_at(&self.evictions, self.first));
        let pages = self.evictions.iter().filter(|&&(_, stamp)| stamp != TAKEN).count();
        assert_eq!(self.index.len(), pages, "the index holds the pages that were not taken back");
    }
}

fn offset(position: u32, first: u32) -> usize {
    (position.wrapping_sub(first) & POSITION_MASK) as usize
}

fn page_at(evictions: &VecDeque<(PageId, u64)>, first: u32) -> impl Fn(u32) -> u64 {
    move |position| evictions[offset(position, first)].0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_begin_again_after_the_last_one() {
        let mut history = History { first: POSITION_MASK - 2, ..History::default() };
        for page in 0..20 {
            history.push(PageId(page), page);
            history.trim(5);
            history.check_invariants();
        }
        let taken = [14, 15, 18, 18, 19].map(|page| history.take(PageId(page)));
        assert_eq!(taken, [None, Some(15), Some(18), None, Some(19)]);
        history.check_invariants();
    }
}
