//! The order in which the rooms hear of an event.

use super::numbers::Numbers;
use super::{Recipe, Strategy, Tuning};
use crate::detect::Class;
use crate::ids::{Access, FrameId, PageId};
use crate::list::NIL;
use crate::manager::{Block, Manager, StreamReport};

use super::compare::arc::Place;
use super::compare::experts::Expert;
use super::compare::miniatures::Miniatures;
use super::learn::departed::{DepartedPages, LastUse};
use super::learn::intervals::Classes;
use super::learn::kind::Kind;
use super::learn::samples::{Rates, SampledAccess};
use super::learn::stream::StreamId;
use super::learn::streams::Streams;
use super::rank::held::{Frame, Held, UNSAMPLED, UsedOnce};

#[cfg(test)]
mod tests;

/// Samples whose age is looked at with each miss while every page is sampled; where one page in `n` is, an
/// `n`th of that. A tenant has at most four samples a frame, so a round of them takes at most half a
/// turnover.
const LOOKS_PER_MISS: u32 = 8;
/// Frames for each class of a stream: classes then need 5 bytes a frame.
const FRAMES_PER_CLASS: u32 = 128;
/// Classes of streams that there may be in any pool, however small.
const CLASSES_MIN: u32 = 256;
/// Uses of a page within this part of a turnover are one: about the youngest ages that classes tell apart.
/// What is used several times at once would else be of the kind of what is used all the time, as for LRU-K
/// (O'Neil, O'Neil, Weikum, SIGMOD '93), which has the same period for correlated references.
const REPEATS_PER_TURNOVER: u32 = 32;
/// A page used once goes first under ARC if it is older than the oldest sampled page that ARC keeps by more
/// than this part of a turnover.
const OLDER_PER_TURNOVER: u32 = 8;
/// Turnovers for which a stream that keeps being wrong is treated as under LRU: as for a tenant in LRU-SP. At
/// most half of what the clock can tell.
const REVOKED_TURNOVERS: u32 = 16;

/// What decides for a tenant that holds about as many pages as it is made for. Inside, frames have the
/// tenant's own numbers.
pub(super) struct Machine {
    strategy: Strategy,
    tuning: Tuning,
    now: u32,
    made_for: u32,
    /// A use of a page within this time of the one before is not counted, if the page was used twice already.
    repeat_time: u32,
    /// Looks at samples that are due, times their rate.
    looks_due: u32,
    numbers: Numbers,
    held: Held,
    departed: DepartedPages,
    streams: Streams,
    miniatures: Miniatures,
    /// Whether no question has been asked yet.
    is_undecided: bool,
}

impl Machine {
    /// For a tenant of about `frames` frames, at least 1.
    pub fn new(recipe: &Recipe, frames: u32, numbers: Numbers) -> Self {
        Self::with_rates(recipe, frames, numbers, Rates::new(frames, &recipe.tuning))
    }

    /// One that is asked for the [least of some](Self::least_of) pages only, and so needs no order of all.
    pub fn without_orders(self) -> Self {
        Self { held: Held::without_orders(), ..self }
    }

    fn with_rates(recipe: &Recipe, made_for: u32, numbers: Numbers, rates: Rates) -> Self {
        let Recipe { strategy, seed, ref tuning, .. } = *recipe;
        let first = match strategy {
            Strategy::Reuse => Expert::Value,
            Strategy::Auto => Expert::Lru,
        };
        let turnover = made_for.saturating_mul(tuning.time_per_miss);
        let revoked_time = turnover.saturating_mul(REVOKED_TURNOVERS).min(1 << 31);
        let classes_max = (made_for / FRAMES_PER_CLASS).max(CLASSES_MIN) as usize;
        let classes = Classes::new(turnover as f32, rates.learned_max() as f32, classes_max, tuning);
        Self {
            strategy,
            tuning: *tuning,
            now: 0,
            made_for,
            repeat_time: turnover / REPEATS_PER_TURNOVER,
            looks_due: 0,
            numbers,
            held: Held::new(seed),
            departed: DepartedPages::new(made_for),
            streams: Streams::new(classes, revoked_time, made_for, tuning),
            miniatures: Miniatures::new(rates, first, turnover, tuning),
            is_undecided: true,
        }
    }

    /// Pages of the shadow caches: as many as the cache holds of the sample. A working set that just fits, or
    /// just does not, then does so in the sample, too, however many of its pages were drawn.
    fn capacity(&self) -> u32 {
        self.held.sampled().max(1)
    }

    fn rates(&self) -> Rates {
        self.miniatures.pages.samples.rates
    }

    /// The time in which misses fill the frames that it is made for.
    fn turnover(&self) -> u32 {
        self.made_for.saturating_mul(self.tuning.time_per_miss)
    }

