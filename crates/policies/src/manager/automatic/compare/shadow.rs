//! What the shadow caches have in common.
//!
//! A shadow knows a slot from its first `access` until it is to `forget` it. After an access it holds the
//! page, and no more pages than the capacity. A `hit` is an access to a page that it holds, and makes none
//! leave.

use super::arc::Place;
use super::experts::{Expert, Shadows};
use super::holdings::Holdings;
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

/// The sampled pages, and how many each set of shadows holds.
pub(crate) struct SampledPages {
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
