//! `bufbench write-back`: how fast a pool writes its dirty pages, against a bare io_uring loop in the same
//! process, and how long read hits take meanwhile.

use std::path::Path;

use anyhow::{Result, bail};
use bufpool::{Direct, PoolOptions};
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common, whole};
use crate::machine::bare_loop::LoopTime;
use crate::machine::cpu_time::Displaced;
use crate::machine::data_file;
use crate::measure::write_back::{Bare, HitLatency, HitTimes, OneByteHooks, Order, PageWrites, Way, Writer};
use crate::output::{Cell, Table, note};
use crate::rounds::{Spread, alternate};

const COLUMNS: &[&str] = &["work", "unit", "ours", "against", "theirs", "ratio", "least", "greatest"];

/// Arguments of `bufbench write-back`.
#[derive(Args, Clone, Debug)]
pub struct WriteBackArgs {
    /// Pages of 4 KiB in the file; the pool has an eighth as many frames
    #[arg(long, default_value_t = 1 << 19, value_parser = whole::<u64>(1 << 13..=1 << 26))]
    pub pages: u64,
    /// Pages made dirty in each round
    #[arg(long, default_value_t = 1 << 16, value_parser = whole::<u64>(1 << 8..=1 << 26))]
    pub writes: u64,
    /// Hits timed in each round
    #[arg(long, default_value_t = 1_000_000, value_parser = whole::<u64>(100..=1 << 26))]
    pub hits: u64,
    /// Single pages that the bare loop keeps in flight where pages are written in random order
    #[arg(long, default_value_t = 32, value_parser = whole::<u32>(1..=1024))]
    pub depth: u32,
    /// Only rows whose name begins like this: random, sequential or p99
    #[arg(long, default_value = "")]
    pub only: String,
    /// Give the pool page hooks, as for checksums, so that each page is copied before it is written
    #[arg(long)]
    pub hooks: bool,
    /// The pool's I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// Measures and prints the table.
///
/// # Errors
/// If the data file cannot be made, the kernel makes no ring for the bare loop, or the pool fails.
pub fn run(args: &WriteBackArgs, common: &Common) -> Result<()> {
    let folder = DataFolder::new(common)?;
    let path = folder.path().join("page-writes.pages");
    let measured = Measured { args, path: &path, direct: folder.direct(), seed: common.seed };
    data_file::build(&path, args.pages, measured.direct)?;
    let mut table = Table::new(COLUMNS);
    measured.add_write_rates(&mut table)?;
    measured.add_hit_latencies(&mut table)?;
    if table.rows().is_empty() {
        bail!("--only {}: expected how a row's name begins, as random, sequential or p99", args.only);
    }
    table.print(common.format)
}

/// What is measured, and where.
struct Measured<'a> {
    args: &'a WriteBackArgs,
    path: &'a Path,
    direct: Direct,
    seed: u64,
}

