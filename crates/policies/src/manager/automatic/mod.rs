//! The automatic manager: it learns when pages come back, and gives up those worth least.
//!
//! Idea: what will be used again, and when, depends on who used it. Accesses are told apart by stream (context and file,
//! [`streams`]) and by the number of hits since the page was loaded; for each class the intervals until the next use are
//! learned on sampled pages ([`intervals`], [`samples`]), and the victim is the page of least value, expected hits per
//! time that a frame is occupied, among a few chosen at random. Loops, one-shot scans and hot pages need no names: a
//! loop's pages gain value with age, a scan's never have any, and others lose it as under LRU.
//!
//! [`Strategy::Reuse`] always follows values. [`Strategy::Auto`] compares two shadow caches, one by LRU and one by value,
//! and follows the one that wins; while that is LRU it gives up the ledger's candidate, as if there were no manager.
//!
//! Time counts 8 a miss and 1 a hit of the tenant. Misses alone are what frames compete in, and learn best where few
//! accesses hit; but where nearly all hit they tell no two ages apart. 1 to 32 give misses within 0.3 %.
//!
//! Cost: O(1) amortised a hit, a victim looks at 64 pages; nothing is allocated per access once streams, classes and
//! samples have reached their numbers. Deterministic under a seed.

mod intervals;
mod samples;
mod streams;

use super::{Block, Manager};
use crate::ids::{Access, ContextId, FileId, FrameId, PageId};
use crate::list::NIL;
use crate::random::SplitMix64;
use intervals::Classes;
use samples::{Samples, Shadows};
use streams::{HITS_CLASSES, Streams};

/// Pages compared for a victim. It is then among the worst 2 % or so; 32 to 256 give misses within 0.3 %.
const CANDIDATES: u32 = 64;
/// Time that passes with a miss, in hits.
const TIME_PER_MISS: u32 = 8;
/// Samples looked at a miss while every page is sampled: a round of all samples takes half a turnover.
const LOOKS_PER_MISS: u32 = 8;
/// The lead at which the followed shadow is abandoned the first time, as a share of the pages a shadow holds; changing
/// sides costs no more misses than that cache holds pages, since then its content has changed over. An eighth follows chance
/// where both sides are equal, and loses half a per cent; a half reacts later, and gives the same misses within 0.2 %.
const LEAD_SHARE: f32 = 1.0 / 4.0;
/// The same in misses, where shadows are tiny.
const LEAD_MISSES_MIN: f32 = 1.0;

/// How the automatic manager decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By what was learned of reuse intervals, always.
    Reuse,
    /// The same, except while a shadow cache shows that plain LRU does better.
    Auto,
}

impl Strategy {
    /// All strategies.
    pub const ALL: [Self; 2] = [Self::Reuse, Self::Auto];

    /// Its name in commands and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reuse => "reuse",
            Self::Auto => "auto",
        }
    }
}

/// What is known of a frame.
#[derive(Clone, Copy)]
struct Frame {
    page: PageId,
    /// When the page was used last. Ages are taken modulo 2^32, so that a page unused for 500 million misses looks young.
    last: u32,
    class: u32,
    /// Where `own` lists it, or [`NIL`] if the tenant does not own it.
    own_at: u32,
    /// Hits since the load, up to the last class.
    hits: u8,
}

/// The automatic manager. The module's documentation tells how it decides.
///
/// 28 bytes a frame owned, about 22 a frame of the pool for samples from 4,096 frames on (44 from 2,048, 88 from 1,024, and
/// 176 below, where every page is sampled), and what streams and classes need.
pub struct Automatic {
    strategy: Strategy,
    now: u32,
    /// By frame number.
    frames: Vec<Frame>,
    /// The frames of the tenant's blocks, in no order.
    own: Vec<u32>,
    classes: Classes,
    streams: Streams,
    samples: Samples,
    duel: Duel,
    random: SplitMix64,
}

impl Automatic {
    /// A manager for a tenant of a pool of `pool_frames`.
    pub fn new(strategy: Strategy, pool_frames: u32, seed: u64) -> Self {
        let samples = Samples::new(pool_frames.max(1));
        let turnover_time = pool_frames.max(1) as f32 * TIME_PER_MISS as f32;
        let mut classes = Classes::new(turnover_time, samples.samples_max() as f32);
        let streams = Streams::new(&mut classes);
        Self {
            strategy,
            now: 0,
            frames: Vec::new(),
            own: Vec::new(),
            classes,
            streams,
            samples,
            duel: Duel::new(),
            random: SplitMix64::new(seed),
        }
    }

    /// Whether the next victim is chosen by value, and not by the ledger.
    pub fn follows_values(&self) -> bool {
        self.strategy == Strategy::Reuse || self.duel.follows_values
    }

    /// A block of the tenant was used.
    #[inline]
    fn use_block(&mut self, frame: u32, context: ContextId, file: FileId) {
        let Frame { page, hits, .. } = self.frames[frame as usize];
        let class = self.streams.class(&mut self.classes, context, file, hits);
        self.classes.retain(class);
        let entry = &mut self.frames[frame as usize];
        entry.last = self.now;
        let before = std::mem::replace(&mut entry.class, class);
        self.classes.release(before);
        if self.samples.takes(page) {
            self.sample(page, class);
        }
    }

    fn sample(&mut self, page: PageId, class: u32) {
        let (own, now) = (self.own.len() as u32, self.now);
        let shadows = self.samples.access(page, class, now, own, &mut self.classes, &mut self.random);
        let pages = own as f32 / self.samples.rate() as f32;
        self.duel.score(shadows, (pages * LEAD_SHARE).max(LEAD_MISSES_MIN));
    }

