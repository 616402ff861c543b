//! redb over the pool, compared with redb with its own cache, at equal memory, both with direct I/O:
//! `cargo run --release -p bufpool-redb --example compare_redb -- [ROWS]`, by default 40,000 rows. Prints
//! seconds and the pages that are read from the file, and beside them the seconds of redb's own backend, with
//! all of the system's page cache.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
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
/// About a third of the file.
const MEMORY_BYTES_A_ROW: u64 = 80;
const MEMORY_BYTES_MIN: u64 = 2 << 20;
const PAGE_BYTES: u64 = 4096;
const ROWS_A_COMMIT: u64 = 1_000;
/// Commits without changes after the inserts. A commit of changes leaves pages in redb's write buffer. While
/// there are any, each read that misses redb's cache tries the locks of all 131 parts of that buffer, and the
/// lookups would measure these locks rather than the caches.
const SETTLING_COMMITS: u32 = 3;
/// redb's own cache in front of the pool, part of the same memory; see the documentation of the crate.
const CACHE_BYTES_OVER_POOL: u64 = 64 << 10;
/// Frames of the clean reserve. redb syncs at each commit, so few dirty victims need a frame of the reserve
/// at a time, and the other frames are for reading.
const RESERVE_FRAMES: u32 = 8;
const LOOKUPS: u64 = 40_000;

/// A backend with direct I/O and without a cache. Each call has an aligned buffer of its own.
#[derive(Debug)]
struct DirectBackend {
    file: File,
    bytes: AtomicU64,
    /// Pages read.
    pages: Arc<AtomicU64>,
}

impl DirectBackend {
    fn new(path: &Path, pages: Arc<AtomicU64>) -> io::Result<Self> {
        let mut how = File::options();
        how.read(true).write(true).create(true).truncate(true).custom_flags(libc::O_DIRECT);
        Ok(Self { file: how.open(path)?, bytes: AtomicU64::new(0), pages })
    }

    /// Calls `work` with a buffer for the whole pages around a range, the offset of the first of these pages
    /// in the file, and the place of the range in the buffer.
    fn with_pages<R>(
        offset: u64,
        len: usize,
        work: impl FnOnce(&mut [u8], u64, Range<usize>) -> io::Result<R>,
    ) -> io::Result<R> {
        let first = offset / PAGE_BYTES * PAGE_BYTES;
        let bytes = ((offset + len as u64).next_multiple_of(PAGE_BYTES) - first) as usize;
        let mut memory = vec![0; bytes + PAGE_BYTES as usize];
        let start = memory.as_ptr().align_offset(PAGE_BYTES as usize);
        let within = (offset - first) as usize;
        work(&mut memory[start..start + bytes], first, within..within + len)
    }

    fn read_pages(&self, into: &mut [u8], first: u64) -> io::Result<()> {
        self.pages.fetch_add(into.len() as u64 / PAGE_BYTES, Ordering::Relaxed);
        self.file.read_exact_at(into, first)
    }
}

impl StorageBackend for DirectBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.bytes.load(Ordering::Relaxed))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Self::with_pages(offset, out.len(), |pages, first, range| {
            self.read_pages(pages, first)?;
            out.copy_from_slice(&pages[range]);
            Ok(())
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.store(len, Ordering::Relaxed);
        self.file.set_len(len.next_multiple_of(PAGE_BYTES))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Self::with_pages(offset, data.len(), |pages, first, range| {
            if range.len() < pages.len() {
                self.read_pages(pages, first)?;
            }
            pages[range].copy_from_slice(data);
            self.file.write_all_at(pages, first)
        })
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
    for _ in 0..SETTLING_COMMITS {
        database.begin_write()?.commit()?;
    }
    for (name, skew) in [("uniform lookups", 1), ("skewed lookups", 4)] {
        step(name, &mut || {
            let table = database.begin_read()?.open_table(TABLE)?;
            for at in 0..LOOKUPS {
                let mut key = rows - 1;
                // The least of several random keys: small keys are looked up more often.
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

/// A permutation of `0..rows`: applies a permutation of the numbers below the next power of two until the
/// result is below `rows`.
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
    let options = PoolOptions::new().memory_bytes(memory_bytes - CACHE_BYTES_OVER_POOL);
    let options = options.page_bytes(PAGE_BYTES as usize).reserve_high_frames(RESERVE_FRAMES);
    let pool = options.open()?;
    let backend = PoolBackend::open(&pool, "rows", path)?;
    let database =
        Database::builder().set_cache_size(CACHE_BYTES_OVER_POOL as usize).create_with_backend(backend)?;
    let steps = run(&database, rows, || pool.stats().reads)?;
    drop(database);
    pool.close()?;
    Ok(steps)
}

fn by_itself(path: &Path, rows: u64, memory_bytes: u64) -> Result<Steps> {
    let pages = Arc::new(AtomicU64::new(0));
    let backend = DirectBackend::new(path, Arc::clone(&pages))?;
    let database = Database::builder().set_cache_size(memory_bytes as usize).create_with_backend(backend)?;
    run(&database, rows, || pages.load(Ordering::Relaxed))
}

fn as_it_is(path: &Path, rows: u64, memory_bytes: u64) -> Result<Steps> {
    run(&Database::builder().set_cache_size(memory_bytes as usize).create(path)?, rows, || 0)
}

fn main() -> Result<()> {
    let rows = std::env::args().nth(1).map_or(Ok(40_000), |rows| rows.parse())?;
    let memory_bytes = (rows * MEMORY_BYTES_A_ROW).max(MEMORY_BYTES_MIN);
    let folder = tempfile::tempdir_in(".")?;
    let own = by_itself(&folder.path().join("own"), rows, memory_bytes)?;
    let pool = over_pool(&folder.path().join("pool"), rows, memory_bytes)?;
    let cached = as_it_is(&folder.path().join("cached"), rows, memory_bytes)?;
    println!("{rows} rows, {} KiB of memory each", memory_bytes >> 10);
    let names = ["pool s", "own s", "ratio", "pool pages", "own pages", "ratio", "as it is s"];
    println!("{:24}{}", "", names.map(|name| format!("{name:>12}")).concat());
    for ((pool, own), cached) in pool.into_iter().zip(own).zip(cached) {
        let (name, seconds, pages) = pool;
        let (time, reads) = (seconds / own.1, pages as f64 / own.2 as f64);
        println!(
            "{name:24}{seconds:>12.3}{:>12.3}{time:>12.2}{pages:>12}{:>12}{reads:>12.2}{:>12.3}",
            own.1, own.2, cached.1
        );
    }
    Ok(())
}
