//! MRU: evicts the page that was referenced last.
//!
//! **Idea.** In a loop, the page just used is the one whose next use is farthest away. One list in order of
//! last reference, as for LRU; victims come from its other end.
//!
//! **Paper.** H.-T. Chou, D. J. DeWitt: "An evaluation of buffer management strategies for relational
//! database systems", VLDB 1985 (for looping references).
//!
//! **Departures.** None.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access; `victim` also walks over the busy frames at the hot end. 8 bytes a frame.

use super::policy::{Departure, OneLevel, first_free};
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// Most recently used. See the file's head.
pub struct Mru {
    links: Links,
    /// Resident frames, least recently referenced at the head.
    recency: List,
}

impl Mru {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self { links: Links::with_capacity(capacity), recency: List::new() }
    }
}

impl OneLevel for Mru {
    fn name(&self) -> &'static str {
        "mru"
    }

    fn resize(&mut self, _capacity: u32) {}

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.recency.move_to_tail(&mut self.links, frame.0);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.links.grow_to(frame.0);
        self.recency.push_tail(&mut self.links, frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        first_free(self.recency.iter_from_tail(&self.links), busy)
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        self.recency.remove(&mut self.links, frame.0);
    }

    fn check_invariants(&self) {
        self.recency.check_invariants(&self.links);
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
    }
}
