//! The two queues of FIFO2, with a reference bit for each frame. The policy and the allocation of that name
//! both decide by them.

use crate::list::{Links, List, NIL, lengthen};

/// Where a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    /// Came in lately: its references are not looked at.
    Active,
    /// Goes next, unless it is referenced first.
    Inactive,
}

/// An active and an inactive queue, each with the next frame to go at its head. 10 bytes a frame.
///
/// Invariants: a frame is in the queue that its mark says; one without a mark is in none and unreferenced.
pub(crate) struct Fifo2Queues {
    links: Links,
    lists: [List; 2],
    /// Per frame: where it is.
    marks: Vec<Option<Queue>>,
    /// Per frame: referenced since it came in, or since its bit was cleared.
    referenced: Vec<bool>,
}

impl Fifo2Queues {
    /// Empty queues with room for `capacity` frames.
    pub fn with_capacity(capacity: u32) -> Self {
        Self {
            links: Links::with_capacity(capacity),
            lists: [const { List::new() }; 2],
            marks: Vec::with_capacity(capacity as usize),
            referenced: Vec::with_capacity(capacity as usize),
        }
    }

    /// Makes frames below `frames` usable. Allocates only if `frames` is larger than ever before.
    pub fn lengthen_to(&mut self, frames: u32) {
        let frames = frames as usize;
        // Each table uses what room it has, so they may differ in length.
        let usable = self.links.len().min(self.marks.len()).min(self.referenced.len());
        if frames > usable {
            self.links.lengthen_to(frames);
            lengthen(&mut self.marks, frames, None);
            lengthen(&mut self.referenced, frames, false);
        }
    }

    /// Whether the frame is in a queue.
    pub fn has(&self, frame: u32) -> bool {
        self.mark(frame).is_some()
    }

    /// Puts a usable frame that is in no queue at the tail of the active one, unreferenced.
    pub fn insert(&mut self, frame: u32) {
        self.push_tail(Queue::Active, frame);
    }

    /// Takes a frame out of its queue, if it is in one.
    pub fn remove(&mut self, frame: u32) {
        if let Some(queue) = self.mark(frame) {
            self.lists[queue as usize].remove(&mut self.links, frame);
            self.marks[frame as usize] = None;
            self.referenced[frame as usize] = false;
        }
    }

    /// The page in the frame was used. Does nothing if the frame is in no queue.
    pub fn reference(&mut self, frame: u32) {
        if self.has(frame) {
            self.referenced[frame as usize] = true;
        }
    }

    /// Makes the frame the first of the inactive queue, unreferenced. Does nothing if it is in no queue.
    pub fn move_to_head(&mut self, frame: u32) {
        if self.has(frame) {
            self.remove(frame);
            self.lists[Queue::Inactive as usize].push_head(&mut self.links, frame);
            self.marks[frame as usize] = Some(Queue::Inactive);
        }
    }

    /// The first frame to give up of those that `may_go`, or [`NIL`]. `behind` is [`NIL`] in the first call
    /// of a question. In a further call it is the answer of the last one, which then is passed over.
    ///
    /// Before the first answer the inactive queue is refilled. From its head on, a referenced frame gets a
    /// second chance: its bit is cleared, and it goes to the tail. The first unreferenced one is the answer.
    /// If there is none, it is the first of the active queue, as it is. Frames that may not go keep their
    /// places and bits.
    ///
    /// Costs a step for each frame passed. Nothing is referenced during a question, so no frame gets more
    /// than one chance. That keeps the published limit, twice as many chances as the inactive queue has
    /// frames, without a count.
    pub fn next_to_go(&mut self, behind: u32, may_go: impl Fn(u32) -> bool) -> u32 {
        let queue = if behind == NIL { Some(Queue::Inactive) } else { self.mark(behind) };
        if behind == NIL {
            self.refill();
        }
        if queue == Some(Queue::Inactive) {
            let at = self.after(Queue::Inactive, behind);
            let found = self.give_chances(at, &may_go);
            if found != NIL {
                return found;
            }
        }
        let mut at = self.after(Queue::Active, if queue == Some(Queue::Active) { behind } else { NIL });
        while at != NIL && !may_go(at) {
            at = self.links.next(at);
        }
        at
    }

