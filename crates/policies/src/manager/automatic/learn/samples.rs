//! The pages learned from: a sample by hash, remembered well beyond their eviction.
//!
//! About four times as many sampled pages are remembered as the cache holds of the sample, so that loops up
//! to that length are learned. What the shadow caches keep of a page lies in its sample, too, where an access
//! finds it at no cost. LRU's shadow says which sample is forgotten for another.

use super::intervals::{ClassId, Classes, NONE};
use super::kind::Kind;
use super::stream::StreamId;
use super::streams::Streams;
use crate::ids::PageId;
use crate::list::{NIL, push};
use crate::manager::automatic::tuning::Tuning;
use crate::random::mix64;
use crate::slot_index::SlotIndex;

/// Pages that the cache can hold and whose intervals are learned, at least, where not those of all are.
const LEARNED_FRAMES_MIN: u32 = 512;
/// The most pages of which one is sampled: memory is then a quarter of a sample a frame.
const RATE_MAX: u32 = 16;
/// Pages remembered at most, beyond one a frame. Only pools whose pages are all sampled come to that: the
/// whole manager then takes at most 160 bytes a frame and 256 KB.
const SURPLUS_MAX: u32 = 4_900;

/// Of how many pages one is sampled, and how many are remembered.
#[derive(Clone, Copy)]
pub(crate) struct Rates {
    /// The number of pages of which one is sampled: a power of two.
    pub sampling: u32,
    /// The number of pages of which the intervals of one are learned: a power of two, at least `sampling`.
    pub learning: u32,
    /// Samples kept at most.
    pub samples_max: u32,
}

impl Rates {
    /// For a pool of `frames` frames.
    pub fn new(frames: u32, tuning: &Tuning) -> Self {
        let learning = 1 << (frames / LEARNED_FRAMES_MIN).clamp(1, RATE_MAX).ilog2();
        Self::with(frames, if frames <= tuning.small_pool { 1 } else { learning }, learning, tuning)
    }

    /// The same, one page in `sampling` sampled.
    pub fn with(frames: u32, sampling: u32, learning: u32, tuning: &Tuning) -> Self {
        let reached = frames.saturating_mul(tuning.reach) / sampling;
        let samples_max = reached.min(frames.saturating_add(SURPLUS_MAX)).max(8);
        Self { sampling, learning, samples_max }
    }

    /// The most pages whose intervals are being learned, about.
    pub fn learned_max(self) -> u32 {
        self.samples_max * self.sampling / self.learning
    }

    /// Whether `page` is one of the sample. The hash's other bits are left to the index and the table of
    /// departed pages.
    #[inline]
    pub fn samples(self, page: PageId) -> bool {
        is_drawn(page, self.sampling)
    }
}

/// Whether `page` is among the one in `rate`, a power of two.
#[inline]
fn is_drawn(page: PageId, rate: u32) -> bool {
    rate == 1 || (mix64(page.0) >> 32) & u64::from(rate - 1) == 0
}

/// A sampled page.
#[derive(Clone, Copy)]
pub(crate) struct Sample<S> {
    /// When it was used last.
    pub last: u32,
    /// The frame that holds it, or [`NIL`].
    pub frame: u32,
    /// What the shadow caches keep of it.
    pub shadowed: S,
    /// The class in which it waits; [`NONE`] if its intervals are not learned.
    pub class: ClassId,
    pub stream: StreamId,
    /// The bucket it is counted as waiting in.
    pub bucket: u8,
}

impl<S> Sample<S> {
    /// The page, whose intervals are learned, is used again at `now`, or forgotten.
    #[inline]
    fn end_wait(&self, now: u32, reused: bool, streams: &mut Streams) {
        let age = now.wrapping_sub(self.last);
        if streams.classes.end(self.class, usize::from(self.bucket), age, reused) {
            streams.label(self.stream);
        }
    }

    /// Whether its intervals are learned.
    #[inline]
    pub fn is_learned(&self) -> bool {
        self.class != NONE
    }

    /// Learns what a use of the page tells of streams and, if it `is_learned`, of intervals; `lru_hits` tells
    /// whether LRU would have kept it among `capacity` sampled pages. Returns the class by which the page is
    /// valued from now on.
    #[inline(always)]
    pub fn learn(
        &mut self,
        access: &SampledAccess,
        is_learned: bool,
        lru_hits: bool,
        streams: &mut Streams,
    ) -> ClassId {
        let SampledAccess { stream, kind, now, capacity, .. } = *access;
        if !access.is_first() {
            if self.stream == stream {
                streams.use_again(stream, self.last, now, lru_hits, capacity);
            } else {
                streams.use_by_another();
            }
            if is_learned {
                self.end_wait(now, true, streams);
            }
        }
        if is_learned {
            self.class = streams.class_to_learn(stream, kind);
            streams.classes.begin(self.class);
        }
        (self.last, self.stream, self.bucket) = (now, stream, 0);
        streams.class(stream, kind)
    }

    /// The page's age has come to be in `bucket`. Its class counts it there, so that pages that are never
    /// used again lower the hazard of the ages that they reach.
    #[inline]
    pub fn wait_on(&mut self, bucket: usize, classes: &mut Classes) {
        // Which samples are learned from follows no pattern: one branch for both.
        if self.is_learned() & (bucket != usize::from(self.bucket)) {
            classes.wait(self.class, usize::from(self.bucket), bucket);
            self.bucket = bucket as u8;
        }
    }
}

