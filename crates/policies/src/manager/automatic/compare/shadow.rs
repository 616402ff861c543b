//! What the shadow caches have in common.
//!
//! A shadow knows a slot from its first `access` until it is to `forget` it. After an access it holds the
//! page, and no more pages than the capacity. A `hit` is an access to a page that it holds, and makes none
//! leave.

use super::arc::Place;
use super::experts::{Expert, Shadows};
use crate::manager::automatic::learn::samples::Samples;

/// What the shadows keep of a sampled page.
#[derive(Clone, Copy, Default)]
pub(crate) struct Shadowed {
    /// Which shadows hold it.
    pub held: Shadows,
    /// Where the shadow by ARC lists it.
    pub arc: Place,
    /// Whether the cache gave it up while values led, and the shadow by value held it then.
    pub given_up: bool,
}

/// The sampled pages, and how many each set of shadows holds.
pub(crate) struct SampledPages {
    pub samples: Samples<Shadowed>,
    /// By set of shadows: how many pages exactly these hold. The entry of the empty set has no meaning and
    /// may wrap: pages that come or go while no shadow holds them are not counted.
    counts: [u32; Shadows::SETS],
}

impl SampledPages {
    /// Of which no shadow holds any.
    pub fn new(samples: Samples<Shadowed>) -> Self {
        Self { samples, counts: [0; Shadows::SETS] }
    }

    /// The shadow of `expert` now holds `slot`, or no longer.
    #[inline]
    pub fn set_held(&mut self, slot: u32, expert: Expert, holds: bool) {
        let held = &mut self.samples[slot].shadowed.held;
        let before = *held;
        held.set(expert, holds);
        for (set, change) in [(before, u32::MAX), (*held, 1)] {
            let count = &mut self.counts[set.index()];
            *count = count.wrapping_add(change);
        }
    }

    /// Whether the shadow of `expert` holds `slot`.
    #[inline]
    pub fn is_held(&self, slot: u32, expert: Expert) -> bool {
        self.samples[slot].shadowed.held.has(expert)
    }

    /// How many pages the shadow of `a` holds that the one of `b` does not.
    pub fn difference(&self, a: Expert, b: Expert) -> u32 {
        let divided = Shadows::all().filter(|set| set.has(a) && !set.has(b));
        divided.map(|set| self.counts[set.index()]).sum()
    }

    /// Panics unless the counts are those of the samples.
    pub fn check_invariants(&self) {
        self.samples.check_invariants();
        let mut counts = [0; Shadows::SETS];
        self.samples.iter().for_each(|sample| counts[sample.shadowed.held.index()] += 1);
        assert_eq!(self.counts[1..], counts[1..], "pages by the shadows that hold them");
    }
}