    /// The expert that chooses what goes.
    fn leader(&self) -> Expert {
        self.miniatures.judge.leader()
    }

    /// A sampled page is used. Returns its sample.
    fn learn(&mut self, access: &SampledAccess) -> u32 {
        let (sample, forgotten) = self.miniatures.access(access, &mut self.streams);
        if let Some(frame) = self.held.get_mut(forgotten) {
            frame.sample = NIL;
        }
        sample
    }

    /// The sampled page in `frame` is used. `stream` is the one that had used it last.
    #[inline(never)]
    fn learn_of(&mut self, frame: u32, stream: StreamId, access: SampledAccess) {
        if self.leader() == Expert::Value
            && !access.is_first()
            && !self.miniatures.pages.is_held(access.slot, Expert::Lru)
        {
            self.streams.gained(stream, self.rates().sampling);
        }
        let sample = self.learn(&access);
        if sample != access.slot {
            self.miniatures.settle(sample, frame);
            if let Some(frame) = self.held.get_mut(frame) {
                frame.sample = sample;
            }
        }
    }

    /// When the first victim is asked for: decides which expert to trust before the shadows differ. Values
    /// tell pages apart by stream: where there is only one stream, or each leaves its pages to the next, they
    /// know no more than ARC. Where hardly a page has been used twice, ARC knows no more than LRU. Where most
    /// pages have been, neither that nor their stream tells much, so LRU is trusted.
    fn decide_first(&mut self) {
        if !std::mem::take(&mut self.is_undecided) {
            return;
        }
        let Tuning { first_reuse_share, first_reuse_end, .. } = self.tuning;
        let reused = self.streams.classes.reused_share();
        let are_apart = self.streams.are_told_apart() && !self.streams.leave_pages_to_others();
        let (expert, told_by) = match are_apart {
            true => (Expert::Value, 0.0..first_reuse_end / 2.0),
            false => (Expert::Arc, first_reuse_share..first_reuse_end),
        };
        self.miniatures.judge.trust(if told_by.contains(&reused) { expert } else { Expert::Lru });
    }

    /// Who leads is decided by the regret up to now.
    #[inline]
    fn decide(&mut self) {
        if self.strategy == Strategy::Auto {
            self.miniatures.decide(self.capacity(), self.now);
        }
    }

    /// What ARC keeps of pages used once, of `capacity` sampled pages. A cache that followed another expert
    /// may have older ones.
    fn kept_by_arc(&self, capacity: u32) -> UsedOnce {
        let Miniatures { pages, arc, .. } = &self.miniatures;
        // Of the pages that are not sampled, the oldest is somewhat older.
        let margin = self.turnover() / OLDER_PER_TURNOVER;
        UsedOnce {
            share: arc.once_share(capacity),
            age_max: arc.once_age(pages, self.now).saturating_add(margin),
        }
    }

    /// The kind of a page that `stream` uses, or `creates`, and that comes in now. `departed` was its last
    /// use, if it left before and is not created.
    fn kind_of(&self, stream: StreamId, departed: Option<LastUse>, creates: bool, now: u32) -> Kind {
        match departed {
            Some(before) => self.streams.kind(stream, now.wrapping_sub(before.time), before.kind),
            None => self.streams.kind_of_unknown(stream, creates),
        }
    }

    /// The ages of a few samples are looked at, with each miss.
    fn look_at_samples(&mut self) {
        let rate = self.rates().sampling;
        self.looks_due += LOOKS_PER_MISS;
        let looks = self.looks_due >> rate.trailing_zeros();
        self.looks_due &= rate - 1;
        self.miniatures.look(looks, self.now, &mut self.streams.classes);
    }

    /// Learns from the load of a page of the sample into `frame`. Returns its sample.
    fn learn_of_new(&mut self, block: &Block, frame: u32, stream: StreamId, kind: Kind) -> u32 {
        let Block { page, created: creates, .. } = *block;
        let (now, capacity) = (self.now, self.held.sampled() + 1);
        let slot = self.miniatures.pages.samples.find(page);
        let slot = self.learn(&SampledAccess { page, stream, kind, now, slot, capacity, creates });
        self.miniatures.settle(slot, frame);
        slot
    }
}

impl Machine {
    /// How many frames it is made for.
    pub fn made_for(&self) -> u32 {
        self.made_for
    }

    /// The numbers of the frames that the tenant holds, in no order.
    pub fn own(&self) -> &[u32] {
        self.held.own()
    }

    /// The frames that the tenant holds, in the order in which they were used last.
    pub fn frames_by_use(&self) -> Vec<FrameId> {
        let mut own = self.own().to_vec();
        let age = |frame: u32| self.held.get(frame).map_or(0, |frame| self.now.wrapping_sub(frame.used.time));
        own.sort_by_key(|frame| std::cmp::Reverse(age(*frame)));
        own.into_iter().map(|frame| FrameId(self.numbers.frame(frame))).collect()
    }

