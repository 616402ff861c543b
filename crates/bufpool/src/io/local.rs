//! Files of the operating system, regular ones and block devices: a descriptor with lock, alignment and name.
//!
//! The backends for real files move the bytes of local files themselves ([`LocalFile::of`]). To any other
//! backend a local file is a [`Source`] like all others, and the thread that starts its requests does them.

mod open;
pub(super) mod opener;
pub(super) mod registration;

use std::any::Any;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::OnceLock;

use self::registration::Registration;
use super::done::{Done, ReadRequest, WriteRequest};
use super::identity::FileIdentity;
use super::name::{Entry, FileName, NameError};
use super::options::FileLock;
use super::progress::End;
use super::request::Action;
use super::run::RUN_BYTES;
use super::source::{Alignment, Capabilities, Source};
use super::transfer;
use crate::sys;

/// An open, locked file. Dropping it gives up the lock and closes it.
#[derive(Debug)]
pub(crate) struct LocalFile {
    file: File,
    identity: FileIdentity,
    block_device: bool,
    /// None if the file was not opened by path, or if its path leads to no entry of a folder.
    name: Option<OwnName>,
    read_only: bool,
    direct: bool,
    alignment: Alignment,
    missing_bytes_max: usize,
    lock: FileLock,
    note: String,
    saturation_depth: u32,
    /// Its place in the tables of registered files. A backend sets it at most once, after opening.
    registration: OnceLock<Registration>,
}

/// The name that the file was opened by, and the identity that the name must still lead to.
#[derive(Debug)]
struct OwnName {
    name: FileName,
    identity: FileIdentity,
}

impl LocalFile {
    /// The local file that a source is, if it is one.
    pub(super) fn of(source: &dyn Source) -> Option<&Self> {
        (source as &dyn Any).downcast_ref()
    }

    /// The same file on a device that is saturated with this many reads in flight.
    pub(super) fn saturated_at(mut self, reads: u32) -> Self {
        self.saturation_depth = reads;
        self
    }

    /// The descriptor.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Where it is registered, if it is.
    pub(super) fn registration(&self) -> Option<&Registration> {
        self.registration.get()
    }

    /// Notes where it is registered. Called by the backend when the file is made known to it, before others
    /// have the file.
    pub(super) fn set_registration(&self, registration: Registration) {
        self.registration.set(registration).expect("a file is made known to one backend, once");
    }

    /// True if I/O on it bypasses the page cache.
    pub(super) fn is_direct(&self) -> bool {
        self.direct
    }

    /// The rules for transfers at its end.
    pub(super) fn end(&self) -> End {
        let granule = self.alignment.offset_bytes as usize;
        End { granule, missing_bytes_max: self.missing_bytes_max }
    }

    /// Does `action` in the calling thread and tells its end.
    fn run(&self, action: &Action, done: Done) {
        done.end(transfer::run(self, action));
    }

    /// Really allocates the range; see [`Action::Allocate`]. On failure the length is as before.
    pub(super) fn allocate_now(&self, from: u64, bytes: u64) -> io::Result<()> {
        let before = self.len_bytes()?;
        let end = from.checked_add(bytes).ok_or_else(|| io::Error::from_raw_os_error(libc::EFBIG))?;
        if self.block_device {
            let fits = end <= before;
            return if fits { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::ENOSPC)) };
        }
        let allocated = match sys::allocate(self.fd(), from, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::EOPNOTSUPP) => self.append_zeros(before, end),
            other => other,
        };
        if allocated.is_err() && self.len_bytes()? > before {
            self.set_len_bytes(before)?;
        }
        allocated
    }

    /// Writes zeros from `from`, the end of the file, to `to`, for file systems without fallocate.
    fn append_zeros(&self, from: u64, to: u64) -> io::Result<()> {
        const ZEROS_BYTES: usize = 1 << 20;
        // Direct I/O begins at whole granules. The block within which the file ends is there.
        let whole = from.next_multiple_of(u64::from(self.alignment.offset_bytes)).min(to);
        if whole > from {
            self.set_len_bytes(whole)?;
        }
        let from = whole;
        let zeros = sys::Mapping::new(ZEROS_BYTES)?;
        let mut at = from;
        while at < to {
            let bytes = (to - at).min(ZEROS_BYTES as u64) as usize;
            at += sys::retry_interrupted(|| sys::write_mapping_at(self.fd(), &zeros, bytes, at))? as u64;
        }
        Ok(())
    }
}

impl Source for LocalFile {
    fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities {
            writable: !self.read_only,
            fixed_length: self.block_device,
            run_bytes: RUN_BYTES,
            requests_in_flight: self.saturation_depth,
            alignment: self.alignment,
        }
    }

    fn note(&self) -> String {
        self.note.clone()
    }

    fn len_bytes(&self) -> io::Result<u64> {
        if self.block_device { sys::block_device_bytes(self.fd()) } else { Ok(self.file.metadata()?.len()) }
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        sys::truncate(self.fd(), bytes)
    }

    fn read(&self, request: ReadRequest) {
        let (action, done) = request.into_parts();
        self.run(&action, done);
    }

    fn write(&self, request: WriteRequest) {
        let (action, done) = request.into_parts();
        self.run(&action, done);
    }

    fn sync(&self, all_metadata: bool, done: Done) {
        self.run(&Action::Sync { all_metadata }, done);
    }

    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        self.run(&Action::Allocate { offset, bytes }, done);
    }

    fn drop_cache(&self) -> io::Result<()> {
        if self.direct { Ok(()) } else { sys::drop_cache(self.fd()) }
    }

    fn entry(&self) -> Option<&dyn Entry> {
        self.name.as_ref().map(|name| name as _)
    }
}

impl Entry for OwnName {
    fn remove(&self) -> Result<(), NameError> {
        self.name.remove(self.identity)
    }

    fn sync_folder(&self) -> Result<(), NameError> {
        self.name.sync_folder().map_err(NameError::os("syncing the folder"))
    }
}

impl Drop for LocalFile {
    fn drop(&mut self) {
        // Closing is not enough, because a ring keeps its registered files for some time after they are
        // taken out.
        drop(match self.lock {
            FileLock::Flock => sys::unlock_flock(self.fd()),
            FileLock::Ofd => sys::unlock_ofd(self.fd()),
            FileLock::None => Ok(()),
        });
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::io::FileOpen;
    use crate::io::options::Direct;

    /// More than one write's worth, from where the file ends.
    #[test]
    fn without_fallocate_a_file_is_filled_with_zeros_to_its_new_end() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, [7; 1000]).unwrap();
        let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
        let file = LocalFile::open(&path, &how).unwrap();
        file.append_zeros(1000, 2_500_000).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let (before, zeros) = bytes.split_at(1000);
        assert_eq!(bytes.len(), 2_500_000);
        assert!(before.iter().all(|&byte| byte == 7) && zeros.iter().all(|&byte| byte == 0));
    }
}
