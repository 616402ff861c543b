//! FIFO: evicts the page that came in first.
//!
//! **Idea.** One queue in order of arrival; references change nothing. The cheapest hit there is, and the
//! base line of everything that calls itself an improvement of it.
//!
//! **Paper.** L. A. Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966.
//!
//! **Departures.** None.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access; `victim` also walks over the busy frames at the old end. 8 bytes a frame.

use super::policy::{Departure, OneLevel, first_free};
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// First in, first out. See the file's head.
pub struct Fifo {
    links: Links,
    /// Resident frames, first arrival at the head.
    arrivals: List,
}

impl Fifo {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self { links: Links::with_capacity(capacity), arrivals: List::new() }
    }
}

impl OneLevel for Fifo {
    fn name(&self) -> &'static str {
        "fifo"
    }

    fn resize(&mut self, _capacity: u32) {}

    #[inline]
    fn hit(&mut self, _frame: FrameId, _page: PageId) {}

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.links.grow_to(frame.0);
        self.arrivals.push_tail(&mut self.links, frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        first_free(self.arrivals.iter(&self.links), busy)
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        self.arrivals.remove(&mut self.links, frame.0);
    }

    fn check_invariants(&self) {
        self.arrivals.check_invariants(&self.links);
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
    }
}
