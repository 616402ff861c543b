//! One error type for the whole library: what went wrong, where, during what, and what was expected.

use std::sync::Arc;
use std::{fmt, io};

/// The result of every fallible call of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, with the operation, file and page it happened to.
///
/// The kind is for programs ([`Error::kind`]); the `Display` form is for people and says what was expected.
/// An `Error` is one pointer in size, so that results stay small; it is allocated only when an error
/// happens.
pub struct Error(Box<Details>);

#[derive(Clone)]
struct Details {
    kind: ErrorKind,
    operation: &'static str,
    file: Option<String>,
    page: Option<u64>,
    message: String,
    source: Option<Source>,
    /// The kind of the operating system's error that caused this one, if there is one.
    io_kind: Option<io::ErrorKind>,
}

type Source = Arc<dyn std::error::Error + Send + Sync>;

/// The kinds of [`Error`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The page size is not a power of two in the allowed range.
    PageSize,
    /// The page size is not a multiple of what direct I/O on this file asks for.
    Alignment,
    /// Too few frames for the threads and floors that were promised, or more than the pool can number.
    Memory,
    /// Options that contradict one another, or a value out of its range.
    InvalidOptions,
    /// Floors and caps that cannot hold: the floors' sum is too large, or a floor is above its cap.
    Floor,
    /// The file's length is not a multiple of the page size, or would be beyond 2^40 pages; or its page
    /// table would exceed [`page_tables_bytes_max`](crate::PoolOptions::page_tables_bytes_max), or needs
    /// memory or addresses that the process may not have.
    FileLength,
    /// The page's number is not below the file's number of pages.
    PageBeyondEnd,
    /// A range that is inverted or ends beyond the file.
    Range,
    /// The same inode, or a source of the same identity, is already open in this pool.
    FileAlreadyOpen,
    /// A conflicting lock, or a lease, is held on this file.
    FileLocked,
    /// The file was closed or removed.
    FileClosed,
    /// A write or a sync of this file failed before; it takes no more writes until it is reopened. A flush
    /// that was under way when the file was reopened has this error, too: what it was to make durable may be
    /// lost.
    FilePoisoned,
    /// A writer of the page panicked; see
    /// [`FileOptions::poison_on_panic`](crate::FileOptions::poison_on_panic).
    PagePoisoned,
    /// A change was asked of a file opened for reading.
    ReadOnly,
    /// The page is pinned or latched by someone who must let go of it first.
    PageBusy,
    /// A latch was not free within `latch_wait_ms`, or another thread was opening files, closing, reopening
    /// or resizing this one, or closing the pool for longer than that.
    LatchTimeout,
    /// The calling thread would wait for a latch that it holds itself. Debug builds, and those with the
    /// feature `deadlock-check`, find that out at once; in others the wait ends with
    /// [`LatchTimeout`](Self::LatchTimeout). In all builds also a call of the pool by code that the pool
    /// calls under its policy lock, such as a manager.
    SelfDeadlock,
    /// Every frame that could have been taken is in use: pinned, latched or in flight, or its page is dirty
    /// and cannot be written, because its file is poisoned or its log is not durable. The message counts
    /// them.
    Exhausted,
    /// A directive with a priority out of range, or for a tenant whose manager takes no directives.
    Directive,
    /// A directive for one more range of pages than the 4,096 for which a tenant may set priorities.
    DirectiveLimit,
    /// A privileged program for a tenant that is not privileged, or another floor or cap for one that is.
    Privilege,
    /// [`Tenant::send`](crate::Tenant::send) to a tenant that has no program.
    NoProgram,
    /// [`Tenant::send`](crate::Tenant::send) to an `int` that the tenant's program does not have.
    UnknownSlot,
    /// The tenant was closed.
    TenantClosed,
    /// The pool was closed.
    PoolClosed,
    /// The pool belongs to the process that the calling process was forked from.
    ForkedChild,
    /// A page and a tenant, or a file and a tenant, belong to different pools.
    WrongPool,
    /// The requested I/O backend, or direct I/O, is not available here.
    IoUnavailable,
    /// The device has no room left.
    NoSpace,
    /// A read met the end of the file, or a flush found it too short: it was shortened behind the pool's
    /// back.
    UnexpectedEof,
    /// The engine's log could not be advanced, so pages that depend on it stay dirty.
    Log,
    /// The page's contents failed verification after a second read.
    Corrupt,
    /// The file no longer has the name that it was opened by: the name is gone, or belongs to another file.
    NameChanged,
    /// The descriptor handed over does not allow what will be done with it.
    Descriptor,
    /// The operation is impossible on this kind of file.
    Unsupported,
    /// There is no file of that name.
    NotFound,
    /// There is a file of that name, and [`FileOptions::create_new`](crate::FileOptions::create_new) wants to
    /// make one.
    AlreadyExists,
    /// The system does not allow the operation to this process.
    PermissionDenied,
    /// Any other failure of the operating system or the device.
    Io,
}

impl ErrorKind {
    /// The kind that stands for an error of the operating system.
    pub(crate) fn of_io(kind: io::ErrorKind) -> Self {
        match kind {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::NoSpace,
            io::ErrorKind::UnexpectedEof => Self::UnexpectedEof,
            io::ErrorKind::NotFound => Self::NotFound,
            io::ErrorKind::AlreadyExists => Self::AlreadyExists,
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::PermissionDenied,
            _ => Self::Io,
        }
    }
}

