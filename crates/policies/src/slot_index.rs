//! A hash index from 64-bit keys to slots of flat arrays, which themselves hold the keys.
//!
//! Open addressing with linear probing over a power-of-two table, at most 7/8 full; removal shifts later
//! entries back, so there are no tombstones and no rebuilding. An entry is a slot number and, in the bits
//! that slot numbers leave, the lowest bits of its *home*, the place where its key would go in an empty
//! table. A search compares these bits first, and a removal computes from them how far an entry may be
//! shifted. So both seldom load the keys of other entries, which are scattered over the caller's memory.
//!
//! An entry takes 4 bytes, which is 4.6 to 9.2 bytes a key. Keys are page or frame numbers. The hash mixes
//! them well but has no secret, so it is no defence against keys that are chosen to collide.

use crate::list::NIL;
use crate::random::mix64;

/// The fewest bits for slot numbers.
const SLOT_BITS_MIN: u32 = 8;
/// The most bits for slot numbers, which leaves one bit for the home.
const SLOT_BITS_MAX: u32 = 31;

/// Which slot holds a key. The caller passes `key_of`, which reads a slot's key from the caller's arrays.
pub(crate) struct SlotIndex {
    /// Entries, [`NIL`] where free; empty, or a power of two long.
    table: Vec<u32>,
    len: usize,
    /// Bits of an entry that hold its slot's number. The number is never all ones, so that no entry is
    /// [`NIL`].
    slot_bits: u32,
    /// Whether some entry may lie so far from its home that the bits of its home do not give the distance.
    is_far: bool,
}

impl Default for SlotIndex {
    fn default() -> Self {
        Self { table: Vec::new(), len: 0, slot_bits: SLOT_BITS_MIN, is_far: false }
    }
}

impl SlotIndex {
    /// The number of keys.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The slot that holds `key`. Expected O(1).
    #[inline]
    pub(crate) fn find(&self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let entry = self.table[self.place_of(key, key_of)];
        (entry != NIL).then(|| self.slot(entry))
    }

    /// Reads the entry at which a search for `key` begins, so that it is in the processor's cache by then.
    #[inline]
    pub(crate) fn touch(&self, key: u64) -> u32 {
        if self.table.is_empty() { 0 } else { self.table[self.home(key)] }
    }

    /// Adds `key`, which must not be there, as held by `slot`. Panics if `slot` is 2^31 - 1 or more.
    /// Expected O(1), amortised over growth, which is the only allocation.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        if slot + 1 >= 1 << self.slot_bits {
            self.widen(slot);
        }
        if (self.len + 1) * 8 > self.table.len() * 7 {
            self.grow(&key_of);
        }
        debug_assert_eq!(self.find(key, &key_of), None, "key {key} is already in the index");
        self.enter(key, slot);
        self.len += 1;
    }

    /// Removes `key` and returns the slot that held it. Expected O(1).
    pub(crate) fn remove(&mut self, key: u64, key_of: impl Fn(u32) -> u64) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        let mut hole = self.place_of(key, &key_of);
        let removed = self.table[hole];
        if removed == NIL {
            return None;
        }
        self.table[hole] = NIL;
        self.len -= 1;
        // Entries up to the next gap move into the hole unless that would put them before their home.
        let mask = self.table.len() - 1;
        let mut at = (hole + 1) & mask;
        while self.table[at] != NIL {
            if self.distance(at, &key_of) >= at.wrapping_sub(hole) & mask {
                self.table.swap(hole, at);
                hole = at;
            }
            at = (at + 1) & mask;
        }
        Some(self.slot(removed))
    }

    /// Where `key` is, or the gap where it would go. Ends because the table is never full.
    #[inline]
    fn place_of(&self, key: u64, key_of: impl Fn(u32) -> u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(key);
        let bits = self.bits_of_home(at);
        loop {
            let entry = self.table[at];
            if entry == NIL || (entry >> self.slot_bits == bits && key_of(self.slot(entry)) == key) {
                return at;
            }
            at = (at + 1) & mask;
        }
    }

    /// Puts `slot` where `key` goes.
    #[inline]
    fn enter(&mut self, key: u64, slot: u32) {
        let (home, mask) = (self.home(key), self.table.len() - 1);
        let mut at = home;
        while self.table[at] != NIL {
            at = (at + 1) & mask;
        }
        self.is_far |= at.wrapping_sub(home) & mask > self.home_mask();
        self.table[at] = self.bits_of_home(home) << self.slot_bits | slot;
    }

    #[inline]
    fn slot(&self, entry: u32) -> u32 {
        entry & ((1 << self.slot_bits) - 1)
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        mix64(key) as usize & (self.table.len() - 1)
    }

    /// Which bits of a home an entry holds.
    #[inline]
    fn home_mask(&self) -> usize {
        (u32::MAX >> self.slot_bits) as usize & (self.table.len() - 1)
    }

    #[inline]
    fn bits_of_home(&self, home: usize) -> u32 {
        (home & self.home_mask()) as u32
    }

    /// How far the entry `at` lies behind its home.
    #[inline]
    fn distance(&self, at: usize, key_of: impl Fn(u32) -> u64) -> usize {
        let entry = self.table[at];
        if self.is_far {
            return at.wrapping_sub(self.home(key_of(self.slot(entry)))) & (self.table.len() - 1);
        }
        at.wrapping_sub((entry >> self.slot_bits) as usize) & self.home_mask()
    }

    /// Gives slot numbers as many bits as `slot` needs, in all entries. O(table).
    #[cold]
    fn widen(&mut self, slot: u32) {
        let before = std::mem::replace(&mut self.slot_bits, u32::BITS - (slot + 1).leading_zeros());
        assert!(self.slot_bits <= SLOT_BITS_MAX, "slot {slot} of an index: expected at most 2^31 - 2");
        let home_mask = if self.table.is_empty() { 0 } else { self.home_mask() };
        for at in 0..self.table.len() {
            let entry = self.table[at];
            if entry != NIL {
                let (home, slot) = ((entry >> before) as usize, entry & ((1 << before) - 1));
                let was_mask = (u32::MAX >> before) as usize & (self.table.len() - 1);
                self.is_far |= at.wrapping_sub(home) & was_mask > home_mask;
                self.table[at] = ((home & home_mask) as u32) << self.slot_bits | slot;
            }
        }
    }

    #[cold]
    fn grow(&mut self, key_of: impl Fn(u32) -> u64) {
        let len = (self.table.len() * 2).max(8);
        let old = std::mem::replace(&mut self.table, vec![NIL; len]);
        // There are usually as many slots as keys. Slot numbers get more bits here, while all entries are
        // written anyway, so `widen` is seldom needed.
        let before = self.slot_bits;
        self.slot_bits = before.max(len.ilog2()).min(SLOT_BITS_MAX);
        self.is_far = false;
        for entry in old.into_iter().filter(|&entry| entry != NIL) {
            let slot = entry & ((1 << before) - 1);
            self.enter(key_of(slot), slot);
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>()
    }

    /// Looks every entry up. Panics with a message if the index is broken.
    pub(crate) fn check_invariants(&self, key_of: impl Fn(u32) -> u64) {
        let entries = || (0..self.table.len()).filter(|at| self.table[*at] != NIL);
        assert_eq!(entries().count(), self.len, "the index miscounts its entries");
        assert!(self.len * 8 <= self.table.len() * 7, "the index is too full");
        for at in entries() {
            let slot = self.slot(self.table[at]);
            let key = key_of(slot);
            assert_eq!(self.find(key, &key_of), Some(slot), "slot {slot} is not found by its key");
            let distance = at.wrapping_sub(self.home(key)) & (self.table.len() - 1);
            assert_eq!(self.distance(at, &key_of), distance, "how far slot {slot} lies from its home");
        }
    }
}

