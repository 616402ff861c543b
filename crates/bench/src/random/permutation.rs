//! A random permutation of 0..n that is computed, not stored, and can be inverted.

use super::mix;

const ROUNDS: u64 = 4;

/// A bijection of `0..len` onto itself, fixed by a seed.
///
/// A Feistel network permutes the numbers of 2k bits, with 2^2k the least power of four, from 4 on, that is
/// at least `len`. A result that is not below `len` is permuted again (cycle walking): four rounds at most on
/// average.
#[derive(Clone, Copy, Debug)]
pub struct Permutation {
    len: u64,
    half_bits: u32,
    seed: u64,
}

impl Permutation {
    /// The permutation of `0..len` that belongs to `seed`.
    ///
    /// # Panics
    /// If `len` is above 2^62.
    pub fn new(len: u64, seed: u64) -> Self {
        assert!(len <= 1 << 62, "a permutation of at most 2^62 numbers");
        let bits = len.next_power_of_two().trailing_zeros();
        Self { len, half_bits: bits.div_ceil(2).max(1), seed: mix(seed) }
    }

    /// The image of `number`.
    ///
    /// # Panics
    /// If `number` is not below the length.
    pub fn apply(&self, number: u64) -> u64 {
        self.walk(number, |(left, right)| {
            (0..ROUNDS).fold((left, right), |(l, r), round| (r, l ^ self.scramble(r, round)))
        })
    }

    /// The number whose image is `number`: the inverse of [`apply`](Self::apply).
    ///
    /// # Panics
    /// If `number` is not below the length.
    pub fn invert(&self, number: u64) -> u64 {
        self.walk(number, |(left, right)| {
            (0..ROUNDS).rev().fold((left, right), |(l, r), round| (r ^ self.scramble(l, round), l))
        })
    }

    fn walk(&self, number: u64, permute: impl Fn((u64, u64)) -> (u64, u64)) -> u64 {
        assert!(number < self.len, "{number} is not below {}", self.len);
        let mask = (1 << self.half_bits) - 1;
        let mut at = number;
        loop {
            let (left, right) = permute((at >> self.half_bits, at & mask));
            at = left << self.half_bits | right;
            if at < self.len {
                return at;
            }
        }
    }

    fn scramble(&self, half: u64, round: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        mix(half ^ self.seed.wrapping_add(round << 56)) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_once_and_finds_back() {
        for len in [1, 2, 3, 4, 5, 63, 64, 65, 1000, 4097] {
            let permutation = Permutation::new(len, 42);
            let mut images: Vec<u64> = (0..len).map(|n| permutation.apply(n)).collect();
            for (n, &image) in (0..).zip(&images) {
                assert_eq!(permutation.invert(image), n, "length {len}");
            }
            images.sort_unstable();
            assert!(images.iter().copied().eq(0..len), "length {len}");
        }
    }

    #[test]
    fn neighbours_part() {
        let permutation = Permutation::new(10_000, 1);
        let apart = |n: &u64| permutation.apply(*n).abs_diff(permutation.apply(n + 1)) > 100;
        assert!((0..9_999).filter(apart).count() > 9_500);
        let other = Permutation::new(10_000, 2);
        assert!((0..10_000).filter(|&n| permutation.apply(n) == other.apply(n)).count() < 20);
    }
}
