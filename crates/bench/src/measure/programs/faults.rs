//! Faults one after the other: each access is to a page that was never read, or was given up long ago.
//!
//! S3-FIFO never gives up the pages that filled its frames, so these are not read again.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use anyhow::{Result, ensure};
use bufpool::{Direct, File, FileOptions, Io, IoBackend, Pool, PoolOptions, Tenant};
use bufpool_policies::Allocation;

use super::{Side, Twin};
use crate::machine::bare_loop::LoopTime;
use crate::machine::cpu_time::cpu_time;
use crate::machine::data_file::{self, PAGE_BYTES};
use crate::simulate::{Policy, Setup, TenantProgram, simulate};
use crate::trace::{Directive, Item, Reference, Trace};

/// Pages that are read again and again: 40 MB, as published.
const PAGES: u64 = 10_240;
/// Frames of the pool and of the directory: so few that no page is read again before a policy has forgotten
/// it.
pub const FRAMES: u32 = 1 << 10;
/// Pages of the file: those that fill the frames, and then those that are read again and again.
pub const FILE_PAGES: u64 = FRAMES as u64 + PAGES;

/// The page of fault number `fault`.
fn page_of(fault: u64) -> u64 {
    u64::from(FRAMES) + fault % PAGES
}

/// Writes the file that [`Faults`] reads.
///
/// # Errors
/// As the file system's; if `direct` is required and impossible.
pub fn build_file(path: &Path, direct: Direct) -> Result<()> {
    data_file::build(path, FILE_PAGES, direct)
}

/// A pool without a free frame, whose reader reads a file that does not fit, again and again.
pub struct Faults {
    pool: Pool,
    tenant: Tenant,
    file: File,
    next: u64,
}

impl Faults {
    /// A pool with one reader, for which `side` of the twin chooses victims; its frames are full. Without
    /// direct I/O the file's pages are in the system's cache, and a read is a system call that copies one.
    ///
    /// # Errors
    /// As the pool's.
    pub fn new(path: &Path, direct: Direct, twin: &Twin, side: Side) -> Result<Self> {
        let pool = PoolOptions::new()
            .frames(FRAMES)
            .page_bytes(PAGE_BYTES)
            .manager(None)
            .revocation(false)
            .read_ahead(false)
            .io(Io::Require(IoBackend::Threads))
            .open()?;
        let file = pool.open_file(path, FileOptions::new().read_only(true).direct(direct))?;
        let tenant = pool.tenant("reader");
        let tenant = match side {
            Side::Native => {
                let tenant = tenant.open()?;
                tenant.set_policy(0, twin.native)?;
                tenant
            }
            Side::Program => tenant.program(&twin.program).open()?,
        };
        for page in 0..u64::from(FRAMES) {
            std::hint::black_box(tenant.read(file.page(page))?[0]);
        }
        Ok(Self { pool, tenant, file, next: 0 })
    }

    /// Makes the next `count` faults.
    ///
    /// # Errors
    /// As the pool's; if an access was a hit.
    #[inline(never)]
    pub fn run(&mut self, count: u64) -> Result<LoopTime> {
        let before = self.pool.stats().reads;
        let (start, cpu) = (Instant::now(), cpu_time());
        for fault in self.next..self.next + count {
            std::hint::black_box(self.tenant.read(self.file.page(page_of(fault)))?[0]);
        }
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        self.next += count;
        let operations = self.pool.stats().reads - before;
        ensure!(operations == count, "{operations} pages read for {count} accesses: expected each to miss");
        Ok(LoopTime { operations, elapsed, cpu })
    }
}

/// The same accesses to a directory without a pool.
pub struct Replacements {
    trace: Trace,
    setup: Setup,
    count: u64,
}

impl Replacements {
    /// Accesses that fill the frames, and then `count` accesses, each to the next page.
    pub fn new(twin: &Twin, side: Side, count: u64) -> Self {
        let policy = Directive::Policy { tenant: 0, prio: 0, policy: twin.native };
        let directive = (side == Side::Native).then_some(Item::Directive(policy));
        let blocks = (0..u64::from(FRAMES)).chain((0..count).map(page_of));
        let accesses = blocks.map(|block| Item::Access(Reference { block, site: 0, tenant: 0 }));
        let trace = Trace::of("faults", directive.into_iter().chain(accesses));
        let program = TenantProgram { program: twin.program.clone(), sent: Vec::new() };
        let programs: BTreeMap<u32, TenantProgram> =
            (side == Side::Program).then_some((0, program)).into_iter().collect();
        Self { trace, setup: Setup { programs, ..Setup::frames(FRAMES) }, count }
    }

    /// Nanoseconds an access.
    ///
    /// # Errors
    /// As the simulator's; if an access was a hit.
    pub fn run(&self) -> Result<f64> {
        let outcome = simulate(&self.trace, Policy::TwoLevel(Allocation::LruSp), &self.setup, None)?;
        let accesses = self.count + u64::from(FRAMES);
        ensure!(outcome.total().misses() == accesses, "a hit: expected each access to miss");
        Ok(outcome.elapsed.as_nanos() as f64 / accesses as f64)
    }
}
