//! CLOCK-Pro: LIRS with reference bits, on one ring.
//!
//! **Idea.** Pages stand on a ring, hot or cold. A cold page has a test period, which goes on for a while
//! after it has been evicted; a reference in that time makes it hot. The hot hand cools hot pages that are
//! not referenced, the test hand ends test periods, and the share of cold pages grows with each test that
//! succeeds and shrinks with each that is in vain.
//!
//! **Paper.** S. Jiang, F. Chen, X. Zhang: "CLOCK-Pro: an effective improvement of the CLOCK replacement",
//! USENIX ATC 2005.
//!
//! **Departures.** In form: the cold hand, which visits resident cold pages and has to pass all others, is a
//! queue of resident cold pages in the order in which they came to the ring's head. Where the paper is
//! silent: until the first eviction, pages come in hot as long as there is room for hot pages, as in LIRS;
//! cold pages start with 1 % of the frames, which is also the least they get ([`ClockProParameters`]); a
//! page that is cooled gets no test period, as it has not been referenced for longer than any test lasts.
//! When every cold frame is busy, the first hot frame that is not busy goes.
//!
//! **Refused proposal.** A busy frame keeps its place. What the search did on its way stays done, as if for a
//! miss: bits cleared, tests begun or succeeded, pages made hot or cold.
//!
//! **Cost.** A hit sets a bit. A miss is O(1) amortised: the hot hand passes a page once per reference or
//! test, the test hand one or two pages per ghost when there are many; at most O(n) for one miss. 33 bytes a
//! frame and 26 to 30 for each ghost, of which there are at most as many as frames: 59 to 63 a frame.

use super::policy::{Departure, OneLevel, grow, percent_of};
use crate::list::{Links, List, NIL};
use crate::slot_index::SlotIndex;
use crate::{FrameId, PageId};

/// The page is hot. Hot pages are resident.
const HOT: u8 = 1;
/// The page has a frame. A page without this flag is a ghost.
const RESIDENT: u8 = 2;
/// The page is in its test period. Only cold pages are, and every ghost is.
const TEST: u8 = 4;
/// The page was referenced since a hand last cleared the bit. Only resident pages have this flag.
const REFERENCED: u8 = 8;
/// The state of an entry not in use.
const FREE: u8 = 0;

/// CLOCK-Pro. See the file's head.
///
/// A page that is resident or a ghost has an entry. Invariants: (1) the ring holds all entries in use; (2)
/// the queue holds exactly the frames of resident pages that are not hot; (3) the index holds exactly the
/// ghosts; (4) each hand points to an entry in use, or to none if there is none; (5) at most `hot_target`
/// pages are hot; (6) there are at most as many ghosts as the capacity, and one more between an eviction and
/// the insertion that it makes room for.
pub struct ClockPro {
    capacity: u32,
    parameters: ClockProParameters,
    /// Frames that cold pages should have, called m_c in the paper; clamped where it is used.
    cold_target: u32,
    /// Per entry: the page.
    pages: Vec<PageId>,
    /// Per entry: where the page is resident; meaningless for ghosts.
    frames: Vec<FrameId>,
    /// Per entry: which of the flags above are set.
    states: Vec<u8>,
    /// Per frame: the entry of its page.
    entry_of: Vec<u32>,
    /// The links of the next two lists, per entry.
    ring_links: Links,
    /// Entries not in use.
    free: List,
    /// Resident pages and ghosts. The place where pages come in, the paper's list head, is right before
    /// `hand_hot`.
    ring: List,
    hand_hot: u32,
    hand_test: u32,
    hot_count: u32,
    /// Per frame.
    cold_links: Links,
    /// Frames of cold pages; the next victim at the head.
    cold: List,
    /// Finds ghosts by page.
    index: SlotIndex,
    /// Something has been evicted.
    has_evicted: bool,
}

/// The tuning of [`ClockPro`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClockProParameters {
    /// Frames for cold pages at the least, in percent of the capacity; at least one frame.
    pub cold_percent_min: u32,
    /// Frames for cold pages at the start, in percent of the capacity.
    pub cold_percent_start: u32,
}

