//! What is asked of I/O: which backend, with what limits, and whether files bypass the page cache.

/// Which I/O backend a pool uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Io {
    /// io_uring where the kernel allows it, otherwise threads; [`Pool::io`](crate::Pool::io) says which, and
    /// why.
    #[default]
    Auto,
    /// This backend or an error at open.
    Require(IoBackend),
}

/// The I/O backends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum IoBackend {
    /// io_uring.
    Uring,
    /// Positioned reads and writes on a few threads.
    Threads,
}

/// Which lock keeps other programs from an open file. The pool takes it exclusively, or shared for a file
/// that is opened for reading only.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub enum FileLock {
    /// flock(2): seen by programs that use flock, and by other pools.
    #[default]
    Flock,
    /// A lock of the open file description on all of the file (fcntl(2), F_OFD_SETLK): seen by programs that
    /// use locks of fcntl, lockf among them, and by other pools with this option.
    Ofd,
    /// No lock: the engine has a lock of its own, or files that nobody else opens. Two pools that have the
    /// file open at the same time destroy it.
    None,
}

/// Whether files bypass the operating system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Direct {
    /// Where the file system and the page size allow it; [`Pool::io`](crate::Pool::io) says where it was not
    /// possible.
    #[default]
    Prefer,
    /// Always, or an error when a file is opened.
    Require,
    /// Never.
    Off,
}

/// How to start a backend.
#[derive(Clone, Debug)]
pub(crate) struct IoOptions {
    /// Which one.
    pub(crate) io: Io,
    /// Most operations in flight per ring; from 1 to 4,096.
    pub(crate) depth: u32,
    /// Let a kernel thread pick up submissions; it sleeps after this many idle milliseconds.
    pub(crate) sqpoll_idle_ms: Option<u32>,
    /// Poll the device for completions instead of taking interrupts. Direct I/O only.
    pub(crate) iopoll: bool,
    /// Most threads of the `threads` backend.
    pub(crate) threads_max: usize,
    /// Reads in flight with which the device of local files is saturated, so that tenants take turns; from 1
    /// to 4,096.
    pub(crate) saturation_depth: u32,
    /// Behave as if the kernel refused io_uring. Also set by the environment variable
    /// `BUFPOOL_REFUSE_URING` (any value but `0`), for tests.
    pub(crate) refuse_uring: bool,
}

impl IoOptions {
    /// The default of [`IoOptions::saturation_depth`].
    pub(super) const SATURATION_DEPTH: u32 = 32;
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            io: Io::Auto,
            depth: 256,
            sqpoll_idle_ms: None,
            iopoll: false,
            threads_max: 16,
            saturation_depth: Self::SATURATION_DEPTH,
            refuse_uring: refused("BUFPOOL_REFUSE_URING"),
        }
    }
}

/// True if the environment variable `name` asks for a refusal.
pub(crate) fn refused(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value != "0" && !value.is_empty())
}
