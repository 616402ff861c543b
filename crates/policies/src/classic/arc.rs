//! ARC: balances recency against frequency by what its ghosts say it should have kept.
//!
//! **Idea.** T1 holds pages seen once lately, T2 pages seen again, each in LRU order; B1 and B2 remember what
//! was evicted from them. A miss that B1 remembers moves the target size p of T1 up, one that B2 remembers
//! moves it down.
//!
//! **Paper.** N. Megiddo, D. S. Modha: "ARC: a self-tuning, low overhead replacement cache", FAST 2003.
//!
//! **Departures.** None for a whole cache: a page that is evicted while T1 fills the whole cache becomes a
//! ghost for a moment and is then dropped as the oldest of B1, which is what the paper does directly. When
//! frames are busy, the first frame of the chosen list that is not busy goes; if there is none, the other
//! list gives one.
//!
//! **Refused proposal.** Changes nothing but a note of where p would move to: p moves when the missing page
//! comes in.
//!
//! **Cost.** O(1) per access. 9 bytes a frame and 22 to 26 for each ghost, of which there are as many as
//! resident pages in a full cache and never more than twice the capacity: 31 to 35 a frame.

use super::policy::{Departure, OneLevel, first_free, grow};
use crate::ghost::Ghosts;
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// The ghost lists' numbers.
const B1: usize = 0;
const B2: usize = 1;

/// Adaptive replacement cache. See the file's head.
///
/// Invariants, with c the capacity: (1) a resident frame is in exactly one of `t1` and `t2`, the one that
/// `is_frequent` says; (2) p ≤ c; (3) |B1| ≤ max(0, c - |T1|); (4) |B1| + |B2| ≤ max(0, 2c - |T1| - |T2|).
pub struct Arc {
    capacity: u32,
    /// The target size of T1, called p in the paper.
    recent_target: f64,
    links: Links,
    /// Frames with pages referenced once since they came in as strangers, coldest at the head.
    t1: List,
    /// Frames with pages referenced again, coldest at the head.
    t2: List,
    /// Per frame: in `t2`.
    is_frequent: Vec<bool>,
    /// Pages evicted from T1 (B1) and from T2 (B2).
    ghosts: Ghosts<2>,
    /// The page that was missing at the last question, and what p becomes when it comes in. Computed before
    /// the victim left, because the victim may change the lengths of the ghost lists.
    planned: Option<(PageId, f64)>,
}

impl Arc {
    /// An empty instance.
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            recent_target: 0.0,
            links: Links::with_capacity(capacity),
            t1: List::new(),
            t2: List::new(),
            is_frequent: Vec::with_capacity(capacity as usize),
            ghosts: Ghosts::with_capacity(capacity.saturating_add(1)),
            planned: None,
        }
    }

    /// What p becomes when a page comes in that ghost list `list` remembers, if one does.
    fn adapted_target(&self, list: Option<usize>) -> f64 {
        let (b1, b2) = (f64::from(self.ghosts.len(B1)), f64::from(self.ghosts.len(B2)));
        match list {
            Some(B1) => (self.recent_target + (b2 / b1).max(1.0)).min(f64::from(self.capacity)),
            Some(_) => (self.recent_target - (b1 / b2).max(1.0)).max(0.0),
            None => self.recent_target,
        }
    }

    /// Brings the ghosts within invariants 3 and 4.
    fn trim_ghosts(&mut self) {
        let resident = u64::from(self.t1.len() + self.t2.len());
        let b1_max = self.capacity.saturating_sub(self.t1.len());
        let ghosts_max = (2 * u64::from(self.capacity)).saturating_sub(resident);
        while self.ghosts.len(B1) > b1_max {
            self.ghosts.pop_oldest(B1);
        }
        while u64::from(self.ghosts.len(B1)) + u64::from(self.ghosts.len(B2)) > ghosts_max {
            let list = if self.ghosts.len(B2) > 0 { B2 } else { B1 };
            self.ghosts.pop_oldest(list);
        }
    }
}

impl OneLevel for Arc {
    fn name(&self) -> &'static str {
        "arc"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.recent_target = self.recent_target.min(f64::from(capacity));
        self.planned = None;
        self.trim_ghosts();
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        if self.is_frequent[frame.index()] {
            self.t2.move_to_tail(&mut self.links, frame.0);
        } else {
            self.is_frequent[frame.index()] = true;
            self.t1.remove(&mut self.links, frame.0);
            self.t2.push_tail(&mut self.links, frame.0);
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.is_frequent, frame);
        let remembered = self.ghosts.find(page);
        self.recent_target = match self.planned.take() {
            Some((planned, target)) if planned == page => target,
            _ => self.adapted_target(remembered),
        };
        self.ghosts.take(page);
        self.is_frequent[frame.index()] = remembered.is_some();
        let list = if remembered.is_some() { &mut self.t2 } else { &mut self.t1 };
        list.push_tail(&mut self.links, frame.0);
        self.trim_ghosts();
    }

    /// The paper's REPLACE, for the p that the miss will bring about.
    fn victim(&mut self, missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let remembered = self.ghosts.find(missing);
        let target = self.adapted_target(remembered);
        self.planned = Some((missing, target));
        let (t1, t2) = (self.t1.iter(&self.links), self.t2.iter(&self.links));
        let size = f64::from(self.t1.len());
        if size > target || (size == target && remembered == Some(B2)) {
            first_free(t1.chain(t2), busy)
        } else {
            first_free(t2.chain(t1), busy)
        }
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let (list, ghosts) =
            if self.is_frequent[frame.index()] { (&mut self.t2, B2) } else { (&mut self.t1, B1) };
        list.remove(&mut self.links, frame.0);
        if why == Departure::Evicted {
            self.ghosts.push(ghosts, page);
        }
        self.trim_ghosts();
    }

    fn check_invariants(&self) {
        for (list, frequent) in [(&self.t1, false), (&self.t2, true)] {
            list.check_invariants(&self.links);
            let marked = list.iter(&self.links).all(|frame| self.is_frequent[frame as usize] == frequent);
            assert!(marked, "invariant 1: a frame is in the other list than its mark says");
        }
        self.ghosts.check_invariants();
        assert!(self.recent_target <= f64::from(self.capacity), "invariant 2: p is above the capacity");
        let (b1, b2) = (u64::from(self.ghosts.len(B1)), u64::from(self.ghosts.len(B2)));
        let (t1, t2) = (u64::from(self.t1.len()), u64::from(self.t2.len()));
        let capacity = u64::from(self.capacity);
        assert!(b1 <= capacity.saturating_sub(t1), "invariant 3: too many ghosts in B1");
        assert!(b1 + b2 <= (2 * capacity).saturating_sub(t1 + t2), "invariant 4: too many ghosts");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.is_frequent.capacity() + self.ghosts.memory_bytes()
    }
}
