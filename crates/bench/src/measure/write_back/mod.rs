//! Writes of dirty pages: from a pool that is full of them, and by a bare loop on the same file.
//!
//! Each page of the file has been written before. Both sides follow one order of all pages, each from where
//! the other stopped, so a page is made dirty again long after the pool has written it. The bare loop waits
//! until the pool's background writer has nothing to do.
//!
//! A pool writes dirty pages for three reasons, and each is timed by itself ([`Way`]): to keep to its dirty
//! limit, to make room for new pages, and to make all pages durable.

mod hit_latency;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bufpool::engine::{PageHooks, PageName};
use bufpool::{Direct, File, FileOptions, Pool, PoolOptions, Tenant};

pub use hit_latency::{HitLatency, HitTimes, Writer};

use crate::machine::bare_loop::{BareLoop, LoopTime, Transfer};
use crate::machine::cpu_time::cpu_time;
use crate::machine::data_file::{self, PAGE_BYTES};
use crate::random::Permutation;

/// Bytes of a write of the bare loop where the order is sequential.
const RUN_BYTES: usize = 256 << 10;

/// A pool that writes nothing for this long is taken to have nothing to write.
const QUIET: Duration = Duration::from_millis(5);

/// Pause between looks at the number of dirty pages: at most a few hundredths of the time that cleaning
/// takes.
const LOOK: Duration = Duration::from_micros(100);

/// The dirty limit, in per cent of the frames, that has the background writer clean the pool. So many pages
/// may be dirty still when it is done.
const CLEAN_PERCENT: u8 = 1;

/// The order in which pages become dirty.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// In a random order; the bare loop writes single pages.
    Random,
    /// From the first to the last; the bare loop writes 256 KiB at a time.
    Sequential,
}

/// Why the pool writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// The background writer cleans a pool that nobody uses meanwhile, because its dirty limit has been
    /// lowered. Neither side syncs.
    Cleaned,
    /// Each page that is created evicts a dirty one. The steady state is timed: the pages that were in the
    /// frames are evicted first, untimed. Neither side syncs.
    Evicted,
    /// A checkpoint of a pool that nobody uses meanwhile. Both sides sync at the end.
    Checkpoint,
}

/// How the bare loop writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bare {
    /// How many writes it keeps in flight.
    pub depth: u32,
    /// It fills each block before it writes it, as a creator of pages does.
    pub fills: bool,
}

/// Hooks that do next to nothing. With hooks the pool copies each page before it writes it, and that is what
/// they cost here.
pub struct OneByteHooks;

impl PageHooks for OneByteHooks {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> std::result::Result<(), String> {
        Ok(())
    }

    fn before_write(&self, _: PageName, bytes: &mut [u8]) {
        bytes[1] = 1;
    }
}

/// A file of pages, a pool, and a bare loop.
pub struct PageWrites {
    pool: Pool,
    tenant: Tenant,
    file: File,
    bare: BareLoop,
    order: Order,
    way: Way,
    transfer: Transfer,
    shuffled: Permutation,
    pages: u64,
    next: u64,
    frames: u64,
}

impl PageWrites {
    /// A pool of `frames` frames with `options`, whose tenant has no manager, and a bare loop, over the file
    /// that [`data_file::build`] made at `path`.
    ///
    /// # Errors
    /// As the pool's; if the file has less than four times as many pages as the pool has frames.
    pub fn new(
        path: &Path,
        (order, way, bare): (Order, Way, Bare),
        frames: u32,
        options: PoolOptions,
        direct: Direct,
        seed: u64,
    ) -> Result<Self> {
        let pool = options.frames(frames).page_bytes(PAGE_BYTES).open()?;
        let file = pool.open_file(path, FileOptions::new().direct(direct))?;
        let (pages, frames) = (file.pages(), u64::from(frames));
        ensure!(
            pages >= 4 * frames,
            "{pages} pages: expected at least {}, four times the pool's frames",
            4 * frames
        );
        let block_bytes = match order {
            Order::Random => PAGE_BYTES,
            Order::Sequential => RUN_BYTES,
        };
        let transfer = if bare.fills { Transfer::FillAndWrite } else { Transfer::Write };
        let bare = BareLoop::new(data_file::open(path, direct)?, block_bytes, bare.depth)?;
        // No manager: this measures how pages are written, and does not depend on which.
        let tenant = pool.tenant("writer").manager(None).open()?;
        let shuffled = Permutation::new(pages, seed);
        Ok(Self { pool, tenant, file, bare, order, way, transfer, shuffled, pages, next: 0, frames })
    }

