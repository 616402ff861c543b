//! Half of the memory as a compressed tier, compared with all of it as frames.

use anyhow::Result;

use crate::measure::comparison::{Bar, Comparison};
use crate::rounds::alternate_often;
use crate::workload::{self, Database, Index, Measurement, Memory, PAGE_BYTES, RunOptions, Scheme, Table};

/// The size of table and index together, in multiples of the memory.
const TIMES_MEMORY: u64 = 3;
const READS_RATIO_MAX: f64 = 0.9;

/// Lookups of random keys: pages read in deterministic mode; pages read and time in a live pool.
///
/// # Errors
/// As the pool's; if an answer is wrong.
pub fn compressed(database: &Database, rounds: usize, seed: u64) -> Result<Vec<Comparison>> {
    let lookups = workload::find("lookup-uniform")?;
    lookups.build(database)?;
    let pages = database.table_pages(Table::Large) + database.index_pages(Index::LargeUnique1)?;
    let bytes = pages * PAGE_BYTES as u64 / TIMES_MEMORY;
    let auto = Scheme::find("auto")?;
    let run = |frames_bytes, compressed_bytes, deterministic| {
        let memory = Memory::Bytes(frames_bytes);
        let options = RunOptions { memory, compressed_bytes, deterministic, seed, ..RunOptions::default() };
        workload::run(lookups, auto, database, &options, None)
    };
    let pair = |deterministic| Ok((run(bytes / 2, bytes / 2, deterministic)?, run(bytes, 0, deterministic)?));
    // A live pool may pass a tier by while it seems slow, so the bar is on counts of deterministic mode.
    let counted = [pair(true)?];
    let rounds = alternate_often(rounds, "half of the memory compressed", || pair(false))?;
    let compare =
        |work, unit, rounds: &[(Measurement, Measurement)], of: fn(&Measurement) -> f64, bar| Comparison {
            work,
            unit,
            against: "all as frames".to_owned(),
            rounds: rounds.iter().map(|(ours, theirs)| (of(ours), of(theirs))).collect(),
            bar,
        };
    let reads = |of: &Measurement| of.reads as f64;
    Ok(vec![
        compare("half compressed: pages read", "pages", &counted, reads, Bar::AtMost(READS_RATIO_MAX)),
        compare("the same, live", "pages", &rounds, reads, Bar::None),
        compare("half compressed: lookups", "s", &rounds, |of| of.elapsed.as_secs_f64(), Bar::None),
    ])
}
