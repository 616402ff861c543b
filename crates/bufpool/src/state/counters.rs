//! Counts that the directory does not keep.

use std::sync::atomic::AtomicU64;

/// Counts that the directory does not keep.
#[derive(Default)]
pub(crate) struct Counters {
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    pub miss_writes: AtomicU64,
    pub creations: AtomicU64,
    pub waited: AtomicU64,
    pub write_failures: AtomicU64,
    pub log_failures: AtomicU64,
    pub dirty_frames: AtomicU64,
    /// Pages that left memory, by [reason](crate::state::departing::Reason).
    pub left_clean: AtomicU64,
    pub left_written: AtomicU64,
    pub left_dropped: AtomicU64,
    pub prefetch_issued: AtomicU64,
    pub prefetch_failed: AtomicU64,
    /// Prefetches that ended because clean frames were scarce.
    pub prefetch_scarce: AtomicU64,
}
