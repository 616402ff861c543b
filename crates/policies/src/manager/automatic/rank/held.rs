//! The pages that the tenant holds: what is known of each, and which one goes.

use super::by_class::PagesByClass;
use crate::list::{Links, List, NIL, lengthen, push};
use crate::manager::automatic::learn::departed::LastUse;
use crate::manager::automatic::learn::intervals::Classes;
use crate::manager::automatic::learn::kind::Kind;
use crate::manager::automatic::learn::stream::StreamId;
use crate::manager::automatic::learn::streams::Streams;
use crate::random::SplitMix64;

/// In place of a sample: the page is not one of those sampled.
pub(crate) const UNSAMPLED: u32 = NIL - 1;
/// Busy pages passed over for a victim when ARC chooses.
const ARC_LOOKS_MAX: usize = 32;
/// The same to either side of the page of least value.
const NEIGHBOURS_MAX: u32 = 8;
/// Pages drawn with each choice by value: they lead to the least ones of a class that are neither its oldest
/// nor its newest.
const DRAWN: u32 = 4;
/// Classes of which pages are tried until one is not busy.
const CLASSES_TRIED: usize = 16;

/// What is known of a frame; four to a cache line.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// Ages are taken modulo 2^32, so that a page unused for 500 million misses looks young.
    pub used: LastUse,
    /// Where `own` lists it, or [`NIL`] if the tenant does not own it.
    own_at: u32,
    /// The sample that remembers the page, [`NIL`] if none does any more, or [`UNSAMPLED`].
    pub sample: u32,
}

impl Frame {
    const VACANT: Self = Self {
        used: LastUse { time: 0, stream: StreamId(0), kind: Kind::NEW, twice: false },
        own_at: NIL,
        sample: NIL,
    };

    pub fn is_sampled(&self) -> bool {
        self.sample != UNSAMPLED
    }

    pub fn is_owned(&self) -> bool {
        self.own_at != NIL
    }
}

/// What ARC keeps of pages used once.
#[derive(Clone, Copy)]
pub(crate) struct UsedOnce {
    /// Their share of the cache, 0 to 1.
    pub share: f32,
    /// The age of the oldest, or somewhat more.
    pub age_max: u32,
}

/// The orders of use of the frames owned. 18 bytes a frame.
#[derive(Default)]
struct Orders {
    links: Links,
    /// As ARC's lists: of the pages that were used once, and of the others; the oldest first.
    by_use: [List; 2],
    by_class: PagesByClass,
}

/// The pages held, by frame. 20 bytes a frame, and the [`Orders`] of use.
pub(crate) struct Held {
    frames: Vec<Frame>,
    /// The frames of the tenant's blocks, in no order.
    own: Vec<u32>,
    /// How many of them hold a page of the sample.
    sampled: u32,
    /// The frames owned in their order of use, if that is kept.
    orders: Option<Orders>,
    random: SplitMix64,
}

impl Held {
    /// None yet. `seed` decides which pages are drawn.
    pub fn new(seed: u64) -> Self {
        Self { orders: Some(Orders::default()), random: SplitMix64::new(seed), ..Self::without_orders() }
    }

    /// None yet, and no order of use is kept, so that no page can be chosen of all.
    pub fn without_orders() -> Self {
        Self { frames: Vec::new(), own: Vec::new(), sampled: 0, orders: None, random: SplitMix64::new(0) }
    }

    /// How many there are.
    #[inline]
    pub fn len(&self) -> u32 {
        self.own.len() as u32
    }

    /// How many of them are of the sample.
    #[inline]
    pub fn sampled(&self) -> u32 {
        self.sampled
    }

    /// The frames that hold them, in no order.
    pub fn own(&self) -> &[u32] {
        &self.own
    }

    /// What is known of a frame that held one once.
    pub fn get(&self, frame: u32) -> Option<&Frame> {
        self.frames.get(frame as usize)
    }

    /// The same, to be changed.
    #[inline]
    pub fn get_mut(&mut self, frame: u32) -> Option<&mut Frame> {
        self.frames.get_mut(frame as usize)
    }

    /// A page comes into `frame`.
    pub fn insert(&mut self, frame: u32, sample: u32, used: LastUse, streams: &Streams) {
        if frame as usize >= self.frames.len() {
            lengthen(&mut self.frames, frame as usize + 1, Frame::VACANT);
        }
        let page = Frame { used, own_at: self.own.len() as u32, sample };
        self.frames[frame as usize] = page;
        push(&mut self.own, frame);
        self.sampled += u32::from(page.is_sampled());
        if let Some(Orders { links, by_use, by_class }) = &mut self.orders {
            links.lengthen_for(frame);
            by_use[usize::from(used.twice)].push_tail(links, frame);
            by_class.push(frame, streams.class(used.stream, used.kind), &streams.classes);
        }
    }

