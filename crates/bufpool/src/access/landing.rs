//! Where an operation that nobody's stack waits for leaves its outcome.
//!
//! One side is the operation, which ends on any thread; the other a future, which may be asked at any time, or dropped. An outcome that
//! nobody wants any more is not made, or dropped by the future; so once a future is gone, nothing is held for it.

use std::task::Waker;

use crate::sync::Mutex;

/// The meeting place; shared by both sides.
pub(crate) struct Landing<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    outcome: Option<T>,
    /// Whom to wake.
    waker: Option<Waker>,
    abandoned: bool,
}

impl<T> Default for State<T> {
    fn default() -> Self {
        Self { outcome: None, waker: None, abandoned: false }
    }
}

impl<T> Landing<T> {
    pub fn new() -> Self {
        Self { state: Mutex::default() }
    }

    /// The operation is over. Its outcome is made only if somebody wants it; the waker is to be woken.
    #[must_use = "somebody waits"]
    pub fn land(&self, outcome: impl FnOnce() -> T) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.abandoned {
            return None;
        }
        state.outcome = Some(outcome());
        state.waker.take()
    }

    /// The outcome, if it is there; otherwise `waker` is woken when it is.
    pub fn poll(&self, waker: &Waker) -> Option<T> {
        let mut state = self.state.lock();
        let outcome = state.outcome.take();
        if outcome.is_none() {
            match &mut state.waker {
                Some(known) => known.clone_from(waker),
                none => *none = Some(waker.clone()),
            }
        }
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
