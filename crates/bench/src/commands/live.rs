//! `bufbench live`: workloads on a live pool, one row for each workload and scheme.

use anyhow::{Result, ensure};
use bufpool::engine::Recorder;
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common, Hints, whole};
use crate::output::{Cell, Table, note};
use crate::workload::{self, Database, Measurement, Memory, RunOptions, Scheme, Sizes, Workload};

const COLUMNS: &[&str] = &[
    "workload",
    "scheme",
    "backend",
    "threads",
    "frames",
    "accesses",
    "hits",
    "misses",
    "reads",
    "writes",
    "elapsed_s",
    "cpu_s",
    "lookups_per_s",
];

/// Arguments of `bufbench live`.
#[derive(Args, Clone, Debug)]
pub struct LiveArgs {
    /// Workloads, separated by commas; each runs in a pool of its own that holds no page at first, except
    /// btree, whose pool has just written the tree
    #[arg(long = "workload", value_name = "NAME", value_delimiter = ',', required = true)]
    pub workloads: Vec<String>,
    /// Schemes, separated by commas
    #[arg(long = "scheme", value_name = "NAME", value_delimiter = ',', default_value = "lru-sp")]
    pub schemes: Vec<String>,
    /// Flags about the pool
    #[command(flatten)]
    pub pool: PoolArgs,
    /// Tuples of the large relation, or of the tree
    #[arg(long, value_parser = whole::<u64>(100..=1 << 29))]
    pub tuples: Option<u64>,
    /// Threads that share the work
    #[arg(long, default_value_t = 1, value_parser = whole::<u32>(1..=1024))]
    pub threads: u32,
    /// Lookups or reads made together; for the workloads btree, index-scan and bitmap-scan
    #[arg(long, default_value_t = 1, value_parser = whole::<u32>(1..=1024))]
    pub batch: u32,
    /// What the pool does with reads that the workload discloses; for workloads that can disclose them
    #[arg(long, value_enum, default_value_t = Hints::Off)]
    pub hints: Hints,
    /// Print what the pool says about tenants and call sites, on standard error
    #[arg(long)]
    pub report: bool,
}

/// Flags about the pool that a workload runs in.
#[derive(Args, Clone, Debug)]
pub struct PoolArgs {
    /// Frames of the pool [default: what the workload asks for]
    #[arg(long, conflicts_with = "memory", value_parser = whole::<u32>(0..=u32::MAX.into()))]
    pub frames: Option<u32>,
    /// Memory of the pool in bytes, instead of its frames
    #[arg(long, value_name = "BYTES", value_parser = whole::<u64>(0..=u64::MAX))]
    pub memory: Option<u64>,
    /// Reads in flight from which on tenants take turns [default: the pool's]
    #[arg(long, value_parser = whole::<u32>(1..=4096))]
    pub saturation_depth: Option<u32>,
    /// Let the pool read ahead by itself; without it, misses depend on the policy alone
    #[arg(long, conflicts_with = "deterministic")]
    pub read_ahead: bool,
    /// I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
    /// Apply every access to the policy at once, with nothing in the background
    #[arg(long)]
    pub deterministic: bool,
}

impl PoolArgs {
    fn memory(&self) -> Memory {
        match (self.frames, self.memory) {
            (Some(frames), _) => Memory::Frames(frames),
            (None, Some(bytes)) => Memory::Bytes(bytes),
            (None, None) => Memory::Default,
        }
    }
}

/// Runs the workloads and prints the table.
///
/// # Errors
/// If a name is unknown, the data files cannot be made, the pool fails, or an answer is wrong.
pub fn run(args: &LiveArgs, common: &Common) -> Result<()> {
    run_recorded(args, common, None)
}

