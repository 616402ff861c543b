//! Which shadow caches hold what: how many pages each set of them, and which frames have such pages.

use super::experts::{Expert, Shadows};
use super::shadow::Shadowed;
use super::shares::{PARTS, Shares};
use crate::list::{Links, List, NIL};

/// Frames in use passed over for one whose page nobody wants.
const LEFTOVERS_TRIED: usize = 16;

/// What the shadows hold of the samples, whose sets of shadows the caller keeps. 1,200 bytes, and 8 a frame,
/// while frames are listed.
pub(crate) struct Holdings {
    /// By set of shadows: how many pages exactly these hold. The entry of the empty set has no meaning and
    /// may wrap: pages that come or go while no shadow holds them are not counted.
    counts: [u32; Shadows::SETS],
    /// None where frames are not listed. First the frames with pages that no shadow holds; then, by set of
    /// shadows and part, those with pages that some hold. Pages that all hold are not listed. Each list is in
    /// the order in which frames entered it.
    lists: Vec<List>,
    links: Links,
}

/// The list of pages that no shadow holds.
const UNHELD: usize = 0;
const LISTS: usize = 1 + (Shadows::SETS - 2) * PARTS as usize;

/// Which list has the pages of `part` that those in `held` hold. None has those that all hold.
#[inline]
fn list_of(held: Shadows, part: u8) -> usize {
    match held.index() {
        UNHELD => UNHELD,
        set => 1 + (set - 1) * usize::from(PARTS) + usize::from(part),
    }
}

impl Holdings {
    /// Of no pages. Frames are listed if the holdings are `listed`.
    pub fn new(listed: bool) -> Self {
        let lists = vec![List::new(); if listed { LISTS } else { 0 }];
        Self { counts: [0; Shadows::SETS], lists, links: Links::default() }
    }

    /// The shadow of `expert` now holds a page, or no longer; it is in `frame`, or nowhere if that is
    /// [`NIL`].
    #[inline]
    pub fn set(&mut self, page: &mut Shadowed, frame: u32, expert: Expert, holds: bool) {
        let before = page.held;
        page.held.set(expert, holds);
        for (set, change) in [(before, u32::MAX), (page.held, 1)] {
            let count = &mut self.counts[set.index()];
            *count = count.wrapping_add(change);
        }
        if frame != NIL {
            self.leave(before, page.part, frame);
            self.list(page.held, page.part, frame);
        }
    }

    /// `page` is in `frame` from now on, or was already and has a sample again only now.
    #[inline]
    pub fn settle(&mut self, page: &Shadowed, frame: u32) {
        if self.links.is_linked(frame) {
            self.leave(Shadows::default(), page.part, frame);
        }
        if !self.lists.is_empty() {
            self.links.lengthen_for(frame);
        }
        self.list(page.held, page.part, frame);
    }

    #[inline]
    fn list(&mut self, held: Shadows, part: u8, frame: u32) {
        if let Some(list) = self.lists.get_mut(list_of(held, part)) {
            list.push_tail(&mut self.links, frame);
        }
    }

    /// A page of `part`, which those in `held` hold, is in `frame` no longer.
    #[inline]
    pub fn leave(&mut self, held: Shadows, part: u8, frame: u32) {
        if let Some(list) = self.lists.get_mut(list_of(held, part)) {
            list.remove(&mut self.links, frame);
        }
    }

    /// A frame whose page is not held by the shadow of the expert that has its part. None where frames are
    /// not listed.
    pub fn leftover(&self, shares: &Shares, busy: &mut dyn FnMut(u32) -> bool) -> Option<u32> {
        let frames = |list: usize| self.lists[list].iter(&self.links);
        let held = Shadows::partial().flat_map(|set| {
            let unwanted = (0..PARTS).filter(move |part| !set.has(shares.expert_of(*part)));
            unwanted.flat_map(move |part| frames(list_of(set, part)))
        });
        let unheld = self.lists.get(UNHELD)?.iter(&self.links);
        unheld.chain(held).take(LEFTOVERS_TRIED).find(|frame| !busy(*frame))
    }

    /// How many pages the shadow of `a` holds that the one of `b` does not.
    pub fn difference(&self, a: Expert, b: Expert) -> u32 {
        let divided = Shadows::all().filter(|set| set.has(a) && !set.has(b));
        divided.map(|set| self.counts[set.index()]).sum()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.lists.capacity() * size_of::<List>() + self.links.memory_bytes()
    }

    /// Panics unless these are the sets of shadows that hold the samples, and each of `frames` frames is
    /// listed by what `held_in` tells of its page, if frames are listed at all.
    pub fn check_invariants(
        &self,
        samples: impl Iterator<Item = Shadows>,
        frames: u32,
        held_in: impl Fn(u32) -> Option<Shadowed>,
    ) {
        let mut counts = [0; Shadows::SETS];
        samples.for_each(|held| counts[held.index()] += 1);
        assert_eq!(self.counts[1..], counts[1..], "pages by the shadows that hold them");
        if self.lists.is_empty() {
            return;
        }
        let mut lists = vec![None; frames as usize];
        for (at, list) in self.lists.iter().enumerate() {
            list.check_invariants(&self.links);
            list.iter(&self.links).for_each(|frame| lists[frame as usize] = Some(at));
        }
        for (frame, list) in lists.iter().enumerate() {
            let page = held_in(frame as u32).filter(|page| !page.held.are_all());
            let expected = page.map(|page| list_of(page.held, page.part));
            assert_eq!(*list, expected, "list of frame {frame}");
        }
    }
}