impl Default for ClockProParameters {
    fn default() -> Self {
        Self { cold_percent_min: 1, cold_percent_start: 1 }
    }
}

impl ClockPro {
    /// An empty instance with the default parameters.
    pub fn new(capacity: u32) -> Self {
        Self::with_parameters(capacity, ClockProParameters::default())
    }

    /// An empty instance.
    pub fn with_parameters(capacity: u32, parameters: ClockProParameters) -> Self {
        Self {
            capacity,
            parameters,
            cold_target: percent_of(parameters.cold_percent_start, capacity),
            pages: Vec::with_capacity(capacity as usize),
            frames: Vec::with_capacity(capacity as usize),
            states: Vec::with_capacity(capacity as usize),
            entry_of: Vec::with_capacity(capacity as usize),
            ring_links: Links::with_capacity(capacity),
            free: List::new(),
            ring: List::new(),
            hand_hot: NIL,
            hand_test: NIL,
            hot_count: 0,
            cold_links: Links::with_capacity(capacity),
            cold: List::new(),
            index: SlotIndex::default(),
            has_evicted: false,
        }
    }

    fn cold_min(&self) -> u32 {
        percent_of(self.parameters.cold_percent_min, self.capacity).max(1)
    }

    /// Pages that may be hot, called m_h in the paper.
    fn hot_target(&self) -> u32 {
        self.capacity.saturating_sub(self.cold_target.max(self.cold_min()))
    }

    fn test_succeeded(&mut self) {
        self.cold_target = self.cold_target.max(self.cold_min()).saturating_add(1).min(self.capacity);
    }

    fn test_failed(&mut self) {
        self.cold_target = self.cold_target.min(self.capacity).saturating_sub(1).max(self.cold_min());
    }

    fn state(&mut self, entry: u32) -> &mut u8 {
        &mut self.states[entry as usize]
    }

    fn ghosts(&self) -> u32 {
        self.index.len() as u32
    }

    /// Puts `entry`, which is not on the ring, right behind the hot hand, which reaches that place last.
    fn enter_ring(&mut self, entry: u32) {
        self.ring.insert_before(&mut self.ring_links, self.hand_hot, entry);
        if self.hand_hot == NIL {
            (self.hand_hot, self.hand_test) = (entry, entry);
        }
    }

    /// Takes `entry` off the ring. Hands that point to it move on.
    fn leave_ring(&mut self, entry: u32) {
        let next = match self.ring.next_in_ring(&self.ring_links, entry) {
            next if next == entry => NIL,
            next => next,
        };
        for hand in [&mut self.hand_hot, &mut self.hand_test] {
            if *hand == entry {
                *hand = next;
            }
        }
        self.ring.remove(&mut self.ring_links, entry);
    }

    fn move_to_ring_head(&mut self, entry: u32) {
        self.leave_ring(entry);
        self.enter_ring(entry);
    }

    /// Makes a cold page that is in no queue hot.
    fn heat(&mut self, entry: u32) {
        *self.state(entry) = HOT | RESIDENT;
        self.hot_count += 1;
        self.cool_surplus();
    }

    /// Moves the hot hand until there are no more hot pages than there may be. One turn clears all bits, so
    /// two turns are enough to cool any number of pages.
    fn cool_surplus(&mut self) {
        while self.hot_count > self.hot_target() {
            let entry = self.hand_hot;
            self.hand_hot = self.ring.next_in_ring(&self.ring_links, entry);
            self.pass_hot_hand(entry);
        }
    }

    /// The hot hand ends the test of a cold page, spares a hot page that was referenced, and cools another.
    fn pass_hot_hand(&mut self, entry: u32) {
        let state = self.state(entry);
        if *state & HOT == 0 {
            self.end_test(entry);
        } else if *state & REFERENCED != 0 {
            *state &= !REFERENCED;
        } else {
            *state = RESIDENT;
            self.hot_count -= 1;
            self.cold.push_tail(&mut self.cold_links, self.frames[entry as usize].0);
        }
    }

