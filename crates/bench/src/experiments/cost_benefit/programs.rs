//! B8 to B12: pairs of programs.

use anyhow::Result;

use super::runs::{FRAMES, Run, beside, machine, play};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::simulate::machine::MachinePolicy::{Aggressive, Horizon, Tip2};
use crate::simulate::machine::{CacheOptions, MachineOptions, MachineOutcome, MachinePolicy};

const STAND_INS: &str = "the programs are stand-ins, and their times on the processor are not published";

fn ordinary(policy: MachinePolicy) -> Run {
    (machine(), CacheOptions::new(FRAMES, policy))
}

fn reads(outcome: &MachineOutcome) -> u64 {
    outcome.all.counts.prefetches + outcome.all.counts.demand_misses
}

fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

pub(super) fn unhinted_beside_hinted(context: &Context) -> Result<Vec<Finding>> {
    let trace = beside([("cscope1", &["hinted=0"]), ("cscope2", &[])], context.seed);
    let outcomes = play(&trace, &[ordinary(Aggressive), ordinary(Tip2)], context.jobs)?;
    let misses: Vec<u64> = outcomes.iter().map(|outcome| outcome.of(0).counts.demand_misses).collect();
    let finding = |what: &str, published: f64, misses: u64| Finding {
        id: "B8",
        what: format!("misses of cscope1 unhinted beside cscope2 hinted under {what}, {FRAMES} frames"),
        published: format!("{published}"),
        ours: misses.to_string(),
        tolerance: "25 %".to_owned(),
        verdict: Verdict::of_ratio(published, misses as f64, 0.25, STAND_INS),
    };
    Ok(vec![
        finding("LRU-SP", 6600.0, misses[0]),
        finding("TIP2", 2400.0, misses[1]),
        Finding {
            id: "B8",
            what: "TIP2's misses against LRU-SP's".to_owned(),
            published: "0.36".to_owned(),
            ours: format!("{:.2}", misses[1] as f64 / misses[0] as f64),
            tolerance: "below .5".to_owned(),
            verdict: Verdict::of(2 * misses[1] < misses[0], STAND_INS),
        },
    ])
}

pub(super) fn hinted_beside_unhinted(context: &Context) -> Result<Vec<Finding>> {
    let trace = beside([("cscope1", &[]), ("xds", &["hinted=0"])], context.seed);
    let outcomes = play(&trace, &[ordinary(Aggressive), ordinary(Tip2)], context.jobs)?;
    let prefetches: Vec<u64> = outcomes.iter().map(|outcome| outcome.of(0).counts.prefetches).collect();
    let misses: Vec<u64> = outcomes.iter().map(|outcome| outcome.all.counts.demand_misses).collect();
    let ratio = misses[1] as f64 / misses[0] as f64;
    Ok(vec![
        Finding {
            id: "B9",
            what: "prefetches of cscope1 hinted beside XDataSlice unhinted under LRU-SP, TIP2".to_owned(),
            published: "2100, 6700".to_owned(),
            ours: listed(&prefetches),
            tolerance: "TIP2 makes more".to_owned(),
            verdict: Verdict::of(
                prefetches[1] > prefetches[0],
                "the stand-in reads a block again 234 blocks later at most, so that TIP2 sees no gain in a longer \
                 queue, and gives the frames to cscope1",
            ),
        },
        Finding {
            id: "B9",
            what: "demand misses under LRU-SP, TIP2".to_owned(),
            published: "similar".to_owned(),
            ours: listed(&misses),
            tolerance: "15 %".to_owned(),
            verdict: Verdict::of((ratio - 1.0).abs() <= 0.15, STAND_INS),
        },
    ])
}

/// The other programs of the pairs with cscope1, all hinted.
const OTHERS: [&str; 3] = ["cscope2", "glimpse", "xds"];

