//! Which expert is followed: LRU, ARC or values, the one whose shadow cache misses least.
//!
//! Another expert takes over when it has missed less than the followed one both lately and over the long run.
//! Lately: its *lead*, the largest number of misses by which it was ahead over any stretch up to now (a
//! CUSUM), exceeds the price of the change. Changing over costs at most a miss for each page that the one
//! holds and the other does not; paying up to half of that again and again costs at most as much as the best
//! single choice would have saved (as in Borodin, Linial, Saks, "An Optimal On-Line Algorithm for Metrical
//! Task System", J. ACM 39, 1992). The long run, some thirty turnovers, keeps a stream on which each is ahead
//! now and then from tearing the cache apart. An expert that never was behind is ahead in the long run
//! as well, and is followed at once. An expert that was behind and has only made up for it may be one of two
//! that alternate in the lead: it has to get ahead by the cost of two changes, there and back.

use crate::manager::automatic::tuning::Tuning;

/// A way of choosing what goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expert {
    /// Least recently used first: what the ledger names.
    Lru,
    /// Adaptive between used once and used more often.
    Arc,
    /// By what was learned of reuse intervals.
    Value,
}

impl Expert {
    pub const ALL: [Self; 3] = [Self::Lru, Self::Arc, Self::Value];
}

/// A set of shadow caches, those that hold some page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shadows(u8);

impl Shadows {
    /// How many sets there are.
    pub const SETS: usize = 8;

    #[cfg(test)]
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::SETS as u8).map(Self)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether all shadows are in the set.
    #[inline]
    pub fn are_all(self) -> bool {
        self.index() == Self::SETS - 1
    }

    /// Whether some shadows are in the set and others are not.
    #[inline]
    pub fn are_divided(self) -> bool {
        self.index() != 0 && !self.are_all()
    }

    #[inline]
    pub fn has(self, expert: Expert) -> bool {
        self.0 >> expert as u8 & 1 == 1
    }

    /// The sets that `a` is in and `b`, another one, is not.
    pub fn divided(a: Expert, b: Expert) -> [Self; 2] {
        let third = 1 << (3 - a as u8 - b as u8);
        [Self(1 << a as u8), Self(1 << a as u8 | third)]
    }

    pub fn set(&mut self, expert: Expert, holds: bool) {
        self.0 = self.0 & !(1 << expert as u8) | u8::from(holds) << expert as u8;
    }
}

/// How far an expert must be ahead in the long run, in prices of a change, if that is less than
/// [its share](Tuning::confirmed_share) of its lead: one there and one back.
const CONFIRMED_PRICES: f32 = 2.0;

/// Which expert to follow.
pub(crate) struct Judge {
    followed: Expert,
    memory_turnovers: f32,
    confirmed_share: f32,
    /// Per expert: misses by which it is ahead of the followed one, at least 0.
    lead: [f32; 3],
    /// Per expert: misses that not all had; ageing.
    misses: [f32; 3],
}

impl Judge {
    pub fn new(followed: Expert, tuning: &Tuning) -> Self {
        let Tuning { memory_turnovers, confirmed_share, .. } = *tuning;
        Self { followed, memory_turnovers, confirmed_share, lead: [0.0; 3], misses: [0.0; 3] }
    }

    pub fn followed(&self) -> Expert {
        self.followed
    }

    /// Follows `expert` from now on.
    pub fn follow(&mut self, expert: Expert) {
        self.followed = expert;
        self.lead = [0.0; 3];
    }

    /// Whether `expert` is ahead in the long run, and lately by half of the `price` of a change to it, which
    /// may be near then.
    pub fn leans_to(&self, expert: Expert, price: f32) -> bool {
        self.ahead(expert) > 0.0 && self.lead[expert as usize] > 0.5 * price
    }

    /// By how many misses `expert` is ahead of the followed one in the long run.
    fn ahead(&self, expert: Expert) -> f32 {
        self.misses[self.followed as usize] - self.misses[expert as usize]
    }

    /// Whether `expert` is not ahead lately.
    pub fn has_no_lead(&self, expert: Expert) -> bool {
        self.lead[expert as usize] <= 0.0
    }

