//! Where an operation that no call waits for leaves its outcome.
//!
//! One side is the operation, which ends on any thread. The other side is a future, which may be polled at
//! any time or dropped, or a thread that waits in the end. An outcome that nobody wants any more is not
//! made, or is dropped together with the future. So nothing is held for a future that is gone.

use crate::sync::{Condvar, Mutex};
use crate::wakers::PoolWaker;

/// The meeting place; shared by both sides.
pub(crate) struct Landing<T> {
    state: Mutex<LandingSlot<T>>,
    landed: Condvar,
}

struct LandingSlot<T> {
    outcome: Option<T>,
    /// Woken when the outcome is there.
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

    /// Ends the operation. Calls `outcome` only if somebody wants the outcome. The waker that is returned
    /// must be handed over.
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

    /// Waits for the outcome. Only one thread may do so.
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

    /// The outcome, if it is there. Otherwise the waker that `adopt` makes, if any, is woken when it is.
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

    /// Nobody will ask for the outcome again.
    pub fn abandon(&self) {
        let unwanted = {
            let mut state = self.state.lock();
            state.abandoned = true;
            (state.outcome.take(), state.waker.take())
        };
        drop(unwanted);
    }
}
