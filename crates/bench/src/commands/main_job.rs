//! The main job: every workload on real files, under each scheme, beside what the best possible policy would read.

use anyhow::Result;
use clap::Args;

use super::data_folder::DataFolder;
use super::live::Backend;
use crate::cli::Common;
use crate::machine::Machine;
use crate::output::{Cell, Table};
use crate::recording::Recording;
use crate::simulate::{self, NextUses, Setup, simulate};
use crate::trace::Trace;
use crate::workload::{
    self, Database, Measurement, Memory, RunOptions, SCHEMES, Scheme, Sizes, WORKLOADS, Workload,
};

const COLUMNS: &[&str] = &[
    "workload",
    "scheme",
    "frames",
    "accesses",
    "misses",
    "reads",
    "writes",
    "hit_ratio",
    "elapsed_s",
    "cpu_s",
    "opt_reads",
];

/// Memory of the run whose accesses are recorded.
const BOUND_MEMORY_BYTES: u64 = 256 << 20;

/// Arguments of the main job.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct MainJobArgs {
    /// A tenth of the tuples: seconds instead of a minute
    #[arg(long)]
    pub quick: bool,
    /// All schemes, not only the ones worth a first look
    #[arg(long)]
    pub all: bool,
    /// Apply every access to the policy at once, with nothing in the background
    #[arg(long)]
    pub deterministic: bool,
    /// I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// Why a sub-command is refused after one of these flags.
pub(super) const NOT_WITH_A_SUB_COMMAND: &str = "--quick, --all, --deterministic and --backend before a sub-command belong to the main job: \
     expected no sub-command, or flags behind it";

impl MainJobArgs {
    /// Whether any of the flags is given.
    pub(super) fn any(&self) -> bool {
        self.quick || self.all || self.deterministic || self.backend != Backend::Auto
    }
}

/// Builds the tables, runs all workloads under all schemes, and prints the table.
///
/// # Errors
/// If the data files cannot be made, the pool fails, or an answer is wrong.
pub fn run(args: &MainJobArgs, common: &Common) -> Result<()> {
    let folder = DataFolder::new(common)?;
    for (name, fact) in Machine::look(folder.path()).facts() {
        eprintln!("{name}: {fact}");
    }
    let sizes = if args.quick { Sizes::QUICK } else { Sizes::DEFAULT };
    let database = folder.database("wisconsin", sizes, args.backend.io())?;
    let options = RunOptions {
        memory: Memory::Default,
        threads: 1,
        deterministic: args.deterministic,
        seed: common.seed,
    };
    let mut table = Table::new(COLUMNS);
    for &workload in WORKLOADS {
        let schemes = SCHEMES.iter().filter(|scheme| args.all || scheme.in_main_job);
        let runs: Vec<(&Scheme, Measurement)> = schemes
            .map(|scheme| Ok((scheme, workload::run(workload, scheme, &database, &options, None)?)))
            .collect::<Result<_>>()?;
        let bound = Bound::of(workload, &database, common.seed)?;
        for (scheme, measured) in &runs {
            table.push(row(workload, scheme, measured, bound.reads(measured.frames)?));
        }
    }
    Ok(table.print(common.format)?)
}

/// What the best possible policy would read.
struct Bound {
    trace: Trace,
    next_uses: NextUses,
    creations: u64,
}

impl Bound {
    /// Records the accesses of a workload, which are the same under every scheme and in any memory: so in much.
    fn of(workload: &dyn Workload, database: &Database, seed: u64) -> Result<Self> {
        let recording = Recording::in_memory();
        let memory = Memory::Bytes(BOUND_MEMORY_BYTES);
        let options = RunOptions { memory, threads: 1, deterministic: true, seed };
        workload::run(workload, Scheme::find("lru")?, database, &options, Some(recording.recorder()))?;
        let (items, creations) = recording.finish()?;
        let trace = Trace::of(workload.name(), items);
        let next_uses = NextUses::in_memory(&trace)?;
        Ok(Self { trace, next_uses, creations })
    }

    /// Pages that OPT reads with that many frames.
    fn reads(&self, frames: u32) -> Result<u64> {
        let outcome =
            simulate(&self.trace, simulate::Scheme::Opt, &Setup::frames(frames), Some(&self.next_uses))?;
        Ok(outcome.total().misses() - self.creations)
    }
}

fn row(workload: &dyn Workload, scheme: &Scheme, measured: &Measurement, opt_reads: u64) -> Vec<Cell> {
    vec![
        workload.name().into(),
        scheme.name.into(),
        u64::from(measured.frames).into(),
        measured.accesses.into(),
        measured.misses.into(),
        measured.reads.into(),
        measured.writes.into(),
        Cell::share(measured.hits, measured.accesses),
        Cell::real(measured.elapsed.as_secs_f64(), 3),
        Cell::real(measured.cpu.as_secs_f64(), 3),
        opt_reads.into(),
    ]
}
