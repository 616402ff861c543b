//! The `threads` backend: positioned reads and writes on a few threads.
//!
//! For kernels and containers that refuse io_uring. A single operation that is waited for is done by the
//! caller. All others go through one queue to at most `threads_max` threads, which are started when they are
//! first needed. So the device sees at most that many operations at a time, besides those of callers.

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::JoinHandle;

use bufpool_policies::TenantId;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::backend::Backend;
use super::elsewhere::{self, Elsewhere};
use super::error::IoError;
use super::fair::{FairQueue, cost_of};
use super::group::{Group, run_one};
use super::local::LocalFile;
use super::options::IoOptions;
use super::report::IoReport;
use super::request::{Action, Request, SourceRef};
use super::source::Source;
use super::transfer;

/// See the [module](self).
pub(crate) struct Threads {
    shared: Arc<WorkerPool>,
    steps_down: Vec<String>,
}

/// What the worker threads see.
struct WorkerPool {
    threads_max: usize,
    state: Mutex<WorkQueues>,
    /// There is work, or the backend is closing.
    work: Condvar,
    /// Nothing is queued or being done.
    idle: Condvar,
    /// Requests that are not for local files.
    elsewhere: Arc<Elsewhere>,
}

struct WorkQueues {
    /// All requests but reads of tenants. They are done before such reads, because there are never many of
    /// them.
    queue: VecDeque<Request>,
    reads: FairQueue<Request>,
    /// Requests that have ever been queued.
    queued: u64,
    /// Requests that a worker, or a caller in [`Threads::submit_and_wait`], is doing now.
    running: usize,
    /// Workers waiting for work.
    waiting: usize,
    closing: bool,
    workers: Vec<JoinHandle<()>>,
}

impl Threads {
    /// A backend with at most `options.threads_max` threads (at least 1). `steps_down` goes into its report.
    pub(crate) fn new(options: &IoOptions, steps_down: Vec<String>) -> Self {
        let state = WorkQueues {
            queue: VecDeque::new(),
            reads: FairQueue::new(),
            queued: 0,
            running: 0,
            waiting: 0,
            closing: false,
            workers: Vec::new(),
        };
        let shared = WorkerPool {
            threads_max: options.threads_max.max(1),
            state: Mutex::new(state),
            work: Condvar::new(),
            idle: Condvar::new(),
            elsewhere: Arc::default(),
        };
        Self { shared: Arc::new(shared), steps_down }
    }

    /// How many requests have ever been queued for its threads.
    pub(super) fn queued(&self) -> u64 {
        self.shared.state.lock().queued
    }
}

impl Backend for Threads {
    fn register_memory(&self, _start: NonNull<u8>, _bytes: usize) {}

    fn register_file(&self, file: &LocalFile) {
        self.shared.state.lock().reads.add_source(&file.capabilities());
    }

    fn submit(&self, requests: &mut Vec<Request>) {
        self.shared.begin_elsewhere(requests);
        if !requests.is_empty() {
            self.shared.enqueue(requests);
        }
    }

    /// The caller does the last request itself, unless it has to wait for its turn, so one request needs no
    /// other thread.
    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group) {
        self.shared.begin_elsewhere(requests);
        let own = requests.pop_if(|last| self.shared.state.lock().begin(last));
        if !requests.is_empty() {
            self.shared.enqueue(requests);
        }
        if let Some(request) = own {
            let mut state = self.shared.state.lock();
            self.shared.execute(&mut state, request);
            // It may have been the turn of a read that waits.
            self.shared.go_on(&mut state);
        }
        group.wait();
    }

    fn read_for(&self, tenant: TenantId, source: &SourceRef, read: Action) -> Result<(), IoError> {
        let Some(file) = LocalFile::of(&**source) else { return elsewhere::run(source, read) };
        if self.shared.state.lock().reads.start(tenant, 1) == 0 {
            return run_one(source, read, Some(tenant), |request| self.submit(&mut vec![request]));
        }
        let result = transfer::run(file, &read);
        let mut state = self.shared.state.lock();
        state.reads.finish(tenant, 1);
        self.shared.go_on(&mut state);
        result
    }

    fn drain(&self) {
        let mut state = self.shared.state.lock();
        while state.running > 0 || state.queued_now() > 0 {
            self.shared.idle.wait(&mut state);
        }
        drop(state);
        self.shared.elsewhere.drain();
    }

    fn report(&self) -> IoReport {
        let turns = self.shared.state.lock().reads.feature();
        IoReport {
            backend: "threads",
            features: vec![format!("at most {} threads", self.shared.threads_max), turns],
            steps_down: self.steps_down.clone(),
        }
    }
}

impl WorkerPool {
    /// Takes the requests that are not for local files out of `requests`, and leaves them to their sources.
    fn begin_elsewhere(&self, requests: &mut Vec<Request>) {
        let others = requests.extract_if(.., |request| LocalFile::of(&*request.source).is_none());
        others.for_each(|request| self.elsewhere.begin(request));
    }

    fn enqueue(self: &Arc<Self>, requests: &mut Vec<Request>) {
        let mut state = self.state.lock();
        state.queued += requests.len() as u64;
        for request in requests.drain(..) {
            match request.tenant {
                Some(tenant) => state.reads.push(tenant, cost_of(request.action.len()), request),
                None => state.queue.push_back(request),
            }
        }
        let wanted = state.queued_now().saturating_sub(state.waiting);
        for _ in 0..wanted.min(self.threads_max - state.workers.len()) {
            let shared = Arc::clone(self);
            let spawned = std::thread::Builder::new().name("bufpool-io".into()).spawn(move || shared.work());
            match spawned {
                Ok(worker) => state.workers.push(worker),
                Err(_) => break,
            }
        }
        if wanted > 1 {
            self.work.notify_all();
        }
        self.go_on(&mut state);
    }

