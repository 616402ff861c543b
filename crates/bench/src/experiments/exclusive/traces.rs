//! D10: stand-ins for traces of one client.

use anyhow::Result;
use bufpool_policies::tier::TierKind::{Demote, NoneLru};

use super::runs::{FRAMES, TRACE_TIMES, Workload, mean_ms};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::simulate::Latency;

/// Times of this experiment alone: the demotion of a block that the array has takes less.
const TIMES: Latency = Latency { abort_ms: Some(0.16), ..TRACE_TIMES };

/// The exact ratio: the time of a read that misses in both caches, without a demotion to that with one.
const NO_REUSE: f64 = 5.2 / 5.4;

pub(super) fn single_client(context: &Context) -> Result<Vec<Finding>> {
    let speed_up = |workload: &Workload| -> Result<f64> {
        let counts = workload.run_all(FRAMES, &[NoneLru, Demote], FRAMES, context.jobs)?;
        Ok(mean_ms(&TIMES, &counts[0]) / mean_ms(&TIMES, &counts[1]))
    };
    let once = speed_up(&Workload::cyclic(4 * u64::from(FRAMES)))?;
    let mut findings = vec![Finding {
        id: "D10",
        what: "none to DEMOTE, time, of reads of which neither cache has any (TPC-H in 2 GB)".to_owned(),
        published: "0.97 x".to_owned(),
        ours: format!("{once:.3} x"),
        tolerance: "exact: 5.2 / 5.4 = 0.963".to_owned(),
        verdict: Verdict::of((once - NO_REUSE).abs() < 1e-9, "the formula differs"),
    }];
    let set = u64::from(FRAMES);
    let flat_zipf = [format!("blocks={}", 8 * set), format!("accesses={}", 88 * set), "alpha=0.8".to_owned()];
    for (name, stand_in, published, workload) in [
        (
            "CELLO99",
            "Zipf's law, exponent 0.8, blocks of eight caches",
            "1.28 x",
            Workload::new("zipf", &flat_zipf, 8 * set, context.seed),
        ),
        ("DB2", "uniform reads, blocks of four caches", "1.40 x", Workload::random(4 * set, context.seed)),
        (
            "HTTPD",
            "Zipf's law, exponent 1, blocks of three caches",
            "2.20 x",
            Workload::zipf(3 * set, context.seed),
        ),
    ] {
        let ours = speed_up(&workload)?;
        findings.push(Finding {
            id: "D10",
            what: format!("none to DEMOTE, time; {stand_in} for {name}"),
            published: published.to_owned(),
            ours: format!("{ours:.2} x"),
            tolerance: "above 1".to_owned(),
            verdict: match ours > 1.0 {
                true => Verdict::SameOrder("the trace is not published; the sign holds".to_owned()),
                false => Verdict::NotReproduced("the trace is not published".to_owned()),
            },
        });
    }
    Ok(findings)
}
