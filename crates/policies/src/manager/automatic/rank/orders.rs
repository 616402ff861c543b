//! The orders of use of the frames owned: by ARC's two lists, and by class.

use super::by_class::PagesByClass;
use crate::list::{Links, List};
use crate::manager::automatic::learn::intervals::{ClassId, Classes};

/// The orders. 18 bytes a frame.
#[derive(Default)]
pub(crate) struct Orders {
    links: Links,
    /// Of the pages that were used once, and of the others; the oldest first.
    by_use: [List; 2],
    by_class: PagesByClass,
}

impl Orders {
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

    /// The pages by class.
    pub fn by_class(&mut self) -> &mut PagesByClass {
        &mut self.by_class
    }

    /// A page comes into `frame`, which has none.
    #[inline]
    pub fn insert(&mut self, frame: u32, twice: bool, class: ClassId, classes: &Classes) {
        if frame as usize >= self.links.len() {
            self.links.lengthen_to(frame as usize + 1);
        }
        self.by_use[usize::from(twice)].push_tail(&mut self.links, frame);
        self.by_class.push(frame, class, classes);
    }

    /// The page in `frame` is used; `twice`: not for the first time since it came.
    #[inline]
    pub fn use_again(&mut self, frame: u32, twice: bool, class: ClassId, classes: &Classes) {
        self.by_use[usize::from(twice)].remove(&mut self.links, frame);
        self.by_use[1].push_tail(&mut self.links, frame);
        self.by_class.use_again(frame, class, classes);
    }

    /// The page in `frame` leaves.
    pub fn remove(&mut self, frame: u32, twice: bool) {
        self.by_use[usize::from(twice)].remove(&mut self.links, frame);
        self.by_class.remove(frame);
    }

    /// Reads what [`use_again`](Self::use_again) will of `frame`, so that it is in the processor's cache by
    /// then.
    #[inline]
    pub fn touch(&self, frame: u32) -> u32 {
        self.links.touch(frame) ^ self.by_class.touch(frame)
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
        self.by_class.check_invariants(frames, |frame| owned(frame).map(|(last, _)| last));
    }
}