    /// Something may be started that could not be before.
    fn go_on(&self, state: &mut MutexGuard<'_, WorkQueues>) {
        if !state.workers.is_empty() {
            self.work.notify_one();
        } else {
            // No thread could be started, so the caller does the work itself: slow is better than stuck.
            while self.execute_next(state) {}
        }
    }

    /// The life of a worker.
    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if self.execute_next(&mut state) {
                continue;
            }
            if state.closing {
                return;
            }
            state.waiting += 1;
            self.work.wait(&mut state);
            state.waiting -= 1;
        }
    }

    /// Does the next request. False if none may be started.
    fn execute_next(&self, state: &mut MutexGuard<'_, WorkQueues>) -> bool {
        let Some(request) = state.next() else { return false };
        self.execute(state, request);
        true
    }

    /// Does a request that was begun, without the lock meanwhile.
    fn execute(&self, state: &mut MutexGuard<'_, WorkQueues>, request: Request) {
        let reader = request.tenant;
        MutexGuard::unlocked(state, || match LocalFile::of(&*request.source) {
            Some(file) => {
                let result = transfer::run(file, &request.action);
                request.complete(result);
            }
            None => self.elsewhere.begin(request),
        });
        if let Some(tenant) = reader {
            state.reads.finish(tenant, 1);
        }
        state.running -= 1;
        if state.running == 0 && state.queued_now() == 0 {
            self.idle.notify_all();
        }
    }
}

impl WorkQueues {
    /// Begins a request that was not queued. False if it has to be queued.
    fn begin(&mut self, request: &Request) -> bool {
        let begins = request.tenant.is_none_or(|tenant| self.reads.start(tenant, 1) == 1);
        self.running += usize::from(begins);
        begins
    }

    /// Begins the next request that may be started.
    fn next(&mut self) -> Option<Request> {
        let next = self.queue.pop_front().or_else(|| self.reads.pop().map(|(_, read)| read));
        self.running += usize::from(next.is_some());
        next
    }

    fn queued_now(&self) -> usize {
        self.queue.len() + self.reads.queued()
    }
}

impl Drop for Threads {
    /// Finishes what is queued and waits for the workers. If a worker drops the backend itself (a
    /// completion owned the last reference), they end by themselves.
    fn drop(&mut self) {
        let workers = {
            let mut state = self.shared.state.lock();
            state.closing = true;
            self.shared.work.notify_all();
            std::mem::take(&mut state.workers)
        };
        let me = std::thread::current().id();
        if workers.iter().all(|worker| worker.thread().id() != me) {
            workers.into_iter().for_each(|worker| drop(worker.join()));
        }
    }
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads").field("threads_max", &self.shared.threads_max).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::directory;
    use super::super::{Buffer, Completion, FileOpen};
    use super::*;
    use crate::io::options::Direct;
    use crate::sys::Mapping;
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::{Duration, Instant};

    /// Says that a read is over, and keeps the thread that has made it.
    struct Keeps {
        is_over: Sender<()>,
        goes_on: Mutex<Receiver<()>>,
        group: Arc<Group>,
    }

    impl Completion for Keeps {
        fn complete(&self, token: u64, result: Result<(), IoError>) {
            self.is_over.send(()).unwrap();
            self.goes_on.lock().recv().unwrap();
            self.group.complete(token, result);
        }
    }

    /// Two tenants have a read in flight each, and the second one has another that waits. The read that ends
    /// last is made by its caller.
    #[test]
    fn a_read_that_its_caller_makes_gives_its_turn_to_one_that_waits() {
        let backend = Threads::new(&IoOptions::default(), Vec::new());
        let directory = directory();
        let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
        let file = LocalFile::open(&directory.path().join("file"), &how).unwrap().saturated_at(1);
        file.allocate_now(0, 4096).unwrap();
        backend.register_file(&file);
        let (file, memory) = (SourceRef::new(Arc::new(file)), Mapping::new(2 * 4096).unwrap());
        let read = |tenant: u32, completion: Arc<dyn Completion>| {
            // SAFETY: the mapping is kept until both reads are over, and not looked at.
            let all = unsafe { Buffer::new(memory.start(), memory.len()) };
            let buffers = all.skip(tenant as usize * 4096).first(4096).into();
            let action = Action::Read { offset: 0, buffers };
            Request { source: file.clone(), action, tenant: Some(TenantId(tenant)), token: 0, completion }
        };
        let (is_over, over) = channel();
        let (go_on, goes_on) = channel();
        let (own, waiting) = (Group::new(1), Group::new(1));
        let keeps = Keeps { is_over, goes_on: Mutex::new(goes_on), group: Arc::clone(&own) };
        std::thread::scope(|scope| {
            let request = read(0, Arc::new(keeps));
            scope.spawn(|| backend.submit_and_wait(&mut vec![request], &own));
            over.recv().unwrap();
            let reads = |state: &mut WorkQueues| (state.reads.queued(), state.waiting);
            assert_eq!(backend.shared.state.lock().reads.start(TenantId(1), 1), 1);
            backend.submit(&mut vec![read(1, Arc::clone(&waiting) as _)]);
            while reads(&mut backend.shared.state.lock()) != (1, 1) {
                std::thread::yield_now();
            }
            backend.shared.state.lock().reads.finish(TenantId(1), 1);
            go_on.send(()).unwrap();
        });
        let until = Instant::now() + Duration::from_secs(20);
        while !waiting.is_done() {
            assert!(Instant::now() < until, "it still waits for its turn");
            std::thread::yield_now();
        }
        assert_eq!(waiting.take_failures(), []);
    }
}