    /// A sampled page was used that the shadows in `had` held, of `capacity` pages each. `price` tells how
    /// many misses a change to an expert is worth. Returns whether there is somebody else to follow from now
    /// on.
    #[inline]
    pub fn score(&mut self, had: Shadows, capacity: u32, price: impl Fn(Expert) -> f32) -> bool {
        if !had.are_divided() {
            return false;
        }
        let kept = 1.0 - 1.0 / (self.memory_turnovers * capacity as f32);
        for expert in Expert::ALL {
            let misses = &mut self.misses[expert as usize];
            *misses = *misses * kept + f32::from(!had.has(expert));
        }
        let ours = had.has(self.followed);
        let mut best = (1.0, self.followed);
        for expert in Expert::ALL.into_iter().filter(|expert| had.has(*expert) != ours) {
            let lead = &mut self.lead[expert as usize];
            *lead = (*lead + if ours { -1.0 } else { 1.0 }).max(0.0);
            let (lead, price) = (*lead, price(expert));
            let surplus = lead / price;
            let confirmed = (self.confirmed_share * lead).min(CONFIRMED_PRICES * price);
            if surplus > best.0 && self.ahead(expert) > confirmed {
                best = (surplus, expert);
            }
        }
        if best.1 == self.followed {
            return false;
        }
        self.follow(best.1);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(experts: &[Expert]) -> Shadows {
        let mut set = Shadows::default();
        experts.iter().for_each(|expert| set.set(*expert, true));
        set
    }

    #[test]
    fn a_lead_over_its_price_changes_sides() {
        let lru = set(&[Expert::Lru]);
        let mut judge = Judge::new(Expert::Value, &Tuning::default());
        assert!((0..10).all(|_| !judge.score(lru, 1000, |_| 10.0)), "10 misses are not more than 10");
        assert!(judge.score(lru, 1000, |_| 10.0));
        assert_eq!(judge.followed(), Expert::Lru);
    }

    #[test]
    fn who_was_behind_is_followed_once_it_is_ahead_by_two_prices() {
        let (lru, value) = (set(&[Expert::Lru]), set(&[Expert::Value]));
        let mut judge = Judge::new(Expert::Lru, &Tuning::default());
        (0..100).for_each(|_| assert!(!judge.score(lru, 1000, |_| 10.0)));
        assert!(
            (0..119).all(|_| !judge.score(value, 1000, |_| 10.0)),
            "it has made up for it, and for a change"
        );
        assert!((0..3).any(|_| judge.score(value, 1000, |_| 10.0)), "and for another");
        assert_eq!(judge.followed(), Expert::Value);
    }

    #[test]
    fn experts_that_take_turns_are_not_followed_in_turn() {
        let (lru, value) = (set(&[Expert::Lru]), set(&[Expert::Value]));
        let mut judge = Judge::new(Expert::Lru, &Tuning::default());
        for turn in 0..40 {
            let had = if turn % 2 == 0 { lru } else { value };
            assert!((0..100).all(|_| !judge.score(had, 1000, |_| 10.0)), "turn {turn}");
        }
    }

    #[test]
    fn what_all_have_or_miss_decides_nothing() {
        let mut judge = Judge::new(Expert::Lru, &Tuning::default());
        for had in [set(&[]), set(&Expert::ALL)] {
            assert!((0..1000).all(|_| !judge.score(had, 1, |_| 1.0)));
        }
        assert_eq!((judge.lead, judge.misses), ([0.0; 3], [0.0; 3]));
    }

    #[test]
    fn sets_hold_what_was_put_in() {
        for expert in Expert::ALL {
            let mut one = set(&[expert]);
            assert!(Expert::ALL.iter().all(|other| one.has(*other) == (*other == expert)));
            one.set(expert, false);
            assert_eq!(one, Shadows::default());
            for other in Expert::ALL.into_iter().filter(|other| *other != expert) {
                let divided = Shadows::divided(expert, other);
                let expected: Vec<Shadows> =
                    Shadows::all().filter(|set| set.has(expert) && !set.has(other)).collect();
                assert!(
                    expected.iter().all(|set| divided.contains(set)) && expected.len() == 2,
                    "{divided:?}"
                );
            }
        }
    }
}
