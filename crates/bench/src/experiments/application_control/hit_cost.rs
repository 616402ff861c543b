//! A12: what allocation costs programs without a manager.

use anyhow::Result;

use super::programs::{GLOBAL_LRU, LRU_SP};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::rounds::{ROUNDS, Spread};
use crate::simulate::{Setup, SimError, simulate};
use crate::streams::{self, Advice};
use crate::trace::Trace;

pub(super) fn hit_cost(_: &Context) -> Result<Vec<Finding>> {
    let trace = Trace::of("loop", streams::items("loop", &["passes=500"], Advice::None, 1));
    let nanoseconds = |policy| -> Result<f64, SimError> {
        let outcome = simulate(&trace, policy, &Setup::frames(1000), None)?;
        Ok(outcome.elapsed.as_nanos() as f64 / trace.accesses() as f64)
    };
    let mut ratios = Vec::new();
    let mut costs = Vec::new();
    for _ in 0..ROUNDS {
        let (without, with) = (nanoseconds(GLOBAL_LRU)?, nanoseconds(LRU_SP)?);
        ratios.push(with / without);
        costs.push(with);
    }
    let Spread { least, median: ratio, greatest } = Spread::of(ratios);
    let cost_ns = Spread::of(costs).median;
    Ok(vec![Finding {
        id: "A12",
        what:
            "a hit of a program without a manager, LRU-SP against global LRU, medians of 7 alternating rounds"
                .to_owned(),
        published: "no overhead".to_owned(),
        ours: format!("x {ratio:.2} ({least:.2} to {greatest:.2}), {cost_ns:.0} ns a hit"),
        tolerance: "x 1.10".to_owned(),
        verdict: Verdict::of_ratio(
            1.0,
            ratio.max(1.0),
            0.1,
            "a run of a few milliseconds on a machine that others use",
        ),
    }])
}
