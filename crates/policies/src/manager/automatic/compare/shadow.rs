//! What the shadow caches have in common.

use super::arc::Place;
use super::experts::{Expert, Shadows};
use super::holdings::Holdings;
use crate::manager::automatic::learn::intervals::{ClassId, Classes};
use crate::manager::automatic::learn::samples::Samples;

/// What the shadows keep of a sampled page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shadowed {
    /// Which shadows hold it.
    pub held: Shadows,
    /// Where the shadow by ARC lists it.
    pub arc: Place,
    /// The part of the pages that it belongs to.
    pub part: u8,
}

/// A use of a sampled page.
pub(super) struct Used<'a> {
    /// Its sample.
    pub slot: u32,
    /// Pages that each shadow may hold, at least 1.
    pub capacity: u32,
    /// The class by which it is valued from now on.
    pub valued: ClassId,
    pub classes: &'a Classes,
}

/// The sampled pages, and how many each set of shadows holds.
pub(super) struct SampledPages {
    pub samples: Samples<Shadowed>,
    pub holdings: Holdings,
}

impl SampledPages {
    /// The shadow of `expert` now holds `slot`, or no longer.
    #[inline]
    pub fn set_held(&mut self, slot: u32, expert: Expert, holds: bool) {
        let sample = &mut self.samples[slot];
        self.holdings.set(&mut sample.shadowed, sample.frame, expert, holds);
    }

    /// Whether the shadow of `expert` holds `slot`.
    #[inline]
    pub fn is_held(&self, slot: u32, expert: Expert) -> bool {
        self.samples[slot].shadowed.held.has(expert)
    }
}

/// A cache in miniature over the sampled pages. A slot is known to it from its first
/// [access](Self::access) until it is [forgotten](Self::forget).
pub(super) trait Shadow {
    /// Whether a use of `slot`, which it holds, is a [hit](Self::hit) that makes nothing leave a cache of
    /// `capacity` pages.
    fn has_room(&self, slot: u32, capacity: u32) -> bool;

    /// A page that it holds, and [has room](Self::has_room) for, is used.
    fn hit(&mut self, used: &Used<'_>, pages: &mut SampledPages);

    /// A page is used, whether it holds it or not: it holds it from now on, and no more pages than it may.
    fn access(&mut self, used: &Used<'_>, pages: &mut SampledPages);

    /// The page of `slot` is remembered no longer.
    fn forget(&mut self, slot: u32, pages: &mut SampledPages);

    /// Bytes of memory held.
    fn metadata_bytes(&self) -> usize;

    /// Panics if it holds other pages than those marked as its own.
    fn check_invariants(&self, pages: &SampledPages);
}
