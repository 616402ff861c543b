//! Dirty pages on their way to the file: through a pool that is full of them, and by a bare loop on the same file.
//!
//! The pool's side creates pages, which reads nothing, so each new page sends away a dirty one, and the rate is the rate at which the
//! pool gets rid of dirty pages. The file has been written as a whole before, and neither side syncs. Both walk one order of
//! all pages, each from where the other stopped, so no page comes back before the pool has long written it.
//!
//! What is timed is the steady state. When misses stop, the background writer cleans what will leave next; so the bare loop waits until
//! that is over, and the pool's side first sends away, untimed, what was in its frames.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bufpool::{Direct, File, FileOptions, Io, Pool, PoolOptions, Tenant};

use crate::bare_loop::{BareLoop, LoopTime, Transfer};
use crate::cpu_time::cpu_time;
use crate::random_reads::{self, PAGE_BYTES};
use crate::workload::Permutation;

/// Bytes of a write of the bare loop where pages are adjacent.
const RUN_BYTES: usize = 256 << 10;

/// A pool that writes nothing for so long has nothing to write.
const QUIET: Duration = Duration::from_millis(5);

/// Which pages become dirty, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// In a random order; the bare loop writes single pages.
    Random {
        /// How many of them the bare loop keeps in flight.
        depth: u32,
    },
    /// From the first to the last; the bare loop writes 256 KiB at a time.
    Sequential {
        /// How many such writes the bare loop keeps in flight.
        depth: u32,
        /// The bare loop fills each block before it writes it, as the pool's side does with its pages.
        fills: bool,
    },
}

/// A file of pages, a pool full of dirty ones, and a bare loop.
pub struct PageWrites {
    pool: Pool,
    tenant: Tenant,
    file: File,
    bare: BareLoop,
    order: Order,
    shuffled: Permutation,
    pages: u64,
    next: u64,
    frames: u32,
}

impl PageWrites {
    /// A pool of `frames` frames on `io`, with the options it has by default but plain LRU, and a bare loop, over the file that
    /// [`random_reads::build`] made at `path`. The pool is filled with dirty pages.
    ///
    /// # Errors
    /// As the pool's; if the file has less than four times as many pages as the pool has frames.
    pub fn new(path: &Path, order: Order, frames: u32, direct: Direct, io: Io, seed: u64) -> Result<Self> {
        let pool = PoolOptions::new().frames(frames).page_bytes(PAGE_BYTES).io(io).open()?;
        let file = pool.open_file(path, FileOptions::new().direct(direct))?;
        let pages = file.pages();
        ensure!(
            pages >= 4 * u64::from(frames),
            "{pages} pages: expected at least {}, four times the pool's frames",
            4 * u64::from(frames)
        );
        let (block_bytes, depth) = match order {
            Order::Random { depth } => (PAGE_BYTES, depth),
            Order::Sequential { depth, .. } => (RUN_BYTES, depth),
        };
        let bare = BareLoop::new(random_reads::open(path, direct)?, block_bytes, depth)?;
        // Plain LRU: this is about how pages are written, and not about which.
        let tenant = pool.tenant("writer").manager(None).open()?;
        let shuffled = Permutation::new(pages, seed);
        let mut writes = Self { pool, tenant, file, bare, order, shuffled, pages, next: 0, frames };
        writes.make_dirty(u64::from(frames))?;
        Ok(writes)
    }

    /// The pool, for what it says about its backend.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Makes `count` pages dirty, in order. What is counted are pages written meanwhile.
    ///
    /// # Errors
    /// As the pool's.
    pub fn pool_writes(&mut self, count: u64) -> Result<LoopTime> {
        self.make_dirty(u64::from(self.frames))?;
        // In hand before the clock starts.
        let numbers: Vec<u64> = self.next_pages(count).collect();
        let before = self.pool.stats().writes;
        let (start, cpu) = (Instant::now(), cpu_time());
        self.create(numbers)?;
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        Ok(LoopTime { operations: self.pool.stats().writes - before, elapsed, cpu })
    }

    fn make_dirty(&mut self, count: u64) -> Result<()> {
        let numbers = self.next_pages(count);
        self.create(numbers)
    }

    fn create(&self, numbers: impl IntoIterator<Item = u64>) -> Result<()> {
        for number in numbers {
            self.tenant.create(self.file.page(number))?[0] = 1;
        }
        Ok(())
    }

    /// Waits until the pool's background writer has nothing to do.
    fn settle(&self) {
        let mut before = u64::MAX;
        loop {
            let written = self.pool.stats().writes;
            if std::mem::replace(&mut before, written) == written {
                return;
            }
            std::thread::sleep(QUIET);
        }
    }

    /// Writes `count` pages with the bare loop. What is counted are pages, not operations.
    ///
    /// # Errors
    /// As the loop's.
    pub fn bare(&mut self, count: u64) -> Result<LoopTime> {
        let pages_per_write = match self.order {
            Order::Random { .. } => 1,
            Order::Sequential { .. } => (RUN_BYTES / PAGE_BYTES) as u64,
        };
        let start = self.next.next_multiple_of(pages_per_write);
        self.next = start;
        self.settle();
        let starts = self.next_pages(count / pages_per_write * pages_per_write);
        let offsets: Vec<u64> =
            starts.step_by(pages_per_write as usize).map(|page| page * PAGE_BYTES as u64).collect();
        let transfer = match self.order {
            Order::Sequential { fills: true, .. } => Transfer::FillAndWrite,
            _ => Transfer::Write,
        };
        let mut time = self.bare.run(transfer, offsets)?;
        time.operations *= pages_per_write;
        Ok(time)
    }

    fn next_pages(&mut self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (first, pages, order, shuffled) = (self.next, self.pages, self.order, self.shuffled);
        self.next += count;
        (first..first + count).map(move |at| match order {
            Order::Random { .. } => shuffled.apply(at % pages),
            Order::Sequential { .. } => at % pages,
        })
    }
}
