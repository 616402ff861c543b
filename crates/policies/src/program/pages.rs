//! The pages that a program knows, and its queues of them.
//!
//! A queue is a list by frame number, whose head and tail are those of the program's text. A page is in one
//! queue or in none, and knows which. About 32 bytes a frame, up to the highest number of a frame seen.

use super::code::QUEUES_MAX;
use crate::{
    ids::{FrameId, PageId},
    list::{Links, List, NIL, lengthen},
    slot_index::SlotIndex,
};

/// The queue of a page that is in none.
const DETACHED: u8 = u8::MAX;

/// What is known of the page in a frame.
#[derive(Clone)]
struct Entry {
    page: PageId,
    /// The user word.
    meta: i64,
    queue: u8,
    is_resident: bool,
    is_referenced: bool,
    /// False once the page is known not to be among the program's ghosts, which saves a look-up.
    may_be_ghost: bool,
}

const VACANT: Entry = Entry {
    page: PageId(0),
    meta: 0,
    queue: DETACHED,
    is_resident: false,
    is_referenced: false,
    may_be_ghost: true,
};

/// The resident pages of a tenant, and the queues that they are in.
pub(super) struct Pages {
    entries: Vec<Entry>,
    links: Links,
    /// By slot number: the program's queues have its first slots.
    queues: [List; QUEUES_MAX],
    /// From page to frame; only for programs that look pages up.
    index: Option<SlotIndex>,
    resident: u32,
}

impl Pages {
    /// No pages. `finds` tells whether pages are looked up.
    pub fn new(finds: bool) -> Self {
        Self {
            entries: Vec::new(),
            links: Links::default(),
            queues: [const { List::new() }; QUEUES_MAX],
            index: finds.then(SlotIndex::default),
            resident: 0,
        }
    }

    /// `page` is in `frame` now; its bit is clear, its word 0, and it is in no queue.
    pub fn enter(&mut self, frame: FrameId, page: PageId) {
        if self.has(frame) {
            self.leave(frame);
        }
        let len = frame.index() + 1;
        if len > self.entries.len() {
            lengthen(&mut self.entries, len, VACANT);
            self.links.lengthen_to(self.entries.len());
        }
        self.entries[frame.index()] = Entry { page, is_resident: true, ..VACANT };
        self.resident += 1;
        let entries = &self.entries;
        if let Some(index) = &mut self.index {
            index.insert(page.0, frame.0, |slot| entries[slot as usize].page.0);
        }
    }

    /// The page in `frame` leaves the tenant and its queue. Does nothing if there is none.
    pub fn leave(&mut self, frame: FrameId) {
        if !self.has(frame) {
            return;
        }
        self.unlink(frame.0);
        let entries = &self.entries;
        if let Some(index) = &mut self.index {
            index.remove(entries[frame.index()].page.0, |slot| entries[slot as usize].page.0);
        }
        self.entries[frame.index()] = VACANT;
        self.resident -= 1;
    }

    /// Whether a page that the program knows is in `frame`.
    pub fn has(&self, frame: FrameId) -> bool {
        self.entries.get(frame.index()).is_some_and(|entry| entry.is_resident)
    }

    /// Number of pages.
    pub fn resident(&self) -> u32 {
        self.resident
    }

    // ---- what instructions do, to frames with a page

    pub fn page(&self, frame: u32) -> PageId {
        self.entries[frame as usize].page
    }

    pub fn meta(&self, frame: u32) -> i64 {
        self.entries[frame as usize].meta
    }

    pub fn set_meta(&mut self, frame: u32, meta: i64) {
        self.entries[frame as usize].meta = meta;
    }

    pub fn is_referenced(&self, frame: u32) -> bool {
        self.entries[frame as usize].is_referenced
    }

    pub fn set_referenced(&mut self, frame: u32, is_referenced: bool) {
        self.entries[frame as usize].is_referenced = is_referenced;
    }

    pub fn may_be_ghost(&self, frame: u32) -> bool {
        self.entries[frame as usize].may_be_ghost
    }