/// As [`run`], reporting what happens to `recorder`.
///
/// # Errors
/// As [`run`]; if there is a recorder and more than one workload or scheme.
pub(super) fn run_recorded(
    args: &LiveArgs,
    common: &Common,
    mut recorder: Option<Box<dyn Recorder>>,
) -> Result<()> {
    let workloads: Vec<&dyn Workload> =
        args.workloads.iter().map(|name| workload::find(name)).collect::<Result<_>>()?;
    for (at, name) in args.workloads.iter().enumerate() {
        ensure!(!args.workloads[..at].contains(name), "--workload {name}: expected each workload once");
    }
    let schemes: Vec<&Scheme> = args.schemes.iter().map(|name| Scheme::find(name)).collect::<Result<_>>()?;
    ensure!(
        recorder.is_none() || workloads.len() * schemes.len() == 1,
        "a trace is of one run: expected one workload and one scheme"
    );
    let takes_batches = |workload: &&dyn Workload| workload.takes_batches();
    ensure!(
        args.batch == 1 || workloads.iter().all(takes_batches),
        "--batch {}: expected one of the workloads {} alone, whose reads do not depend on one another",
        args.batch,
        workload::names_of(|workload| workload.takes_batches())
    );
    ensure!(
        args.hints == Hints::Off || workloads.iter().all(|workload| workload.takes_hints()),
        "--hints: expected one of the workloads {}, which know what they will read",
        workload::names_of(|workload| workload.takes_hints())
    );
    let options = RunOptions {
        memory: args.pool.memory(),
        threads: args.threads,
        deterministic: args.pool.deterministic,
        seed: common.seed,
        batch: args.batch,
        hints: args.hints.policy(),
        saturation_depth: args.pool.saturation_depth,
        read_ahead: args.pool.read_ahead,
        ..RunOptions::default()
    };
    let recording = recorder.is_some();
    let folder = DataFolder::new(common)?;
    let mut table = Table::new(COLUMNS);
    for workload in workloads {
        let sizes = Sizes { tuples: args.tuples.unwrap_or(workload.tuples()) };
        let database = folder.database(workload.name(), sizes, args.pool.backend.io())?;
        for scheme in &schemes {
            let measured = workload::run(workload, scheme, &database, &options, recorder.take())?;
            if args.report {
                note(format_args!("{} under {}:", workload.name(), options.name_of(scheme)));
                note(format_args!("{}", measured.report));
            }
            if args.batch > 1 {
                match against_device(&measured, &database, args.batch, common.seed) {
                    Ok(text) => text.iter().for_each(|text| note(format_args!("{text}"))),
                    // Where io_uring is refused there is no bare loop; the pool has run all the same.
                    Err(error) => {
                        note(format_args!("lookups that the device would allow are not known: {error:#}"));
                    }
                }
            }
            table.push(row(workload, &options.name_of(scheme), args.threads, &measured));
        }
        if !recording && let Some(findings) = workload.findings(&database, &options)? {
            note(format_args!("{findings}"));
        }
    }
    table.print(common.format)
}

/// How many lookups a second the device would allow: the reads of a page a second of a bare loop with `depth`
/// of them in flight, divided by the misses of a lookup. None for a workload without lookups.
fn against_device(
    measured: &Measurement,
    database: &Database,
    depth: u32,
    seed: u64,
) -> Result<Option<String>> {
    let Some((rate, lookups)) = measured.lookups_per_s().zip(measured.lookups) else { return Ok(None) };
    if measured.misses == 0 {
        return Ok(Some(format!("{rate:.0} lookups/s without a miss, so the device sets no bound")));
    }
    let misses_per_lookup = measured.misses as f64 / lookups as f64;
    let reads_per_s = database.raw_reads_per_s(depth, seed)?;
    let possible = reads_per_s / misses_per_lookup;
    Ok(Some(format!(
        "{rate:.0} lookups/s with {misses_per_lookup:.4} misses each; a bare loop makes {reads_per_s:.0} reads/s of a page \
         at depth {depth}, which would be {possible:.0} lookups/s: ratio {:.3}",
        rate / possible
    )))
}

fn row(workload: &dyn Workload, scheme: &str, threads: u32, measured: &Measurement) -> Vec<Cell> {
    vec![
        workload.name().into(),
        scheme.into(),
        Cell::text(&measured.backend),
        u64::from(threads).into(),
        u64::from(measured.frames).into(),
        measured.accesses.into(),
        measured.hits.into(),
        measured.misses.into(),
        measured.reads.into(),
        measured.writes.into(),
        Cell::real(measured.elapsed.as_secs_f64(), 6),
        Cell::real(measured.cpu.as_secs_f64(), 6),
        measured.lookups_per_s().map_or(Cell::Empty, |rate| Cell::real(rate, 0)),
    ]
}
