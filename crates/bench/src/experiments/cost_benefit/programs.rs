//! B8 and B10 to B12: pairs of programs.

use anyhow::Result;

use super::runs::{FRAMES, Run, beside, machine, on_both_disks, play, run, seconds};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::simulate::machine::MachinePolicy::{Aggressive, Horizon, Tip2};
use crate::simulate::machine::{CacheOptions, MachineOptions, MachineOutcome, Ran};
use crate::trace::Trace;

const STAND_INS: &str = "the programs are stand-ins, and their times on the processor are not published";

/// Settings of the stream `xds`: none, or `crossing=1`.
type Xds = &'static [&'static str];

/// As [`on_both_disks`], with rows named `crossing` in addition: those rows that differ if the slices of
/// XDataSlice cross.
fn with_both_volumes(
    faster: &'static str,
    crossing: &'static str,
    run: impl Fn(MachineOptions, Xds) -> Result<Vec<Finding>>,
) -> Result<Vec<Finding>> {
    let mut findings = on_both_disks(faster, |machine| run(machine, &[]))?;
    let mut others = run(machine(), &["crossing=1"])?;
    others.retain(|other| {
        !findings.iter().any(|finding| (&finding.what, &finding.ours) == (&other.what, &other.ours))
    });
    findings.extend(others.into_iter().map(|finding| Finding { id: crossing, ..finding }));
    Ok(findings)
}

/// The settings of a program: `xds` for XDataSlice, none for the others.
fn set(program: &str, xds: Xds) -> Xds {
    if program == "xds" { xds } else { &[] }
}

fn reads(outcome: &MachineOutcome) -> u64 {
    outcome.all.counts.prefetches + outcome.all.counts.demand_misses
}

pub(super) fn unhinted_beside_hinted(context: &Context) -> Result<Vec<Finding>> {
    on_both_disks("B8/3-12", |machine| unhinted_beside_hinted_on(machine, context))
}

fn unhinted_beside_hinted_on(machine: MachineOptions, context: &Context) -> Result<Vec<Finding>> {
    let trace = beside([("cscope1", &["hinted=0"]), ("cscope2", &[])], context.seed);
    let outcomes = play(&trace, &[run(machine, Aggressive), run(machine, Tip2)], context.jobs)?;
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

/// The other programs of the pairs with cscope1, all hinted.
const OTHERS: [&str; 3] = ["cscope2", "glimpse", "xds"];

pub(super) fn hinted_pairs(context: &Context) -> Result<Vec<Finding>> {
    with_both_volumes("B10/3-12", "B10/crossing", |machine, xds| hinted_pairs_on(machine, xds, context))
}

fn hinted_pairs_on(machine: MachineOptions, xds: Xds, context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    let mut ratios = Vec::new();
    for other in OTHERS {
        let trace = beside([("cscope1", &[]), (other, set(other, xds))], context.seed);
        let outcomes = play(&trace, &[run(machine, Aggressive), run(machine, Tip2)], context.jobs)?;
        let [sp, tip] = &outcomes[..] else { unreachable!("two runs") };
        ratios.push(tip.of(0).elapsed_us as f64 / sp.of(0).elapsed_us as f64);
        if other == "cscope2" {
            let fetches = reads(sp) as f64 / reads(tip) as f64;
            let elapsed = sp.all.elapsed_us as f64 / tip.all.elapsed_us as f64;
            let reason = why_slower(&trace, [sp, tip], machine, context)?;
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
                verdict: Verdict::of(fetches > 1.0 && elapsed <= 1.0, &reason),
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

/// Why LRU-SP is not faster, in words.
fn why_slower(
    trace: &Trace,
    [sp, tip]: [&MachineOutcome; 2],
    machine: MachineOptions,
    context: &Context,
) -> Result<String> {
    let usual = CacheOptions::new(FRAMES, Aggressive);
    let others = [CacheOptions { limits_unread: false, ..usual }, CacheOptions { batch_reads: 64, ..usual }];
    let others = play(trace, &others.map(|cache| (machine, cache)), context.jobs)?;
    Ok(format!(
        "under LRU-SP the disk is busy for {:.1} of {:.1} s, under TIP2 for {:.1} of {:.1} s: {:+} reads and {:+} seeks \
         take {:+.1} s of it. cscope1 fetches {} blocks against {}. LRU-SP takes {:.1} s without the limit on unread \
         blocks, {:.1} s with batches of 64",
        seconds(sp.disks.busy_us),
        seconds(sp.all.elapsed_us),
        seconds(tip.disks.busy_us),
        seconds(tip.all.elapsed_us),
        sp.disks.reads as i64 - tip.disks.reads as i64,
        sp.disks.seeks as i64 - tip.disks.seeks as i64,
        seconds(sp.disks.busy_us) - seconds(tip.disks.busy_us),
        sp.of(0).counts.prefetches,
        tip.of(0).counts.prefetches,
        seconds(others[0].all.elapsed_us),
        seconds(others[1].all.elapsed_us),
    ))
}

pub(super) fn many_disks(context: &Context) -> Result<Vec<Finding>> {
    with_both_volumes("B11/3-12", "B11/crossing", |machine, xds| many_disks_on(machine, xds, context))
}

fn many_disks_on(machine: MachineOptions, xds: Xds, context: &Context) -> Result<Vec<Finding>> {
    const DISKS: [u32; 5] = [1, 2, 4, 7, 10];
    let trace = beside([("cscope1", &[]), ("xds", xds)], context.seed);
    let mut findings = Vec::new();
    let kinds = [(true, "no more than half of the frames unread"), (false, "without that limit")];
    for (limits_unread, how) in kinds {
        let with = |disks: &u32| {
            let cache = CacheOptions { limits_unread, ..CacheOptions::new(FRAMES, Aggressive) };
            (MachineOptions { disks: *disks, ..machine }, cache)
        };
        let all: Vec<Run> = DISKS.iter().map(with).collect();
        let outcomes = play(&trace, &all, context.jobs)?;
        let reads: Vec<u64> = outcomes.iter().map(reads).collect();
        let reason = where_reads_go(&outcomes[DISKS.len() - 1]);
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
                _ if growth > 1.0 => Verdict::SameOrder(reason),
                _ => Verdict::NotReproduced(reason),
            },
        });
    }
    Ok(findings)
}

/// Why there are no more reads, in words.
fn where_reads_go(outcome: &MachineOutcome) -> String {
    let read = |ran: &Ran| ran.counts.prefetches + ran.counts.demand_misses - ran.wasted;
    let [one, other] = [outcome.of(0), outcome.of(1)];
    format!(
        "with ten disks {} of cscope1's {} accesses cost a read that was of use, and {} of XDataSlice's {}, whose \
         frames hold a row of blocks until it is read again; {} reads were wasted; processes wait for {:.1} of {:.0} \
         s. All accesses are {}, about as many as the published reads",
        read(one),
        one.counts.accesses,
        read(other),
        other.counts.accesses,
        outcome.all.wasted,
        seconds(outcome.all.stall_us),
        seconds(outcome.all.elapsed_us),
        outcome.all.counts.accesses,
    )
}

pub(super) fn fixed_horizon(context: &Context) -> Result<Vec<Finding>> {
    with_both_volumes("B12/3-12", "B12/crossing", |machine, xds| fixed_horizon_on(machine, xds, context))
}

fn fixed_horizon_on(machine: MachineOptions, xds: Xds, context: &Context) -> Result<Vec<Finding>> {
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
        let trace = beside([(one, set(one, xds)), (other, set(other, xds))], context.seed);
        let runs = [Horizon, Aggressive, Tip2].map(|policy| run(machine, policy));
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
