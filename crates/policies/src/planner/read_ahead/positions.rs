//! The positions of one stream, and which of them an access belongs to.

use std::cmp::Reverse;

use super::head::{Head, Pattern};
use crate::planner::{Seen, Stretch};

/// Positions of one stream. Half of them are for positions that are not believed.
pub(super) const HEADS: usize = 8;
/// The longest step of a position, in pages.
pub(super) const REACH: u64 = 1024;
/// A believed position that has not moved for this many observed accesses may lose its place to another.
pub(super) const IDLE: u64 = 32;

/// The positions of one stream.
///
/// An access at random begins a position far from all others, and is displaced before another comes near. So
/// while none is believed, such a position is *fresh*: noted in `places` only. Its head is made before one is
/// looked at that is not believed.
#[derive(Clone)]
#[repr(C)]
pub(super) struct Positions {
    /// Accesses observed.
    now: u64,
    /// Heads that are believed: random accesses have none, and are most of what is observed.
    believed: u32,
    /// The believed head that moved last.
    latest: u32,
    /// A bit for each head that is fresh; 0 while a head is believed.
    fresh: u32,
    places: Places,
    heads: [Head; HEADS],
}

/// The pages and times of the positions of a stream, side by side, so that an access that is far from all of
/// them looks at none of the heads.
#[derive(Clone, Copy, Default)]
#[repr(C, align(32))]
struct Places {
    /// [`Head::last`] of each.
    last: [u64; HEADS],
    /// [`Head::moved`] of each.
    moved: [u64; HEADS],
}

impl Places {
    /// Notes where a head is now.
    fn note(&mut self, at: usize, head: &Head) {
        (self.last[at], self.moved[at]) = (head.last, head.moved);
    }

    /// The head of a position that has only begun.
    fn head(&self, at: usize) -> Head {
        Head::new(self.moved[at], self.last[at])
    }

    /// Whether a page is farther than [`REACH`] from all positions. Then it continues none that is not
    /// believed, because their steps are no longer than that.
    fn are_far_from(&self, number: u64) -> bool {
        let is_near = |last: &u64| last.wrapping_sub(number).wrapping_add(REACH) <= 2 * REACH;
        !self.last.iter().fold(false, |any, last| any | is_near(last))
    }

    /// The position that moved longest ago.
    fn oldest(&self) -> usize {
        let oldest = |oldest, at| if self.moved[at] < self.moved[oldest] { at } else { oldest };
        (1..HEADS).fold(0, oldest)
    }
}

impl Positions {
    /// None yet.
    pub fn new() -> Self {
        let (places, heads) = (Places::default(), [Head::default(); HEADS]);
        Self { now: 0, believed: 0, latest: 0, fresh: 0, places, heads }
    }

    /// Another access of the stream is observed.
    pub fn observe(&mut self) {
        self.now += 1;
    }

    /// The believed position that an access belongs to.
    pub fn believed_for(&self, number: u64, seen: Seen) -> Option<usize> {
        if self.believed == 0 {
            return None;
        }
        let latest = &self.heads[self.latest as usize];
        if latest.is_first_for(number) && latest.moved + 1 == self.now {
            return Some(self.latest as usize);
        }
        self.best_for(number, seen)
    }

    /// As [`believed_for`](Self::believed_for), by a look at all positions.
    #[inline(never)]
    fn best_for(&self, number: u64, seen: Seen) -> Option<usize> {
        let rank = |at: usize| {
            let head = &self.heads[at];
            Some((head.fit(number, seen)?, head.step.unsigned_abs(), Reverse(head.moved)))
        };
        let ranked = (0..HEADS).filter_map(|at| Some((rank(at)?, at)));
        ranked.min_by_key(|(rank, _)| *rank).map(|(_, at)| at)
    }

    /// Whether a page is far from all positions, none of which is believed. Then it belongs to none.
    pub fn are_far_from(&self, number: u64) -> bool {
        self.believed == 0 && self.places.are_far_from(number)
    }

    /// Begins a position in place of the oldest one. No position may be believed.
    pub fn begin_far(&mut self, number: u64) {
        debug_assert_eq!(self.believed, 0);
        let at = self.places.oldest();
        (self.places.last[at], self.places.moved[at]) = (number, self.now);
        self.fresh |= 1 << at;
    }

    /// Makes the heads that are fresh.
    #[inline]
    fn settle(&mut self) {
        while self.fresh != 0 {
            let at = self.fresh.trailing_zeros() as usize;
            self.heads[at] = self.places.head(at);
            self.fresh &= self.fresh - 1;
        }
    }

    pub fn head(&self, at: usize) -> &Head {
        &self.heads[at]
    }

    /// The believed position that moved last. It may be planned for, but not moved.
    pub fn latest_mut(&mut self) -> &mut Head {
        &mut self.heads[self.latest as usize]
    }

    /// The position that `pages` were planned for. It may be planned for anew, but not moved.
    pub fn planned_mut(&mut self, pages: Stretch) -> Option<&mut Head> {
        self.heads.iter_mut().find(|head| head.step == pages.step && head.has_planned(pages))
    }

    /// The reader waits for a page that is on its way in ahead.
    pub fn awaited(&mut self, number: u64) {
        if let Some(at) = self.best_for(number, Seen::FoundAhead) {
            self.heads[at].is_late = true;
        }
    }

    /// An access fits no believed position. The reader outruns those whose windows would have had the page if
    /// they were longer.
    pub fn note_outrun(&mut self, number: u64, window_max: u64) {
        for head in self.heads.iter_mut().filter(|head| head.window > 0) {
            let steps = head.steps_in(number.wrapping_sub(head.last).cast_signed());
            head.is_late |= steps > 0 && steps as u64 <= window_max;
        }
    }

