//! B3 to B7: a hinted and an unhinted process that share a cache and a disk, up to the moment at which the
//! first of them ends.

use anyhow::Result;

use super::runs::{self, at_sizes, fast_disk, machine, on_both_disks, play, shares, stream};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::simulate::machine::MachinePolicy::{Aggressive, Tip2};
use crate::simulate::machine::{CacheOptions, MachineOptions, MachineOutcome, MachinePolicy};

const CURVES: &str = "curves only";
const LOST: &str = "depends on the processor's and the disk's order, which are not published";

/// The share of the hinted process's accesses (tenant 0) that cost no read.
fn avoided(outcome: &MachineOutcome) -> f64 {
    let counts = outcome.of_until_first_end(0).counts;
    1.0 - (counts.prefetches + counts.demand_misses) as f64 / counts.accesses.max(1) as f64
}

/// The share of hits among the accesses of tenant 1 after the first pass over its loop of `blocks` blocks.
fn hits(outcome: &MachineOutcome, blocks: u64) -> f64 {
    let counts = outcome.of_until_first_end(1).counts;
    let after_first_lap = counts.accesses.saturating_sub(blocks);
    let misses = counts.demand_misses.saturating_sub(blocks);
    if after_first_lap == 0 { 0.0 } else { 1.0 - misses as f64 / after_first_lap as f64 }
}

pub(super) fn loop_beside_once(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B3/3-12", |machine| loop_beside_once_on(machine, context))
}

fn loop_beside_once_on(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 4] = [300, 500, 800, 1000];
    let set = ["blocks=500", "passes=500", "unhinted_blocks=10000", "unhinted_accesses=10000"];
    let trace = stream("hinted-pair", &set, context.seed);
    let all = [at_sizes(machine, Tip2, &SIZES), at_sizes(machine, Aggressive, &SIZES)].concat();
    let outcomes = play(&trace, &all, context.jobs)?;
    let found: Vec<f64> = outcomes.iter().map(avoided).collect();
    let (tip, sp) = found.split_at(SIZES.len());
    let frames: Vec<f64> = outcomes[..2]
        .iter()
        .zip(SIZES)
        .map(|(outcome, size)| outcome.of_until_first_end(0).frames_owned as f64 / f64::from(size))
        .collect();
    let what = |policy: &str| format!("reads avoided by {policy} at {} frames", listed(&SIZES));
    Ok(vec![
        Finding {
            id: "B3",
            what: what("TIP2"),
            published: format!("{CURVES}: caches the loop"),
            ours: shares(tip),
            tolerance: "at least .48, .95, .95, .95".to_owned(),
            verdict: Verdict::of(tip[0] >= 0.48 && tip[1..].iter().all(|share| *share >= 0.95), LOST),
        },
        Finding {
            id: "B3",
            what: what("LRU-SP"),
            published: format!("{CURVES}: caches part of the loop"),
            ours: shares(sp),
            tolerance: "at most .45, .60, and at least .95 at 1000".to_owned(),
            verdict: Verdict::of(sp[0] <= 0.45 && sp[1] <= 0.60 && sp[3] >= 0.95, LOST),
        },
        Finding {
            id: "B3",
            what: "share of the frames that TIP2 gives the loop at 300, 500 frames".to_owned(),
            published: CURVES.to_owned(),
            ours: shares(&frames),
            tolerance: "at least .95".to_owned(),
            verdict: Verdict::of(frames.iter().all(|share| *share >= 0.95), LOST),
        },
    ])
}

pub(super) fn loop_beside_loop(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B4/3-12", |machine| loop_beside_loop_on(machine, context))
}

fn loop_beside_loop_on(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 7] = [300, 500, 600, 800, 1100, 1199, 1250];
    let set = ["blocks=500", "passes=100", "unhinted_blocks=1200", "unhinted_accesses=30000"];
    let trace = stream("hinted-pair", &set, context.seed);
    let mut findings = Vec::new();
    for (policy, name) in [(Tip2, "TIP2"), (Aggressive, "LRU-SP")] {
        let outcomes = play(&trace, &at_sizes(machine, policy, &SIZES), context.jobs)?;
        let counts: Vec<u64> = outcomes
            .iter()
            .map(|outcome| outcome.of_until_first_end(1).counts)
            .map(|counts| counts.accesses.saturating_sub(counts.demand_misses))
            .map(|hits| hits.saturating_sub(1))
            .collect();
        let below = &counts[..SIZES.len() - 1];
        findings.push(Finding {
            id: "B4",
            what: format!("hits of the loop of 1200 under {name} at {} frames", listed(&SIZES)),
            published: "none, as it never fits".to_owned(),
            ours: listed(&counts),
            tolerance: "exact below 1200".to_owned(),
            verdict: Verdict::of(below.iter().all(|hits| *hits == 0), "it hits though it does not fit"),
        });
    }
    Ok(findings)
}

/// The first of the sizes at which at least half of the loop's accesses hit.
fn threshold(sizes: &[u32], hits: &[f64]) -> Option<u32> {
    sizes.iter().zip(hits).find(|(_, hits)| **hits >= 0.5).map(|(size, _)| *size)
}

