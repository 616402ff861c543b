//! The automatic manager: it learns when pages come back, and gives up those worth least.
//!
//! Idea: what will be used again, and when, depends on who used it. Accesses are told apart by stream
//! (context and file, [`streams`]) and by the kind of page, which is how long ago it was used before; for
//! each class the intervals until the next use are learned on sampled pages ([`intervals`], [`samples`]), and
//! the victim is the page of least value, expected hits per time that a frame is occupied ([`by_class`]).
//! Loops, one-shot scans and hot pages need no names: a loop's pages gain value with age, a scan's never have
//! any, and others lose it as under LRU. Where a stream goes round, the time until a page's turn is known
//! better than any distribution tells ([`turns`]).
//!
//! [`Strategy::Reuse`] always follows values. [`Strategy::Auto`] compares three shadow caches, by LRU, by ARC
//! and by value, and follows the one that wins ([`experts`]).
//!
//! Time counts 8 a miss and 1 a hit of the tenant. Misses alone are what frames compete in, and learn best
//! where few accesses hit; but where nearly all hit they tell no two ages apart.
//!
//! Cost: O(1) amortised a hit, a few stores if the page is not sampled; a victim looks at some 20 pages, and
//! at one where ARC is followed. Nothing is allocated per access once streams, classes and samples have
//! reached their numbers. Deterministic under a seed.

mod arc;
mod by_class;
mod departed;
mod experts;
mod holdings;
mod intervals;
mod labels;
mod orders;
mod samples;
mod streams;
#[cfg(test)]
mod tests;
mod turns;

use super::{Block, Manager, StreamReport};
use crate::detect::Class;
use crate::ids::{Access, FrameId, PageId};
use crate::list::{NIL, lengthen};
use crate::random::SplitMix64;
use departed::{Departed, DepartedPages};
use experts::{Expert, Judge, Shadows};
use intervals::{Classes, NEW, TIME_PER_MISS};
use orders::{LISTED_PER_HIT, LISTED_PER_MISS, Orders};
use samples::{SampledAccess, Samples};
use streams::Streams;

/// Busy pages passed over for a victim when ARC is followed.
const ARC_LOOKS_MAX: u32 = 32;
/// The same to either side of the page of least value.
const NEIGHBOURS_MAX: u32 = 8;
/// Pages drawn with each choice by value: they lead to the least ones of a class that are neither its oldest
/// nor its newest.
const DRAWN: u32 = 4;
/// Samples looked at a miss while every page is one: a round of all samples takes half a turnover.
const LOOKS_PER_MISS: u32 = 8;
/// Frames for each class of a stream: classes then need 5 bytes a frame.
const FRAMES_PER_CLASS: u32 = 128;
/// Classes of streams that there may be in any pool, however small.
const CLASSES_MIN: u32 = 256;
/// While nothing is decided yet, pages are listed for choices by value from when this part of the frames is
/// left to fill.
const LISTED_EARLY: u32 = 8;
/// Uses of a hot page within this part of a turnover are one for its sample: about the youngest ages that
/// classes tell apart.
const REPEATS_PER_TURNOVER: u32 = 32;
/// Turnovers for which a stream that keeps being wrong is treated as under LRU: as for a tenant in LRU-SP.
const REVOKED_TURNOVERS: u32 = 16;
/// The price of following another expert, as a share of the pages it holds and the followed one does not.
const PRICE_SHARE: f32 = 0.25;
/// The least price, as a share of the pages that a shadow holds, while every page is sampled: where both hold
/// nearly the same, a change costs little.
const PRICE_MIN_SHARE: f32 = 1.0 / 128.0;
/// The same while a few pages stand for all, and their misses for four to sixteen times as many. Below an
/// eighth some large caches leave ARC too early.
const PRICE_MIN_SHARE_OF_SAMPLE: f32 = 1.0 / 8.0;
/// The share of pages that must have been used again, when the pool is full for the first time, for ARC to be
/// the first choice. Where nothing comes back ARC's preference for what was used twice is a guess, and LRU is
/// not worse than any.
const FIRST_REUSE_SHARE: f32 = 1.0 / 16.0;

