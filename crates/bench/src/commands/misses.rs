//! `bufbench misses`: what a miss costs one thread and several, on a source in memory.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cli::{Common, whole};
use crate::measure::misses::{Contender, Drawing, Network, TWO_POOLS, Turn, contenders, turn};
use crate::output::plot::{self, Curves, Series};
use crate::output::{Cell, Format, Table, WholeFile, unwritable};
use crate::rounds::{ROUNDS, Spread, alternate_often};
use crate::workload::Scheme;

const COLUMNS: &[&str] = &[
    "scheme",
    "threads",
    "hit_percent",
    "accesses",
    "misses_per_s",
    "ns_per_miss",
    "lock_ns_per_miss",
    "parks_per_miss",
    "least",
    "greatest",
    "to_one_thread",
    "to_two_threads",
    "to_two_pools",
    "cpu_ns_per_miss",
    "hit_ratio",
    "predicted",
    "error",
];

const PREDICTED_COLUMNS: &[&str] = &[
    "scheme",
    "hit_percent",
    "processors",
    "in_flight",
    "drives",
    "directories",
    "misses_per_s",
    "bound_per_s",
];
/// Reads a second and latency of one read of an NVMe drive, as in data sheets.
const DRIVE_READS_PER_S: f64 = 1.5e6;
const DRIVE_LATENCY_NS: f64 = 80_000.0;
/// Misses in flight for each processor where there are drives: enough to keep eight drives busy.
const IN_FLIGHT: u32 = 32;

/// Frames for each page that is visited again and again.
const HOT_SHARE: u32 = 8;

/// Arguments of `bufbench misses`.
#[derive(Args, Clone, Debug)]
pub struct MissesArgs {
    /// Threads, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2,4,8,16",
          value_parser = whole::<u32>(1..=64))]
    pub threads: Vec<u32>,
    /// Hits in per cent of all visits, separated by commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', default_value = "0,50,90",
          value_parser = whole::<u32>(0..=99))]
    pub hits: Vec<u32>,
    /// Schemes, separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "lru,lru-sp,auto", value_parser = scheme)]
    pub scheme: Vec<&'static Scheme>,
    /// Only contenders of these names, separated by commas; two pools under lru are named lru-two-pools
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Frames of 4 KiB
    #[arg(long, default_value_t = 1 << 14, value_parser = whole::<u32>(1 << 10..=1 << 19))]
    pub frames: u32,
    /// Misses of all threads together in a round
    #[arg(long, default_value_t = 1 << 17, value_parser = whole::<u64>(64..=1 << 30))]
    pub misses: u64,
    /// Rounds of each side; the middle one counts
    #[arg(long, default_value_t = ROUNDS as u64, value_parser = whole::<u64>(1..=1000))]
    pub rounds: u64,
    /// Processors for which to predict misses a second from the measured times of one thread, separated by
    /// commas: on a source in memory, and with 1 and 8 drives, each of 1.5 million reads a second and a
    /// latency of 80 us. With `--format csv` or `json` only the predictions are printed
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = whole::<u32>(1..=1024))]
    pub predict: Vec<u32>,
    /// Also draw misses a second over threads, as SVG
    #[arg(long, value_name = "OUT.svg")]
    pub plot: Option<PathBuf>,
}

fn scheme(name: &str) -> Result<&'static Scheme, String> {
    Scheme::find(name).map_err(|error| error.to_string())
}

/// The turns of one contender with one number of threads, in the order of the rounds.
struct Line {
    contender: usize,
    threads: u32,
    turns: Vec<Turn>,
}

/// Measures and prints the table.
///
/// # Errors
/// If a contender fails or reads something wrong, or the chart cannot be written.
pub fn run(args: &MissesArgs, common: &Common) -> Result<()> {
    let mut table = Table::new(COLUMNS);
    let mut predicted = Table::new(PREDICTED_COLUMNS);
    let mut charts = Vec::new();
    let plot = args.plot.as_deref().map(WholeFile::begin).transpose()?;
    for &hit_percent in &args.hits {
        let mut contenders = contenders(&args.scheme, args.frames)?;
        let names: Vec<String> = contenders.iter().map(|one| one.name()).collect();
        if let Some(unknown) = args.only.iter().find(|only| !names.contains(only)) {
            bail!("--only {unknown}: expected one of {}", names.join(" "));
        }
        contenders.retain(|one| args.only.is_empty() || args.only.contains(&one.name()));
        let lines = measure(args, common, &contenders, hit_percent)?;
        for line in &lines {
            table.push(row(line, &contenders, &lines, hit_percent));
        }
        for alone in lines.iter().filter(|line| line.threads == 1) {
            let name = contenders[alone.contender].name();
            for row in predictions(&name, hit_percent, alone, &args.predict) {
                predicted.push(row);
            }
        }
        charts.push(chart(&contenders, &lines, hit_percent));
    }
    // CSV and JSON output is one document.
    if args.predict.is_empty() || common.format == Format::Table {
        table.print(common.format)?;
    }
    if !args.predict.is_empty() {
        predicted.print(common.format)?;
    }
    if let Some((file, path)) = plot.zip(args.plot.as_ref()) {
        file.finish_with(&plot::stacked(&charts)).with_context(|| unwritable(path))?;
    }
    Ok(())
}

