//! The pages that the tenant holds: what is known of each, and which one goes.

use super::orders::Orders;
use crate::list::{NIL, lengthen, push};
use crate::manager::automatic::learn::intervals::{Classes, NEW};
use crate::manager::automatic::learn::streams::Streams;
use crate::random::SplitMix64;

/// Busy pages passed over for a victim when ARC chooses.
const ARC_LOOKS_MAX: u32 = 32;
/// The same to either side of the page of least value.
const NEIGHBOURS_MAX: u32 = 8;
/// Pages drawn with each choice by value: they lead to the least ones of a class that are neither its oldest
/// nor its newest.
const DRAWN: u32 = 4;

/// What is known of a frame; four to a cache line.
#[derive(Clone, Copy)]
pub(crate) struct Frame {
    /// When the page was used last. Ages are taken modulo 2^32, so that a page unused for 500 million misses
    /// looks young.
    pub last: u32,
    /// Where `own` lists it, or [`NIL`] if the tenant does not own it.
    own_at: u32,
    /// The sample that remembers the page, or [`NIL`].
    pub sample: u32,
    /// Who used it last.
    pub stream: u16,
    pub kind: u8,
    marks: Marks,
}

impl Frame {
    /// Of a page used at `now`, of the `kind` of pages that `stream` uses.
    pub fn new(now: u32, sample: u32, stream: u16, kind: u8, marks: Marks) -> Self {
        Self { last: now, own_at: NIL, sample, stream, kind, marks }
    }

    #[inline]
    pub fn marks(&self) -> Marks {
        self.marks
    }

    pub fn is_owned(&self) -> bool {
        self.own_at != NIL
    }
}

/// Two bits a frame.
#[derive(Clone, Copy)]
pub(crate) struct Marks(u8);

impl Marks {
    const SAMPLED: u8 = 1;
    const TWICE: u8 = 2;

    pub fn new(is_sampled: bool, twice: bool) -> Self {
        Self((u8::from(is_sampled) * Self::SAMPLED) | (u8::from(twice) * Self::TWICE))
    }

    /// The page is one of the sample.
    #[inline]
    pub fn is_sampled(self) -> bool {
        self.0 & Self::SAMPLED != 0
    }

