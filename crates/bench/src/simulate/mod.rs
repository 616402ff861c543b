//! The simulator: plays traces to the replacement policies and counts.
//!
//! It is a driver of `bufpool-policies` and nothing more: it maps blocks to frames, knows which frames are pinned,
//! and notes whom each event concerns. Every decision is the real one.

mod next_uses;
mod one_level;
mod pins;
mod stepper;
mod tally;
mod two_level;
mod variant;

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::{Duration, Instant};
use std::{error, fmt, io};

use bufpool_policies::classic::{self, Opt, PolicyKind};
use bufpool_policies::{Allocation, DirectoryError, ManagerKind};

use crate::trace::{Place, Replay, Trace, TraceError};

pub use next_uses::NextUses;
pub use stepper::Stepper;
pub use tally::{By, Counts};
pub use variant::Variant;

use one_level::OneLevelRun;
use tally::Tally;
use two_level::TwoLevelRun;

/// What decides which block goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scheme {
    /// One policy over all frames; tenants and directives other than pins mean nothing to it.
    OneLevel(PolicyKind),
    /// The same with the rules of another program.
    Variant(Variant),
    /// Belady's optimum over all frames.
    Opt,
    /// A ledger over all tenants, and each tenant's priority levels below it.
    TwoLevel(Allocation),
    /// LRU-SP over all tenants, and a manager that needs no directives for each of them until it gives one.
    Managed(ManagerKind),
}

impl Scheme {
    /// The name that [`FromStr`] reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::OneLevel(kind) => kind.name(),
            Self::Variant(variant) => variant.name(),
            Self::Opt => "opt",
            Self::TwoLevel(Allocation::GlobalLru) => "global-lru",
            Self::TwoLevel(Allocation::AllocLru) => "alloc-lru",
            Self::TwoLevel(Allocation::LruS) => "lru-s",
            Self::TwoLevel(Allocation::LruSp) => "lru-sp",
            Self::Managed(kind) => kind.name(),
        }
    }

    /// All schemes that users can name, in the order they are listed.
    pub fn all() -> impl Iterator<Item = Scheme> {
        let two_level = [Allocation::LruSp, Allocation::AllocLru, Allocation::LruS].map(Self::TwoLevel);
        let managed = ManagerKind::ALL.into_iter().map(Self::Managed);
        let variants = Variant::ALL.into_iter().map(Self::Variant);
        let one_level = PolicyKind::ALL.into_iter().map(Self::OneLevel).chain([Self::Opt]).chain(variants);
        one_level.chain(two_level).chain(managed)
    }
}

impl FromStr for Scheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::all().find(|scheme| scheme.name() == name).ok_or_else(|| {
            let known: Vec<&str> = Self::all().map(Self::name).collect();
            format!("expected one of the policies {}", known.join(" "))
        })
    }
}

/// The cache that is simulated.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Frames, at least 1.
    pub frames: u32,
    /// Whether managers that keep being wrong lose their say.
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
    /// Whether tenants that give no directives, and have no floor or cap, share one account under `auto`, as in a pool.
    pub shared_account: bool,
}

impl Setup {
    /// A cache of so many frames with everything else off.
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
        }
    }
}

/// What a simulation found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Counts by key: the trace's tenants or sites in ascending order, or a single key 0.
    pub counts: BTreeMap<u64, Counts>,
    /// Time spent, reading the trace not included.
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

