//! The backend on a device.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::SimDevice;
use super::file::{Executed, SimFile};
use crate::io::backend::Backend;
use crate::io::elsewhere::{self, Elsewhere};
use crate::io::error::IoError;
use crate::io::group::Group;
use crate::io::report::IoReport;
use crate::io::request::{Action, Request, SourceRef};

/// The backend on a [`SimDevice`].
///
/// Effects happen when a request is submitted, in the submitting thread. The results of requests that are
/// not waited for are told by a thread of the device, after their latency; by the submitting thread if the
/// device can have no thread.
pub(crate) struct Sim {
    device: SimDevice,
    teller: Arc<Teller>,
    /// Requests that are not for files of a device.
    elsewhere: Arc<Elsewhere>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Requests that are done and whose completion is not called yet.
struct Teller {
    state: Mutex<TellerState>,
    work: Condvar,
    idle: Condvar,
}

#[derive(Default)]
struct TellerState {
    done: Vec<Untold>,
    telling: bool,
    closing: bool,
}

/// An executed request with what has to become of it.
struct Untold {
    request: Request,
    executed: Executed,
}

impl Sim {
    /// Opens the device.
    pub(crate) fn new(device: &SimDevice) -> Self {
        let teller = Arc::new(Teller { state: Mutex::default(), work: Condvar::new(), idle: Condvar::new() });
        Self { device: device.clone(), teller, elsewhere: Arc::default(), thread: Mutex::new(None) }
    }

    /// Executes a batch in a random order. Requests for files of no device are left to their sources.
    fn execute_all(&self, requests: &mut Vec<Request>) -> Vec<Untold> {
        self.device.state.lock().random.shuffle(requests);
        let mut done = Vec::new();
        for request in requests.drain(..) {
            match SimFile::of(&*request.source).map(|file| file.execute(&request.action)) {
                Some(executed) => done.push(Untold { request, executed }),
                None => self.elsewhere.begin(request),
            }
        }
        done
    }

    /// Starts the thread that tells results, once. False if no thread can be had.
    fn has_thread(&self) -> bool {
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let teller = Arc::clone(&self.teller);
            *thread = std::thread::Builder::new().name("bufpool-sim".into()).spawn(move || teller.run()).ok();
        }
        thread.is_some()
    }
}

impl Teller {
    /// Tells results, those with the least latency first among the ones that are there.
    fn run(&self) {
        let mut state = self.state.lock();
        loop {
            let batch = std::mem::take(&mut state.done);
            if batch.is_empty() {
                state.telling = false;
                self.idle.notify_all();
                if state.closing {
                    return;
                }
                self.work.wait(&mut state);
                continue;
            }
            state.telling = true;
            parking_lot::MutexGuard::unlocked(&mut state, || Untold::tell_all(batch));
        }
    }
}

impl Untold {
    /// Tells each result after its latency, counted from now.
    fn tell_all(mut batch: Vec<Self>) {
        batch.sort_by_key(|done| done.executed.latency);
        let mut waited = Duration::ZERO;
        for done in batch {
            std::thread::sleep(done.executed.latency - waited);
            waited = done.executed.latency;
            done.tell();
        }
    }

    fn tell(self) {
        let Self { request, executed: Executed { result, events, latency: _ } } = self;
        if let Some(file) = SimFile::of(&*request.source) {
            file.mark_completed(&events);
        }
        request.complete(result);
    }
}

impl Backend for Sim {
    fn register_memory(&self, _start: NonNull<u8>, _bytes: usize) {}

    fn submit(&self, requests: &mut Vec<Request>) {
        if requests.is_empty() {
            return;
        }
        let done = self.execute_all(requests);
        if !self.has_thread() {
            return Untold::tell_all(done);
        }
        self.teller.state.lock().done.extend(done);
        self.teller.work.notify_one();
    }

    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group) {
        let done = self.execute_all(requests);
        // The operations overlap, so together they take as long as the slowest.
        std::thread::sleep(done.iter().map(|done| done.executed.latency).max().unwrap_or_default());
        done.into_iter().for_each(Untold::tell);
        group.wait();
    }

    fn run(&self, source: &SourceRef, action: Action) -> Result<(), IoError> {
        let Some(file) = SimFile::of(&**source) else { return elsewhere::run(source, action) };
        let Executed { result, events, latency } = file.execute(&action);
        std::thread::sleep(latency);
        file.mark_completed(&events);
        result
    }

    fn drain(&self) {
        let mut state = self.teller.state.lock();
        while state.telling || !state.done.is_empty() {
            self.teller.idle.wait(&mut state);
        }
        drop(state);
        self.elsewhere.drain();
    }

    fn report(&self) -> IoReport {
        IoReport { backend: "sim", features: vec![format!("{:?}", self.device)], steps_down: Vec::new() }
    }
}

impl fmt::Debug for Sim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sim").field("device", &self.device).finish_non_exhaustive()
    }
}

impl Drop for Sim {
    /// Tells what is not told yet. The telling thread itself may be the one that drops the backend.
    fn drop(&mut self) {
        self.teller.state.lock().closing = true;
        self.teller.work.notify_all();
        if let Some(thread) = self.thread.lock().take()
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}
