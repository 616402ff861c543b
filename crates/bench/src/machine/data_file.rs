//! Data files of pages, written in full, for measurements and the bare loop.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use bufpool::Direct;

use super::bare_loop::{BareLoop, Transfer};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a write while the file is made.
const BUILD_BYTES: usize = 256 << 10;

/// Writes a file of at least `pages` pages at `path`: a multiple of 64 pages. Each byte is written, so that
/// reads meet neither holes nor unwritten extents, and the file is synced.
///
/// # Errors
/// Those of [`open`] and of the bare loop.
pub fn build(path: &Path, pages: u64, direct: Direct) -> Result<()> {
    let bytes = (pages * PAGE_BYTES as u64).next_multiple_of(BUILD_BYTES as u64);
    let file = open(path, direct)?;
    let what = || format!("allocating {bytes} bytes for {}: expected a device with room", path.display());
    allocate(&file, bytes).with_context(what)?;
    let mut writer = BareLoop::new(file, BUILD_BYTES, 8)?;
    let written = writer.run(Transfer::Write, (0..bytes).step_by(BUILD_BYTES));
    written.with_context(|| format!("writing {bytes} bytes to {}", path.display()))?;
    writer.file().sync_all().with_context(|| format!("fsync {}", path.display()))
}

/// Allocates space, so that a full device is found before anything is written. File systems that cannot do so
/// find it later.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    let bytes = bytes.try_into().map_err(|_| io::ErrorKind::FileTooLarge)?;
    // SAFETY: the descriptor is open, and no memory is handed over.
    if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, bytes) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EOPNOTSUPP) => Ok(()),
        error => Err(error),
    }
}

/// Opens the file at `path` for the bare loop, and makes it if it is not there. As a pool does, it uses the
/// page cache where direct I/O is preferred and impossible.
///
/// # Errors
/// Those of the file system. If direct I/O is required and impossible, the message says what to do.
pub fn open(path: &Path, direct: Direct) -> Result<File> {
    let what = || format!("open {} for the bare loop", path.display());
    if direct == Direct::Off {
        return open_with(path, 0).with_context(what);
    }
    match open_with(path, libc::O_DIRECT) {
        // The error of a file system without direct I/O.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => match direct {
            Direct::Prefer => open_with(path, 0).with_context(what),
            _ => Err(error).with_context(|| not_direct(path.parent().unwrap_or(path))),
        },
        opened => opened.with_context(what),
    }
}

fn open_with(path: &Path, flags: i32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).custom_flags(flags).open(path)
}

/// The message for direct I/O that is required and impossible: what to do.
pub fn not_direct(folder: &Path) -> String {
    format!(
        "direct I/O is not possible in {}: choose a folder on another file system with --dir, or allow the page cache \
         with --direct prefer",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// No file system has files of 4 EiB.
    #[test]
    fn a_file_that_has_no_room_is_refused_before_it_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("huge.pages");
        let refused = build(&path, 1 << 50, Direct::Off).unwrap_err();
        assert!(format!("{refused:#}").contains("huge.pages: expected a device with room: "), "{refused:#}");
        assert_eq!(path.metadata().unwrap().len(), 0);
    }

    /// The files of `/proc` have no direct I/O.
    #[test]
    fn direct_io_that_is_preferred_can_be_done_without() {
        let path = Path::new("/proc/self/comm");
        assert!(open(path, Direct::Off).is_ok());
        assert!(open(path, Direct::Prefer).is_ok());
        let message = open(path, Direct::Require).unwrap_err().to_string();
        assert!(
            message.contains("not possible in /proc/self") && message.contains("--direct prefer"),
            "{message}"
        );
    }
}