#[cfg(test)]
mod tests {
    //! Goal: the index behaves as a `HashMap` whatever is done to it.
    //! Method: random insertions and removals of few keys, many of which collide in the small table.

    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// With one bit of the home left, most entries are farther from home than that bit can tell.
    #[test]
    fn slots_may_be_as_large_as_they_come() {
        let key_of = |slot: u32| u64::from(slot) << 20;
        let mut index = SlotIndex::default();
        let mut random = crate::random::SplitMix64::new(1);
        let mut held = Vec::new();
        for bits in [4, 8, 9, 16, 24, 29, 31] {
            for _ in 0..200 {
                let slot = random.below((1 << bits) - 1) as u32;
                if held.contains(&slot) {
                    held.retain(|other| *other != slot);
                    assert_eq!(index.remove(key_of(slot), key_of), Some(slot));
                } else {
                    held.push(slot);
                    index.insert(key_of(slot), slot, key_of);
                }
                index.check_invariants(key_of);
                assert_eq!(index.len(), held.len());
            }
        }
        assert!(index.is_far && index.slot_bits == 31);
        for slot in held {
            assert_eq!(index.remove(key_of(slot), key_of), Some(slot));
            index.check_invariants(key_of);
        }
    }

    proptest! {
        #[test]
        fn index_equals_a_map(steps in prop::collection::vec((any::<bool>(), 0..40u64), 1..300)) {
            let mut index = SlotIndex::default();
            let mut keys: Vec<u64> = Vec::new();
            let mut map: HashMap<u64, u32> = HashMap::new();
            for (insert, key) in steps {
                let key = key << 40;
                if insert && !map.contains_key(&key) {
                    keys.push(key);
                    let slot = keys.len() as u32 - 1;
                    index.insert(key, slot, |slot| keys[slot as usize]);
                    map.insert(key, slot);
                } else if !insert {
                    prop_assert_eq!(index.remove(key, |slot| keys[slot as usize]), map.remove(&key));
                }
                index.check_invariants(|slot| keys[slot as usize]);
                prop_assert_eq!(index.len(), map.len());
                for key in (0..40).map(|key| key << 40) {
                    let found = index.find(key, |slot| keys[slot as usize]);
                    prop_assert_eq!(found, map.get(&key).copied());
                }
            }
        }
    }
}
