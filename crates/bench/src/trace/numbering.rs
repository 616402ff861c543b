//! Dense numbers for blocks, sites and tenants.

/// Numbers values 0, 1, 2, ... in order of first appearance.
///
/// A hash table with linear probing holds 32-bit numbers; the values themselves stand in one array, each at
/// its number. At most 2^32 - 1 values. 8 bytes a value, and 4 bytes a slot of the table, of which at most
/// half are in use; the array may reserve twice what it holds.
#[derive(Clone, Debug)]
pub struct Numbering {
    values: Vec<u64>,
    /// The number of the value that was put into this slot, or [`FREE`]. The length is a power of two.
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Default for Numbering {
    fn default() -> Self {
        Self { values: Vec::new(), slots: vec![FREE; 1024] }
    }
}

impl Numbering {
    /// An empty index.
    pub fn new() -> Self {
        Self::default()
    }

    /// The values, each at its number.
    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// The number of a value that has one. O(1) expected.
    #[inline]
    pub fn get(&self, value: u64) -> Option<u32> {
        let number = self.slots[self.search(value)];
        (number != FREE).then_some(number)
    }

    /// The number of a value, which gets a new one if it has none. O(1) amortised. `None` if all 2^32 - 1
    /// numbers are in use.
    #[inline]
    pub fn number(&mut self, value: u64) -> Option<u32> {
        let slot = self.search(value);
        match self.slots[slot] {
            FREE => self.insert(slot, value),
            number => Some(number),
        }
    }

    #[cold]
    fn insert(&mut self, slot: usize, value: u64) -> Option<u32> {
        let number = u32::try_from(self.values.len()).ok().filter(|&number| number != FREE)?;
        self.values.push(value);
        self.slots[slot] = number;
        if 2 * self.values.len() > self.slots.len() {
            self.grow();
        }
        Some(number)
    }

    fn grow(&mut self) {
        self.slots = vec![FREE; 2 * self.slots.len()];
        for number in 0..self.values.len() {
            let slot = self.search(self.values[number]);
            self.slots[slot] = number as u32;
        }
    }

    /// The slot of a value, or the free one where it would go.
    #[inline]
    fn search(&self, value: u64) -> usize {
        let mask = self.slots.len() - 1;
        // Fibonacci hashing: the high bits of the product depend on all bits of the value.
        let hash = value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut slot = (hash >> 32) as usize & mask;
        loop {
            let number = self.slots[slot];
            if number == FREE || self.values[number as usize] == value {
                return slot;
            }
            slot = (slot + 1) & mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #[test]
        fn numbers_are_those_of_a_map(values in prop::collection::vec(0_u64..3000, 0..4000), stride in any::<u64>()) {
            let mut index = Numbering::new();
            let mut naive = HashMap::new();
            for value in values {
                let value = value.wrapping_mul(stride | 1);
                let next = naive.len() as u32;
                prop_assert_eq!(index.get(value), naive.get(&value).copied());
                prop_assert_eq!(index.number(value), Some(*naive.entry(value).or_insert(next)));
            }
            prop_assert!(naive.iter().all(|(&value, &number)| index.values()[number as usize] == value));
            prop_assert_eq!(index.values().len(), naive.len());
        }
    }
}
