//! Policies with one bit for each page: CLOCK, SIEVE and FIFO2.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};

use super::{Busy, nothing_to_report, take};

/// CLOCK. The hand is at the front. A page that the hand passes goes to the back.
#[derive(Default)]
pub struct Clock {
    ring: Vec<(FrameId, bool)>,
}

impl OneLevel for Clock {
    nothing_to_report!("naive CLOCK");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.ring.iter_mut().filter(|(f, _)| *f == frame).for_each(|(_, referenced)| *referenced = true);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.ring.push((frame, false));
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        for _ in 0..2 * self.ring.len() {
            let (frame, referenced) = &mut self.ring[0];
            if !busy(*frame) {
                if !*referenced {
                    return Some(*frame);
                }
                *referenced = false;
            }
            self.ring.rotate_left(1);
        }
        None
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        take(&mut self.ring, |&(f, _)| f == frame);
    }
}

/// SIEVE. The hand is an index; the queue's length means that it starts again at the front.
#[derive(Default)]
pub struct Sieve {
    queue: Vec<(FrameId, bool)>,
    hand: usize,
}

impl OneLevel for Sieve {
    nothing_to_report!("naive SIEVE");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.queue.iter_mut().filter(|(f, _)| *f == frame).for_each(|(_, visited)| *visited = true);
    }

    /// A hand at the end starts again at the front, and does not come to the page that comes in.
    fn insert(&mut self, frame: FrameId, _page: PageId) {
        if self.hand == self.queue.len() {
            self.hand = 0;
        }
        self.queue.push((frame, false));
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        for _ in 0..2 * self.queue.len() {
            self.hand %= self.queue.len();
            let (frame, visited) = &mut self.queue[self.hand];
            if !busy(*frame) {
                if !*visited {
                    return Some(*frame);
                }
                *visited = false;
            }
            self.hand += 1;
        }
        None
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        let at = self.queue.iter().position(|(f, _)| *f == frame).unwrap();
        self.queue.remove(at);
        if at < self.hand {
            self.hand -= 1;
        }
    }
}

/// FIFO2. Both queues have their heads in front. Each page has its bit.
#[derive(Default)]
pub struct Fifo2 {
    active: Vec<(FrameId, bool)>,
    inactive: Vec<(FrameId, bool)>,
}

impl OneLevel for Fifo2 {
    nothing_to_report!("naive FIFO2");

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        let pages = self.active.iter_mut().chain(&mut self.inactive);
        pages.filter(|(f, _)| *f == frame).for_each(|(_, referenced)| *referenced = true);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.active.push((frame, false));
    }

    /// A busy page is passed over once its bit is clear. The loop has the published bound.
    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        while 3 * self.inactive.len() < 2 * (self.active.len() + self.inactive.len()) {
            let (frame, _) = self.active.remove(0);
            self.inactive.push((frame, false));
        }
        let (mut chances, mut passed) = (0, 0);
        while passed < self.inactive.len() {
            let (frame, referenced) = self.inactive[passed];
            if referenced && chances < 2 * self.inactive.len() {
                self.inactive.remove(passed);
                self.inactive.push((frame, false));
                chances += 1;
            } else if busy(frame) {
                passed += 1;
            } else {
                return Some(frame);
            }
        }
        self.active.iter().map(|&(frame, _)| frame).find(|frame| !busy(*frame))
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        take(&mut self.active, |&(f, _)| f == frame);
        take(&mut self.inactive, |&(f, _)| f == frame);
    }
}
