//! Guards and pins of the calling thread, counted by pool.
//!
//! A pool has a slot of its own among the thread's counts as long as it lives, so that a guard is counted by
//! one addition. Pools that find no slot, and those whose recorder is to hear of each guard, share the slot
//! [`HoldsSlot::APART`]: its count stays negative, which makes the thread count these pools' guards in a
//! list, by pool.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use crate::thread::hot::{HOLDS_APART, HOLDS_SLOTS, hot};

/// Where each thread counts its guards and pins on pages of a pool: a place below [`HOLDS_SLOTS`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HoldsSlot(u32);

impl HoldsSlot {
    /// Of pools whose guards and pins are [counted apart](count_apart).
    pub const APART: Self = Self(0);

    /// Below [`HOLDS_SLOTS`].
    pub fn number(self) -> u32 {
        self.0
    }

    /// By the lowest bits of `number`.
    #[inline(always)]
    pub fn from_number(number: u32) -> Self {
        Self(number % HOLDS_SLOTS as u32)
    }

    /// Adds `step` to the count. False if it is to be [counted apart](count_apart) instead.
    #[inline(always)]
    pub fn count(self, step: i64) -> bool {
        hot(|thread| {
            let count = &thread.holds[self.0 as usize % thread.holds.len()];
            let now = count.get().wrapping_add(step);
            count.set(now);
            now >= 0
        })
    }

    /// Where the calling thread counts, until it ends.
    #[inline(always)]
    pub fn place(self) -> NonNull<Cell<i64>> {
        hot(|thread| NonNull::from(&thread.holds[self.0 as usize % thread.holds.len()]))
    }

    /// Guards and pins of the calling thread on pages of the pool with this slot and serial number.
    pub fn own_holds(self, pool_serial: u64) -> u64 {
        if self != Self::APART {
            return hot(|thread| thread.holds[self.0 as usize].get()) as u64;
        }
        let find = |holds: &RefCell<Vec<(u64, u64)>>| {
            holds.borrow().iter().find(|(serial, _)| *serial == pool_serial).map_or(0, |(_, count)| *count)
        };
        APART_HOLDS.try_with(find).unwrap_or(0)
    }
}

thread_local! {
    /// Serial numbers of pools without slots, each with the thread's guards and pins there, if it has any.
    static APART_HOLDS: RefCell<Vec<(u64, u64)>> = const { RefCell::new(Vec::new()) };
}

/// Counts a guard or pin that begins or ends, for a pool without a slot of its own. Guards that end while the
/// thread does are not counted.
pub(crate) fn count_apart(pool_serial: u64, begins: bool) {
    // Resets the shared count, of which only the sign matters, so that it stays negative.
    hot(|thread| thread.holds[HoldsSlot::APART.0 as usize].set(HOLDS_APART));
    let _ = APART_HOLDS.try_with(|holds| {
        let mut holds = holds.borrow_mut();
        match holds.iter().position(|(serial, _)| *serial == pool_serial) {
            Some(at) if begins => holds[at].1 += 1,
            Some(at) if holds[at].1 > 1 => holds[at].1 -= 1,
            Some(at) => drop(holds.swap_remove(at)),
            None if begins => holds.push((pool_serial, 1)),
            None => {}
        }
    });
}

/// Slots that no pool has, one bit each.
static FREE_SLOTS: parking_lot::Mutex<u32> = parking_lot::Mutex::new(!(1 << HoldsSlot::APART.0));
const _: () = assert!(HOLDS_SLOTS == u32::BITS as usize);

/// A pool's slot, which another pool gets after it.
pub(crate) struct HoldsPlace {
    slot: HoldsSlot,
}

impl HoldsPlace {
    /// For a pool that opens. One whose recorder hears of guards needs no slot of its own.
    pub fn take(is_recording: bool) -> Self {
        let mut free = FREE_SLOTS.lock();
        if is_recording || *free == 0 {
            return Self { slot: HoldsSlot::APART };
        }
        let slot = free.trailing_zeros();
        *free &= !(1 << slot);
        Self { slot: HoldsSlot(slot) }
    }

    pub fn slot(&self) -> HoldsSlot {
        self.slot
    }

    /// Gives the slot to no other pool, because threads still count forgotten guards or pins there.
    pub fn keep(&mut self) {
        self.slot = HoldsSlot::APART;
    }
}

impl Drop for HoldsPlace {
    fn drop(&mut self) {
        if self.slot != HoldsSlot::APART {
            *FREE_SLOTS.lock() |= 1 << self.slot.0;
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn pools_without_a_slot_are_counted_apart() {
        let (one, other) = (u64::MAX - 1, u64::MAX - 2);
        for (serial, begins, counts) in [
            (one, true, (1, 0)),
            (other, true, (1, 1)),
            (one, true, (2, 1)),
            (other, false, (2, 0)),
            (one, false, (1, 0)),
            (one, false, (0, 0)),
        ] {
            assert!(!HoldsSlot::APART.count(if begins { 1 } else { -1 }));
            count_apart(serial, begins);
            let now = [one, other].map(|serial| HoldsSlot::APART.own_holds(serial));
            assert_eq!(now, [counts.0, counts.1]);
        }
        assert!(APART_HOLDS.with_borrow(Vec::is_empty));
    }

    #[test]
    fn a_slot_has_one_pool_at_a_time() {
        let places: Vec<HoldsPlace> = (0..2 * HOLDS_SLOTS).map(|_| HoldsPlace::take(false)).collect();
        let mut own: Vec<u32> = places.iter().map(|place| place.slot().number()).collect();
        own.retain(|slot| *slot != HoldsSlot::APART.number());
        let taken = own.len();
        own.sort_unstable();
        own.dedup();
        assert_eq!(own.len(), taken);
        assert_eq!(HoldsPlace::take(true).slot(), HoldsSlot::APART);
    }
}
