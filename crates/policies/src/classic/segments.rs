//! The lists of both forms of W-TinyLFU: a window, and a main part in segments, each in LRU order.

use super::policy::grow;
use crate::list::{Links, List};
use crate::{FrameId, PageId};

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Segment {
    /// Pages that came in lately.
    #[default]
    Window,
    /// Pages of the main part that were not referenced since they came into it, or not for long.
    Probation,
    /// Pages of the main part that were.
    Protected,
    /// Pages that libCacheSim would have evicted at a hit, and which go first. The paper's rules give up
    /// none.
    GivenUp,
}

impl Segment {
    const ALL: [Self; 4] = [Self::Window, Self::Probation, Self::Protected, Self::GivenUp];
}

/// The frames of each segment, least recently referenced first, and their pages. 17 bytes a frame.
///
/// Invariant: a frame that came in is in exactly one of the lists, the one that its mark says.
pub(super) struct Segments {
    links: Links,
    lists: [List; Segment::ALL.len()],
    /// Per frame: where it is.
    marks: Vec<Segment>,
    /// Per frame: its page, to look up its count.
    pages: Vec<PageId>,
}

impl Segments {
    pub fn with_capacity(capacity: u32) -> Self {
        Self {
            links: Links::with_capacity(capacity),
            lists: [const { List::new() }; Segment::ALL.len()],
            marks: Vec::with_capacity(capacity as usize),
            pages: Vec::with_capacity(capacity as usize),
        }
    }

    pub fn list(&self, segment: Segment) -> &List {
        &self.lists[segment as usize]
    }

    /// The frames of a segment, least recently referenced first.
    pub fn frames(&self, segment: Segment) -> impl Iterator<Item = u32> {
        self.list(segment).iter(&self.links)
    }

    pub fn of(&self, frame: FrameId) -> Segment {
        self.marks[frame.index()]
    }

    pub fn page(&self, frame: FrameId) -> PageId {
        self.pages[frame.index()]
    }

    /// `page` comes into `frame`, as the newest of the window.
    pub fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.marks, frame);
        if frame.index() >= self.pages.len() {
            self.pages.resize(frame.index() + 1, page);
        }
        self.pages[frame.index()] = page;
        self.enter(frame.0, Segment::Window);
    }

    /// The page in `frame` leaves.
    pub fn remove(&mut self, frame: FrameId) {
        self.leave(frame.0);
    }

    /// Makes `frame` the newest of `segment`.
    pub fn shift(&mut self, frame: u32, segment: Segment) {
        self.leave(frame);
        self.enter(frame, segment);
    }

    fn enter(&mut self, frame: u32, segment: Segment) {
        self.marks[frame as usize] = segment;
        self.lists[segment as usize].push_tail(&mut self.links, frame);
    }

    fn leave(&mut self, frame: u32) {
        self.lists[self.marks[frame as usize] as usize].remove(&mut self.links, frame);
    }

    pub fn memory_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.marks.capacity() * size_of::<Segment>()
            + self.pages.capacity() * size_of::<PageId>()
    }

    /// Panics unless lists and marks agree.
    pub fn check_invariants(&self) {
        for segment in Segment::ALL {
            self.list(segment).check_invariants(&self.links);
            let marked = self.frames(segment).all(|frame| self.marks[frame as usize] == segment);
            assert!(marked, "a frame is in another segment than its mark says");
        }
    }
}
