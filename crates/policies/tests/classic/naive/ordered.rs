//! Policies that give every frame a rank and evict the lowest.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};

use super::{Busy, nothing_to_report, take};

/// LRU, MRU and FIFO: an order of frames by last reference or by arrival, of which either end is evicted.
pub struct Ordered {
    frames: Vec<FrameId>,
    references_count: bool,
    takes_newest: bool,
}

impl Ordered {
    pub fn lru() -> Self {
        Self { frames: Vec::new(), references_count: true, takes_newest: false }
    }

    pub fn mru() -> Self {
        Self { frames: Vec::new(), references_count: true, takes_newest: true }
    }

    pub fn fifo() -> Self {
        Self { frames: Vec::new(), references_count: false, takes_newest: false }
    }
}

impl OneLevel for Ordered {
    nothing_to_report!("naive order");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        if self.references_count {
            take(&mut self.frames, |&f| f == frame);
            self.frames.push(frame);
        }
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.frames.push(frame);
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let mut order = self.frames.clone();
        if self.takes_newest {
            order.reverse();
        }
        order.into_iter().find(|&frame| !busy(frame))
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        take(&mut self.frames, |&f| f == frame);
    }
}

/// LFU: evicts the frame with the fewest references, among equals that whose last reference is longest ago.
#[derive(Default)]
pub struct Lfu {
    now: u64,
    /// Each frame, its number of references, and the time of the last one.
    frames: Vec<(FrameId, u64, u64)>,
}

impl OneLevel for Lfu {
    nothing_to_report!("naive LFU");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.now += 1;
        for (f, references, last) in &mut self.frames {
            if *f == frame {
                (*references, *last) = (*references + 1, self.now);
            }
        }
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.now += 1;
        self.frames.push((frame, 1, self.now));
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let usable = self.frames.iter().filter(|(frame, ..)| !busy(*frame));
        usable.min_by_key(|(_, references, last)| (*references, *last)).map(|&(frame, ..)| frame)
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        take(&mut self.frames, |&(f, ..)| f == frame);
    }
}

/// OPT: evicts the frame with the farthest next use.
pub struct Opt {
    next_uses: Box<dyn Iterator<Item = u64> + Send>,
    frames: Vec<(FrameId, u64)>,
}

impl Opt {
    pub fn new(next_uses: Box<dyn Iterator<Item = u64> + Send>) -> Self {
        Self { next_uses, frames: Vec::new() }
    }
}

impl OneLevel for Opt {
    nothing_to_report!("naive OPT");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, page: PageId) {
        self.remove(frame, page, Departure::Moved);
        self.insert(frame, page);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.frames.push((frame, self.next_uses.next().unwrap()));
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let usable = self.frames.iter().filter(|(frame, _)| !busy(*frame));
        usable.max_by_key(|(_, next_use)| *next_use).map(|&(frame, _)| frame)
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        take(&mut self.frames, |&(f, _)| f == frame);
    }
}
