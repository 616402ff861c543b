//! A pool over a source of numbered pages, and reads through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bufpool::stats::Stats;
use bufpool::tier::{Tier, TierAdmit, TierPolicy};
use bufpool::{File, FileOptions, Pool, PoolOptions, Tenant};

use super::source::{Numbered, PAGE_BYTES};
use crate::measure::io::futures;

/// A pool, its source and a tenant that reads.
pub struct Side {
    pool: Pool,
    file: File,
    tenant: Tenant,
}

/// How a pool and its source are made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Frames of the pool.
    pub frames: u32,
    /// Pages of the source.
    pub pages: u64,
    /// The least time of a read of the source.
    pub source_latency: Duration,
    /// Whether the pool is in deterministic mode, in which no tier is passed by.
    pub is_deterministic: bool,
}

/// What reads took.
pub struct Took {
    /// Time of all reads.
    pub elapsed: Duration,
    /// The times of the long reads, in nanoseconds, in ascending order.
    pub long_ns: Vec<u64>,
}

impl Side {
    /// A pool of this shape, with a tier or without one.
    ///
    /// # Errors
    /// As the pool's.
    pub fn new(shape: Shape, tier: Option<Arc<dyn Tier>>) -> Result<Self> {
        Self::with_options(shape, |options| match tier {
            Some(tier) => options.tier(tier, TierPolicy::Demote, TierAdmit::All),
            None => options,
        })
    }

    /// As [`new`](Self::new), with other options of the pool.
    ///
    /// # Errors
    /// As the pool's.
    pub fn with_options(shape: Shape, set: impl FnOnce(PoolOptions) -> PoolOptions) -> Result<Self> {
        let options = PoolOptions::new().frames(shape.frames).page_bytes(PAGE_BYTES).read_ahead(false);
        let options = if shape.is_deterministic { options.deterministic(1) } else { options };
        let pool = set(options).open()?;
        let source = Arc::new(Numbered::new(shape.pages, shape.source_latency)?);
        let file = pool.open_source(source, FileOptions::new().read_only(true))?;
        let tenant = pool.tenant("reader").manager(None).open()?;
        Ok(Self { pool, file, tenant })
    }

    /// Reads the pages with `threads` threads, each of which takes the next page of the list. Reads that took
    /// `long` or more are the long ones.
    ///
    /// # Errors
    /// As the pool's; if a page is not what the source has.
    pub fn read(&self, numbers: &[u64], threads: usize, long: Duration) -> Result<Took> {
        let next = AtomicUsize::new(0);
        let begun = Instant::now();
        let of_threads: Vec<Result<Vec<u64>>> = std::thread::scope(|scope| {
            let spawn = |_| scope.spawn(|| self.read_next(numbers, &next, long));
            let threads: Vec<_> = (0..threads).map(spawn).collect();
            threads.into_iter().map(|thread| thread.join().expect("a reader does not panic")).collect()
        });
        let elapsed = begun.elapsed();
        let mut long_ns: Vec<u64> = of_threads.into_iter().collect::<Result<Vec<_>>>()?.concat();
        long_ns.sort_unstable();
        Ok(Took { elapsed, long_ns })
    }

    fn read_next(&self, numbers: &[u64], next: &AtomicUsize, long: Duration) -> Result<Vec<u64>> {
        let mut long_ns = Vec::new();
        while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
            let begun = Instant::now();
            let page = self.tenant.read(self.file.page(number))?;
            let took = begun.elapsed();
            let found = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
            ensure!(found == number, "page {number} has the contents of page {found}");
            if took >= long {
                long_ns.push(took.as_nanos() as u64);
            }
        }
        Ok(long_ns)
    }

    /// Reads the pages with `depth` futures in flight, without a check of their contents; returns the time
    /// taken.
    ///
    /// # Errors
    /// As the pool's.
    pub fn read_async(&self, numbers: &[u64], depth: usize) -> Result<Duration> {
        let begun = Instant::now();
        futures::read(&self.tenant, &self.file, numbers, depth)?;
        Ok(begun.elapsed())
    }

    /// What the pool counts.
    pub fn stats(&self) -> Stats {
        self.pool.stats()
    }

    /// Whether the pool uses its tier or passes it by, in words.
    pub fn state_of_tier(&self) -> String {
        match self.stats().tier.and_then(|tier| tier.passed_by) {
            Some(why) => format!("passed by, because {why}"),
            None => "in use".to_owned(),
        }
    }

    /// Closes the pool; returns the time taken.
    ///
    /// # Errors
    /// As the pool's.
    pub fn close(self) -> Result<Duration> {
        let Self { pool, file, tenant } = self;
        drop((file, tenant));
        let begun = Instant::now();
        pool.close()?;
        Ok(begun.elapsed())
    }
}

impl Took {
    /// The quantile `part`, from 0 to 1, of the times of the long reads, in microseconds; 0 if there are
    /// none.
    pub fn long_us(&self, part: f64) -> f64 {
        let at = (self.long_ns.len() as f64 * part) as usize;
        self.long_ns.get(at.min(self.long_ns.len().saturating_sub(1))).map_or(0.0, |&ns| ns as f64 / 1e3)
    }
}