/// All contenders with all numbers of threads take turns.
fn measure(
    args: &MissesArgs,
    common: &Common,
    contenders: &[Box<dyn Contender>],
    hit_percent: u32,
) -> Result<Vec<Line>> {
    let mut drawing = Drawing::new(args.frames / HOT_SHARE, common.seed);
    let round = || {
        let mut turns = Vec::new();
        for &threads in &args.threads {
            let visits = drawing.draw(threads as usize, args.misses as usize, hit_percent);
            for contender in contenders {
                turns.push(turn(&**contender, &visits)?);
            }
        }
        Ok(turns)
    };
    let rounds = alternate_often(args.rounds as usize, &format!("hits {hit_percent} %"), round)?;
    let sides = args.threads.iter().flat_map(|threads| (0..contenders.len()).map(|one| (one, *threads)));
    let line = |(at, (contender, threads))| {
        let turns = rounds.iter().map(|turns: &Vec<Turn>| turns[at]).collect();
        Line { contender, threads, turns }
    };
    Ok(sides.enumerate().map(line).collect())
}

fn row(line: &Line, contenders: &[Box<dyn Contender>], lines: &[Line], hit_percent: u32) -> Vec<Cell> {
    let name = contenders[line.contender].name();
    let find = |of: &str, threads| {
        lines.iter().find(|other| other.threads == threads && contenders[other.contender].name() == of)
    };
    let ratio_to = |other: Option<&Line>| {
        let Some(other) = other else { return Cell::Empty };
        let ratios = line.turns.iter().zip(&other.turns);
        Cell::Ratio(Spread::of(ratios.map(|(own, of)| own.misses_per_s() / of.misses_per_s())).median)
    };
    let median = |measure: fn(&Turn) -> f64| Spread::of(line.turns.iter().map(measure));
    let Spread { least, median: middle, greatest } = median(Turn::misses_per_s);
    let held_ns: Option<Vec<f64>> = line.turns.iter().map(Turn::held_ns).collect();
    // The network has one lock; two pools have two, each with half of the threads.
    let predicted =
        find(&name, 1).filter(|_| !name.ends_with(TWO_POOLS)).and_then(|alone| predict(alone, line.threads));
    let has_lock = held_ns.is_some();
    vec![
        Cell::text(&name),
        u64::from(line.threads).into(),
        u64::from(hit_percent).into(),
        line.turns[0].visits.into(),
        Cell::real(middle, 0),
        // The time that a thread takes for a miss.
        Cell::real(1e9 * f64::from(line.threads) / middle, 0),
        held_ns.map_or(Cell::Empty, |ns| Cell::real(Spread::of(ns).median, 0)),
        if has_lock { Cell::real(median(Turn::parks).median, 4) } else { Cell::Empty },
        Cell::real(least, 0),
        Cell::real(greatest, 0),
        ratio_to(find(&name, 1)),
        ratio_to(find(&name, 2)),
        ratio_to(find(&format!("{name}{TWO_POOLS}"), 2)),
        Cell::real(median(Turn::cpu_ns).median, 0),
        Cell::Ratio(median(Turn::hit_ratio).median),
        predicted.map_or(Cell::Empty, |rate| Cell::real(rate, 0)),
        predicted.map_or(Cell::Empty, |rate| Cell::Ratio(rate / middle - 1.0)),
    ]
}

/// Misses a second of `threads` threads on this machine, predicted from the times of one thread `alone`;
/// `None` if its time under the policy lock is unknown. Threads beyond the processors add nothing.
fn predict(alone: &Line, threads: u32) -> Option<f64> {
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
    Some(network(alone)?.misses_per_s(threads.min(processors)))
}

/// The queueing network with the times of one thread, if its time under the policy lock is known.
fn network(alone: &Line) -> Option<Network> {
    let held_ns: Option<Vec<f64>> = alone.turns.iter().map(Turn::held_ns).collect();
    let per_s = Spread::of(alone.turns.iter().map(Turn::misses_per_s)).median;
    Some(Network::of_lock(1e9 / per_s, Spread::of(held_ns?).median))
}

/// Rows of misses a second predicted for machines with this many processors, with 0, 1 and 8 drives, and the
/// directory in 1, 2 and 4 parts; none for two pools.
fn predictions(name: &str, hit_percent: u32, alone: &Line, processors: &[u32]) -> Vec<Vec<Cell>> {
    let Some(network) = network(alone).filter(|_| !name.ends_with(TWO_POOLS)) else { return Vec::new() };
    let mut rows = Vec::new();
    for &processors in processors {
        for (drives, directories) in [0, 1, 8].into_iter().flat_map(|drives| [1, 2, 4].map(|of| (drives, of)))
        {
            let parts = network.clone().with_lock_in_parts(directories);
            let (network, in_flight) = match drives {
                0 => (parts, processors),
                _ => {
                    let on_processors = parts.on_processors(processors as usize);
                    let network = on_processors.with_drives(drives, DRIVE_READS_PER_S, DRIVE_LATENCY_NS);
                    (network, processors * IN_FLIGHT)
                }
            };
            rows.push(vec![
                Cell::text(name),
                u64::from(hit_percent).into(),
                u64::from(processors).into(),
                u64::from(in_flight).into(),
                (drives as u64).into(),
                (directories as u64).into(),
                Cell::real(network.misses_per_s(in_flight), 0),
                Cell::real(network.bound_per_s(in_flight), 0),
            ]);
        }
    }
    rows
}

fn chart(contenders: &[Box<dyn Contender>], lines: &[Line], hit_percent: u32) -> Curves {
    let series = contenders.iter().enumerate().map(|(number, contender)| {
        let own = lines.iter().filter(|line| line.contender == number);
        let median = |line: &Line| Spread::of(line.turns.iter().map(Turn::misses_per_s)).median;
        let points = own.map(|line| (f64::from(line.threads), median(line) / 1e6)).collect();
        Series { name: contender.name(), points, is_bound: false }
    });
    Curves {
        title: format!("Misses on a source in memory, {hit_percent} % hits"),
        x: "threads".into(),
        y: "million misses a second".into(),
        series: series.collect(),
    }
}
