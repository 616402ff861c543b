//! B13: how results change with the cache's size, the processor's speed, and the order in which the disk
//! serves reads. The programs are cscope2 and glimpse, both hinted.

use anyhow::Result;

use super::runs::{FRAMES, Run, beside, machine, play, run, seconds};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::simulate::machine::MachinePolicy::{Aggressive, Tip2};
use crate::simulate::machine::{CacheOptions, MachineOptions, MachineOutcome, Queue};
use crate::trace::Trace;

pub(super) fn cscope2_beside_glimpse(context: &Context) -> Result<Vec<Finding>> {
    let ordinary: Trace = beside([("cscope2", &[]), ("glimpse", &[])], context.seed);
    let halved = ["compute_ms=0.4"];
    let faster = beside([("cscope2", &halved), ("glimpse", &halved)], context.seed);
    Ok(vec![frames(&ordinary, context)?, driver(&faster, context)?, queue(&ordinary, context)?])
}

fn frames(trace: &Trace, context: &Context) -> Result<Finding> {
    const SIZES: [u32; 3] = [FRAMES / 2, FRAMES, FRAMES / 2 * 3];
    let mut ratios = Vec::new();
    for frames in SIZES {
        let runs: [Run; 2] = [Aggressive, Tip2].map(|policy| (machine(), CacheOptions::new(frames, policy)));
        let outcomes = play(trace, &runs, context.jobs)?;
        ratios.push(elapsed(&outcomes[1]) / elapsed(&outcomes[0]));
    }
    let spread = ratios.iter().copied().fold(0.0, f64::max) - ratios.iter().copied().fold(f64::MAX, f64::min);
    let each: Vec<String> = ratios.iter().map(|ratio| format!("{ratio:.2}")).collect();
    Ok(Finding {
        id: "B13/frames",
        what: format!("cscope2 and glimpse: time of TIP2 against LRU-SP at {} frames", listed(&SIZES)),
        published: "very similar curves".to_owned(),
        ours: each.join(", "),
        tolerance: ".1 between them".to_owned(),
        verdict: Verdict::of(spread <= 0.1, &format!("the ratios differ by {spread:.2}")),
    })
}

/// The elapsed time with processor time to start reads, against that without.
fn driver(trace: &Trace, context: &Context) -> Result<Finding> {
    let (mut ours, mut busy, mut is_less) = (Vec::new(), Vec::new(), true);
    for disks in [1, 10] {
        let with = MachineOptions { disks, ..machine() };
        let without = MachineOptions { driver_us: 0, ..with };
        let [sp, tip] = [Aggressive, Tip2].map(|policy| [run(with, policy), run(without, policy)]);
        let outcomes = play(trace, &[sp, tip].concat(), context.jobs)?;
        let [sp, tip] = [0, 2].map(|first| elapsed(&outcomes[first]) / elapsed(&outcomes[first + 1]));
        is_less &= sp < tip;
        ours.push(format!("{sp:.3}, {tip:.3}"));
        let share = |at: usize| {
            seconds(outcomes[at].disks.busy_us) / f64::from(disks) / elapsed(&outcomes[at]) * 100.0
        };
        busy.push(format!(
            "{} and {} reads, disks busy for {:.0} and {:.0} % of the time",
            outcomes[0].disks.reads,
            outcomes[2].disks.reads,
            share(0),
            share(2)
        ));
    }
    Ok(Finding {
        id: "B13/processor",
        what: "computing halved: time with 0.5 ms to start a read against none, LRU-SP, TIP2; 1 and 10 disks"
            .to_owned(),
        published: "LRU-SP is less sensitive".to_owned(),
        ours: ours.join("; "),
        tolerance: "LRU-SP's is less".to_owned(),
        verdict: Verdict::of(is_less, &busy.join("; ")),
    })
}

fn queue(trace: &Trace, context: &Context) -> Result<Finding> {
    let fifo = MachineOptions { queue: Queue::Fifo, ..machine() };
    let [sp, tip] = [Aggressive, Tip2].map(|policy| [run(fifo, policy), run(machine(), policy)]);
    let outcomes = play(trace, &[sp, tip].concat(), context.jobs)?;
    let ratios = [0, 2].map(|first| elapsed(&outcomes[first]) / elapsed(&outcomes[first + 1]));
    let seeks: Vec<u64> = outcomes.iter().map(|outcome| outcome.disks.seeks).collect();
    Ok(Finding {
        id: "B13/fifo",
        what: "cscope2 and glimpse: time with FIFO against SCAN, LRU-SP, TIP2".to_owned(),
        published: "minor".to_owned(),
        ours: format!("{:.2}, {:.2}", ratios[0], ratios[1]),
        tolerance: ".1".to_owned(),
        verdict: Verdict::of(
            ratios.iter().all(|ratio| (ratio - 1.0).abs() <= 0.1),
            &format!(
                "seeks with FIFO and SCAN are {}, {} under LRU-SP, {}, {} under TIP2; one takes 17 ms more than the next \
                 block",
                seeks[0], seeks[1], seeks[2], seeks[3]
            ),
        ),
    })
}

fn elapsed(outcome: &MachineOutcome) -> f64 {
    seconds(outcome.all.elapsed_us)
}
