//! OPT: evicts the page whose next use is farthest in the future. The bound that no policy can beat.
//!
//! **Idea.** Knowing all accesses to come, give up what will be missed last. A heap orders the resident pages
//! by their next use.
//!
//! **Paper.** L. A. Belady: "A study of replacement algorithms for a virtual-storage computer", IBM Systems
//! Journal 5(2), 1966 (MIN); optimality in R. L. Mattson et al., IBM Systems Journal 9(2), 1970.
//!
//! **Departures.** None. A missing page always comes in, even if its next use is the farthest of all. Among
//! pages that are never used again, any choice gives the same number of misses.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(log n) per access; `victim` is O(1), or O(k log k) if k busy frames have to be passed. 16
//! bytes a frame.

use super::policy::{Departure, OneLevel};
use crate::{FrameId, PageId};
use std::collections::BinaryHeap;

/// The heap position of a frame that is not resident.
const ABSENT: u32 = u32::MAX;

/// Belady's optimum. See the file's head.
///
/// Not a policy for a priority level, which cannot know the future: a block moved in would consume a next use
/// that is not its own.
pub struct Opt {
    /// For each access in order, the index of the next access to the same page, [`Opt::NEVER`] if none. Each
    /// hit and each insertion takes one.
    next_uses: Box<dyn Iterator<Item = u64> + Send>,
    /// Resident frames; a binary heap with the farthest next use at the root.
    heap: Vec<u32>,
    /// Per frame: its position in `heap`, or [`ABSENT`].
    position: Vec<u32>,
    /// Per frame: the index of the next access to its page.
    next_use: Vec<u64>,
    /// Heap positions to look at next, used while busy frames are passed; empty in between.
    frontier: BinaryHeap<(u64, u32)>,
}

impl Opt {
    /// The next use of a page that is not used again.
    pub const NEVER: u64 = u64::MAX;

    /// An empty instance. `next_uses` yields, for every access in the order in which they will be reported,
    /// the index of the next access to the same page, or [`Opt::NEVER`].
    ///
    /// If it ends early, pages count as never used again from there on.
    pub fn new(next_uses: Box<dyn Iterator<Item = u64> + Send>) -> Self {
        Self {
            next_uses,
            heap: Vec::new(),
            position: Vec::new(),
            next_use: Vec::new(),
            frontier: BinaryHeap::new(),
        }
    }

    /// Takes the frame's next use from `next_uses`. If that fits the accesses, it is later than the use that
    /// is over, and the frame moves up. Otherwise the answers are wrong, but the heap stays a heap.
    fn reference(&mut self, frame: u32) {
        self.next_use[frame as usize] = self.next_uses.next().unwrap_or(Self::NEVER);
        self.sift_up(self.position[frame as usize] as usize);
        self.sift_down(self.position[frame as usize] as usize);
    }

    fn key(&self, at: usize) -> u64 {
        self.next_use[self.heap[at] as usize]
    }

    fn place(&mut self, at: usize, frame: u32) {
        self.heap[at] = frame;
        self.position[frame as usize] = at as u32;
    }

    fn sift_up(&mut self, mut at: usize) {
        let frame = self.heap[at];
        let key = self.next_use[frame as usize];
        while at > 0 && self.key((at - 1) / 2) < key {
            self.place(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.place(at, frame);
    }

    fn sift_down(&mut self, mut at: usize) {
        let frame = self.heap[at];
        let key = self.next_use[frame as usize];
        while let Some(child) = self.larger_child(at).filter(|&child| self.key(child) > key) {
            self.place(at, self.heap[child]);
            at = child;
        }
        self.place(at, frame);
    }

    fn larger_child(&self, at: usize) -> Option<usize> {
        let (left, right) = (2 * at + 1, 2 * at + 2);
        if right < self.heap.len() && self.key(right) > self.key(left) {
            return Some(right);
        }
        (left < self.heap.len()).then_some(left)
    }

    /// Walks the heap from the farthest next use to the nearest, until a frame is not busy.
    #[cold]
    fn victim_past_busy(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        self.frontier.clear();
        self.frontier.push((self.key(0), 0));
        while let Some((_, at)) = self.frontier.pop() {
            let frame = FrameId(self.heap[at as usize]);
            if !busy(frame) {
                self.frontier.clear();
                return Some(frame);
            }
            for child in [2 * at + 1, 2 * at + 2] {
                if (child as usize) < self.heap.len() {
                    self.frontier.push((self.key(child as usize), child));
                }
            }
        }
        None
    }
}

impl OneLevel for Opt {
    fn name(&self) -> &'static str {
        "opt"
    }

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.reference(frame.0);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        if frame.index() >= self.position.len() {
            self.position.resize(frame.index() + 1, ABSENT);
            self.next_use.resize(frame.index() + 1, 0);
        }
        debug_assert_eq!(self.position[frame.index()], ABSENT, "{frame:?} is already resident");
        self.heap.push(frame.0);
        self.position[frame.index()] = self.heap.len() as u32 - 1;
        self.reference(frame.0);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let farthest = FrameId(*self.heap.first()?);
        if busy(farthest) { self.victim_past_busy(busy) } else { Some(farthest) }
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        let at = self.position[frame.index()] as usize;
        debug_assert_eq!(self.heap.get(at), Some(&frame.0), "{frame:?} is not resident");
        self.heap.swap_remove(at);
        self.position[frame.index()] = ABSENT;
        if at < self.heap.len() {
            self.sift_down(at);
            self.sift_up(at);
        }
    }

    fn check_invariants(&self) {
        for (at, &frame) in self.heap.iter().enumerate() {
            assert_eq!(
                self.position[frame as usize] as usize, at,
                "frame {frame} does not know its position"
            );
            assert!(
                at == 0 || self.key((at - 1) / 2) >= self.key(at),
                "frame {frame} is above a farther next use"
            );
        }
        let resident = self.position.iter().filter(|&&at| at != ABSENT).count();
        assert_eq!(resident, self.heap.len(), "a frame outside the heap has a position in it");
        assert!(self.frontier.is_empty(), "the frontier is only used during a search");
    }

    fn metadata_bytes(&self) -> usize {
        (self.heap.capacity() + self.position.capacity()) * size_of::<u32>()
            + self.next_use.capacity() * size_of::<u64>()
            + self.frontier.capacity() * size_of::<(u64, u32)>()
    }
}