/// How the automatic manager decides.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strategy {
    /// By what was learned of reuse intervals, always.
    Reuse,
    /// The same, except while a shadow cache shows that LRU or ARC does better.
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

/// What is known of a frame; four to a cache line.
#[derive(Clone, Copy)]
struct Frame {
    /// When the page was used last. Ages are taken modulo 2^32, so that a page unused for 500 million misses
    /// looks young.
    last: u32,
    /// Where `own` lists it, or [`NIL`] if the tenant does not own it.
    own_at: u32,
    /// The sample that remembers the page, or [`NIL`].
    sample: u32,
    /// Who used it last.
    stream: u16,
    kind: u8,
    marks: Marks,
}

/// Two bits a frame.
#[derive(Clone, Copy, Default)]
struct Marks(u8);

impl Marks {
    /// The page is one of the sample.
    const SAMPLED: u8 = 1;
    /// The page was used again since it came, or came back while ARC remembered it.
    const TWICE: u8 = 2;

    #[inline]
    fn has(self, mark: u8) -> bool {
        self.0 & mark != 0
    }
}

/// The automatic manager. The module's documentation tells how it decides.
///
/// 36 bytes a frame (16 for the frame, 4 for the list of those owned, 16 for departed pages) and 18 for its
/// places in the orders of use; 14 for samples from 8,192 frames on (28 from 4,096). Below, where every page
/// is sampled, samples need 246 bytes a frame, and nothing else keeps an order. 5 for classes, at least 170
/// KB once there are any; and 96 bytes a stream remembered, at most 4,096.
pub struct Automatic {
    strategy: Strategy,
    now: u32,
    pool_frames: u32,
    /// Uses of a hot page that follow within this time are one.
    repeat_time: u32,
    /// Looks at samples that are due, times their rate.
    looks_due: u32,
    /// By frame number.
    frames: Vec<Frame>,
    /// The frames of the tenant's blocks, in no order.
    own: Vec<u32>,
    /// The frames owned in their order of use, while not every page is sampled.
    orders: Orders,
    departed: DepartedPages,
    classes: Classes,
    streams: Streams,
    samples: Samples,
    judge: Judge,
    /// The expert that chooses victims: the one that the judge follows or, while pages are being listed for
    /// choices by value, the one that it followed before.
    acting: Expert,
    acting_since: u32,
    /// Whether no question has been asked yet.
    is_undecided: bool,
    random: SplitMix64,
}

impl Automatic {
    /// A manager for a tenant of a pool of `pool_frames`.
    pub fn new(strategy: Strategy, pool_frames: u32, seed: u64) -> Self {
        let pool_frames = pool_frames.max(1);
        Self::with_samples(strategy, pool_frames, seed, Samples::new(pool_frames, Self::first(strategy)))
    }

    /// The expert that is followed while nothing is known.
    fn first(strategy: Strategy) -> Expert {
        match strategy {
            Strategy::Reuse => Expert::Value,
            Strategy::Auto => Expert::Lru,
        }
    }

    fn with_samples(strategy: Strategy, pool_frames: u32, seed: u64, samples: Samples) -> Self {
        let first = Self::first(strategy);
        let turnover = pool_frames.saturating_mul(TIME_PER_MISS);
        // While every page is sampled, the shadows keep the orders.
        let ordered = if samples.is_complete() { 0 } else { pool_frames };
        let classes_max = (pool_frames / FRAMES_PER_CLASS).max(CLASSES_MIN) as usize;
        Self {
            strategy,
            now: 0,
            pool_frames,
            repeat_time: turnover / REPEATS_PER_TURNOVER,
            looks_due: 0,
            frames: Vec::with_capacity(pool_frames as usize),
            own: Vec::with_capacity(pool_frames as usize),
            orders: Orders::new(ordered, first == Expert::Value),
            departed: DepartedPages::new(pool_frames.saturating_mul(2)),
            classes: Classes::new(turnover as f32, samples.learned_max() as f32, classes_max),
            streams: Streams::new(turnover.saturating_mul(REVOKED_TURNOVERS), samples.is_complete()),
            samples,
            judge: Judge::new(first),
            acting: first,
            acting_since: 0,
            is_undecided: true,
            random: SplitMix64::new(seed),
        }
    }

