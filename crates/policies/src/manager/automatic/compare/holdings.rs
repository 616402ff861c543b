//! Which shadow caches hold what: how many pages each set of them, and which frames have a *leftover*, a page
//! that the followed one does not hold.

use super::experts::{Expert, Shadows};
use crate::ids::FrameId;
use crate::list::{Links, List, NIL};

/// Frames in use passed over for one that the shadow does not hold.
const LEFTOVERS_TRIED: usize = 16;

/// What the shadows hold of the samples, whose sets of shadows the caller keeps. 8 bytes a frame while
/// leftovers are listed.
pub(crate) struct Holdings {
    /// How many pages each set of shadows holds.
    counts: [u32; Shadows::SETS],
    /// The shadow that the cache follows.
    followed: Expert,
    /// Whether leftovers are listed.
    lists_leftovers: bool,
    /// The frames with leftovers, in the order in which the followed shadow gave these up.
    leftovers: List,
    links: Links,
}

impl Holdings {
    /// Of no pages.
    pub fn new(followed: Expert, lists_leftovers: bool) -> Self {
        let (leftovers, links) = (List::new(), Links::default());
        Self { counts: [0; Shadows::SETS], followed, lists_leftovers, leftovers, links }
    }

    /// A page, held by none.
    pub fn add(&mut self) {
        self.counts[Shadows::default().index()] += 1;
    }

    /// A page held by none is forgotten.
    pub fn remove(&mut self) {
        self.counts[Shadows::default().index()] -= 1;
    }

    /// The shadow of `expert` now holds the page that those in `held` did, or no longer; the page is in
    /// `frame`, or nowhere if that is [`NIL`].
    #[inline]
    pub fn set(&mut self, held: &mut Shadows, frame: u32, expert: Expert, holds: bool) {
        self.counts[held.index()] -= 1;
        held.set(expert, holds);
        self.counts[held.index()] += 1;
        if expert == self.followed && frame != NIL {
            self.set_leftover(frame, !holds);
        }
    }

    /// The page that those in `held` hold is in `frame` from now on.
    #[inline]
    pub fn settle(&mut self, held: Shadows, frame: u32) {
        self.set_leftover(frame, !held.has(self.followed));
    }

    /// `frame` now has a leftover, or no longer.
    #[inline]
    pub fn set_leftover(&mut self, frame: u32, is_leftover: bool) {
        if is_leftover != self.links.is_linked(frame) && self.lists_leftovers {
            if is_leftover {
                // A page that is on its way into a new frame may change which expert the cache follows.
                self.links.grow_to(frame);
                self.leftovers.push_tail(&mut self.links, frame);
            } else {
                self.leftovers.remove(&mut self.links, frame);
            }
        }
    }

    /// From now on the cache follows `expert`; the caller says which frames then have leftovers.
    pub fn follow(&mut self, expert: Expert) {
        self.followed = expert;
        while self.leftovers.pop_head(&mut self.links).is_some() {}
    }

    /// A frame whose page the followed shadow does not hold.
    pub fn leftover(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let frames = self.leftovers.iter(&self.links).take(LEFTOVERS_TRIED);
        frames.map(FrameId).find(|frame| !busy(*frame))
    }

    /// How many pages the shadow of `a` holds that the one of `b` does not.
    pub fn difference(&self, a: Expert, b: Expert) -> u32 {
        if a == b {
            return 0;
        }
        Shadows::divided(a, b).map(|set| self.counts[set.index()]).iter().sum()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
    }

    /// Panics unless these are the sets of shadows that hold the samples, and the leftovers those of the
    /// frames for which `held_in` tells that the followed shadow does not hold their page.
    pub fn check_invariants(
        &self,
        samples: impl Iterator<Item = Shadows>,
        frames: u32,
        held_in: impl Fn(u32) -> Option<Shadows>,
    ) {
        self.leftovers.check_invariants(&self.links);
        for frame in 0..frames {
            let is_leftover =
                self.lists_leftovers && held_in(frame).is_some_and(|held| !held.has(self.followed));
            assert_eq!(self.links.is_linked(frame), is_leftover, "whether frame {frame} has a leftover");
        }
        let mut counts = [0; Shadows::SETS];
        samples.for_each(|held| counts[held.index()] += 1);
        assert_eq!(self.counts, counts, "pages by the shadows that hold them");
    }
}
