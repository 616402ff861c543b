//! What is observed: how fast tenants access pages, and how often unhinted accesses would hit in an LRU queue
//! of each length.

use super::page_map::PageMap;
use crate::{
    ids::PageId,
    list::{Links, NIL},
};

/// Accesses over which rates and shares are averaged.
const AVERAGED: u32 = 256;
/// Segments of a queue by which hits are counted.
const SEGMENTS: u32 = 64;
/// Unhinted accesses a frame after which all counts are halved.
const ACCESSES_PER_FRAME: u64 = 8;

/// How fast a tenant accesses pages when it does not wait, and how many of its accesses are hinted: moving
/// averages over 256 accesses.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct AccessRate {
    gap_us: f64,
    hinted: f64,
    gaps: u32,
    accesses: u32,
}

impl AccessRate {
    /// The tenant began an access `gap_us` after its last one was done, not counting the time that it
    /// waited.
    pub fn gap(&mut self, gap_us: f64) {
        average(&mut self.gap_us, &mut self.gaps, gap_us);
    }

    /// The tenant made an access.
    pub fn access(&mut self, hinted: bool) {
        average(&mut self.hinted, &mut self.accesses, f64::from(u8::from(hinted)));
    }

    /// Accesses a microsecond, 0 while no gap is known.
    pub fn per_us(&self) -> f64 {
        // The bound keeps the rate finite where gaps are 0.
        if self.gaps == 0 { 0.0 } else { 1.0 / self.gap_us.max(1e-3) }
    }

    /// Hinted accesses a microsecond.
    pub fn hinted_per_us(&self) -> f64 {
        self.per_us() * self.hinted
    }

    /// Unhinted accesses a microsecond.
    pub fn unhinted_per_us(&self) -> f64 {
        self.per_us() * (1.0 - self.hinted)
    }
}

fn average(mean: &mut f64, samples: &mut u32, sample: f64) {
    *samples = (*samples + 1).min(AVERAGED);
    *mean += (sample - *mean) / f64::from(*samples);
}

/// The hit ratio that unhinted accesses would have in an LRU queue of each length up to that of the cache.
///
/// An LRU stack of pages, resident or not, cut into 64 segments; hits are counted by segment, and all counts
/// are halved from time to time. An access costs a step for each segment above the page. 28 to 52 bytes a
/// page of the stack, which has as many pages as the cache has frames.
pub struct HitCurve {
    frames: u32,
    /// Pages of a segment.
    segment: u32,
    /// Per slot: a page of the stack, and its segment.
    pages: Vec<(PageId, u32)>,
    links: Links,
    /// The segments, most recently used first, each with its slots in the same order and its hits.
    segments: Vec<Segment>,
    slot_of: PageMap<u32>,
    free: Vec<u32>,
    /// Unhinted accesses, halved together with the hits; and those since the last halving.
    accesses: f64,
    since_halved: u64,
}

#[derive(Clone)]
struct Segment {
    list: crate::list::List,
    hits: f64,
}

/// The steepest way up the curve of hits.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Slope {
    /// Hits gained an access and buffer.
    pub per_buffer: f64,
    /// Buffers that have to be added for this gain; 0 if there is none.
    pub buffers: u32,
}

impl HitCurve {
    /// The curve of a cache of `frames` frames, without accesses.
    pub fn new(frames: u32) -> Self {
        let segment = (frames / SEGMENTS).max(1);
        let segments = frames.div_ceil(segment) as usize;
        let empty = Segment { list: crate::list::List::new(), hits: 0.0 };
        Self {
            frames,
            segment,
            pages: Vec::new(),
            links: Links::default(),
            segments: vec![empty; segments],
            slot_of: PageMap::default(),
            free: Vec::new(),
            accesses: 0.0,
            since_halved: 0,
        }
    }

    /// An unhinted access to `page`.
    pub fn access(&mut self, page: PageId) {
        self.accesses += 1.0;
        self.since_halved += 1;
        if let Some(segment) = self.pass(page) {
            self.segments[segment as usize].hits += 1.0;
        }
        if self.since_halved >= ACCESSES_PER_FRAME * u64::from(self.frames) {
            self.since_halved = 0;
            self.accesses /= 2.0;
            self.segments.iter_mut().for_each(|segment| segment.hits /= 2.0);
        }
    }

    /// `page` goes to the top of the stack, and nothing is counted. Returns the segment that it was in.
    pub fn pass(&mut self, page: PageId) -> Option<u32> {
        let held = self.slot_of.get(&page).copied();
        let segment = held.map(|slot| self.pages[slot as usize].1);
        if let (Some(slot), Some(segment)) = (held, segment) {
            self.segments[segment as usize].list.remove(&mut self.links, slot);
        }
        let slot = held.unwrap_or_else(|| self.slot_for(page));
        self.put_on_top(slot);
        segment
    }

    /// `page` ceases to exist: it is taken off the stack.
    pub fn forget(&mut self, page: PageId) {
        if let Some(slot) = self.slot_of.remove(&page) {
            let segment = self.pages[slot as usize].1 as usize;
            self.segments[segment].list.remove(&mut self.links, slot);
            self.free.push(slot);
        }
    }