    /// A sampled page is used. Returns its sample.
    fn learn(&mut self, access: &SampledAccess) -> u32 {
        let sampled = self.samples.access(access, &mut self.classes, &mut self.streams);
        if let Some(frame) = self.frames.get_mut(sampled.forgotten as usize) {
            frame.sample = NIL;
        }
        if self.strategy == Strategy::Auto && sampled.known && sampled.had.are_divided() {
            self.judge(sampled.had);
        }
        sampled.slot
    }

    /// The page in `frame`, one of the sample, is used.
    #[inline(never)]
    fn learn_of(&mut self, frame: FrameId, access: SampledAccess) {
        let sample = self.learn(&access);
        if sample != access.slot {
            self.samples.settle(sample, frame.0);
            self.frames[frame.index()].sample = sample;
        }
    }

    fn judge(&mut self, had: Shadows) {
        let capacity = self.samples.capacity(self.own.len() as u32);
        let (samples, followed) = (&self.samples, self.judge.followed());
        let share_min = if samples.is_complete() { PRICE_MIN_SHARE } else { PRICE_MIN_SHARE_OF_SAMPLE };
        let price_min = (capacity as f32 * share_min).max(1.0);
        let price =
            |expert| (samples.holdings().difference(expert, followed) as f32 * PRICE_SHARE).max(price_min);
        if self.judge.score(had, capacity, price) {
            self.follow();
        } else if followed != Expert::Value && !samples.is_complete() && !self.is_undecided {
            if self.judge.has_no_lead(Expert::Value) {
                self.orders.leave_classes();
            } else if self.judge.leans_to(Expert::Value, price_min)
                && self.judge.leans_to(Expert::Value, price(Expert::Value))
            {
                self.orders.list_classes();
            }
        }
    }

    /// Whom to follow before the shadows differ: values tell pages apart by stream, and where there is only
    /// one, or each leaves its pages to the next, they know no more than ARC does; ARC knows no more than LRU
    /// where no page has been used twice.
    #[cold]
    fn decide_first(&mut self) {
        let first = if self.streams.are_told_apart() && !self.streams.leave_pages_to_others() {
            Expert::Value
        } else if self.classes.reused_share(NEW) >= FIRST_REUSE_SHARE {
            Expert::Arc
        } else {
            Expert::Lru
        };
        self.judge.follow(first);
        self.follow();
    }

    /// Orders and samples follow the expert that the judge follows.
    #[cold]
    fn follow(&mut self) {
        let followed = self.judge.followed();
        if followed != Expert::Value {
            self.orders.leave_classes();
            self.act();
        } else if self.samples.is_complete() || self.orders.list_classes() {
            self.act();
        }
        let frames = &self.frames;
        let forgotten = self.own.iter().copied().filter(|frame| frames[*frame as usize].sample == NIL);
        self.samples.follow(followed, forgotten);
    }

    /// Lists a few pages more, so that victims can be chosen by value.
    #[cold]
    fn list_pages(&mut self, count: u32) {
        let Self { frames, streams, now, .. } = self;
        let age = |frame: u32| now.wrapping_sub(frames[frame as usize].last);
        let class = |frame: u32| {
            let Frame { stream, kind, .. } = frames[frame as usize];
            streams.class(stream, kind)
        };
        let all = self.orders.advance(count, &self.classes, age, class);
        if all && self.judge.followed() == Expert::Value {
            self.act();
        }
    }

    /// The expert that the judge follows chooses victims from now on.
    fn act(&mut self) {
        (self.acting, self.acting_since) = (self.judge.followed(), self.now);
    }

