//! What a page is worth, by its age and the hazard of each age.
//!
//! A page is worth what it can earn per time that it occupies a frame: over all ages at which one could give
//! it up, the best ratio of expected hits to expected time from its present age on. Older is thereby worse
//! under a falling hazard, which is LRU's order, and better in a loop, which is MRU's. Related: Gittins,
//! "Bandit Processes and Dynamic Allocation Indices", J. Royal Statistical Society B 41 (1979); Beckmann,
//! Chen, Cidon, "LHD: Improving Cache Hit Rate by Maximizing Hit Density", NSDI '18, whose classes have
//! neither a site nor a stopping age.

/// Ages told apart: four buckets an octave over ten octaves.
pub(super) const BUCKETS: usize = 40;
/// Buckets an octave, as a power of two.
const PER_OCTAVE_BITS: u32 = 2;
/// The unit of age is this part of a turnover, the time in which all frames are replaced. The first octave of
/// buckets ends at one unit, and the oldest bucket begins at 28 turnovers, beyond what samples reach.
const UNITS_PER_TURNOVER: f32 = 32.0;

/// For each bucket, and the end of the last one.
pub(crate) type Values = [f32; BUCKETS + 1];

/// Ages by bucket.
pub(crate) struct Ages {
    units_per_time: f32,
    /// The age at which each bucket begins.
    begins: Values,
    /// One over the width of each bucket.
    inverse_widths: Values,
}

impl Ages {
    /// `turnover_time`: the time in which all frames are replaced when every access misses.
    pub fn new(turnover_time: f32) -> Self {
        let units_per_time = UNITS_PER_TURNOVER / turnover_time;
        let begins: Values = std::array::from_fn(|bucket| (bound(bucket) - 1.0) / units_per_time);
        let width = |bucket: usize| begins[(bucket + 1).min(BUCKETS)] - begins[bucket];
        let mut inverse_widths = std::array::from_fn(|bucket| 1.0 / width(bucket).max(f32::MIN_POSITIVE));
        inverse_widths[BUCKETS] = 0.0;
        Self { units_per_time, begins, inverse_widths }
    }

    /// The bucket of an age.
    #[inline]
    pub fn bucket(&self, age: u32) -> usize {
        let units = age as f32 * self.units_per_time + 1.0;
        let bucket = (units.to_bits() >> (23 - PER_OCTAVE_BITS)) - (127 << PER_OCTAVE_BITS);
        (bucket as usize).min(BUCKETS - 1)
    }

    /// The age at which a bucket begins.
    pub fn begin(&self, bucket: usize) -> f32 {
        self.begins[bucket]
    }

    pub fn width(&self, bucket: usize) -> f32 {
        self.begins[bucket + 1] - self.begins[bucket]
    }

    /// The age in the middle of a bucket.
    pub fn middle(&self, bucket: usize) -> f32 {
        0.5 * (self.begins[bucket] + self.begins[bucket + 1])
    }

    /// What a page of `age` is worth if its class has these `values`: expected hits per time.
    #[inline]
    pub fn value(&self, values: &Values, age: u32) -> f32 {
        let bucket = self.bucket(age);
        let part = lesser((age as f32 - self.begins[bucket]) * self.inverse_widths[bucket], 1.0);
        values[bucket] + (values[bucket + 1] - values[bucket]) * part
    }

    /// What a page is worth at the start of each bucket: the steepest slope, from there to any later point,
    /// of expected hits over expected time. One pass from the right over the upper hull of the points.
    pub fn values(&self, hazard: &[f32; BUCKETS]) -> Values {
        let (mut points, mut alive) = ([Point { time: 0.0, hits: 0.0 }; BUCKETS + 1], 1.0f32);
        for bucket in 0..BUCKETS {
            let (width, hazard) = (self.width(bucket), hazard[bucket]);
            let Point { time, hits } = points[bucket];
            let (time, hits) = (time + alive * width * (1.0 - 0.5 * hazard), hits + alive * hazard);
            points[bucket + 1] = Point { time, hits };
            alive *= 1.0 - hazard;
        }
        let mut value = [0.0; BUCKETS + 1];
        let (mut hull, mut corners) = ([points[BUCKETS]; BUCKETS + 1], 1);
        for bucket in (0..BUCKETS).rev() {
            let from = points[bucket];
            let mut steepest = from.slope(hull[corners - 1]);
            while corners >= 2 {
                let beyond = from.slope(hull[corners - 2]);
                if steepest > beyond {
                    break;
                }
                steepest = beyond;
                corners -= 1;
            }
            value[bucket] = steepest;
            hull[corners] = from;
            corners += 1;
        }
        value
    }
}

/// The lesser of two numbers that are not NaN, in one instruction.
#[inline]
fn lesser(one: f32, other: f32) -> f32 {
    if other < one { other } else { one }
}

/// The lower bound of a bucket, in [units](UNITS_PER_TURNOVER), counted from 1.
fn bound(bucket: usize) -> f32 {
    f32::from_bits((bucket as u32 + (127 << PER_OCTAVE_BITS)) << (23 - PER_OCTAVE_BITS))
}

/// What is expected of a page up to the start of a bucket.
#[derive(Clone, Copy)]
struct Point {
    time: f32,
    hits: f32,
}

impl Point {
    /// Hits over time from here to a later point.
    #[inline]
    fn slope(self, to: Self) -> f32 {
        let spent = to.time - self.time;
        if spent > 0.0 { (to.hits - self.hits) / spent } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The hull against the definition: the best ratio over all ages at which to give up.
    #[test]
    fn values_equal_the_best_stopping_age() {
        let ages = Ages::new(UNITS_PER_TURNOVER);
        let mut random = crate::random::SplitMix64::new(1);
        for _ in 0..200 {
            let hazard: [f32; BUCKETS] =
                std::array::from_fn(|_| (random.unit() * random.unit() * random.unit()) as f32);
            let value = ages.values(&hazard);
            for (from, value) in value.iter().take(BUCKETS).enumerate() {
                let (mut time, mut hits, mut alive, mut best) = (0.0f64, 0.0f64, 1.0f64, 0.0f64);
                for bucket in from..BUCKETS {
                    let hazard = f64::from(hazard[bucket]);
                    let width = f64::from(ages.width(bucket));
                    time += alive * width * (1.0 - 0.5 * hazard);
                    hits += alive * hazard;
                    alive *= 1.0 - hazard;
                    best = best.max(hits / time);
                }
                // Sums in single precision lose what little is left alive at the end.
                if best > 1e-3 {
                    assert!((f64::from(*value) / best - 1.0).abs() < 0.05, "{value} {best}");
                }
            }
        }
    }
}
