//! ARC, case by case as in the paper's figure.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel},
};

use super::{Busy, nothing_to_report, take};

#[derive(Default)]
pub struct Arc {
    c: usize,
    p: f64,
    t1: Vec<FrameId>,
    t2: Vec<FrameId>,
    b1: Vec<PageId>,
    b2: Vec<PageId>,
    /// The page for which a victim was asked for last, and the lengths of B1 and B2 then.
    seen: Option<(PageId, f64, f64)>,
}

impl Arc {
    pub fn new(c: u32) -> Self {
        Self { c: c as usize, ..Self::default() }
    }

    fn adapted(&self, page: PageId, b1: f64, b2: f64) -> f64 {
        if self.b1.contains(&page) {
            (self.p + if b1 >= b2 { 1.0 } else { b2 / b1 }).min(self.c as f64)
        } else if self.b2.contains(&page) {
            (self.p - if b2 >= b1 { 1.0 } else { b1 / b2 }).max(0.0)
        } else {
            self.p
        }
    }

    fn forget_ghosts(&mut self) {
        while !self.b1.is_empty() && self.t1.len() + self.b1.len() > self.c {
            self.b1.remove(0);
        }
        while self.b1.len() + self.b2.len() > 0
            && self.t1.len() + self.t2.len() + self.b1.len() + self.b2.len() > 2 * self.c
        {
            let ghosts = if self.b2.is_empty() { &mut self.b1 } else { &mut self.b2 };
            ghosts.remove(0);
        }
    }
}

impl OneLevel for Arc {
    nothing_to_report!("naive ARC");

    fn resize(&mut self, capacity: u32) {
        self.c = capacity as usize;
        self.p = self.p.min(self.c as f64);
        self.seen = None;
        self.forget_ghosts();
    }

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        take(&mut self.t1, |&f| f == frame);
        take(&mut self.t2, |&f| f == frame);
        self.t2.push(frame);
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        let (b1, b2) = match self.seen.take() {
            Some((missing, b1, b2)) if missing == page => (b1, b2),
            _ => (self.b1.len() as f64, self.b2.len() as f64),
        };
        self.p = self.adapted(page, b1, b2);
        let in_b1 = take(&mut self.b1, |&p| p == page).is_some();
        let in_b2 = take(&mut self.b2, |&p| p == page).is_some();
        let list = if in_b1 || in_b2 { &mut self.t2 } else { &mut self.t1 };
        list.push(frame);
        self.forget_ghosts();
    }

    fn victim(&mut self, missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let (b1, b2) = (self.b1.len() as f64, self.b2.len() as f64);
        self.seen = Some((missing, b1, b2));
        let p = self.adapted(missing, b1, b2);
        let t1 = self.t1.len() as f64;
        let order = if t1 > p || (self.b2.contains(&missing) && t1 == p) {
            [&self.t1[..], &self.t2].concat()
        } else {
            [&self.t2[..], &self.t1].concat()
        };
        order.into_iter().find(|&frame| !busy(frame))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let was_in_t1 = take(&mut self.t1, |&f| f == frame).is_some();
        take(&mut self.t2, |&f| f == frame);
        if why == Departure::Evicted {
            let ghosts = if was_in_t1 { &mut self.b1 } else { &mut self.b2 };
            ghosts.push(page);
        }
        self.forget_ghosts();
    }
}
