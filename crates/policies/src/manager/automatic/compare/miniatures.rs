//! Three caches in miniature over the sampled pages.
//!
//! Miniatures of the cache run over a sample of the pages (Waldspurger, Saemundsson, Ahmad, Park, "Cache
//! Modeling and Optimization using Miniature Simulations", USENIX ATC '17): one by LRU, one by ARC, one by
//! value. What one misses and another does not is what following the other is worth.
//!
//! Each holds as many pages as the cache holds of the sample, and not a fixed number. Of a working set that
//! just fits the cache, the sample has more pages than a fixed number in half of all cases. LRU's miniature
//! would then miss every page of a loop that LRU keeps.

use super::arc::Arc;
use super::experts::Expert;
use super::judge::Judge;
use super::lru::Lru;
use super::shadow::{SampledPages, Shadowed};
use super::value::ByValue;
use crate::ids::PageId;
use crate::list::NIL;
use crate::manager::automatic::learn::intervals::Classes;
use crate::manager::automatic::learn::samples::{Rates, Sample, SampledAccess, Samples};
use crate::manager::automatic::learn::streams::Streams;
use crate::manager::automatic::tuning::Tuning;

/// The sampled pages of a tenant, the shadow caches over them, and who leads by what these miss.
pub(crate) struct Miniatures {
    distance_min_share: f32,
    pub pages: SampledPages,
    lru: Lru,
    pub arc: Arc,
    by_value: ByValue,
    pub judge: Judge,
    /// Whether the judge has decided since a shadow changed.
    pub is_decided: bool,
}

impl Miniatures {
    /// Of no pages, by `first` for the time being, of a cache that misses fill within `turnover`.
    pub fn new(rates: Rates, first: Expert, turnover: u32, tuning: &Tuning) -> Self {
        Self {
            distance_min_share: tuning.distance_min_share,
            pages: SampledPages::new(Samples::new(rates)),
            lru: Lru::new(),
            arc: Arc::default(),
            by_value: ByValue::default(),
            judge: Judge::new(first, turnover, tuning),
            is_decided: false,
        }
    }

    /// Decides who leads from `now` on, in a cache that holds `capacity` pages of the sample. The distance of
    /// an expert from the best is how many of these pages that one would hold and it would not; at least some
    /// share of all.
    #[inline]
    pub fn decide(&mut self, capacity: u32, now: u32) {
        if !std::mem::replace(&mut self.is_decided, true) {
            let (best, least) = (self.judge.best(), (capacity as f32 * self.distance_min_share).max(1.0));
            let distance = |other| (self.pages.difference(best, other) as f32).max(least);
            self.judge.decide(Expert::ALL.map(distance), now);
        }
    }

    /// The short way for a page that every shadow holds, if none has to give up another page: most hits are
    /// of that kind. Otherwise does nothing and returns false.
    #[inline]
    pub fn use_held(&mut self, access: &SampledAccess, streams: &mut Streams) -> bool {
        let slot = access.slot;
        let sample = self.pages.samples.get_mut(slot);
        let is_plain = |sample: &&mut Sample<Shadowed>| !access.creates && sample.shadowed.held.are_all();
        let Some(sample) = sample.filter(is_plain) else { return false };
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

    /// A sampled page is used. Returns its slot, and the frame of a page that was forgotten for it, or
    /// [`NIL`].
    pub fn access(&mut self, access: &SampledAccess, streams: &mut Streams) -> (u32, u32) {
        let SampledAccess { page, now, mut slot, capacity, creates, .. } = *access;
        let mut forgotten = NIL;
        if slot == NIL {
            (slot, forgotten) = self.admit(page, now, streams);
        } else if creates {
            self.forget_contents(slot, now, streams);
        }
        let is_learned = self.pages.samples.is_learned(page);
        let sample = &mut self.pages.samples[slot];
        let mut had = sample.shadowed.held;
        let class = sample.learn(access, is_learned, had.has(Expert::Lru), streams);
        // Following values did not keep it.
        if std::mem::take(&mut sample.shadowed.given_up) {
            had.set(Expert::Value, false);
        }
        self.lru.access(slot, capacity, &mut self.pages);
        self.arc.access(slot, capacity, &mut self.pages);
        self.by_value.access(slot, class, capacity, &streams.classes, &mut self.pages);
        if !access.is_first() && had.are_divided() {
            self.judge.score(had, capacity);
        }
        self.is_decided = false;
        (slot, forgotten)
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
        }
        (self.pages.samples.insert(page, now, forgotten), frame)
    }

    /// The contents of the page of `slot` were not used again, and no shadow holds them.
    fn forget_contents(&mut self, slot: u32, now: u32, streams: &mut Streams) {
        let Self { pages, lru, arc, by_value, .. } = self;
        lru.forget(slot, pages);
        arc.forget(slot, pages);
        by_value.forget(slot, pages);
        pages.samples.end(slot, now, streams);
    }

    /// The page of `slot` is in `frame`, or in none if that is [`NIL`]. Does nothing for a page that is not
    /// remembered.
    #[inline]
    pub fn settle(&mut self, slot: u32, frame: u32) {
        if let Some(sample) = self.pages.samples.get_mut(slot) {
            sample.frame = frame;
        }
    }

    /// The cache gives up the page of `slot`. Does nothing for a page that is not remembered.
    pub fn leave(&mut self, slot: u32) {
        let leads = self.judge.leader() == Expert::Value;
        if let Some(sample) = self.pages.samples.get_mut(slot) {
            sample.frame = NIL;
            sample.shadowed.given_up = leads && sample.shadowed.held.has(Expert::Value);
        }
    }

    /// Looks at the ages of the next `count` samples, so that pages that are not used again count as such.
    pub fn look(&mut self, count: u32, now: u32, classes: &mut Classes) {
        for _ in 0..count.min(self.pages.samples.len() as u32) {
            let (slot, sample) = self.pages.samples.next_in_turn();
            let age = now.wrapping_sub(sample.last);
            let bucket = classes.ages.bucket(age);
            if sample.shadowed.held.has(Expert::Value) {
                self.by_value.consider(slot, age, bucket, classes);
            }
            sample.wait_on(bucket, classes);
        }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.pages.samples.metadata_bytes()
            + self.lru.metadata_bytes()
            + self.arc.metadata_bytes()
            + self.by_value.metadata_bytes()
    }

    /// Panics if lists, index and marks disagree, or a sample is not where `sample_in` says.
    pub fn check_invariants(&self, sample_in: impl Fn(u32) -> Option<u32>) {
        self.pages.check_invariants();
        self.lru.check_invariants(&self.pages);
        self.arc.check_invariants(&self.pages);
        self.by_value.check_invariants(&self.pages);
        for (slot, sample) in self.pages.samples.iter().enumerate().filter(|(_, sample)| sample.frame != NIL)
        {
            assert_eq!(sample_in(sample.frame), Some(slot as u32), "sample of frame {}", sample.frame);
        }
    }
}
