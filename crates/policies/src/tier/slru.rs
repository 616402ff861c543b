//! SLRU: pages on probation, and protected ones.
//!
//! **Idea.** A page that comes in is on probation, whether it was read or demoted; one that is used while it
//! is there, by a READ or a DEMOTE, is protected. Pages on probation go, those least recently used first.
//! Where too many are protected, the least recently used of them goes back to probation, as the newest there.
//!
//! **Paper.** R. Karedla, J. S. Love, B. G. Wherry: "Caching strategies to improve disk system performance",
//! IEEE Computer 27(3), 1994. In Wong and Wilkes, "My cache or yours?", USENIX ATC '02, it is tried as the
//! order of a lower cache under demotions; that a DEMOTE protects, too, is their simulator's rule.
//!
//! **Departures.** None. Both parts have fixed sizes: a page that comes in ejects one on probation although
//! there may be room for protected ones.
//!
//! **Cost.** O(1). 22 to 26 bytes a page.

use super::order::{Arrival, Ejected, Found, TierOrder, TierSlot, eject_oldest, forget, room};
use crate::PageId;
use crate::ghost::Ghosts;

const PROBATION: usize = 0;
const PROTECTED: usize = 1;

/// Two lists of pages. See the file's head.
///
/// Invariant: neither list is longer than its part of the capacity.
pub struct SlruTier {
    capacity: u32,
    protected_percent: u8,
    /// At the heads are the page on probation that goes next, and the protected page that goes back to
    /// probation next.
    pages: Ghosts<2>,
}

impl SlruTier {
    /// An empty tier. `protected_percent` of the capacity, rounded down, is for protected pages.
    ///
    /// # Panics
    ///
    /// If `protected_percent` is above 100.
    pub fn new(capacity: u32, protected_percent: u8) -> Self {
        assert!(protected_percent <= 100, "expected a percentage, found {protected_percent}");
        Self { capacity, protected_percent, pages: Ghosts::with_capacity(room(capacity)) }
    }

    fn protected(&self) -> u32 {
        (u64::from(self.protected_percent) * u64::from(self.capacity) / 100) as u32
    }

    fn probation(&self) -> u32 {
        self.capacity - self.protected()
    }

    /// The page in `slot` is used.
    fn protect(&mut self, slot: u32) {
        self.pages.shift(slot, PROTECTED);
        self.trim_protected();
    }

    fn trim_protected(&mut self) {
        while self.pages.len(PROTECTED) > self.protected() {
            let (slot, _) = self.pages.oldest(PROTECTED).expect("the list is longer than its part");
            self.pages.shift(slot, PROBATION);
        }
    }

    fn arrive(&mut self, page: PageId) -> Arrival {
        if let Some(slot) = self.pages.slot(page) {
            self.protect(slot);
            return Arrival::Present(TierSlot(slot));
        }
        if self.probation() == 0 {
            return Arrival::NotKept;
        }
        let is_full = self.pages.len(PROBATION) == self.probation();
        let ejected = is_full.then(|| eject_oldest(&mut self.pages, PROBATION)).flatten();
        Arrival::Stored { slot: TierSlot(self.pages.push(PROBATION, page)), ejected }
    }
}

impl TierOrder for SlruTier {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.pages.len(PROBATION) + self.pages.len(PROTECTED)
    }

    fn find(&self, page: PageId) -> Option<TierSlot> {
        self.pages.slot(page).map(TierSlot)
    }

    fn read(&mut self, page: PageId) -> Option<Found> {
        let slot = self.pages.slot(page)?;
        self.protect(slot);
        Some(Found { slot: TierSlot(slot), stays: true })
    }

    fn fill(&mut self, page: PageId) -> Arrival {
        self.arrive(page)
    }

    fn demote(&mut self, page: PageId) -> Arrival {
        self.arrive(page)
    }

    fn take(&mut self, page: PageId) -> Option<TierSlot> {
        self.forget(page)
    }

    fn forget(&mut self, page: PageId) -> Option<TierSlot> {
        forget(&mut self.pages, page)
    }

    fn resize(&mut self, capacity: u32, ejected: &mut dyn FnMut(Ejected)) {
        self.capacity = capacity;
        self.trim_protected();
        while self.pages.len(PROBATION) > self.probation() {
            eject_oldest(&mut self.pages, PROBATION).into_iter().for_each(&mut *ejected);
        }
    }

    fn for_each(&self, visit: &mut dyn FnMut(PageId, TierSlot)) {
        let pages = self.pages.iter(PROBATION).chain(self.pages.iter(PROTECTED));
        pages.for_each(|(slot, page)| visit(page, TierSlot(slot)));
    }

    fn check_invariants(&self) {
        self.pages.check_invariants();
        assert!(self.pages.len(PROBATION) <= self.probation(), "too many pages are on probation");
        assert!(self.pages.len(PROTECTED) <= self.protected(), "too many pages are protected");
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.memory_bytes()
    }
}
