//! Starting backends.

use std::io;
use std::sync::Arc;

use super::backend::Backend;
use super::local::opener::LocalFiles;
use super::open::Opener;
use super::options::{Io, IoBackend, IoOptions};
use super::threads::Threads;
use super::uring::{self, Uring};

/// What a pool needs to have files: who opens them, and who moves their bytes.
#[derive(Clone, Debug)]
pub(crate) struct Started {
    pub(crate) opener: Arc<dyn Opener>,
    pub(crate) backend: Arc<dyn Backend>,
}

/// Starts the backend that `options` ask for, for files of the operating system.
///
/// # Errors
///
/// The reason if the required backend is impossible. With [`Io::Auto`] there always is a backend, so this
/// cannot fail.
pub(crate) fn start(options: &IoOptions) -> io::Result<Started> {
    let backend = start_backend(options)?;
    let opener = LocalFiles::new(Arc::clone(&backend), options.saturation_depth);
    Ok(Started { opener: Arc::new(opener), backend })
}

fn start_backend(options: &IoOptions) -> io::Result<Arc<dyn Backend>> {
    let threads = |steps_down| Arc::new(Threads::new(options, steps_down));
    match options.io {
        Io::Require(IoBackend::Threads) => Ok(threads(Vec::new())),
        Io::Require(IoBackend::Uring) => start_uring(options),
        Io::Auto => start_uring(options).or_else(|error| Ok(threads(vec![uring::refusal(&error)]) as _)),
    }
}

fn start_uring(options: &IoOptions) -> io::Result<Arc<dyn Backend>> {
    if options.refuse_uring {
        let why = "refused by an option or by BUFPOOL_REFUSE_URING";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    Ok(Arc::new(Uring::new(options)?))
}

/// The files of a simulated device, and the backend that moves their bytes.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn start_sim(device: &super::sim::SimDevice) -> Started {
    let backend = Arc::new(super::sim::backend::Sim::new(device));
    Started { opener: Arc::new(device.clone()), backend }
}
