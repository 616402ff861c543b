//! `bufbench io`: random reads through a pool, against a bare io_uring loop on the same file in the same
//! process.

use anyhow::{Result, ensure};
use bufpool::ManagerKind;
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common, whole};
use crate::machine::bare_loop::LoopTime;
use crate::machine::data_file;
use crate::measure::io::{Asking, RandomReads, pages_min};
use crate::output::{Cell, Table, note};
use crate::rounds::{Spread, alternate};

const COLUMNS: &[&str] = &["depth", "ours_iops", "raw_iops", "ratio", "ours_cpu_us", "raw_cpu_us"];

/// Arguments of `bufbench io`.
#[derive(Args, Clone, Debug)]
pub struct IoArgs {
    /// Operations in flight, separated by commas
    #[arg(
        long = "depth",
        value_name = "N",
        value_delimiter = ',',
        default_value = "1,8,32,128",
        value_parser = whole::<u32>(1..=1024)
    )]
    pub depths: Vec<u32>,
    /// Pages of 4 KiB in the file
    #[arg(long, default_value_t = 1 << 17, value_parser = whole::<u64>(1..=1 << 28))]
    pub pages: u64,
    /// Pages read in each round [default: 4,000 at depth 1, up to 32,000 at depth 8 and more]
    #[arg(long, value_parser = whole::<u64>(1..=1 << 28))]
    pub reads: Option<u64>,
    /// Pages handed to the pool in one call, of which the pool keeps `depth` in flight; at depth 1 pages are
    /// read one by one instead
    #[arg(long, value_name = "PAGES", default_value_t = 1 << 11, value_parser = whole::<u32>(1..=1 << 20))]
    pub list: u32,
    /// Read with `depth` futures instead of lists, so that the pool's I/O thread makes all reads
    #[arg(long, conflicts_with = "list")]
    pub futures: bool,
    /// Let the automatic manager choose victims; without this flag the tenant has no manager
    #[arg(long)]
    pub managed: bool,
    /// The pool's I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// Measures and prints the table.
///
/// # Errors
/// If the data file would be too small or cannot be made, the kernel makes no ring for the bare loop, or the
/// pool fails.
pub fn run(args: &IoArgs, common: &Common) -> Result<()> {
    ensure!(!args.depths.is_empty(), "--depth: expected at least one number");
    let asking = if args.futures { Asking::Futures } else { Asking::Lists(args.list) };
    for &depth in &args.depths {
        let (pages, least) = (args.pages, pages_min(asking, depth));
        let list = if args.futures { String::new() } else { format!(" with --list {}", args.list) };
        ensure!(
            pages >= least,
            "--pages {pages}: expected at least {least} at --depth {depth}{list}: four times the pool's frames"
        );
    }
    let folder = DataFolder::new(common)?;
    let path = folder.path().join("random-reads.pages");
    data_file::build(&path, args.pages, folder.direct())?;
    let mut table = Table::new(COLUMNS);
    for &depth in &args.depths {
        let count = args.reads.unwrap_or(4_000 * u64::from(depth.min(8)));
        let manager = args.managed.then_some(ManagerKind::Auto);
        let mut reads =
            RandomReads::new(&path, depth, folder.direct(), args.backend.io(), manager, asking, common.seed)?;
        let round = || Ok((reads.pool_misses(count)?, reads.bare(count)?));
        let (ours, bare): (Vec<_>, Vec<_>) = alternate(&format!("depth {depth}"), round)?.into_iter().unzip();
        note(format_args!("depth {depth}: backend {}, {}", reads.pool().io().backend, spread(&ours, &bare)));
        table.push(row(depth, &ours, &bare));
    }
    table.print(common.format)
}

fn row(depth: u32, ours: &[LoopTime], bare: &[LoopTime]) -> Vec<Cell> {
    let [ours_iops, raw_iops] = [ours, bare].map(|side| median(side, LoopTime::operations_per_s));
    vec![
        u64::from(depth).into(),
        Cell::real(ours_iops, 0),
        Cell::real(raw_iops, 0),
        Cell::Ratio(ours_iops / raw_iops),
        Cell::real(median(ours, LoopTime::cpu_us), 3),
        Cell::real(median(bare, LoopTime::cpu_us), 3),
    ]
}

fn median(side: &[LoopTime], measure: fn(&LoopTime) -> f64) -> f64 {
    Spread::of(side.iter().map(measure)).median
}

/// Least and greatest ratio of operations a second in one round.
fn spread(ours: &[LoopTime], bare: &[LoopTime]) -> String {
    let ratio = |(ours, bare): (&LoopTime, &LoopTime)| ours.operations_per_s() / bare.operations_per_s();
    let Spread { least, greatest, .. } = Spread::of(ours.iter().zip(bare).map(ratio));
    format!("ratio from {least:.3} to {greatest:.3} in {} rounds", ours.len())
}
