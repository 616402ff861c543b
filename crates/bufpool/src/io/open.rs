//! Opening files: what is asked, who does it, why it fails.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::identity::FileIdentity;
use super::options::{Direct, FileLock};
use super::source::Source;
use crate::error::{Error, ErrorKind};

/// Opens files as sources. A pool has one, beside its backend.
pub(crate) trait Opener: Send + Sync + std::fmt::Debug {
    /// The identity of the file that `path` leads to now; none if there is no file, or if that cannot be
    /// found out.
    fn identify(&self, path: &Path) -> Option<FileIdentity>;

    /// Opens the file at `path` and locks it.
    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError>;

    /// As [`Opener::open`], for a file that is open already. Refuses an `fd` that does not allow what `how`
    /// asks for.
    fn adopt(&self, fd: OwnedFd, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError>;
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOpen {
    /// Only reads will be asked for; the lock is shared instead of exclusive.
    pub(crate) read_only: bool,
    /// Make the file if it is not there.
    pub(crate) create: bool,
    /// Make the file, and open none that is there.
    pub(crate) create_new: bool,
    /// Whether to bypass the page cache.
    pub(crate) direct: Direct,
    /// The pool's page size; transfers are multiples of it.
    pub(crate) page_bytes: usize,
    /// Bytes by which the file may be shorter than reads of it; the missing bytes read as zeros.
    pub(crate) missing_bytes_max: usize,
    /// What keeps others from it.
    pub(crate) lock: FileLock,
}

impl FileOpen {
    /// Opens an existing file for reading and writing pages of 4 KiB.
    pub(crate) const EXISTING: Self = Self {
        read_only: false,
        create: false,
        create_new: false,
        direct: Direct::Prefer,
        page_bytes: 4096,
        missing_bytes_max: 0,
        lock: FileLock::Flock,
    };
    /// As `EXISTING`, but makes the file if it is not there.
    #[cfg(test)]
    pub(crate) const READ_WRITE: Self = Self { create: true, ..Self::EXISTING };
    /// For reading only.
    #[cfg(test)]
    pub(crate) const READ_ONLY: Self = Self { read_only: true, ..Self::EXISTING };
}

/// Why a file could not be opened.
#[derive(Debug)]
pub(crate) enum OpenError {
    /// A system call failed.
    Os { doing: &'static str, error: io::Error },
    /// The file was to be made, and its name is taken.
    Exists,
    /// Somebody else holds a conflicting lock or a lease on it.
    Locked,
    /// Direct I/O was required, and is impossible on the file.
    DirectImpossible { why: String },
    /// Neither a regular file nor a block device.
    NotAFile { found: &'static str },
    /// The descriptor does not allow what will be done with it.
    Descriptor { found: &'static str, expected: &'static str },
    /// The file may be new, and its name cannot be made durable because it is not known.
    NoName,
}

impl OpenError {
    /// There is no such file.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Os { error, .. } if error.kind() == io::ErrorKind::NotFound)
    }

    /// The error of `operation` on the file `name`, which could not be opened.
    pub(crate) fn into_error(self, operation: &'static str, name: &str) -> Error {
        let kind = match &self {
            Self::Os { error, .. } => ErrorKind::of_io(error.kind()),
            Self::Exists => ErrorKind::AlreadyExists,
            Self::Locked => ErrorKind::FileLocked,
            Self::DirectImpossible { .. } => ErrorKind::IoUnavailable,
            Self::NotAFile { .. } => ErrorKind::Unsupported,
            Self::Descriptor { .. } => ErrorKind::Descriptor,
            Self::NoName => ErrorKind::NameChanged,
        };
        let io_kind = if let Self::Os { error, .. } = &self { Some(error.kind()) } else { None };
        let error = Error::with_source(kind, operation, self).in_file(name);
        match io_kind {
            Some(kind) => error.with_io_kind(kind),
            None => error,
        }
    }

    pub(super) fn os(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::Os { doing, error }
    }
}

impl std::fmt::Display for OpenError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Os { doing, error } => write!(f, "{doing} failed: {error}"),
            Self::Exists => f.write_str("there is a file of this name, expected none (create_new)"),
            Self::Locked => f.write_str("the file is in use: its lock or a lease is held elsewhere"),
            Self::DirectImpossible { why } => write!(f, "direct I/O is required but impossible: {why}"),
            Self::NotAFile { found } => write!(f, "it is {found}, expected a regular file or a block device"),
            Self::Descriptor { found, expected } => {
                write!(f, "the descriptor was opened with {found}, expected {expected}")
            }
            Self::NoName => f.write_str(
                "the path leads to the file, but not to the entry of a folder that could be made durable",
            ),
        }
    }
}

impl std::error::Error for OpenError {}
