//! D1, D2: mean times that follow from hit rates by arithmetic.

use anyhow::Result;

use super::runs::mean_ms;
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::simulate::{Counts, Latency};

/// The counts of a hundred reads with this many hits of the client, hits of the array and demotions.
fn counts(hits: u64, tier_hits: u64, demotions: u64) -> Counts {
    Counts { accesses: 100, hits, tier_hits, demotions, ..Counts::default() }
}

/// The mean times of a read in milliseconds: with an array that has the same blocks as the client, and with
/// one that has all the others.
fn inclusive_and_exclusive(hits: u64) -> [f64; 2] {
    let misses = 100 - hits;
    [counts(hits, 0, 0), counts(hits, misses, misses)].map(|counts| mean_ms(&Latency::default(), &counts))
}

pub(super) fn uniform(_: &Context) -> Result<Vec<Finding>> {
    let ours = inclusive_and_exclusive(50);
    Ok(vec![Finding {
        id: "D1",
        what: "mean time of uniform reads, half of which the client has, inclusive and exclusive array"
            .to_owned(),
        published: "5.1, 0.2 ms".to_owned(),
        ours: format!("{:.3}, {:.3} ms", ours[0], ours[1]),
        tolerance: "exact".to_owned(),
        verdict: Verdict::of(is_same(ours, [5.1, 0.2]), "the formula differs"),
    }])
}

pub(super) fn zipf(_: &Context) -> Result<Vec<Finding>> {
    let ours = inclusive_and_exclusive(91);
    Ok(vec![Finding {
        id: "D2",
        what: "mean time of reads by Zipf's law, of which the client has 91 %, inclusive and exclusive array"
            .to_owned(),
        published: "0.918, 0.036 ms, 25.5 x".to_owned(),
        ours: format!("{:.3}, {:.3} ms, {:.1} x", ours[0], ours[1], ours[0] / ours[1]),
        tolerance: "exact".to_owned(),
        verdict: Verdict::of(is_same(ours, [0.918, 0.036]), "the formula differs"),
    }])
}

fn is_same(ours: [f64; 2], published: [f64; 2]) -> bool {
    ours.iter().zip(published).all(|(ours, published)| (ours - published).abs() < 1e-9)
}
