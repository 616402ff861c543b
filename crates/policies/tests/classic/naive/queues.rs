//! Policies of FIFO queues and ghosts.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel, S3FifoParameters},
};

use super::{Busy, keep_newest, nothing_to_report, percent, take};

/// 2Q, with Kin and Kout in percent of the capacity.
pub struct TwoQueue {
    capacity: u32,
    kin_percent: u32,
    kout_percent: u32,
    a1in: Vec<FrameId>,
    am: Vec<FrameId>,
    a1out: Vec<PageId>,
}

impl TwoQueue {
    pub fn new(capacity: u32, kin_percent: u32, kout_percent: u32) -> Self {
        Self { capacity, kin_percent, kout_percent, a1in: Vec::new(), am: Vec::new(), a1out: Vec::new() }
    }

    fn kout(&self) -> usize {
        percent(self.kout_percent, self.capacity)
    }
}

impl OneLevel for TwoQueue {
    nothing_to_report!("naive 2Q");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        let kout = self.kout();
        keep_newest(&mut self.a1out, kout);
    }

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        if take(&mut self.am, |&f| f == frame).is_some() {
            self.am.push(frame);
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        match take(&mut self.a1out, |&p| p == page) {
            Some(_) => self.am.push(frame),
            None => self.a1in.push(frame),
        }
        let kout = self.kout();
        keep_newest(&mut self.a1out, kout);
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let order = if self.a1in.len() > percent(self.kin_percent, self.capacity) {
            [&self.a1in[..], &self.am].concat()
        } else {
            [&self.am[..], &self.a1in].concat()
        };
        order.into_iter().find(|&frame| !busy(frame))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        take(&mut self.am, |&f| f == frame);
        let was_new = take(&mut self.a1in, |&f| f == frame).is_some();
        if was_new && why == Departure::Evicted {
            let kout = self.kout();
            keep_newest(&mut self.a1out, kout);
            self.a1out.push(page);
        }
    }
}

/// S3-FIFO.
pub struct S3Fifo {
    capacity: u32,
    parameters: S3FifoParameters,
    small: Vec<(FrameId, u8)>,
    main: Vec<(FrameId, u8)>,
    ghosts: Vec<PageId>,
    has_evicted: bool,
}

impl S3Fifo {
    pub fn new(capacity: u32, parameters: S3FifoParameters) -> Self {
        let (small, main, ghosts) = (Vec::new(), Vec::new(), Vec::new());
        Self { capacity, parameters, small, main, ghosts, has_evicted: false }
    }

    fn small_target(&self) -> usize {
        percent(self.parameters.small_percent, self.capacity).max(1)
    }

    fn ghosts_max(&self) -> usize {
        percent(self.parameters.ghost_percent, self.capacity)
    }

    fn victim_in_small(&mut self, busy: Busy<'_>) -> Option<FrameId> {
        for (frame, references) in self.small.clone() {
            if references >= self.parameters.move_references {
                take(&mut self.small, |&(f, _)| f == frame);
                self.main.push((frame, 0));
            } else if !busy(frame) {
                return Some(frame);
            }
        }
        None
    }

    /// Each round visits the main queue as it is at the start of the round. After three rounds no page has a
    /// reference left, so four are enough.
    fn victim_in_main(&mut self, busy: Busy<'_>) -> Option<FrameId> {
        for _ in 0..4 {
            for (frame, references) in self.main.clone() {
                if busy(frame) {
                    continue;
                }
                if references == 0 {
                    return Some(frame);
                }
                take(&mut self.main, |&(f, _)| f == frame);
                self.main.push((frame, references - 1));
            }
        }
        None
    }
}

impl OneLevel for S3Fifo {
    nothing_to_report!("naive S3-FIFO");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        let max = self.ghosts_max();
        keep_newest(&mut self.ghosts, max);
    }

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        for (f, references) in self.small.iter_mut().chain(&mut self.main) {
            if *f == frame {
                *references = (*references + 1).min(3);
            }
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        let remembered = take(&mut self.ghosts, |&p| p == page).is_some();
        let max = self.ghosts_max();
        keep_newest(&mut self.ghosts, max);
        let filling = self.parameters.fill_main_first && !self.has_evicted;
        if remembered || (filling && self.small.len() >= self.small_target()) {
            self.main.push((frame, 0));
        } else {
            self.small.push((frame, 0));
        }
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        if self.main.len() + self.small_target() <= (self.capacity as usize).max(self.small_target()) {
            let victim = self.victim_in_small(busy);
            if victim.is_some() {
                return victim;
            }
        }
        let victim = self.victim_in_main(busy).or_else(|| self.victim_in_small(busy));
        victim.or_else(|| self.victim_in_main(busy))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        self.has_evicted |= why == Departure::Evicted;
        take(&mut self.main, |&(f, _)| f == frame);
        let was_small = take(&mut self.small, |&(f, _)| f == frame).is_some();
        if was_small && why == Departure::Evicted {
            let max = self.ghosts_max();
            keep_newest(&mut self.ghosts, max);
            self.ghosts.push(page);
        }
    }
}
