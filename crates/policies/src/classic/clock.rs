//! CLOCK: FIFO with a second chance for pages that were referenced meanwhile.
//!
//! **Idea.** Pages stand on a ring in order of arrival, each with a reference bit that a hit sets. A hand
//! goes round; it clears set bits as it passes, and the first page whose bit is clear goes.
//!
//! **Paper.** F. J. Corbató: "A paging experiment with the Multics system", MIT Project MAC, 1968.
//!
//! **Departures.** A page comes in with its bit clear (the original sets it), so that a page referenced once
//! goes at the hand's first visit. A busy page is passed by with its bit as it is.
//!
//! **Refused proposal.** The hand stays at the refused frame, which the next search passes because it is
//! busy. The bits cleared on the way stay clear, as if the hand had gone round for a miss.
//!
//! **Cost.** A hit sets a byte. A miss moves the hand, over each page at most twice; amortised O(1), since a
//! page is passed once per hit at most, and once per miss while busy. 9 bytes a frame.

use super::policy::{Departure, OneLevel, grow};
use crate::list::{Links, List, NIL};
use crate::{FrameId, PageId};

/// Second chance with one reference bit. See the file's head.
pub struct Clock {
    links: Links,
    /// Resident frames in order of arrival, read as a ring.
    ring: List,
    /// Where the next search begins; [`NIL`] if and only if the ring is empty.
    hand: u32,
    /// Per frame: referenced since the hand last passed.
    referenced: Vec<bool>,
}

impl Clock {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self {
            links: Links::with_capacity(capacity),
            ring: List::new(),
            hand: NIL,
            referenced: Vec::with_capacity(capacity as usize),
        }
    }
}

impl OneLevel for Clock {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn resize(&mut self, _capacity: u32) {}

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.referenced[frame.index()] = true;
    }

    /// Right behind the hand: the place it will reach last.
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.referenced, frame);
        self.referenced[frame.index()] = false;
        self.ring.insert_before(&mut self.links, self.hand, frame.0);
        if self.hand == NIL {
            self.hand = frame.0;
        }
    }

    /// Two turns are enough: the first clears every bit, the second meets every page that is not busy with
    /// its bit clear.
    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        for _ in 0..2 * self.ring.len() {
            let frame = FrameId(self.hand);
            if !busy(frame) {
                if !self.referenced[frame.index()] {
                    return Some(frame);
                }
                self.referenced[frame.index()] = false;
            }
            self.hand = self.ring.next_in_ring(&self.links, self.hand);
        }
        None
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        if self.hand == frame.0 {
            let next = self.ring.next_in_ring(&self.links, frame.0);
            self.hand = if next == frame.0 { NIL } else { next };
        }
        self.ring.remove(&mut self.links, frame.0);
    }

    fn check_invariants(&self) {
        self.ring.check_invariants(&self.links);
        assert_eq!(
            self.hand == NIL,
            self.ring.is_empty(),
            "the hand points somewhere unless the ring is empty"
        );
        assert!(
            self.hand == NIL || self.ring.iter(&self.links).any(|frame| frame == self.hand),
            "the hand points to a resident frame"
        );
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.referenced.capacity()
    }
}
