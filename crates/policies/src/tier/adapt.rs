//! DEMOTE-ADAPT-UNI and DEMOTE-ADAPT-EXP: how long a page stays depends on what reads and demotions were
//! worth.
//!
//! **Idea.** The list is cut into ten segments; pages go from the first one. Two ghost lists remember which
//! pages were read and which were demoted lately, each as many as the tier has room for. A READ of a page
//! that a ghost list remembers is a hit of that list. A page that comes in by a READ or by a DEMOTE enters
//! at the tail of a segment: the greater the share of its ghost list in all ghost hits, the later the
//! segment. A page that is used moves to the tail of the last segment. A full segment gives its head to the
//! next lower one.
//!
//! **Paper.** T. M. Wong, J. Wilkes: "My cache or yours? Making storage more exclusive", USENIX ATC '02; the
//! rules in detail are those of the authors' simulator. It is less exclusive than DEMOTE on purpose: a page
//! that a READ finds stays longest, because other clients may read it, too.
//!
//! **Departures.** None. Hits are never decayed. Shares are recomputed by READs only, so that pages demoted
//! before the first READ enter the first segment.
//!
//! **Sizes.** UNI: equal ones; EXP: segment k has 2^k of 1023 shares; the remainder of either is the last
//! one's. A segment of size 0 is passed through downwards; a page that finds none below does not stay.
//!
//! **Cost.** O(1), at most ten moves. 66 to 78 bytes a page, most of it for the two ghost lists.

use super::order::{Arrival, Ejected, Found, TierOrder, TierSlot, eject_oldest, forget, room};
use crate::PageId;
use crate::ghost::Ghosts;

/// Segments of the list.
const SEGMENTS: usize = 10;
const LAST: usize = SEGMENTS - 1;

/// Which ghost list.
const DEMOTED: usize = 0;
const READ: usize = 1;

/// The only list of a [`Ghosts`] that has one.
const ALL: usize = 0;

/// How large segments are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Segments {
    /// All alike.
    Uniform,
    /// Each twice as large as the one before.
    Exponential,
}

impl Segments {
    /// The least capacity at which every segment has a page.
    pub const fn capacity_min(self) -> u32 {
        match self {
            Self::Uniform => SEGMENTS as u32,
            Self::Exponential => (1 << SEGMENTS) - 1,
        }
    }

    fn sizes(self, capacity: u32) -> [u32; SEGMENTS] {
        let share = capacity / self.capacity_min();
        let mut sizes = match self {
            Self::Uniform => [share; SEGMENTS],
            Self::Exponential => std::array::from_fn(|segment| share << segment),
        };
        sizes[LAST] = capacity - sizes[..LAST].iter().sum::<u32>();
        sizes
    }
}

/// Ten segments of pages, and two ghost lists. See the file's head.
///
/// Invariants: no segment is longer than its size, no ghost list longer than the capacity.
pub struct AdaptTier {
    segments: Segments,
    capacity: u32,
    sizes: [u32; SEGMENTS],
    /// One list for each segment.
    pages: Ghosts<SEGMENTS>,
    /// Pages demoted and pages read lately, least recently at the head.
    ghosts: [Ghosts<1>; 2],
    /// Hits of each ghost list, plus 1, so that their sum is never 0.
    hits: [u64; 2],
    /// The segments that pages enter: first of demoted pages, then of those that are read.
    entry: [usize; 2],
}

impl AdaptTier {
    /// An empty tier that has learned nothing.
    pub fn new(capacity: u32, segments: Segments) -> Self {
        Self {
            segments,
            capacity,
            sizes: segments.sizes(capacity),
            pages: Ghosts::with_capacity(room(capacity)),
            ghosts: std::array::from_fn(|_| Ghosts::with_capacity(room(capacity))),
            hits: [1; 2],
            entry: [0; 2],
        }
    }

    /// The segments, 0 to 9, that pages enter: first of demoted pages, then of those that are read.
    pub fn entry_segments(&self) -> [usize; 2] {
        self.entry
    }