impl Error {
    /// What went wrong.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The operation that failed, in one or two words.
    pub fn operation(&self) -> &str {
        self.0.operation
    }

    /// The name of the file concerned, if there is one.
    pub fn file(&self) -> Option<&str> {
        self.0.file.as_deref()
    }

    /// The number of the page concerned, if there is one.
    pub fn page(&self) -> Option<u64> {
        self.0.page
    }

    /// The kind of the operating system's error that caused this one, if there is one. Otherwise the kind
    /// that comes nearest to [`kind`](Self::kind). An [`io::Error`] that is made from this error has it.
    pub fn io_kind(&self) -> io::ErrorKind {
        self.0.io_kind.unwrap_or(match self.0.kind {
            ErrorKind::NotFound => io::ErrorKind::NotFound,
            ErrorKind::AlreadyExists => io::ErrorKind::AlreadyExists,
            ErrorKind::PermissionDenied => io::ErrorKind::PermissionDenied,
            ErrorKind::NoSpace => io::ErrorKind::StorageFull,
            ErrorKind::UnexpectedEof => io::ErrorKind::UnexpectedEof,
            ErrorKind::Corrupt => io::ErrorKind::InvalidData,
            ErrorKind::ReadOnly => io::ErrorKind::ReadOnlyFilesystem,
            ErrorKind::LatchTimeout => io::ErrorKind::TimedOut,
            ErrorKind::SelfDeadlock => io::ErrorKind::Deadlock,
            ErrorKind::Exhausted | ErrorKind::Memory => io::ErrorKind::OutOfMemory,
            ErrorKind::PageBusy | ErrorKind::FileLocked | ErrorKind::FileAlreadyOpen => {
                io::ErrorKind::ResourceBusy
            }
            ErrorKind::IoUnavailable | ErrorKind::Unsupported => io::ErrorKind::Unsupported,
            ErrorKind::PageSize
            | ErrorKind::Alignment
            | ErrorKind::InvalidOptions
            | ErrorKind::Floor
            | ErrorKind::PageBeyondEnd
            | ErrorKind::Range
            | ErrorKind::Directive
            | ErrorKind::DirectiveLimit
            | ErrorKind::NoProgram
            | ErrorKind::UnknownSlot
            | ErrorKind::Descriptor
            | ErrorKind::WrongPool => io::ErrorKind::InvalidInput,
            _ => io::ErrorKind::Other,
        })
    }

    /// The error of [`Tier::attach`](crate::tier::Tier::attach) for tiers outside this crate: the tier
    /// cannot serve the pool. The message should say why, and what was expected. Of kind
    /// [`ErrorKind::InvalidOptions`].
    pub fn of_tier(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidOptions, "open tier", message)
    }

    pub(crate) fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Details {
            kind,
            operation,
            file: None,
            page: None,
            message: message.into(),
            source: None,
            io_kind: None,
        }))
    }

    /// An error of the operating system; its kind follows from the error code.
    pub(crate) fn from_io(operation: &'static str, source: io::Error) -> Self {
        let kind = source.kind();
        Self::with_source(ErrorKind::of_io(kind), operation, source).with_io_kind(kind)
    }

    /// An error that is caused by another one, whose message it repeats.
    pub(crate) fn with_source(
        kind: ErrorKind,
        operation: &'static str,
        source: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        let mut error = Self::new(kind, operation, source.to_string());
        error.0.source = Some(Arc::new(source));
        error
    }

    /// Notes that the cause is an error of the operating system of this kind.
    pub(crate) fn with_io_kind(mut self, kind: io::ErrorKind) -> Self {
        self.0.io_kind = Some(kind);
        self
    }

    /// Says first what could not be done.
    pub(crate) fn with_prefix(mut self, prefix: impl fmt::Display) -> Self {
        self.0.message = format!("{prefix}: {}", self.0.message);
        self
    }

    pub(crate) fn in_file(mut self, name: &str) -> Self {
        self.0.file = Some(name.to_owned());
        self
    }

    pub(crate) fn at_page(mut self, number: u64) -> Self {
        self.0.page = Some(number);
        self
    }

    /// The same error again, for a second caller.
    pub(crate) fn duplicate(&self) -> Self {
        Self(Box::new((*self.0).clone()))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let details = &*self.0;
        f.write_str(details.operation)?;
        match (&details.file, details.page) {
            (Some(file), Some(page)) => write!(f, " (file {file}, page {page})")?,
            (Some(file), None) => write!(f, " (file {file})")?,
            (None, Some(page)) => write!(f, " (page {page})")?,
            (None, None) => {}
        }
        write!(f, ": {}", details.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Error({:?}: {self})", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source.as_deref().map(|source| source as _)
    }
}

impl From<Error> for io::Error {
    /// Of the kind that [`Error::io_kind`] says.
    fn from(error: Error) -> Self {
        Self::new(error.io_kind(), error)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn the_error_below_is_the_operating_systems_own() {
        let error = Error::from_io("read page", io::Error::from_raw_os_error(libc::ENOSPC));
        let below = error.source().and_then(<dyn std::error::Error>::downcast_ref::<io::Error>);
        assert_eq!(below.and_then(io::Error::raw_os_error), Some(libc::ENOSPC));
    }
}
