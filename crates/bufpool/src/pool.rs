//! The pool: frames shared by files and tenants.

use std::os::fd::OwnedFd;
use std::path::Path;

use crate::error::Result;
use crate::io::IoReport;
use crate::options::{FileOptions, PoolOptions};
use crate::stats::{Report, Stats};
use crate::tenant::TenantOptions;
use crate::{File, Tenant};

/// A pool of page frames. Cloning gives another handle to the same pool.
#[derive(Clone)]
pub struct Pool {}

impl Pool {
    pub(crate) fn open(_options: PoolOptions) -> Result<Self> {
        unreachable!()
    }

    /// Opens the file at `path`.
    pub fn open_file(&self, _path: impl AsRef<Path>, _options: FileOptions) -> Result<File> {
        unreachable!()
    }

    /// Takes over an open file.
    pub fn open_fd(&self, _fd: OwnedFd, _options: FileOptions) -> Result<File> {
        unreachable!()
    }

    /// A tenant to be opened.
    pub fn tenant(&self, _name: impl Into<String>) -> TenantOptions {
        unreachable!()
    }

    /// The tenant of those who do not care: number 0, without floor, cap or manager.
    pub fn default_tenant(&self) -> Tenant {
        unreachable!()
    }

    /// Makes durable what was dirty when the call began.
    pub fn checkpoint(&self) -> Result<()> {
        unreachable!()
    }

    /// Writes everything, makes it durable, stops the pool's threads.
    pub fn close(self) -> Result<()> {
        unreachable!()
    }

    /// Counts, as data.
    pub fn stats(&self) -> Stats {
        unreachable!()
    }

    /// Counts, as text.
    pub fn report(&self) -> Report {
        unreachable!()
    }

    /// The I/O backend, its flags, and the reason for each step down.
    pub fn io(&self) -> IoReport {
        unreachable!()
    }

    /// How many frames policies fill.
    pub fn frames(&self) -> u32 {
        unreachable!()
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        unreachable!()
    }
}
