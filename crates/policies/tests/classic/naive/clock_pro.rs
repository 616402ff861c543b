//! CLOCK-Pro. The ring is a vector that begins at the hot hand. Pages come in at its end.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};

use super::{Busy, nothing_to_report, percent, take};

#[derive(Clone, Copy, PartialEq)]
struct Entry {
    page: PageId,
    /// `None` for a ghost.
    frame: Option<FrameId>,
    hot: bool,
    test: bool,
    referenced: bool,
}

#[derive(Default)]
pub struct ClockPro {
    capacity: u32,
    cold_target: usize,
    ring: Vec<Entry>,
    /// The page that the test hand points to.
    hand_test: Option<PageId>,
    cold: Vec<FrameId>,
    has_evicted: bool,
}

impl ClockPro {
    pub fn new(capacity: u32) -> Self {
        Self { capacity, cold_target: percent(1, capacity), ..Self::default() }
    }

    fn cold_min(&self) -> usize {
        percent(1, self.capacity).max(1)
    }

    fn hot_target(&self) -> usize {
        (self.capacity as usize).saturating_sub(self.cold_target.max(self.cold_min()))
    }

    fn hot_count(&self) -> usize {
        self.ring.iter().filter(|entry| entry.hot).count()
    }

    fn ghosts(&self) -> usize {
        self.ring.iter().filter(|entry| entry.frame.is_none()).count()
    }

    fn entry(&mut self, frame: FrameId) -> &mut Entry {
        self.ring.iter_mut().find(|entry| entry.frame == Some(frame)).unwrap()
    }

    fn adapt(&mut self, succeeded: bool) {
        let capacity = self.capacity as usize;
        self.cold_target = if succeeded {
            (self.cold_target.max(self.cold_min()) + 1).min(capacity)
        } else {
            self.cold_target.min(capacity).saturating_sub(1).max(self.cold_min())
        };
    }

    fn enter(&mut self, entry: Entry) {
        self.ring.push(entry);
        self.hand_test.get_or_insert(entry.page);
    }

    /// The page after `page` on the ring.
    fn after(&self, page: PageId) -> PageId {
        let at = self.ring.iter().position(|entry| entry.page == page).unwrap();
        self.ring[(at + 1) % self.ring.len()].page
    }

    fn leave(&mut self, page: PageId) -> Option<Entry> {
        if self.hand_test == Some(page) {
            self.hand_test = Some(self.after(page)).filter(|&next| next != page);
        }
        take(&mut self.ring, |entry| entry.page == page)
    }

    fn cool(&mut self) {
        while self.hot_count() > self.hot_target() {
            self.ring.rotate_left(1);
            let passed = self.ring.last_mut().unwrap();
            if !passed.hot {
                let page = passed.page;
                self.end_test(page);
            } else if passed.referenced {
                passed.referenced = false;
            } else {
                passed.hot = false;
                self.cold.push(passed.frame.unwrap());
            }
        }
    }

    fn end_test(&mut self, page: PageId) {
        let entry = self.ring.iter_mut().find(|entry| entry.page == page).unwrap();
        if entry.test {
            entry.test = false;
            if entry.frame.is_none() {
                self.leave(page);
            }
            self.adapt(false);
        }
    }

    fn forget_ghosts(&mut self) {
        while self.ghosts() > self.capacity as usize {
            let page = self.hand_test.unwrap();
            self.hand_test = Some(self.after(page));
            self.end_test(page);
        }
    }

    fn victim_in_cold(&mut self, busy: Busy<'_>) -> Option<FrameId> {
        let mut at = 0;
        while at < self.cold.len() {
            let frame = self.cold[at];
            let entry = *self.entry(frame);
            if busy(frame) {
                at += 1;
                continue;
            }
            if !entry.referenced {
                return Some(frame);
            }
            let was_last = at + 1 == self.cold.len();
            self.cold.remove(at);
            self.leave(entry.page);
            self.enter(Entry { test: !entry.test, hot: entry.test, referenced: false, ..entry });
            if entry.test {
                self.adapt(true);
                self.cool();
            } else {
                self.cold.push(frame);
            }
            if was_last {
                break;
            }
        }
        None
    }
}

impl OneLevel for ClockPro {
    nothing_to_report!("naive CLOCK-Pro");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        if self.ring.is_empty() {
            self.cold_target = percent(1, capacity);
        }
        self.cool();
        self.forget_ghosts();
    }

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        self.entry(frame).referenced = true;
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        let on_test = self.leave(page).is_some();
        if on_test {
            self.adapt(true);
        }
        self.forget_ghosts();
        let hot = on_test || (!self.has_evicted && self.hot_count() < self.hot_target());
        self.enter(Entry { page, frame: Some(frame), hot, test: !hot, referenced: false });
        if !hot {
            self.cold.push(frame);
        }
        self.cool();
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let cold = self.victim_in_cold(busy).or_else(|| self.victim_in_cold(busy));
        let hot = self.ring.iter().filter(|entry| entry.hot).filter_map(|entry| entry.frame);
        cold.or_else(|| hot.into_iter().find(|&frame| !busy(frame)))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let evicted = why == Departure::Evicted;
        self.has_evicted |= evicted;
        take(&mut self.cold, |&f| f == frame);
        if evicted && self.entry(frame).test {
            self.forget_ghosts();
        }
        if evicted && self.entry(frame).test {
            *self.entry(frame) = Entry { page, frame: None, hot: false, test: true, referenced: false };
        } else {
            self.leave(page);
        }
    }
}
