//! LRU over the sampled pages, and the order in which samples are forgotten.

use super::experts::{Expert, Shadows};
use super::shadow::SampledPages;
use crate::list::{Links, List, NIL};

/// Remembered pages that another shadow still holds and that get another round, at most, before one is
/// forgotten.
const ROUNDS_MAX: u32 = 8;

/// The shadow. 8 bytes a sample.
pub(super) struct Lru {
    links: Links,
    /// All samples, oldest at the head. The cache holds the newest `len`, from `oldest` on.
    recency: List,
    oldest: u32,
    len: u32,
}

impl Lru {
    /// Of no pages.
    pub fn new() -> Self {
        Self { links: Links::default(), recency: List::new(), oldest: NIL, len: 0 }
    }

    /// The sample to forget: the oldest, though one that ARC or the shadow by value holds gets another round
    /// behind what LRU holds.
    pub fn next_to_forget(&mut self, pages: &SampledPages) -> u32 {
        for _ in 0..ROUNDS_MAX {
            let oldest = self.recency.head();
            let held = pages.samples[oldest].shadowed.held;
            if held == Shadows::default() || held.has(Expert::Lru) {
                break;
            }
            self.recency.remove(&mut self.links, oldest);
            self.recency.insert_before(&mut self.links, self.oldest, oldest);
        }
        self.recency.head()
    }

    /// Takes `slot` out of the list; that it is held stays marked.
    fn unlink(&mut self, slot: u32, is_held: bool) {
        if is_held {
            self.len -= 1;
            if self.oldest == slot {
                self.oldest = self.links.next(slot);
            }
        }
        self.recency.remove(&mut self.links, slot);
    }

    /// Whether a use of `slot`, which it holds, is a [hit](Self::hit) that makes nothing leave a cache of
    /// `capacity` pages.
    #[inline]
    pub fn has_room(&self, slot: u32, capacity: u32) -> bool {
        self.oldest != slot && self.len <= capacity
    }

    #[inline]
    pub fn hit(&mut self, slot: u32) {
        self.recency.move_to_tail(&mut self.links, slot);
    }

    pub fn access(&mut self, slot: u32, capacity: u32, pages: &mut SampledPages) {
        let is_held = pages.is_held(slot, Expert::Lru);
        self.links.lengthen_for(slot);
        if self.links.is_linked(slot) {
            self.unlink(slot, is_held);
        }
        self.recency.push_tail(&mut self.links, slot);
        if !is_held {
            pages.set_held(slot, Expert::Lru, true);
        }
        self.len += 1;
        if self.oldest == NIL {
            self.oldest = slot;
        }
        while self.len > capacity {
            let oldest = self.oldest;
            self.oldest = self.links.next(oldest);
            self.len -= 1;
            pages.set_held(oldest, Expert::Lru, false);
        }
    }

    pub fn forget(&mut self, slot: u32, pages: &mut SampledPages) {
        let is_held = pages.is_held(slot, Expert::Lru);
        self.unlink(slot, is_held);
        if is_held {
            pages.set_held(slot, Expert::Lru, false);
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
    }

    pub fn check_invariants(&self, pages: &SampledPages) {
        self.recency.check_invariants(&self.links);
        assert_eq!(self.recency.len() as usize, pages.samples.len(), "samples listed");
        let newest: Vec<u32> = self.recency.iter_from_tail(&self.links).take(self.len as usize).collect();
        assert!(newest.iter().all(|slot| pages.is_held(*slot, Expert::Lru)), "the newest are LRU's");
        assert_eq!(newest.last().copied().unwrap_or(NIL), self.oldest, "oldest page in LRU's cache");
        let held = pages.samples.iter().filter(|sample| sample.shadowed.held.has(Expert::Lru)).count();
        assert_eq!(held, self.len as usize, "pages in LRU's cache");
    }
}
