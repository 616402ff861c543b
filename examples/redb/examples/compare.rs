//! redb over the pool, held against redb with a cache of its own over its own backend, at equal memory:
//! `cargo run --release -p bufpool-redb --example compare [ROWS]`. Prints the reads that reach the file, and seconds.
//!
//! The own backend reads through the operating system's page cache, which is memory that is not counted; its reads
//! are those that its own cache has missed.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use anyhow::Result;
use bufpool::PoolOptions;
use bufpool_redb::PoolBackend;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("rows");
const VALUE_BYTES: usize = 150;
/// A third of the file, roughly.
const MEMORY_BYTES_A_ROW: u64 = 80;
const MEMORY_BYTES_MIN: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4096;
const ROWS_A_COMMIT: u64 = 1_000;
const LOOKUPS: u64 = 40_000;

/// Counts the pages that are read from another backend.
#[derive(Debug)]
struct Counted<B> {
    backend: B,
    pages: Arc<AtomicU64>,
}

impl<B: StorageBackend> StorageBackend for Counted<B> {
    fn len(&self) -> io::Result<u64> {
        self.backend.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let pages = (offset + out.len() as u64).div_ceil(PAGE_BYTES) - offset / PAGE_BYTES;
        self.pages.fetch_add(pages, Ordering::Relaxed);
        self.backend.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.backend.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.backend.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.backend.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.backend.close()
    }
}

/// The steps of a run: seconds, and pages read from the file.
type Steps = Vec<(&'static str, f64, u64)>;

fn run(database: &Database, rows: u64, pages: impl Fn() -> u64) -> Result<Steps> {
    let mut steps = Steps::new();
    let mut step = |name, work: &mut dyn FnMut() -> Result<()>| -> Result<()> {
        let (begun, before) = (Instant::now(), pages());
        work()?;
        steps.push((name, begun.elapsed().as_secs_f64(), pages() - before));
        Ok(())
    };
    step("insert in random order", &mut || {
        for first in (0..rows).step_by(ROWS_A_COMMIT as usize) {
            let writing = database.begin_write()?;
            {
                let mut table = writing.open_table(TABLE)?;
                for at in first..rows.min(first + ROWS_A_COMMIT) {
                    table.insert(scattered(at, rows), &[at as u8; VALUE_BYTES][..])?;
                }
            }
            writing.commit()?;
        }
        Ok(())
    })?;
    for (name, skew) in [("uniform lookups", 1), ("skewed lookups", 4)] {
        step(name, &mut || {
            let table = database.begin_read()?.open_table(TABLE)?;
            for at in 0..LOOKUPS {
                let mut key = rows - 1;
                // The least of some keys is a small one.
                (0..skew).for_each(|draw| key = key.min(scattered(at * skew + draw, rows)));
                anyhow::ensure!(table.get(key)?.is_some(), "row {key} is not there");
            }
            Ok(())
        })?;
    }
    step("scan", &mut || {
        let table = database.begin_read()?.open_table(TABLE)?;
        anyhow::ensure!(table.iter()?.count() as u64 == rows, "rows are missing");
        Ok(())
    })?;
    Ok(steps)
}

/// A permutation of `0..rows`: the first of a number's images under one of a larger power of two that is below.
fn scattered(at: u64, rows: u64) -> u64 {
    let mask = rows.next_power_of_two() - 1;
    let mut key = at % rows;
    loop {
        key = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(0x5851_f42d)) & mask;
        key ^= key >> (mask.count_ones() / 2);
        if key < rows {
            return key;
        }
    }
}

fn over_pool(path: &Path, rows: u64, memory_bytes: u64) -> Result<Steps> {
    let pool = PoolOptions::new().memory_bytes(memory_bytes).page_bytes(PAGE_BYTES as usize).open()?;
    let backend = PoolBackend::open(&pool, "rows", path)?;
    let database = Database::builder().set_cache_size(0).create_with_backend(backend)?;
    let steps = run(&database, rows, || pool.stats().reads)?;
    drop(database);
    pool.close()?;
    Ok(steps)
}

fn by_itself(path: &Path, rows: u64, memory_bytes: u64) -> Result<Steps> {
    let file = std::fs::File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let pages = Arc::new(AtomicU64::new(0));
    let backend = Counted { backend: redb::backends::FileBackend::new(file)?, pages: Arc::clone(&pages) };
    let database = Database::builder().set_cache_size(memory_bytes as usize).create_with_backend(backend)?;
    run(&database, rows, || pages.load(Ordering::Relaxed))
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).map_or(Ok(40_000), |rows| rows.parse())?;
    let memory_bytes = (rows * MEMORY_BYTES_A_ROW).max(MEMORY_BYTES_MIN);
    let folder = tempfile::tempdir_in(".")?;
    let own = by_itself(&folder.path().join("own"), rows, memory_bytes)?;
    let pool = over_pool(&folder.path().join("pool"), rows, memory_bytes)?;
    println!("{rows} rows, {} KiB of memory each", memory_bytes >> 10);
    println!(
        "{:24} {:>10} {:>10} {:>6} {:>12} {:>12} {:>6}",
        "", "pool s", "own s", "ratio", "pool pages", "own pages", "ratio"
    );
    for ((name, seconds, pages), (_, own_seconds, own_pages)) in pool.into_iter().zip(own) {
        let (time, reads) = (seconds / own_seconds, pages as f64 / own_pages as f64);
        println!(
            "{name:24} {seconds:>10.3} {own_seconds:>10.3} {time:>6.2} {pages:>12} {own_pages:>12} {reads:>6.2}"
        );
    }
    Ok(())
}
