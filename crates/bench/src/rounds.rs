//! Measuring in rounds, in which the sides of a comparison take turns; medians and extremes of the rounds.

use anyhow::Result;

use crate::output::progress;

/// Rounds that are measured of each side; results are their medians.
pub const ROUNDS: usize = 7;

/// Calls `round` [`ROUNDS`] times and returns its results. One call before them warms up; its result is
/// dropped. `what` labels the progress bar.
///
/// # Errors
/// The first error of `round`.
pub fn alternate<T>(what: &str, round: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    alternate_often(ROUNDS, what, round)
}

/// As [`alternate`], with `rounds` calls after the one that warms up.
///
/// # Errors
/// The first error of `round`.
pub fn alternate_often<T>(rounds: usize, what: &str, mut round: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let bar = progress::bar(what, rounds as u64, "rounds");
    round()?;
    let rounds = (0..rounds).map(|_| round().inspect(|_| bar.inc(1))).collect();
    bar.finish_and_clear();
    rounds
}

/// The median of some values, and the least and the greatest of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least value.
    pub least: f64,
    /// The median; of an even number of values, the greater of the two in the middle.
    pub median: f64,
    /// The greatest value.
    pub greatest: f64,
}

impl Spread {
    /// The spread of `values`.
    ///
    /// # Panics
    /// If there are no values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self { least: values[0], median: values[values.len() / 2], greatest: values[values.len() - 1] }
    }
}

/// The 99th percentile of times in nanoseconds.
///
/// # Panics
/// If there are none.
pub fn percentile_99_ns(mut times_ns: Vec<u32>) -> f64 {
    let at = times_ns.len() * 99 / 100;
    f64::from(*times_ns.select_nth_unstable(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_round_is_dropped() {
        let mut round = 0;
        let found = alternate("rounds", || {
            round += 1;
            Ok(round)
        });
        assert_eq!(found.unwrap(), [2, 3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_spread_is_of_sorted_values() {
        let spread = |values: &[f64]| Spread::of(values.iter().copied());
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { least: 1.0, median: 2.0, greatest: 3.0 });
        assert_eq!(spread(&[4.0, 1.0]).median, 4.0);
    }
}