    fn own(&mut self, frame: u32, page: PageId) {
        if frame as usize >= self.frames.len() {
            let vacant = Frame { page, last: 0, class: NIL, own_at: NIL, hits: 0 };
            self.frames.resize(frame as usize + 1, vacant);
        }
        self.classes.retain(intervals::ROOT);
        let own_at = self.own.len() as u32;
        let class = intervals::ROOT;
        self.frames[frame as usize] = Frame { page, last: self.now, class, own_at, hits: 0 };
        self.own.push(frame);
    }

    #[inline]
    fn value(&mut self, frame: u32) -> f32 {
        let Frame { last, class, .. } = self.frames[frame as usize];
        self.classes.refresh(class);
        self.classes.value(class, self.now.wrapping_sub(last))
    }
}

impl Manager for Automatic {
    fn new_block(&mut self, block: &Block) {
        self.now = self.now.wrapping_add(TIME_PER_MISS);
        let looks = LOOKS_PER_MISS / self.samples.rate();
        self.samples.look(looks, self.now, &mut self.classes);
        self.own(block.frame.0, block.page);
        self.use_block(block.frame.0, block.context, block.file);
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        let entry = &mut self.frames[frame.index()];
        let at = std::mem::replace(&mut entry.own_at, NIL);
        self.classes.release(entry.class);
        self.own.swap_remove(at as usize);
        if let Some(&moved) = self.own.get(at as usize) {
            self.frames[moved as usize].own_at = at;
        }
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.now = self.now.wrapping_add(1);
        let hits = &mut self.frames[frame.index()].hits;
        *hits = (*hits + 1).min(HITS_CLASSES as u8 - 1);
        self.use_block(frame.0, access.context, access.file);
    }

    /// Looks at 64 blocks, and asks whether one is busy only if it is the worst so far.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        if !self.follows_values() || self.own.is_empty() {
            return candidate;
        }
        let mut worst = (self.value(candidate.0), candidate);
        for _ in 1..CANDIDATES {
            let frame = self.own[self.random.below(self.own.len() as u64) as usize];
            let value = self.value(frame);
            if value < worst.0 && !busy(FrameId(frame)) {
                worst = (value, FrameId(frame));
            }
        }
        worst.1
    }

    /// Intervals that are short compared to the time in memory say nothing about when a page may go.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        false
    }

    /// Nothing to do: that the page came back is what its sample, and the shadows, learn from.
    fn placeholder_used(&mut self, _missing: &Access, _placeholder: FrameId) {}

    fn metadata_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.own.capacity() * size_of::<u32>()
            + self.classes.metadata_bytes()
            + self.streams.metadata_bytes()
            + self.samples.metadata_bytes()
    }

    fn check_invariants(&self) {
        for (at, frame) in self.own.iter().enumerate() {
            assert_eq!(self.frames[*frame as usize].own_at, at as u32, "place of frame {frame}");
        }
        let owned = self.frames.iter().filter(|frame| frame.own_at != NIL).count();
        assert_eq!(owned, self.own.len(), "frames owned");
        self.samples.check_invariants();
        self.streams.check_invariants();
        let of_frames = self.own.iter().map(|frame| self.frames[*frame as usize].class);
        let of_samples = self.samples.waiting().map(|(class, _)| class);
        let users = self.streams.classes().chain(of_frames).chain(of_samples);
        self.classes.check_invariants(users, self.samples.waiting());
    }
}

/// Which of the two shadow caches to follow.
///
/// The other one's lead is the largest number of misses by which it was ahead over any stretch up to now (a CUSUM). Each
/// time a side is abandoned, returning to it needs twice the lead, so that a stream on which both do
/// equally well is not torn between them: changes grow rarer as the logarithm of the misses.
struct Duel {
    follows_values: bool,
    /// Misses by which the other side is ahead, at least 0.
    lead: f32,
    /// Per side, LRU first: the factor on the lead that it takes to return to it.
    reluctance: [f32; 2],
}

impl Duel {
    fn new() -> Self {
        Self { follows_values: true, lead: 0.0, reluctance: [1.0; 2] }
    }

    /// `lead_misses` is what it takes to change sides the first time.
    #[inline]
    fn score(&mut self, shadows: Shadows, lead_misses: f32) {
        if shadows.lru_hit == shadows.value_hit {
            return;
        }
        let other_won = shadows.lru_hit == self.follows_values;
        self.lead = (self.lead + if other_won { 1.0 } else { -1.0 }).max(0.0);
        let (current, other) = (usize::from(self.follows_values), usize::from(!self.follows_values));
        if self.lead > lead_misses * self.reluctance[other] {
            self.reluctance[current] *= 2.0;
            self.follows_values = !self.follows_values;
            self.lead = 0.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LRU_WON: Shadows = Shadows { lru_hit: true, value_hit: false };
    const VALUE_WON: Shadows = Shadows { lru_hit: false, value_hit: true };

    #[test]
    fn a_lead_changes_sides_and_returning_needs_twice_the_lead() {
        let mut duel = Duel::new();
        (0..10).for_each(|_| duel.score(LRU_WON, 10.0));
        assert!(duel.follows_values, "10 misses are not more than 10");
        duel.score(LRU_WON, 10.0);
        assert!(!duel.follows_values);
        (0..20).for_each(|_| duel.score(VALUE_WON, 10.0));
        assert!(!duel.follows_values, "values were abandoned once");
        duel.score(VALUE_WON, 10.0);
        assert!(duel.follows_values);
    }

    #[test]
    fn what_both_have_or_miss_decides_nothing() {
        let mut duel = Duel::new();
        for hit in [true, false] {
            (0..1000).for_each(|_| duel.score(Shadows { lru_hit: hit, value_hit: hit }, 1.0));
        }
        assert!(duel.follows_values && duel.lead == 0.0);
    }
}
