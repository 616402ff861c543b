//! Requests that one thread waits for together.

use std::sync::Arc;

use bufpool_policies::TenantId;
use parking_lot::{Condvar, Mutex};

use super::error::IoError;
use super::request::{Action, Completion, Request, SourceRef};

/// A number of requests that one thread waits for together.
///
/// It is a [`Completion`] itself, for requests whose results need nothing done at once. A completion
/// of another type reports to a group by calling [`Completion::complete`] on it in its turn.
#[derive(Debug)]
pub(crate) struct Group {
    state: Mutex<GroupState>,
    changed: Condvar,
}

#[derive(Debug)]
struct GroupState {
    pending: usize,
    failures: Vec<(u64, IoError)>,
    /// Tokens of requests that succeeded, where somebody asks.
    successes: Option<Vec<u64>>,
}

impl Group {
    /// A group that is done when `requests` of its requests are.
    pub(crate) fn new(requests: usize) -> Arc<Self> {
        Self::with_state(GroupState { pending: requests, failures: Vec::new(), successes: None })
    }

    /// A group for a [stream](super::Backend::stream), which notes successes as well. The stream announces
    /// its requests by [`expect`](Group::expect) as it makes them.
    pub(crate) fn for_stream() -> Arc<Self> {
        Self::with_state(GroupState { pending: 0, failures: Vec::new(), successes: Some(Vec::new()) })
    }

    fn with_state(state: GroupState) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The group is done when `requests` more are.
    pub(crate) fn expect(&self, requests: usize) {
        self.state.lock().pending += requests;
    }

    /// True if nothing is pending.
    #[cfg(test)]
    pub(crate) fn is_done(&self) -> bool {
        self.state.lock().pending == 0
    }

    /// Waits until nothing is pending, leaving the work to others.
    pub(crate) fn wait(&self) {
        let mut state = self.state.lock();
        while state.pending > 0 {
            self.changed.wait(&mut state);
        }
    }

    /// The failures so far, with their tokens, in order of arrival; the group forgets them.
    pub(crate) fn take_failures(&self) -> Vec<(u64, IoError)> {
        std::mem::take(&mut self.state.lock().failures)
    }

    /// Adds to `successes` the tokens of what succeeded since the last call, which the group forgets.
    pub(crate) fn take_successes(&self, successes: &mut Vec<u64>) {
        if let Some(noted) = &mut self.state.lock().successes {
            successes.append(noted);
        }
    }
}

/// One request, started by `start` and waited for.
pub(super) fn run_one(
    source: &SourceRef,
    action: Action,
    tenant: Option<TenantId>,
    start: impl FnOnce(Request),
) -> Result<(), IoError> {
    let group = Group::new(1);
    let completion = Arc::clone(&group) as Arc<dyn Completion>;
    start(Request { source: source.clone(), action, tenant, token: 0, completion });
    group.wait();
    group.take_failures().pop().map_or(Ok(()), |(_, error)| Err(error))
}

impl Completion for Group {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        let mut state = self.state.lock();
        match (result, &mut state.successes) {
            (Err(error), _) => state.failures.push((token, error)),
            (Ok(()), Some(successes)) => successes.push(token),
            (Ok(()), None) => {}
        }
        state.pending = state.pending.checked_sub(1).expect("a group completes each request once");
        if state.pending == 0 {
            self.changed.notify_all();
        }
    }
}
