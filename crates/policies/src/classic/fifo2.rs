//! FIFO2: an active and an inactive queue, and a second chance in the latter.
//!
//! **Idea.** A page comes in at the tail of the active queue, where its references are not looked at.
//! Before a victim is taken, pages move from the active head to the inactive tail, with their bits
//! cleared, until two thirds of all pages, rounded up, are inactive. The inactive head goes, unless it
//! was referenced since it became inactive: then it gets a second chance at the inactive tail. A hit
//! costs a bit.
//!
//! **Paper.** C.-H. Lee, M. C. Chen, R.-C. Chang: "In-Kernel Policy Interpretation for Application-Specific
//! Memory Caching Management" (HiPEC), after the page-out daemon of Mach.
//!
//! **Departures.** The bit is cleared on the way to the inactive queue, as in Mach; the paper does not say. A
//! page with a second chance stays inactive, as the paper says; Mach makes it active again. Where all
//! inactive pages are busy, the first active page that is not busy goes.
//!
//! **Refused proposal.** The second chances that led to it stay given; the frame keeps its place.
//!
//! **Cost.** O(1) amortised per access; `victim` also walks over the busy frames. 10 bytes a frame.

use super::fifo2_queues::Fifo2Queues;
use super::policy::{Departure, OneLevel};
use crate::list::NIL;
use crate::{FrameId, PageId};

/// Two queues with reference bits. See the file's head.
pub struct Fifo2 {
    queues: Fifo2Queues,
}

impl Fifo2 {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self { queues: Fifo2Queues::with_capacity(capacity) }
    }
}

impl OneLevel for Fifo2 {
    fn name(&self) -> &'static str {
        "fifo2"
    }

    fn resize(&mut self, _capacity: u32) {}

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.queues.reference(frame.0);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.queues.lengthen_to(frame.0 + 1);
        self.queues.insert(frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let mut at = self.queues.next_to_go(NIL, |_| true);
        while at != NIL && busy(FrameId(at)) {
            at = self.queues.next_to_go(at, |_| true);
        }
        (at != NIL).then_some(FrameId(at))
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        self.queues.remove(frame.0);
    }

    fn check_invariants(&self) {
        self.queues.check_invariants();
    }

    fn metadata_bytes(&self) -> usize {
        self.queues.metadata_bytes()
    }
}
