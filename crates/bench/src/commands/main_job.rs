//! The main job: every workload on real files, under each scheme, beside the number of pages that OPT would
//! read.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use bufpool::HintPolicy;
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common};
use crate::machine::Machine;
use crate::output::plot::{self, Bars, Curves, Series};
use crate::output::report::Report;
use crate::output::{Cell, Table, WholeFile, note, unwritable};
use crate::workload::{
    self, Bound, Database, Measurement, Memory, RunOptions, SCHEMES, Scheme, Sizes, WORKLOADS, Workload,
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

/// The scheme under which workloads that can disclose their reads run once more, disclosing them.
const DISCLOSED: &str = "auto";

/// Arguments of the main job.
#[derive(Args, Clone, PartialEq, Eq, Debug)]
pub struct MainJobArgs {
    /// A tenth of the tuples: seconds instead of a minute
    #[arg(long)]
    pub quick: bool,
    /// All schemes, not only lru, lru-sp and auto
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

/// Most points of a curve.
const DEPTH_POINTS: usize = 60;

/// The message that refuses a sub-command behind one of the flags of the main job.
pub(super) const NOT_WITH_A_SUB_COMMAND: &str = "--quick, --all, --deterministic, --backend and --report before a sub-command belong to the main job: \
     expected no sub-command, or flags behind it";

impl MainJobArgs {
    /// Whether any of the flags is given.
    pub(super) fn any(&self) -> bool {
        self.quick || self.all || self.deterministic || self.backend != Backend::Auto || self.report.is_some()
    }
}

/// Builds the tables, runs all workloads under the schemes asked for, prints the table and writes the HTML
/// page.
///
/// # Errors
/// If the data files or the page cannot be written, the pool fails, or an answer is wrong.
pub fn run(args: &MainJobArgs, common: &Common) -> Result<()> {
    let folder = DataFolder::new(common)?;
    for (name, fact) in Machine::look(folder.path()).facts() {
        note(format_args!("{name}: {fact}"));
    }
    let beside = || common.dir.clone().unwrap_or_default().join("bufbench-report.html");
    let path = args.report.clone().unwrap_or_else(beside);
    let file = WholeFile::begin(&path)?;
    let sizes = if args.quick { Sizes::QUICK } else { Sizes::DEFAULT };
    let database = folder.database("wisconsin", sizes, args.backend.io())?;
    let options = RunOptions {
        memory: Memory::Default,
        threads: 1,
        deterministic: args.deterministic,
        seed: common.seed,
        ..RunOptions::default()
    };
    let watches_depths = !args.deterministic;
    let disclosed = RunOptions { hints: HintPolicy::Auto, watches_depths, ..options };
    let (mut table, mut depths) = (Table::new(COLUMNS), Vec::new());
    for &workload in WORKLOADS {
        let schemes = SCHEMES.iter().filter(|scheme| args.all || scheme.in_main_job);
        add_rows(&mut table, workload, schemes, &database, &options)?;
        if workload.takes_hints() {
            let runs = add_rows(&mut table, workload, [Scheme::find(DISCLOSED)?], &database, &disclosed)?;
            depths.extend(runs.into_iter().map(|(_, run)| depth_curve(workload, &run)));
        }
    }
    table.print(common.format)?;
    let page = report(&table, depths);
    page.write(file, folder.path()).with_context(|| unwritable(&path))?;
    note(format_args!("report: {}", path.display()));
    Ok(())
}

/// Runs a workload under some schemes, and adds a row for each. Returns the runs with their schemes' names.
fn add_rows<'s>(
    table: &mut Table,
    workload: &dyn Workload,
    schemes: impl IntoIterator<Item = &'s Scheme>,
    database: &Database,
    options: &RunOptions,
) -> Result<Vec<(String, Measurement)>> {
    let measured = |scheme: &Scheme| {
        Ok((options.name_of(scheme), workload::run(workload, scheme, database, options, None)?))
    };
    let runs: Vec<(String, Measurement)> = schemes.into_iter().map(measured).collect::<Result<_>>()?;
    let bound = Bound::of(workload, database, options)?;
    for (scheme, measured) in &runs {
        table.push(row(workload, scheme, measured, bound.reads(measured.frames)?));
    }
    Ok(runs)
}

/// How many hints ahead of the reader a run fetched, over time in milliseconds; at most [`DEPTH_POINTS`]
/// points.
fn depth_curve(workload: &dyn Workload, run: &Measurement) -> Series {
    let each = run.depths.len().div_ceil(DEPTH_POINTS).max(1);
    let point = |(time, depth): &(Duration, u32)| (time.as_secs_f64() * 1e3, f64::from(*depth));
    let points = run.depths.iter().step_by(each).map(point).collect();
    Series { name: workload.name().to_owned(), points, is_bound: false }
}

/// The table and its charts as a page.
fn report(table: &Table, depths: Vec<Series>) -> Report {
    let mut report = Report::new("Workloads on real pages");
    report.paragraph(
        "Each workload runs cold, with the same memory, under each scheme. Reads are pages read from the device; opt is \
         what the best possible policy would read with as many frames. With +hints the workload discloses its reads.",
    );
    report.chart(&plot::bars(&bars(table, "Pages read", "reads", Some("opt_reads"))));
    report.chart(&plot::bars(&bars(table, "Elapsed time in seconds", "elapsed_s", None)));
    if depths.iter().any(|curve| !curve.points.is_empty()) {
        report.chart(&plot::curves(&Curves {
            title: "Disclosed reads: how far ahead is fetched".to_owned(),
            x: "milliseconds since the run began".to_owned(),
            y: "hints ahead of the reader".to_owned(),
            series: depths,
        }));
    }
    report.table(table);
    report
}

/// A group of bars for each workload: a bar for each scheme, empty if the workload has no row for it, and one
/// for the bound.
fn bars(table: &Table, title: &str, column: &str, bound: Option<&str>) -> Bars {
    let at = |name: &str| {
        table.columns().iter().position(|column| *column == name).expect("a column of the table")
    };
    let text = |row: &[Cell], name: &str| Table::plain(&row[at(name)]);
    let number = |row: &[Cell], name: &str| text(row, name).parse().expect("a number");
    let mut names: Vec<String> = Vec::new();
    for scheme in table.rows().iter().map(|row| text(row, "scheme")) {
        if !names.contains(&scheme) {
            names.push(scheme);
        }
    }
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for rows in table.rows().chunk_by(|a, b| text(a, "workload") == text(b, "workload")) {
        let row_of = |name: &String| rows.iter().find(|row| text(row, "scheme") == *name);
        let value = |name| row_of(name).map_or(f64::NAN, |row| number(row, column));
        let mut values: Vec<f64> = names.iter().map(value).collect();
        values.extend(bound.map(|bound| number(&rows[0], bound)));
        groups.push((text(&rows[0], "workload"), values));
    }
    names.extend(bound.map(|_| "opt".to_owned()));
    Bars { title: title.to_owned(), names, groups }
}

fn row(workload: &dyn Workload, scheme: &str, measured: &Measurement, opt_reads: u64) -> Vec<Cell> {
    vec![
        workload.name().into(),
        scheme.into(),
        u64::from(measured.frames).into(),
        measured.accesses.into(),
        measured.misses.into(),
        measured.reads.into(),
        measured.writes.into(),
        Cell::share(measured.hits, measured.accesses - measured.creations),
        Cell::real(measured.elapsed.as_secs_f64(), 3),
        Cell::real(measured.cpu.as_secs_f64(), 3),
        opt_reads.into(),
    ]
}
