//! The orders of use of the frames owned: by ARC's two lists always, by class only while victims are chosen
//! by value.
//!
//! Nothing but a choice by value reads the lists of classes, and keeping them costs a hit as much as all else
//! that is done for it. While values have no share of the cache they are left as they are, except that pages
//! that leave are taken out. When values get a share, the pages are listed anew in the order of their last
//! use, a few with each access; until that is done, the expert that chose before chooses on.

use super::by_class::PagesByClass;
use crate::list::{Links, List, NIL};
use crate::manager::automatic::learn::intervals::{ClassId, Classes};

/// Pages listed anew with each hit. An access makes at most one more to be listed, so that all are after a
/// seventh of as many accesses as there are pages.
pub(crate) const LISTED_PER_HIT: u32 = 8;
/// The same with each miss, which takes longer anyway. Where nearly all accesses miss, each access
/// by which the change is delayed costs a miss, so that it should not take many.
pub(crate) const LISTED_PER_MISS: u32 = 64;

/// What the lists of classes are worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Classed {
    /// They have each page in its place.
    Current,
    /// They have some pages, in places of long ago.
    Stale,
    /// The pages used longest ago are in their places. By list of `by_use`, the first page that is not;
    /// [`NIL`] if all are.
    Rebuilding([u32; 2]),
}

/// The orders. 18 bytes a frame.
pub(crate) struct Orders {
    links: Links,
    /// Of the pages that were used once, and of the others; the oldest first.
    by_use: [List; 2],
    by_class: PagesByClass,
    classed: Classed,
}

impl Orders {
    /// `by_value`: whether victims are chosen by value from the first on.
    pub fn new(by_value: bool) -> Self {
        Self {
            links: Links::default(),
            by_use: Default::default(),
            by_class: PagesByClass::default(),
            classed: if by_value { Classed::Current } else { Classed::Stale },
        }
    }

    /// How many pages were used once.
    pub fn once(&self) -> u32 {
        self.by_use[0].len()
    }

    /// The page used longest ago of those used once or, if `twice`, of the others; [`NIL`] if there is none.
    pub fn oldest(&self, twice: bool) -> u32 {
        self.by_use[usize::from(twice)].head()
    }

    /// The page of the same kind that was used after `frame`, or [`NIL`].
    pub fn next(&self, frame: u32) -> u32 {
        self.links.next(frame)
    }

    /// The lists of classes, if they have each page in its place.
    pub fn by_class(&mut self) -> Option<&mut PagesByClass> {
        (self.classed == Classed::Current).then_some(&mut self.by_class)
    }

    /// A page comes into `frame`, which has none.
    #[inline]
    pub fn insert(&mut self, frame: u32, twice: bool, class: impl FnOnce() -> ClassId, classes: &Classes) {
        if frame as usize >= self.links.len() {
            self.links.lengthen_to(frame as usize + 1);
        }
        self.append(frame, twice);
        if self.classed == Classed::Current {
            self.by_class.push(frame, class(), classes);
        }
    }

    /// The page in `frame` is used; `twice`: not for the first time since it came.
    #[inline]
    pub fn use_again(&mut self, frame: u32, twice: bool, class: impl FnOnce() -> ClassId, classes: &Classes) {
        self.take_out(frame, twice);
        self.append(frame, true);
        if self.classed == Classed::Current {
            self.by_class.use_again(frame, class(), classes);
        }
    }

    /// The page in `frame` leaves.
    pub fn remove(&mut self, frame: u32, twice: bool) {
        self.take_out(frame, twice);
        if self.by_class.is_listed(frame) {
            self.by_class.remove(frame);
        }
    }

    #[inline]
    fn append(&mut self, frame: u32, twice: bool) {
        let list = usize::from(twice);
        self.by_use[list].push_tail(&mut self.links, frame);
        if let Classed::Rebuilding(first) = &mut self.classed
            && first[list] == NIL
        {
            first[list] = frame;
        }
    }

