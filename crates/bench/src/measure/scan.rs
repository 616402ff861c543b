//! A cold sequential scan: page by page through a pool that reads ahead, and by a bare loop on the same file.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bufpool::{Direct, File, FileOptions, Io, ManagerKind, Pool, PoolOptions, Tenant};

use crate::machine::bare_loop::{BareLoop, Transfer};
use crate::machine::cpu_time::cpu_time;
use crate::machine::data_file;

/// Bytes of a read of the bare loop.
pub const BLOCK_BYTES: usize = 256 << 10;
/// Reads of the bare loop in flight.
pub const DEPTH: u32 = 8;
/// Memory of the pool in bytes: at most half of the file.
const POOL_BYTES: u64 = 64 << 20;

/// What one scan took.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ScanTime {
    /// Bytes read.
    pub bytes: u64,
    /// Time it took.
    pub elapsed: Duration,
    /// Processor time of the whole process meanwhile.
    pub cpu: Duration,
}

impl ScanTime {
    /// MiB a second.
    pub fn mib_per_s(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 20) / self.elapsed.as_secs_f64()
    }

    /// Processor time of a MiB, in microseconds.
    pub fn cpu_us_per_mib(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / (self.bytes as f64 / f64::from(1 << 20))
    }
}

/// A file, a pool and a bare loop on it.
pub struct SequentialReads {
    pool: Pool,
    tenant: Tenant,
    file: File,
    bare: BareLoop,
    bytes: u64,
}

impl SequentialReads {
    /// A pool with pages of `page_bytes` on `io`, and a bare loop, over the file at `path`, every byte of
    /// which has been written. The tenant that scans has `manager`, or none.
    ///
    /// # Errors
    /// As the pool's; if the file is smaller than twice the pool, or no multiple of [`BLOCK_BYTES`].
    pub fn new(
        path: &Path,
        page_bytes: usize,
        direct: Direct,
        io: Io,
        manager: Option<ManagerKind>,
    ) -> Result<Self> {
        let pool = PoolOptions::new().memory_bytes(POOL_BYTES).page_bytes(page_bytes).io(io).open()?;
        let file = pool.open_file(path, FileOptions::new().direct(direct))?;
        let bytes = file.pages() * page_bytes as u64;
        ensure!(
            bytes >= 2 * POOL_BYTES && bytes.is_multiple_of(BLOCK_BYTES as u64),
            "a file of {bytes} bytes: expected a multiple of {BLOCK_BYTES}, and at least {}",
            2 * POOL_BYTES
        );
        let tenant = pool.tenant("scan").manager(manager).open()?;
        let bare = BareLoop::new(data_file::open(path, direct)?, BLOCK_BYTES, DEPTH)?;
        Ok(Self { pool, tenant, file, bare, bytes })
    }

    /// The pool, for what it says about itself.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Reads the file with the bare loop.
    ///
    /// # Errors
    /// As the loop's.
    pub fn bare(&mut self) -> Result<ScanTime> {
        let time = self.bare.run(Transfer::Read, (0..self.bytes).step_by(BLOCK_BYTES))?;
        Ok(ScanTime { bytes: self.bytes, elapsed: time.elapsed, cpu: time.cpu })
    }

    /// Gives up all pages of the file in the pool, and then reads it page by page through the pool.
    ///
    /// # Errors
    /// As the pool's; if the pool read anything but each page once.
    pub fn scan(&mut self) -> Result<ScanTime> {
        let pages = self.file.pages();
        self.file.discard(0..pages)?;
        let before = self.pool.stats().reads;
        let (start, cpu) = (Instant::now(), cpu_time());
        for number in 0..pages {
            std::hint::black_box(self.tenant.read(self.file.page(number))?[0]);
        }
        let (elapsed, cpu) = (start.elapsed(), cpu_time().saturating_sub(cpu));
        let reads = self.pool.stats().reads - before;
        ensure!(reads == pages, "{reads} pages read in a scan of {pages}: expected each of them once");
        Ok(ScanTime { bytes: self.bytes, elapsed, cpu })
    }
}
