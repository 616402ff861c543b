//! `bufbench tune`: what halving and doubling each constant of the automatic manager does on lists of traces.

use anyhow::Result;
use bufpool_policies::{ManagerKind, Tuning, TuningConstant};
use clap::Args;

use super::grade::Graded;
use crate::cli::Common;
use crate::grade::{Grade, GradePoints, Ratios};
use crate::output::{Cell, Table, progress};
use crate::simulate::Policy;

/// Arguments of `bufbench tune`.
#[derive(Args, Debug)]
pub struct TuneArgs {
    /// The traces and their baselines
    #[command(flatten)]
    pub graded: Graded,
    /// Constants, separated by commas [default: all]
    #[arg(long, value_delimiter = ',', value_name = "NAME", value_parser = find_constant)]
    pub constants: Vec<&'static TuningConstant>,
    /// What each constant is multiplied by, separated by commas
    #[arg(long, value_delimiter = ',', value_name = "FACTOR", default_value = "0.5,2", value_parser = read_factor)]
    pub factors: Vec<f64>,
}

fn find_constant(name: &str) -> Result<&'static TuningConstant, String> {
    Tuning::CONSTANTS.iter().find(|constant| constant.name == name).ok_or_else(|| {
        let known: Vec<&str> = Tuning::CONSTANTS.iter().map(|constant| constant.name).collect();
        format!("expected one of the constants {}", known.join(" "))
    })
}

fn read_factor(text: &str) -> Result<f64, String> {
    let factor = text.parse().ok().filter(|factor| (0.01..=100.0).contains(factor));
    factor.ok_or_else(|| "expected a factor, 0.01 to 100".to_owned())
}

/// `geo_mean_change` is the geometric mean of the ratios of misses to those with the default, less 1.
/// `worst_point` is the greatest ratio of misses to those of the better of LRU and ARC, at `worst_at`.
const COLUMNS: [&str; 11] = [
    "constant",
    "factor",
    "traces",
    "geo_mean_change",
    "worst_point",
    "list",
    "value",
    "to_best",
    "to_lru",
    "worst_to_default",
    "worst_at",
];

/// Plays the lists with each constant changed and prints the table.
///
/// # Errors
///
/// If a list, trace or baseline cannot be read, or a trace is on two lists.
pub fn run(args: &TuneArgs, common: &Common) -> Result<()> {
    let (lists, recorded) = args.graded.read()?;
    let constants = match args.constants.as_slice() {
        [] => Tuning::CONSTANTS.iter().collect(),
        named => named.to_vec(),
    };
    let steps = lists.len() * (1 + constants.len() * args.factors.len());
    let bar = progress::bar("playing with other constants", steps as u64, "settings");
    let mut table = Table::new(&COLUMNS);
    for (list, paths) in &lists {
        let points = GradePoints::open(paths, &recorded, common.seed, common.jobs())?;
        let play = |tuning: Tuning| {
            let ratios =
                points.play(Policy::Managed(ManagerKind::Auto), |setup| setup.tuning = Some(tuning))?;
            bar.inc(1);
            anyhow::Ok(ratios)
        };
        let tuning = Tuning::default();
        let default = play(tuning)?;
        table.push(row(list, ("default", 1.0, Cell::Empty), &points, &default, &default));
        for constant in &constants {
            for factor in &args.factors {
                let scaled = constant.scaled(&tuning, *factor);
                let value = (constant.name, *factor, Cell::real(constant.get(&scaled), 4));
                table.push(row(list, value, &points, &play(scaled)?, &default));
            }
        }
    }
    bar.finish_and_clear();
    table.print(common.format)?;
    Ok(())
}

fn row(
    list: &str,
    (constant, factor, value): (&str, f64, Cell),
    points: &GradePoints,
    ratios: &[f64],
    default: &[f64],
) -> Vec<Cell> {
    let grade = Grade::of(points.points().iter().zip(ratios.iter().copied()));
    let to_default: Ratios = ratios.iter().zip(default).map(|(ratio, default)| ratio / default).collect();
    let worst = points.points().iter().zip(ratios).max_by(|a, b| {
        let to_better =
            |(point, ratio): &(&crate::grade::GradePoint, &f64)| **ratio / point.lru.min(point.arc);
        to_better(a).total_cmp(&to_better(b))
    });
    let worst_at =
        worst.map(|(point, _)| format!("{}:{}", points.traces()[point.trace].name(), point.frames));
    vec![
        constant.into(),
        Cell::real(factor, 3),
        (points.traces().len() as u64).into(),
        Cell::ratio_or_empty(to_default.mean().map(|mean| mean - 1.0)),
        Cell::ratio_or_empty(grade.to_better.worst()),
        list.into(),
        value,
        Cell::ratio_or_empty(grade.to_best.mean()),
        Cell::ratio_or_empty(grade.to_lru.mean()),
        Cell::ratio_or_empty(to_default.worst()),
        worst_at.map_or(Cell::Empty, Cell::text),
    ]
}