impl Measured<'_> {
    /// Adds the rows of dirty pages written a second.
    fn add_write_rates(&self, table: &mut Table) -> Result<()> {
        let Self { args, path, direct, seed } = *self;
        let frames = (args.pages / 8) as u32;
        let bare = |depth, fills| Bare { depth, fills };
        for (work, what) in [
            ("random 4 KiB, cleaned", (Order::Random, Way::Cleaned, bare(args.depth, false))),
            ("random 4 KiB, evicted", (Order::Random, Way::Evicted, bare(args.depth, false))),
            ("sequential 256 KiB, cleaned, depth 1", (Order::Sequential, Way::Cleaned, bare(1, false))),
            ("sequential 256 KiB, cleaned, depth 8", (Order::Sequential, Way::Cleaned, bare(8, false))),
            ("sequential 256 KiB, evicted, depth 8", (Order::Sequential, Way::Evicted, bare(8, false))),
            (
                "sequential 256 KiB, evicted, depth 8, filled",
                (Order::Sequential, Way::Evicted, bare(8, true)),
            ),
            ("sequential 256 KiB, checkpoint, depth 8", (Order::Sequential, Way::Checkpoint, bare(8, false))),
        ]
        .into_iter()
        .filter(|(work, ..)| work.starts_with(&args.only))
        {
            let mut options = PoolOptions::new().io(args.backend.io());
            if args.hooks {
                options = options.hooks(Box::new(OneByteHooks));
            }
            let mut writes = PageWrites::new(path, what, frames, options, direct, seed)?;
            let mut cpu_us = (Vec::new(), Vec::new());
            let rounds = alternate(work, || {
                let pair = (writes.pool_writes(args.writes)?, writes.bare(args.writes)?);
                cpu_us.0.push(pair.0.cpu_us());
                cpu_us.1.push(pair.1.cpu_us());
                Ok((LoopTime::operations_per_s(&pair.0), LoopTime::operations_per_s(&pair.1)))
            })?;
            let stats = writes.pool().stats();
            let by_misses = stats.miss_writes as f64 / stats.writes as f64;
            note(format_args!(
                "{work}: backend {}, {by_misses:.3} of the writes by misses, {} frames borrowed; processor time of a page {:.2} us, bare loop {:.2} us",
                writes.pool().io().backend,
                stats.borrowed_frames,
                Spread::of(cpu_us.0).median,
                Spread::of(cpu_us.1).median
            ));
            table.push(row(work, "pages/s", "bare loop", &rounds));
        }
        Ok(())
    }

    /// Adds the rows of the 99th percentile of a read hit while pages are written.
    fn add_hit_latencies(&self, table: &mut Table) -> Result<()> {
        let Self { args, path, direct, seed } = *self;
        let latency = HitLatency::new(path, direct, args.backend.io(), seed)?;
        for (work, writer) in [
            ("p99 of a hit, others are written", Writer::OfOtherPages),
            ("p99 of a hit, the same are written", Writer::OfTheSamePages),
        ]
        .into_iter()
        .filter(|(work, _)| work.starts_with(&args.only))
        {
            let mut beside = Vec::new();
            let rounds = alternate(work, || {
                beside.push(latency.measure(args.hits as usize, writer)?);
                let alone = latency.measure(args.hits as usize, Writer::None)?;
                Ok((beside[beside.len() - 1].p99_ns, alone.p99_ns))
            })?;
            let written: u64 = beside.iter().map(|times| times.written).sum();
            note(format_args!(
                "{work}: {written} pages written meanwhile; in ns, and how often the reader had to give way:"
            ));
            beside.remove(0);
            beside.sort_by(|a, b| a.p99_ns.total_cmp(&b.p99_ns));
            let shown = |times: &HitTimes| {
                let Displaced { times: gave_way, waited, .. } = times.displaced;
                format!("{:.0} ({gave_way} times, {:.1} ms)", times.p99_ns, waited.as_secs_f64() * 1e3)
            };
            note(format_args!("  {}", beside.iter().map(shown).collect::<Vec<_>>().join(", ")));
            table.push(row(work, "ns", "no writer", &rounds));
        }
        Ok(())
    }
}

fn row(work: &'static str, unit: &'static str, against: &'static str, rounds: &[(f64, f64)]) -> Vec<Cell> {
    let ratios = Spread::of(rounds.iter().map(|(ours, theirs)| ours / theirs));
    let ours = Spread::of(rounds.iter().map(|(ours, _)| *ours)).median;
    let theirs = Spread::of(rounds.iter().map(|(_, theirs)| *theirs)).median;
    vec![
        work.into(),
        unit.into(),
        Cell::real(ours, 0),
        against.into(),
        Cell::real(theirs, 0),
        Cell::Ratio(ours / theirs),
        Cell::Ratio(ratios.least),
        Cell::Ratio(ratios.greatest),
    ]
}
