//! A data file of pages, written in full, as measurements and the bare loop want it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use bufpool::Direct;

use super::bare_loop::{BareLoop, Transfer};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a write while the file is made.
const BUILD_BYTES: usize = 256 << 10;

/// Writes a file of `pages` pages at `path`, each byte of it, so that reads meet neither holes nor unwritten
/// extents.
///
/// # Errors
/// As the file system's, or where direct I/O is required and impossible.
pub fn build(path: &Path, pages: u64, direct: Direct) -> Result<()> {
    let bytes = (pages * PAGE_BYTES as u64).next_multiple_of(BUILD_BYTES as u64);
    let file = open(path, direct)?;
    let mut writer = BareLoop::new(file, BUILD_BYTES, 8)?;
    let written = writer.run(Transfer::Write, (0..bytes).step_by(BUILD_BYTES));
    written.with_context(|| format!("writing {bytes} bytes to {}", path.display()))?;
    writer.file().sync_all().with_context(|| format!("fsync {}", path.display()))
}

/// Opens the file at `path` as the bare loop wants it.
///
/// # Errors
/// As the file system's.
pub fn open(path: &Path, direct: Direct) -> Result<File> {
    let flags = if direct == Direct::Off { 0 } else { libc::O_DIRECT };
    let mut options = OpenOptions::new();
    let opened = options.read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path);
    opened.with_context(|| format!("open {} for the bare loop", path.display()))
}
