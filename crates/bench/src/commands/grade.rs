//! `bufbench grade`: a policy on lists of traces, beside LRU, ARC, the best generic policy and OPT.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

use super::sim::Named;
use crate::baselines::{self, Row};
use crate::cli::Common;
use crate::grade::{Grade, GradePoint, GradePoints, Ratios, TraceList, read_folder, read_lists};
use crate::output::{Cell, Table};
use crate::simulate::Policy;

/// Arguments of `bufbench grade`.
#[derive(Args, Debug)]
pub struct GradeArgs {
    /// The traces and their baselines
    #[command(flatten)]
    pub graded: Graded,
    /// Policies, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "NAME", default_value = "auto")]
    pub policy: Vec<Named>,
    /// A row for each point, not one for each trace and group
    #[arg(long)]
    pub points: bool,
}

/// Lists of traces, and what is recorded of them.
#[derive(Args, Debug)]
pub struct Graded {
    /// Lists of traces, each line the name of a file in the list's folder or in --traces [default: all traces
    /// in --traces, as one list]
    #[arg(num_args = 0.., value_name = "LIST")]
    lists: Vec<PathBuf>,
    /// Folder with the traces [default: $BUFPOOL_TRACES, else ../shared/traces]
    #[arg(long, value_name = "DIR")]
    traces: Option<PathBuf>,
    /// Folder with CSV files of columns trace,capacity,policy,miss_ratio; sizes and references are taken from
    /// it [default: `baselines` beside the folder with the traces, if it is there]
    #[arg(long, value_name = "DIR")]
    baselines: Option<PathBuf>,
}

impl Graded {
    /// The lists by name with the files of their traces, and the recorded rows. There are no rows if
    /// `--baselines` is not given and no folder `baselines` is beside the traces.
    ///
    /// # Errors
    ///
    /// If a list cannot be read or names a trace that is in neither folder, if a trace is on two lists, if
    /// the folder of baselines has no CSV file, or if one is malformed.
    pub fn read(&self) -> Result<(Vec<TraceList>, Vec<Row>)> {
        let traces = self.traces.clone().unwrap_or_else(baselines::shared_traces);
        let beside = traces.parent().unwrap_or(Path::new(".")).join("baselines");
        let rows = match &self.baselines {
            Some(dir) => baselines::read_rows(dir)?,
            None if beside.is_dir() => baselines::read_rows(&beside)?,
            None => Vec::new(),
        };
        let lists = match self.lists.as_slice() {
            [] => vec![read_folder(&traces)?],
            lists => read_lists(lists, &traces)?,
        };
        Ok((lists, rows))
    }
}

const POINT_COLUMNS: [&str; 9] =
    ["list", "trace", "frames", "policy", "miss_ratio", "lru", "arc", "best_generic", "opt"];
const COLUMNS: [&str; 14] = [
    "list",
    "trace",
    "policy",
    "points",
    "to_best",
    "to_lru",
    "to_lru_or_arc",
    "worst",
    "worst_at",
    "above_1.02",
    "above_1.06",
    "above_1.10",
    "way_to_opt",
    "best_way_to_opt",
];

/// Beginnings of the names of tagged traces, whose accesses carry the statement or call stack that made them.
const TAGGED: [&str; 2] = ["pg_", "sqlite_"];

/// Whether the trace of a given name is in a group.
type IsIn = fn(&str) -> bool;

/// The groups of traces that have a row of their own, by name.
const GROUPS: [(&str, IsIn); 3] =
    [("tagged", is_tagged), ("others", |name| !is_tagged(name)), ("all", |_| true)];

fn is_tagged(name: &str) -> bool {
    TAGGED.iter().any(|prefix| name.starts_with(prefix))
}

/// Plays the policies on the lists and prints the table.
///
/// # Errors
///
/// If a list, trace or baseline cannot be read, a trace is on two lists, or a policy is not known.
pub fn run(args: &GradeArgs, common: &Common) -> Result<()> {
    let policies: Vec<Policy> = args.policy.iter().map(Named::find).collect::<Result<_, _>>()?;
    let (lists, recorded) = args.graded.read()?;
    let mut table = Table::new(if args.points { &POINT_COLUMNS } else { &COLUMNS });
    for (name, paths) in lists {
        let points = GradePoints::open(&paths, &recorded, common.seed, common.jobs())?;
        for policy in &policies {
            let ratios = points.play(*policy, |_| {})?;
            let rows = if args.points { every_point } else { summary };
            rows(&mut table, &name, policy.name(), &points, &ratios);
        }
    }
    table.print(common.format)?;
    Ok(())
}

fn every_point(table: &mut Table, list: &str, policy: &str, points: &GradePoints, ratios: &[f64]) {
    for (point, ratio) in points.points().iter().zip(ratios) {
        table.push(vec![
            list.into(),
            points.traces()[point.trace].name().into(),
            u64::from(point.frames).into(),
            policy.into(),
            Cell::Ratio(*ratio),
            Cell::Ratio(point.lru),
            Cell::Ratio(point.arc),
            Cell::Ratio(point.best),
            Cell::Ratio(point.opt),
        ]);
    }
}

/// A row for each trace and each group that has one.
fn summary(table: &mut Table, list: &str, policy: &str, points: &GradePoints, ratios: &[f64]) {
    let name_of = |point: &GradePoint| points.traces()[point.trace].name();
    let mut push = |name: &str, is_in: &dyn Fn(&GradePoint) -> bool| {
        let at: Vec<(&GradePoint, f64)> =
            points.points().iter().zip(ratios.iter().copied()).filter(|(point, _)| is_in(point)).collect();
        if !at.is_empty() {
            table.push(row(list, name, policy, &at, name_of));
        }
    };
    for (number, trace) in points.traces().iter().enumerate() {
        push(trace.name(), &|point| point.trace == number);
    }
    for (group, is_in) in GROUPS {
        push(group, &|point| is_in(name_of(point)));
    }
}

fn row<'a>(
    list: &str,
    name: &str,
    policy: &str,
    at: &[(&'a GradePoint, f64)],
    name_of: impl Fn(&'a GradePoint) -> &'a str,
) -> Vec<Cell> {
    let grade = Grade::of(at.iter().copied());
    let to_better = |(point, ratio): &(&GradePoint, f64)| ratio / point.lru.min(point.arc);
    let worst = at.iter().max_by(|a, b| to_better(a).total_cmp(&to_better(b)));
    let worst = worst.map(|(point, _)| format!("{}:{}", name_of(point), point.frames));
    let above = |limit| Cell::ratio_or_empty(grade.to_better.share_above(limit));
    let mean = |ratios: &Ratios| Cell::ratio_or_empty(ratios.mean());
    vec![
        list.into(),
        name.into(),
        policy.into(),
        (at.len() as u64).into(),
        mean(&grade.to_best),
        mean(&grade.to_lru),
        mean(&grade.to_better),
        Cell::ratio_or_empty(grade.to_better.worst()),
        worst.map_or(Cell::Empty, Cell::text),
        above(1.02),
        above(1.06),
        above(1.10),
        Cell::ratio_or_empty(grade.way_to_opt),
        Cell::ratio_or_empty(grade.best_way_to_opt),
    ]
}
