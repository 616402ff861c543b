//! S3-FIFO: three FIFO queues, the first of which filters out pages that are used once.
//!
//! **Idea.** New pages pass through a small queue; those referenced there move on to the main queue, the
//! others leave quickly and are remembered. A page missed while remembered goes straight to the main queue,
//! where pages with references left go round again.
//!
//! **Paper.** J. Yang et al.: "FIFO queues are all you need for cache eviction", SOSP 2023.
//!
//! **Departures.** As in libCacheSim and not in the paper, new pages that find the small queue at its target
//! go straight to the main queue while nothing has been evicted yet; without that, the main queue starts
//! empty, and a loop that is larger than the cache never fills it ([`S3FifoParameters::fill_main_first`]). A
//! busy page keeps its place in its queue, though one in the small queue with enough references moves on. If
//! no page of the chosen queue can go, the other queue gives one.
//!
//! **Refused proposal.** What the search did stays done, as if the queues had been turned for a miss: pages
//! with references have moved on to the main queue or round in it. The refused frame keeps its place.
//!
//! **Cost.** A hit increments a byte. A miss is amortised O(1): a page is moved once per reference it had,
//! three at most, plus once. 9 bytes a frame and 22 to 26 for each ghost, which are 90 % of the frames: 29 to
//! 33 a frame.

use super::policy::{Departure, OneLevel, grow, percent_of};
use crate::ghost::Ghosts;
use crate::list::{Links, List, NIL};
use crate::{FrameId, PageId};

/// References counted per page.
const REFERENCES_MAX: u8 = 3;
/// The flag in [`S3Fifo::state`] of frames in the main queue.
const IN_MAIN: u8 = 0x80;

/// S3-FIFO. See the file's head.
///
/// Invariants: (1) a resident frame is in exactly one of `small` and `main`, the one that its state says;
/// (2) there are at most `ghost_percent` of the capacity of ghosts, and one more
/// between an eviction and the insertion that it makes room for.
pub struct S3Fifo {
    capacity: u32,
    parameters: S3FifoParameters,
    links: Links,
    /// Frames whose page came in as a stranger, first arrival at the head.
    small: List,
    /// Frames whose page was referenced in the small queue, or came in while remembered.
    main: List,
    /// Per frame: references since its page entered its queue, 3 at most and less one for each round in the
    /// main queue, and the flag [`IN_MAIN`].
    state: Vec<u8>,
    /// Pages evicted from the small queue.
    ghosts: Ghosts<1>,
    /// Something has been evicted.
    has_evicted: bool,
}

/// The tuning of [`S3Fifo`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct S3FifoParameters {
    /// The small queue's target, in percent of the capacity. 0 to 100; at least one frame.
    pub small_percent: u32,
    /// Pages remembered, in percent of the capacity.
    pub ghost_percent: u32,
    /// References in the small queue that make a page move to the main queue. 0 to 3.
    pub move_references: u8,
    /// Whether new pages go to the main queue while nothing has been evicted and the small queue is at its
    /// target.
    pub fill_main_first: bool,
}

impl Default for S3FifoParameters {
    fn default() -> Self {
        Self { small_percent: 10, ghost_percent: 90, move_references: 2, fill_main_first: true }
    }
}

impl S3Fifo {
    /// An empty instance with the default parameters.
    pub fn new(capacity: u32) -> Self {
        Self::with_parameters(capacity, S3FifoParameters::default())
    }

    /// An empty instance.
    pub fn with_parameters(capacity: u32, parameters: S3FifoParameters) -> Self {
        Self {
            capacity,
            parameters,
            links: Links::with_capacity(capacity),
            small: List::new(),
            main: List::new(),
            state: Vec::with_capacity(capacity as usize),
            ghosts: Ghosts::with_capacity(percent_of(parameters.ghost_percent, capacity).saturating_add(1)),
            has_evicted: false,
        }
    }

    fn small_target(&self) -> u32 {
        percent_of(self.parameters.small_percent, self.capacity).max(1)
    }

    fn ghosts_max(&self) -> u32 {
        percent_of(self.parameters.ghost_percent, self.capacity)
    }

    fn trim_ghosts(&mut self) {
        while self.ghosts.len(0) > self.ghosts_max() {
            self.ghosts.pop_oldest(0);
        }
    }

    fn main_is_over_target(&self) -> bool {
        self.main.len() > self.capacity.saturating_sub(self.small_target())
    }

    /// Looks at each page of the small queue once, oldest first; those with enough references move on.
    fn victim_in_small(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let mut at = self.small.head();
        while at != NIL {
            let frame = at;
            at = self.links.next(frame);
            if self.state[frame as usize] >= self.parameters.move_references {
                self.small.remove(&mut self.links, frame);
                self.main.push_tail(&mut self.links, frame);
                self.state[frame as usize] = IN_MAIN;
            } else if !busy(FrameId(frame)) {
                return Some(FrameId(frame));
            }
        }
        None
    }

    /// Turns the main queue until a page without references comes up. Each page passes at most once for each
    /// reference it has and once without.
    fn victim_in_main(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let mut at = self.main.head();
        for _ in 0..self.main.len() * (u32::from(REFERENCES_MAX) + 1) {
            if at == NIL {
                at = self.main.head();
            }
            let frame = at;
            at = self.links.next(frame);
            if busy(FrameId(frame)) {
                continue;
            }
            if self.state[frame as usize] == IN_MAIN {
                return Some(FrameId(frame));
            }
            self.state[frame as usize] -= 1;
            self.main.move_to_tail(&mut self.links, frame);
        }
        None
    }
}

impl OneLevel for S3Fifo {
    fn name(&self) -> &'static str {
        "s3-fifo"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.trim_ghosts();
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        let state = &mut self.state[frame.index()];
        if *state & !IN_MAIN < REFERENCES_MAX {
            *state += 1;
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.state, frame);
        let remembered = self.ghosts.take(page).is_some();
        self.trim_ghosts();
        let filling = self.parameters.fill_main_first && !self.has_evicted;
        let to_main = remembered || (filling && self.small.len() >= self.small_target());
        self.state[frame.index()] = if to_main { IN_MAIN } else { 0 };
        let list = if to_main { &mut self.main } else { &mut self.small };
        list.push_tail(&mut self.links, frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        if !self.main_is_over_target() {
            let found = self.victim_in_small(busy);
            if found.is_some() {
                return found;
            }
        }
        // If the small queue has moved its pages on to the main queue, they are found there.
        let found = self.victim_in_main(busy).or_else(|| self.victim_in_small(busy));
        found.or_else(|| self.victim_in_main(busy))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let evicted = why == Departure::Evicted;
        self.has_evicted |= evicted;
        if self.state[frame.index()] & IN_MAIN != 0 {
            self.main.remove(&mut self.links, frame.0);
            return;
        }
        self.small.remove(&mut self.links, frame.0);
        if evicted {
            self.trim_ghosts();
            self.ghosts.push(0, page);
        }
    }

    fn check_invariants(&self) {
        for (list, flag) in [(&self.small, 0), (&self.main, IN_MAIN)] {
            list.check_invariants(&self.links);
            for frame in list.iter(&self.links) {
                let state = self.state[frame as usize];
                assert_eq!(state & IN_MAIN, flag, "invariant 1: frame {frame} is in the other queue");
                assert!(state & !IN_MAIN <= REFERENCES_MAX, "frame {frame} has too many references");
            }
        }
        self.ghosts.check_invariants();
        assert!(self.ghosts.len(0) <= self.ghosts_max() + 1, "invariant 2: too many ghosts");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.state.capacity() + self.ghosts.memory_bytes()
    }
}
