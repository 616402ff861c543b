//! Random reads of 4 KiB pages: through a pool in which hardly any page to be read is resident, and by a bare
//! loop on the same file.
//!
//! Both follow one random order of all pages, each from where the other stopped, so a page is read again only
//! after all others. The only hits of the pool are pages that a manager kept for so long; they do not count
//! as operations.

pub mod futures;

use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bufpool::{Direct, File, FileOptions, Io, ManagerKind, Pool, PoolOptions, Tenant};

use crate::machine::bare_loop::{BareLoop, LoopTime, Transfer};
use crate::machine::cpu_time::cpu_time;
use crate::machine::data_file::{self, PAGE_BYTES};
use crate::random::Permutation;

/// Fewest frames of the pool.
const FRAMES_MIN: u32 = 1 << 10;

/// How the pool is asked for pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Asking {
    /// In lists of this number of pages, of which the pool keeps `depth` in flight; at the end of a list the
    /// device runs out of reads. At depth 1, page by page.
    Lists(u32),
    /// With `depth` futures.
    Futures,
}

/// A file of pages, a pool and a bare loop on it, for one depth.
pub struct RandomReads {
    pool: Pool,
    tenant: Tenant,
    file: File,
    bare: BareLoop,
    depth: u32,
    asking: Asking,
    order: Permutation,
    pages: u64,
    next: u64,
}

/// The frames of the pool.
fn frames(asking: Asking, depth: u32) -> u32 {
    match asking {
        Asking::Lists(pages) => FRAMES_MIN.max(2 * pages),
        Asking::Futures => FRAMES_MIN.max(2 * depth),
    }
}

/// The fewest pages of a file, four times as many as the pool has frames.
pub fn pages_min(asking: Asking, depth: u32) -> u64 {
    4 * u64::from(frames(asking, depth))
}

impl RandomReads {
    /// A pool on `io` and a bare loop over the file that [`data_file::build`] made at `path`, with `depth`
    /// operations in flight. The reading tenant has `manager`, or none.
    ///
    /// # Errors
    /// As the pool's; if the file has less than [`pages_min`] pages.
    pub fn new(
        path: &Path,
        depth: u32,
        direct: Direct,
        io: Io,
        manager: Option<ManagerKind>,
        asking: Asking,
        seed: u64,
    ) -> Result<Self> {
        let frames = frames(asking, depth);
        let pool = PoolOptions::new().frames(frames).page_bytes(PAGE_BYTES).io(io).io_depth(depth).open()?;
        let file = pool.open_file(path, FileOptions::new().direct(direct))?;
        let pages = file.pages();
        let least = pages_min(asking, depth);
        ensure!(
            pages >= least,
            "{pages} pages: expected at least {least}, four times the pool's {frames} frames"
        );
        let tenant = pool.tenant("reader").manager(manager).open()?;
        let bare = BareLoop::new(data_file::open(path, direct)?, PAGE_BYTES, depth)?;
        Ok(Self {
            pool,
            tenant,
            file,
            bare,
            depth,
            asking,
            order: Permutation::new(pages, seed),
            pages,
            next: 0,
        })
    }

    /// The pool, for what it says about its backend.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Reads `count` pages with the bare loop.
    ///
    /// # Errors
    /// As the loop's.
    pub fn bare(&mut self, count: u64) -> Result<LoopTime> {
        let offsets: Vec<u64> = self.next_pages(count).map(|page| page * PAGE_BYTES as u64).collect();
        self.bare.run(Transfer::Read, offsets)
    }

    /// Reads `count` pages through the pool.
    ///
    /// # Errors
    /// As the pool's; if fewer than nine accesses in ten were reads of the file.
    pub fn pool_misses(&mut self, count: u64) -> Result<LoopTime> {
        let pages: Vec<u64> = self.next_pages(count).collect();
        let before = self.pool.stats().reads;
        let (start, cpu) = (Instant::now(), cpu_time());
        self.read(&pages)?;
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let operations = self.pool.stats().reads - before;
        ensure!(
            operations >= count / 10 * 9,
            "{operations} pages read for {count} accesses: expected misses, but for what the manager keeps"
        );
        Ok(LoopTime { operations, elapsed, cpu })
    }

    fn read(&self, pages: &[u64]) -> Result<()> {
        let Asking::Lists(list_pages) = self.asking else {
            return futures::read(&self.tenant, &self.file, pages, self.depth as usize);
        };
        if self.depth == 1 {
            for &page in pages {
                std::hint::black_box(self.tenant.read(self.file.page(page))?[0]);
            }
            return Ok(());
        }
        let mut list = Vec::new();
        for pages in pages.chunks(list_pages as usize) {
            list.clear();
            list.extend(pages.iter().map(|&page| self.file.page(page)));
            for page in self.tenant.read_many(&list) {
                let page = page?.context("a page of a list was busy, though nobody else reads")?;
                std::hint::black_box(page[0]);
            }
        }
        Ok(())
    }

    fn next_pages(&mut self, count: u64) -> impl Iterator<Item = u64> {
        let (first, pages, order) = (self.next, self.pages, self.order);
        self.next += count;
        (first..first + count).map(move |at| order.apply(at % pages))
    }
}
