//! What share of the cache each expert has.
//!
//! An expert's *regret* is by how many misses its shadow cache is behind the best one's. A change from one to
//! the other costs at most a miss for each page that the one holds and the other does not: their *distance*.
//! With each 1/[rate](Tuning::share_rate) of that distance in regret a share falls by the factor e, as in
//! Blum, Burch, "On-line Learning and the Metrical Task System Problem", Machine Learning 39, 2000. They show
//! that this loses little to the best expert even if the experts take turns at being best. For that, an
//! expert that was wrong for long must be able to return. So regret is at most [three times](REGRET_MAX) the
//! distance, and at most a miss for each page that the cache can hold.
//!
//! Pages belong to *parts* by hash, and parts to experts. A part is a cache in miniature, run by its expert:
//! together they hit as often as each expert's share of the cache hits under it. When a share grows by a
//! part, only the pages of that part change over.

use super::experts::{Expert, Shadows};
use crate::ids::PageId;
use crate::manager::automatic::tuning::Tuning;
use crate::random::mix64;

/// How many parts there are.
pub(crate) const PARTS: u8 = 16;

/// The number of the part of `page`. The hash's other bits draw the sample and find pages.
#[inline]
pub(crate) fn part_of(page: PageId) -> u8 {
    (mix64(page.0) >> 40) as u8 % PARTS
}

/// Distances from the best expert at which regret ends: what it costs to go over has been lost several times
/// by then. At less, experts that are right by turns are followed too soon; at more, one that was wrong for
/// long waits longer for its turn. 0.25 to 3 were tried, and no end, by `bufbench phases` and by `grade` of
/// the tuning traces.
const REGRET_MAX: f32 = 3.0;
/// The exponent of a weight above which it is less than half a part.
const EXPONENT_MAX: f32 = 4.0;

/// Which expert has which parts.
pub(crate) struct Shares {
    rate: f32,
    prior_regret: f32,
    /// Per expert: the regret with which it begins, in distances.
    prior: [f32; 3],
    /// Per expert: misses by which it is behind the best.
    pub regret: [f32; 3],
    /// By part: the expert that has it. LRU's parts come first, and values' last.
    experts: [Expert; PARTS as usize],
    /// The expert with the largest share, and since when it has it.
    largest: Expert,
    largest_since: u32,
}

impl Shares {
    /// `first` has all parts, and nothing speaks for another.
    pub fn new(first: Expert, tuning: &Tuning) -> Self {
        let Tuning { share_rate, prior_regret, .. } = *tuning;
        let mut shares = Self {
            rate: share_rate,
            prior_regret,
            prior: [0.0; 3],
            regret: [0.0; 3],
            experts: [first; PARTS as usize],
            largest: first,
            largest_since: 0,
        };
        shares.trust(Expert::Lru);
        shares
    }

    /// Something speaks for `expert` before there is any regret: it begins with most of the cache, and LRU
    /// with most of the rest. ARC begins with more regret than LRU, and values with more than ARC, because
    /// they presume more.
    pub fn trust(&mut self, expert: Expert) {
        self.prior = [1.0 / 3.0, 3.0 / 4.0, 1.0].map(|share| share * self.prior_regret);
        self.prior[expert as usize] = 0.0;
    }

    /// The expert without regret.
    pub fn best(&self) -> Expert {
        least_of(self.regret)
    }

    /// A sampled page was used that the shadows in `had` held, of `capacity` pages each, and others did not.
    #[inline]
    pub fn score(&mut self, had: Shadows, capacity: u32) {
        for expert in Expert::ALL {
            self.regret[expert as usize] += f32::from(!had.has(expert));
        }
        let least = self.regret[self.best() as usize];
        for regret in &mut self.regret {
            *regret = (*regret - least).min(capacity as f32);
        }
    }

    /// Divides the parts anew at `now`; `distances` are those from the [best](Self::best) expert.
    pub fn divide(&mut self, distances: [f32; 3], now: u32) {
        for (regret, distance) in self.regret.iter_mut().zip(distances) {
            *regret = regret.min(REGRET_MAX * distance);
        }
        let behind: [f32; 3] =
            std::array::from_fn(|expert| self.prior[expert] + self.regret[expert] / distances[expert]);
        let least = behind.into_iter().fold(f32::INFINITY, f32::min);
        let exponents = behind.map(|behind| self.rate * (behind - least));
        let weights = exponents.map(|exponent| if exponent > EXPONENT_MAX { 0.0 } else { (-exponent).exp() });
        let part = f32::from(PARTS) / weights.iter().sum::<f32>();
        let [lru, _, value] = weights.map(|weight| (weight * part + 0.5) as u8);
        let largest = least_of(exponents);
        if largest != self.largest {
            (self.largest, self.largest_since) = (largest, now);
        }
        // LRU's and values' parts grow from either end, so that few change hands.
        self.experts = std::array::from_fn(|part| match part as u8 {
            part if part < lru => Expert::Lru,
            part if part >= PARTS - value => Expert::Value,
            _ => Expert::Arc,
        });
    }