    /// Whether `frame` is one of the tenant's.
    pub fn holds(&self, frame: FrameId) -> bool {
        self.numbers.find(frame.0).is_some_and(|frame| self.own().contains(&frame))
    }

    /// Which of `frames` goes, if only their pages may: the one worth least, or `candidate` where LRU leads.
    /// Where ARC does, values stand in for it: they, too, tell pages used once from others.
    pub fn least_of(
        &mut self,
        frames: impl Iterator<Item = FrameId>,
        candidate: FrameId,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        if self.numbers.find(candidate.0).is_none() {
            return candidate;
        }
        self.decide_first();
        self.decide();
        if self.leader() == Expert::Lru {
            return candidate;
        }
        let last_use = |frame: FrameId| Some(self.held.get(self.numbers.find(frame.0)?)?.used);
        let value = |frame: FrameId| {
            let LastUse { time, stream, kind, .. } = last_use(frame)?;
            let values = self.streams.classes.values(self.streams.class(stream, kind));
            Some(self.streams.classes.ages.value(values, self.now.wrapping_sub(time)))
        };
        let Some(mut least) = value(candidate) else { return candidate };
        let mut choice = candidate;
        for frame in frames {
            if let Some(value) = value(frame).filter(|value| *value < least)
                && !busy(frame)
            {
                (least, choice) = (value, frame);
            }
        }
        if choice != candidate
            && let Some(chosen) = last_use(choice)
        {
            self.streams.overruled(chosen.stream, self.now);
        }
        choice
    }
}

impl Manager for Machine {
    fn new_block(&mut self, block: &Block) {
        self.now = self.now.wrapping_add(self.tuning.time_per_miss);
        self.look_at_samples();
        let now = self.now;
        let stream = self.streams.find(block.context, block.file, now);
        let departed = self.departed.take(block.page).filter(|_| !block.created);
        let kind = self.kind_of(stream, departed, block.created, now);
        let frame = self.numbers.add(block.frame.0, self.held.own());
        // ARC's shadow knows this of pages of the sample. For others it is an estimate.
        let (sample, twice) = if self.rates().samples(block.page) {
            let sample = self.learn_of_new(block, frame, stream, kind);
            (sample, self.miniatures.pages.samples[sample].shadowed.arc == Place::T2)
        } else {
            let remembered = |left: LastUse| self.miniatures.arc.remembers(left.twice, left.time, now);
            (UNSAMPLED, departed.is_some_and(remembered))
        };
        self.streams.missed(stream, now);
        self.streams[stream].frames += 1;
        self.held.insert(frame, sample, LastUse { time: now, stream, kind, twice }, &self.streams);
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        let Some(frame) = self.numbers.remove(frame.0) else { return };
        let gone = self.held.remove(frame);
        self.streams[gone.used.stream].frames -= 1;
        self.miniatures.leave(gone.sample);
        self.departed.insert(page, gone.used, self.now, self.held.len() + 1);
    }