    /// Moves a believed position. Returns whether the access makes another one believed, which moved last
    /// then.
    pub fn advance(&mut self, at: usize, number: u64, seen: Seen) -> bool {
        let head = &mut self.heads[at];
        head.move_at(self.now);
        head.advance(number);
        head.note(seen);
        self.places.note(at, head);
        self.latest = at as u32;
        // A strided position must not hide from a sequential one, not believed yet, the pages that are on
        // both their ways.
        let is_strided = Pattern::of(head.step) == Pattern::Strided;
        let sequential = if is_strided { self.neighbour_of(number) } else { None };
        sequential.is_some_and(|at| self.follow(at, number))
    }

    /// A position, not believed yet, that is beside a page. Some position must be believed.
    fn neighbour_of(&self, number: u64) -> Option<usize> {
        self.heads.iter().position(|head| head.is_young() && head.last.abs_diff(number) == 1)
    }

    /// The position, not believed yet, that an access belongs to: one that it continues, or else the nearest
    /// one, unless that has found a smaller distance.
    pub fn candidate_for(&mut self, number: u64) -> Option<usize> {
        self.settle();
        let mut nearest = (u64::MAX, None);
        for (at, head) in self.heads.iter().enumerate().filter(|(_, head)| head.is_young()) {
            if head.is_continued_by(number) {
                return Some(at);
            }
            let distance = head.last.abs_diff(number);
            if distance < nearest.0 {
                nearest = (distance, Some(at));
            }
        }
        let (distance, Some(at)) = nearest else { return None };
        let Head { step, repeats, .. } = self.heads[at];
        let is_open = step == 0 || repeats == 1 && distance <= step.unsigned_abs();
        (distance <= REACH && is_open).then_some(at)
    }

    /// Moves a position that is not believed yet. Returns whether it is now; then it moved last.
    pub fn follow(&mut self, at: usize, number: u64) -> bool {
        self.settle();
        let head = &mut self.heads[at];
        head.move_at(self.now);
        let is_believed = head.follow(number);
        self.places.note(at, head);
        if is_believed {
            self.believed += 1;
            self.latest = at as u32;
        }
        is_believed
    }

    /// Begins another position. Returns the one that had its place.
    pub fn begin(&mut self, number: u64) -> Head {
        self.settle();
        let idle = self.now.saturating_sub(IDLE);
        let keeps_place = |head: &Head| head.window > 0 && head.moved >= idle;
        let replaces_kept = self.believed as usize > HEADS / 2
            && self.heads.iter().filter(|head| keeps_place(head)).count() > HEADS / 2;
        let places = self.heads.iter().enumerate().filter(|(_, head)| keeps_place(head) == replaces_kept);
        let (at, _) = places.min_by_key(|(_, head)| head.moved).expect("there are some of either kind");
        let head = Head::new(self.now, number);
        self.places.note(at, &head);
        let left = std::mem::replace(&mut self.heads[at], head);
        self.believed -= u32::from(left.window > 0);
        left
    }

    /// What was planned for a position that was given up, unless another one is about to use some of it.
    pub fn no_longer_expected(&self, left: &Head) -> Option<Stretch> {
        let unused = left.unused()?;
        let of_others = self.heads.iter().filter_map(Head::unused);
        let is_disjoint =
            |other: Stretch| other.highest() < unused.lowest() || unused.highest() < other.lowest();
        Some(unused).filter(|_| of_others.into_iter().all(is_disjoint))
    }

    /// Addresses of what the next observation is likely to change.
    pub fn addresses(&self) -> [*const u8; 3] {
        let last: *const u8 = std::ptr::from_ref(&self.places.last).cast();
        [last, std::ptr::from_ref(&self.places.moved).cast(), std::ptr::from_ref(&self.now).cast()]
    }
}

#[cfg(test)]
impl Positions {
    /// Holds what is left out for speed against the plain way.
    pub fn check(&self, number: u64, seen: Seen) {
        let is_far = self.places.are_far_from(number);
        assert!(self.fresh == 0 || self.believed == 0);
        let mut settled = self.clone();
        settled.settle();
        let believed = settled.heads.iter().filter(|head| head.window > 0);
        assert_eq!(settled.believed as usize, believed.count());
        assert!(settled.believed > 0 || settled.heads.iter().all(|head| head.fit(number, seen).is_none()));
        let distance = |at: &usize| settled.heads[*at].last.abs_diff(number);
        let young = (0..HEADS).filter(|at| settled.heads[*at].is_young());
        let mut continued = young.clone().filter(|at| settled.heads[*at].is_continued_by(number));
        let plain = continued.next().or_else(|| {
            let nearest = young.min_by_key(distance)?;
            let Head { step, repeats, .. } = settled.heads[nearest];
            let is_open = step == 0 || repeats == 1 && distance(&nearest) <= step.unsigned_abs();
            (distance(&nearest) <= REACH && is_open).then_some(nearest)
        });
        assert_eq!(settled.candidate_for(number), plain);
        for (at, head) in settled.heads.iter().enumerate() {
            assert_eq!((settled.places.last[at], settled.places.moved[at]), (head.last, head.moved));
        }
        assert!(plain.is_none() || !is_far, "page {number} continues a position");
        assert_eq!(
            settled.heads[settled.places.oldest()].moved,
            settled.places.moved.into_iter().min().unwrap()
        );
    }

    /// Whether the position that moved last is the one that an access belongs to. No other may be better
    /// then.
    pub fn check_latest(&self, number: u64, seen: Seen) -> bool {
        let found = self.believed_for(number, seen);
        assert_eq!(found, self.best_for(number, seen));
        found == Some(self.latest as usize)
    }
}
