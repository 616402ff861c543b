//! The simulator: plays traces to the replacement policies and counts.
//!
//! It drives `bufpool-policies`: it maps blocks to frames, knows which frames are pinned, and counts each
//! event for the tenant or site that it concerns. All replacement decisions are made by the code that the
//! live pool uses, except those of OPT and of the variants of other programs.

mod clients;
mod error;
mod latency;
mod lower;
pub mod machine;
mod next_uses;
mod one_level;
mod pins;
mod policy;
mod program_file;
mod promises;
mod run;
mod stepper;
mod tally;
mod two_level;
mod variant;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bufpool_policies::classic::{self, Opt};
use bufpool_policies::program::Program;
use bufpool_policies::tier::TierKind;
use bufpool_policies::{Allocation, ProgramStats, Tuning};

use crate::trace::Trace;

pub use error::SimError;
pub use latency::Latency;
pub use lower::LowerCache;
pub use next_uses::NextUses;
pub use policy::Policy;
pub use program_file::read_program;
pub use stepper::Stepper;
pub use tally::{By, Counts};
pub use variant::Variant;

use clients::ClientsRun;
use lower::Below;
use one_level::OneLevelRun;
use run::{Run, WarmUp};
use two_level::TwoLevelRun;

/// The cache that is simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames, at least 1.
    pub frames: u32,
    /// Whether managers that keep being wrong are revoked.
    pub revocation: bool,
    /// Whether blocks that another tenant uses are protected from their owner's manager.
    pub shared_pages: bool,
    /// Frames that no other tenant can take, by tenant of the trace.
    pub floors: BTreeMap<u32, u32>,
    /// Frames that a tenant may not exceed, by tenant of the trace.
    pub caps: BTreeMap<u32, u32>,
    /// Whether counts are kept apart, and how.
    pub by: By,
    /// Seed of what managers draw at random.
    pub seed: u64,
    /// Whether tenants that give no directives, and have no floor or cap, share one account under `auto`, as
    /// in a pool.
    pub shared_account: bool,
    /// Whether tenants with accounts of their own and few pages learn together under `auto`, as in a pool.
    pub shared_learning: bool,
    /// Constants of the automatic manager; `None` for the default ones.
    pub tuning: Option<Tuning>,
    /// What [`Policy::Program`] runs.
    pub program: Option<Program>,
    /// Programs of single tenants under a two-level policy, by tenant of the trace; those that the trace does
    /// not have are left out.
    pub programs: BTreeMap<u32, TenantProgram>,
    /// Steps that an event of a program may take; `None` for the default.
    pub program_fuel: Option<u32>,
    /// A lower cache, which misses read through and evicted blocks may be demoted to.
    pub lower: Option<LowerCache>,
    /// Accesses at the beginning of the trace that are played but not counted.
    pub warm_up: u64,
}

impl Setup {
    /// A cache of `frames` frames with seed 1. `shared_account` and `shared_learning` are on, as in a pool;
    /// everything else is off.
    pub fn frames(frames: u32) -> Self {
        let (floors, caps) = (BTreeMap::new(), BTreeMap::new());
        Self {
            frames,
            revocation: false,
            shared_pages: false,
            floors,
            caps,
            by: By::Trace,
            seed: 1,
            shared_account: true,
            shared_learning: true,
            tuning: None,
            program: None,
            programs: BTreeMap::new(),
            program_fuel: None,
            lower: None,
            warm_up: 0,
        }
    }
}

/// A program as the manager of one tenant, whose directives are refused.
#[derive(Clone, Debug)]
pub struct TenantProgram {
    /// The program.
    pub program: Program,
    /// Values of its ints by name, sent when it is loaded.
    pub sent: Vec<(String, i64)>,
}

/// What a simulation found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts by key: the trace's tenants or sites in ascending order, or a single key 0.
    pub counts: BTreeMap<u64, Counts>,
    /// What the programs of tenants did, by tenant of the trace.
    pub programs: BTreeMap<u32, ProgramStats>,
    /// Time that the simulation took, without the time to read the trace.
    pub elapsed: Duration,
}

impl Outcome {
    /// The counts of all keys together.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.counts.values().for_each(|counts| total.add(counts));
        total
    }
}

/// The misses that [`simulate`] counts. If [`Policy::Opt`] is given no `next_uses`, they are found first,
/// which takes 4 bytes an access.
///
/// # Errors
///
/// As those of [`simulate`], or if the trace cannot be read.
///
/// # Panics
///
/// If a program is missing for [`Policy::Program`], or if next uses are to be found and the trace has at
/// least 2^32 - 1 accesses.
pub fn misses(
    trace: &Trace,
    policy: Policy,
    setup: &Setup,
    next_uses: Option<&NextUses>,
) -> Result<u64, SimError> {
    let own = match (policy, next_uses) {
        (Policy::Opt, None) => Some(NextUses::in_memory(trace)?),
        _ => None,
    };
    Ok(simulate(trace, policy, setup, next_uses.or(own.as_ref()))?.total().misses())
}

