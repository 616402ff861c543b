//! Which file it is, whatever its name.

use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

/// Which file it is, whatever name it was opened by. A pool opens one only once.
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
    /// The file of an engine's source: a number that no other source has which is open in the same pool, such
    /// as a hash of the place that its pages have, or random bits. Never the identity of a local file.
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
