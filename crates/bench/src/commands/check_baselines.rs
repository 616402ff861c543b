//! `bufbench check-baselines`: our miss ratios against those of independent implementations.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bufpool_policies::classic::PolicyKind;
use clap::Args;

use crate::baselines::{self, Row};
use crate::cli::Common;
use crate::output::{Cell, Table};
use crate::output::{note, progress};
use crate::parallel;
use crate::simulate::{self, NextUses, Policy, Setup, SimError, Variant};
use crate::trace::Trace;

/// Arguments of `bufbench check-baselines`.
#[derive(Args, Debug)]
pub struct CheckBaselinesArgs {
    /// Folder with CSV files of columns trace,capacity,policy,miss_ratio
    #[arg(value_name = "DIR")]
    pub baselines: PathBuf,
    /// Folder with the traces [default: $BUFPOOL_TRACES, else `traces` beside DIR]
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Print every row, not one line a policy
    #[arg(long)]
    pub rows: bool,
}

/// How close our miss ratio has to be to the recorded one.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Standard {
    /// Equal in all six digits, for algorithms that leave an implementation no choice.
    Exact,
    /// At most [`TOLERANCE`] above or below it, on nine rows of ten.
    Close,
    /// At most [`TOLERANCE`] above it, on nine rows of ten.
    NoWorse,
}

/// Absolute difference of miss ratios that implementations of one published algorithm may have.
const TOLERANCE: f64 = 0.005;

/// Half a unit of the last of six digits.
const LAST_DIGIT: f64 = 5e-7;

impl Standard {
    fn holds(self, ours: f64, theirs: f64) -> bool {
        let difference = ours - theirs;
        match self {
            // Recorded ratios are rounded to six digits; ours may lie exactly between two of them.
            Self::Exact => difference.abs() <= LAST_DIGIT * 1.001,
            Self::Close => difference.abs() <= TOLERANCE,
            Self::NoWorse => difference <= TOLERANCE,
        }
    }

    /// The verdict on `rows` rows, of which `within` meet the standard, and `explained` of the others meet it
    /// once our departures from the recording program are switched.
    fn verdict(self, rows: usize, within: usize, explained: usize) -> &'static str {
        let enough = match self {
            Self::Exact => within == rows,
            Self::Close | Self::NoWorse => 10 * within >= 9 * rows,
        };
        match enough {
            true => "ok",
            false if within + explained == rows => "explained",
            false => "differs",
        }
    }
}

/// What of ours the recorded ratios of one policy are compared with.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Counterpart {
    standard: Standard,
    ours: Policy,
    /// Our policy with those departures switched that make it differ from the recording program.
    switched: Option<Policy>,
}

/// The counterpart of the policy that baseline files call `name`, in upper or lower case; `None` for a policy
/// that does not exist here.
fn counterpart(name: &str) -> Option<Counterpart> {
    let (standard, ours, switched) = match name.to_ascii_uppercase().as_str() {
        "OPT" => (Standard::Exact, Policy::Opt, None),
        "LRU" => (Standard::Exact, Policy::OneLevel(PolicyKind::Lru), None),
        "FIFO" => (Standard::Exact, Policy::OneLevel(PolicyKind::Fifo), None),
        "CLOCK" => (Standard::Exact, Policy::OneLevel(PolicyKind::Clock), None),
        "MRU_OWN" => (Standard::Exact, Policy::OneLevel(PolicyKind::Mru), None),
        "LFU" => (Standard::Close, Policy::OneLevel(PolicyKind::Lfu), None),
        "2Q" => (Standard::Close, Policy::OneLevel(PolicyKind::TwoQueue), None),
        "ARC" => (Standard::Close, Policy::OneLevel(PolicyKind::Arc), None),
        "SIEVE" => (Standard::Close, Policy::OneLevel(PolicyKind::Sieve), None),
        "S3-FIFO" | "S3FIFO" => (Standard::Close, Policy::OneLevel(PolicyKind::S3Fifo), None),
        "W-TINYLFU" | "WTINYLFU" => (
            Standard::Close,
            Policy::OneLevel(PolicyKind::WTinyLfu),
            Some(Policy::Variant(Variant::WTinyLfuLibCacheSim)),
        ),
        "LIRS_AUTHOR" => (
            Standard::NoWorse,
            Policy::OneLevel(PolicyKind::Lirs),
            Some(Policy::Variant(Variant::LirsUnbounded)),
        ),
        "LIRS" => (Standard::Close, Policy::Variant(Variant::LirsLibCacheSim), None),
        _ => return None,
    };
    Some(Counterpart { standard, ours, switched })
}

/// A recorded row with our miss ratios at the same point.
struct Compared {
    row: Row,
    with: Counterpart,
    ours: f64,
    switched: Option<f64>,
}

