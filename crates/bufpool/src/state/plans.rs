//! Whose turn it is to begin reads ahead.
//!
//! Plans of reads are made under the policy lock and carried out without it: by the thread that has made
//! them, or, while enough transfers are in flight, by the next one that completes. A reader and a completion
//! do two things each, with a fence in between: the reader notes that plans wait, then looks how many
//! transfers are in flight; the completion takes its own off their number, then looks whether plans wait. One
//! of them sees the other.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// With this many transfers in flight, a reader leaves it to the next completion to begin more.
pub(crate) const RUNS_ENOUGH: u64 = if cfg!(bufpool_loom) { 1 } else { 4 };

/// See the [module](self).
pub(crate) struct PlansWaiting {
    /// Something is to be read ahead. Changed under the policy lock, with the plans.
    are_any: AtomicBool,
    /// Transfers of prefetched pages in flight.
    runs: AtomicU64,
}

impl PlansWaiting {
    /// No plans, and nothing in flight.
    pub fn new() -> Self {
        Self { are_any: AtomicBool::new(false), runs: AtomicU64::new(0) }
    }

    /// Plans wait. The caller holds the policy lock, and has its turn later.
    pub fn note(&self) {
        self.are_any.store(true, Ordering::Relaxed);
    }

    /// The plans are about to be taken. The caller holds the policy lock until it has them.
    pub fn take(&self) {
        self.are_any.store(false, Ordering::Relaxed);
    }

    /// Whether plans wait.
    pub fn are_any(&self) -> bool {
        // Relaxed: who makes plans sees them itself, and others need not.
        self.are_any.load(Ordering::Relaxed)
    }

    /// Whether plans wait that are not left to the next completion.
    pub fn are_due(&self) -> bool {
        if !self.are_any() {
            return false;
        }
        // Pairs with the fence in `end_run`.
        fence(Ordering::SeqCst);
        self.runs.load(Ordering::Relaxed) < RUNS_ENOUGH
    }

    /// A transfer is about to begin.
    pub fn begin_run(&self) {
        self.runs.fetch_add(1, Ordering::Relaxed);
    }

    /// A transfer is over. A caller that goes on looks [whether plans wait](Self::are_any).
    pub fn end_run(&self) {
        self.runs.fetch_sub(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// How many transfers are in flight.
    #[cfg(all(test, not(bufpool_loom)))]
    pub fn runs(&self) -> u64 {
        self.runs.load(Ordering::Relaxed)
    }
}
