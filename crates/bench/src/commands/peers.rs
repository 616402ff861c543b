//! `bufbench peers`: what a hit and a miss cost in a pool, in other caches and in a database.

use anyhow::Result;
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Common, whole};
use crate::measure::hits::{
    Array, Cached, Contender, Foyer, Latched, Moka, MutexLru, OpenPool, Optimistic, PAGE_BYTES, PageDb,
    PoolKind, PoolPages, QuickCache, take_turns, zipf_visits,
};
use crate::output::{Cell, Table};
use crate::rounds::ROUNDS;

const COLUMNS: &[&str] = &["name", "work", "threads", "ns_per_op"];
/// Pages visited where hits are measured, all of them in memory, and where misses are measured, of which one
/// in [`MISS_SHARE`] fits in memory.
const HIT_PAGES: u32 = 1 << 16;
const MISS_PAGES: u32 = 1 << 14;
const MISS_SHARE: u32 = 8;
const HIT_VISITS: usize = 1 << 19;
const MISS_VISITS: usize = 1 << 13;

/// Arguments of `bufbench peers`.
#[derive(Args, Clone, Debug)]
pub struct PeersArgs {
    /// Threads, separated by commas; each visits all pages
    #[arg(long, value_name = "N", value_delimiter = ',', default_value = "1,2",
          value_parser = whole::<u32>(1..=64))]
    pub threads: Vec<u32>,
}

/// Measures and prints the table: medians of 7 alternating rounds.
///
/// # Errors
/// If a data file cannot be made, or a contender fails or reads something wrong.
pub fn run(args: &PeersArgs, common: &Common) -> Result<()> {
    let folder = DataFolder::new(common)?;
    let mut table = Table::new(COLUMNS);
    let hits = zipf_visits(HIT_PAGES, HIT_VISITS, common.seed);
    measure(&mut table, "hits", &folder, HIT_PAGES, HIT_PAGES + 64, &hits, &args.threads)?;
    let misses = zipf_visits(MISS_PAGES, MISS_VISITS, common.seed);
    measure(&mut table, "misses", &folder, MISS_PAGES, MISS_PAGES / MISS_SHARE, &misses, &args.threads)?;
    table.print(common.format)
}

fn measure(
    table: &mut Table,
    work: &str,
    folder: &DataFolder,
    page_count: u32,
    capacity: u32,
    visits: &[u32],
    threads: &[u32],
) -> Result<()> {
    let pages = PoolPages::new(folder.path(), page_count, PAGE_BYTES)?;
    let array = Array::<PAGE_BYTES>::new(page_count, false);
    let pool = |kind| OpenPool::new(kind, &pages, capacity);
    let (default, untagged, log_off) =
        (pool(PoolKind::Default)?, pool(PoolKind::Untagged)?, pool(PoolKind::LogOff)?);
    let (latched, optimistic) = (Latched(&default), Optimistic(&default));
    let (latched_untagged, latched_log_off) = (Latched(&untagged), Latched(&log_off));
    // The database's cache also holds the inner nodes of its tree.
    let page_db = PageDb::new(folder.path(), page_count, capacity as usize * (PAGE_BYTES + PAGE_BYTES / 4))?;
    let quick_cache = Cached::<QuickCache>::new(&pages, capacity)?;
    let moka = Cached::<Moka>::new(&pages, capacity)?;
    let foyer = Cached::<Foyer>::new(&pages, capacity)?;
    let mutex_lru = Cached::<MutexLru>::new(&pages, capacity)?;
    let contenders: [&dyn Contender; 10] = [
        &array,
        &latched,
        &optimistic,
        &latched_log_off,
        &latched_untagged,
        &quick_cache,
        &moka,
        &foyer,
        &mutex_lru,
        &page_db,
    ];
    for &count in threads {
        for times in take_turns(&contenders, visits, count as usize, ROUNDS)? {
            let ns = Cell::real(times.median_ns(), 1);
            table.push(vec![Cell::text(times.name), work.into(), u64::from(count).into(), ns]);
        }
    }
    Ok(())
}
