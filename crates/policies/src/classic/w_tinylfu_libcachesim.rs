//! W-TinyLFU as libCacheSim has it: what a comparison with that tool's miss ratios needs.
//!
//! **Idea.** That of [`WTinyLfu`](super::WTinyLfu): a page gets into the main part only if it was referenced
//! more often than the page it would replace.
//!
//! **Source.** The program libCacheSim 0.3.5 with its default parameters; its rules differ from the paper's
//! in this:
//! 1. *What counts.* A page that comes in, a hit in the main part, and a page that leaves the window,
//!    admitted or not; hits in the window do not. All counts are halved after 32 hits in the main part for
//!    each of its frames.
//! 2. *Counters.* A counting Bloom filter: 14.4 counters for each frame of the main part, ten of which, all
//!    of them, a reference increments; they have no limit.
//! 3. *Filling.* Until every frame is in use, all pages are in the window. The first miss after that moves
//!    the oldest to the main part until it is full: first to probation, then to the protected segment.
//! 4. *Rounding.* The sizes of both segments are rounded down, so probation may have a frame more than its
//!    size. When a hit then promotes a page, the coldest on probation is evicted, and the next page that
//!    comes in is not compared.
//!
//! **Departures** from the program. No hit can evict here: the page is *given up*, and stays until the next
//! miss takes its frame first. A reference before that is a hit, and is treated as the arrival that it is for
//! the program. When frames are busy, the first frame of the window that is not busy is compared with the
//! first such frame of the main part.
//!
//! **Compared**, with pages named as they were for the program (`bufbench check-baselines`): of 117 miss
//! ratios of `peers.csv` none is above the program's, 61 are equal, and hits on pages given up make the
//! others lower by at most 0.0033; the 16 of `pg_peers.csv` are within 0.001. Names matter because counts
//! depend on which pages share counters, and small loops depend on the counts: adding a constant to all page
//! numbers moves the program's own miss ratio on `backf` with 600 frames between 0.285 and 0.412. So the hash
//! has to be the program's, too.
//!
//! **Refused proposal.** Pages may have been moved from the window to the main part; a busy frame keeps its
//! place there.
//!
//! **Cost.** O(1) per access, and O(n) at the first eviction and once in 32 n hits. 17 bytes a frame and 58
//! for the counters.

use super::policy::{Departure, OneLevel, first_free, percent_of};
use super::segments::{
    Segment::{GivenUp, Probation, Protected, Window},
    Segments,
};
use crate::{FrameId, PageId};

/// Frames of the window, in percent of the capacity; at least one frame.
const WINDOW_PERCENT: u32 = 1;
/// Frames of the two segments of the main part, in percent of it.
const PROBATION_PERCENT: u32 = 20;
const PROTECTED_PERCENT: u32 = 80;
/// Hits in the main part for each of its frames after which all counts are halved.
const SAMPLE_FACTOR: u64 = 32;

/// Window TinyLFU by the rules of libCacheSim. See the file's head.
///
/// Invariant: the protected segment holds at most `protected_target` frames.
pub struct LibCacheSimWTinyLfu {
    capacity: u32,
    counts: BloomCounts,
    /// Hits in the main part since the last halving.
    main_hits: u64,
    segments: Segments,
}

impl LibCacheSimWTinyLfu {
    /// An empty instance. The counters keep the size that `capacity` asks for.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            counts: BloomCounts::new(main_target(capacity)),
            main_hits: 0,
            segments: Segments::with_capacity(capacity),
        }
    }

    fn probation_target(&self) -> u32 {
        percent_of(PROBATION_PERCENT, main_target(self.capacity))
    }

    fn protected_target(&self) -> u32 {
        percent_of(PROTECTED_PERCENT, main_target(self.capacity))
    }

    /// Moves the oldest page of the window to the lowest segment of the main part that has room.
    fn admit_oldest(&mut self) {
        let oldest = self.segments.list(Window).head();
        let is_low = self.segments.list(Probation).len() < self.probation_target();
        let is_full = self.segments.list(Protected).len() >= self.protected_target();
        self.segments.shift(oldest, if is_low || is_full { Probation } else { Protected });
        self.counts.add(self.segments.page(FrameId(oldest)));
    }

    /// Brings the segments to their sizes after a promotion.
    fn cool(&mut self) {
        while self.segments.list(Protected).len() > self.protected_target() {
            self.segments.shift(self.segments.list(Protected).head(), Probation);
            while self.segments.list(Probation).len() > self.probation_target() {
                self.segments.shift(self.segments.list(Probation).head(), GivenUp);
            }
        }
    }

    fn hit_main(&mut self, frame: u32, page: PageId) {
        self.segments.shift(frame, Protected);
        self.cool();
        self.counts.add(page);
        self.main_hits += 1;
        if self.main_hits >= SAMPLE_FACTOR * u64::from(main_target(self.capacity)) {
            self.main_hits = 0;
            self.counts.halve();
        }
    }
}

fn main_target(capacity: u32) -> u32 {
    capacity.saturating_sub(percent_of(WINDOW_PERCENT, capacity).max(1))
}

