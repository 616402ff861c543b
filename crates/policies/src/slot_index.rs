//! A hash index from 64-bit keys to slots of flat arrays, which themselves hold the keys.
//!
//! Open addressing with linear probing over a power-of-two table of slot numbers, at most 7/8 full; removal
//! shifts later entries back, so there are no tombstones and no rebuilding. 4 bytes an entry of the table,
//! that is 4.6 to 9.2 a key. Keys are page or frame numbers; the hash mixes them well but has no secret, so
//! it is no defence against keys that are chosen to collide.

use crate::list::NIL;
use crate::random::mix64;

/// Which slot holds a key. The caller passes `key_of`, which reads a slot's key from the caller's arrays.
#[derive(Default)]
pub(crate) struct SlotIndex {
    /// Slots, [`NIL`] where free; empty, or a power of two long.
    table: Vec<u32>,
    len: usize,
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
        let at = self.place_of(key, key_of);
        let slot = self.table[at];
        (slot != NIL).then_some(slot)
    }

    /// Adds `key`, which must not be there, as held by `slot`. Expected O(1), amortised over growth, which
    /// is the only allocation.
    #[inline]
    pub(crate) fn insert(&mut self, key: u64, slot: u32, key_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 8 > self.table.len() * 7 {
            self.grow(&key_of);
        }
        let at = self.place_of(key, key_of);
        debug_assert_eq!(self.table[at], NIL, "key {key} is already in the index");
        self.table[at] = slot;
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
            let home = self.home(key_of(self.table[at]));
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.table.swap(hole, at);
                hole = at;
            }
            at = (at + 1) & mask;
        }
        Some(removed)
    }

    /// Where `key` is, or the gap where it would go. Ends because the table is never full.
    #[inline]
    fn place_of(&self, key: u64, key_of: impl Fn(u32) -> u64) -> usize {
        let mask = self.table.len() - 1;
        let mut at = self.home(key);
        while self.table[at] != NIL && key_of(self.table[at]) != key {
            at = (at + 1) & mask;
        }
        at
    }

    #[inline]
    fn home(&self, key: u64) -> usize {
        mix64(key) as usize & (self.table.len() - 1)
    }

    #[cold]
    fn grow(&mut self, key_of: impl Fn(u32) -> u64) {
        let len = (self.table.len() * 2).max(8);
        let old = std::mem::replace(&mut self.table, vec![NIL; len]);
        for slot in old.into_iter().filter(|&slot| slot != NIL) {
            let at = self.place_of(key_of(slot), &key_of);
            self.table[at] = slot;
        }
    }

    /// Bytes of memory held.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.table.capacity() * size_of::<u32>()
    }

    /// Looks every entry up. Panics with a message if the index is broken.
    pub(crate) fn check_invariants(&self, key_of: impl Fn(u32) -> u64) {
        let entries = || self.table.iter().filter(|&&slot| slot != NIL);
        assert_eq!(entries().count(), self.len, "the index miscounts its entries");
        assert!(self.len * 8 <= self.table.len() * 7, "the index is too full");
        for &slot in entries() {
            assert_eq!(self.find(key_of(slot), &key_of), Some(slot), "slot {slot} is not found by its key");
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
