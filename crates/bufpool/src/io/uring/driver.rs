//! The I/O thread: owner of a ring, for operations that no call waits for.
//!
//! Other threads leave requests in an inbox and return. The I/O thread sleeps in `io_uring_enter`, where an
//! eventfd wakes it when the inbox gets something. A thread writes the eventfd only if the I/O thread has
//! said, under the inbox's lock, that it is going to sleep.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use bufpool_policies::TenantId;
use parking_lot::{Condvar, Mutex};

use super::super::backend::Backend;
use super::super::fair::{FairQueue, cost_of};
use super::super::options::IoOptions;
use super::super::request::Request;
use super::super::source::Capabilities;
use super::super::threads::Threads;
use super::ring::{Outcome, Region, Ring};
use super::setup::{self, Notes};
use crate::sys;

/// From this length on, the completion of a transfer may take a while, and may begin another transfer.
const LONG_BYTES: u64 = 64 << 10;

/// A handle to the I/O thread. Dropping it finishes what was submitted, then ends the thread.
pub(super) struct Driver {
    shared: Arc<DriverQueues>,
    thread: Option<JoinHandle<()>>,
    ring_fd: RawFd,
}

struct DriverQueues {
    inbox: Mutex<Inbox>,
    /// Reads of tenants: those in flight on any ring or by a system call, and those that wait for this thread
    /// to start them. Locked after `inbox`, if both.
    reads: Mutex<FairQueue<Request>>,
    /// Wakes the thread if it cannot sleep in the kernel, because its ring polls.
    work: Condvar,
    /// Nothing that was submitted is unfinished.
    idle: Condvar,
    /// Wakes the thread in the kernel.
    eventfd: File,
    /// Does the operations that the ring cannot do.
    helper: Arc<Threads>,
}

#[derive(Default)]
struct Inbox {
    requests: VecDeque<Request>,
    commands: Vec<Command>,
    /// A read that waits may be started.
    has_turn: bool,
    /// Requests submitted and neither completed nor handed to the helper.
    unfinished: usize,
    /// The thread sleeps, or is about to, and has to be woken.
    asleep: bool,
    closing: bool,
}

/// Operations on the ring that only its owner may do (SINGLE_ISSUER).
enum Command {
    RegisterRegion(Region, mpsc::Sender<io::Result<bool>>),
    ForgetFile(u32),
}

impl Driver {
    /// Starts the thread and its ring. The notes say what the ring has and has not.
    pub(super) fn start(
        options: &IoOptions,
        helper: &Arc<Threads>,
        calls: &Arc<AtomicU64>,
    ) -> io::Result<(Self, Notes)> {
        let shared = Arc::new(DriverQueues {
            inbox: Mutex::default(),
            reads: Mutex::new(FairQueue::new()),
            work: Condvar::new(),
            idle: Condvar::new(),
            eventfd: File::from(sys::eventfd()?),
            helper: Arc::clone(helper),
        });
        let (tell, told) = mpsc::channel();
        let thread = {
            let (options, shared, calls) = (options.clone(), Arc::clone(&shared), Arc::clone(calls));
            let name = "bufpool-io".to_owned();
            // The ring is made in the thread because its flags bind it to the thread that makes it.
            std::thread::Builder::new().name(name).spawn(move || {
                match setup::driver_ring(&options, &calls) {
                    Ok((mut ring, notes)) => {
                        if !ring.polls() {
                            ring.listen(shared.eventfd.as_raw_fd());
                        }
                        let _ = tell.send(Ok((ring.fd(), notes)));
                        let (backlog, next, outcomes) = Default::default();
                        Loop { ring, shared, backlog, next, outcomes }.run();
                    }
                    Err(error) => {
                        let _ = tell.send(Err(error));
                    }
                }
            })?
        };
        let ended = || io::Error::other("the I/O thread ended before it began");
        let (ring_fd, notes) = told.recv().map_err(|_| ended())??;
        Ok((Self { shared, thread: Some(thread), ring_fd }, notes))
    }

    /// The descriptor of its ring, open as long as the driver.
    pub(super) fn ring_fd(&self) -> RawFd {
        self.ring_fd
    }

    /// Leaves requests in the inbox.
    pub(super) fn submit(&self, requests: &mut Vec<Request>) {
        self.leave(|inbox| {
            inbox.unfinished += requests.len();
            inbox.requests.extend(requests.drain(..));
        });
    }

    /// Reads of one more source will come.
    pub(super) fn add_source(&self, capabilities: &Capabilities) {
        self.shared.reads.lock().add_source(capabilities);
    }