impl Compared {
    fn difference(&self) -> f64 {
        self.ours - self.row.theirs
    }

    fn is_within(&self) -> bool {
        self.with.standard.holds(self.ours, self.row.theirs)
    }

    /// Whether it misses the standard, and meets it with departures switched.
    fn is_explained(&self) -> bool {
        let holds = |switched| self.with.standard.holds(switched, self.row.theirs);
        !self.is_within() && self.switched.is_some_and(holds)
    }

    /// The row compared with the switched policy instead of the default one, if there is a switched one.
    fn with_switched(&self) -> Option<Compared> {
        let with = Counterpart { ours: self.with.switched?, switched: None, ..self.with };
        Some(Compared { row: self.row.clone(), with, ours: self.switched?, switched: None })
    }
}

/// Compares our miss ratios with the recorded ones, and prints the table.
///
/// # Errors
///
/// If a file or trace cannot be read, if no row could be compared, or if a row of a policy whose standard is
/// exact differs.
pub fn run(args: &CheckBaselinesArgs, common: &Common) -> Result<()> {
    let rows = baselines::read_rows(&args.baselines)?;
    let (known, lacking): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| counterpart(&row.policy).is_some());
    let compared = compare(known, args, common)?;
    let table = if args.rows { every_row(&compared) } else { summary(&compared, &lacking) };
    table.print(common.format)?;
    note(format_args!("bufbench: rows compared: {}{}", compared.len(), skipped(&lacking)));
    if compared.is_empty() {
        bail!("no row was compared, expected one at least of a trace that is there and a policy known here");
    }
    let is_wrong = |one: &&Compared| one.with.standard == Standard::Exact && !one.is_within();
    let wrong = compared.iter().filter(is_wrong).count();
    if wrong > 0 {
        bail!("{wrong} rows of exact policies differ, expected none; --rows shows them");
    }
    Ok(())
}

/// How many rows were not compared, and the names of their policies; empty if all were compared.
fn skipped(lacking: &[Row]) -> String {
    let names: BTreeSet<&str> = lacking.iter().map(|row| row.policy.as_str()).collect();
    if names.is_empty() {
        return String::new();
    }
    let names = names.into_iter().collect::<Vec<_>>().join(" ");
    format!(", skipped: {} (no such policy here as {names})", lacking.len())
}

/// The folder with the traces, and its trace files by base name.
fn find_traces(args: &CheckBaselinesArgs) -> Result<(PathBuf, BTreeMap<String, PathBuf>)> {
    let beside = || args.baselines.canonicalize().ok().and_then(|dir| Some(dir.parent()?.join("traces")));
    let dir = args
        .traces
        .clone()
        .or_else(|| env::var_os("BUFPOOL_TRACES").map(PathBuf::from))
        .or_else(beside)
        .unwrap_or_else(|| PathBuf::from("traces"));
    let traces =
        baselines::traces_in(&dir).context("expected a folder with traces; name it with --traces")?;
    Ok((dir, traces))
}

/// Simulates each row, trace by trace; a row whose counterpart can be switched is simulated twice.
fn compare(rows: Vec<Row>, args: &CheckBaselinesArgs, common: &Common) -> Result<Vec<Compared>> {
    let (folder, traces) = find_traces(args)?;
    let mut by_trace: BTreeMap<String, Vec<Row>> = BTreeMap::new();
    let bar = progress::bar("comparing", rows.len() as u64, "rows");
    for row in rows {
        by_trace.entry(row.trace.clone()).or_default().push(row);
    }
    let mut compared = Vec::new();
    for (name, rows) in by_trace {
        let path = traces.get(&name).with_context(|| {
            format!("{}: expected a trace {name}, which rows of the baselines are of", folder.display())
        })?;
        let mut trace = Trace::open(path)?;
        name_blocks(&mut trace, &rows);
        let next_uses = NextUses::in_memory(&trace)?;
        let ratios = parallel::map(rows.len(), common.jobs(), |number| {
            let with = counterpart(&rows[number].policy).expect("only known policies are compared");
            let setup = Setup::frames(rows[number].frames);
            let ratio = |policy| -> Result<f64, SimError> {
                let outcome = simulate::simulate(&trace, policy, &setup, Some(&next_uses))?;
                Ok(outcome.total().misses() as f64 / trace.accesses() as f64)
            };
            let ours = ratio(with.ours).and_then(|ours| Ok((ours, with.switched.map(ratio).transpose()?)));
            bar.inc(1);
            ours.map(|ours| (with, ours))
        });
        for (row, ratios) in rows.into_iter().zip(ratios) {
            let (with, (ours, switched)) = ratios?;
            compared.push(Compared { row, with, ours, switched });
        }
    }
    bar.finish_and_clear();
    Ok(compared)
}