    /// The test hand: ends tests in the order of the ring until there are no more ghosts than there may be.
    fn trim_ghosts(&mut self) {
        while self.ghosts() > self.capacity {
            let entry = self.hand_test;
            self.hand_test = self.ring.next_in_ring(&self.ring_links, entry);
            if *self.state(entry) & HOT == 0 {
                self.end_test(entry);
            }
        }
    }

    /// Ends the test period of a cold page if it is in one; a ghost is forgotten.
    fn end_test(&mut self, entry: u32) {
        let state = self.state(entry);
        if *state & TEST == 0 {
            return;
        }
        *state &= !TEST;
        if *state & RESIDENT == 0 {
            self.forget_ghost(self.pages[entry as usize]);
        }
        self.test_failed();
    }

    /// Forgets `page` if it is a ghost. True if it was.
    fn forget_ghost(&mut self, page: PageId) -> bool {
        let found = self.index.remove(page.0, |entry| self.pages[entry as usize].0);
        if let Some(entry) = found {
            self.drop_entry(entry);
        }
        found.is_some()
    }

    fn new_entry(&mut self, page: PageId, frame: FrameId) -> u32 {
        let entry = self.free.pop_head(&mut self.ring_links).unwrap_or_else(|| {
            let entry = self.pages.len() as u32;
            self.pages.push(page);
            self.frames.push(frame);
            self.states.push(FREE);
            self.ring_links.grow_to(entry);
            entry
        });
        self.pages[entry as usize] = page;
        self.frames[entry as usize] = frame;
        self.states[entry as usize] = RESIDENT | TEST;
        entry
    }

    /// Frees an entry that is on the ring and in no queue.
    fn drop_entry(&mut self, entry: u32) {
        self.leave_ring(entry);
        *self.state(entry) = FREE;
        self.free.push_head(&mut self.ring_links, entry);
    }

    /// The cold hand: goes once over the resident cold pages, and over those that are put behind them on its
    /// way.
    fn victim_in_cold(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let mut at = self.cold.head();
        while at != NIL {
            let frame = FrameId(at);
            at = self.cold_links.next(at);
            if busy(frame) {
                continue;
            }
            if *self.state(self.entry_of[frame.index()]) & REFERENCED == 0 {
                return Some(frame);
            }
            self.spare_cold(frame);
        }
        None
    }

    /// A resident cold page that was referenced: hot if that was during its test, else on test now.
    fn spare_cold(&mut self, frame: FrameId) {
        let entry = self.entry_of[frame.index()];
        self.cold.remove(&mut self.cold_links, frame.0);
        self.move_to_ring_head(entry);
        if *self.state(entry) & TEST != 0 {
            self.test_succeeded();
            self.heat(entry);
        } else {
            *self.state(entry) = RESIDENT | TEST;
            self.cold.push_tail(&mut self.cold_links, frame.0);
        }
    }

    /// The first hot page that is not busy, from the hot hand on.
    #[cold]
    fn victim_in_hot(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let mut at = self.hand_hot;
        for _ in 0..self.ring.len() {
            let (frame, state) = (self.frames[at as usize], self.states[at as usize]);
            if state & HOT != 0 && !busy(frame) {
                return Some(frame);
            }
            at = self.ring.next_in_ring(&self.ring_links, at);
        }
        None
    }
}

