//! The calls of a tier that are running, and their end.
//!
//! A thread that calls a tier, and one that detaches the pool from it, do two things each, with a fence in
//! between: the caller counts its call, then looks whether calls are over; the other says that they are, then
//! looks at the count. One of them sees the other.

use crate::sync::{AtomicBool, AtomicU64, Ordering, fence};

/// See the [module](self).
pub(crate) struct Calls {
    running: AtomicU64,
    /// No call may begin any more.
    are_over: AtomicBool,
}

/// A call that is running as long as this lives.
pub(crate) struct Call<'c>(&'c Calls);

impl Calls {
    pub fn new() -> Self {
        Self { running: AtomicU64::new(0), are_over: AtomicBool::new(false) }
    }

    /// Begins a call; none if calls are over.
    pub fn begin(&self) -> Option<Call<'_>> {
        self.running.fetch_add(1, Ordering::Relaxed);
        let call = Call(self);
        // Pairs with the fence in `end`.
        fence(Ordering::SeqCst);
        (!self.are_over.load(Ordering::Relaxed)).then_some(call)
    }

    /// No call begins from here on. False if they were over before.
    pub fn end(&self) -> bool {
        let is_first = !self.are_over.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        is_first
    }

    /// Whether calls are running. If not, after [`end`](Self::end), what they did is over for the caller.
    pub fn are_running(&self) -> bool {
        // Acquire pairs with the release at the end of each call.
        self.running.load(Ordering::Acquire) > 0
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Release);
    }
}
