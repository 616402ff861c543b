//! `bufbench sim --machine`: traces in time, on a processor and disks.

use anyhow::{Context, Result};

use super::args::{Named, SimArgs, Switch};
use crate::cli::Common;
use crate::output::progress;
use crate::output::{Cell, Table};
use crate::parallel;
use crate::simulate::machine::{self, CacheOptions, MachineOptions, MachineOutcome, MachinePolicy, Ran};
use crate::trace::Trace;

const COLUMNS: [&str; 13] = [
    "trace",
    "policy",
    "frames",
    "tenant",
    "accesses",
    "elapsed_s",
    "stall_s",
    "cpu_s",
    "demand_misses",
    "prefetches",
    "late",
    "wasted",
    "frames_owned",
];

/// Plays the traces and prints the table.
///
/// # Errors
///
/// If a trace cannot be read or is malformed, or cannot be played on a machine.
pub fn run(args: &SimArgs, machine: &MachineOptions, common: &Common) -> Result<()> {
    let policies: Vec<MachinePolicy> = args.policy.iter().map(Named::find).collect::<Result<_, _>>()?;
    let mut table = Table::new(&COLUMNS);
    for path in &args.traces {
        let trace = args.load(path)?;
        let sizes = args.frames.iter().map(|size| size.frames(trace.distinct()));
        let sizes: Vec<u32> = sizes.collect();
        let with = |policy: MachinePolicy| sizes.iter().map(move |frames| CacheOptions::new(*frames, policy));
        let caches = policies.iter().flat_map(|policy| with(*policy));
        let revocation = args.revocation == Switch::On;
        let caches: Vec<CacheOptions> = caches.map(|cache| CacheOptions { revocation, ..cache }).collect();
        for (cache, outcome) in caches.iter().zip(play(&trace, machine, &caches, common)?) {
            push_rows(&mut table, &trace, cache, &outcome);
        }
    }
    table.print(common.format)?;
    Ok(())
}

fn play(
    trace: &Trace,
    machine: &MachineOptions,
    caches: &[CacheOptions],
    common: &Common,
) -> Result<Vec<MachineOutcome>> {
    let bar = progress::bar(format!("playing {}", trace.name()), caches.len() as u64, "runs");
    let outcomes = parallel::map(caches.len(), common.jobs(), |number| {
        let cache = &caches[number];
        let outcome = machine::run(trace, machine, cache);
        bar.inc(1);
        outcome.with_context(|| format!("policy {}, {} frames", cache.policy.name(), cache.frames))
    });
    bar.finish_and_clear();
    outcomes.into_iter().collect()
}

/// A row for each tenant, and one for all.
fn push_rows(table: &mut Table, trace: &Trace, cache: &CacheOptions, outcome: &MachineOutcome) {
    for (tenant, ran) in &outcome.processes {
        table.push(cells(trace, cache, Cell::Count(u64::from(*tenant)), ran).to_vec());
    }
    table.push(cells(trace, cache, Cell::text("all"), &outcome.all).to_vec());
}

fn cells(trace: &Trace, cache: &CacheOptions, tenant: Cell, ran: &Ran) -> [Cell; COLUMNS.len()] {
    let seconds = |us: u64| Cell::real(us as f64 / 1e6, 6);
    [
        Cell::text(trace.name()),
        Cell::text(cache.policy.name()),
        u64::from(cache.frames).into(),
        tenant,
        ran.counts.accesses.into(),
        seconds(ran.elapsed_us),
        seconds(ran.stall_us),
        seconds(ran.cpu_us),
        ran.counts.demand_misses.into(),
        ran.counts.prefetches.into(),
        ran.counts.late.into(),
        ran.wasted.into(),
        ran.frames_owned.into(),
    ]
}