    /// Counts a READ of `page` as a hit of the ghost lists that remember it, and computes the shares anew.
    fn learn(&mut self, page: PageId) {
        for (ghosts, hits) in self.ghosts.iter_mut().zip(&mut self.hits) {
            if let Some(slot) = ghosts.slot(page) {
                ghosts.shift(slot, ALL);
                *hits += 1;
            }
        }
        let sum = self.hits[DEMOTED] + self.hits[READ];
        self.entry = self.hits.map(|hits| ((SEGMENTS as u64 * hits / sum) as usize).min(LAST));
    }

    /// `page` becomes the newest ghost of one list.
    fn remember(&mut self, list: usize, page: PageId) {
        let ghosts = &mut self.ghosts[list];
        if let Some(slot) = ghosts.slot(page) {
            return ghosts.shift(slot, ALL);
        }
        if self.capacity == 0 {
            return;
        }
        if ghosts.len(ALL) == self.capacity {
            ghosts.pop_oldest(ALL);
        }
        ghosts.push(ALL, page);
    }

    /// The first segment from `segment` downwards whose size is not 0.
    fn at_or_below(&self, segment: usize) -> Option<usize> {
        (0..=segment).rev().find(|segment| self.sizes[*segment] > 0)
    }

    /// The segment that the heads of `segment` go to.
    fn below(&self, segment: usize) -> Option<usize> {
        self.at_or_below(segment.checked_sub(1)?)
    }

    /// Makes room for one page in `segment`: each segment from there down to the first with room gives its
    /// head to the next lower one. If none has room, the lowest ejects its head.
    fn make_room(&mut self, segment: usize) -> Option<Ejected> {
        if self.pages.len(segment) < self.sizes[segment] {
            return None;
        }
        let Some(below) = self.below(segment) else { return eject_oldest(&mut self.pages, segment) };
        let ejected = self.make_room(below);
        let (slot, _) = self.pages.oldest(segment).expect("a full segment has a head");
        self.pages.shift(slot, below);
        ejected
    }

    /// The page in `slot` is used: it moves to the tail of the last segment, and each segment from there down
    /// to the one that it leaves gives its head to the next one.
    fn use_again(&mut self, slot: u32) {
        let left = self.pages.list_of(slot);
        self.pages.shift(slot, LAST);
        let mut segment = LAST;
        while segment > left && self.pages.len(segment) > self.sizes[segment] {
            let (head, _) = self.pages.oldest(segment).expect("a long segment has a head");
            segment = self.below(segment).expect("the page came from a segment further down");
            self.pages.shift(head, segment);
        }
    }

    /// `page` comes in from the clients or the source.
    fn arrive(&mut self, page: PageId, list: usize) -> Arrival {
        if let Some(slot) = self.pages.slot(page) {
            self.use_again(slot);
            return Arrival::Present(TierSlot(slot));
        }
        let Some(segment) = self.at_or_below(self.entry[list]) else { return Arrival::NotKept };
        let ejected = self.make_room(segment);
        Arrival::Stored { slot: TierSlot(self.pages.push(segment, page)), ejected }
    }
}