    /// The page was used again since it came, or came back while ARC remembered it.
    #[inline]
    pub fn is_twice(self) -> bool {
        self.0 & Self::TWICE != 0
    }
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
    /// Keeps the orders of use if they are `ordered`.
    pub fn new(ordered: bool, seed: u64) -> Self {
        Self {
            frames: Vec::new(),
            own: Vec::new(),
            sampled: 0,
            orders: ordered.then(Orders::default),
            random: SplitMix64::new(seed),
        }
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

    pub fn is_empty(&self) -> bool {
        self.own.is_empty()
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
    pub fn insert(&mut self, frame: u32, page: Frame, streams: &Streams) {
        if frame as usize >= self.frames.len() {
            let vacant = Frame::new(0, NIL, 0, NEW, Marks(0));
            lengthen(&mut self.frames, frame as usize + 1, vacant);
        }
        self.frames[frame as usize] = Frame { own_at: self.own.len() as u32, ..page };
        push(&mut self.own, frame);
        self.sampled += u32::from(page.marks.is_sampled());
        if let Some(orders) = &mut self.orders {
            let class = streams.class(page.stream, page.kind);
            orders.insert(frame, page.marks.is_twice(), class, &streams.classes);
        }
    }

    /// The page in `frame` leaves: what was known of it.
    pub fn remove(&mut self, frame: u32) -> Frame {
        let entry = &mut self.frames[frame as usize];
        let page = *entry;
        (entry.own_at, entry.sample) = (NIL, NIL);
        self.sampled -= u32::from(page.marks.is_sampled());
        if let Some(orders) = &mut self.orders {
            orders.remove(frame, page.marks.is_twice());
        }
        self.own.swap_remove(page.own_at as usize);
        if let Some(&moved) = self.own.get(page.own_at as usize) {
            self.frames[moved as usize].own_at = page.own_at;
        }
        page
    }

    /// The page in `frame` is used by `stream` at `now`. It is of `kind` from now on.
    #[inline]
    pub fn use_again(&mut self, frame: u32, (now, stream, kind): (u32, u16, u8), streams: &Streams) {
        let entry = &mut self.frames[frame as usize];
        let twice = entry.marks.is_twice();
        (entry.last, entry.stream, entry.kind) = (now, stream, kind);
        entry.marks.0 |= Marks::TWICE;
        if let Some(orders) = &mut self.orders {
            orders.use_again(frame, twice, streams.class(stream, kind), &streams.classes);
        }
    }

    /// The page in `frame` gets new contents from `stream` at `now`: it is as one of `kind` that comes in.
    pub fn renew(&mut self, frame: u32, (now, stream, kind): (u32, u16, u8), streams: &Streams) {
        let Frame { sample, marks, .. } = self.remove(frame);
        let page = Frame::new(now, sample, stream, kind, Marks::new(marks.is_sampled(), false));
        self.insert(frame, page, streams);
    }

    /// The page of least value; if it is in use, one of those used right before and after it.
    pub fn least_by_value(
        &mut self,
        candidate: u32,
        now: u32,
        classes: &Classes,
        busy: &mut dyn FnMut(u32) -> bool,
    ) -> u32 {
        let frames = &self.frames;
        let age = |frame: u32| now.wrapping_sub(frames[frame as usize].last);
        let Some(by_class) = self.orders.as_mut().map(Orders::by_class) else { return candidate };
        for _ in 0..DRAWN {
            let frame = self.own[self.random.below(self.own.len() as u64) as usize];
            let age = age(frame);
            by_class.consider(frame, age, classes.bucket(age), classes);
        }
        let Some(least) = by_class.least(classes, age) else { return candidate };
        let mut may_go = |frame: u32| frame == candidate || !busy(frame);
        if may_go(least) {
            return least;
        }
        let mut ends = [least; 2];
        for _ in 0..NEIGHBOURS_MAX {
            for (side, end) in ends.iter_mut().enumerate().filter(|(_, end)| **end != NIL) {
                *end = by_class.neighbours(*end)[side];
                if *end != NIL && may_go(*end) {
                    return *end;
                }
            }
        }
        candidate
    }

    /// The oldest page of those used once or of the others; of those used once while they have more than
    /// `once_share` of the frames.
    pub fn least_by_arc(&self, candidate: u32, once_share: f32, busy: &mut dyn FnMut(u32) -> bool) -> u32 {
        let Some(orders) = &self.orders else { return candidate };
        let twice = orders.once() as f32 <= once_share * self.own.len() as f32;
        let mut frame = orders.oldest(twice);
        // Pages in use are young, so hardly ever the first ones.
        for _ in 0..ARC_LOOKS_MAX {
            if frame == NIL {
                break;
            }
            if frame == candidate || !busy(frame) {
                return frame;
            }
            frame = orders.next(frame);
        }
        candidate
    }

    /// Reads what [`use_again`](Self::use_again) will of `frame`, so that it is in the processor's cache by
    /// then.
    #[inline]
    pub fn touch(&self, frame: u32) -> u32 {
        let own = self.get(frame).map_or(0, |frame| frame.last);
        self.orders.as_ref().map_or(own, |orders| own ^ orders.touch(frame))
    }

    pub fn metadata_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.own.capacity() * size_of::<u32>()
            + self.orders.as_ref().map_or(0, Orders::metadata_bytes)
    }

    /// Panics if marks and lists disagree.
    pub fn check_invariants(&self, now: u32) {
        for (at, frame) in self.own.iter().enumerate() {
            assert_eq!(self.frames[*frame as usize].own_at, at as u32, "place of frame {frame}");
        }
        assert_eq!(
            self.frames.iter().filter(|frame| frame.is_owned()).count(),
            self.own.len(),
            "frames owned"
        );
        let in_order = |frame: u32| {
            let frame = &self.frames[frame as usize];
            frame.is_owned().then_some((frame.last, frame.marks.is_twice()))
        };
        let sampled =
            self.own.iter().filter(|frame| self.frames[**frame as usize].marks.is_sampled()).count();
        assert_eq!(sampled, self.sampled as usize, "frames with pages of the sample");
        if let Some(orders) = &self.orders {
            orders.check_invariants(self.frames.len() as u32, now, in_order);
        }
    }
}
