//! The length in bytes of a file that may end within a page.

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};

/// The length that the engine gave the file. On the device the file is this long after each flush; otherwise
/// it may have the whole last page.
pub(crate) struct ByteLength {
    bytes: AtomicU64,
    /// Space on the device is allocated up to this byte. Read and changed under `changing`.
    allocated: AtomicU64,
    /// Held while the device's length changes, with the lock of all operations on the length or that of syncs
    /// held before: a sync must not cut off what was just added.
    changing: Mutex<()>,
}

impl ByteLength {
    pub fn new(bytes: u64) -> Self {
        Self { bytes: AtomicU64::new(bytes), allocated: AtomicU64::new(bytes), changing: Mutex::default() }
    }

    pub fn get(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// For a caller that [holds](Self::hold) it.
    pub fn set(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
    }

    /// Up to which byte there is space for it.
    pub fn allocated(&self) -> u64 {
        self.allocated.load(Ordering::Relaxed)
    }

    /// The same, for a caller that [holds](Self::hold) it.
    pub fn set_allocated(&self, bytes: u64) {
        self.allocated.store(bytes, Ordering::Relaxed);
    }

    /// Keeps others from changing it, and the device's length.
    pub fn hold(&self) -> MutexGuard<'_, ()> {
        self.changing.lock()
    }
}
