//! The files of the operating system, for a pool: opened, and made known to the pool's backend.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use super::LocalFile;
use crate::io::backend::Backend;
use crate::io::identity::FileIdentity;
use crate::io::open::{FileOpen, OpenError, Opener};
use crate::io::source::Source;

/// Opens files for a backend that moves the bytes of local files.
#[derive(Debug)]
pub(crate) struct LocalFiles {
    backend: Arc<dyn Backend>,
    /// Reads in flight with which the device of these files is saturated.
    saturation_depth: u32,
}

impl LocalFiles {
    pub(crate) fn new(backend: Arc<dyn Backend>, saturation_depth: u32) -> Self {
        Self { backend, saturation_depth }
    }

    fn make_known(&self, file: LocalFile) -> Arc<dyn Source> {
        let file = file.saturated_at(self.saturation_depth);
        self.backend.register_file(&file);
        Arc::new(file)
    }
}

impl Opener for LocalFiles {
    fn identify(&self, path: &Path) -> Option<FileIdentity> {
        std::fs::metadata(path).ok().as_ref().map(FileIdentity::of)
    }

    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        LocalFile::open(path, how).map(|file| self.make_known(file))
    }

    fn adopt(&self, fd: OwnedFd, how: &FileOpen) -> Result<Arc<dyn Source>, OpenError> {
        LocalFile::adopt(fd, how).map(|file| self.make_known(file))
    }
}