    pub fn set_may_be_ghost(&mut self, frame: u32, may_be: bool) {
        self.entries[frame as usize].may_be_ghost = may_be;
    }

    /// The frame of `page`, or [`NIL`].
    pub fn find(&self, page: PageId) -> u32 {
        let found = self.index.as_ref().and_then(|index| index.find(page.0, |slot| self.page(slot).0));
        found.unwrap_or(NIL)
    }

    #[inline]
    pub fn len(&self, queue: u8) -> u32 {
        self.queue(queue).len()
    }

    #[inline]
    pub fn is_in(&self, frame: u32, queue: u8) -> bool {
        self.entries[frame as usize].queue == queue
    }

    /// Takes the page out of the queue that it is in, if any.
    pub fn unlink(&mut self, frame: u32) {
        let queue = std::mem::replace(&mut self.entries[frame as usize].queue, DETACHED);
        if queue != DETACHED {
            self.queues[usize::from(queue) % QUEUES_MAX].remove(&mut self.links, frame);
        }
    }

    #[inline]
    pub fn push_head(&mut self, queue: u8, frame: u32) {
        self.unlink(frame);
        self.entries[frame as usize].queue = queue;
        self.queues[usize::from(queue) % QUEUES_MAX].push_head(&mut self.links, frame);
    }

    #[inline]
    pub fn push_tail(&mut self, queue: u8, frame: u32) {
        let was_in = std::mem::replace(&mut self.entries[frame as usize].queue, queue);
        if was_in == queue {
            return self.queues[usize::from(queue) % QUEUES_MAX].move_to_tail(&mut self.links, frame);
        }
        if was_in != DETACHED {
            self.queues[usize::from(was_in) % QUEUES_MAX].remove(&mut self.links, frame);
        }
        self.queues[usize::from(queue) % QUEUES_MAX].push_tail(&mut self.links, frame);
    }

    /// The frame at the head, or [`NIL`].
    #[inline]
    pub fn head(&self, queue: u8) -> u32 {
        self.queue(queue).head()
    }

    /// The frame at the tail, or [`NIL`].
    #[inline]
    pub fn tail(&self, queue: u8) -> u32 {
        self.queue(queue).tail()
    }

    /// Numbers of queues are below [`QUEUES_MAX`]. The remainder shows that to the compiler, which spares a
    /// bounds check.
    #[inline]
    fn queue(&self, queue: u8) -> &List {
        &self.queues[usize::from(queue) % QUEUES_MAX]
    }

    /// The frame towards the tail; [`NIL`] at the end, and of a page in no queue.
    pub fn next(&self, frame: u32) -> u32 {
        if self.is_in(frame, DETACHED) { NIL } else { self.links.next(frame) }
    }

    /// The frame towards the head; [`NIL`] at the end, and of a page in no queue.
    pub fn prev(&self, frame: u32) -> u32 {
        if self.is_in(frame, DETACHED) { NIL } else { self.links.prev(frame) }
    }

    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry>()
            + self.links.memory_bytes()
            + self.index.as_ref().map_or(0, SlotIndex::memory_bytes)
    }

    /// Panics if queues, pages and index contradict each other. For tests.
    pub fn check_invariants(&self) {
        let mut queued = 0;
        for (number, queue) in self.queues.iter().enumerate() {
            queue.check_invariants(&self.links);
            for frame in queue.iter(&self.links) {
                let entry = &self.entries[frame as usize];
                assert!(entry.is_resident, "frame {frame} of queue {number} has no page");
                assert_eq!(usize::from(entry.queue), number, "the queue of frame {frame}");
            }
            queued += queue.len() as usize;
        }
        let marked = self.entries.iter().filter(|entry| entry.queue != DETACHED).count();
        assert_eq!(queued, marked, "pages in queues");
        let resident = self.entries.iter().filter(|entry| entry.is_resident).count();
        assert_eq!(resident, self.resident as usize, "resident pages");
        if let Some(index) = &self.index {
            index.check_invariants(|slot| self.page(slot).0);
            assert_eq!(index.len(), resident, "pages that can be found");
        }
    }
}