fn xds_hits(context: &Context, all: &[runs::Run]) -> Result<Vec<f64>> {
    let trace = stream("xds-pair", &[], context.seed);
    Ok(play(&trace, all, context.jobs)?.iter().map(|outcome| hits(outcome, 500)).collect())
}

pub(super) fn loop_beside_xds(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B5/3-12", |machine| loop_beside_xds_on(machine, context))
}

fn loop_beside_xds_on(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    const TIP: [u32; 4] = [500, 505, 520, 550];
    const SP: [u32; 5] = [550, 800, 1000, 1500, 2100];
    let all = [at_sizes(machine, Tip2, &TIP), at_sizes(machine, Aggressive, &SP)].concat();
    let found = xds_hits(context, &all)?;
    let (tip, sp) = found.split_at(TIP.len());
    let (of_tip, of_sp) = (threshold(&TIP, tip), threshold(&SP, sp));
    Ok(vec![
        Finding {
            id: "B5",
            what: format!("hits of the loop of 500 under TIP2 at {} frames", listed(&TIP)),
            published: "cached from 550, not at 500".to_owned(),
            ours: shares(tip),
            tolerance: "at most .05 at 500, at least .95 at 550".to_owned(),
            verdict: Verdict::of(tip[0] <= 0.05 && tip[3] >= 0.95, "the queue's tail is not priced so"),
        },
        Finding {
            id: "B5",
            what: format!("hits of the loop of 500 under LRU-SP at {} frames", listed(&SP)),
            published: "cached from 1500 only".to_owned(),
            ours: shares(sp),
            tolerance: "at most .05 at 550, .5 at 1000; from 1.5 times TIP2's threshold on".to_owned(),
            verdict: Verdict::of(
                sp[0] <= 0.05
                    && sp[2] <= 0.5
                    && of_tip.is_some_and(|tip| of_sp.is_none_or(|sp| 2 * sp >= 3 * tip)),
                LOST,
            ),
        },
    ])
}

pub(super) fn loop_beside_xds_kept(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = loop_beside_xds_kept_on(fast_disk(), "disk of 3 and 12 ms", context)?;
    let slower = loop_beside_xds_kept_on(machine(), "disk of 5 and 22 ms", context)?;
    findings.extend(slower.into_iter().map(|finding| Finding { id: "B6/5-22", ..finding }));
    Ok(findings)
}

fn loop_beside_xds_kept_on(machine: MachineOptions, disk: &str, context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 3] = [550, 1000, 1500];
    let kept = |frames: &u32| {
        let cache = CacheOptions { keep_read: true, ..CacheOptions::new(*frames, MachinePolicy::Tip2) };
        (machine, cache)
    };
    let all: Vec<runs::Run> = SIZES.iter().map(kept).collect();
    let found = xds_hits(context, &all)?;
    Ok(vec![Finding {
        id: "B6",
        what: format!("hits of the loop of 500 at {} frames, {disk}", listed(&SIZES)),
        published: "similar to LRU-SP".to_owned(),
        ours: shares(&found),
        tolerance: "none at 550 and 1000, at least .95 at 1500".to_owned(),
        verdict: Verdict::of(found[0] <= 0.05 && found[1] <= 0.05 && found[2] >= 0.95, LOST),
    }])
}

pub(super) fn loop_beside_fast_loop(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B7/3-12", |machine| loop_beside_fast_loop_on(machine, context))
}

fn loop_beside_fast_loop_on(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    const TIP: [u32; 4] = [505, 550, 800, 1200];
    const SP: [u32; 4] = [550, 800, 1000, 1200];
    let set = [
        "blocks=1200",
        "passes=60",
        "hinted_ms=2",
        "unhinted_blocks=500",
        "unhinted_accesses=40000",
        "unhinted_ms=10",
    ];
    let trace = stream("hinted-pair", &set, context.seed);
    let all = [at_sizes(machine, Tip2, &TIP), at_sizes(machine, Aggressive, &SP)].concat();
    let found: Vec<f64> =
        play(&trace, &all, context.jobs)?.iter().map(|outcome| hits(outcome, 500)).collect();
    let (tip, sp) = found.split_at(TIP.len());
    Ok(vec![
        Finding {
            id: "B7",
            what: format!("hits of the loop of 500 under TIP2 at {} frames", listed(&TIP)),
            published: "holds the loop".to_owned(),
            ours: shares(tip),
            tolerance: "at least .9 from 550".to_owned(),
            verdict: Verdict::of(tip[1..].iter().all(|share| *share >= 0.9), LOST),
        },
        Finding {
            id: "B7",
            what: format!("hits of the loop of 500 under LRU-SP at {} frames", listed(&SP)),
            published: "caches part of the fast loop instead".to_owned(),
            ours: shares(sp),
            tolerance: "at most .1 up to 1200".to_owned(),
            verdict: Verdict::of(sp.iter().all(|share| *share <= 0.1), LOST),
        },
    ])
}