/// Renumbers blocks as the recording programs numbered them: for `pg_peers.csv`, which alone names a policy
/// `WTINYLFU`, each number of the trace plus one, else 1, 2, 3, ... in ascending order. Only W-TinyLFU, which
/// hashes block numbers, depends on them.
fn name_blocks(trace: &mut Trace, rows: &[Row]) {
    if rows.iter().any(|row| row.policy.eq_ignore_ascii_case("WTINYLFU")) {
        trace.rename_blocks(|block| block.wrapping_add(1));
        return;
    }
    let mut ascending = trace.blocks().to_vec();
    ascending.sort_unstable();
    trace.rename_blocks(|block| ascending.partition_point(|&other| other <= block) as u64);
}

fn every_row(compared: &[Compared]) -> Table {
    let columns = ["trace", "capacity", "policy", "theirs", "ours", "difference", "switched", "verdict"];
    let mut table = Table::new(&columns);
    for one in compared {
        let (within, explained) = (usize::from(one.is_within()), usize::from(one.is_explained()));
        table.push(vec![
            Cell::text(&one.row.trace),
            u64::from(one.row.frames).into(),
            Cell::text(&one.row.policy),
            Cell::Ratio(one.row.theirs),
            Cell::Ratio(one.ours),
            Cell::Ratio(one.difference()),
            one.switched.map_or(Cell::Empty, Cell::Ratio),
            one.with.standard.verdict(1, within, explained).into(),
        ]);
    }
    table
}

/// A line for each recorded policy and each of ours that it is compared with, then a line for each recorded
/// policy that does not exist here.
fn summary(compared: &[Compared], lacking: &[Row]) -> Table {
    let mut table = Table::new(&[
        "policy",
        "ours",
        "rows",
        "equal",
        "within",
        "explained",
        "mean_difference",
        "worst_difference",
        "worst_at",
        "verdict",
    ]);
    let switched: Vec<Compared> = compared.iter().filter_map(Compared::with_switched).collect();
    let mut lines: BTreeMap<(&str, &str), Vec<&Compared>> = BTreeMap::new();
    for one in compared.iter().chain(&switched) {
        lines.entry((&one.row.policy, one.with.ours.name())).or_default().push(one);
    }
    for ((policy, ours), all) in lines {
        table.push(summary_line(policy, ours, &all));
    }
    let mut skipped: BTreeMap<&str, u64> = BTreeMap::new();
    for row in lacking {
        *skipped.entry(&row.policy).or_default() += 1;
    }
    for (policy, rows) in skipped {
        let mut cells = vec![Cell::from(policy), Cell::Empty, rows.into()];
        cells.resize(9, Cell::Empty);
        cells.push("skipped".into());
        table.push(cells);
    }
    table
}

fn summary_line(policy: &str, ours: &str, all: &[&Compared]) -> Vec<Cell> {
    let worst = all.iter().max_by(|a, b| a.difference().abs().total_cmp(&b.difference().abs()));
    let worst = worst.expect("a policy has rows");
    let count = |is: fn(&Compared) -> bool| all.iter().filter(|one| is(one)).count();
    let equal = count(|one| Standard::Exact.holds(one.ours, one.row.theirs));
    let (within, explained) = (count(Compared::is_within), count(Compared::is_explained));
    vec![
        policy.into(),
        ours.into(),
        (all.len() as u64).into(),
        (equal as u64).into(),
        (within as u64).into(),
        (explained as u64).into(),
        Cell::Ratio(all.iter().map(|one| one.difference()).sum::<f64>() / all.len() as f64),
        Cell::Ratio(worst.difference()),
        Cell::text(format!("{}:{}", worst.row.trace, worst.row.frames)),
        worst.with.standard.verdict(all.len(), within, explained).into(),
    ]
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
        assert_eq!(Standard::Exact.verdict(10, 9, 0), "differs");
        assert_eq!(Standard::Close.verdict(10, 9, 0), "ok");
        assert_eq!(Standard::Close.verdict(10, 8, 1), "differs");
        assert_eq!(Standard::Close.verdict(10, 8, 2), "explained");
    }

    #[test]
    fn the_names_of_other_tools_are_known() {
        for name in ["LRU", "FIFO", "CLOCK", "OPT", "MRU_own"] {
            assert_eq!(counterpart(name).map(|with| with.standard), Some(Standard::Exact), "{name}");
        }
        assert_eq!(counterpart("S3FIFO"), counterpart("S3-FIFO"));
        for (name, as_written) in [("lru", "LRU"), ("w-tinylfu", "W-TinyLFU"), ("lirs_author", "LIRS_author")]
        {
            assert!(counterpart(name).is_some(), "{name}");
            assert_eq!(counterpart(name), counterpart(as_written));
        }
        for name in ["LeCaR", "Random", "DLIRS_ref"] {
            assert_eq!(counterpart(name), None, "{name}");
        }
    }
}
