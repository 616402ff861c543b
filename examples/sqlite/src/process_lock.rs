//! The lock that keeps other processes out, in the way of SQLite's own unix VFS.
//!
//! That VFS locks bytes at 1 GiB of the database, beyond most files and never stored: one is *pending*, one
//! *reserved*, and 510 are *shared* ones. A process that has all of them locked for writing is a writer with
//! an exclusive lock, and others are told SQLITE_BUSY. The lock belongs to the open file description
//! (`F_OFD_SETLK`), not to the process: it does not end with the first descriptor of the file that is closed,
//! and connections of this process by the unix VFS find it in their way, too.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Where SQLite's `PENDING_BYTE` is.
const FIRST_BYTE: i64 = 0x4000_0000;
/// Pending, reserved, and `SHARED_SIZE` shared ones.
const BYTES: i64 = 2 + 510;
/// Where the shared ones begin.
const FIRST_SHARED: i64 = 2;

/// Locks the database for writing by this open file description, or for reading if `read_only`. False if
/// another has a lock in the way.
pub(crate) fn take(file: &File, read_only: bool) -> io::Result<bool> {
    let (kind, first) = if read_only { (libc::F_RDLCK, FIRST_SHARED) } else { (libc::F_WRLCK, 0) };
    match set(file, kind, first) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends the lock. Closing the open file description ends it, too.
pub(crate) fn give_back(file: &File) -> io::Result<()> {
    set(file, libc::F_UNLCK, 0)
}

/// Sets the lock of the bytes from the one with this number on.
fn set(file: &File, kind: libc::c_int, first: i64) -> io::Result<()> {
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: FIRST_BYTE + first,
        l_len: BYTES - first,
        l_pid: 0,
    };
    // SAFETY: `fcntl` reads the lock through the pointer, which is valid during the call, and changes nothing
    // of this process.
    let set = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if set == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