/// Plays the trace to a cache that is empty at first. `next_uses` is needed for [`Scheme::Opt`] only.
///
/// Memory: 4 bytes a distinct block, 8 bytes a frame, and the policy's own.
///
/// # Errors
///
/// If the trace cannot be read again, gives a directive that is refused, or pins all frames that a missing block
/// could take; if floors and caps contradict each other or name a tenant that the trace does not have.
///
/// # Panics
///
/// If `next_uses` is missing for [`Scheme::Opt`].
pub fn simulate(
    trace: &Trace,
    scheme: Scheme,
    setup: &Setup,
    next_uses: Option<&NextUses>,
) -> Result<Outcome, SimError> {
    let fitted = fit(trace, setup);
    let setup = &fitted;
    match scheme {
        Scheme::OneLevel(kind) => {
            let policy = classic::build(kind, setup.frames);
            play(trace, OneLevelRun::new(trace, setup, policy), OneLevelRun::into_tally)
        }
        Scheme::Variant(variant) => {
            let policy = variant.build(setup.frames);
            play(trace, OneLevelRun::new(trace, setup, policy), OneLevelRun::into_tally)
        }
        Scheme::Opt => {
            let uses = next_uses.expect("OPT is given the next uses").cursor();
            let failure = uses.failure();
            let policy = Box::new(Opt::new(Box::new(uses)));
            let outcome = play(trace, OneLevelRun::new(trace, setup, policy), OneLevelRun::into_tally)?;
            failure.take().map_or(Ok(outcome), |error| Err(SimError::Scratch(error)))
        }
        Scheme::TwoLevel(allocation) => {
            play(trace, TwoLevelRun::new(trace, setup, allocation)?, TwoLevelRun::into_tally)
        }
        Scheme::Managed(kind) => {
            let mut run = TwoLevelRun::new(trace, setup, Allocation::LruSp)?;
            run.manage(kind, setup)?;
            play(trace, run, TwoLevelRun::into_tally)
        }
    }
}

/// The setup without frames that the trace cannot fill: they change no count and would only need memory. Floors and
/// caps reckon with them, so they stay where there are any.
fn fit(trace: &Trace, setup: &Setup) -> Setup {
    let blocks = trace.blocks().len().clamp(1, u32::MAX as usize) as u32;
    let is_free = setup.floors.is_empty() && setup.caps.is_empty();
    let frames = if is_free { setup.frames.min(blocks) } else { setup.frames };
    Setup { frames, ..setup.clone() }
}

fn play<R: Replay<Error = SimError>>(
    trace: &Trace,
    mut run: R,
    into_tally: impl FnOnce(R) -> Tally,
) -> Result<Outcome, SimError> {
    let started = Instant::now();
    let reading = trace.replay(&mut run)?;
    let elapsed = started.elapsed().saturating_sub(reading);
    Ok(Outcome { counts: into_tally(run).finish(trace), elapsed })
}

/// A simulation that could not be carried out.
#[derive(Debug)]
pub enum SimError {
    /// Something is wrong with the trace, or cannot be done as it says.
    Trace(TraceError),
    /// Frames, floors and caps do not fit together.
    Directory(DirectoryError),
    /// A floor or cap of a tenant that the trace does not have.
    UnknownTenant {
        /// The trace's name.
        trace: String,
        /// The tenant named.
        tenant: u32,
    },
    /// The file of next uses failed.
    Scratch(io::Error),
}

impl SimError {
    /// The access with index `access` found every frame that it could take pinned.
    fn all_pinned(trace: &Trace, access: u64, block: u32, frames: u32) -> Self {
        let place = trace.place_of(access).unwrap_or(Place::File);
        let block = trace.blocks()[block as usize];
        let message = format!(
            "block {block} needs a frame, and each of the {frames} frames is pinned, protected by a floor or beyond \
             its tenant's cap; expected fewer pins, lower floors or more frames"
        );
        Self::Trace(TraceError::refused(trace.path(), place, message))
    }
}

impl fmt::Display for SimError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(f),
            Self::Directory(error) => error.fmt(f),
            Self::UnknownTenant { trace, tenant } => {
                write!(f, "--floor, --cap: expected a tenant of trace {trace}, found {tenant}")
            }
            Self::Scratch(_) => f.write_str(
                "--scratch: the next uses of OPT cannot be written or read, expected a folder that exists, may be \
                 written to, and has 8 bytes free for each access",
            ),
        }
    }
}

impl error::Error for SimError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Trace(error) => error.source(),
            Self::Scratch(error) => Some(error),
            Self::Directory(_) | Self::UnknownTenant { .. } => None,
        }
    }
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<DirectoryError> for SimError {
    fn from(error: DirectoryError) -> Self {
        Self::Directory(error)
    }
}
