//! What an engine asks of I/O: which backend, and whether files bypass the page cache.

/// Which I/O backend a pool uses.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Io {
    /// io_uring where the kernel allows it, otherwise threads; [`Pool::io`](crate::Pool::io) says which, and why.
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

/// Whether files bypass the operating system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Direct {
    /// Where the file system and the page size allow it; [`Pool::io`](crate::Pool::io) says where it was not possible.
    #[default]
    Prefer,
    /// Always, or an error when a file is opened.
    Require,
    /// Never.
    Off,
}
