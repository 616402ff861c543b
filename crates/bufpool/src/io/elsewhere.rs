//! Requests that a backend leaves to their sources, because it does not know how to move their bytes.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::done;
use super::error::IoError;
use super::group::run_one;
use super::request::{Action, Completion, Request, SourceRef};

/// Counts what sources are doing, so that it can be waited for.
#[derive(Debug, Default)]
pub(super) struct Elsewhere {
    in_flight: Mutex<usize>,
    idle: Condvar,
}

/// A request that is counted until it has been told.
struct Counted {
    completion: Arc<dyn Completion>,
    elsewhere: Arc<Elsewhere>,
}

impl Elsewhere {
    /// Lets the source of `request` do it. Its completion may be called before this returns.
    pub(super) fn begin(self: &Arc<Self>, mut request: Request) {
        *self.in_flight.lock() += 1;
        let completion = Arc::clone(&request.completion);
        request.completion = Arc::new(Counted { completion, elsewhere: Arc::clone(self) });
        done::begin(request);
    }

    /// Waits until sources have ended all that they were given.
    pub(super) fn drain(&self) {
        let mut in_flight = self.in_flight.lock();
        while *in_flight > 0 {
            self.idle.wait(&mut in_flight);
        }
    }
}

impl Completion for Counted {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        self.completion.complete(token, result);
    }
}

impl Drop for Counted {
    /// Comes after the completion.
    fn drop(&mut self) {
        let mut in_flight = self.elsewhere.in_flight.lock();
        *in_flight -= 1;
        if *in_flight == 0 {
            self.elsewhere.idle.notify_all();
        }
    }
}

/// Lets `source` do one thing and waits for it.
pub(super) fn run(source: &SourceRef, action: Action) -> Result<(), IoError> {
    run_one(source, action, None, done::begin)
}