    /// The expert that has a part.
    #[inline]
    pub fn expert_of(&self, part: u8) -> Expert {
        self.experts[usize::from(part)]
    }

    /// The expert with the largest share.
    pub fn largest(&self) -> Expert {
        self.largest
    }

    /// Whether `expert` has the largest share now, and had had it for a time of `before` at `time`.
    pub fn leads_since(&self, expert: Expert, time: u32, before: u32, now: u32) -> bool {
        let led = now.wrapping_sub(self.largest_since);
        self.largest == expert && now.wrapping_sub(time) <= led.saturating_sub(before)
    }
}

/// The expert with the least of these costs; the first of those, if there are several.
fn least_of(costs: [f32; 3]) -> Expert {
    let lesser = |a: Expert, b: Expert| if costs[b as usize] < costs[a as usize] { b } else { a };
    Expert::ALL.into_iter().reduce(lesser).unwrap_or(Expert::Lru)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(experts: &[Expert]) -> Shadows {
        let mut set = Shadows::default();
        experts.iter().for_each(|expert| set.set(*expert, true));
        set
    }

    /// The parts of each after that many uses of pages that the shadows in `had` held, at a distance of 1000.
    fn after(shares: &mut Shares, had: &[Expert], uses: u32) -> [u32; 3] {
        (0..uses).for_each(|_| shares.score(set(had), 1000));
        shares.divide([1000.0; 3], 0);
        Expert::ALL.map(|expert| shares.experts.iter().filter(|of| **of == expert).count() as u32)
    }

    #[test]
    fn nothing_is_risked_where_nothing_speaks_for_an_expert() {
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        assert_eq!(after(&mut shares, &[], 0), [16, 0, 0]);
        shares.trust(Expert::Arc);
        let [lru, arc, value] = after(&mut shares, &[], 0);
        assert!(arc > lru && lru > 0 && value == 0, "{lru} {arc} {value}");
    }

    #[test]
    fn regret_moves_the_cache_part_by_part() {
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        let mut before = after(&mut shares, &[], 0);
        let mut divided = 0;
        for _ in 0..100 {
            let now = after(&mut shares, &[Expert::Value], 5);
            assert!(now[0] <= before[0] && now[2] >= before[2]);
            divided += u32::from(now[0] > 0 && now[2] > 0);
            before = now;
        }
        assert_eq!(before, [0, 0, 16]);
        assert!(divided > 10, "{divided} steps had both");
    }

    #[test]
    fn who_was_wrong_for_long_comes_back_after_a_miss_a_page() {
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        assert_eq!(after(&mut shares, &[Expert::Lru], 100_000), [16, 0, 0]);
        assert_eq!(after(&mut shares, &[Expert::Value, Expert::Arc], 500), [16, 0, 0]);
        let [lru, arc, value] = after(&mut shares, &[Expert::Value, Expert::Arc], 1000);
        assert_eq!((lru, arc + value), (0, 16));
    }

    /// However long it was wrong, where the experts hold nearly the same pages.
    #[test]
    fn who_is_near_the_best_comes_back_sooner() {
        const DISTANCE: f32 = 100.0;
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        let mut use_pages = |had: &[Expert], uses: u32| {
            for _ in 0..uses {
                shares.score(set(had), 1000);
                shares.divide([DISTANCE; 3], 0);
            }
            shares.largest()
        };
        assert_eq!(use_pages(&[Expert::Value], 100_000), Expert::Value);
        // Less what is presumed of values.
        let turn = ((REGRET_MAX - Tuning::default().prior_regret) * DISTANCE) as u32;
        assert_eq!(use_pages(&[Expert::Lru, Expert::Arc], turn - 5), Expert::Value);
        assert_eq!(use_pages(&[Expert::Lru, Expert::Arc], 10), Expert::Lru);
    }

    /// Times are taken modulo 2^32.
    #[test]
    fn an_expert_leads_for_longer_than_half_a_clock() {
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        let since = u32::MAX - 10;
        (0..500).for_each(|_| shares.score(set(&[Expert::Value]), 1000));
        shares.divide([1000.0; 3], since);
        for later in [20, 1 << 30, (1 << 31) + 5, u32::MAX - 50] {
            let now = since.wrapping_add(later);
            assert!(shares.leads_since(Expert::Value, now.wrapping_sub(15), 0, now), "{later}");
            assert!(shares.leads_since(Expert::Value, since, 0, now), "{later}");
            assert!(!shares.leads_since(Expert::Value, since - 1, 0, now), "{later}");
            assert!(shares.leads_since(Expert::Value, now.wrapping_sub(1), 9, now), "{later}");
            assert!(!shares.leads_since(Expert::Value, since, 1, now), "{later}");
            assert!(!shares.leads_since(Expert::Lru, now, 0, now), "{later}");
        }
    }

    #[test]
    fn what_all_miss_decides_nothing() {
        let mut shares = Shares::new(Expert::Lru, &Tuning::default());
        after(&mut shares, &[Expert::Value], 50);
        let before = (shares.regret, after(&mut shares, &[], 0));
        assert_eq!((shares.regret, after(&mut shares, &[], 1000)), before);
    }
}
