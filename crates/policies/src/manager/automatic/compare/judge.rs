//! Which expert chooses what goes.
//!
//! An expert's *regret* is by how many misses its shadow cache is behind the best one's. A change from one to
//! the other costs at most a miss for each page that the one holds and the other does not: their *distance*.
//! The expert that is the fewest distances behind leads. Blum, Burch, "On-line Learning and the Metrical Task
//! System Problem", Machine Learning 39, 2000, show what experts cost that take turns at being best. An
//! expert that was wrong for long must be able to return: regret is at most a miss for each page that the
//! cache can hold.

use super::experts::{Expert, Shadows};
use crate::manager::automatic::tuning::Tuning;

/// The regret of the experts, and who leads.
pub(crate) struct Judge {
    prior_regret: f32,
    /// Per expert: the regret with which it begins, in distances.
    prior: [f32; 3],
    /// Per expert: misses by which it is behind the best.
    pub regret: [f32; 3],
    leader: Expert,
    /// An interruption of the lead of values that is no longer than this counts as none.
    pause_max: u32,
    /// Since when values lead or led, apart from such interruptions.
    values_since: u32,
    /// When they ceased to, if they did.
    values_until: Option<u32>,
}

impl Judge {
    /// `first` leads, and nothing speaks for another. A time of `pause_max` is short for an expert.
    pub fn new(first: Expert, pause_max: u32, tuning: &Tuning) -> Self {
        let prior_regret = tuning.prior_regret;
        let mut judge = Self {
            prior_regret,
            prior: [0.0; 3],
            regret: [0.0; 3],
            leader: first,
            pause_max,
            values_since: 0,
            values_until: None,
        };
        judge.trust(Expert::Lru);
        judge
    }

    /// Something speaks for `expert` before there is any regret. ARC begins with more regret than LRU, and
    /// values with more than ARC, because they presume more.
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

    /// Decides at `now` who leads; `distances` are those from the [best](Self::best) expert.
    pub fn decide(&mut self, distances: [f32; 3], now: u32) {
        let behind =
            std::array::from_fn(|expert| self.prior[expert] + self.regret[expert] / distances[expert]);
        let before = std::mem::replace(&mut self.leader, least_of(behind));
        if before == self.leader {
            return;
        }
        if before == Expert::Value {
            self.values_until = Some(now);
        } else if self.leader == Expert::Value
            && self.values_until.is_none_or(|until| now.wrapping_sub(until) > self.pause_max)
        {
            self.values_since = now;
        }
    }

    /// The expert that chooses.
    pub fn leader(&self) -> Expert {
        self.leader
    }

    /// Whether values lead now, and had led for a time of `before` at `time`, apart from short interruptions.
    pub fn values_lead_since(&self, time: u32, before: u32, now: u32) -> bool {
        let led = now.wrapping_sub(self.values_since);
        self.leader == Expert::Value && now.wrapping_sub(time) <= led.saturating_sub(before)
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

    fn lru() -> Judge {
        Judge::new(Expert::Lru, 100, &Tuning::default())
    }

    /// Who leads after that many uses of pages that the shadows in `had` held, at a distance of 1000.
    fn after(judge: &mut Judge, had: &[Expert], uses: u32) -> Expert {
        (0..uses).for_each(|_| judge.score(set(had), 1000));
        judge.decide([1000.0; 3], 0);
        judge.leader()
    }

    #[test]
    fn at_first_who_is_trusted_leads() {
        for expert in Expert::ALL {
            let mut judge = lru();
            assert_eq!(after(&mut judge, &[], 0), Expert::Lru);
            judge.trust(expert);
            assert_eq!(after(&mut judge, &[], 0), expert);
        }
    }

    #[test]
    fn what_is_presumed_of_an_expert_is_outweighed_by_misses() {
        let mut judge = lru();
        let presumed = (Tuning::default().prior_regret * 1000.0) as u32;
        assert_eq!(after(&mut judge, &[Expert::Value], presumed - 5), Expert::Lru);
        assert_eq!(after(&mut judge, &[Expert::Value], 10), Expert::Value);
    }

    #[test]
    fn who_was_wrong_for_long_comes_back_after_a_miss_a_page() {
        let mut judge = lru();
        assert_eq!(after(&mut judge, &[Expert::Lru], 100_000), Expert::Lru);
        assert_eq!(after(&mut judge, &[Expert::Value, Expert::Arc], 500), Expert::Lru);
        assert_ne!(after(&mut judge, &[Expert::Value, Expert::Arc], 1000), Expert::Lru);
    }

    /// Times are taken modulo 2^32.
    #[test]
    fn values_lead_for_longer_than_half_a_clock() {
        let mut judge = lru();
        let since = u32::MAX - 10;
        (0..500).for_each(|_| judge.score(set(&[Expert::Value]), 1000));
        judge.decide([1000.0; 3], since);
        for later in [20, 1 << 30, (1 << 31) + 5, u32::MAX - 50] {
            let now = since.wrapping_add(later);
            assert!(judge.values_lead_since(now.wrapping_sub(15), 0, now), "{later}");
            assert!(judge.values_lead_since(since, 0, now), "{later}");
            assert!(!judge.values_lead_since(since - 1, 0, now), "{later}");
            assert!(judge.values_lead_since(now.wrapping_sub(1), 9, now), "{later}");
            assert!(!judge.values_lead_since(since, 1, now), "{later}");
        }
    }

    #[test]
    fn a_short_interruption_does_not_end_the_lead_of_values() {
        for (pause, goes_on) in [(100, true), (101, false)] {
            let mut judge = lru();
            let mut lead = |expert: Expert, now: u32| {
                judge.regret = [f32::MAX; 3];
                judge.regret[expert as usize] = 0.0;
                judge.decide([1000.0; 3], now);
                judge.values_lead_since(35, 0, now)
            };
            assert!(!lead(Expert::Lru, 30) && lead(Expert::Value, 35));
            assert!(!lead(Expert::Lru, 50), "LRU leads");
            assert_eq!(lead(Expert::Value, 50 + pause), goes_on);
        }
    }

    #[test]
    fn what_all_miss_decides_nothing() {
        let mut judge = lru();
        after(&mut judge, &[Expert::Value], 50);
        let before = (judge.regret, after(&mut judge, &[], 0));
        assert_eq!((judge.regret, after(&mut judge, &[], 1000)), before);
    }
}
