//! Policies with a hand and one bit a page.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};

use super::{Busy, nothing_to_report, take};

/// CLOCK. The hand is at the front; passing a page sends it to the back.
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

/// SIEVE. The hand is an index, at the end when it is about to start again.
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

    /// A hand at the end starts again at the front, and does not wait for the page that comes in.
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