    #[inline]
    fn take_out(&mut self, frame: u32, twice: bool) {
        let list = usize::from(twice);
        if let Classed::Rebuilding(first) = &mut self.classed
            && first[list] == frame
        {
            first[list] = self.links.next(frame);
        }
        self.by_use[list].remove(&mut self.links, frame);
    }

    /// Victims are no longer chosen by value.
    pub fn leave_classes(&mut self) {
        self.classed = Classed::Stale;
    }

    /// Victims are to be chosen by value: whether they can be at once. Otherwise pages are listed from now
    /// on.
    pub fn list_classes(&mut self) -> bool {
        if self.classed == Classed::Stale {
            self.by_class.forget_least();
            self.classed = Classed::Rebuilding(self.by_use.each_ref().map(List::head));
        }
        self.classed == Classed::Current
    }

    /// Whether pages are being listed: [`advance`](Self::advance) has something to do.
    #[inline]
    pub fn is_listing(&self) -> bool {
        matches!(self.classed, Classed::Rebuilding(_))
    }

    /// Lists the next `count` pages. `age` tells how long ago a page was used. Returns whether all are listed
    /// now.
    pub fn advance(
        &mut self,
        count: u32,
        classes: &Classes,
        age: impl Fn(u32) -> u32,
        class: impl Fn(u32) -> ClassId,
    ) -> bool {
        let Classed::Rebuilding(mut first) = self.classed else { return false };
        for _ in 0..count {
            let list = match first {
                [NIL, NIL] => break,
                [_, NIL] => 0,
                [NIL, _] => 1,
                [once, twice] => usize::from(age(twice) > age(once)),
            };
            let frame = first[list];
            self.by_class.list(frame, class(frame), age(frame), classes);
            first[list] = self.links.next(frame);
        }
        let all = first == [NIL; 2];
        self.classed = if all { Classed::Current } else { Classed::Rebuilding(first) };
        all
    }

    /// Reads what [`use_again`](Self::use_again) will of `frame`, so that it is in the processor's cache by
    /// then.
    #[inline]
    pub fn touch(&self, frame: u32) -> u32 {
        let by_class = if self.classed == Classed::Current { self.by_class.touch(frame) } else { 0 };
        self.links.touch(frame) ^ by_class
    }

    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes() + self.by_class.metadata_bytes()
    }

    /// Panics unless the frames of which `owned` tells when and whether twice they were used are listed, each
    /// list by age.
    pub fn check_invariants(&self, frames: u32, now: u32, owned: impl Fn(u32) -> Option<(u32, bool)>) {
        let mut listed = 0;
        for (twice, list) in self.by_use.iter().enumerate() {
            list.check_invariants(&self.links);
            let mut before = u32::MAX;
            for frame in list.iter(&self.links) {
                let (last, is_twice) = owned(frame).expect("an owned frame");
                assert_eq!(is_twice, twice == 1, "frame {frame} in list {twice}");
                let age = now.wrapping_sub(last);
                assert!(age <= before, "frame {frame} is older than the one before");
                before = age;
                listed += 1;
            }
        }
        assert_eq!(listed, (0..frames).filter(|frame| owned(*frame).is_some()).count(), "frames by use");
        let last = |frame: u32| owned(frame).map(|(last, _)| last);
        match self.classed {
            Classed::Current => self.by_class.check_invariants(frames, last),
            Classed::Stale => self.by_class.check_lists(frames, |_| false, last),
            Classed::Rebuilding(first) => {
                let is_unlisted = |list: usize, frame: u32| {
                    let since = |frame: u32| owned(frame).map(|(last, _)| now.wrapping_sub(last));
                    first[list] != NIL && since(frame) <= since(first[list])
                };
                let is_listed = |frame: u32| {
                    owned(frame).is_some_and(|(_, twice)| !is_unlisted(usize::from(twice), frame))
                };
                self.by_class.check_lists(frames, is_listed, last);
            }
        }
    }
}
