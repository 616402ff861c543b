//! The main job: every workload on real files, under each scheme, beside what the best possible policy would
//! read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common};
use crate::machine::Machine;
use crate::output::plot::{self, Bars};
use crate::output::report::Report;
use crate::output::{Cell, Table, unwritable};
use crate::simulate::{self, NextUses, Setup, simulate};
use crate::trace::Trace;
use crate::trace::recording::Recording;
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
    /// HTML page with tables and charts [default: bufbench-report.html in --dir, or in the current folder]
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
}

/// Why a sub-command is refused after one of these flags.
pub(super) const NOT_WITH_A_SUB_COMMAND: &str = "--quick, --all, --deterministic, --backend and --report before a sub-command belong to the main job: \
     expected no sub-command, or flags behind it";

impl MainJobArgs {
    /// Whether any of the flags is given.
    pub(super) fn any(&self) -> bool {
        self.quick || self.all || self.deterministic || self.backend != Backend::Auto || self.report.is_some()
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
        ..RunOptions::default()
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
    table.print(common.format)?;
    write_report(&table, args, common, folder.path())
}

/// The table and its charts as a page.
fn write_report(table: &Table, args: &MainJobArgs, common: &Common, data: &Path) -> Result<()> {
    let beside = || common.dir.clone().unwrap_or_default().join("bufbench-report.html");
    let path = args.report.clone().unwrap_or_else(beside);
    let mut report = Report::new("Workloads on real pages");
    report.paragraph(
        "Each workload runs cold, with the same memory, under each scheme. Reads are pages read from the device; opt is \
         what the best possible policy would read with as many frames.",
    );
    report.chart(&plot::bars(&bars(table, "Pages read", "reads", Some("opt_reads"))));
    report.chart(&plot::bars(&bars(table, "Elapsed time in seconds", "elapsed_s", None)));
    report.table(table);
    report.write(&path, data).with_context(|| unwritable(&path))?;
    eprintln!("report: {}", path.display());
    Ok(())
}

/// A group of bars a workload, a bar a scheme, and one more for the bound.
fn bars(table: &Table, title: &str, column: &str, bound: Option<&str>) -> Bars {
    let at = |name: &str| {
        table.columns().iter().position(|column| *column == name).expect("a column of the table")
    };
    let text = |row: &[Cell], name: &str| Table::plain(&row[at(name)]);
    let number = |row: &[Cell], name: &str| text(row, name).parse().expect("a number");
    let mut names: Vec<String> = Vec::new();
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for rows in table.rows().chunk_by(|a, b| text(a, "workload") == text(b, "workload")) {
        names = rows.iter().map(|row| text(row, "scheme")).collect();
        let mut values: Vec<f64> = rows.iter().map(|row| number(row, column)).collect();
        values.extend(bound.map(|bound| number(&rows[0], bound)));
        groups.push((text(&rows[0], "workload"), values));
    }
    names.extend(bound.map(|_| "opt".to_owned()));
    Bars { title: title.to_owned(), names, groups }
}

/// What the best possible policy would read.
struct Bound {
    trace: Trace,
    next_uses: NextUses,
    creations: u64,
}

impl Bound {
    /// Records the accesses of a workload, which are the same under every scheme and in any memory: so in
    /// much.
    fn of(workload: &dyn Workload, database: &Database, seed: u64) -> Result<Self> {
        let recording = Recording::in_memory();
        let memory = Memory::Bytes(BOUND_MEMORY_BYTES);
        let options = RunOptions { memory, deterministic: true, seed, ..RunOptions::default() };
        workload::run(workload, Scheme::find("lru")?, database, &options, Some(recording.recorder()))?;
        let (items, creations) = recording.finish()?;
        let trace = Trace::of(workload.name(), items);
        let next_uses = NextUses::in_memory(&trace)?;
        Ok(Self { trace, next_uses, creations })
    }

    /// Pages that OPT reads with that many frames.
    fn reads(&self, frames: u32) -> Result<u64> {
        let outcome =
            simulate(&self.trace, simulate::Policy::Opt, &Setup::frames(frames), Some(&self.next_uses))?;
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
