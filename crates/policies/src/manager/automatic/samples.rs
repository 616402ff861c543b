//! The pages learned from: a sample by hash, remembered well beyond their eviction, and two shadow caches over them.
//!
//! A page's last access is remembered for as long as its frame time allows to learn loops of about four times the cache.
//! Over the same pages run miniatures of the cache (Waldspurger, Saemundsson, Ahmad, Park, "Cache Modeling and
//! Optimization using Miniature Simulations", USENIX ATC '17): one replaces LRU, one by value. What the first misses and
//! the second does not is what following values is worth.

use super::intervals::Classes;
use crate::ids::PageId;
use crate::list::{Links, List, NIL};
use crate::random::{SplitMix64, mix64};
use crate::slot_index::SlotIndex;

/// Sampled pages remembered for each that the cache can hold: a loop longer than that is not seen as one.
const REACH: u32 = 4;
/// Sampled pages that the cache can hold, at least, while the sample is not everything. Sampling every page at all sizes
/// lowers misses by less than 1 %.
const SAMPLED_FRAMES_MIN: u32 = 512;
/// One page in so many at most is sampled: memory is then half a sample a frame.
const RATE_MAX: u32 = 8;
/// Pages compared when the shadow that replaces by value needs room.
const CANDIDATES: u32 = super::CANDIDATES;
/// Remembered pages that the shadow still holds and that get another round, at most, before one is forgotten.
const ROUNDS_MAX: u32 = 8;

#[derive(Clone, Copy)]
struct Sample {
    page: PageId,
    /// When it was used last.
    last: u32,
    class: u32,
    /// Where the shadow by value lists it, or [`NIL`].
    kept_at: u32,
    /// The bucket it is counted as waiting in.
    bucket: u8,
    /// Whether the LRU shadow holds it.
    in_lru: bool,
}

/// What the shadows made of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shadows {
    /// The LRU shadow had the page.
    pub lru_hit: bool,
    /// The shadow that replaces by value had it.
    pub value_hit: bool,
}

/// The sampled pages of a tenant.
pub(super) struct Samples {
    rate: u32,
    samples_max: u32,
    samples: Vec<Sample>,
    links: Links,
    /// Oldest at the head. The LRU shadow holds the newest `lru_len`, from `lru_oldest` on.
    recency: List,
    lru_oldest: u32,
    lru_len: u32,
    /// What the shadow by value holds, in no order.
    kept: Vec<u32>,
    index: SlotIndex,
    /// The next sample whose age is looked at.
    cursor: u32,
}

impl Samples {
    /// For a pool of so many frames.
    pub fn new(frames: u32) -> Self {
        let rate = (frames / SAMPLED_FRAMES_MIN).clamp(1, RATE_MAX);
        let rate = if rate.is_power_of_two() { rate } else { rate.next_power_of_two() / 2 };
        Self {
            rate,
            samples_max: (frames.saturating_mul(REACH) / rate).max(8),
            samples: Vec::new(),
            links: Links::default(),
            recency: List::new(),
            lru_oldest: NIL,
            lru_len: 0,
            kept: Vec::new(),
            index: SlotIndex::default(),
            cursor: 0,
        }
    }

    /// One page in so many is sampled, a power of two.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// The most samples remembered.
    pub fn samples_max(&self) -> u32 {
        self.samples_max
    }

    /// Whether `page` is one of the sample. Half of the hash bits are left to the index.
    #[inline]
    pub fn takes(&self, page: PageId) -> bool {
        (mix64(page.0) >> 32) & u64::from(self.rate - 1) == 0
    }

    /// A sampled page was used at `now`, in `class`. `frames` is how many the tenant holds.
    pub fn access(
        &mut self,
        page: PageId,
        class: u32,
        now: u32,
        frames: u32,
        classes: &mut Classes,
        random: &mut SplitMix64,
    ) -> Shadows {
        let capacity = frames.div_ceil(self.rate).max(1);
        let known = self.index.find(page.0, |slot| self.samples[slot as usize].page.0);
        let slot = known.unwrap_or_else(|| self.admit(page, now, classes));
        let mut shadows = Shadows { lru_hit: false, value_hit: false };
        if known.is_some() {
            let sample = self.samples[slot as usize];
            shadows = Shadows { lru_hit: sample.in_lru, value_hit: sample.kept_at != NIL };
            classes.end(sample.class, usize::from(sample.bucket), now.wrapping_sub(sample.last), true);
            classes.release(sample.class);
            self.unlink(slot);
        }
        classes.retain(class);
        classes.begin(class);
        let sample = &mut self.samples[slot as usize];
        (sample.last, sample.class, sample.bucket) = (now, class, 0);
        self.enter_lru(slot, capacity);
        if !shadows.value_hit {
            self.keep(slot, capacity, now, classes, random);
        }
        shadows
    }

    /// Looks at the ages of the next `count` samples, so that pages that nobody uses again count as such.
    pub fn look(&mut self, count: u32, now: u32, classes: &mut Classes) {
        for _ in 0..count.min(self.samples.len() as u32) {
            self.cursor = if self.cursor + 1 < self.samples.len() as u32 { self.cursor + 1 } else { 0 };
            let sample = &mut self.samples[self.cursor as usize];
            let bucket = classes.bucket(now.wrapping_sub(sample.last));
            if bucket != usize::from(sample.bucket) {
                classes.wait(sample.class, usize::from(sample.bucket), bucket);
                sample.bucket = bucket as u8;
            }
        }
    }

