//! W-TinyLFU with exact counts, by the rules of the paper and of libCacheSim.

use std::collections::HashMap;

use bufpool_policies::{
    FrameId, PageId,
    classic::{Departure, OneLevel, WTinyLfuParameters},
};

use super::{Busy, nothing_to_report, percent, take};

type Frames = Vec<(FrameId, PageId)>;

pub struct WTinyLfu {
    capacity: u32,
    parameters: WTinyLfuParameters,
    window: Frames,
    probation: Frames,
    protected: Frames,
    counts: HashMap<PageId, u32>,
    references: u32,
}

impl WTinyLfu {
    pub fn new(capacity: u32, parameters: WTinyLfuParameters) -> Self {
        let (window, probation, protected) = (Vec::new(), Vec::new(), Vec::new());
        Self { capacity, parameters, window, probation, protected, counts: HashMap::new(), references: 0 }
    }

    fn window_target(&self) -> usize {
        percent(self.parameters.window_percent, self.capacity).max(1)
    }

    fn count(&mut self, page: PageId) {
        let count = self.counts.entry(page).or_default();
        *count = (*count + 1).min(15);
        self.references += 1;
        if self.references >= self.capacity.max(1) * self.parameters.sample_factor {
            self.counts.values_mut().for_each(|count| *count /= 2);
            self.references /= 2;
        }
    }

    fn shrink(&mut self) {
        while self.window.len() > self.window_target() {
            self.probation.push(self.window.remove(0));
        }
        let main = self.capacity.saturating_sub(self.window_target() as u32);
        while self.protected.len() > percent(self.parameters.protected_percent, main) {
            self.probation.push(self.protected.remove(0));
        }
    }
}

impl OneLevel for WTinyLfu {
    nothing_to_report!("naive W-TinyLFU");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.shrink();
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        self.count(page);
        if take(&mut self.window, |&(f, _)| f == frame).is_some() {
            self.window.push((frame, page));
        } else {
            take(&mut self.probation, |&(f, _)| f == frame);
            take(&mut self.protected, |&(f, _)| f == frame);
            self.protected.push((frame, page));
        }
        self.shrink();
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.count(page);
        self.window.push((frame, page));
        self.shrink();
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        let candidate = self.window.iter().copied().find(|&(frame, _)| !busy(frame));
        let main = [&self.probation[..], &self.protected].concat();
        let resident = main.into_iter().find(|&(frame, _)| !busy(frame));
        let (Some((newcomer, new)), Some((incumbent, old))) = (candidate, resident) else {
            return candidate.or(resident).map(|(frame, _)| frame);
        };
        let wins = self.counts.get(&new) > self.counts.get(&old);
        let evict_main = wins || self.window.len() < self.window_target();
        Some(if evict_main { incumbent } else { newcomer })
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        for frames in [&mut self.window, &mut self.probation, &mut self.protected] {
            take(frames, |&(f, _)| f == frame);
        }
    }
}

/// W-TinyLFU by the rules of libCacheSim, as that program has them, except for the list of pages that were
/// given up.
pub struct LibCacheSimWTinyLfu {
    capacity: u32,
    window: Frames,
    probation: Frames,
    protected: Frames,
    given_up: Frames,
    counts: HashMap<PageId, u32>,
    main_hits: usize,
}

impl LibCacheSimWTinyLfu {
    pub fn new(capacity: u32) -> Self {
        Self {
            capacity,
            window: Vec::new(),
            probation: Vec::new(),
            protected: Vec::new(),
            given_up: Vec::new(),
            counts: HashMap::new(),
            main_hits: 0,
        }
    }

    fn main_target(&self) -> usize {
        (self.capacity as usize).saturating_sub(percent(1, self.capacity).max(1))
    }

    fn count(&mut self, page: PageId) {
        *self.counts.entry(page).or_default() += 1;
    }

    fn admit_oldest(&mut self) {
        let (frame, page) = self.window.remove(0);
        let (low, high) = (self.main_target() / 5, self.main_target() * 4 / 5);
        let segment = if self.probation.len() < low || self.protected.len() >= high {
            &mut self.probation
        } else {
            &mut self.protected
        };
        segment.push((frame, page));
        self.count(page);
    }

    fn cool(&mut self) {
        while self.protected.len() > self.main_target() * 4 / 5 {
            self.probation.push(self.protected.remove(0));
            while self.probation.len() > self.main_target() / 5 {
                self.given_up.push(self.probation.remove(0));
            }
        }
    }
}

impl OneLevel for LibCacheSimWTinyLfu {
    nothing_to_report!("naive W-TinyLFU of libCacheSim");

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.cool();
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        if take(&mut self.window, |&(f, _)| f == frame).is_some() {
            self.window.push((frame, page));
            return;
        }
        self.count(page);
        if take(&mut self.given_up, |&(f, _)| f == frame).is_some() {
            self.window.push((frame, page));
            return;
        }
        take(&mut self.probation, |&(f, _)| f == frame);
        take(&mut self.protected, |&(f, _)| f == frame);
        self.protected.push((frame, page));
        self.cool();
        self.main_hits += 1;
        if self.main_hits >= 32 * self.main_target() {
            self.main_hits = 0;
            self.counts.values_mut().for_each(|count| *count /= 2);
        }
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.count(page);
        self.window.push((frame, page));
    }

    fn victim(&mut self, _missing: PageId, busy: Busy<'_>) -> Option<FrameId> {
        if let Some(&(frame, _)) = self.given_up.iter().find(|&&(frame, _)| !busy(frame)) {
            return Some(frame);
        }
        while self.probation.len() + self.protected.len() < self.main_target() && !self.window.is_empty() {
            self.admit_oldest();
        }
        let newcomer = self.window.iter().copied().find(|&(frame, _)| !busy(frame));
        let main = [&self.probation[..], &self.protected].concat();
        let incumbent = main.into_iter().find(|&(frame, _)| !busy(frame));
        let wins = |new: PageId, old: PageId| self.counts.get(&new) > self.counts.get(&old);
        match (newcomer, incumbent) {
            (Some((_, new)), Some((frame, old))) if wins(new, old) => Some(frame),
            _ => newcomer.or(incumbent).map(|(frame, _)| frame),
        }
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let was_in = |frames: &mut Frames| take(frames, |&(f, _)| f == frame).is_some();
        let lost = was_in(&mut self.window);
        let won = was_in(&mut self.probation) || was_in(&mut self.protected);
        was_in(&mut self.given_up);
        if why == Departure::Evicted && lost {
            self.count(page);
        }
        if why == Departure::Evicted && won && !self.window.is_empty() {
            self.admit_oldest();
        }
    }
}