impl OneLevel for ClockPro {
    fn name(&self) -> &'static str {
        "clock-pro"
    }

    /// Without pages, it begins as a new instance of this capacity.
    fn resize(&mut self, capacity: u32) {
        self.capacity = capacity;
        if self.ring.is_empty() {
            self.cold_target = percent_of(self.parameters.cold_percent_start, capacity);
        }
        self.cool_surplus();
        self.trim_ghosts();
    }

    #[inline]
    fn hit(&mut self, frame: FrameId, _page: PageId) {
        let entry = self.entry_of[frame.index()];
        *self.state(entry) |= REFERENCED;
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        self.cold_links.grow_to(frame.0);
        grow(&mut self.entry_of, frame);
        let on_test = self.forget_ghost(page);
        if on_test {
            self.test_succeeded();
        }
        self.trim_ghosts();
        let entry = self.new_entry(page, frame);
        self.entry_of[frame.index()] = entry;
        self.enter_ring(entry);
        if on_test || (!self.has_evicted && self.hot_count < self.hot_target()) {
            self.heat(entry);
        } else {
            self.cold.push_tail(&mut self.cold_links, frame.0);
        }
    }

    /// A second round over the cold pages meets those that the first round put at the end.
    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let cold = self.victim_in_cold(busy).or_else(|| self.victim_in_cold(busy));
        cold.or_else(|| self.victim_in_hot(busy))
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let entry = self.entry_of[frame.index()];
        let state = *self.state(entry);
        if state & HOT != 0 {
            self.hot_count -= 1;
        } else {
            self.cold.remove(&mut self.cold_links, frame.0);
        }
        self.has_evicted |= why == Departure::Evicted;
        if why == Departure::Evicted && state & TEST != 0 {
            self.trim_ghosts();
        }
        // The test hand may have ended the test.
        if why == Departure::Evicted && *self.state(entry) & TEST != 0 {
            *self.state(entry) = TEST;
            self.index.insert(page.0, entry, |entry| self.pages[entry as usize].0);
        } else {
            self.drop_entry(entry);
        }
    }

    fn check_invariants(&self) {
        for (list, links) in
            [(&self.ring, &self.ring_links), (&self.free, &self.ring_links), (&self.cold, &self.cold_links)]
        {
            list.check_invariants(links);
        }
        self.index.check_invariants(|entry| self.pages[entry as usize].0);
        let count = |of: &dyn Fn(u8) -> bool| self.states.iter().filter(|&&state| of(state)).count() as u32;
        assert_eq!(
            self.ring.len(),
            count(&|state| state != FREE),
            "invariant 1: the ring holds what is in use"
        );
        assert!(
            self.ring.iter(&self.ring_links).all(|entry| self.states[entry as usize] != FREE),
            "invariant 1: a free entry is on the ring"
        );
        let is_cold = |state: u8| state & (RESIDENT | HOT) == RESIDENT;
        assert_eq!(self.cold.len(), count(&is_cold), "invariant 2: the queue holds the resident cold pages");
        assert!(
            self.cold
                .iter(&self.cold_links)
                .all(|frame| is_cold(self.states[self.entry_of[frame as usize] as usize])),
            "invariant 2: a page in the queue is hot or not resident"
        );
        assert_eq!(self.ghosts(), count(&|state| state == TEST), "invariant 3: the index holds the ghosts");
        assert_eq!(self.hot_count, count(&|state| state & HOT != 0), "hot pages are miscounted");
        for hand in [self.hand_hot, self.hand_test] {
            assert_eq!(hand == NIL, self.ring.is_empty(), "invariant 4: a hand points nowhere");
            let in_use = hand == NIL || self.states[hand as usize] != FREE;
            assert!(in_use, "invariant 4: a hand points to a free entry");
        }
        assert!(self.hot_count <= self.hot_target(), "invariant 5: too many hot pages");
        assert!(self.ghosts() <= self.capacity.saturating_add(1), "invariant 6: too many ghosts");
        for (entry, (state, frame)) in (0..).zip(self.states.iter().zip(&self.frames)) {
            let known = state & RESIDENT == 0 || self.entry_of[frame.index()] == entry;
            assert!(known, "{frame:?} has another entry");
        }
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<PageId>()
            + self.frames.capacity() * size_of::<FrameId>()
            + self.states.capacity()
            + self.entry_of.capacity() * size_of::<u32>()
            + self.ring_links.memory_bytes()
            + self.cold_links.memory_bytes()
            + self.index.memory_bytes()
    }
}
