//! ARC over the sampled pages: one of the shadow caches.
//!
//! Paper: Megiddo, Modha, "ARC: A Self-Tuning, Low Overhead Replacement Cache", FAST '03. The same decisions
//! as [`crate::classic`]'s, on slots that the samples own, with a capacity that follows the tenant's share.

use super::experts::Expert;
use super::shadow::{SampledPages, Shadowed};
use crate::list::{Links, List, NIL};

/// Where ARC lists a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Place {
    /// Nowhere.
    #[default]
    Out,
    /// Resident, used once lately.
    T1,
    /// Resident, used at least twice lately.
    T2,
    /// Evicted from T1.
    B1,
    /// Evicted from T2.
    B2,
}

impl Place {
    /// Whether the shadow holds the page.
    pub fn is_resident(self) -> bool {
        matches!(self, Self::T1 | Self::T2)
    }
}

/// The shadow. Each sample has its [`Place`].
#[derive(Default)]
pub(crate) struct Arc {
    links: Links,
    /// By place; nothing is listed as out.
    lists: [List; 5],
    /// The size that T1 is to have, "p" in the paper.
    target: f32,
    /// For pages used once, and for the others: the last use of the page that was dropped last, if any was.
    dropped: [Option<u32>; 2],
}

impl Arc {
    #[inline]
    fn len(&self, place: Place) -> u32 {
        self.lists[place as usize].len()
    }

    /// The share of the cache that is for pages used once, 0 to 1.
    pub fn once_share(&self, capacity: u32) -> f32 {
        self.target / capacity as f32
    }

    /// The age at `now` of the oldest page used once that ARC keeps; 0 if it keeps none.
    pub fn once_age(&self, pages: &SampledPages, now: u32) -> u32 {
        match self.lists[Place::T1 as usize].head() {
            NIL => 0,
            oldest => now.wrapping_sub(pages.samples[oldest].last),
        }
    }

    /// Whether ARC would remember a page at `now`, resident or as a ghost, that was used last at `last`, once
    /// or `twice`. It would if that was after the last use of the page dropped last.
    pub fn remembers(&self, twice: bool, last: u32, now: u32) -> bool {
        let age = now.wrapping_sub(last);
        self.dropped[usize::from(twice)].is_none_or(|dropped| age < now.wrapping_sub(dropped))
    }

    fn resident(&self) -> u32 {
        self.len(Place::T1) + self.len(Place::T2)
    }

    /// Makes `slot` the newest in the list of `place`.
    #[inline]
    fn put(&mut self, slot: u32, place: Place, pages: &mut SampledPages) {
        let before = std::mem::replace(&mut pages.samples[slot].shadowed.arc, place);
        if before != Place::Out {
            self.lists[before as usize].remove(&mut self.links, slot);
        }
        if place != Place::Out {
            self.lists[place as usize].push_tail(&mut self.links, slot);
        }
        if before.is_resident() != place.is_resident() {
            pages.set_held(slot, Expert::Arc, place.is_resident());
        }
    }

    /// Room for a page that is in no list.
    fn admit(&mut self, c: u32, pages: &mut SampledPages) {
        let [t1, t2, b1, b2] = [Place::T1, Place::T2, Place::B1, Place::B2].map(|place| self.len(place));
        if t1 + b1 >= c {
            if t1 < c {
                self.drop_oldest(Place::B1, pages);
                self.make_room(false, c, pages);
            } else {
                self.drop_oldest(Place::T1, pages);
            }
        } else if t1 + t2 + b1 + b2 >= c {
            if t1 + t2 + b1 + b2 >= 2 * c {
                self.drop_oldest(Place::B2, pages);
            }
            self.make_room(false, c, pages);
        }
    }

    /// "REPLACE" in the paper, if the cache is full.
    fn make_room(&mut self, in_b2: bool, c: u32, pages: &mut SampledPages) {
        if self.resident() >= c {
            self.evict(in_b2, pages);
        }
    }

