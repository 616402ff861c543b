//! Runs on the machine, and how their results are printed.

use anyhow::{Context as _, Result};

use crate::experiments::application_control::service::placed;
use crate::experiments::finding::Finding;
use crate::parallel;
use crate::simulate::machine::{
    self, CacheOptions, MachineOptions, MachineOutcome, MachinePolicy, ServiceTimes,
};
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// Frames of the paper's cache.
pub(super) const FRAMES: u32 = 1280;

/// A machine with one disk, of 5 ms for a sequential read and 22 ms for any other.
pub(super) fn machine() -> MachineOptions {
    MachineOptions::default()
}

/// The same machine with a disk of 3 and 12 ms.
pub(super) fn fast_disk() -> MachineOptions {
    MachineOptions { times: ServiceTimes { sequential_us: 3_000, random_us: 12_000 }, ..machine() }
}

/// The findings of `run` on the ordinary machine, and those with the faster disk, which are named `id`.
pub(super) fn on_both_disks(
    id: &'static str,
    run: impl Fn(MachineOptions) -> Result<Vec<Finding>>,
) -> Result<Vec<Finding>> {
    let mut findings = run(machine())?;
    findings.extend(run(fast_disk())?.into_iter().map(|finding| Finding { id, ..finding }));
    Ok(findings)
}

/// The stream `name` with the settings `set`.
pub(super) fn stream(name: &str, set: &[&str], seed: u64) -> Trace {
    Trace::of(name, streams::items(name, set, Advice::None, seed))
}

/// Two streams, each a tenant with blocks of its own.
pub(super) fn beside(programs: [(&str, &[&str]); 2], seed: u64) -> Trace {
    let items = programs.map(|(name, set)| streams::items(name, set, Advice::None, seed));
    let items = (0..).zip(&items).flat_map(|(tenant, items)| placed(items, tenant));
    Trace::of(&format!("{}+{}", programs[0].0, programs[1].0), items)
}

/// A run: the machine and its cache.
pub(super) type Run = (MachineOptions, CacheOptions);

/// A run of a policy with as many frames as the paper's cache has.
pub(super) fn run(machine: MachineOptions, policy: MachinePolicy) -> Run {
    (machine, CacheOptions::new(FRAMES, policy))
}

pub(super) fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

/// Plays the trace in each of the runs; results are in the order of the runs.
pub(super) fn play(trace: &Trace, runs: &[Run], jobs: usize) -> Result<Vec<MachineOutcome>> {
    let outcomes = parallel::map(runs.len(), jobs, |run| {
        let (machine, cache) = &runs[run];
        machine::run(trace, machine, cache)
            .with_context(|| format!("{}, {}, {} frames", trace.name(), cache.policy.name(), cache.frames))
    });
    outcomes.into_iter().collect()
}

/// Runs of a policy at several sizes.
pub(super) fn at_sizes(machine: MachineOptions, policy: MachinePolicy, sizes: &[u32]) -> Vec<Run> {
    sizes.iter().map(|frames| (machine, CacheOptions::new(*frames, policy))).collect()
}

/// Shares as findings list them: `0.400, 0.990`.
pub(super) fn shares(shares: &[f64]) -> String {
    let texts: Vec<String> = shares.iter().map(|share| format!("{share:.3}")).collect();
    texts.join(", ")
}