impl TierOrder for AdaptTier {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        (0..SEGMENTS).map(|segment| self.pages.len(segment)).sum()
    }

    fn find(&self, page: PageId) -> Option<TierSlot> {
        self.pages.slot(page).map(TierSlot)
    }

    fn read(&mut self, page: PageId) -> Option<Found> {
        self.learn(page);
        self.remember(READ, page);
        let slot = self.pages.slot(page)?;
        self.use_again(slot);
        Some(Found { slot: TierSlot(slot), stays: true })
    }

    fn fill(&mut self, page: PageId) -> Arrival {
        self.arrive(page, READ)
    }

    fn demote(&mut self, page: PageId) -> Arrival {
        let arrival = self.arrive(page, DEMOTED);
        self.remember(DEMOTED, page);
        arrival
    }

    fn forget(&mut self, page: PageId) -> Option<TierSlot> {
        forget(&mut self.pages, page)
    }

    /// The remaining pages keep their order. Pages beyond a segment's new size move down, and up again where
    /// there is no room below. O(n).
    fn resize(&mut self, capacity: u32, ejected: &mut dyn FnMut(Ejected)) {
        for segment in 0..SEGMENTS {
            while self.len() > capacity && self.pages.len(segment) > 0 {
                eject_oldest(&mut self.pages, segment).into_iter().for_each(&mut *ejected);
            }
        }
        self.capacity = capacity;
        self.sizes = self.segments.sizes(capacity);
        for segment in (1..SEGMENTS).rev() {
            while self.pages.len(segment) > self.sizes[segment] {
                let (slot, _) = self.pages.oldest(segment).expect("a long segment has a head");
                self.pages.shift(slot, segment - 1);
            }
        }
        for segment in 0..LAST {
            while self.pages.len(segment) > self.sizes[segment] {
                let (slot, _) = self.pages.newest(segment).expect("a long segment has a tail");
                self.pages.shift_oldest(slot, segment + 1);
            }
        }
        for ghosts in &mut self.ghosts {
            while ghosts.len(ALL) > capacity {
                ghosts.pop_oldest(ALL);
            }
        }
    }

    fn reset_ratios(&mut self) {
        self.hits = [1; 2];
        self.entry = [0; 2];
    }

    fn for_each(&self, visit: &mut dyn FnMut(PageId, TierSlot)) {
        let pages = (0..SEGMENTS).flat_map(|segment| self.pages.iter(segment));
        pages.for_each(|(slot, page)| visit(page, TierSlot(slot)));
    }

    fn check_invariants(&self) {
        self.pages.check_invariants();
        assert_eq!(self.sizes.iter().sum::<u32>(), self.capacity, "segments are not the whole capacity");
        for (segment, size) in self.sizes.iter().enumerate() {
            assert!(self.pages.len(segment) <= *size, "segment {segment} is longer than its size");
        }
        for ghosts in &self.ghosts {
            ghosts.check_invariants();
            assert!(ghosts.len(ALL) <= self.capacity, "there are more ghosts than there is room for pages");
        }
        assert!(self.hits.iter().all(|hits| *hits > 0), "a ghost list has no hits to begin with");
        assert!(self.entry.iter().all(|segment| *segment < SEGMENTS), "pages enter beyond the last segment");
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.memory_bytes() + self.ghosts.iter().map(Ghosts::memory_bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_equal_or_doubled_and_the_last_has_the_remainder() {
        assert_eq!(Segments::Uniform.sizes(107), [10, 10, 10, 10, 10, 10, 10, 10, 10, 17]);
        assert_eq!(Segments::Exponential.sizes(2050), [2, 4, 8, 16, 32, 64, 128, 256, 512, 1028]);
        for (segments, too_small) in [(Segments::Uniform, 9), (Segments::Exponential, 1022)] {
            assert_eq!(segments.sizes(too_small), [0, 0, 0, 0, 0, 0, 0, 0, 0, too_small]);
            assert_eq!(segments.sizes(too_small + 1)[0], 1);
        }
    }

    /// Ghost hits of reads and demotions are half of all at first, then those that there were.
    #[test]
    fn the_more_a_list_is_hit_the_higher_its_pages_enter() {
        let mut tier = AdaptTier::new(100, Segments::Uniform);
        tier.demote(PageId(1));
        assert_eq!((tier.pages.list_of(0), tier.entry_segments()), (0, [0, 0]));
        tier.read(PageId(2));
        assert_eq!(tier.entry_segments(), [5, 5], "one hit each to begin with");
        let mut entered = 0;
        for hits in 2..200 {
            tier.demote(PageId(hits));
            tier.ghosts[READ].take(PageId(hits));
            tier.read(PageId(hits));
            let [demoted, read] = tier.entry_segments();
            assert!(demoted >= entered && demoted + read <= SEGMENTS);
            entered = demoted;
            tier.check_invariants();
        }
        assert_eq!(tier.entry_segments(), [9, 0], "a share of nearly 1 is the last segment's");
        tier.reset_ratios();
        assert_eq!((tier.entry_segments(), tier.hits), ([0, 0], [1, 1]));
    }
}
