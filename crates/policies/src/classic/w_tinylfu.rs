//! W-TinyLFU: a page gets into the main part only if it was referenced more often than the page it would
//! replace.
//!
//! **Idea.** New pages pass through a small LRU window. The one that leaves it is compared with the victim of
//! the main part, a segmented LRU, by how often they were referenced lately, resident or not; the loser goes.
//!
//! **Paper.** G. Einziger, R. Friedman, B. Manes: "TinyLFU: a highly efficient cache admission policy", ACM
//! Transactions on Storage 13(4), 2017, with its window of 1 %, 80 % of the main part protected, and a sample
//! of ten references a frame.
//!
//! **Departures.** No door-keeper before the counters, as they need only 8 to 16 bytes a frame. When frames
//! are busy, the first frame of the window that is not busy is compared with the first such frame of the
//! main part.
//!
//! **Compared.** libCacheSim 0.3.5 has other rules under this name, so most miss ratios differ by more than
//! 0.005, in both directions. [`LibCacheSimWTinyLfu`](super::LibCacheSimWTinyLfu) has its rules, lists them,
//! and is within 0.005 of it on all 133 rows. They are not the default here because they are not the paper's:
//! the paper counts every reference, bounds the counters, increments only the least of a page's, and ages by
//! references.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access, and O(n) once in five n accesses, when counts are halved. 17 bytes a frame and
//! 8 to 16 for the counters: 25 to 33.

use super::policy::{Departure, OneLevel, first_free, percent_of};
use super::segments::{Segment, Segments};
use crate::sketch::Sketch;
use crate::{FrameId, PageId};

/// Window TinyLFU. See the file's head.
///
/// Invariants: (1) the window holds at most `window_target` frames; (2) the protected segment holds at most
/// `protected_target`.
pub struct WTinyLfu {
    capacity: u32,
    parameters: WTinyLfuParameters,
    sketch: Sketch,
    segments: Segments,
}

/// The tuning of [`WTinyLfu`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WTinyLfuParameters {
    /// Frames of the window, in percent of the capacity. 0 to 100; at least one frame.
    pub window_percent: u32,
    /// Frames of the protected segment, in percent of those outside the window. 0 to 100.
    pub protected_percent: u32,
    /// References for each frame of the capacity after which all counts are halved the first time; after
    /// that they are halved after half as many. At least 1.
    pub sample_factor: u32,
}

impl Default for WTinyLfuParameters {
    fn default() -> Self {
        Self { window_percent: 1, protected_percent: 80, sample_factor: 10 }
    }
}

impl WTinyLfu {
    /// An empty instance with the paper's parameters.
    pub fn new(capacity: u32) -> Self {
        Self::with_parameters(capacity, WTinyLfuParameters::default())
    }

    /// An empty instance.
    pub fn with_parameters(capacity: u32, parameters: WTinyLfuParameters) -> Self {
        Self {
            capacity,
            parameters,
            sketch: Sketch::new(capacity, sample(capacity, parameters)),
            segments: Segments::with_capacity(capacity),
        }
    }

    fn window_target(&self) -> u32 {
        percent_of(self.parameters.window_percent, self.capacity).max(1)
    }

    fn protected_target(&self) -> u32 {
        let main = self.capacity.saturating_sub(self.window_target());
        percent_of(self.parameters.protected_percent, main)
    }

    /// Moves the coldest frames of a segment that is above its target to probation.
    fn shrink_to(&mut self, segment: Segment, target: u32) {
        while self.segments.list(segment).len() > target {
            self.segments.shift(self.segments.list(segment).head(), Segment::Probation);
        }
    }

    /// Whether `candidate`, from the window, was referenced more often than `resident`, from the main part.
    fn wins(&self, candidate: FrameId, resident: FrameId) -> bool {
        let count = |frame: FrameId| self.sketch.count(self.segments.page(frame));
        count(candidate) > count(resident)
    }
}

fn sample(capacity: u32, parameters: WTinyLfuParameters) -> u64 {
    u64::from(capacity.max(1)) * u64::from(parameters.sample_factor.max(1))
}

impl OneLevel for WTinyLfu {
    fn name(&self) -> &'static str {
        "w-tinylfu"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.sketch.resize(capacity, sample(capacity, self.parameters));
        self.shrink_to(Segment::Window, self.window_target());
        self.shrink_to(Segment::Protected, self.protected_target());
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        self.sketch.add(page);
        let segment = match self.segments.of(frame) {
            Segment::Window => Segment::Window,
            _ => Segment::Protected,
        };
        self.segments.shift(frame.0, segment);
        self.shrink_to(Segment::Protected, self.protected_target());
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.segments.insert(frame, page);
        self.sketch.add(page);
        self.shrink_to(Segment::Window, self.window_target());
    }

    /// The window gives up a page only when it is full, as the missing page will then push one out.
    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let frames = |segment| self.segments.frames(segment);
        let resident = first_free(frames(Segment::Probation).chain(frames(Segment::Protected)), busy);
        let is_full = self.segments.list(Segment::Window).len() >= self.window_target();
        if resident.is_some() && !is_full {
            return resident;
        }
        let candidate = first_free(frames(Segment::Window), busy);
        match (candidate, resident) {
            (Some(candidate), Some(resident)) if self.wins(candidate, resident) => Some(resident),
            _ => candidate.or(resident),
        }
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        self.segments.remove(frame);
    }

    fn check_invariants(&self) {
        self.segments.check_invariants();
        let len = |segment| self.segments.list(segment).len();
        assert_eq!(len(Segment::GivenUp), 0, "nothing is given up");
        assert!(len(Segment::Window) <= self.window_target(), "invariant 1: the window is too large");
        assert!(len(Segment::Protected) <= self.protected_target(), "invariant 2: too many protected frames");
    }

    fn metadata_bytes(&self) -> usize {
        self.sketch.memory_bytes() + self.segments.memory_bytes()
    }
}