pub(super) fn hinted_pairs(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut ratios = Vec::new();
    for other in OTHERS {
        let trace = beside([("cscope1", &[]), (other, &[])], context.seed);
        let outcomes = play(&trace, &[ordinary(Aggressive), ordinary(Tip2)], context.jobs)?;
        let [sp, tip] = &outcomes[..] else { unreachable!("two runs") };
        ratios.push(tip.of(0).elapsed_us as f64 / sp.of(0).elapsed_us as f64);
        if other == "cscope2" {
            let fetches = reads(sp) as f64 / reads(tip) as f64;
            let elapsed = sp.all.elapsed_us as f64 / tip.all.elapsed_us as f64;
            findings.push(Finding {
                id: "B10",
                what: "cscope1 and cscope2: fetches and time of LRU-SP against TIP2".to_owned(),
                published: "1.05; faster overall".to_owned(),
                ours: format!(
                    "{fetches:.2}; {elapsed:.2} ({:.0} s against {:.0} s)",
                    seconds(sp.all.elapsed_us),
                    seconds(tip.all.elapsed_us)
                ),
                tolerance: "above 1; at most 1".to_owned(),
                verdict: Verdict::of(fetches > 1.0 && elapsed <= 1.0, STAND_INS),
            });
        }
    }
    let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    findings.insert(
        0,
        Finding {
            id: "B10",
            what: format!("time of cscope1 beside {}, both hinted: TIP2 against LRU-SP", OTHERS.join(", ")),
            published: "0.93 on average".to_owned(),
            ours: format!("{mean:.2} ({})", each.join(", ")),
            tolerance: ".05".to_owned(),
            verdict: match (mean - 0.93).abs() {
                near if near <= 0.05 => Verdict::Reproduced,
                _ if mean < 1.0 => Verdict::SameOrder(STAND_INS.to_owned()),
                _ => Verdict::NotReproduced(STAND_INS.to_owned()),
            },
        },
    );
    Ok(findings)
}

pub(super) fn many_disks(context: &Context) -> Result<Vec<Finding>> {
    const DISKS: [u32; 5] = [1, 2, 4, 7, 10];
    let trace = beside([("cscope1", &[]), ("xds", &[])], context.seed);
    let mut findings = Vec::new();
    const LIMITED: &str =
        "the limit keeps blocks that were read, so that with ten disks fewer are fetched again";
    let kinds =
        [(true, "no more than half of the frames unread", LIMITED), (false, "without that limit", STAND_INS)];
    for (limits_unread, how, reason) in kinds {
        let with = |disks: &u32| {
            let cache = CacheOptions { limits_unread, ..CacheOptions::new(FRAMES, Aggressive) };
            (MachineOptions { disks: *disks, ..machine() }, cache)
        };
        let all: Vec<Run> = DISKS.iter().map(with).collect();
        let reads: Vec<u64> = play(&trace, &all, context.jobs)?.iter().map(reads).collect();
        let growth = reads[DISKS.len() - 1] as f64 / reads[0] as f64;
        findings.push(Finding {
            id: "B11",
            what: format!(
                "reads of cscope1 and XDataSlice under LRU-SP with {} disks, {how}",
                listed(&DISKS)
            ),
            published: "about 10,000 with one, over 40,000 with ten".to_owned(),
            ours: format!("{} (x {growth:.1})", listed(&reads)),
            tolerance: "x 4, 1.5 more or less".to_owned(),
            verdict: match growth {
                near if (near - 4.0).abs() <= 1.5 => Verdict::Reproduced,
                _ if growth > 1.0 => Verdict::SameOrder(reason.to_owned()),
                _ => Verdict::NotReproduced(reason.to_owned()),
            },
        });
    }
    Ok(findings)
}

pub(super) fn fixed_horizon(context: &Context) -> Result<Vec<Finding>> {
    const PAIRS: [[&str; 2]; 6] = [
        ["cscope1", "cscope2"],
        ["cscope1", "glimpse"],
        ["cscope1", "xds"],
        ["cscope2", "glimpse"],
        ["cscope2", "xds"],
        ["glimpse", "xds"],
    ];
    let mut findings = Vec::new();
    let mut slower = 0;
    for [one, other] in PAIRS {
        let trace = beside([(one, &[]), (other, &[])], context.seed);
        let runs = [ordinary(Horizon), ordinary(Aggressive), ordinary(Tip2)];
        let elapsed: Vec<f64> = play(&trace, &runs, context.jobs)?
            .iter()
            .map(|outcome| seconds(outcome.all.elapsed_us))
            .collect();
        let is_slower = elapsed[0] > elapsed[1] && elapsed[0] > elapsed[2];
        slower += u32::from(is_slower);
        findings.push(Finding {
            id: "B12",
            what: format!("{one} and {other}: seconds with a fixed horizon, aggressive, TIP2"),
            published: "worse than either".to_owned(),
            ours: format!("{:.0}, {:.0}, {:.0}", elapsed[0], elapsed[1], elapsed[2]),
            tolerance: "slower than both".to_owned(),
            verdict: Verdict::of(is_slower, STAND_INS),
        });
    }
    findings.push(Finding {
        id: "B12",
        what: "pairs on which the fixed horizon is slower than both".to_owned(),
        published: "most of 6".to_owned(),
        ours: slower.to_string(),
        tolerance: "at least 4".to_owned(),
        verdict: Verdict::of(slower >= 4, STAND_INS),
    });
    Ok(findings)
}
