//! Three caches in miniature over the sampled pages.
//!
//! Over a sample run miniatures of the cache (Waldspurger, Saemundsson, Ahmad, Park, "Cache Modeling and
//! Optimization using Miniature Simulations", USENIX ATC '17): by LRU, by ARC, and by value. What one misses
//! and another does not is what following the other is worth. Each holds as many pages as the cache holds of
//! the sample. With a fixed number, of a working set that just fits the cache more would be drawn in half of
//! all cases, and LRU's miniature would miss every page of a loop that LRU keeps.
//!
//! While every page is sampled, the shadows are as large as the cache, and the cache holds of each part of
//! the pages what the shadow of the part's expert does: it gives up what that does not hold
//! ([`Miniatures::leftover`]).

use super::arc::{Arc, Place};
use super::experts::{Expert, Shadows};
use super::holdings::Holdings;
use super::lru::Lru;
use super::shadow::{SampledPages, Shadowed};
use super::shares::{Parts, Shares};
use super::value::ByValue;
use crate::ids::{FrameId, PageId};
use crate::list::NIL;
use crate::manager::automatic::learn::intervals::{ClassId, Classes};
use crate::manager::automatic::learn::samples::{Rates, Sample, SampledAccess, Samples};
use crate::manager::automatic::learn::streams::Streams;
use crate::manager::automatic::tuning::Tuning;

/// What came of an access.
#[derive(Clone, Copy)]
pub(crate) struct Sampled {
    pub slot: u32,
    /// The frame of a page that was forgotten, or [`NIL`].
    pub forgotten: u32,
    /// Which shadows had the page.
    pub had: Shadows,
    /// Whether the sample remembered the page.
    pub known: bool,
}

/// The sampled pages of a tenant, and the shadow caches over them.
pub(crate) struct Miniatures {
    rates: Rates,
    distance_min_share: f32,
    pages: SampledPages,
    lru: Lru,
    arc: Arc,
    by_value: ByValue,
}

impl Miniatures {
    /// Of no pages, for a tenant of about `frames` frames.
    pub fn new(rates: Rates, frames: u32, tuning: &Tuning) -> Self {
        let holdings = Holdings::new(if rates.are_complete() { frames } else { 0 });
        Self {
            rates,
            distance_min_share: tuning.distance_min_share,
            pages: SampledPages { samples: Samples::new(rates), holdings },
            lru: Lru::new(),
            arc: Arc::default(),
            by_value: ByValue::default(),
        }
    }

    pub fn rates(&self) -> Rates {
        self.rates
    }

    /// The share of `capacity` pages that ARC gives to those used once.
    pub fn once_share(&self, capacity: u32) -> f32 {
        self.arc.once_share(capacity)
    }

    /// Whether LRU's shadow holds the page of `slot`, which is one of the sample.
    pub fn lru_holds(&self, slot: u32) -> bool {
        self.pages.is_held(slot, Expert::Lru)
    }

    /// Whether ARC would remember, as resident or by a ghost, a page used last at `last`, once or `twice`.
    pub fn arc_remembers(&self, twice: bool, last: u32) -> bool {
        self.arc.remembers(twice, last)
    }

    /// How many of the `capacity` pages that `expert` would hold each expert would not; at least some share
    /// of all.
    pub fn distances(&self, expert: Expert, capacity: u32) -> [f32; 3] {
        let least = (capacity as f32 * self.distance_min_share).max(1.0);
        Expert::ALL.map(|other| (self.pages.holdings.difference(expert, other) as f32).max(least))
    }

    /// A frame that is not busy, and whose page the shadow of its part's expert does not hold. None where not
    /// every page is sampled.
    pub fn leftover(&self, shares: &Shares, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        self.pages.holdings.leftover(shares, busy)
    }

    /// A page is used that every shadow holds, and none has to give up another for it: most of those in
    /// memory. Otherwise returns false, and does nothing. Uses of a page known to ARC as used twice within
    /// `repeat_time` are one: another changes next to nothing.
    #[inline]
    pub fn use_held(&mut self, access: &SampledAccess, repeat_time: u32, streams: &mut Streams) -> bool {
        let slot = access.slot;
        let sample = self.pages.samples.get_mut(slot);
        let is_plain = |sample: &&mut Sample<Shadowed>| !access.creates && sample.shadowed.held.are_all();
        let Some(sample) = sample.filter(is_plain) else { return false };
        if access.now.wrapping_sub(sample.last) < repeat_time && sample.shadowed.arc == Place::T2 {
            return true;
        }
        let capacity = access.capacity;
        if !self.lru.has_room(slot, capacity) || !self.arc.has_room(capacity) {
            return false;
        }
        let class = sample.learn(access, sample.is_learned(), true, streams);
        self.lru.hit(slot);
        self.arc.hit(slot, &mut self.pages);
        self.by_value.hit(slot, class, &streams.classes);
        true
    }

