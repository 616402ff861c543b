//! Seeded random numbers for workloads and streams: the same seed gives the same numbers everywhere.

mod permutation;

use bufpool_policies::SplitMix64;
pub use bufpool_policies::mix64 as mix;
pub use permutation::Permutation;

/// A small, fast generator: xoshiro256** (Blackman and Vigna, "Scrambled Linear Pseudorandom Number
/// Generators"), seeded through SplitMix64. Not for secrets.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// A generator that always gives the same numbers for the same `seed`.
    pub fn new(seed: u64) -> Self {
        let mut mixer = SplitMix64::new(seed);
        Self { state: std::array::from_fn(|_| mixer.next_u64()) }
    }

    /// The next 64 random bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [s0, s1, s2, s3] = &mut self.state;
        let result = s1.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *s1 << 17;
        *s2 ^= *s0;
        *s3 ^= *s1;
        *s1 ^= *s2;
        *s0 ^= *s3;
        *s2 ^= shifted;
        *s3 = s3.rotate_left(45);
        result
    }

    /// A number below `bound`, each equally likely.
    ///
    /// # Panics
    ///
    /// If `bound` is 0.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "a number below 0 does not exist");
        // Lemire, "Fast Random Integer Generation in an Interval". Without this rejection some results would
        // have one value of `bits` more than others.
        let biased = (u64::MAX - bound + 1) % bound;
        loop {
            let product = u128::from(self.bits()) * u128::from(bound);
            if product as u64 >= biased {
                return (product >> 64) as u64;
            }
        }
    }

    /// A number in 0..1, each of 2^53 values equally likely.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// Puts `items` in random order, each order equally likely (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Draws ranks with given weights. O(log n) a draw, 8 bytes a rank.
#[derive(Clone, Debug)]
pub struct Weighted {
    /// `cumulative[i]` = sum of the weights of ranks 0..=i.
    cumulative: Vec<f64>,
}

impl Weighted {
    /// Ranks 0, 1, 2, ... with these weights.
    ///
    /// # Panics
    ///
    /// If there is no weight, or one is not positive and finite.
    pub fn new(weights: impl Iterator<Item = f64>) -> Self {
        let mut sum = 0.0;
        let cumulative: Vec<f64> = weights
            .map(|weight| {
                assert!(weight > 0.0 && weight.is_finite(), "weights are positive");
                sum += weight;
                sum
            })
            .collect();
        assert!(!cumulative.is_empty(), "at least one rank");
        Self { cumulative }
    }

    /// Zipf's law over `ranks` ranks: rank i (from 0) has weight 1 / (i + 1)^`alpha`.
    ///
    /// # Panics
    ///
    /// If `ranks` is 0, or `alpha` is so large or small that a weight is 0 or infinite.
    pub fn zipf(ranks: u64, alpha: f64) -> Self {
        Self::new((1..=ranks).map(|rank| (rank as f64).powf(-alpha)))
    }

    /// Draws a rank.
    #[inline]
    pub fn draw(&self, random: &mut Random) -> u64 {
        let last = self.cumulative.len() - 1;
        let point = random.unit() * self.cumulative[last];
        self.cumulative.partition_point(|&sum| sum <= point).min(last) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_a_bound_are_even() {
        let mut random = Random::new(7);
        let mut counts = [0_u32; 5];
        for _ in 0..50_000 {
            counts[random.below(5) as usize] += 1;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)), "{counts:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let (mut a, mut b, mut c) = (Random::new(3), Random::new(3), Random::new(4));
        let numbers = |random: &mut Random| -> Vec<u64> { (0..8).map(|_| random.bits()).collect() };
        let first = numbers(&mut a);
        assert_eq!(first, numbers(&mut b));
        assert_ne!(first, numbers(&mut c));
    }

    #[test]
    fn shuffling_keeps_the_items() {
        let mut items: Vec<u32> = (0..100).collect();
        Random::new(1).shuffle(&mut items);
        assert_ne!(items, (0..100).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn zipf_ranks_follow_their_weights() {
        let zipf = Weighted::zipf(100, 1.0);
        let mut random = Random::new(5);
        let mut counts = vec![0_u32; 100];
        for _ in 0..100_000 {
            counts[zipf.draw(&mut random) as usize] += 1;
        }
        let harmonic: f64 = (1..=100).map(|rank| 1.0 / f64::from(rank)).sum();
        for rank in [0, 1, 9] {
            let expected = 100_000.0 / harmonic / (rank + 1) as f64;
            let got = f64::from(counts[rank]);
            assert!((got / expected - 1.0).abs() < 0.1, "rank {rank}: {got} instead of about {expected}");
        }
    }
}
