//! What it changes to halve and to double each constant of a policy.

use super::{GradePoints, Ratios};
use crate::simulate::SimError;

/// What constants are multiplied by.
pub const FACTORS: [f64; 2] = [0.5, 2.0];

/// What comes of one constant with another value.
#[derive(Clone, PartialEq, Debug)]
pub struct Tuned {
    /// The constant.
    pub constant: &'static str,
    /// What it was multiplied by.
    pub factor: f64,
    /// The geometric mean of the misses to those with the constant as it is.
    pub mean: f64,
    /// The misses at the worst point, to the better of LRU and ARC.
    pub worst: f64,
    /// The number of that point.
    pub worst_point: usize,
}

/// Halves and doubles each of `constants`, one at a time. `play` tells the miss ratios at all points, with one
/// constant multiplied by a factor or with none.
///
/// # Errors
///
/// As those of `play`.
///
/// # Panics
///
/// If there are no points.
pub fn tune(
    points: &GradePoints,
    constants: &[&'static str],
    mut play: impl FnMut(Option<(&'static str, f64)>) -> Result<Vec<f64>, SimError>,
) -> Result<Vec<Tuned>, SimError> {
    let as_is = play(None)?;
    let changes = constants.iter().flat_map(|constant| FACTORS.map(|factor| (*constant, factor)));
    changes
        .map(|(constant, factor)| {
            let ratios = play(Some((constant, factor)))?;
            let to_as_is: Ratios =
                ratios.iter().zip(&as_is).map(|(changed, as_is)| changed / as_is).collect();
            let to_better = ratios.iter().zip(points.points()).map(|(ratio, at)| ratio / at.lru.min(at.arc));
            let worst = to_better.enumerate().max_by(|one, other| one.1.total_cmp(&other.1));
            let (worst_point, worst) = worst.expect("at least one point");
            Ok(Tuned { constant, factor, mean: to_as_is.mean().expect("points"), worst, worst_point })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn each_constant_is_halved_and_doubled_and_held_against_what_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("loop.txt");
        let text: String = (0..400).map(|at| format!("{}\n", at % 40)).collect();
        fs::write(&path, text).unwrap();
        let points = GradePoints::open(&[path], &[], 1, 1).unwrap();
        assert_eq!(points.points().len(), 4);
        // LRU and ARC miss each access of the loop.
        let play = |change| {
            Ok(match change {
                None => vec![0.5; 4],
                Some(("a", factor)) => vec![0.5, 0.5, 0.5, 0.5 * factor],
                Some(_) => vec![0.5; 4],
            })
        };
        let tuned = tune(&points, &["a", "b"], play).unwrap();
        let means: Vec<f64> = tuned.iter().map(|tuned| (tuned.mean * 1e6).round() / 1e6).collect();
        assert_eq!(means, [0.840896, 1.189207, 1.0, 1.0]);
        assert_eq!((tuned[1].constant, tuned[1].factor, tuned[1].worst_point), ("a", 2.0, 3));
        assert!((tuned[1].worst - 1.0).abs() < 0.01 && (tuned[2].worst - 0.5).abs() < 0.01, "{tuned:?}");
    }
}
