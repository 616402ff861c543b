//! `bufbench program search`: a program that misses less than well-known policies.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bufpool_policies::program::Program;
use clap::Args;

use crate::cli::{Common, whole};
use crate::output::{Cell, Table, WholeFile, note, progress, unwritable};
use crate::search::{Found, Points, SearchOptions, search};
use crate::trace::{Size, Trace};

/// Arguments of `bufbench program search`.
#[derive(Args, Debug)]
pub struct SearchArgs {
    /// Traces that programs are graded on while searching
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub tune: Vec<PathBuf>,
    /// Traces that the program found is graded on, once
    #[arg(long, required = true, num_args = 1.., value_name = "PATH")]
    pub holdout: Vec<PathBuf>,
    /// Cache sizes, separated by commas: frames, or shares of the distinct blocks such as 5%
    #[arg(long, required = true, value_delimiter = ',', value_name = "SIZE")]
    pub frames: Vec<Size>,
    /// Programs that are graded on the tuning traces
    #[arg(long, value_name = "EVALUATIONS", value_parser = whole::<u64>(1..=u64::MAX))]
    pub budget: u64,
    /// Where the text of the program found is written
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
}

const COLUMNS: [&str; 6] = ["set", "trace", "frames", "program", "best_of_four", "ratio"];

/// Searches, writes the program, and prints the misses at each point.
///
/// # Errors
///
/// If a trace is in both lists, cannot be read, is malformed or has no accesses, or the output file cannot be
/// written. All of this is found before the search begins; an output file that exists stays unchanged then.
pub fn run(args: &SearchArgs, common: &Common) -> Result<()> {
    if let Some(both) = args.holdout.iter().find(|path| args.tune.contains(path)) {
        bail!("{}: expected a trace for tuning or for holdout, found it in both lists", both.display());
    }
    // Whatever is wrong with a file shows before the search, and before anything is written.
    let (tune, holdout) = (load(&args.tune)?, load(&args.holdout)?);
    let jobs = common.jobs();
    let tune = points(tune, args, common)?;
    let holdout = points(holdout, args, common)?;
    let out = WholeFile::begin(&args.out)?;
    let found = searched(args, common, &tune)?;
    let mut table = Table::new(&COLUMNS);
    let tuned = push_rows(&mut table, "tune", &tune, &found.program, jobs)?;
    let held_out = push_rows(&mut table, "holdout", &holdout, &found.program, jobs)?;
    let text = comment(args, common, &found, tuned, held_out) + &found.program.to_text();
    out.finish_with(&text).with_context(|| unwritable(&args.out))?;
    table.print(common.format)?;
    Ok(())
}

fn load(paths: &[PathBuf]) -> Result<Vec<Trace>> {
    paths.iter().map(|path| Ok(Trace::open(path)?)).collect()
}

/// Every trace at every size, the traces in order within each size.
fn points(traces: Vec<Trace>, args: &SearchArgs, common: &Common) -> Result<Points> {
    let at_size = |size: &Size| {
        let frames = |(number, trace): (usize, &Trace)| (number, size.frames(trace.distinct()));
        traces.iter().enumerate().map(frames).collect::<Vec<_>>()
    };
    let sized: Vec<_> = args.frames.iter().flat_map(at_size).collect();
    Ok(Points::new(traces, &sized, common.seed, common.jobs())?)
}

/// Searches; reports each better program on standard error.
fn searched(args: &SearchArgs, common: &Common, tune: &Points) -> Result<Found> {
    let options = SearchOptions { budget: args.budget, seed: common.seed, jobs: common.jobs() };
    let bar = progress::bar("searching", args.budget, "programs");
    let mut best = f64::INFINITY;
    let found = search(tune, &options, &mut |evaluations, grade| {
        bar.set_position(evaluations);
        if grade < best {
            best = grade;
            bar.suspend(|| note(format_args!("after {evaluations} programs: {grade:.6}")));
        }
    });
    bar.finish_and_clear();
    Ok(found?)
}

/// Appends a row for each point, and one for all with the grade, which is returned.
fn push_rows(
    table: &mut Table,
    set: &'static str,
    points: &Points,
    program: &Program,
    jobs: usize,
) -> Result<f64> {
    let misses = points.misses(program, jobs)?;
    for (point, misses) in points.points().iter().zip(&misses) {
        table.push(vec![
            set.into(),
            points.trace_name(point.trace).into(),
            u64::from(point.frames).into(),
            (*misses).into(),
            point.best_of_four.into(),
            Cell::share(*misses, point.best_of_four),
        ]);
    }
    let grade = points.grade_of(&misses);
    table.push(vec![set.into(), "all".into(), Cell::Empty, Cell::Empty, Cell::Empty, Cell::Ratio(grade)]);
    Ok(grade)
}

/// The comment at the head of the program found: the command that found it, and its grades. The number of
/// threads and the output file's name are left out, because the program does not depend on them.
fn comment(args: &SearchArgs, common: &Common, found: &Found, tuned: f64, held_out: f64) -> String {
    let paths = |paths: &[PathBuf]| -> String {
        paths.iter().fold(String::new(), |list, path| list + "\n#       " + &path.display().to_string())
    };
    let sizes: Vec<String> = args.frames.iter().map(ToString::to_string).collect();
    format!(
        "# Found from `{0}` by\n#\n#     bufbench program search --frames {1} --budget {2} --seed {3} --out FILE \\\n\
         #       --tune{4} \\\n#       --holdout{5}\n#\n# Misses to those of the best of fifo, lru, s3-fifo and \
         sieve, geometric means over traces and sizes:\n# {tuned:.6} on the tuning traces, {held_out:.6} on \
         those held out. Slots are named as in `{0}`, whatever their values\n# are now.\n",
        found.origin,
        sizes.join(","),
        args.budget,
        common.seed,
        paths(&args.tune).replace('\n', " \\\n"),
        paths(&args.holdout).replace('\n', " \\\n"),
    )
}