    /// A sampled page is used.
    pub fn access(&mut self, access: &SampledAccess, streams: &mut Streams) -> Sampled {
        let SampledAccess { page, now, slot, capacity, .. } = *access;
        let known = !access.is_first();
        let (slot, forgotten) = match slot {
            NIL => self.admit(page, now, streams),
            slot if known => (slot, NIL),
            slot => {
                self.forget_contents(slot, now, streams);
                (slot, NIL)
            }
        };
        let samples = &mut self.pages.samples;
        let is_learned = if known { samples[slot].is_learned() } else { samples.is_to_learn(page) };
        let sample = &mut samples[slot];
        let had = sample.shadowed.held;
        let class = sample.learn(access, is_learned, had.has(Expert::Lru), streams);
        self.lru.access(slot, capacity, &mut self.pages);
        self.arc.access(slot, capacity, &mut self.pages);
        self.by_value.access(slot, class, capacity, &streams.classes, &mut self.pages);
        Sampled { slot, forgotten, had, known }
    }

    /// A slot for a page not remembered. Also the frame of the page that was forgotten for it, if it is in
    /// one.
    fn admit(&mut self, page: PageId, now: u32, streams: &mut Streams) -> (u32, u32) {
        let mut forgotten = None;
        let mut frame = NIL;
        if self.pages.samples.is_full() {
            let slot = self.lru.next_to_forget(&self.pages);
            (forgotten, frame) = (Some(slot), self.pages.samples[slot].frame);
            self.forget_contents(slot, now, streams);
            self.pages.samples.forget(slot);
            self.pages.holdings.remove();
        }
        self.pages.holdings.add();
        let slot = self.pages.samples.insert(page, now, forgotten);
        self.pages.samples[slot].shadowed.part = Parts::number_of(page);
        (slot, frame)
    }

    /// The contents of the page of `slot` were not used again, and no shadow holds them.
    fn forget_contents(&mut self, slot: u32, now: u32, streams: &mut Streams) {
        let Self { pages, lru, arc, by_value, .. } = self;
        lru.forget(slot, pages);
        arc.forget(slot, pages);
        by_value.forget(slot, pages);
        pages.samples.end(slot, now, streams);
    }

    /// The page of `slot` is in `frame`.
    pub fn settle(&mut self, slot: u32, frame: u32) {
        let sample = &mut self.pages.samples[slot];
        sample.frame = frame;
        sample.ahead = false;
        self.pages.holdings.settle(&sample.shadowed, frame);
    }

    /// The sample of `page`, or [`NIL`].
    pub fn find(&self, page: PageId) -> u32 {
        self.pages.samples.find(page)
    }

    /// Reads of what finds the sample of `page`, so that it is in the processor's cache by then.
    pub fn touch(&self, page: PageId) -> u32 {
        self.pages.samples.touch(page)
    }

    /// The access for which the page of `slot` is to come in has been counted.
    pub fn count_ahead(&mut self, slot: u32) {
        self.pages.samples.count_ahead(slot);
    }

    /// Whether the access for which the page of `slot` is to come in was counted ahead; not if that is
    /// [`NIL`].
    pub fn is_counted_ahead(&self, slot: u32) -> bool {
        self.pages.samples.is_counted_ahead(slot)
    }

    /// The page of `slot`, or one no longer remembered, has left `frame`.
    pub fn left(&mut self, slot: u32, frame: u32) {
        let page = self.pages.samples.get_mut(slot).map_or_else(Shadowed::default, |sample| {
            sample.frame = NIL;
            sample.shadowed
        });
        self.pages.holdings.leave(page.held, page.part, frame);
    }

    /// Looks at the ages of the next `count` samples, so that pages that are not used again count as such.
    pub fn look(&mut self, count: u32, now: u32, classes: &mut Classes) {
        for _ in 0..count.min(self.pages.samples.len() as u32) {
            let (slot, sample) = self.pages.samples.next_in_turn();
            let age = now.wrapping_sub(sample.last);
            let bucket = classes.bucket(age);
            if sample.shadowed.held.has(Expert::Value) {
                self.by_value.consider(slot, age, bucket, classes);
            }
            sample.wait_on(bucket, classes);
        }
    }

    /// Where each sample is counted as waiting.
    pub fn waiting(&self) -> impl Iterator<Item = (ClassId, usize)> {
        self.pages.samples.waiting()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.pages.samples.metadata_bytes()
            + self.pages.holdings.metadata_bytes()
            + self.lru.metadata_bytes()
            + self.arc.metadata_bytes()
            + self.by_value.metadata_bytes()
    }

    /// Panics if lists, index and marks disagree, a sample is not where `sample_in` says, or one of `frames`
    /// frames is not listed by who holds its page.
    pub fn check_invariants(&self, frames: u32, sample_in: impl Fn(u32) -> Option<u32>) {
        let SampledPages { samples, holdings } = &self.pages;
        samples.check_invariants();
        self.lru.check_invariants(&self.pages);
        self.arc.check_invariants(&self.pages);
        self.by_value.check_invariants(&self.pages);
        let shadowed = |slot: u32| {
            let sample = samples.iter().nth(slot as usize);
            sample.map_or_else(Shadowed::default, |sample| sample.shadowed)
        };
        let held_in = |frame: u32| sample_in(frame).map(shadowed);
        holdings.check_invariants(samples.iter().map(|sample| sample.shadowed.held), frames, held_in);
        for (slot, sample) in samples.iter().enumerate().filter(|(_, sample)| sample.frame != NIL) {
            assert_eq!(sample_in(sample.frame), Some(slot as u32), "sample of frame {}", sample.frame);
        }
    }
}