    /// The kind of a page that `stream` uses and that comes in now; it was in the pool when `departed` was
    /// noted.
    fn kind_of(&self, stream: u16, departed: Option<Departed>, now: u32) -> u8 {
        match departed {
            Some(Departed { last, kind, .. }) => {
                self.streams.kind(&self.classes, stream, now.wrapping_sub(last), kind)
            }
            None => self.streams.kind_of_unknown(&self.classes, stream),
        }
    }

    /// While every page is sampled: learns from the access that misses, so that the shadow followed makes
    /// room for its page first, and gives up what the shadow does not hold.
    fn choose_leftover(
        &mut self,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        let known = missing.map_or(NIL, |access| self.samples.find(access.page));
        if let Some(access) = missing
            && !self.samples.is_counted_ahead(known)
        {
            let now = self.now.wrapping_add(TIME_PER_MISS);
            let stream = self.streams.find(&mut self.classes, access.context, access.file, now);
            let kind = self.kind_of(stream, self.departed.find(access.page), now);
            let frames = self.own.len() as u32;
            let access = SampledAccess { page: access.page, stream, kind, now, slot: known, frames };
            let slot = self.learn(&access);
            self.samples.count_ahead(slot);
        }
        self.samples.holdings().leftover(busy)
    }

    /// The page of least value; if it is in use, one of those used right before and after it.
    fn choose_by_value(&mut self, candidate: FrameId, busy: &mut dyn FnMut(FrameId) -> bool) -> FrameId {
        let (frames, now) = (&self.frames, self.now);
        let age = |frame: u32| now.wrapping_sub(frames[frame as usize].last);
        let Some(by_class) = self.orders.by_class() else { return candidate };
        for _ in 0..DRAWN {
            let frame = self.own[self.random.below(self.own.len() as u64) as usize];
            let age = age(frame);
            by_class.consider(frame, age, self.classes.bucket(age), &self.classes);
        }
        let Some(least) = by_class.least(&self.classes, age) else { return candidate };
        let mut may_go = |frame: u32| frame == candidate.0 || !busy(FrameId(frame));
        if may_go(least) {
            return FrameId(least);
        }
        let mut ends = [least; 2];
        for _ in 0..NEIGHBOURS_MAX {
            for (side, end) in ends.iter_mut().enumerate().filter(|(_, end)| **end != NIL) {
                *end = by_class.neighbours(*end)[side];
                if *end != NIL && may_go(*end) {
                    return FrameId(*end);
                }
            }
        }
        candidate
    }

    /// The oldest page of those used once or of the others, whichever ARC's shadow gives less room.
    fn choose_by_arc(&self, candidate: FrameId, busy: &mut dyn FnMut(FrameId) -> bool) -> FrameId {
        let owned = self.own.len() as u32;
        let target = self.samples.once_share(owned) * owned as f32;
        let twice = self.orders.once() as f32 <= target;
        let mut frame = self.orders.oldest(twice);
        // Pages in use are young, so hardly ever the first ones.
        for _ in 0..ARC_LOOKS_MAX {
            if frame == NIL {
                break;
            }
            if frame == candidate.0 || !busy(FrameId(frame)) {
                return FrameId(frame);
            }
            frame = self.orders.next(frame);
        }
        candidate
    }
}