    /// How much lower the hit ratio is without the last of `length` buffers.
    pub fn local_slope(&self, length: u32) -> f64 {
        if length == 0 || self.accesses == 0.0 {
            return 0.0;
        }
        let at = ((length - 1) / self.segment) as usize;
        self.segments
            .get(at)
            .map_or(0.0, |segment| segment.hits / (f64::from(self.buffers_of(at)) * self.accesses))
    }

    /// The greatest average gain a buffer of going from `length` buffers to any greater length that the cache
    /// has room for. A loop gains nothing until it fits, so the local slope says nothing of it.
    pub fn steepest(&self, length: u32) -> Slope {
        let mut best = Slope::default();
        if self.accesses == 0.0 {
            return best;
        }
        let (mut hits, mut end) = (0.0, 0);
        for (at, segment) in self.segments.iter().enumerate() {
            let first = end;
            end += self.buffers_of(at);
            if end <= length {
                continue;
            }
            hits += segment.hits * f64::from(end - first.max(length)) / f64::from(end - first);
            let per_buffer = hits / (f64::from(end - length) * self.accesses);
            if per_buffer > best.per_buffer {
                best = Slope { per_buffer, buffers: end - length };
            }
        }
        best
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<(PageId, u32)>()
            + self.links.memory_bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.slot_of.capacity() * (size_of::<(u64, u32)>() + 1)
            + self.free.capacity() * size_of::<u32>()
    }

    fn buffers_of(&self, segment: usize) -> u32 {
        self.segment.min(self.frames - segment as u32 * self.segment)
    }

    fn slot_for(&mut self, page: PageId) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.pages.push((page, 0));
            let slot = self.pages.len() as u32 - 1;
            self.links.grow_to(slot);
            slot
        });
        self.pages[slot as usize].0 = page;
        self.slot_of.insert(page, slot);
        slot
    }

    /// The page in `slot`, which is in no segment, is the one used last. The last page of each full segment
    /// moves on to the next, and that of the last segment is forgotten.
    fn put_on_top(&mut self, slot: u32) {
        let mut moving = slot;
        for at in 0..self.segments.len() {
            self.pages[moving as usize].1 = at as u32;
            let buffers = self.buffers_of(at);
            let list = &mut self.segments[at].list;
            list.push_head(&mut self.links, moving);
            if list.len() <= buffers {
                return;
            }
            moving = list.tail();
            debug_assert_ne!(moving, NIL);
            list.remove(&mut self.links, moving);
        }
        self.slot_of.remove(&self.pages[moving as usize].0);
        self.free.push(moving);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// A list of pages, and the segment of each hit.
    struct Naive {
        stack: Vec<PageId>,
        hits: Vec<f64>,
        accesses: f64,
    }

    #[test]
    fn equals_a_stack_that_is_searched() {
        for frames in [1, 5, 64, 100, 130, 200] {
            let mut random = SplitMix64::new(u64::from(frames));
            let mut curve = HitCurve::new(frames);
            let segment = (frames / 64).max(1);
            let segments = frames.div_ceil(segment) as usize;
            let mut naive = Naive { stack: Vec::new(), hits: vec![0.0; segments], accesses: 0.0 };
            for step in 1..=(20 * u64::from(frames)) {
                let page = PageId(random.below(3 * u64::from(frames) / 2 + 1));
                curve.access(page);
                naive.accesses += 1.0;
                if let Some(at) = naive.stack.iter().position(|held| *held == page) {
                    naive.hits[at / segment as usize] += 1.0;
                    naive.stack.remove(at);
                }
                naive.stack.insert(0, page);
                naive.stack.truncate(frames as usize);
                if step % (8 * u64::from(frames)) == 0 {
                    naive.accesses /= 2.0;
                    naive.hits.iter_mut().for_each(|hits| *hits /= 2.0);
                }
                let hits: Vec<f64> = curve.segments.iter().map(|segment| segment.hits).collect();
                assert_eq!((&hits, curve.accesses), (&naive.hits, naive.accesses), "{frames}: {step}");
            }
        }
    }

    #[test]
    fn a_loop_gains_nothing_until_it_fits_and_then_all() {
        let mut curve = HitCurve::new(550);
        (0..3000_u64).for_each(|access| curve.access(PageId(access % 500)));
        assert_eq!(curve.local_slope(100), 0.0);
        let steepest = curve.steepest(100);
        assert!((400..=408).contains(&steepest.buffers), "{steepest:?}");
        let all = steepest.per_buffer * f64::from(steepest.buffers);
        assert!((0.8..=1.0).contains(&all), "{all}");
        assert!(curve.local_slope(500) > 0.1);
        // One that does not fit is worth nothing.
        let mut curve = HitCurve::new(499);
        (0..3000_u64).for_each(|access| curve.access(PageId(access % 500)));
        assert_eq!(curve.steepest(0), Slope::default());
    }

    #[test]
    fn nothing_known_is_worth_nothing() {
        let curve = HitCurve::new(10);
        assert_eq!((curve.local_slope(0), curve.local_slope(10), curve.local_slope(99)), (0.0, 0.0, 0.0));
        assert_eq!(curve.steepest(3), Slope::default());
        let mut rate = AccessRate::default();
        assert_eq!((rate.per_us(), rate.hinted_per_us(), rate.unhinted_per_us()), (0.0, 0.0, 0.0));
        rate.gap(0.0);
        rate.access(true);
        assert!(rate.per_us().is_finite() && rate.unhinted_per_us() == 0.0);
    }
}