    /// Starts up to `count` reads of `tenant`, whoever does them; returns how many. The others have to be
    /// submitted.
    pub(super) fn start_reads(&self, tenant: TenantId, count: usize) -> usize {
        self.shared.reads.lock().start(tenant, count)
    }

    /// As [`Driver::start_reads`] for one request. A request that is no tenant's read always starts.
    pub(super) fn begin(&self, request: &Request) -> bool {
        request.tenant.is_none_or(|tenant| self.start_reads(tenant, 1) == 1)
    }

    /// `count` reads of `reader` that were started elsewhere are over.
    pub(super) fn finish(&self, reader: Option<TenantId>, count: usize) {
        let Some(tenant) = reader else { return };
        let waiting = {
            let mut reads = self.shared.reads.lock();
            reads.finish(tenant, count);
            reads.queued() > 0
        };
        if waiting {
            self.leave(|inbox| inbox.has_turn = true);
        }
    }

    /// The reads among `outcomes`, which came out of another ring, are over.
    pub(super) fn finish_all(&self, outcomes: &[Outcome]) {
        if finish_all(&mut self.shared.reads.lock(), outcomes) {
            self.leave(|inbox| inbox.has_turn = true);
        }
    }

    /// What a report says of tenants' turns.
    pub(super) fn turns(&self) -> String {
        self.shared.reads.lock().feature()
    }

    /// Registers memory with the driver's ring. Returns whether transfers of several buffers can use it,
    /// too.
    pub(super) fn register_region(&self, region: Region) -> io::Result<bool> {
        let (tell, told) = mpsc::channel();
        self.leave(|inbox| inbox.commands.push(Command::RegisterRegion(region, tell)));
        told.recv().unwrap_or_else(|_| Err(io::Error::other("the I/O thread has ended")))
    }

    /// Lets go of the registered file at `place`, soon.
    pub(super) fn forget_file(&self, place: u32) {
        self.leave(|inbox| inbox.commands.push(Command::ForgetFile(place)));
    }

    /// Waits until nothing submitted is unfinished.
    pub(super) fn drain(&self) {
        let mut inbox = self.shared.inbox.lock();
        while inbox.unfinished > 0 {
            self.shared.idle.wait(&mut inbox);
        }
    }

    /// Changes the inbox and wakes the thread if it sleeps.
    fn leave(&self, change: impl FnOnce(&mut Inbox)) {
        let was_asleep = {
            let mut inbox = self.shared.inbox.lock();
            change(&mut inbox);
            std::mem::take(&mut inbox.asleep)
        };
        if was_asleep {
            self.shared.work.notify_one();
            // Fails only if 2^64 - 2 earlier wakes are unread; then the thread is awake.
            let _ = (&self.shared.eventfd).write(&1_u64.to_ne_bytes());
        }
    }
}

impl Drop for Driver {
    /// A completion may own the last reference to the backend, so this may run in the I/O thread, which
    /// then ends by itself.
    fn drop(&mut self) {
        self.leave(|inbox| inbox.closing = true);
        if let Some(thread) = self.thread.take().filter(|t| t.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }
}

/// What the I/O thread owns.
struct Loop {
    ring: Ring,
    shared: Arc<DriverQueues>,
    /// Requests taken from the inbox that wait for room in the ring; all but reads of tenants. They are
    /// started before such reads. There are never many of them, because writers wait for what they submit.
    backlog: VecDeque<Request>,
    /// Requests about to be started; scratch space.
    next: Vec<Request>,
    outcomes: Vec<Outcome>,
}

impl Loop {
    fn run(mut self) {
        loop {
            let closing = self.take_inbox();
            // A request that the ring refuses leaves its room to a waiting one. Refusals are handled before
            // the thread sleeps, because no answer of the ring would wake it for them.
            while let refused = self.fill_ring()
                && refused > 0
            {
                self.note_finished(refused);
            }
            if closing && self.ring.in_flight() == 0 && self.nothing_waits() {
                return;
            }
            self.enter_or_sleep();
            self.ring.reap(&mut self.outcomes);
            let finished = self.complete();
            self.note_finished(finished);
        }
    }

    /// Carries out commands and takes requests. True if the backend is closing.
    fn take_inbox(&mut self) -> bool {
        let mut inbox = self.shared.inbox.lock();
        inbox.asleep = false;
        inbox.has_turn = false;
        let requests = std::mem::take(&mut inbox.requests);
        let closing = inbox.closing;
        let commands = std::mem::take(&mut inbox.commands);
        drop(inbox);
        self.queue(requests);
        self.carry_out(commands);
        closing
    }

