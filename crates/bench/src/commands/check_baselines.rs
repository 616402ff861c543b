//! `bufbench check-baselines`: our miss ratios against those of independent implementations.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bufpool_policies::classic::PolicyKind;
use clap::Args;

use crate::cli::Common;
use crate::output::{Cell, Table};
use crate::simulate::{self, NextUses, Scheme, Setup};
use crate::trace::{LoadOptions, Trace, base_name};
use crate::{parallel, progress};

/// Arguments of `bufbench check-baselines`.
#[derive(Args, Debug)]
pub struct CheckBaselinesArgs {
    /// Folder with CSV files of columns trace,capacity,policy,miss_ratio
    pub dir: PathBuf,
    /// Folder with the traces [default: $BUFPOOL_TRACES, else `traces` beside DIR]
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print every row, not one line a policy
    #[arg(long)]
    pub rows: bool,
}

/// How close ours has to be.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Standard {
    /// The algorithm leaves no freedom: all six digits.
    Exact,
    /// Within [`TOLERANCE`] either way on nine rows of ten.
    Close,
    /// At most [`TOLERANCE`] above on nine rows of ten.
    NoWorse,
    /// Compared for information: another tool's approximation of what a better row stands for.
    Shown,
}

/// Absolute difference of miss ratios that implementations of one published algorithm may have.
const TOLERANCE: f64 = 0.005;

/// Half a unit of the last of six digits.
const LAST_DIGIT: f64 = 5e-7;

impl Standard {
    fn holds(self, ours: f64, theirs: f64) -> bool {
        let difference = ours - theirs;
        match self {
            // Their digits are rounded, and a ratio may lie exactly between two roundings.
            Self::Exact => difference.abs() <= LAST_DIGIT * 1.001,
            Self::Close => difference.abs() <= TOLERANCE,
            Self::NoWorse => difference <= TOLERANCE,
            Self::Shown => true,
        }
    }

    fn verdict(self, rows: usize, within: usize) -> &'static str {
        let enough = match self {
            Self::Exact => within == rows,
            Self::Close | Self::NoWorse => 10 * within >= 9 * rows,
            Self::Shown => return "shown",
        };
        if enough { "ok" } else { "differs" }
    }
}

/// Which of our policies a name in the files stands for, and how close it has to be.
fn counterpart(name: &str) -> Option<(Scheme, Standard)> {
    let (ours, standard) = match name {
        "OPT" => return Some((Scheme::Opt, Standard::Exact)),
        "LRU" => ("lru", Standard::Exact),
        "FIFO" => ("fifo", Standard::Exact),
        "CLOCK" => ("clock", Standard::Exact),
        "MRU_own" => ("mru", Standard::Exact),
        "LFU" => ("lfu", Standard::Close),
        "2Q" => ("2q", Standard::Close),
        "ARC" => ("arc", Standard::Close),
        "SIEVE" => ("sieve", Standard::Close),
        "S3-FIFO" | "S3FIFO" => ("s3-fifo", Standard::Close),
        "W-TinyLFU" | "WTINYLFU" => ("w-tinylfu", Standard::Close),
        "LIRS_author" => ("lirs", Standard::NoWorse),
        "LIRS" => ("lirs", Standard::Shown),
        _ => return None,
    };
    // A policy that is not built yet is one that we lack.
    ours.parse::<PolicyKind>().ok().map(|kind| (Scheme::OneLevel(kind), standard))
}

/// A row of the files.
#[derive(Clone, Debug)]
struct Row {
    trace: String,
    frames: u32,
    policy: String,
    theirs: f64,
}

/// A row with our own number.
struct Compared {
    row: Row,
    standard: Standard,
    ours: f64,
}

