//! The pages learned from: a sample by hash, remembered well beyond their eviction, and three shadow caches
//! over them.
//!
//! A page's last access is remembered for as long as its frame time allows to learn loops of about four times
//! the cache. Over the same pages run miniatures of the cache (Waldspurger, Saemundsson, Ahmad, Park, "Cache
//! Modeling and Optimization using Miniature Simulations", USENIX ATC '17): by LRU, by ARC, and by value.
//! What one misses and another does not is what following the other is worth.
//!
//! While every page is sampled, the shadows are as large as the cache, and the cache follows one exactly: it
//! gives up what the shadow does not hold ([`Holdings::leftover`]).

use super::arc::{Arc, Place};
use super::by_class::PagesByClass;
use super::experts::{Expert, Shadows};
use super::holdings::Holdings;
use super::intervals::{ClassId, Classes, NONE};
use super::labels::label;
use super::streams::Streams;
use crate::ids::PageId;
use crate::list::{Links, List, NIL};
use crate::random::mix64;
use crate::slot_index::SlotIndex;

/// Sampled pages remembered for each that the cache can hold: a loop longer than that is not seen as one.
const REACH: u32 = 4;
/// Frames of the largest pool in which every page is sampled, so that the shadows, and the choice between
/// them, are exact where there are few accesses to choose by. A hit on a sampled page costs four times one on
/// another.
const SMALL_POOL: u32 = 4095;
/// Pages that the cache can hold and whose intervals are learned, at least, where not those of all are.
const LEARNED_FRAMES_MIN: u32 = 512;
/// The most pages of which one is sampled: memory is then a quarter of a sample a frame.
const RATE_MAX: u32 = 16;
/// Remembered pages that a shadow still holds and that get another round, at most, before one is forgotten.
const ROUNDS_MAX: u32 = 8;

#[derive(Clone, Copy)]
struct Sample {
    page: PageId,
    /// When it was used last.
    last: u32,
    /// The frame that holds it, or [`NIL`].
    frame: u32,
    /// Its number in the shadow by value, or [`NIL`].
    kept_at: u32,
    /// The class in which it waits; [`NONE`] if its intervals are not learned.
    class: ClassId,
    stream: u16,
    kind: u8,
    /// The bucket it is counted as waiting in.
    bucket: u8,
    /// Which shadows hold it.
    held: Shadows,
    arc: Place,
    /// Whether its access was counted before the page came in.
    ahead: bool,
}

impl Sample {
    /// The page, whose intervals are learned, is used again at `now`, or forgotten.
    #[inline]
    fn end_wait(&self, now: u32, reused: bool, classes: &mut Classes, streams: &mut Streams) {
        if classes.end(self.class, usize::from(self.bucket), now.wrapping_sub(self.last), reused) {
            label(&mut streams[self.stream], classes);
        }
    }
}

/// Pages that one shadow holds of a cache of `frames` frames, if one page in `rate`, a power of two, is
/// sampled.
#[inline]
fn capacity(frames: u32, rate: u32) -> u32 {
    ((frames + (rate - 1)) >> rate.trailing_zeros()).max(1)
}

/// An access to a sampled page.
#[derive(Clone, Copy)]
pub(super) struct SampledAccess {
    pub page: PageId,
    pub stream: u16,
    pub kind: u8,
    pub now: u32,
    /// The page's sample, or [`NIL`] if it is not remembered.
    pub slot: u32,
    /// How many frames the tenant holds.
    pub frames: u32,
}

/// What came of it.
#[derive(Clone, Copy)]
pub(super) struct Sampled {
    pub slot: u32,
    /// The frame of a page that was forgotten, or [`NIL`].
    pub forgotten: u32,
    /// Which shadows had the page.
    pub had: Shadows,
    /// Whether the sample remembered the page.
    pub known: bool,
}

/// The sampled pages of a tenant.
pub(super) struct Samples {
    rate: u32,
    /// The number of pages of which the intervals of one are learned: a power of two, at least `rate`.
    learning_rate: u32,
    samples_max: u32,
    samples: Vec<Sample>,
    links: Links,
    /// Oldest at the head. The LRU shadow holds the newest `lru_len`, from `lru_oldest` on.
    recency: List,
    lru_oldest: u32,
    lru_len: u32,
    arc: Arc,
    /// What the shadow by value holds, by number; [`NIL`] where a number is free.
    kept: Vec<u32>,
    vacant: Vec<u32>,
    /// The numbers taken.
    by_class: PagesByClass,
    index: SlotIndex,
    /// What each shadow holds, and, while every page is sampled, the frames whose page the followed one does
    /// not.
    holdings: Holdings,
    /// The next sample whose age is looked at; the first if there is none.
    cursor: usize,
    /// The sample whose access was counted ahead last.
    latest_ahead: u32,
}