    /// The first unreferenced frame that may go, from `at` towards the inactive queue's tail, or [`NIL`].
    fn give_chances(&mut self, mut at: u32, may_go: impl Fn(u32) -> bool) -> u32 {
        while at != NIL {
            let mut next = self.links.next(at);
            if may_go(at) {
                if !self.referenced[at as usize] {
                    return at;
                }
                self.referenced[at as usize] = false;
                self.lists[Queue::Inactive as usize].move_to_tail(&mut self.links, at);
                // A frame that already was the tail is looked at again, without its bit.
                next = if next == NIL { at } else { next };
            }
            at = next;
        }
        NIL
    }

    /// Moves the active queue's head to the inactive queue's tail, unreferenced, until two thirds of all
    /// frames, rounded up, are inactive.
    fn refill(&mut self) {
        let [active, inactive] = self.lists.map(|list| u64::from(list.len()));
        let wanted = (2 * (active + inactive)).div_ceil(3);
        for _ in inactive..wanted {
            let frame = self.lists[Queue::Active as usize].head();
            self.remove(frame);
            self.push_tail(Queue::Inactive, frame);
        }
    }

    /// Two different frames exchange places; one of them may be in no queue. A bit stays with its frame.
    pub fn exchange_places(&mut self, a: u32, b: u32) {
        let links = &mut self.links;
        match (self.marks[a as usize], self.marks[b as usize]) {
            (None, None) => {}
            (Some(queue), None) => self.lists[queue as usize].replace(links, a, b),
            (None, Some(queue)) => self.lists[queue as usize].replace(links, b, a),
            (Some(of_a), Some(of_b)) if of_a == of_b => self.lists[of_a as usize].swap(links, a, b),
            (Some(of_a), Some(of_b)) => {
                let (after_a, after_b) = (links.next(a), links.next(b));
                self.lists[of_a as usize].remove(links, a);
                self.lists[of_b as usize].remove(links, b);
                self.lists[of_a as usize].insert_before(links, after_a, b);
                self.lists[of_b as usize].insert_before(links, after_b, a);
            }
        }
        self.marks.swap(a as usize, b as usize);
    }

    fn mark(&self, frame: u32) -> Option<Queue> {
        self.marks.get(frame as usize).copied().flatten()
    }

    fn push_tail(&mut self, queue: Queue, frame: u32) {
        self.lists[queue as usize].push_tail(&mut self.links, frame);
        self.marks[frame as usize] = Some(queue);
    }

    /// The frame behind `behind` in its queue, or the first of `queue`.
    fn after(&self, queue: Queue, behind: u32) -> u32 {
        if behind == NIL { self.lists[queue as usize].head() } else { self.links.next(behind) }
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.marks.capacity() * size_of::<Option<Queue>>()
            + self.referenced.capacity()
    }

    /// Panics unless lists, marks and bits agree.
    pub fn check_invariants(&self) {
        for queue in [Queue::Active, Queue::Inactive] {
            let list = &self.lists[queue as usize];
            list.check_invariants(&self.links);
            let marked = list.iter(&self.links).all(|frame| self.mark(frame) == Some(queue));
            assert!(marked, "a frame is in another queue than its mark says");
        }
        let marked = self.marks.iter().flatten().count();
        let listed: usize = self.lists.iter().map(|list| list.len() as usize).sum();
        assert_eq!(marked, listed, "a frame has a mark and is in no queue");
        let stray = self.marks.iter().zip(&self.referenced).any(|(mark, bit)| mark.is_none() && *bit);
        assert!(!stray, "a frame in no queue is referenced");
    }
}