    #[inline]
    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        let Some(frame) = self.numbers.find(frame.0) else { return };
        self.now = self.now.wrapping_add(1);
        let now = self.now;
        let stream = self.streams.find(access.context, access.file, now);
        self.streams[stream].hits += 1;
        let Some(&Frame { used: before, sample, .. }) = self.held.get(frame) else { return };
        // A sample ignores repeated uses, and classes learn from samples: so a page is valued by the same
        // kind as it is learned in.
        let is_repeated = before.twice && now.wrapping_sub(before.time) < self.repeat_time;
        if is_repeated && !access.creates {
            return;
        }
        if before.stream != stream {
            self.streams[before.stream].frames -= 1;
            self.streams[stream].frames += 1;
        }
        let kind = if access.creates {
            let kind = self.streams.kind_of_unknown(stream, true);
            self.held.renew(frame, now, stream, kind, &self.streams);
            kind
        } else {
            let kind = self.streams.kind(stream, now.wrapping_sub(before.time), before.kind);
            self.held.use_again(frame, now, stream, kind, &self.streams);
            kind
        };
        if sample != UNSAMPLED {
            let (slot, capacity) = (sample, self.capacity());
            let Access { page, creates, .. } = *access;
            let access = SampledAccess { page, stream, kind, now, slot, capacity, creates };
            if !self.miniatures.use_held(&access, &mut self.streams) {
                self.learn_of(frame, before.stream, access);
            }
        }
    }

    /// Looks at 20 blocks or so, and asks whether one is busy only if it would be given up. Where those are
    /// busy, it looks at some hundred more at most.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let number = self.numbers.find(candidate.0).filter(|_| !self.own().is_empty());
        let Some(number) = number else { return candidate };
        self.decide_first();
        self.decide();
        let (leader, capacity) = (self.leader(), self.capacity());
        let busy = &mut |number| busy(FrameId(self.numbers.frame(number)));
        let choice = match leader {
            Expert::Lru => number,
            Expert::Arc => self.held.least_by_arc(number, self.now, self.kept_by_arc(capacity), busy),
            Expert::Value => {
                let (classes, share) = (&self.streams.classes, self.tuning.instead_of_held);
                self.held.least_by_value(number, self.now, classes, share, busy)
            }
        };
        if choice != number
            && leader == Expert::Value
            && let Some(chosen) = self.held.get(choice)
        {
            self.streams.overruled(chosen.used.stream, self.now);
        }
        FrameId(self.numbers.frame(choice))
    }

    fn touch(&self, frames: &mut dyn Iterator<Item = FrameId>) {
        let frames = frames.filter_map(|frame| self.numbers.find(frame.0));
        std::hint::black_box(frames.fold(0, |touched, frame| touched ^ self.held.touch(frame)));
    }

    fn touch_pages(&self, pages: &[PageId]) {
        // Few instructions a page, so that the processor waits for many pages at a time.
        let departed = pages.iter().fold(0, |touched, page| touched ^ self.departed.touch(*page));
        let rates = self.rates();
        let sampled = pages.iter().filter(|page| rates.samples(**page));
        std::hint::black_box(
            sampled.fold(departed, |touched, page| touched ^ self.miniatures.pages.samples.touch(*page)),
        );
    }

    fn touch_question(&self, missing: PageId) {
        self.touch_pages(&[missing]);
        if self.leader() == Expert::Value {
            self.held.touch_by_value();
        }
    }

    fn places(
        &self,
        pages: &[PageId],
        frames: &mut dyn Iterator<Item = FrameId>,
        show: &mut dyn FnMut(*const u8),
    ) {
        pages.iter().for_each(|page| show(self.departed.place_of(*page)));
        for frame in frames.filter_map(|frame| self.numbers.find(frame.0)) {
            self.held.places_of(frame).into_iter().for_each(&mut *show);
        }
    }

    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        let likely = match self.leader() {
            Expert::Lru => None,
            Expert::Arc => self.held.likely_by_arc(self.miniatures.arc.once_share(self.capacity())),
            Expert::Value => self.held.likely_by_value(),
        };
        likely.map_or(candidate, |frame| FrameId(self.numbers.frame(frame)))
    }

    /// The stream that used the page last answers for the mistake while values lead. Samples and shadows
    /// learn from the page's return itself, when it comes in.
    fn placeholder_used(&mut self, missing: &Access, _placeholder: FrameId) {
        if let Some(departed) = self.departed.find(missing.page).filter(|_| !missing.creates) {
            // A page that was last used before values led may have gone by another expert's choice, which is
            // not the stream's mistake. Nor does it answer for the first half turnover of values: little of
            // what they keep can have been hit later than under LRU, so little could make up for mistakes.
            let half_turnover = self.turnover() / 2;
            let judge = &self.miniatures.judge;
            let is_by_value = judge.values_lead_since(departed.time, half_turnover, self.now);
            self.streams.mistaken(departed.stream, is_by_value);
        }
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        let frame = self.numbers.find(frame.0).and_then(|frame| self.held.get(frame));
        frame.is_some_and(|frame| self.streams[frame.used.stream].label == Class::OneShot)
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        for stream in self.streams.iter().skip(first) {
            let evidence = self.streams.classes.evidence(stream.classes());
            let goes_on = show(&StreamReport {
                context: stream.context(),
                file: stream.file(),
                class: stream.label,
                samples: evidence.pages as u32,
                recency: None,
                mean_interval: evidence.mean_interval(self.turnover()),
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
        size_of::<Self>()
            + self.numbers.metadata_bytes()
            + self.held.metadata_bytes()
            + self.departed.metadata_bytes()
            + self.streams.metadata_bytes()
            + self.miniatures.metadata_bytes()
    }

    fn check_invariants(&self) {
        self.numbers.check_invariants(self.held.own());
        self.held.check_invariants(self.now);
        let owned = || self.held.own().iter().filter_map(|frame| self.held.get(*frame));
        let mut used = vec![0; self.streams.iter().count()];
        owned().for_each(|frame| used[frame.used.stream.index()] += 1);
        assert!(self.streams.iter().map(|stream| stream.frames).eq(used), "frames of streams");
        let sample_in = |frame: u32| self.held.get(frame).filter(|f| f.is_owned()).map(|frame| frame.sample);
        self.miniatures.check_invariants(sample_in);
        self.streams.check_invariants();
        self.streams.classes.check_invariants(self.streams.held(), self.miniatures.pages.samples.waiting());
    }
}
