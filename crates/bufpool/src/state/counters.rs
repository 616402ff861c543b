//! Counts that the directory does not keep.

use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam::utils::CachePadded;

use crate::sharded::{STRIPES, stripe};

/// Counts that the directory does not keep.
#[derive(Default)]
pub(crate) struct Counters {
    pub reads: Striped,
    pub writes: AtomicU64,
    pub miss_writes: AtomicU64,
    pub creations: AtomicU64,
    pub waited: AtomicU64,
    pub read_failures: AtomicU64,
    pub write_failures: AtomicU64,
    pub log_failures: AtomicU64,
    pub dirty_frames: AtomicU64,
    /// Pages that left memory, by [reason](crate::state::departing::Reason).
    pub left_clean: Striped,
    pub left_written: AtomicU64,
    pub left_dropped: AtomicU64,
    pub prefetch_issued: AtomicU64,
    pub prefetch_late: AtomicU64,
    pub prefetch_failed: AtomicU64,
    /// Prefetches that ended because clean frames were scarce.
    pub prefetch_scarce: AtomicU64,
}

/// A count that each miss adds to. Threads add to different parts of it, so that those that miss at a time do
/// not take a cache line from each other.
#[derive(Default)]
pub(crate) struct Striped([CachePadded<AtomicU64>; STRIPES]);

impl Striped {
    /// Adds to the part of the calling thread.
    #[inline]
    pub fn add(&self, count: u64) {
        self.0[stripe()].fetch_add(count, Ordering::Relaxed);
    }

    /// What was added so far.
    pub fn load(&self) -> u64 {
        self.0.iter().map(|part| part.load(Ordering::Relaxed)).sum()
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_threads_add_is_one_count() {
        let count = Striped::default();
        std::thread::scope(|scope| {
            for _ in 0..2 * STRIPES {
                scope.spawn(|| (0..100).for_each(|_| count.add(3)));
            }
        });
        assert_eq!(count.load(), 2 * STRIPES as u64 * 300);
    }
}