    /// The pool, for what it says about its backend.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Has the pool write about `count` pages. What is counted are pages written while the clock ran.
    ///
    /// # Errors
    /// As the pool's.
    pub fn pool_writes(&mut self, count: u64) -> Result<LoopTime> {
        if self.way == Way::Evicted {
            self.make_dirty(self.frames)?;
            // Drawn before the clock starts.
            let numbers: Vec<u64> = self.next_pages(count).collect();
            return self.timed(|writes| writes.create(numbers));
        }
        let mut sum = LoopTime { operations: 0, elapsed: Duration::ZERO, cpu: Duration::ZERO };
        while sum.operations < count {
            self.fill_with_dirty_pages()?;
            let time = match self.way {
                Way::Checkpoint => self.timed(|writes| Ok(writes.pool.checkpoint()?))?,
                _ => self.timed(Self::clean)?,
            };
            sum.operations += time.operations;
            sum.elapsed += time.elapsed;
            sum.cpu += time.cpu;
        }
        Ok(sum)
    }

    fn timed(&self, work: impl FnOnce(&Self) -> Result<()>) -> Result<LoopTime> {
        let before = self.pool.stats().writes;
        let (start, cpu) = (Instant::now(), cpu_time());
        work(self)?;
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        Ok(LoopTime { operations: self.pool.stats().writes - before, elapsed, cpu })
    }

    /// Makes all pages in the pool dirty but for a few. None of them is evicted meanwhile, because the pages
    /// that were in the pool before are clean and go first.
    fn fill_with_dirty_pages(&mut self) -> Result<()> {
        self.clean()?;
        self.pool.set_dirty_limit_percent(100)?;
        self.make_dirty(self.frames * u64::from(100 - 2 * CLEAN_PERCENT) / 100)?;
        self.settle();
        Ok(())
    }

    /// Has the background writer clean the pool, and waits until it has.
    ///
    /// # Errors
    /// If a page cannot be written.
    fn clean(&self) -> Result<()> {
        let limit = self.frames * u64::from(CLEAN_PERCENT) / 100;
        self.pool.set_dirty_limit_percent(CLEAN_PERCENT)?;
        loop {
            let stats = self.pool.stats();
            if stats.dirty_frames <= limit {
                return Ok(());
            }
            if stats.write_failures > 0 {
                // Returns the error of the write; the pages stay dirty.
                self.file.flush()?;
            }
            std::thread::sleep(LOOK);
        }
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
            Order::Random => 1,
            Order::Sequential => (RUN_BYTES / PAGE_BYTES) as u64,
        };
        let start = self.next.next_multiple_of(pages_per_write);
        self.next = start;
        self.settle();
        let starts = self.next_pages(count / pages_per_write * pages_per_write);
        let offsets: Vec<u64> =
            starts.step_by(pages_per_write as usize).map(|page| page * PAGE_BYTES as u64).collect();
        let (start, cpu) = (Instant::now(), cpu_time());
        // The loop begins, ends and syncs as often as the pool does.
        let writes_at_once = match self.way {
            Way::Evicted => offsets.len(),
            Way::Cleaned | Way::Checkpoint => (self.frames / pages_per_write) as usize,
        };
        let mut operations = 0;
        for part in offsets.chunks(writes_at_once) {
            operations += self.bare.run(self.transfer, part.iter().copied())?.operations;
            if self.way == Way::Checkpoint {
                self.bare.file().sync_data()?;
            }
        }
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        Ok(LoopTime { operations: operations * pages_per_write, elapsed, cpu })
    }

    fn next_pages(&mut self, count: u64) -> impl Iterator<Item = u64> + use<> {
        let (first, pages, order, shuffled) = (self.next, self.pages, self.order, self.shuffled);
        self.next += count;
        (first..first + count).map(move |at| match order {
            Order::Random => shuffled.apply(at % pages),
            Order::Sequential => at % pages,
        })
    }
}
