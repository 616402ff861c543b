//! SIEVE: FIFO with lazy promotion and a hand that leaves survivors where they are.
//!
//! **Idea.** Pages stand in order of arrival, each with a visited bit that a hit sets. A hand moves from old
//! to new; it clears set bits as it passes, and the first page whose bit is clear goes. New pages go to the
//! new end, not to the hand as in CLOCK, so that the hand meets them soon.
//!
//! **Paper.** Y. Zhang et al.: "SIEVE is simpler than LRU: an efficient turn-key eviction algorithm for web
//! caches", NSDI 2024.
//!
//! **Departures.** None. A busy page is passed by with its bit as it is.
//!
//! **Refused proposal.** The hand stays at the refused frame, which the next search passes because it is
//! busy. The bits cleared on the way stay clear, as if the hand had gone over them for a miss.
//!
//! **Cost.** A hit sets a byte. A miss moves the hand, over each page at most twice; amortised O(1), since a
//! page is passed once per hit at most, and once per miss while busy. 9 bytes a frame.

use super::policy::{Departure, OneLevel, grow};
use crate::list::{Links, List, NIL};
use crate::{FrameId, PageId};

/// SIEVE. See the file's head.
pub struct Sieve {
    links: Links,
    /// Resident frames, first arrival at the head.
    queue: List,
    /// Where the next search begins; [`NIL`] for the head.
    hand: u32,
    /// Per frame: referenced since it came in or the hand last passed.
    visited: Vec<bool>,
}

impl Sieve {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self {
            links: Links::with_capacity(capacity),
            queue: List::new(),
            hand: NIL,
            visited: Vec::with_capacity(capacity as usize),
        }
    }
}

impl OneLevel for Sieve {
    fn name(&self) -> &'static str {
        "sieve"
    }

    fn resize(&mut self, _capacity: u32) {}

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.visited[frame.index()] = true;
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.visited, frame);
        self.visited[frame.index()] = false;
        self.queue.push_tail(&mut self.links, frame.0);
    }

    /// Two turns are enough: the first clears every bit, the second meets every page that is not busy with
    /// its bit clear.
    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        for _ in 0..2 * self.queue.len() {
            if self.hand == NIL {
                self.hand = self.queue.head();
            }
            let frame = FrameId(self.hand);
            if !busy(frame) {
                if !self.visited[frame.index()] {
                    return Some(frame);
                }
                self.visited[frame.index()] = false;
            }
            self.hand = self.links.next(self.hand);
        }
        None
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        if self.hand == frame.0 {
            self.hand = self.links.next(frame.0);
        }
        self.queue.remove(&mut self.links, frame.0);
    }

    fn check_invariants(&self) {
        self.queue.check_invariants(&self.links);
        let stands = self.hand == NIL || self.queue.iter(&self.links).any(|frame| frame == self.hand);
        assert!(stands, "the hand points to a resident frame or to none");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.visited.capacity()
    }
}
