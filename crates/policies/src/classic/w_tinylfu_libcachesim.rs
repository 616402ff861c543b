//! W-TinyLFU as libCacheSim has it: what a comparison with that tool's miss ratios needs.
//!
//! **Idea.** That of [`WTinyLfu`](super::WTinyLfu): a page gets into the main part only if it was referenced more often than
//! the page it would replace.
//!
//! **Source.** The program libCacheSim 0.3.5 with its default parameters; its rules differ from the paper's in this:
//! 1. *What counts.* A page that comes in, a hit in the main part, and a page that leaves the window, admitted or not; hits in
//!    the window do not. All counts are halved after 32 hits in the main part for each of its frames.
//! 2. *Counters.* A counting Bloom filter: 14.4 counters for each frame of the main part, ten of which, all of them, a
//!    reference increments; they have no limit.
//! 3. *Filling.* Until every frame is in use, all pages are in the window. The first miss after that moves the oldest to the
//!    main part until it is full: first to probation, then to the protected segment.
//! 4. *Rounding.* The sizes of both segments are rounded down, so probation may have a frame more than its size. When a hit
//!    then promotes a page, the coldest on probation is evicted, and the next page that comes in is not compared.
//!
//! **Departures** from the program. No hit can evict here: the page is *given up*, and stays until the next miss takes its
//! frame first. A reference before that is a hit, and is treated as the arrival that it is for the program. When frames are
//! busy, the first frame of the window and of the main part that is not are compared.
//!
//! **Compared**, with pages named as they were for the program (`bufbench check-baselines`): of 117 miss ratios of
//! `peers.csv` none is above the program's, 61 are equal, and hits on pages given up make the others lower by at most 0.0033;
//! the 16 of `pg_peers.csv` are within 0.001. Names matter because counts depend on which pages share counters, and small
//! loops depend on the counts: adding a constant to all page numbers moves the program's own miss ratio on `backf` with 600
//! frames between 0.285 and 0.412. So the hash has to be the program's, too.
//!
//! **Refused proposal.** Pages may have been moved from the window to the main part; a busy frame keeps its place there.
//!
//! **Cost.** O(1) per access, and O(n) at the first eviction and once in 32 n hits. 17 bytes a frame and 58 for the counters.

