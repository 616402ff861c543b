//! How far the hits that threads note have been applied.

use bufpool_policies::TenantId;

use crate::hits::filter::{Epochs, HitFilter};
use crate::thread::keys::KEYS;

/// Which hits are noted, and what was noted so far.
pub(crate) struct NotedHits {
    pub(super) filter: HitFilter,
    pub(super) epochs: Epochs,
    /// Hits that were noted one by one.
    pub count: u64,
    /// How many threads of the process had ended when no thread that had ended had a log left in the pool.
    pub threads_ended: u64,
    /// Scratch space of `count_skipped`, kept to save allocations; empty between calls.
    pub(super) skipped: Vec<(TenantId, u64)>,
}

impl NotedHits {
    /// In a pool whose policies fill `frames`.
    pub(super) fn new(filter: HitFilter, frames: u32) -> Self {
        let skipped = Vec::with_capacity(KEYS);
        Self { filter, epochs: Epochs::new(frames), count: 0, threads_ended: 0, skipped }
    }
}