impl Manager for Automatic {
    fn new_block(&mut self, block: &Block) {
        self.now = self.now.wrapping_add(TIME_PER_MISS);
        let now = self.now;
        self.looks_due += LOOKS_PER_MISS;
        let looks = self.looks_due >> self.samples.rate().trailing_zeros();
        self.looks_due &= self.samples.rate() - 1;
        self.samples.look(looks, now, &mut self.classes);

        let frame = block.frame.0;
        if frame as usize >= self.frames.len() {
            let vacant = Frame { last: 0, own_at: NIL, sample: NIL, stream: 0, kind: NEW, marks: Marks(0) };
            lengthen(&mut self.frames, frame as usize + 1, vacant);
        }
        let own_at = self.own.len() as u32;
        self.own.push(frame);
        let stream = self.streams.find(&mut self.classes, block.context, block.file, now);
        let departed = self.departed.take(block.page);
        let kind = self.kind_of(stream, departed, now);
        let twice =
            departed.is_some_and(|departed| self.samples.arc_remembers(departed.twice, departed.last));
        let (mut sample, mut marks) = (NIL, 0);
        if self.samples.takes(block.page) {
            sample = self.samples.find(block.page);
            if !self.samples.is_counted_ahead(sample) {
                let (page, frames) = (block.page, own_at + 1);
                sample = self.learn(&SampledAccess { page, stream, kind, now, slot: sample, frames });
            }
            self.samples.settle(sample, frame);
            marks |= Marks::SAMPLED;
        }
        marks |= u8::from(twice) * Marks::TWICE;
        self.frames[frame as usize] = Frame { last: now, own_at, sample, stream, kind, marks: Marks(marks) };
        self.streams[stream].misses += 1;
        self.streams[stream].frames += 1;
        if !self.samples.is_complete() {
            self.orders.insert(frame, twice, || self.streams.class(stream, kind), &self.classes);
            if self.is_undecided
                && self.own.len() as u32 >= self.pool_frames - self.pool_frames / LISTED_EARLY
            {
                self.orders.list_classes();
            }
            if self.orders.is_listing() {
                self.list_pages(LISTED_PER_MISS);
            }
        }
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        let entry = &mut self.frames[frame.index()];
        let at = std::mem::replace(&mut entry.own_at, NIL);
        let Frame { last, stream, kind, marks, sample, .. } = *entry;
        entry.sample = NIL;
        self.streams[stream].frames -= 1;
        self.samples.left(sample, frame.0);
        let twice = marks.has(Marks::TWICE);
        if !self.samples.is_complete() {
            self.orders.remove(frame.0, twice);
        }
        self.departed.insert(page, Departed { last, stream, kind, twice }, self.now);
        self.own.swap_remove(at as usize);
        if let Some(&moved) = self.own.get(at as usize) {
            self.frames[moved as usize].own_at = at;
        }
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.now = self.now.wrapping_add(1);
        let now = self.now;
        let stream = self.streams.hit(&mut self.classes, access.context, access.file, now);
        let entry = &mut self.frames[frame.index()];
        let Frame { last, own_at, sample, stream: last_stream, kind: before, marks } = *entry;
        if last_stream != stream {
            self.streams[last_stream].frames -= 1;
            self.streams[stream].frames += 1;
        }
        let kind = self.streams.kind(&self.classes, stream, now.wrapping_sub(last), before);
        *entry = Frame { last: now, own_at, sample, stream, kind, marks: Marks(marks.0 | Marks::TWICE) };
        if !self.samples.is_complete() {
            let twice = marks.has(Marks::TWICE);
            self.orders.use_again(frame.0, twice, || self.streams.class(stream, kind), &self.classes);
            if self.orders.is_listing() {
                self.list_pages(LISTED_PER_HIT);
            }
        }
        if marks.has(Marks::SAMPLED) {
            let frames = self.own.len() as u32;
            let access = SampledAccess { page: access.page, stream, kind, now, slot: sample, frames };
            let Self { samples, classes, streams, repeat_time, .. } = self;
            if !samples.use_held(&access, *repeat_time, classes, streams) {
                self.learn_of(frame, access);
            }
        }
    }

