//! Why an operation failed.

use std::sync::Arc;
use std::{fmt, io};

/// How often one operation is tried again without a byte of progress before it fails.
pub(crate) const RETRIES_MAX: u32 = 64;

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoOperation {
    /// A positioned read.
    Read,
    /// A positioned write.
    Write,
    /// An fsync or fdatasync.
    Sync,
    /// An allocation of space, as by fallocate.
    Allocate,
}

impl fmt::Display for IoOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Allocate => "allocation",
        })
    }
}

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The kernel's error number.
    Os(i32),
    /// The file ended this many bytes after the start of the operation.
    EndOfFile { after_bytes: u64 },
    /// [`RETRIES_MAX`] attempts moved no byte; the last one failed with this error number (0: none).
    NoProgress(i32),
    /// What a source of the engine's says.
    Source(SourceError),
}

/// An error of a source, shared by all who are told of it. Equal only to itself.
#[derive(Clone, Debug)]
pub(crate) struct SourceError(Arc<io::Error>);

impl PartialEq for SourceError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for SourceError {}

impl From<io::Error> for Cause {
    fn from(error: io::Error) -> Self {
        match error.raw_os_error() {
            Some(errno) => Self::Os(errno),
            None => Self::Source(SourceError(Arc::new(error))),
        }
    }
}

/// A failed operation. Says what and where within the file; the pool adds the file's name.
///
/// Its [`source`](std::error::Error::source) is the error that an engine's
/// [`Source`](crate::source::Source) gave, if that is what failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoError {
    operation: IoOperation,
    offset: u64,
    bytes: u64,
    cause: Cause,
}

impl IoError {
    pub(crate) fn new(operation: IoOperation, offset: u64, bytes: u64, cause: Cause) -> Self {
        Self { operation, offset, bytes, cause }
    }

    /// What was tried.
    pub fn operation(&self) -> IoOperation {
        self.operation
    }

    /// The byte of the file where the operation started; 0 for a sync.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The kernel's error number, if the kernel reported one.
    pub fn os_error(&self) -> Option<i32> {
        match self.cause {
            Cause::Os(errno) => Some(errno),
            Cause::NoProgress(errno) => (errno != 0).then_some(errno),
            Cause::EndOfFile { .. } | Cause::Source(_) => None,
        }
    }

    /// True if a read met the end of the file.
    pub fn is_end_of_file(&self) -> bool {
        self.kind() == io::ErrorKind::UnexpectedEof
    }

    /// True if the device or the quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
    }

    /// True if a source says that what it has is not what was written
    /// ([`InvalidData`](io::ErrorKind::InvalidData)).
    pub fn is_corrupt(&self) -> bool {
        matches!(self.cause, Cause::Source(_)) && self.kind() == io::ErrorKind::InvalidData
    }

    pub(crate) fn kind(&self) -> io::ErrorKind {
        match &self.cause {
            Cause::Os(errno) => io::Error::from_raw_os_error(*errno).kind(),
            Cause::EndOfFile { .. } => io::ErrorKind::UnexpectedEof,
            Cause::NoProgress(_) => io::ErrorKind::Other,
            Cause::Source(SourceError(error)) => error.kind(),
        }
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if self.operation != IoOperation::Sync {
            write!(f, " of {} bytes at byte {}", self.bytes, self.offset)?;
        }
        match &self.cause {
            Cause::Os(errno) => write!(f, " failed: {}", io::Error::from_raw_os_error(*errno)),
            Cause::EndOfFile { after_bytes } => {
                write!(f, " failed: the file ends after {after_bytes} of them")
            }
            Cause::NoProgress(0) => write!(f, " failed: {RETRIES_MAX} attempts transferred nothing"),
            Cause::NoProgress(errno) => {
                let last = io::Error::from_raw_os_error(*errno);
                write!(f, " failed: {RETRIES_MAX} attempts transferred nothing, the last with: {last}")
            }
            Cause::Source(SourceError(error)) => write!(f, " failed: {error}"),
        }
    }
}

impl std::error::Error for IoError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let Cause::Source(SourceError(error)) = &self.cause else { return None };
        Some(error.get_ref().map_or(&**error as _, |inner| inner as _))
    }
}

impl From<IoError> for io::Error {
    fn from(error: IoError) -> Self {
        Self::new(error.kind(), error)
    }
}
