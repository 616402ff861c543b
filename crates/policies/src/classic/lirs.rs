//! LIRS: keeps the pages with the shortest time between their last two references.
//!
//! **Idea.** Nearly all frames hold LIR pages, whose last two references were close together; the others
//! hold HIR pages. When a HIR page is referenced again, and its reference before is later than the last one
//! of the coldest LIR page, it becomes LIR in that page's place.
//!
//! **Paper.** S. Jiang, X. Zhang: "LIRS: an efficient low inter-reference recency set replacement policy to
//! improve buffer cache performance", SIGMETRICS 2002, with its 1 % of the frames for HIR pages, at least
//! two.
//!
//! **Departures.** In form: the paper keeps a stack of LIR, HIR and evicted pages in order of last reference,
//! and prunes it so that a LIR page is at its bottom. A page is on that stack if and only if its last
//! reference is later than that of the coldest LIR page; so a stamp per page and a list of the LIR pages say
//! the same, with nothing to prune. In substance:
//! - evicted pages are remembered for a number of evictions that is 1.75 times the capacity
//!   ([`LirsParameters::history_percent`]), where the paper has no bound; 250,000 % gives the miss counts of
//!   the authors' program;
//! - a reference to the page referenced last changes nothing ([`LirsParameters::skip_repeats`]), as in the
//!   authors' program and not in the paper;
//! - whenever there are fewer LIR pages than there should be, a page that comes in becomes LIR; the paper
//!   says so of the time when the cache starts;
//! - when every HIR frame is busy, the coldest LIR frame that is not busy goes.
//!
//! **Compared.** With the default parameters, 107 of 117 miss ratios are at most 0.005 above those of the
//! authors' program; the other ten come from the bounded history, as all 117 equal it with 250,000 %.
//! libCacheSim's LIRS remembers fewer evictions: with 100 % and without `skip_repeats`, 128 of 133 miss
//! ratios are within 0.005 of it.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access. 17 bytes a frame, and 21 to 25 for each eviction remembered: 54 to 61 a frame.

use super::policy::{Departure, OneLevel, first_free, grow, percent_of};
use crate::history::History;
use crate::list::{Links, List, NIL};
use crate::{FrameId, PageId};

/// Low inter-reference recency set. See the file's head.
///
/// Invariants: (1) a resident frame is in exactly one of `lir` and `hir`, the one that `is_lir` says; (2) the
/// stamps rise along `lir`; (3) there are at most `lir_target` LIR frames; (4) at most `history_max`
/// evictions are remembered, and one more between an eviction and the insertion that it makes room for.
pub struct Lirs {
    capacity: u32,
    parameters: LirsParameters,
    /// The number of references so far.
    now: u64,
    /// The frame referenced last, [`NIL`] if its page has left.
    last: u32,
    links: Links,
    /// Frames with LIR pages, coldest at the head.
    lir: List,
    /// Frames with HIR pages; the next victim at the head.
    hir: List,
    /// Per frame: in `lir`.
    is_lir: Vec<bool>,
    /// Per frame: when its page was last referenced.
    stamps: Vec<u64>,
    /// Pages evicted, each with its last reference.
    history: History,
}

/// The tuning of [`Lirs`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LirsParameters {
    /// Frames for HIR pages, in percent of the capacity. 0 to 100.
    pub hir_percent: u32,
    /// The fewest frames for HIR pages; fewer only in a cache so small that no frame would be left for a LIR
    /// page.
    pub hir_frames_min: u32,
    /// Evictions remembered, in percent of the capacity.
    pub history_percent: u32,
    /// Whether a reference to the page referenced last counts for nothing.
    pub skip_repeats: bool,
}

impl Default for LirsParameters {
    fn default() -> Self {
        Self { hir_percent: 1, hir_frames_min: 2, history_percent: 175, skip_repeats: true }
    }
}

impl Lirs {
    /// An empty instance with the default parameters.
    pub fn new(capacity: u32) -> Self {
        Self::with_parameters(capacity, LirsParameters::default())
    }