    /// The page in `frame` leaves: what was known of it.
    pub fn remove(&mut self, frame: u32) -> Frame {
        let entry = &mut self.frames[frame as usize];
        let page = *entry;
        (entry.own_at, entry.sample) = (NIL, NIL);
        self.sampled -= u32::from(page.is_sampled());
        if let Some(Orders { links, by_use, by_class }) = &mut self.orders {
            by_use[usize::from(page.used.twice)].remove(links, frame);
            by_class.remove(frame);
        }
        self.own.swap_remove(page.own_at as usize);
        if let Some(&moved) = self.own.get(page.own_at as usize) {
            self.frames[moved as usize].own_at = page.own_at;
        }
        page
    }

    /// The page in `frame` is used by `stream` at `time`. It is of `kind` from now on.
    #[inline]
    pub fn use_again(&mut self, frame: u32, time: u32, stream: StreamId, kind: Kind, streams: &Streams) {
        let used = &mut self.frames[frame as usize].used;
        let before = std::mem::replace(used, LastUse { time, stream, kind, twice: true });
        if let Some(Orders { links, by_use, by_class }) = &mut self.orders {
            by_use[usize::from(before.twice)].remove(links, frame);
            by_use[1].push_tail(links, frame);
            by_class.use_again(frame, streams.class(stream, kind), &streams.classes);
        }
    }

    /// The page in `frame` gets new contents from `stream` at `time`: it is as one of `kind` that comes in.
    pub fn renew(&mut self, frame: u32, time: u32, stream: StreamId, kind: Kind, streams: &Streams) {
        let sample = self.remove(frame).sample;
        self.insert(frame, sample, LastUse { time, stream, kind, twice: false }, streams);
    }

    /// The page of least value, about. If it is busy, the nearest page of its class in order of use that is
    /// not; if those are, too, the least page of the other classes, if it is worth less than `share` of
    /// `candidate`: a scan that holds its latest pages is no reason to give up the pages of another.
    /// `candidate` otherwise, and if many are busy.
    pub fn least_by_value(
        &mut self,
        candidate: u32,
        now: u32,
        classes: &Classes,
        share: f32,
        busy: &mut dyn FnMut(u32) -> bool,
    ) -> u32 {
        let frames = &self.frames;
        let age = |frame: u32| now.wrapping_sub(frames[frame as usize].used.time);
        let Some(by_class) = self.orders.as_mut().map(|orders| &mut orders.by_class) else {
            return candidate;
        };
        for _ in 0..DRAWN {
            let frame = drawn(&self.own, &mut self.random);
            let age = age(frame);
            by_class.consider(frame, age, classes.ages.bucket(age), classes);
        }
        let mut may_go = |frame: u32| frame == candidate || !busy(frame);
        let mut passed_over = [None; CLASSES_TRIED];
        let mut choice = None;
        for passed in &mut passed_over {
            let Some(least) = by_class.least(classes, age) else { break };
            choice = by_class.nearest(least, NEIGHBOURS_MAX, &mut may_go);
            if choice.is_some() {
                break;
            }
            *passed = Some(by_class.pass_over(least));
        }
        passed_over.into_iter().rev().flatten().for_each(|passed| by_class.restore(passed));
        let value = |page: u32| by_class.value(page, age(page), classes);
        let goes = |page: &u32| passed_over[0].is_none() || value(*page) < share * value(candidate);
        choice.filter(goes).unwrap_or(candidate)
    }

    /// The oldest page used once, while there are more of them or older ones than ARC keeps; otherwise the
    /// oldest of the others. `candidate` if the oldest ones are busy.
    pub fn least_by_arc(
        &self,
        candidate: u32,
        now: u32,
        kept: UsedOnce,
        busy: &mut dyn FnMut(u32) -> bool,
    ) -> u32 {
        let Some(Orders { links, by_use: [once, twice], .. }) = &self.orders else { return candidate };
        let age = |frame: u32| self.get(frame).map_or(0, |frame| now.wrapping_sub(frame.used.time));
        let are_kept =
            once.len() as f32 <= kept.share * self.own.len() as f32 && age(once.head()) <= kept.age_max;
        let list = if are_kept { twice } else { once };
        // Pages in use are young, so hardly ever the first ones.
        let mut oldest = list.iter(links).take(ARC_LOOKS_MAX);
        oldest.find(|frame| *frame == candidate || !busy(*frame)).unwrap_or(candidate)
    }

