//! Lower caches that are one list: NONE-LRU, inclusive, DEMOTE-LRU, DEMOTE.
//!
//! **Idea.** One list; the page at its head goes next. A page that a client ejects goes to the tail, because
//! only the lower cache has it. Under DEMOTE a page that is read goes to the head, because the client has it.
//! Under the others it goes to the tail.
//!
//! **Paper.** T. M. Wong, J. Wilkes: "My cache or yours? Making storage more exclusive", USENIX ATC '02. As
//! in the authors' simulator, a page that is found is not removed under DEMOTE, but is the next to go. So one
//! page may be in both caches, and one client of N frames over a DEMOTE cache of M hits as one LRU cache of
//! N + M - 1.
//!
//! **NONE-LRU and inclusive** keep pages on their way up. Clients demote nothing; what one demotes
//! nevertheless goes to the tail. They differ in [`TierOrder::take`]: under inclusive the page stays.
//!
//! **Cost.** O(1). 22 to 26 bytes a page.

use super::order::{Arrival, Ejected, Found, TierOrder, TierSlot, eject_oldest, forget, room};
use crate::PageId;
use crate::ghost::Ghosts;

/// The one list.
const ALL: usize = 0;

/// One list of pages. See the file's head.
pub struct LruTier {
    capacity: u32,
    /// Next to go at the head.
    pages: Ghosts<1>,
    /// Whether pages that are read go next.
    reads_go_next: bool,
    /// Whether a page that is taken leaves.
    taken_leave: bool,
}

impl LruTier {
    fn new(capacity: u32, reads_go_next: bool, taken_leave: bool) -> Self {
        Self { capacity, pages: Ghosts::with_capacity(room(capacity)), reads_go_next, taken_leave }
    }

    /// LRU by reads and demotions: NONE-LRU where clients demote nothing, DEMOTE-LRU where they do.
    pub fn by_use(capacity: u32) -> Self {
        Self::new(capacity, false, true)
    }

    /// LRU by reads, and pages stay when they are taken.
    pub fn inclusive(capacity: u32) -> Self {
        Self::new(capacity, false, false)
    }

    /// DEMOTE: pages that are read go next.
    pub fn exclusive(capacity: u32) -> Self {
        Self::new(capacity, true, true)
    }

    /// Ejects a page if there is no room for another.
    fn make_room(&mut self) -> Option<Ejected> {
        (self.pages.len(ALL) >= self.capacity).then(|| eject_oldest(&mut self.pages, ALL)).flatten()
    }
}

impl TierOrder for LruTier {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.pages.len(ALL)
    }

    fn find(&self, page: PageId) -> Option<TierSlot> {
        self.pages.slot(page).map(TierSlot)
    }

    fn read(&mut self, page: PageId) -> Option<Found> {
        let slot = self.pages.slot(page)?;
        if self.reads_go_next {
            self.pages.shift_oldest(slot, ALL);
        } else {
            self.pages.shift(slot, ALL);
        }
        Some(Found { slot: TierSlot(slot), stays: true })
    }

    fn fill(&mut self, page: PageId) -> Arrival {
        if let Some(found) = self.read(page) {
            return Arrival::Present(found.slot);
        }
        if self.capacity == 0 {
            return Arrival::NotKept;
        }
        let ejected = self.make_room();
        let slot =
            if self.reads_go_next { self.pages.push_oldest(ALL, page) } else { self.pages.push(ALL, page) };
        Arrival::Stored { slot: TierSlot(slot), ejected }
    }

    fn demote(&mut self, page: PageId) -> Arrival {
        if let Some(slot) = self.pages.slot(page) {
            self.pages.shift(slot, ALL);
            return Arrival::Present(TierSlot(slot));
        }
        if self.capacity == 0 {
            return Arrival::NotKept;
        }
        let ejected = self.make_room();
        Arrival::Stored { slot: TierSlot(self.pages.push(ALL, page)), ejected }
    }

    fn take(&mut self, page: PageId) -> Option<TierSlot> {
        if self.taken_leave { self.forget(page) } else { self.read(page).map(|found| found.slot) }
    }

    fn forget(&mut self, page: PageId) -> Option<TierSlot> {
        forget(&mut self.pages, page)
    }

    fn resize(&mut self, capacity: u32, ejected: &mut dyn FnMut(Ejected)) {
        self.capacity = capacity;
        while self.pages.len(ALL) > capacity {
            eject_oldest(&mut self.pages, ALL).into_iter().for_each(&mut *ejected);
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(PageId, TierSlot)) {
        self.pages.iter(ALL).for_each(|(slot, page)| visit(page, TierSlot(slot)));
    }

    fn check_invariants(&self) {
        self.pages.check_invariants();
        assert!(self.pages.len(ALL) <= self.capacity, "there are more pages than there is room for");
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}