    /// An empty instance.
    pub fn with_parameters(capacity: u32, parameters: LirsParameters) -> Self {
        Self {
            capacity,
            parameters,
            now: 0,
            last: NIL,
            links: Links::with_capacity(capacity),
            lir: List::new(),
            hir: List::new(),
            is_lir: Vec::with_capacity(capacity as usize),
            stamps: Vec::with_capacity(capacity as usize),
            history: History::with_capacity(
                percent_of(parameters.history_percent.min(175), capacity).saturating_add(1),
            ),
        }
    }

    fn lir_target(&self) -> u32 {
        let hir = percent_of(self.parameters.hir_percent, self.capacity).max(self.parameters.hir_frames_min);
        self.capacity - hir.min(self.capacity.saturating_sub(1))
    }

    fn history_max(&self) -> u32 {
        percent_of(self.parameters.history_percent, self.capacity)
    }

    /// Whether a page last referenced at `stamp` is on the paper's stack.
    fn is_on_stack(&self, stamp: u64) -> bool {
        !self.lir.is_empty() && stamp > self.stamps[self.lir.head() as usize]
    }

    /// Puts `frame`, which is in neither list, into the one that `lir` says, as referenced now.
    fn enter(&mut self, frame: FrameId, lir: bool) {
        self.now += 1;
        self.last = frame.0;
        self.stamps[frame.index()] = self.now;
        self.is_lir[frame.index()] = lir;
        let list = if lir { &mut self.lir } else { &mut self.hir };
        list.push_tail(&mut self.links, frame.0);
        self.demote_surplus();
    }

    /// Makes the coldest LIR pages HIR until there are no more than there should be.
    fn demote_surplus(&mut self) {
        while self.lir.len() > self.lir_target() {
            let frame = self.lir.head();
            self.lir.remove(&mut self.links, frame);
            self.hir.push_tail(&mut self.links, frame);
            self.is_lir[frame as usize] = false;
        }
    }

    fn leave(&mut self, frame: FrameId) {
        let list = if self.is_lir[frame.index()] { &mut self.lir } else { &mut self.hir };
        list.remove(&mut self.links, frame.0);
    }
}

impl OneLevel for Lirs {
    fn name(&self) -> &'static str {
        "lirs"
    }

    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        self.demote_surplus();
        self.history.trim(self.history_max());
    }

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        if self.parameters.skip_repeats && frame.0 == self.last {
            return;
        }
        let lir = self.is_lir[frame.index()] || self.is_on_stack(self.stamps[frame.index()]);
        self.leave(frame);
        self.enter(frame, lir);
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.is_lir, frame);
        grow(&mut self.stamps, frame);
        let returns_soon = self.history.take(page).is_some_and(|stamp| self.is_on_stack(stamp));
        self.history.trim(self.history_max());
        self.enter(frame, returns_soon || self.lir.len() < self.lir_target());
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        first_free(self.hir.iter(&self.links).chain(self.lir.iter(&self.links)), busy)
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        self.leave(frame);
        if self.last == frame.0 {
            self.last = NIL;
        }
        let stamp = self.stamps[frame.index()];
        if why == Departure::Evicted && self.is_on_stack(stamp) {
            self.history.trim(self.history_max());
            self.history.push(page, stamp);
        }
    }

    fn check_invariants(&self) {
        for (list, lir) in [(&self.lir, true), (&self.hir, false)] {
            list.check_invariants(&self.links);
            let marked = list.iter(&self.links).all(|frame| self.is_lir[frame as usize] == lir);
            assert!(marked, "invariant 1: a frame is in the other list than its mark says");
        }
        let stamps = self.lir.iter(&self.links).map(|frame| self.stamps[frame as usize]);
        assert!(stamps.is_sorted(), "invariant 2: the LIR pages are out of order");
        assert!(self.lir.len() <= self.lir_target(), "invariant 3: too many LIR pages");
        self.history.check_invariants();
        assert!(self.history.len() <= self.history_max() + 1, "invariant 4: too many evictions remembered");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.is_lir.capacity()
            + self.stamps.capacity() * size_of::<u64>()
            + self.history.memory_bytes()
    }
}
