//! Flushes that were asked for and not waited for: the queue of the thread that makes them, and their
//! outcomes.

use std::sync::Arc;
use std::thread::JoinHandle;

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::landing::Landing;
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
    /// The file's [losses](FileShared::losses) when the flush was asked for.
    pub since: u64,
    /// Where the outcome is left; none once it is.
    landing: Option<Arc<Landing<Result<()>>>>,
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
        let key = |request: &FlushRequest| (request.file.id, request.since);
        let first = key(first);
        let waiting = std::mem::take(&mut queue.waiting).into_iter();
        let (now, later) = waiting.partition(|request| key(request) == first);
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
    pub fn new(file: Arc<FileShared>) -> (Self, Arc<Landing<Result<()>>>) {
        let landing = Arc::new(Landing::new());
        (Self { since: file.losses(), file, landing: Some(Arc::clone(&landing)) }, landing)
    }

    /// The flush is over.
    pub fn land(mut self, outcome: Result<()>) {
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Result<()>) {
        let waker = self.landing.take().and_then(|landing| landing.land(|| outcome));
        waker.into_iter().for_each(PoolWaker::hand_over);
    }
}

impl Drop for FlushRequest {
    fn drop(&mut self) {
        if self.landing.is_some() {
            let error = Error::new(ErrorKind::Io, "flush file", "the thread that flushes has panicked");
            self.leave(Err(error.in_file(&self.file.name)));
        }
    }
}