/// Compares and prints.
///
/// # Errors
///
/// If a file or trace cannot be read, or an exact policy differs.
pub fn run(args: &CheckBaselinesArgs, common: &Common) -> Result<()> {
    let rows = read_rows(&args.dir)?;
    let (known, lacking): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| counterpart(&row.policy).is_some());
    let traces = find_traces(args)?;
    let compared = compare(known, &traces, common)?;
    let table = if args.rows { every_row(&compared) } else { summary(&compared, &lacking) };
    table.print(common.format)?;
    eprintln!(
        "bufbench: {} rows compared, {} rows skipped: no such policy here",
        compared.len(),
        lacking.len()
    );
    let wrong = compared.iter().filter(|one| one.standard == Standard::Exact && !is_within(one)).count();
    if wrong > 0 {
        bail!("{wrong} rows of exact policies differ, expected none; --rows shows them");
    }
    Ok(())
}

fn is_within(compared: &Compared) -> bool {
    compared.standard.holds(compared.ours, compared.row.theirs)
}

/// The rows of every CSV file in the folder, files in alphabetical order.
fn read_rows(dir: &Path) -> Result<Vec<Row>> {
    let listed = || format!("{}: expected a folder with CSV files", dir.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).with_context(listed)? {
        paths.push(entry.with_context(listed)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "csv"));
    paths.sort();
    if paths.is_empty() {
        bail!(listed());
    }
    let mut rows = Vec::new();
    for path in paths {
        let text =
            fs::read_to_string(&path).with_context(|| format!("{}: cannot be read", path.display()))?;
        // The first line names the columns.
        for (number, line) in text.lines().enumerate().skip(1) {
            let row = parse_row(line).with_context(|| {
                format!("{}: line {}: expected trace,capacity,policy,miss_ratio", path.display(), number + 1)
            })?;
            rows.push(row);
        }
    }
    Ok(rows)
}

fn parse_row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split(',').collect();
    let [trace, frames, policy, theirs] = fields[..] else { return None };
    let frames = frames.parse().ok().filter(|&frames| frames > 0)?;
    Some(Row { trace: trace.to_owned(), frames, policy: policy.to_owned(), theirs: theirs.parse().ok()? })
}

/// The trace files by base name.
fn find_traces(args: &CheckBaselinesArgs) -> Result<BTreeMap<String, PathBuf>> {
    let beside = || args.dir.canonicalize().ok().and_then(|dir| Some(dir.parent()?.join("traces")));
    let dir = args
        .traces
        .clone()
        .or_else(|| env::var_os("BUFPOOL_TRACES").map(PathBuf::from))
        .or_else(beside)
        .unwrap_or_else(|| PathBuf::from("traces"));
    let entries = fs::read_dir(&dir).with_context(|| {
        format!("{}: expected a folder with traces; name it with --traces", dir.display())
    })?;
    let mut traces = BTreeMap::new();
    for entry in entries {
        let path = entry?.path();
        // Beside a trace stand descriptions of its files and contexts.
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        if [".gz", ".zst", ".txt"].iter().any(|suffix| name.ends_with(suffix)) {
            traces.insert(base_name(&path), path);
        }
    }
    Ok(traces)
}

/// Simulates each pair of policy and size once, trace by trace.
fn compare(rows: Vec<Row>, traces: &BTreeMap<String, PathBuf>, common: &Common) -> Result<Vec<Compared>> {
    let mut by_trace: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let bar = progress::bar("comparing", rows.len() as u64, "rows");
    for row in rows {
        by_trace.entry(row.trace.clone()).or_default().push(row);
    }
    let mut compared = Vec::new();
    for (name, rows) in by_trace {
        let path = traces.get(&name).with_context(|| format!("expected a trace {name} beside the others"))?;
        let trace = Trace::load(path, &LoadOptions::default(), &indicatif::ProgressBar::hidden())?;
        let next_uses = NextUses::in_memory(&trace)?;
        let ratios = parallel::map(rows.len(), common.jobs(), |number| {
            let (scheme, _) = counterpart(&rows[number].policy).expect("only known policies are compared");
            let setup = Setup::frames(rows[number].frames);
            let outcome = simulate::simulate(&trace, scheme, &setup, Some(&next_uses));
            bar.inc(1);
            outcome.map(|outcome| outcome.total().misses() as f64 / trace.accesses() as f64)
        });
        for (row, ours) in rows.into_iter().zip(ratios) {
            let (_, standard) = counterpart(&row.policy).expect("only known policies are compared");
            compared.push(Compared { row, standard, ours: ours? });
        }
    }
    bar.finish_and_clear();
    Ok(compared)
}

