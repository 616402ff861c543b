//! 2Q: a page must come back after it has left a probation queue before it counts as hot.
//!
//! **Idea.** New pages queue first-in first-out in A1in; one that leaves it is remembered in A1out. Only a
//! page that is missed while remembered joins Am, the LRU list of hot pages, so that correlated references
//! and scans never disturb it.
//!
//! **Paper.** T. Johnson, D. Shasha: "2Q: a low overhead high performance buffer management replacement
//! algorithm", VLDB 1994 (the full version), with its Kin = 25 % and Kout = 50 % of the frames.
//!
//! **Departures.** None for a whole cache. When frames are busy, the first frame of the chosen queue that is
//! not busy goes; if there is none, the other queue gives one.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access. 9 bytes a frame, and 22 to 26 for each of at most Kout ghosts: 20 to 22 a
//! frame.

use super::policy::{Departure, OneLevel, first_free, grow, percent_of};
use crate::ghost::Ghosts;
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// 2Q, full version. See the file's head.
///
/// Invariants: (1) a resident frame is in exactly one of `a1in` and `am`, the one that `is_hot` says; (2)
/// there are at most Kout ghosts, and one more between an eviction and the insertion that it makes room for.
pub struct TwoQueue {
    capacity: u32,
    parameters: TwoQueueParameters,
    links: Links,
    /// Frames whose page came in as a stranger, first arrival at the head.
    a1in: List,
    /// Frames whose page came in while remembered, least recently referenced at the head.
    am: List,
    /// Per frame: in `am`.
    is_hot: Vec<bool>,
    /// Pages evicted from A1in.
    a1out: Ghosts<1>,
}

/// The tuning of [`TwoQueue`], as percentages of the capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TwoQueueParameters {
    /// Frames that A1in may hold before it gives up pages rather than Am. 0 to 100.
    pub kin_percent: u32,
    /// Pages that A1out remembers. 0 or more.
    pub kout_percent: u32,
}

impl Default for TwoQueueParameters {
    fn default() -> Self {
        Self { kin_percent: 25, kout_percent: 50 }
    }
}

impl TwoQueue {
    /// An empty instance with the paper's parameters.
    pub fn new(capacity: u32) -> Self {
        Self::with_parameters(capacity, TwoQueueParameters::default())
    }

    /// An empty instance.
    pub fn with_parameters(capacity: u32, parameters: TwoQueueParameters) -> Self {
        Self {
            capacity,
            parameters,
            links: Links::with_capacity(capacity),
            a1in: List::new(),
            am: List::new(),
            is_hot: Vec::with_capacity(capacity as usize),
            a1out: Ghosts::with_capacity(percent_of(parameters.kout_percent, capacity).saturating_add(1)),
        }
    }

    fn kin(&self) -> u32 {
        percent_of(self.parameters.kin_percent, self.capacity)
    }

    fn kout(&self) -> u32 {
        percent_of(self.parameters.kout_percent, self.capacity)
    }

    fn trim_ghosts(&mut self) {
        while self.a1out.len(0) > self.kout() {
            self.a1out.pop_oldest(0);
        }
    }
}

impl OneLevel for TwoQueue {
    fn name(&self) -> &'static str {
        "2q"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.trim_ghosts();
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        if self.is_hot[frame.index()] {
            self.am.move_to_tail(&mut self.links, frame.0);
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.is_hot, frame);
        let remembered = self.a1out.take(page).is_some();
        self.trim_ghosts();
        self.is_hot[frame.index()] = remembered;
        let list = if remembered { &mut self.am } else { &mut self.a1in };
        list.push_tail(&mut self.links, frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let (a1in, am) = (self.a1in.iter(&self.links), self.am.iter(&self.links));
        if self.a1in.len() > self.kin() {
            first_free(a1in.chain(am), busy)
        } else {
            first_free(am.chain(a1in), busy)
        }
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        if self.is_hot[frame.index()] {
            self.am.remove(&mut self.links, frame.0);
            return;
        }
        self.a1in.remove(&mut self.links, frame.0);
        if why == Departure::Evicted {
            self.trim_ghosts();
            self.a1out.push(0, page);
        }
    }

    fn check_invariants(&self) {
        for (list, hot) in [(&self.a1in, false), (&self.am, true)] {
            list.check_invariants(&self.links);
            let marked = list.iter(&self.links).all(|frame| self.is_hot[frame as usize] == hot);
            assert!(marked, "invariant 1: a frame is in the other queue than its mark says");
        }
        self.a1out.check_invariants();
        assert!(self.a1out.len(0) <= self.kout() + 1, "invariant 2: more ghosts than Kout");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.is_hot.capacity() + self.a1out.memory_bytes()
    }
}
