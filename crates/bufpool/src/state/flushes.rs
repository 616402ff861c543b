//! Flushes that were asked for and not waited for: the queue of the thread that makes them, and their
//! outcomes.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::wakers::PoolWaker;

/// The flushes of a pool that were begun.
#[derive(Default)]
pub(crate) struct Flushes {
    queue: Mutex<FlushQueue>,
}

#[derive(Default)]
struct FlushQueue {
    waiting: Vec<FlushRequest>,
    /// The thread that works on the queue, or has ended when it was empty.
    thread: Option<JoinHandle<()>>,
    /// It takes what is put into the queue.
    is_running: bool,
    /// Somebody waits for the queue to be empty, so nothing is put into it.
    is_finishing: bool,
}

/// A file to be flushed. If it is dropped before its outcome is there, nobody waits for ever.
pub(crate) struct FlushRequest {
    pub file: Arc<FileShared>,
    outcome: Arc<FlushOutcome>,
}

/// Where the outcome of a flush is left, to be taken once.
#[derive(Default)]
pub(crate) struct FlushOutcome {
    slot: Mutex<FlushSlot>,
    landed: Condvar,
}

#[derive(Default)]
struct FlushSlot {
    outcome: Option<Result<()>>,
    is_landed: bool,
    /// Whom to wake.
    waker: Option<PoolWaker>,
}

impl Flushes {
    /// Puts a request into the queue. `spawn` starts the thread if there is none that works on it. If it
    /// cannot, or the queue is to become empty, the request comes back.
    pub fn add(
        &self,
        request: FlushRequest,
        spawn: impl FnOnce() -> Option<JoinHandle<()>>,
    ) -> Option<FlushRequest> {
        let mut queue = self.queue.lock();
        if queue.is_finishing {
            return Some(request);
        }
        if !queue.is_running {
            // The one before has seen the queue empty, and takes no lock any more.
            queue.thread.take().map(JoinHandle::join);
            let Some(thread) = spawn() else { return Some(request) };
            queue.thread = Some(thread);
            queue.is_running = true;
        }
        queue.waiting.push(request);
        None
    }

    /// All requests for the file whose turn it is: one flush that begins now is for all of them. None, and
    /// the thread ends, if there are none.
    pub fn next(&self) -> Option<Vec<FlushRequest>> {
        let mut queue = self.queue.lock();
        let Some(first) = queue.waiting.first() else {
            queue.is_running = false;
            return None;
        };
        let id = first.file.id;
        let waiting = std::mem::take(&mut queue.waiting).into_iter();
        let (now, later) = waiting.partition(|request| request.file.id == id);
        queue.waiting = later;
        Some(now)
    }

    /// The thread has panicked, and ends without another lock: those that wait are told, and the next request
    /// gets another thread.
    pub fn give_up(&self) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.is_running = false;
            std::mem::take(&mut queue.waiting)
        };
        drop(waiting);
    }

    /// Waits until all flushes that were begun are over.
    pub fn finish(&self) {
        let thread = {
            let mut queue = self.queue.lock();
            queue.is_finishing = true;
            queue.thread.take()
        };
        // The thread may run code of the engine, which may have a handle of the pool.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
        self.queue.lock().is_finishing = false;
    }
}

impl FlushRequest {
    /// Of this file, with the place of its outcome.
    pub fn new(file: Arc<FileShared>) -> (Self, Arc<FlushOutcome>) {
        let outcome = Arc::<FlushOutcome>::default();
        (Self { file, outcome: Arc::clone(&outcome) }, outcome)
    }

    /// The flush is over.
    pub fn land(self, outcome: Result<()>) {
        self.outcome.land(outcome);
    }
}

impl Drop for FlushRequest {
    fn drop(&mut self) {
        if !self.outcome.slot.lock().is_landed {
            let error = Error::new(ErrorKind::Io, "flush file", "the thread that flushes has panicked");
            self.outcome.land(Err(error.in_file(&self.file.name)));
        }
    }
}

impl FlushOutcome {
    fn land(&self, outcome: Result<()>) {
        let waker = {
            let mut slot = self.slot.lock();
            slot.is_landed = true;
            slot.outcome = Some(outcome);
            slot.waker.take()
        };
        self.landed.notify_all();
        waker.into_iter().for_each(PoolWaker::hand_over);
    }

    /// Waits for it.
    pub fn wait(&self) -> Result<()> {
        let mut slot = self.slot.lock();
        loop {
            if let Some(outcome) = slot.outcome.take() {
                return outcome;
            }
            assert!(!slot.is_landed, "waited for once more");
            self.landed.wait(&mut slot);
        }
    }

    /// It, if it is there; otherwise what `adopt` makes, if anything, is woken when it is.
    pub fn poll(&self, adopt: impl FnOnce() -> Option<PoolWaker>) -> Option<Result<()>> {
        let landed = self.slot.lock().outcome.take();
        if landed.is_some() {
            return landed;
        }
        let waker = adopt()?;
        let (outcome, displaced) = {
            let mut slot = self.slot.lock();
            match slot.outcome.take() {
                Some(outcome) => (Some(outcome), Some(waker)),
                None => (None, slot.waker.replace(waker)),
            }
        };
        drop(displaced);
        outcome
    }

    /// Nobody will ask.
    pub fn abandon(&self) {
        let displaced = self.slot.lock().waker.take();
        drop(displaced);
    }
}