    /// Looks at 20 blocks or so, and asks whether one is busy only if it would be given up.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        if self.own.is_empty() {
            return candidate;
        }
        if std::mem::take(&mut self.is_undecided) && self.strategy == Strategy::Auto {
            self.decide_first();
        }
        let choice = if self.samples.is_complete() {
            self.choose_leftover(missing, busy).unwrap_or(candidate)
        } else {
            match self.acting {
                Expert::Lru => candidate,
                Expert::Arc => self.choose_by_arc(candidate, busy),
                Expert::Value => self.choose_by_value(candidate, busy),
            }
        };
        if choice != candidate && self.acting == Expert::Value {
            self.streams.overruled(&mut self.classes, self.frames[choice.index()].stream, self.now);
        }
        choice
    }

    fn prefetch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        let touched = frames.fold(0, |touched, frame| {
            let own = self.frames.get(frame.index()).map_or(0, |frame| frame.last);
            touched ^ own ^ self.orders.touch(frame.0)
        });
        std::hint::black_box(touched);
    }

    /// Intervals that are short compared to the time in memory say nothing about when a page may go.
    fn needs_every_hit(&self, _page: PageId) -> bool {
        false
    }

    /// That the page came back is what its sample, and the shadows, learn from; the stream that used it last
    /// is answerable for the mistake.
    fn placeholder_used(&mut self, missing: &Access, _placeholder: FrameId) {
        if let Some(departed) = self.departed.find(missing.page) {
            // A page that was used before values came to act may have gone by another's choice. While every
            // page is sampled such mistakes count: they keep a stream for which LRU is best from following
            // values again and again, when these are hardly ahead.
            let is_later = (departed.last.wrapping_sub(self.acting_since) as i32) >= 0;
            let is_by_value = self.acting == Expert::Value && is_later;
            self.streams.mistaken(departed.stream, is_by_value || self.samples.is_complete());
        }
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        let frame = self.frames.get(frame.index());
        frame.is_some_and(|frame| self.streams[frame.stream].label() == Class::OneShot)
    }

    fn judges_itself(&self) -> bool {
        self.strategy == Strategy::Auto
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        for stream in self.streams.iter().skip(first) {
            let evidence = self.classes.evidence(stream.classes());
            let goes_on = show(&StreamReport {
                context: stream.context(),
                file: stream.file(),
                class: stream.label(),
                samples: evidence.pages as u32,
                recency: None,
                mean_interval: evidence.mean_interval(self.pool_frames * TIME_PER_MISS),
                frames: stream.frames,
                hits: stream.hits,
                misses: stream.misses,
                mistakes: u64::from(stream.mistakes),
                revoked: stream.is_revoked(),
                unchanged: stream.unchanged(),
            });
            if !goes_on {
                return;
            }
        }
    }

    fn metadata_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.own.capacity() * size_of::<u32>()
            + self.orders.metadata_bytes()
            + self.departed.metadata_bytes()
            + self.classes.metadata_bytes()
            + self.streams.metadata_bytes()
            + self.samples.metadata_bytes()
    }

    fn check_invariants(&self) {
        for (at, frame) in self.own.iter().enumerate() {
            assert_eq!(self.frames[*frame as usize].own_at, at as u32, "place of frame {frame}");
        }
        let owned = || self.frames.iter().filter(|frame| frame.own_at != NIL);
        assert_eq!(owned().count(), self.own.len(), "frames owned");
        let mut used = vec![0; self.streams.iter().count()];
        owned().for_each(|frame| used[usize::from(frame.stream)] += 1);
        assert!(self.streams.iter().map(|stream| stream.frames).eq(used), "frames of streams");
        let in_order = |frame: u32| {
            let frame = &self.frames[frame as usize];
            let is_listed = frame.own_at != NIL && !self.samples.is_complete();
            is_listed.then_some((frame.last, frame.marks.has(Marks::TWICE)))
        };
        self.orders.check_invariants(self.frames.len() as u32, self.now, in_order);
        let is_listing = self.orders.is_listing();
        assert!(self.acting == self.judge.followed() || is_listing, "who acts");
        let sample_in = |frame: u32| {
            let frame = &self.frames[frame as usize];
            (frame.own_at != NIL).then_some(frame.sample)
        };
        self.samples.check_invariants(self.frames.len() as u32, sample_in);
        self.streams.check_invariants();
        self.classes.check_invariants(self.streams.held(), self.samples.waiting());
    }
}
