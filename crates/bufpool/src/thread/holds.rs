//! Guards and pins of the calling thread, counted by pool.

use crate::thread::hot::{HOLDS_RECORDED, HOLDS_SLOTS, hot};

/// Where each thread counts its guards and pins on pages of a pool: a place below [`HOLDS_SLOTS`], or, if the
/// pool's recorder is to hear of them, that place plus [`HOLDS_SLOTS`], where counts are negative.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HoldsSlot(u32);

impl HoldsSlot {
    pub fn new(pool_serial: u64, is_recording: bool) -> Self {
        let place = pool_serial as usize % HOLDS_SLOTS;
        Self(if is_recording { HOLDS_SLOTS + place } else { place } as u32)
    }

    /// Below 16.
    pub fn number(self) -> u32 {
        self.0
    }

    /// By the lowest bits of `number`.
    #[inline(always)]
    pub fn from_number(number: u32) -> Self {
        Self(number % (2 * HOLDS_SLOTS as u32))
    }

    /// Adds `step` to the count. False if a recorder is to hear of it.
    #[inline(always)]
    pub fn count(self, step: i32) -> bool {
        hot(|thread| {
            let count = &thread.holds[self.0 as usize % thread.holds.len()];
            let now = count.get().wrapping_add(step);
            count.set(now);
            now >= 0
        })
    }

    /// Guards and pins of the calling thread on pages of the pools with this slot.
    pub fn own_holds(self) -> u32 {
        let place = self.0 as usize;
        let none = if place < HOLDS_SLOTS { 0 } else { HOLDS_RECORDED };
        hot(|thread| (thread.holds[place].get() - none).max(0) as u32)
    }
}
