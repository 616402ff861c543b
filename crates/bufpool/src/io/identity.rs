//! Which file it is, whatever its name.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Which file it is, whatever name it was opened by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct FileIdentity {
    pub(super) device: u64,
    pub(super) inode: u64,
}

impl FileIdentity {
    /// The file that `metadata` describes.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self { device: metadata.rdev(), inode: 0 }
        } else {
            Self { device: metadata.dev(), inode: metadata.ino() }
        }
    }
}

impl std::fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "inode {} of device {:#x}", self.inode, self.device)
    }
}