    /// The page that [`least_by_value`](Self::least_by_value) probably finds.
    pub fn likely_by_value(&self) -> Option<u32> {
        self.orders.as_ref()?.by_class.likely_least()
    }

    /// The page that [`least_by_arc`](Self::least_by_arc) probably finds, if ARC keeps that share for pages
    /// used once.
    pub fn likely_by_arc(&self, once_share: f32) -> Option<u32> {
        let [once, twice] = &self.orders.as_ref()?.by_use;
        let are_kept = once.len() as f32 <= once_share * self.own.len() as f32;
        Some(if are_kept { twice } else { once }.head()).filter(|frame| *frame != NIL)
    }

    /// Reads what [`least_by_value`](Self::least_by_value) will of pages, so that it is in the processor's
    /// cache by then.
    pub fn touch_by_value(&self) {
        let Some(Orders { by_class, .. }) = self.orders.as_ref().filter(|_| !self.own.is_empty()) else {
            return;
        };
        let mut random = self.random.clone();
        let time_of = |frame: u32| self.get(frame).map_or(0, |frame| frame.used.time);
        let mut touched = 0;
        for _ in 0..DRAWN {
            let frame = drawn(&self.own, &mut random);
            touched ^= time_of(frame) ^ by_class.touch_class(frame);
        }
        by_class.looked_at_next(|page| touched ^= time_of(page));
        std::hint::black_box(touched);
    }

    /// Reads what [`use_again`](Self::use_again) will of `frame`, so that it is in the processor's cache by
    /// then.
    #[inline]
    pub fn touch(&self, frame: u32) -> u32 {
        let own = self.get(frame).map_or(0, |frame| frame.used.time);
        let orders = self.orders.as_ref();
        orders.map_or(own, |orders| own ^ orders.links.touch(frame) ^ orders.by_class.touch(frame))
    }

    /// The addresses of what is known of `frame`, to be fetched; any if it is none of the tenant's.
    #[inline]
    pub fn places_of(&self, frame: u32) -> [*const u8; 4] {
        let own = self.frames.as_ptr().wrapping_add(frame as usize).cast();
        let orders = self.orders.as_ref();
        let [class, by_class] = orders.map_or([own; 2], |orders| orders.by_class.places_of(frame));
        [own, orders.map_or(own, |orders| orders.links.place_of(frame)), class, by_class]
    }

    pub fn metadata_bytes(&self) -> usize {
        let orders = |orders: &Orders| orders.links.memory_bytes() + orders.by_class.metadata_bytes();
        self.frames.capacity() * size_of::<Frame>()
            + self.own.capacity() * size_of::<u32>()
            + self.orders.as_ref().map_or(0, orders)
    }

    /// Panics if frames and lists disagree, or a list is not by age.
    pub fn check_invariants(&self, now: u32) {
        for (at, frame) in self.own.iter().enumerate() {
            assert_eq!(self.frames[*frame as usize].own_at, at as u32, "place of frame {frame}");
        }
        let owned = || self.frames.iter().filter(|frame| frame.is_owned());
        assert_eq!(owned().count(), self.own.len(), "frames owned");
        let sampled = owned().filter(|frame| frame.is_sampled()).count();
        assert_eq!(sampled, self.sampled as usize, "frames with pages of the sample");
        let Some(Orders { links, by_use, by_class }) = &self.orders else { return };
        for (twice, list) in by_use.iter().enumerate() {
            list.check_invariants(links);
            let mut before = u32::MAX;
            for frame in list.iter(links) {
                let Frame { used, .. } = self.frames[frame as usize];
                assert_eq!(usize::from(used.twice), twice, "frame {frame} in list {twice}");
                let age = now.wrapping_sub(used.time);
                assert!(age <= before, "frame {frame} is older than the one before");
                before = age;
            }
        }
        assert_eq!(by_use.map(|list| list.len()).iter().sum::<u32>(), self.len(), "frames by use");
        let last = |frame: u32| self.get(frame).filter(|frame| frame.is_owned()).map(|frame| frame.used.time);
        by_class.check_invariants(self.frames.len() as u32, last);
    }
}

/// One of the frames in `own`, of which there is at least one.
#[inline]
fn drawn(own: &[u32], random: &mut SplitMix64) -> u32 {
    own[random.below(own.len() as u64) as usize]
}