impl Samples {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32, followed: Expert) -> Self {
        let learning_rate = 1 << (frames / LEARNED_FRAMES_MIN).clamp(1, RATE_MAX).ilog2();
        let rate = if frames <= SMALL_POOL { 1 } else { learning_rate };
        Self::with_rates(frames, rate, learning_rate, followed)
    }

    /// The same, which samples one page in `rate`.
    pub fn with_rates(frames: u32, rate: u32, learning_rate: u32, followed: Expert) -> Self {
        let samples_max = (frames.saturating_mul(REACH) / rate).max(8);
        let kept_max = capacity(frames, rate);
        Self {
            rate,
            learning_rate,
            samples_max,
            samples: Vec::with_capacity(samples_max as usize),
            links: Links::with_capacity(samples_max),
            recency: List::new(),
            lru_oldest: NIL,
            lru_len: 0,
            arc: Arc::with_capacity(samples_max),
            kept: Vec::with_capacity(kept_max as usize),
            vacant: Vec::with_capacity(kept_max as usize),
            by_class: PagesByClass::with_capacity(kept_max),
            index: SlotIndex::default(),
            holdings: Holdings::new(followed, rate == 1),
            cursor: 0,
            latest_ahead: NIL,
        }
    }

    /// The number of pages of which one is sampled: a power of two.
    pub fn rate(&self) -> u32 {
        self.rate
    }

    /// Whether every page is sampled.
    pub fn is_complete(&self) -> bool {
        self.rate == 1
    }

    /// The most pages whose intervals are being learned, about.
    pub fn learned_max(&self) -> u32 {
        self.samples_max * self.rate / self.learning_rate
    }

    /// Whether `page` is one of the sample. The hash's other bits are left to the index and the table of
    /// departed pages.
    #[inline]
    pub fn takes(&self, page: PageId) -> bool {
        Self::is_drawn(page, self.rate)
    }

    /// Whether `page` is among the one in `rate`.
    #[inline]
    fn is_drawn(page: PageId, rate: u32) -> bool {
        (mix64(page.0) >> 32) & u64::from(rate - 1) == 0
    }

    /// Pages that one shadow holds.
    pub fn capacity(&self, frames: u32) -> u32 {
        capacity(frames, self.rate)
    }

    /// What each shadow holds.
    pub fn holdings(&self) -> &Holdings {
        &self.holdings
    }

    /// The share of the cache that ARC gives to pages used once.
    pub fn once_share(&self, frames: u32) -> f32 {
        self.arc.once_share(self.capacity(frames))
    }

    /// Whether ARC would remember, as resident or by a ghost, a page used last at `last`, once or `twice`.
    pub fn arc_remembers(&self, twice: bool, last: u32) -> bool {
        let oldest = self.arc.oldest(twice).map(|slot| self.samples[slot as usize].last);
        oldest.is_some_and(|oldest| last.wrapping_sub(oldest) as i32 >= 0)
    }

    /// A page is used that every shadow holds, and none has to give up another for it: most of those in
    /// memory. Otherwise returns false, and does nothing. Uses of a page known to ARC as used twice within
    /// `repeat_time` are one: another changes next to nothing.
    #[inline]
    pub fn use_held(
        &mut self,
        access: &SampledAccess,
        repeat_time: u32,
        classes: &mut Classes,
        streams: &mut Streams,
    ) -> bool {
        let (slot, rate) = (access.slot, self.rate);
        let Some(sample) = self.samples.get_mut(slot as usize).filter(|sample| sample.held.are_all()) else {
            return false;
        };
        if access.now.wrapping_sub(sample.last) < repeat_time && sample.arc == Place::T2 {
            return true;
        }
        let capacity = capacity(access.frames, rate);
        if self.lru_oldest == slot || self.lru_len > capacity || !self.arc.hit(slot, sample.arc, capacity) {
            return false;
        }
        sample.arc = Place::T2;
        self.recency.move_to_tail(&mut self.links, slot);
        let valued = Self::learn(sample, access, sample.class != NONE, capacity, classes, streams);
        self.by_class.use_again(sample.kept_at, valued, classes);
        true
    }

    /// A sampled page is used.
    pub fn access(
        &mut self,
        access: &SampledAccess,
        classes: &mut Classes,
        streams: &mut Streams,
    ) -> Sampled {
        let SampledAccess { page, now, slot, frames, .. } = *access;
        let (capacity, known) = (self.capacity(frames), slot != NIL);
        let (slot, forgotten) = if known { (slot, NIL) } else { self.admit(page, now, classes, streams) };
        let sample = &mut self.samples[slot as usize];
        let had = sample.held;
        let is_learned = if known { sample.class != NONE } else { Self::is_drawn(page, self.learning_rate) };
        let valued = Self::learn(sample, access, is_learned, capacity, classes, streams);
        if had.has(Expert::Lru) && self.lru_oldest != slot && self.lru_len <= capacity {
            self.recency.move_to_tail(&mut self.links, slot);
        } else {
            if known {
                self.unlink(slot);
            }
            self.enter_lru(slot, capacity);
        }
        self.enter_arc(slot, capacity);
        match self.samples[slot as usize].kept_at {
            NIL => {
                let number = self.keep(slot, capacity, classes);
                self.by_class.push(number, valued, classes);
            }
            number => self.by_class.use_again(number, valued, classes),
        }
        Sampled { slot, forgotten, had, known }
    }

    /// Learns what a use of the page of `sample` tells of streams and, if it `is_learned`, of intervals.
    /// Returns the class by which the page is valued from now on.
    #[inline(always)]
    fn learn(
        sample: &mut Sample,
        access: &SampledAccess,
        is_learned: bool,
        capacity: u32,
        classes: &mut Classes,
        streams: &mut Streams,
    ) -> ClassId {
        let SampledAccess { stream, kind, now, slot, .. } = *access;
        if slot != NIL {
            if sample.stream == stream {
                let lru_hits = sample.held.has(Expert::Lru);
                streams.use_again(classes, stream, sample.last, now, lru_hits, capacity);
            } else {
                streams.use_by_another();
            }
            if is_learned {
                sample.end_wait(now, true, classes, streams);
            }
        }
        if is_learned {
            sample.class = streams.class_to_learn(classes, stream, kind);
            classes.begin(sample.class);
        }
        (sample.last, sample.stream, sample.kind, sample.bucket) = (now, stream, kind, 0);
        streams.class(stream, kind)
    }

    /// The page of `slot` is in `frame`.
    pub fn settle(&mut self, slot: u32, frame: u32) {
        let sample = &mut self.samples[slot as usize];
        sample.frame = frame;
        sample.ahead = false;
        self.holdings.settle(sample.held, frame);
    }

    /// The access for which the page of `slot` is to come in has been counted.
    pub fn count_ahead(&mut self, slot: u32) {
        self.samples[slot as usize].ahead = true;
        self.latest_ahead = slot;
    }

    /// The sample of `page`, or [`NIL`].
    pub fn find(&self, page: PageId) -> u32 {
        let latest = self.latest_ahead;
        if self.samples.get(latest as usize).is_some_and(|sample| sample.page == page) {
            return latest;
        }
        self.index.find(page.0, |slot| self.samples[slot as usize].page.0).unwrap_or(NIL)
    }

    /// Whether the access for which the page of `slot` is to come in was counted ahead; not if that is
    /// [`NIL`].
    pub fn is_counted_ahead(&self, slot: u32) -> bool {
        self.samples.get(slot as usize).is_some_and(|sample| sample.ahead)
    }

    /// The page of `slot`, or one no longer remembered, has left `frame`.
    pub fn left(&mut self, slot: u32, frame: u32) {
        if let Some(sample) = self.samples.get_mut(slot as usize) {
            sample.frame = NIL;
        }
        self.holdings.set_leftover(frame, false);
    }

    /// Looks at the ages of the next `count` samples, so that pages that are not used again count as such.
    pub fn look(&mut self, count: u32, now: u32, classes: &mut Classes) {
        let Self { samples, by_class, cursor, .. } = self;
        let len = samples.len();
        let mut count = (count as usize).min(len);
        while count > 0 {
            let begin = if *cursor < len { *cursor } else { 0 };
            let end = (begin + count).min(len);
            for sample in &mut samples[begin..end] {
                let age = now.wrapping_sub(sample.last);
                let bucket = classes.bucket(age);
                if sample.kept_at != NIL {
                    by_class.consider(sample.kept_at, age, bucket, classes);
                }
                // Which samples are learned from follows no pattern: one branch for both.
                if (sample.class != NONE) & (bucket != usize::from(sample.bucket)) {
                    classes.wait(sample.class, usize::from(sample.bucket), bucket);
                    sample.bucket = bucket as u8;
                }
            }
            (*cursor, count) = (end, count - (end - begin));
        }
    }

    /// From now on the cache follows `expert`. `forgotten` are the frames whose pages are not remembered.
    pub fn follow(&mut self, expert: Expert, forgotten: impl Iterator<Item = u32>) {
        self.holdings.follow(expert);
        if !self.is_complete() {
            return;
        }
        forgotten.for_each(|frame| self.holdings.set_leftover(frame, true));
        let mut slot = self.recency.head();
        while slot != NIL {
            let Sample { frame, held, .. } = self.samples[slot as usize];
            if frame != NIL && !held.has(expert) {
                self.holdings.set_leftover(frame, true);
            }
            slot = self.links.next(slot);
        }
    }

    /// A slot for a page not remembered, in no list; the caller sets the rest. Also the frame of the page
    /// that was forgotten for it, if it is in one.
    fn admit(&mut self, page: PageId, now: u32, classes: &mut Classes, streams: &mut Streams) -> (u32, u32) {
        let sample = Sample {
            page,
            last: now,
            frame: NIL,
            kept_at: NIL,
            class: NONE,
            stream: 0,
            kind: 0,
            bucket: 0,
            held: Shadows::default(),
            arc: Place::Out,
            ahead: false,
        };
        self.holdings.add();
        let mut forgotten = NIL;
        let slot = if self.samples.len() < self.samples_max as usize {
            self.samples.push(sample);
            let slot = self.samples.len() as u32 - 1;
            self.links.grow_to(slot);
            self.arc.grow_to(slot);
            slot
        } else {
            let slot = self.forget_oldest(now, classes, streams);
            forgotten = std::mem::replace(&mut self.samples[slot as usize], sample).frame;
            slot
        };
        self.index.insert(page.0, slot, |slot| self.samples[slot as usize].page.0);
        (slot, forgotten)
    }

    /// Forgets the oldest sample; one that ARC or the shadow by value holds gets another round behind what
    /// LRU holds.
    fn forget_oldest(&mut self, now: u32, classes: &mut Classes, streams: &mut Streams) -> u32 {
        for _ in 0..ROUNDS_MAX {
            let oldest = self.recency.head();
            let held = self.samples[oldest as usize].held;
            if held == Shadows::default() || held.has(Expert::Lru) {
                break;
            }
            self.recency.remove(&mut self.links, oldest);
            match self.lru_oldest {
                NIL => self.recency.push_tail(&mut self.links, oldest),
                place => self.recency.insert_before(&mut self.links, place, oldest),
            }
        }
        let slot = self.recency.head();
        let sample = self.samples[slot as usize];
        if sample.class != NONE {
            sample.end_wait(now, false, classes, streams);
        }
        self.unlink(slot);
        self.arc.forget(slot, sample.arc);
        if sample.kept_at != NIL {
            self.give_up(slot);
        }
        if sample.held.has(Expert::Arc) {
            self.set_held(slot, Expert::Arc, false);
        }
        if self.samples[slot as usize].held.has(Expert::Lru) {
            self.set_held(slot, Expert::Lru, false);
        }
        self.holdings.remove();
        self.index.remove(sample.page.0, |slot| self.samples[slot as usize].page.0);
        slot
    }

    /// The shadow of `expert` now holds `slot`, or no longer.
    fn set_held(&mut self, slot: u32, expert: Expert, holds: bool) {
        let sample = &mut self.samples[slot as usize];
        self.holdings.set(&mut sample.held, sample.frame, expert, holds);
    }

    /// Takes `slot` out of the list; that LRU holds it stays marked.
    fn unlink(&mut self, slot: u32) {
        if self.samples[slot as usize].held.has(Expert::Lru) {
            self.lru_len -= 1;
            if self.lru_oldest == slot {
                self.lru_oldest = self.links.next(slot);
            }
        }
        self.recency.remove(&mut self.links, slot);
    }

    fn enter_lru(&mut self, slot: u32, capacity: u32) {
        self.recency.push_tail(&mut self.links, slot);
        if !self.samples[slot as usize].held.has(Expert::Lru) {
            self.set_held(slot, Expert::Lru, true);
        }
        self.lru_len += 1;
        if self.lru_oldest == NIL {
            self.lru_oldest = slot;
        }
        while self.lru_len > capacity {
            let oldest = self.lru_oldest;
            self.lru_oldest = self.links.next(oldest);
            self.lru_len -= 1;
            self.set_held(oldest, Expert::Lru, false);
        }
    }

    fn enter_arc(&mut self, slot: u32, capacity: u32) {
        let Self { arc, samples, holdings, .. } = self;
        let place = samples[slot as usize].arc;
        arc.access(slot, place, capacity, &mut |slot, place| {
            let sample = &mut samples[slot as usize];
            let before = std::mem::replace(&mut sample.arc, place);
            if before.is_resident() != place.is_resident() {
                holdings.set(&mut sample.held, sample.frame, Expert::Arc, place.is_resident());
            }
        });
    }

    /// Makes room in the shadow by value, and gives `slot`, which is used now, a number there.
    fn keep(&mut self, slot: u32, capacity: u32, classes: &Classes) -> u32 {
        while self.kept.len() - self.vacant.len() >= capacity as usize {
            let (samples, kept, now) = (&self.samples, &self.kept, self.samples[slot as usize].last);
            let age = |number: u32| now.wrapping_sub(samples[kept[number as usize] as usize].last);
            let worst = self.by_class.least(classes, age).expect("the shadow holds a page");
            self.give_up(self.kept[worst as usize]);
        }
        let number = self.vacant.pop().unwrap_or(self.kept.len() as u32);
        if number as usize == self.kept.len() {
            self.kept.push(NIL);
        }
        self.kept[number as usize] = slot;
        self.samples[slot as usize].kept_at = number;
        self.set_held(slot, Expert::Value, true);
        number
    }

    fn give_up(&mut self, slot: u32) {
        let number = std::mem::replace(&mut self.samples[slot as usize].kept_at, NIL);
        self.set_held(slot, Expert::Value, false);
        self.kept[number as usize] = NIL;
        self.vacant.push(number);
        self.by_class.remove(number);
    }

    /// Where each sample is counted as waiting.
    pub fn waiting(&self) -> impl Iterator<Item = (ClassId, usize)> {
        let learned = self.samples.iter().filter(|sample| sample.class != NONE);
        learned.map(|sample| (sample.class, usize::from(sample.bucket)))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.samples.capacity() * size_of::<Sample>()
            + (self.kept.capacity() + self.vacant.capacity()) * size_of::<u32>()
            + self.by_class.metadata_bytes()
            + self.links.memory_bytes()
            + self.holdings.metadata_bytes()
            + self.arc.metadata_bytes()
            + self.index.memory_bytes()
    }

    /// Panics if lists, index and marks disagree, a sample is not where `sample_in` says, or one of `frames`
    /// frames is wrongly listed as a leftover.
    pub fn check_invariants(&self, frames: u32, sample_in: impl Fn(u32) -> Option<u32>) {
        self.recency.check_invariants(&self.links);
        let held =
            |slot: u32| self.samples.get(slot as usize).map_or_else(Shadows::default, |sample| sample.held);
        let held_in = |frame: u32| sample_in(frame).map(held);
        self.holdings.check_invariants(self.samples.iter().map(|sample| sample.held), frames, held_in);
        self.index.check_invariants(|slot| self.samples[slot as usize].page.0);
        self.arc.check_invariants(self.samples.iter().map(|sample| sample.arc));
        assert_eq!(self.recency.len() as usize, self.samples.len(), "samples listed");
        let newest: Vec<u32> = self.recency.iter_from_tail(&self.links).take(self.lru_len as usize).collect();
        assert!(
            newest.iter().all(|slot| self.samples[*slot as usize].held.has(Expert::Lru)),
            "the newest are LRU's"
        );
        assert_eq!(newest.last().copied().unwrap_or(NIL), self.lru_oldest, "oldest page in LRU's cache");
        let holds = |expert: Expert| self.samples.iter().filter(|sample| sample.held.has(expert)).count();
        assert_eq!(holds(Expert::Lru), self.lru_len as usize, "pages in LRU's cache");
        assert_eq!(holds(Expert::Value), self.kept.len() - self.vacant.len(), "pages kept by value");
        for (number, slot) in self.kept.iter().enumerate().filter(|(_, slot)| **slot != NIL) {
            assert_eq!(self.samples[*slot as usize].kept_at, number as u32, "number of a kept page");
        }
        let last = |slot: u32| self.samples.get(slot as usize).map(|sample| sample.last);
        self.by_class.check_invariants(self.kept.len() as u32, |number| last(self.kept[number as usize]));
        for (slot, sample) in self.samples.iter().enumerate() {
            assert_eq!(sample.held.has(Expert::Arc), sample.arc.is_resident(), "place of a page in ARC");
            assert_eq!(
                sample.held.has(Expert::Value),
                sample.kept_at != NIL,
                "place of a page kept by value"
            );
            if sample.frame != NIL {
                assert_eq!(sample_in(sample.frame), Some(slot as u32), "sample of frame {}", sample.frame);
            }
        }
    }
}