impl OneLevel for LibCacheSimWTinyLfu {
    fn name(&self) -> &'static str {
        "w-tinylfu:libcachesim"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.cool();
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        match self.segments.of(frame) {
            Window => self.segments.shift(frame.0, Window),
            Probation | Protected => self.hit_main(frame.0, page),
            GivenUp => {
                self.segments.shift(frame.0, Window);
                self.counts.add(page);
            }
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.segments.insert(frame, page);
        self.counts.add(page);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        if let Some(given_up) = first_free(self.segments.frames(GivenUp), busy) {
            return Some(given_up);
        }
        let main = main_target(self.capacity);
        while self.segments.list(Probation).len() + self.segments.list(Protected).len() < main
            && !self.segments.list(Window).is_empty()
        {
            self.admit_oldest();
        }
        let frames = |segment| self.segments.frames(segment);
        let newcomer = first_free(frames(Window), busy);
        let incumbent = first_free(frames(Probation).chain(frames(Protected)), busy);
        let count = |frame: FrameId| self.counts.count(self.segments.page(frame));
        match (newcomer, incumbent) {
            (Some(newcomer), Some(incumbent)) if count(newcomer) > count(incumbent) => Some(incumbent),
            _ => newcomer.or(incumbent),
        }
    }

    /// Whichever of the two that were compared goes, the page of the window is counted once more.
    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        self.segments.remove(frame);
        match self.segments.of(frame) {
            _ if why == Departure::Moved => {}
            Window => self.counts.add(page),
            Probation | Protected if !self.segments.list(Window).is_empty() => self.admit_oldest(),
            Probation | Protected | GivenUp => {}
        }
    }

    fn check_invariants(&self) {
        self.segments.check_invariants();
        let protected = self.segments.list(Protected).len();
        assert!(protected <= self.protected_target(), "too many protected frames");
    }

    fn metadata_bytes(&self) -> usize {
        self.counts.memory_bytes() + self.segments.memory_bytes()
    }
}

/// Reference counts in a counting Bloom filter: a page has ten counters, shared with other pages, and its
/// count is the least of them.
struct BloomCounts {
    counters: Vec<u32>,
}

/// Counters of a page.
const COUNTERS_PAGE: u32 = 10;
/// Counters for each frame: a Bloom filter of that size errs once in a thousand.
const COUNTERS_FRAME: f64 = 14.377_587_566_051_17;

impl BloomCounts {
    fn new(frames: u32) -> Self {
        let wanted = (f64::from(frames) * COUNTERS_FRAME).ceil() as usize;
        let least = COUNTERS_PAGE as usize;
        Self { counters: vec![0; if wanted < least { 2 * least } else { wanted }] }
    }

    fn count(&self, page: PageId) -> u32 {
        self.places(page).map(|place| self.counters[place]).min().unwrap_or(0)
    }

    fn add(&mut self, page: PageId) {
        for place in self.places(page) {
            self.counters[place] += 1;
        }
    }

    #[cold]
    fn halve(&mut self) {
        self.counters.iter_mut().for_each(|counter| *counter /= 2);
    }

    /// The page's counters; a place may be named twice.
    fn places(&self, page: PageId) -> impl Iterator<Item = usize> + use<> {
        let [first, step] = [0x1234_5678, 0x1234_4321].map(|seed| xxh64(page.0, seed) as u32);
        let counters = self.counters.len();
        (0..COUNTERS_PAGE).map(move |nth| first.wrapping_add(nth.wrapping_mul(step)) as usize % counters)
    }

    fn memory_bytes(&self) -> usize {
        self.counters.capacity() * size_of::<u32>()
    }
}

/// The hash XXH64 of eight bytes.
fn xxh64(number: u64, seed: u64) -> u64 {
    const PRIMES: [u64; 5] = [
        0x9E37_79B1_85EB_CA87,
        0xC2B2_AE3D_27D4_EB4F,
        0x1656_67B1_9E37_79F9,
        0x85EB_CA77_C2B2_AE63,
        0x27D4_EB2F_1656_67C5,
    ];
    let lane = number.wrapping_mul(PRIMES[1]).rotate_left(31).wrapping_mul(PRIMES[0]);
    let mut hash = seed.wrapping_add(PRIMES[4]).wrapping_add(8) ^ lane;
    hash = hash.rotate_left(27).wrapping_mul(PRIMES[0]).wrapping_add(PRIMES[3]);
    hash = (hash ^ hash >> 33).wrapping_mul(PRIMES[1]);
    hash = (hash ^ hash >> 29).wrapping_mul(PRIMES[2]);
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The places that the program gives to its object 5, with counters for 594 frames.
    #[test]
    fn counters_are_those_of_the_program() {
        let counts = BloomCounts::new(594);
        assert_eq!(counts.counters.len(), 8541);
        let mut places: Vec<usize> = counts.places(PageId(5)).collect();
        places.sort_unstable();
        assert_eq!(places, [2015, 3145, 3378, 4031, 4508, 5161, 5394, 6524, 7410, 8540]);
        let sizes = [1, 7, 99, 12345].map(|frames| BloomCounts::new(frames).counters.len());
        assert_eq!(sizes, [15, 101, 1424, 177_492]);
    }

    #[test]
    fn counts_are_never_too_low_and_halved_together() {
        let mut counts = BloomCounts::new(10);
        for page in 0..100 {
            (0..=page % 7).for_each(|_| counts.add(PageId(page)));
        }
        assert!((0..100).all(|page| u64::from(counts.count(PageId(page))) > page % 7));
        let before = counts.count(PageId(6));
        counts.halve();
        assert_eq!(counts.count(PageId(6)), before / 2);
    }
}
