//! Where an operation that nobody's stack waits for leaves its outcome.
//!
//! One side is the operation, which ends on any thread; the other a future, which may be asked at any time,
//! or dropped, or a thread that waits in the end. An outcome that nobody wants any more is not made, or
//! dropped by the future; so once a future is gone, nothing is held for it.

use crate::sync::{Condvar, Mutex};
use crate::wakers::PoolWaker;

/// The meeting place; shared by both sides.
pub(crate) struct Landing<T> {
    state: Mutex<LandingSlot<T>>,
    landed: Condvar,
}

struct LandingSlot<T> {
    outcome: Option<T>,
    /// Whom to wake.
    waker: Option<PoolWaker>,
    /// A thread waits.
    is_waited_for: bool,
    abandoned: bool,
}

impl<T> Default for LandingSlot<T> {
    fn default() -> Self {
        Self { outcome: None, waker: None, is_waited_for: false, abandoned: false }
    }
}

impl<T> Landing<T> {
    pub fn new() -> Self {
        Self { state: Mutex::default(), landed: Condvar::default() }
    }

    /// The operation is over. Its outcome is made only if somebody wants it; the waker is to be handed over.
    #[must_use = "somebody waits"]
    pub fn land(&self, outcome: impl FnOnce() -> T) -> Option<PoolWaker> {
        let mut state = self.state.lock();
        if state.abandoned {
            return None;
        }
        state.outcome = Some(outcome());
        if state.is_waited_for {
            self.landed.notify_all();
        }
        state.waker.take()
    }

    /// Waits for the outcome, which nobody else takes.
    pub fn wait(&self) -> T {
        let mut state = self.state.lock();
        state.is_waited_for = true;
        loop {
            if let Some(outcome) = state.outcome.take() {
                return outcome;
            }
            state = self.landed.wait(state, None);
        }
    }

    /// The outcome, if it is there; otherwise what `adopt` makes, if anything, is woken when it is.
    pub fn poll(&self, adopt: impl FnOnce() -> Option<PoolWaker>) -> Option<T> {
        let landed = self.state.lock().outcome.take();
        if landed.is_some() {
            return landed;
        }
        let waker = adopt()?;
        let (outcome, displaced) = {
            let mut state = self.state.lock();
            match state.outcome.take() {
                Some(outcome) => (Some(outcome), Some(waker)),
                None => (None, state.waker.replace(waker)),
            }
        };
        drop(displaced);
        outcome
    }

    /// Nobody will ask again.
    pub fn abandon(&self) {
        let unwanted = {
            let mut state = self.state.lock();
            state.abandoned = true;
            (state.outcome.take(), state.waker.take())
        };
        drop(unwanted);
    }
}