use super::{Departure, OneLevel, first_free, grow, percent_of};
use crate::list::{Links, List};
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
/// Invariants: (1) a resident frame is in exactly one of the four lists, the one that `segments` says; (2) the protected
/// segment holds at most `protected_target` frames.
pub struct LibCacheSimWTinyLfu {
    capacity: u32,
    counts: BloomCounts,
    /// Hits in the main part since the last halving.
    main_hits: u64,
    links: Links,
    /// The frames of each [`Segment`], least recently referenced at the head.
    lists: [List; 4],
    /// Per frame: where it is.
    segments: Vec<Segment>,
    /// Per frame: its page, to look up its count.
    pages: Vec<PageId>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Segment {
    /// Pages that came in lately.
    #[default]
    Window,
    /// Pages of the main part that were not referenced since they came into it, or not for long.
    Probation,
    /// Pages of the main part that were.
    Protected,
    /// Pages that the program has evicted.
    GivenUp,
}

use Segment::{GivenUp, Probation, Protected, Window};

impl LibCacheSimWTinyLfu {
    /// An empty instance. The counters keep the size that `capacity` asks for.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            counts: BloomCounts::new(main_target(capacity)),
            main_hits: 0,
            links: Links::with_capacity(capacity),
            lists: [const { List::new() }; 4],
            segments: Vec::with_capacity(capacity as usize),
            pages: Vec::with_capacity(capacity as usize),
        }
    }

    fn probation_target(&self) -> u32 {
        percent_of(PROBATION_PERCENT, main_target(self.capacity))
    }

    fn protected_target(&self) -> u32 {
        percent_of(PROTECTED_PERCENT, main_target(self.capacity))
    }

    fn list(&self, segment: Segment) -> &List {
        &self.lists[segment as usize]
    }

    /// Makes `frame`, which is in no list, the newest of `segment`.
    fn enter(&mut self, frame: u32, segment: Segment) {
        self.segments[frame as usize] = segment;
        self.lists[segment as usize].push_tail(&mut self.links, frame);
    }

    fn leave(&mut self, frame: u32) {
        let segment = self.segments[frame as usize];
        self.lists[segment as usize].remove(&mut self.links, frame);
    }

    fn shift(&mut self, frame: u32, segment: Segment) {
        self.leave(frame);
        self.enter(frame, segment);
    }

    /// Moves the oldest page of the window to the lowest segment of the main part that has room.
    fn admit_oldest(&mut self) {
        let oldest = self.list(Window).head();
        let is_low = self.list(Probation).len() < self.probation_target();
        let is_full = self.list(Protected).len() >= self.protected_target();
        self.shift(oldest, if is_low || is_full { Probation } else { Protected });
        self.counts.add(self.pages[oldest as usize]);
    }

    /// Brings the segments to their sizes after a promotion.
    fn cool(&mut self) {
        while self.list(Protected).len() > self.protected_target() {
            self.shift(self.list(Protected).head(), Probation);
            while self.list(Probation).len() > self.probation_target() {
                self.shift(self.list(Probation).head(), GivenUp);
            }
        }
    }

    fn hit_main(&mut self, frame: u32, page: PageId) {
        self.shift(frame, Protected);
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
        match self.segments[frame.index()] {
            Window => self.shift(frame.0, Window),
            Probation | Protected => self.hit_main(frame.0, page),
            GivenUp => {
                self.shift(frame.0, Window);
                self.counts.add(page);
            }
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.segments, frame);
        if frame.index() >= self.pages.len() {
            self.pages.resize(frame.index() + 1, page);
        }
        self.pages[frame.index()] = page;
        self.enter(frame.0, Window);
        self.counts.add(page);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        if let Some(given_up) = first_free(self.list(GivenUp).iter(&self.links), busy) {
            return Some(given_up);
        }
        let main = main_target(self.capacity);
        while self.list(Probation).len() + self.list(Protected).len() < main && !self.list(Window).is_empty()
        {
            self.admit_oldest();
        }
        let frames = |segment| self.list(segment).iter(&self.links);
        let newcomer = first_free(frames(Window), busy);
        let incumbent = first_free(frames(Probation).chain(frames(Protected)), busy);
        let count = |frame: FrameId| self.counts.count(self.pages[frame.index()]);
        match (newcomer, incumbent) {
            (Some(newcomer), Some(incumbent)) if count(newcomer) > count(incumbent) => Some(incumbent),
            _ => newcomer.or(incumbent),
        }
    }

    /// Whichever of the two that were compared goes, the page of the window is counted once more.
    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        self.leave(frame.0);
        match self.segments[frame.index()] {
            _ if why == Departure::Moved => {}
            Window => self.counts.add(page),
            Probation | Protected if !self.list(Window).is_empty() => self.admit_oldest(),
            Probation | Protected | GivenUp => {}
        }
    }

    fn check_invariants(&self) {
        for segment in [Window, Probation, Protected, GivenUp] {
            let list = self.list(segment);
            list.check_invariants(&self.links);
            let marked = list.iter(&self.links).all(|frame| self.segments[frame as usize] == segment);
            assert!(marked, "invariant 1: a frame is in another segment than its mark says");
        }
        let protected = self.list(Protected).len();
        assert!(protected <= self.protected_target(), "invariant 2: too many protected frames");
    }

    fn metadata_bytes(&self) -> usize {
        self.counts.memory_bytes()
            + self.links.memory_bytes()
            + self.segments.capacity() * size_of::<Segment>()
            + self.pages.capacity() * size_of::<PageId>()
    }
}

/// Reference counts in a counting Bloom filter: a page has ten counters, shared with other pages, and its count is the least
/// of them.
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
