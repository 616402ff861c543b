//! Measuring in rounds: sides that take turns, and what is told of them.

use anyhow::Result;

use crate::output::progress;

/// Rounds of each side; the middle one counts.
pub const ROUNDS: usize = 7;

/// Makes `round` [`ROUNDS`] times and returns what it found. A first round before them warms up and is
/// dropped.
///
/// # Errors
/// The first one of `round`.
pub fn alternate<T>(what: &str, round: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    alternate_often(ROUNDS, what, round)
}

/// As [`alternate`], as many times as `rounds` says.
///
/// # Errors
/// The first one of `round`.
pub fn alternate_often<T>(rounds: usize, what: &str, mut round: impl FnMut() -> Result<T>) -> Result<Vec<T>> {
    let bar = progress::bar(what, rounds as u64, "rounds");
    round()?;
    let rounds = (0..rounds).map(|_| round().inspect(|_| bar.inc(1))).collect();
    bar.finish_and_clear();
    rounds
}

/// The median of some values, and the outermost of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// The least value.
    pub least: f64,
    /// The middle one; of an even number, the greater of two.
    pub median: f64,
    /// The greatest value.
    pub greatest: f64,
}

impl Spread {
    /// Of `values`.
    ///
    /// # Panics
    /// If there are none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self { least: values[0], median: values[values.len() / 2], greatest: values[values.len() - 1] }
    }
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
