//! LIRS with the paper's stack: LIR, resident HIR and evicted pages in order of last reference, pruned.

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, LirsParameters, OneLevel},
};

use super::{Busy, keep_newest, nothing_to_report, percent, take};

pub struct Lirs {
    capacity: u32,
    parameters: LirsParameters,
    /// The paper's S, bottom first.
    stack: Vec<PageId>,
    /// The paper's Q.
    queue: Vec<(FrameId, PageId)>,
    lir: Vec<(FrameId, PageId)>,
    /// The last evictions from the stack; `None` where the page has come back.
    evicted: Vec<Option<PageId>>,
    last: Option<PageId>,
}

impl Lirs {
    pub fn new(capacity: u32, parameters: LirsParameters) -> Self {
        let (stack, queue, lir, evicted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { capacity, parameters, stack, queue, lir, evicted, last: None }
    }

    fn lir_target(&self) -> usize {
        let capacity = self.capacity as usize;
        let hir = percent(self.parameters.hir_percent, self.capacity);
        let hir = hir.max(self.parameters.hir_frames_min as usize);
        if capacity == 0 { 0 } else { capacity.saturating_sub(hir).max(1) }
    }

    fn history(&self) -> usize {
        percent(self.parameters.history_percent, self.capacity)
    }

    fn keep_history(&mut self) {
        let max = self.history();
        let forgotten = self.evicted.len().saturating_sub(max);
        for page in self.evicted[..forgotten].iter().flatten() {
            take(&mut self.stack, |p| p == page);
        }
        keep_newest(&mut self.evicted, max);
    }

    fn prune(&mut self) {
        let is_lir = |page: &PageId| self.lir.iter().any(|(_, p)| p == page);
        let below = self.stack.iter().position(is_lir).unwrap_or(self.stack.len());
        self.stack.drain(..below);
    }

    fn reference(&mut self, frame: FrameId, page: PageId, lir: bool) {
        take(&mut self.stack, |&p| p == page);
        self.stack.push(page);
        let list = if lir { &mut self.lir } else { &mut self.queue };
        list.push((frame, page));
        self.last = Some(page);
        self.demote();
    }

    fn demote(&mut self) {
        self.prune();
        while self.lir.len() > self.lir_target() {
            let bottom = self.stack[0];
            let demoted = take(&mut self.lir, |&(_, p)| p == bottom).unwrap();
            self.queue.push(demoted);
            self.prune();
        }
    }
}

impl OneLevel for Lirs {
    nothing_to_report!("naive LIRS");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.demote();
        self.keep_history();
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        if self.parameters.skip_repeats && self.last == Some(page) {
            return;
        }
        let was_lir = take(&mut self.lir, |&(f, _)| f == frame).is_some();
        take(&mut self.queue, |&(f, _)| f == frame);
        let lir = was_lir || self.stack.contains(&page);
        self.reference(frame, page, lir);
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        let returns_soon = self.stack.contains(&page);
        for eviction in &mut self.evicted {
            if *eviction == Some(page) {
                *eviction = None;
            }
        }
        self.keep_history();
        let lir = returns_soon || self.lir.len() < self.lir_target();
        self.reference(frame, page, lir);
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let on_stack = |page: &PageId| self.lir.iter().find(|(_, p)| p == page);
        let lir = self.stack.iter().filter_map(on_stack);
        self.queue.iter().chain(lir).map(|&(frame, _)| frame).find(|&frame| !busy(frame))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        take(&mut self.lir, |&(f, _)| f == frame);
        take(&mut self.queue, |&(f, _)| f == frame);
        if self.last == Some(page) {
            self.last = None;
        }
        if why == Departure::Moved {
            take(&mut self.stack, |&p| p == page);
        }
        self.prune();
        if self.stack.contains(&page) {
            self.keep_history();
            self.evicted.push(Some(page));
        }
    }
}