    fn evict(&mut self, in_b2: bool, pages: &mut SampledPages) {
        let t1 = self.len(Place::T1) as f32;
        let from_t1 =
            self.len(Place::T2) == 0 || t1 > 0.0 && (t1 > self.target || in_b2 && t1 == self.target);
        let (from, to) = if from_t1 { (Place::T1, Place::B1) } else { (Place::T2, Place::B2) };
        self.put(self.lists[from as usize].head(), to, pages);
    }

    fn drop_oldest(&mut self, place: Place, pages: &mut SampledPages) {
        let slot = self.lists[place as usize].head();
        if slot != NIL {
            self.dropped[usize::from(place == Place::B2)] = Some(pages.samples[slot].last);
            self.put(slot, Place::Out, pages);
        }
    }

    /// Whether a use of a page that it holds makes none leave a cache of `capacity` pages.
    #[inline]
    pub fn has_room(&self, capacity: u32) -> bool {
        self.resident() <= capacity
    }

    #[inline]
    pub fn hit(&mut self, slot: u32, pages: &mut SampledPages) {
        self.put(slot, Place::T2, pages);
    }

    pub fn access(&mut self, slot: u32, c: u32, pages: &mut SampledPages) {
        self.links.lengthen_for(slot);
        // The capacity may have shrunk.
        self.target = self.target.min(c as f32);
        let place = pages.samples[slot].shadowed.arc;
        let ratio = |more: u32, less: u32| (more as f32 / less.max(1) as f32).max(1.0);
        let (b1, b2) = (self.len(Place::B1), self.len(Place::B2));
        match place {
            Place::T1 | Place::T2 => {}
            Place::B1 => {
                self.target = (self.target + ratio(b2, b1)).min(c as f32);
                self.make_room(false, c, pages);
            }
            Place::B2 => {
                self.target = (self.target - ratio(b1, b2)).max(0.0);
                self.make_room(true, c, pages);
            }
            Place::Out => self.admit(c, pages),
        }
        self.put(slot, if place == Place::Out { Place::T1 } else { Place::T2 }, pages);
        // The capacity may have shrunk.
        while self.resident() > c {
            self.evict(false, pages);
        }
    }

    pub fn forget(&mut self, slot: u32, pages: &mut SampledPages) {
        self.put(slot, Place::Out, pages);
    }

    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
    }

    pub fn check_invariants(&self, pages: &SampledPages) {
        let mut counts = [0; 5];
        for Shadowed { arc, held, .. } in pages.samples.iter().map(|sample| sample.shadowed) {
            counts[arc as usize] += 1;
            assert_eq!(held.has(Expert::Arc), arc.is_resident(), "place of a page in ARC");
        }
        counts[Place::Out as usize] = 0;
        for (list, count) in self.lists.iter().zip(&counts) {
            list.check_invariants(&self.links);
            assert_eq!(list.len(), *count, "slots in a list of ARC");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PageId;
    use crate::manager::automatic::learn::samples::{Rates, Samples};
    use crate::manager::automatic::tuning::Tuning;

    /// Otherwise pages used twice would be the only ones to go for a long time.
    #[test]
    fn the_share_of_pages_used_once_is_one_at_most_in_a_cache_that_has_shrunk() {
        let samples = Samples::new(Rates::new(64, &Tuning::default()));
        let mut pages = SampledPages::new(samples);
        let mut arc = Arc::default();
        let slots: Vec<u32> = (0..24).map(|page| pages.samples.insert(PageId(page), 0, None)).collect();
        let mut use_at = |slot: u32, capacity: u32| {
            arc.access(slot, capacity, &mut pages);
            arc.check_invariants(&pages);
            arc.target / capacity as f32
        };
        // Those used twice leave T1, so that those used once leave ghosts, which come back.
        slots[..4].iter().for_each(|slot| _ = (use_at(*slot, 8), use_at(*slot, 8)));
        slots[4..12].iter().for_each(|slot| _ = use_at(*slot, 8));
        let before = slots[4..8].iter().map(|slot| use_at(*slot, 8)).fold(0.0, f32::max);
        assert!(before > 0.25, "{before}");
        assert!(use_at(slots[20], 2) <= 1.0);
    }
}
