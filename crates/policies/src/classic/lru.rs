//! LRU: evicts the page that was not referenced for the longest time.
//!
//! **Idea.** What was used recently will be used soon. One list in order of last reference; a reference moves
//! the page to the hot end, victims come from the cold end.
//!
//! **Paper.** R. L. Mattson, J. Gecsei, D. R. Slutz, I. L. Traiger: "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970 (its properties; the policy is older).
//!
//! **Departures.** None.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access; `victim` also walks over the busy frames at the cold end. 8 bytes a frame.

use super::policy::{Departure, OneLevel, first_free};
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// Least recently used. See the file's head.
pub struct Lru {
    links: Links,
    /// Resident frames, least recently referenced at the head.
    recency: List,
}

impl Lru {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self { links: Links::with_capacity(capacity), recency: List::new() }
    }
}

impl OneLevel for Lru {
    fn name(&self) -> &'static str {
        "lru"
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
        first_free(self.recency.iter(&self.links), busy)
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