/// Plays the trace to a cache that is empty at first. `next_uses` is needed for [`Policy::Opt`] only.
///
/// Takes, for each client, 4 bytes a distinct block, 8 bytes a frame and the memory of the policy; and the
/// memory of the lower cache.
///
/// # Errors
///
/// If the trace cannot be read again, gives a directive that is refused, or pins all frames that a missing
/// block could take; if floors and caps contradict each other or name a tenant that the trace does not have;
/// if a program is for privileged tenants, or does not have an int that it is sent; if there are more clients
/// than frames; if [`Policy::Opt`] would not see the accesses of the whole trace, which is so with a client
/// for each tenant and above PROMOTE; if the file of `next_uses` cannot be read.
///
/// # Panics
///
/// If `next_uses` is missing for [`Policy::Opt`], or a program for [`Policy::Program`].
pub fn simulate(
    trace: &Trace,
    policy: Policy,
    setup: &Setup,
    next_uses: Option<&NextUses>,
) -> Result<Outcome, SimError> {
    let is_unforeseen = |lower: &LowerCache| lower.client_per_tenant || lower.kind == TierKind::Promote;
    if policy == Policy::Opt && setup.lower.as_ref().is_some_and(is_unforeseen) {
        return Err(SimError::OptBelow);
    }
    match policy {
        Policy::OneLevel(kind) => run(trace, setup, |setup, below| {
            Ok(OneLevelRun::new(trace, setup, classic::build(kind, setup.frames), below))
        }),
        Policy::Variant(variant) => run(trace, setup, |setup, below| {
            Ok(OneLevelRun::new(trace, setup, variant.build(setup.frames), below))
        }),
        Policy::Opt => {
            let next_uses = next_uses.expect("OPT is given the next uses");
            let mut failure = None;
            let outcome = run(trace, setup, |setup, below| {
                let uses = next_uses.cursor();
                failure = Some(uses.failure());
                Ok(OneLevelRun::new(trace, setup, Box::new(Opt::new(Box::new(uses))), below))
            })?;
            let failed = failure.and_then(|failure| failure.take());
            failed.map_or(Ok(outcome), |error| Err(SimError::Scratch(error)))
        }
        Policy::TwoLevel(allocation) => run(trace, setup, |setup, below| {
            let mut run = TwoLevelRun::new(trace, setup, allocation)?;
            run.put_above(below);
            Ok(run)
        }),
        Policy::Managed(kind) => run(trace, setup, |setup, below| {
            let mut run = TwoLevelRun::new(trace, setup, Allocation::LruSp)?;
            run.put_above(below);
            run.manage(kind, setup)?;
            Ok(run)
        }),
        Policy::Program(allocation) => run(trace, setup, |setup, below| {
            let program = setup.program.as_ref().expect("the program is given");
            let mut run = TwoLevelRun::new(trace, setup, allocation)?;
            run.put_above(below);
            run.manage_by_program(program)?;
            Ok(run)
        }),
    }
}

/// Plays the trace to the cache that `make` makes, or to one such cache for each client of the lower cache.
fn run<R: Run>(
    trace: &Trace,
    setup: &Setup,
    mut make: impl FnMut(&Setup, Option<Below>) -> Result<R, SimError>,
) -> Result<Outcome, SimError> {
    let blocks = trace.blocks().len();
    let new_below = |lower: &LowerCache| Below::new(lower, setup.frames, setup.seed, blocks);
    let below = setup.lower.as_ref().map(new_below);
    if !setup.lower.is_some_and(|lower| lower.client_per_tenant) {
        return play(trace, make(&fit(trace, setup), below)?, setup.warm_up);
    }
    let clients = trace.tenants().len().max(1) as u32;
    let frames = setup.frames / clients;
    if frames == 0 {
        let trace = trace.name().to_owned();
        return Err(SimError::TooFewFrames { trace, clients, frames: setup.frames });
    }
    let each = fit(trace, &Setup { frames, ..setup.clone() });
    let runs: Vec<R> = (0..clients).map(|_| make(&each, below.clone())).collect::<Result<_, SimError>>()?;
    play(trace, ClientsRun::new(trace, runs), setup.warm_up)
}

/// The setup without frames that the trace cannot fill, which change no count and only take memory. With
/// floors or caps the frames stay as they are, because floors and caps are checked against them.
fn fit(trace: &Trace, setup: &Setup) -> Setup {
    let blocks = trace.blocks().len().clamp(1, u32::MAX as usize) as u32;
    let is_free = setup.floors.is_empty() && setup.caps.is_empty();
    let frames = if is_free { setup.frames.min(blocks) } else { setup.frames };
    Setup { frames, ..setup.clone() }
}

fn play<R: Run>(trace: &Trace, run: R, warm_up: u64) -> Result<Outcome, SimError> {
    let started = Instant::now();
    let mut run = WarmUp::new(run, warm_up);
    let reading = trace.replay(&mut run)?;
    let elapsed = started.elapsed().saturating_sub(reading);
    let (tally, programs) = run.into_run().end();
    Ok(Outcome { counts: tally.finish(trace), programs, elapsed })
}
