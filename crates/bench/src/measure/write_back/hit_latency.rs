//! How long each read hit takes while another thread makes pages dirty as fast as it can.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Result, ensure};
use bufpool::{Direct, File, FileOptions, Io, Pool, PoolOptions, Tenant};

use crate::machine::cpu_time::Displaced;
use crate::machine::data_file::PAGE_BYTES;
use crate::random::Random;
use crate::rounds::percentile_99_ns;

/// Pages that are read, all resident.
const HOT_PAGES: u64 = 2_048;
/// Pages that a writer makes dirty, over and over, all resident.
const WRITTEN_PAGES: u64 = 4_096;
/// Frames of the pool.
const FRAMES: u32 = 7_000;
/// Dirty limit in per cent of the frames: so low that the background writer is never idle, whichever pages
/// are made dirty.
const DIRTY_LIMIT_PERCENT: u8 = 5;

/// What the writer does while hits are timed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Writer {
    /// There is none.
    None,
    /// It changes other pages than those that are read.
    OfOtherPages,
    /// It changes the pages that are read.
    OfTheSamePages,
}

/// What was measured in one round.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct HitTimes {
    /// The 99th percentile of a hit's time, in nanoseconds.
    pub p99_ns: f64,
    /// Pages written to the file meanwhile.
    pub written: u64,
    /// How the reader was kept from running.
    pub displaced: Displaced,
}

/// A pool with all pages of the measurement resident.
pub struct HitLatency {
    pool: Pool,
    file: File,
    seed: u64,
}

impl HitLatency {
    /// A pool on the file that [`data_file::build`](crate::machine::data_file::build) made at `path`.
    ///
    /// # Errors
    /// As the pool's; if the file is too small.
    pub fn new(path: &Path, direct: Direct, io: Io, seed: u64) -> Result<Self> {
        let pool = PoolOptions::new()
            .frames(FRAMES)
            .page_bytes(PAGE_BYTES)
            .dirty_limit_percent(DIRTY_LIMIT_PERCENT)
            .io(io)
            .open()?;
        let file = pool.open_file(path, FileOptions::new().direct(direct))?;
        let needed = HOT_PAGES + WRITTEN_PAGES;
        ensure!(file.pages() >= needed, "{} pages: expected at least {needed}", file.pages());
        let tenant = pool.default_tenant();
        for number in 0..needed {
            tenant.read(file.page(number))?;
        }
        Ok(Self { pool, file, seed })
    }

    /// Times `hits` reads of 8 bytes each.
    ///
    /// # Errors
    /// As the pool's.
    pub fn measure(&self, hits: usize, writer: Writer) -> Result<HitTimes> {
        let before = self.pool.stats().writes;
        let done = AtomicBool::new(false);
        let times = std::thread::scope(|scope| {
            let first = match writer {
                Writer::None => None,
                Writer::OfOtherPages => Some(HOT_PAGES),
                Writer::OfTheSamePages => Some(0),
            };
            let done = &done;
            let writing = first.map(|first| scope.spawn(move || self.write_until(done, first)));
            let displaced = Displaced::now();
            let times = self.time(hits).map(|times| (times, Displaced::now().since(displaced)));
            done.store(true, Ordering::Relaxed);
            if let Some(writing) = writing {
                writing.join().expect("the writer does not panic")?;
            }
            times
        });
        let (times_ns, displaced) = times?;
        let written = self.pool.stats().writes - before;
        Ok(HitTimes { p99_ns: percentile_99_ns(times_ns), written, displaced })
    }

    fn time(&self, hits: usize) -> Result<Vec<u32>> {
        let tenant = self.pool.tenant("reader").open()?;
        let mut random = Random::new(self.seed);
        let mut times_ns = Vec::with_capacity(hits);
        for _ in 0..hits {
            let page = self.file.page(random.below(HOT_PAGES));
            let start = Instant::now();
            std::hint::black_box(tenant.read(page)?[..8].first());
            times_ns.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
        }
        tenant.close()?;
        Ok(times_ns)
    }

    fn write_until(&self, done: &AtomicBool, first: u64) -> Result<()> {
        let tenant: Tenant = self.pool.tenant("writer").open()?;
        let mut random = Random::new(self.seed + 1);
        let pages = if first == 0 { HOT_PAGES } else { WRITTEN_PAGES };
        while !done.load(Ordering::Relaxed) {
            let value = random.bits();
            let page = self.file.page(first + random.below(pages));
            tenant.write(page)?[..8].copy_from_slice(&value.to_le_bytes());
        }
        Ok(tenant.close()?)
    }
}