fn every_row(compared: &[Compared]) -> Table {
    let mut table = Table::new(&["trace", "capacity", "policy", "theirs", "ours", "difference", "verdict"]);
    for one in compared {
        table.push(vec![
            Cell::text(&one.row.trace),
            u64::from(one.row.frames).into(),
            Cell::text(&one.row.policy),
            Cell::Ratio(one.row.theirs),
            Cell::Ratio(one.ours),
            Cell::Ratio(one.ours - one.row.theirs),
            one.standard.verdict(1, usize::from(is_within(one))).into(),
        ]);
    }
    table
}

fn summary(compared: &[Compared], lacking: &[Row]) -> Table {
    let columns =
        ["policy", "rows", "equal", "within", "mean_difference", "worst_difference", "worst_at", "verdict"];
    let mut table = Table::new(&columns);
    let mut by_policy: BTreeMap<&str, Vec<&Compared>> = BTreeMap::new();
    for one in compared {
        by_policy.entry(&one.row.policy).or_default().push(one);
    }
    for (policy, all) in by_policy {
        let difference = |one: &Compared| one.ours - one.row.theirs;
        let worst = all.iter().max_by(|a, b| difference(a).abs().total_cmp(&difference(b).abs()));
        let worst = worst.expect("a policy has rows");
        let equal = all.iter().filter(|one| Standard::Exact.holds(one.ours, one.row.theirs)).count();
        let within = all.iter().filter(|one| is_within(one)).count();
        table.push(vec![
            policy.into(),
            (all.len() as u64).into(),
            (equal as u64).into(),
            (within as u64).into(),
            Cell::Ratio(all.iter().map(|one| difference(one)).sum::<f64>() / all.len() as f64),
            Cell::Ratio(difference(worst)),
            Cell::text(format!("{}:{}", worst.row.trace, worst.row.frames)),
            worst.standard.verdict(all.len(), within).into(),
        ]);
    }
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for row in lacking {
        *skipped.entry(&row.policy).or_default() += 1;
    }
    for (policy, rows) in skipped {
        let nothing = || Cell::Empty;
        let cells = [nothing(), nothing(), nothing(), nothing(), nothing(), "skipped".into()];
        table.push([Cell::from(policy), rows.into()].into_iter().chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standards_are_as_strict_as_they_say() {
        assert!(Standard::Exact.holds(0.123_456_4, 0.123_456));
        assert!(!Standard::Exact.holds(0.123_457, 0.123_456));
        assert!(Standard::Close.holds(0.104, 0.1) && !Standard::Close.holds(0.094, 0.1));
        assert!(Standard::NoWorse.holds(0.05, 0.1) && !Standard::NoWorse.holds(0.106, 0.1));
        assert_eq!(Standard::Exact.verdict(10, 9), "differs");
        assert_eq!(Standard::Close.verdict(10, 9), "ok");
        assert_eq!(Standard::Close.verdict(10, 8), "differs");
    }

    #[test]
    fn the_names_of_other_tools_are_known() {
        for name in ["LRU", "FIFO", "CLOCK", "OPT", "MRU_own"] {
            assert_eq!(counterpart(name).map(|(_, standard)| standard), Some(Standard::Exact), "{name}");
        }
        assert_eq!(counterpart("S3FIFO"), counterpart("S3-FIFO"));
        for name in ["LeCaR", "Random", "DLIRS_ref"] {
            assert_eq!(counterpart(name), None, "{name}");
        }
    }

    #[test]
    fn rows_have_four_columns() {
        let row = parse_row("cs,100,LRU,0.981714").unwrap();
        assert_eq!(
            (row.trace.as_str(), row.frames, row.policy.as_str(), row.theirs),
            ("cs", 100, "LRU", 0.981714)
        );
        for line in ["", "cs,100,LRU", "cs,0,LRU,0.5", "cs,100,LRU,x", "cs,100,LRU,0.5,"] {
            assert!(parse_row(line).is_none(), "{line}");
        }
    }
}