    /// Carries out commands, before requests that came with them are started: a file of theirs may have got
    /// the place of one that is to be let go of.
    fn carry_out(&mut self, commands: Vec<Command>) {
        for command in commands {
            match command {
                Command::RegisterRegion(region, tell) => {
                    let _ = tell.send(self.ring.register_region(region, None));
                }
                Command::ForgetFile(place) => self.ring.forget_file(place),
            }
        }
    }

    /// Queues requests from the inbox.
    fn queue(&mut self, requests: VecDeque<Request>) {
        if requests.is_empty() {
            return;
        }
        let mut reads = self.shared.reads.lock();
        for request in requests {
            match request.tenant {
                Some(tenant) => reads.push(tenant, cost_of(request.action.len()), request),
                None => self.backlog.push_back(request),
            }
        }
    }

    fn nothing_waits(&self) -> bool {
        self.backlog.is_empty() && self.shared.reads.lock().queued() == 0
    }

    /// Starts requests whose turn it is, as far as there is room. Returns how many went to the helper
    /// instead.
    fn fill_ring(&mut self) -> usize {
        let room = self.ring.room();
        let others = self.backlog.len().min(room);
        self.next.extend(self.backlog.drain(..others));
        if others < room {
            let mut reads = self.shared.reads.lock();
            self.next.extend(std::iter::from_fn(|| reads.pop()).map(|(_, read)| read).take(room - others));
        }
        let mut refused = Vec::new();
        for request in self.next.drain(..) {
            refused.extend(self.ring.start(request).err());
        }
        let count = refused.len();
        if count > 0 {
            let mut reads = self.shared.reads.lock();
            refused.iter().filter_map(|request| request.tenant).for_each(|tenant| reads.finish(tenant, 1));
        }
        self.shared.helper.submit(&mut refused);
        count
    }

    /// Gives what was started to the kernel; then sleeps until something happens, unless something has
    /// come into the inbox meanwhile.
    fn enter_or_sleep(&mut self) {
        let nothing_in_flight = self.ring.in_flight() == 0;
        let mut inbox = self.shared.inbox.lock();
        let news = inbox.has_turn || !inbox.requests.is_empty() || !inbox.commands.is_empty();
        let wait = !(news || inbox.closing && nothing_in_flight);
        inbox.asleep = wait;
        if self.ring.polls() && nothing_in_flight {
            while inbox.asleep {
                self.shared.work.wait(&mut inbox);
            }
            return;
        }
        drop(inbox);
        if self.ring.enter(usize::from(wait)).is_err() {
            // Nothing is known about what is in flight, so nothing may be given back; try again.
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Completes what came out of the ring. Returns how many requests that were.
    fn complete(&mut self) -> usize {
        let mut count = self.outcomes.len();
        // The slots are given back before the completions run, because these may submit the next read.
        finish_all(&mut self.shared.reads.lock(), &self.outcomes);
        let mut outcomes = std::mem::take(&mut self.outcomes);
        let mut left = outcomes.len();
        for outcome in outcomes.drain(..) {
            left -= 1;
            match outcome {
                Outcome::Finished(request, result) => {
                    let is_long = request.action.len() >= LONG_BYTES;
                    request.complete(result);
                    if is_long && left > 0 {
                        count += self.start_what_came();
                    }
                }
                Outcome::Refused(request) => self.shared.helper.submit(&mut vec![request]),
            }
        }
        self.outcomes = outcomes;
        count
    }

    /// Starts requests that a completion has submitted, before the next completion runs, so that the device
    /// does not wait for all of them. Returns how many went to the helper instead.
    fn start_what_came(&mut self) -> usize {
        let (requests, commands) = {
            let mut inbox = self.shared.inbox.lock();
            if inbox.requests.is_empty() {
                return 0;
            }
            (std::mem::take(&mut inbox.requests), std::mem::take(&mut inbox.commands))
        };
        self.queue(requests);
        self.carry_out(commands);
        let refused = self.fill_ring();
        self.ring.submit();
        refused
    }

    fn note_finished(&self, count: usize) {
        if count > 0 {
            let mut inbox = self.shared.inbox.lock();
            inbox.unfinished -= count;
            if inbox.unfinished == 0 {
                self.shared.idle.notify_all();
            }
        }
    }
}

/// Gives back the slots of reads that are over. True if reads wait for slots.
fn finish_all(reads: &mut FairQueue<Request>, outcomes: &[Outcome]) -> bool {
    let readers = outcomes.iter().filter_map(|outcome| outcome.request().tenant);
    readers.for_each(|tenant| reads.finish(tenant, 1));
    reads.queued() > 0
}