/// An access to a sampled page.
#[derive(Clone, Copy)]
pub(crate) struct SampledAccess {
    pub page: PageId,
    pub stream: StreamId,
    pub kind: Kind,
    pub now: u32,
    /// The page's sample, or [`NIL`] if it is not remembered.
    pub slot: u32,
    /// How many sampled pages the tenant holds, at least 1.
    pub capacity: u32,
    /// Whether it gives the page new contents.
    pub creates: bool,
}

impl SampledAccess {
    /// Whether it is the first to the contents of the page, as far as is remembered.
    #[inline]
    pub fn is_first(&self) -> bool {
        self.slot == NIL || self.creates
    }
}

/// The sampled pages of a tenant, by slot.
pub(crate) struct Samples<S> {
    pub rates: Rates,
    /// By slot: the page. By itself, so that the rest has no gaps.
    pages: Vec<PageId>,
    samples: Vec<Sample<S>>,
    index: SlotIndex,
    /// The next sample whose age is looked at; the first if there is none.
    cursor: usize,
}

impl<S: Copy + Default> Samples<S> {
    pub fn new(rates: Rates) -> Self {
        Self { rates, pages: Vec::new(), samples: Vec::new(), index: SlotIndex::default(), cursor: 0 }
    }

    pub fn len(&self) -> usize {
        self.samples.len()
    }

    /// Whether a page more can be remembered only in the place of another.
    pub fn is_full(&self) -> bool {
        self.samples.len() >= self.rates.samples_max as usize
    }

    /// The sample in `slot`, if that is one.
    #[inline]
    pub fn get_mut(&mut self, slot: u32) -> Option<&mut Sample<S>> {
        self.samples.get_mut(slot as usize)
    }

    /// All of them, by slot.
    pub fn iter(&self) -> impl Iterator<Item = &Sample<S>> {
        self.samples.iter()
    }

    /// Whether the intervals of `page`, which is of the sample, are learned.
    #[inline]
    pub fn is_learned(&self, page: PageId) -> bool {
        is_drawn(page, self.rates.learning)
    }

    /// The sample of `page`, or [`NIL`].
    pub fn find(&self, page: PageId) -> u32 {
        self.index.find(page.0, |slot| self.pages[slot as usize].0).unwrap_or(NIL)
    }

    /// Reads of what finds the sample of `page`, so that it is in the processor's cache by then.
    pub fn touch(&self, page: PageId) -> u32 {
        self.index.touch(page.0)
    }

    /// Remembers `page`, used at `now` for the first time, in a new slot or in that of one
    /// [forgotten](Self::forget). Returns the slot.
    pub fn insert(&mut self, page: PageId, now: u32, forgotten: Option<u32>) -> u32 {
        let sample = Sample {
            last: now,
            frame: NIL,
            shadowed: S::default(),
            class: NONE,
            stream: StreamId(0),
            bucket: 0,
        };
        let slot = forgotten.unwrap_or(self.samples.len() as u32);
        if forgotten.is_some() {
            self.pages[slot as usize] = page;
            self[slot] = sample;
        } else {
            push(&mut self.pages, page);
            push(&mut self.samples, sample);
        }
        self.index.insert(page.0, slot, |slot| self.pages[slot as usize].0);
        slot
    }

    /// The contents of the page of `slot` were not used again.
    pub fn end(&mut self, slot: u32, now: u32, streams: &mut Streams) {
        let sample = &mut self[slot];
        if sample.is_learned() {
            sample.end_wait(now, false, streams);
            sample.class = NONE;
        }
    }

    /// The page of `slot`, whose wait has [ended](Self::end), is remembered no longer.
    pub fn forget(&mut self, slot: u32) {
        self.index.remove(self.pages[slot as usize].0, |slot| self.pages[slot as usize].0);
    }

    /// The next sample in turn, of at least one, and its slot.
    #[inline]
    pub fn next_in_turn(&mut self) -> (u32, &mut Sample<S>) {
        let slot = if self.cursor < self.samples.len() { self.cursor } else { 0 };
        self.cursor = slot + 1;
        (slot as u32, &mut self.samples[slot])
    }

    /// Where each sample is counted as waiting.
    pub fn waiting(&self) -> impl Iterator<Item = (ClassId, usize)> {
        let learned = self.samples.iter().filter(|sample| sample.is_learned());
        learned.map(|sample| (sample.class, usize::from(sample.bucket)))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.pages.capacity() * size_of::<PageId>()
            + self.samples.capacity() * size_of::<Sample<S>>()
            + self.index.memory_bytes()
    }

    /// Panics if a sample is not found by its page.
    pub fn check_invariants(&self) {
        self.index.check_invariants(|slot| self.pages[slot as usize].0);
        assert_eq!(self.index.len(), self.samples.len(), "samples found");
    }
}

impl<S> std::ops::Index<u32> for Samples<S> {
    type Output = Sample<S>;

    #[inline]
    fn index(&self, slot: u32) -> &Sample<S> {
        &self.samples[slot as usize]
    }
}

impl<S> std::ops::IndexMut<u32> for Samples<S> {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Sample<S> {
        &mut self.samples[slot as usize]
    }
}