    /// A slot for a page not remembered; it is in no list, and the caller sets the rest.
    fn admit(&mut self, page: PageId, now: u32, classes: &mut Classes) -> u32 {
        let sample = Sample { page, last: now, class: 0, kept_at: NIL, bucket: 0, in_lru: false };
        let slot = if self.samples.len() < self.samples_max as usize {
            self.samples.push(sample);
            self.links.grow_to(self.samples.len() as u32 - 1);
            self.samples.len() as u32 - 1
        } else {
            let slot = self.forget_oldest(now, classes);
            self.samples[slot as usize] = sample;
            slot
        };
        self.index.insert(page.0, slot, |slot| self.samples[slot as usize].page.0);
        slot
    }

    /// Forgets the oldest sample; one that the shadow by value holds gets another round behind what LRU holds.
    fn forget_oldest(&mut self, now: u32, classes: &mut Classes) -> u32 {
        for _ in 0..ROUNDS_MAX {
            let oldest = self.recency.head();
            let sample = &self.samples[oldest as usize];
            if sample.kept_at == NIL || sample.in_lru {
                break;
            }
            self.recency.remove(&mut self.links, oldest);
            match self.lru_oldest {
                NIL => self.recency.push_tail(&mut self.links, oldest),
                place => self.recency.insert_before(&mut self.links, place, oldest),
            }
        }
        let slot = self.recency.head();
        let sample = self.samples[slot as usize];
        classes.end(sample.class, usize::from(sample.bucket), now.wrapping_sub(sample.last), false);
        classes.release(sample.class);
        self.unlink(slot);
        if sample.kept_at != NIL {
            self.give_up(slot);
        }
        self.index.remove(sample.page.0, |slot| self.samples[slot as usize].page.0);
        slot
    }

    fn unlink(&mut self, slot: u32) {
        if self.samples[slot as usize].in_lru {
            self.samples[slot as usize].in_lru = false;
            self.lru_len -= 1;
            if self.lru_oldest == slot {
                self.lru_oldest = self.links.next(slot);
            }
        }
        self.recency.remove(&mut self.links, slot);
    }

    fn enter_lru(&mut self, slot: u32, capacity: u32) {
        self.recency.push_tail(&mut self.links, slot);
        self.samples[slot as usize].in_lru = true;
        self.lru_len += 1;
        if self.lru_oldest == NIL {
            self.lru_oldest = slot;
        }
        while self.lru_len > capacity {
            self.samples[self.lru_oldest as usize].in_lru = false;
            self.lru_oldest = self.links.next(self.lru_oldest);
            self.lru_len -= 1;
        }
    }

    /// Makes room in the shadow by value, and lists `slot` there.
    fn keep(&mut self, slot: u32, capacity: u32, now: u32, classes: &mut Classes, random: &mut SplitMix64) {
        while self.kept.len() as u32 >= capacity {
            let mut worst = (f32::MAX, self.kept[0]);
            for _ in 0..CANDIDATES {
                let slot = self.kept[random.below(self.kept.len() as u64) as usize];
                let sample = &self.samples[slot as usize];
                classes.refresh(sample.class);
                let value = classes.value(sample.class, now.wrapping_sub(sample.last));
                if value < worst.0 {
                    worst = (value, slot);
                }
            }
            self.give_up(worst.1);
        }
        self.samples[slot as usize].kept_at = self.kept.len() as u32;
        self.kept.push(slot);
    }

    fn give_up(&mut self, slot: u32) {
        let at = std::mem::replace(&mut self.samples[slot as usize].kept_at, NIL);
        self.kept.swap_remove(at as usize);
        if let Some(&moved) = self.kept.get(at as usize) {
            self.samples[moved as usize].kept_at = at;
        }
    }

    /// The classes that samples use, and where each is counted as waiting.
    pub fn waiting(&self) -> impl Iterator<Item = (u32, usize)> {
        self.samples.iter().map(|sample| (sample.class, usize::from(sample.bucket)))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>()
            + self.kept.capacity() * size_of::<u32>()
            + self.links.memory_bytes()
            + self.index.memory_bytes()
    }

    /// Panics if lists, index and marks disagree.
    pub fn check_invariants(&self) {
        self.recency.check_invariants(&self.links);
        self.index.check_invariants(|slot| self.samples[slot as usize].page.0);
        assert_eq!(self.recency.len() as usize, self.samples.len(), "samples listed");
        let newest: Vec<u32> = self.recency.iter_from_tail(&self.links).take(self.lru_len as usize).collect();
        assert!(
            newest.iter().all(|slot| self.samples[*slot as usize].in_lru),
            "the newest are in LRU's cache"
        );
        assert_eq!(newest.last().copied().unwrap_or(NIL), self.lru_oldest, "oldest page in LRU's cache");
        let in_lru = self.samples.iter().filter(|sample| sample.in_lru).count();
        assert_eq!(in_lru, self.lru_len as usize, "pages in LRU's cache");
        let kept = self.samples.iter().filter(|sample| sample.kept_at != NIL).count();
        assert_eq!(kept, self.kept.len(), "pages kept by value");
        for (at, slot) in self.kept.iter().enumerate() {
            assert_eq!(self.samples[*slot as usize].kept_at, at as u32, "place of a kept page");
        }
    }
}
