//! The identity of files, whatever their names.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Tells files apart, whatever name they were opened by. A pool opens a file with a given identity only
/// once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity(Identity);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// As the kernel, or the simulated device, numbers them.
    Inode { device: u64, inode: u64 },
    /// As the engine numbers its sources.
    Number(u128),
}

impl FileIdentity {
    /// The identity of an engine's source: a number that no other source open in the same pool has, such as
    /// a hash of where its pages are stored, or random bits. It never equals the identity of a local file.
    pub fn from_number(number: u128) -> Self {
        Self(Identity::Number(number))
    }

    pub(super) fn from_inode(device: u64, inode: u64) -> Self {
        Self(Identity::Inode { device, inode })
    }

    /// The file that `metadata` describes.
    pub(crate) fn of(metadata: &Metadata) -> Self {
        if metadata.file_type().is_block_device() {
            Self::from_inode(metadata.rdev(), 0)
        } else {
            Self::from_inode(metadata.dev(), metadata.ino())
        }
    }
}

impl std::fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Identity::Inode { device, inode } => write!(f, "inode {inode} of device {device:#x}"),
            Identity::Number(number) => write!(f, "source {number:#x}"),
        }
    }
}
