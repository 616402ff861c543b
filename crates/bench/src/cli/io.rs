//! How data files are opened, and which backend reads them.

use bufpool::{Io, IoBackend};
use clap::ValueEnum;

/// Whether data files bypass the operating system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Direct {
    /// Direct I/O where the file system can, buffered elsewhere.
    Prefer,
    /// Direct I/O, or an error.
    Require,
    /// Buffered I/O.
    Off,
}

impl Direct {
    /// The pool's option of this name.
    pub fn option(self) -> bufpool::Direct {
        match self {
            Self::Prefer => bufpool::Direct::Prefer,
            Self::Require => bufpool::Direct::Require,
            Self::Off => bufpool::Direct::Off,
        }
    }
}

/// I/O backends, as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Backend {
    /// io_uring where the kernel allows it, else threads
    Auto,
    /// io_uring, or an error
    Uring,
    /// Positioned reads and writes on threads
    Threads,
}

impl Backend {
    /// The pool's option of this name.
    pub fn io(self) -> Io {
        match self {
            Self::Auto => Io::Auto,
            Self::Uring => Io::Require(IoBackend::Uring),
            Self::Threads => Io::Require(IoBackend::Threads),
        }
    }
}
