//! Policies on streams of changing phases, beside LRU and ARC.

use bufpool_policies::classic::PolicyKind;

use crate::simulate::{Policy, Setup, SimError, misses};
use crate::streams::{self, Advice};
use crate::trace::{Size, Trace};

/// Misses of policies on one stream at one size.
#[derive(Clone, Debug)]
pub struct PhasePoint {
    /// The seed of the stream.
    pub seed: u64,
    /// Frames of the cache.
    pub frames: u32,
    /// Misses of LRU.
    pub lru: u64,
    /// Misses of ARC.
    pub arc: u64,
    /// Misses of each policy that is graded, in the order in which they were given.
    pub misses: Vec<u64>,
}

impl PhasePoint {
    /// How many times over LRU fills all frames: its misses for each frame.
    pub fn turnovers(&self) -> f64 {
        self.lru as f64 / f64::from(self.frames)
    }

    /// The ratio of the misses of the policy with this number to those of the better of LRU and ARC.
    ///
    /// # Panics
    ///
    /// If there is no such policy.
    pub fn ratio(&self, policy: usize) -> f64 {
        self.misses[policy] as f64 / self.lru.min(self.arc) as f64
    }
}

/// Plays the stream `phases` with this seed to LRU, ARC and `policies` at each size. `draws` is the seed of
/// the random numbers that policies draw.
///
/// # Errors
///
/// If a policy cannot be played.
pub fn play_phases(
    seed: u64,
    policies: &[Policy],
    sizes: &[Size],
    draws: u64,
) -> Result<Vec<PhasePoint>, SimError> {
    let trace = Trace::of("phases", streams::items("phases", &[], Advice::None, seed));
    let at = |size: &Size| {
        let frames = size.frames(trace.distinct());
        let setup = Setup { revocation: true, seed: draws, ..Setup::frames(frames) };
        let of = |policy: &Policy| misses(&trace, *policy, &setup, None);
        Ok(PhasePoint {
            seed,
            frames,
            lru: of(&Policy::OneLevel(PolicyKind::Lru))?,
            arc: of(&Policy::OneLevel(PolicyKind::Arc))?,
            misses: policies.iter().map(of).collect::<Result<_, _>>()?,
        })
    };
    sizes.iter().map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use bufpool_policies::ManagerKind;

    #[test]
    fn lru_and_arc_are_graded_against_the_better_of_the_two() {
        let [lru, arc] = [PolicyKind::Lru, PolicyKind::Arc].map(Policy::OneLevel);
        let policies = [lru, arc, Policy::Opt];
        let sizes = [Size::Percent(3.0), Size::Percent(60.0)];
        for seed in 1..=3 {
            let points = play_phases(seed, &policies, &sizes, 1).unwrap();
            assert_eq!(points.len(), 2);
            assert!(points[0].turnovers() > 5.0 && points[0].frames < points[1].frames, "{points:?}");
            for point in points {
                assert_eq!(point.misses[..2], [point.lru, point.arc]);
                assert!(point.misses[2] <= point.lru.min(point.arc), "OPT misses least: {point:?}");
                assert_eq!(point.ratio(0).min(point.ratio(1)), 1.0);
            }
        }
    }

    /// After LRU has led, a loop that just fits comes back to a cache full of pages that ARC gave up long
    /// ago. While they stayed, each page of the loop took the place of another.
    #[test]
    fn a_cache_that_comes_to_follow_arc_gives_up_what_arc_gave_up() {
        let auto = Policy::Managed(ManagerKind::Auto);
        let points = play_phases(611, &[auto], &[Size::Frames(532)], 1).unwrap();
        assert!(points[0].ratio(0) < 1.1, "{points:?}");
    }
}
