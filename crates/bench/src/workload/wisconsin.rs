//! Relations of the Wisconsin benchmark (Bitton, DeWitt and Turbyfill, VLDB 1983; DeWitt, 1993): thirteen
//! integers and three strings, 208 bytes.
//!
//! `unique2` numbers the tuples in the order of the file, `unique1` in random order. Each is computed from
//! the other, not stored, so the right answer of every query is known without running it.

use crate::random::Permutation;

/// Bytes of a tuple.
pub const TUPLE_BYTES: usize = 13 * 4 + 3 * STRING_BYTES;

const STRING_BYTES: usize = 52;

/// A tuple as it is stored.
pub type Tuple = [u8; TUPLE_BYTES];

/// One relation: its size and the order of its random column.
#[derive(Clone, Copy, Debug)]
pub struct Relation {
    tuples: u64,
    unique1: Permutation,
}

impl Relation {
    /// A relation of `tuples` tuples whose `unique1` are distinct random numbers below `domain`.
    ///
    /// In the benchmark the domain is the number of tuples. With a larger one only some tuples match another
    /// relation's `unique1`, as in the join of the LRU-SP paper. Tuples store 32-bit integers, so the domain
    /// has to be at most 2^32, which is not checked.
    ///
    /// # Panics
    /// If the domain is smaller than the number of tuples.
    pub fn new(tuples: u64, domain: u64, seed: u64) -> Self {
        assert!(domain >= tuples, "{tuples} distinct numbers below {domain}");
        Self { tuples, unique1: Permutation::new(domain, seed) }
    }

    /// The number of tuples.
    pub fn tuples(&self) -> u64 {
        self.tuples
    }

    /// `unique1` of tuple `unique2`.
    pub fn unique1(&self, unique2: u64) -> u64 {
        self.unique1.apply(unique2)
    }

    /// `unique2` of the tuple with that `unique1`; `None` if there is no such tuple.
    pub fn unique2(&self, unique1: u64) -> Option<u64> {
        Some(self.unique1.invert(unique1)).filter(|&unique2| unique2 < self.tuples)
    }

    /// Tuple `unique2`.
    pub fn tuple(&self, unique2: u64) -> Tuple {
        let unique1 = self.unique1(unique2);
        let percent = unique1 % 100;
        let integers = [
            unique1,
            unique2,
            unique1 % 2,
            unique1 % 4,
            unique1 % 10,
            unique1 % 20,
            percent,
            unique1 % 10,
            unique1 % 5,
            unique1 % 2,
            unique1,
            percent * 2,
            percent * 2 + 1,
        ];
        let mut tuple = [b'x'; TUPLE_BYTES];
        let (head, strings) = tuple.split_at_mut(integers.len() * 4);
        for (bytes, integer) in head.chunks_exact_mut(4).zip(integers) {
            bytes.copy_from_slice(&(integer as u32).to_le_bytes());
        }
        spell(&mut strings[..7], unique1);
        spell(&mut strings[STRING_BYTES..][..7], unique2);
        strings[2 * STRING_BYTES..][..4].fill(b"AHOV"[(unique2 % 4) as usize]);
        tuple
    }

    /// All tuples in the order of the file.
    pub fn all(&self) -> impl Iterator<Item = Tuple> {
        (0..self.tuples).map(|unique2| self.tuple(unique2))
    }
}

/// `unique1` of a stored tuple.
pub fn unique1(tuple: &[u8]) -> u64 {
    integer(tuple, 0)
}

/// `unique2` of a stored tuple.
pub fn unique2(tuple: &[u8]) -> u64 {
    integer(tuple, 1)
}

fn integer(tuple: &[u8], column: usize) -> u64 {
    let bytes = tuple[column * 4..][..4].try_into().expect("4 bytes");
    u64::from(u32::from_le_bytes(bytes))
}

/// Writes `number` in letters, the last one changing fastest.
fn spell(letters: &mut [u8], number: u64) {
    let mut rest = number;
    for letter in letters.iter_mut().rev() {
        *letter = b'A' + (rest % 26) as u8;
        rest /= 26;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_is_208_bytes_with_the_columns_of_the_book() {
        assert_eq!(TUPLE_BYTES, 208);
        let relation = Relation::new(1000, 1000, 1);
        let tuple = relation.tuple(731);
        assert_eq!((unique2(&tuple), unique1(&tuple)), (731, relation.unique1(731)));
        assert_eq!(integer(&tuple, 4), unique1(&tuple) % 10);
        assert_eq!(&tuple[52 + 52..][..9], b"AAAABCDxx", "731 = 1 * 676 + 2 * 26 + 3");
        assert_eq!(&tuple[52 + 104..][..6], b"VVVVxx");
    }

    #[test]
    fn unique1_is_random_and_distinct() {
        let relation = Relation::new(1000, 5000, 1);
        let mut seen: Vec<u64> = relation.all().map(|tuple| unique1(&tuple)).collect();
        for (unique2, &unique1) in (0..).zip(&seen) {
            assert_eq!(relation.unique2(unique1), Some(unique2));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
        assert_eq!((0..5000).filter(|&n| relation.unique2(n).is_some()).count(), 1000);
    }
}
