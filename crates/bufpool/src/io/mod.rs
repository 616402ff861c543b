//! Moving pages between frames and files.
//!
//! Everything above this module speaks to one small trait, [`Backend`]: hand over [`Request`]s, each
//! with a [`Completion`] that is called when it is done. Three backends implement it:
//!
//! | backend | how | for |
//! | --- | --- | --- |
//! | `uring` | io_uring | everyday use |
//! | `threads` | positioned reads and writes on a few threads | kernels and containers that refuse io_uring |
//! | `sim` (feature `sim`) | in memory, deterministic, with faults and power cuts | tests |
//!
//! # Who owns a buffer, and until when
//!
//! A request owns its buffers from the moment it is submitted until its completion is called.
//! Nothing that a user does shortens that: dropping whatever waits for the result (a future, a guard
//! half made) gives up interest, and the completion, which owns the frame, still runs. A backend calls
//! each completion exactly once, also when it is being closed.
//!
//! # Who makes progress
//!
//! No operation waits for a user thread to come back into the library: after [`Backend::submit`] the
//! backend's own threads, or the kernel's, finish the work. A thread inside
//! [`Backend::submit_and_wait`] or [`Backend::run`] may do its own work itself, and nobody spins.
//!
//! # What a transfer promises
//!
//! Short transfers, interruptions (EINTR), refusals of the moment (EAGAIN) and cancellations because
//! a submitting thread ended (ECANCELED) are continued, never reported; after [`RETRIES_MAX`] of them
//! without progress the operation fails. A read that meets the end of the file fails with
//! [`IoError::is_end_of_file`].

mod buffer;
#[cfg(test)]
mod conformance;
mod fair;
mod file;
mod name;
pub(crate) mod options;
pub(crate) mod run;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub(crate) mod threads;
mod transfer;
pub(crate) mod uring;

use std::any::Any;
use std::fmt;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

use bufpool_policies::TenantId;
use parking_lot::{Condvar, Mutex};

use crate::io::options::{Io, IoBackend};

pub(crate) use buffer::{Buffer, Buffers};
pub(crate) use file::{FileIdentity, FileOpen, IoFile, OpenError};
pub(crate) use name::NameError;

/// How often one operation is tried again without a byte of progress before it fails.
pub(crate) const RETRIES_MAX: u32 = 64;

/// Executes requests. See the [module](self) for what all backends promise.
pub(crate) trait Backend: Send + Sync + fmt::Debug {
    /// Opens the file at `path`, locks it, and makes it known to the backend.
    fn open(&self, path: &Path, how: &FileOpen) -> Result<Arc<IoFile>, OpenError>;

    /// As [`Backend::open`], for a file that is open already. Refuses an `fd` that does not allow what `how`
    /// asks for.
    fn adopt(&self, fd: OwnedFd, how: &FileOpen) -> Result<Arc<IoFile>, OpenError>;

    /// Tells the backend where most buffers will lie, so that it can register them with the kernel.
    /// Called at most once, before the first request. Never fails: without registration I/O only costs
    /// more, and [`Backend::report`] says why.
    fn register_memory(&self, start: std::ptr::NonNull<u8>, bytes: usize);

    /// Starts all `requests` (taking them out of the vector, whose room is kept) and returns without
    /// waiting for any. More than the backend can have in flight is queued inside it.
    fn submit(&self, requests: &mut Vec<Request>);

    /// Starts all `requests` and waits until `group` is done. The caller may be used to do the work,
    /// which makes this cheaper than [`Backend::submit`] followed by [`Group::wait`].
    fn submit_and_wait(&self, requests: &mut Vec<Request>, group: &Group);

    /// Starts what `feed` prepares, waits until `group` is done, and lets the feed take in what is done meanwhile. All requests of the feed
    /// report to the group. A backend that can asks for more while those before are in flight, so that the device has work while the
    /// caller prepares and takes in; here everything is prepared first.
    fn stream(&self, feed: &mut dyn Feed, group: &Group) {
        let mut requests = Vec::new();
        while feed.prepare(&mut requests) {}
        self.submit_and_wait(&mut requests, group);
        feed.land();
    }

    /// Where the calling thread may keep operations in flight that nobody else sees to; none where [`Backend::submit`] is as good. To be used
    /// and dropped in this thread, and emptied before the backend is drained.
    fn lane(&self) -> Option<Box<dyn Lane>> {
        None
    }

    /// As [`Backend::lane`], for the time of one call that waits for all of them; also none while too many have one.
    fn leased_lane(&self) -> Option<Box<dyn Lane>> {
        None
    }

    /// Does one thing and waits for it.
    fn run(&self, file: &Arc<IoFile>, action: Action) -> Result<(), IoError>;

    /// As [`Backend::run`] for a read of `tenant`, which waits for its turn where tenants compete for a busy device.
    fn read_for(&self, _tenant: TenantId, file: &Arc<IoFile>, read: Action) -> Result<(), IoError> {
        self.run(file, read)
    }

    /// Waits until nothing is in flight. Requests submitted meanwhile may or may not be waited for.
    fn drain(&self);

    /// What runs, and why not something better.
    fn report(&self) -> IoReport;
}

/// Operations of one thread, which alone starts them and sees to their completions: no other thread has to be woken, and the
/// device works while this one prepares what comes next.
pub(crate) trait Lane {
    /// Starts all `requests` (taking them out of the vector).
    fn submit(&mut self, requests: &mut Vec<Request>);

    /// Waits until something is done, which is then to be [completed](Self::complete). False if the lane has nothing in flight: what it does
    /// not do itself is completed by the backend's threads.
    fn wait(&mut self) -> bool;

    /// Completes one operation that is done. False if none is known to be. So more can be started in between: several are often done at
    /// once, and the device would have nothing to do while all are completed.
    fn complete(&mut self) -> bool;
}

/// What to do with a file.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Fill the buffers from the file, starting at the byte `offset`.
    Read { offset: u64, buffers: Buffers },
    /// Write the buffers to the file, starting at the byte `offset`.
    Write { offset: u64, buffers: Buffers },
    /// Make everything written so far durable, with the metadata needed to read it back (fdatasync),
    /// or with `all_metadata` all of it (fsync).
    Sync { all_metadata: bool },
    /// Really allocate the range, never a hole, and make the file at least that long. New bytes are
    /// zero, present ones stay.
    Allocate { offset: u64, bytes: u64 },
}

impl Action {
    /// The kind, for messages and for fault injection.
    pub(crate) fn operation(&self) -> IoOperation {
        match self {
            Self::Read { .. } => IoOperation::Read,
            Self::Write { .. } => IoOperation::Write,
            Self::Sync { .. } => IoOperation::Sync,
            Self::Allocate { .. } => IoOperation::Allocate,
        }
    }

    /// Where it starts in the file; 0 for a sync.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. } | Self::Write { offset, .. } | Self::Allocate { offset, .. } => *offset,
            Self::Sync { .. } => 0,
        }
    }

    /// How many bytes of the file it concerns; 0 for a sync.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Read { buffers, .. } | Self::Write { buffers, .. } => buffers.len() as u64,
            Self::Allocate { bytes, .. } => *bytes,
            Self::Sync { .. } => 0,
        }
    }

    /// This action, failed because of `cause`.
    pub(crate) fn failed(&self, cause: Cause) -> IoError {
        IoError { operation: self.operation(), offset: self.offset(), bytes: self.len(), cause }
    }
}

/// One operation in flight, or about to be.
#[derive(Debug)]
pub(crate) struct Request {
    /// The file; kept open until the completion has been called.
    pub(crate) file: Arc<IoFile>,
    /// What to do.
    pub(crate) action: Action,
    /// The tenant that a read is made for, which decides whose turn it is where reads have to queue. `None` for
    /// all else, which does not queue.
    pub(crate) tenant: Option<TenantId>,
    /// Given back to the completion; the backend does not look at it.
    pub(crate) token: u64,
    /// Told the result.
    pub(crate) completion: Arc<dyn Completion>,
}

impl Request {
    /// Calls the completion. A panic in it is contained, because the thread it would unwind is
    /// working for others as well.
    pub(crate) fn complete(self, result: Result<(), IoError>) {
        let Self { file, action, token, completion, tenant: _ } = self;
        // The buffers go back to their owner before the owner hears of it.
        drop((file, action));
        let _ = catch_unwind(AssertUnwindSafe(move || completion.complete(token, result)));
    }
}

/// Receives results.
///
/// Called exactly once per request, on any thread: one that waits for something else, or one of the
/// backend's. It must be short and must not panic, wait for I/O, or wait for a latch; it may submit.
pub(crate) trait Completion: Send + Sync + Any {
    /// The request with this token is done, and its buffers belong to the callee again.
    fn complete(&self, token: u64, result: Result<(), IoError>);
}

impl fmt::Debug for dyn Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}

/// Where a backend gets the requests of [`Backend::stream`], in the thread that waits for them. Both calls may do a little work, and wait for
/// the device at most.
pub(crate) trait Feed {
    /// Adds the next few requests. False if there are no more, and then none was added.
    fn prepare(&mut self, requests: &mut Vec<Request>) -> bool;

    /// Takes in what has been done since the last call.
    fn land(&mut self);
}

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

    /// A group for a [stream](Backend::stream), which notes successes as well. Requests are [expected](Group::expect) as they are made.
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

/// The kinds of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IoOperation {
    /// A positioned read.
    Read,
    /// A positioned write.
    Write,
    /// An fsync or fdatasync.
    Sync,
    /// An allocation of space, as by fallocate.
    Allocate,
}

impl fmt::Display for IoOperation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Sync => "sync",
            Self::Allocate => "allocation",
        })
    }
}

/// Why an operation failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The kernel's error number.
    Os(i32),
    /// The file ended this many bytes after the start of the operation.
    EndOfFile { after_bytes: u64 },
    /// [`RETRIES_MAX`] attempts moved no byte; the last one failed with this error number (0: none).
    NoProgress(i32),
}

/// A failed operation. Says what and where within the file; whoever opened the file adds its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IoError {
    operation: IoOperation,
    offset: u64,
    bytes: u64,
    cause: Cause,
}

impl IoError {
    /// What was tried.
    pub fn operation(&self) -> IoOperation {
        self.operation
    }

    /// The byte of the file where the operation started; 0 for a sync.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// The kernel's error number, if the kernel reported one.
    pub fn os_error(&self) -> Option<i32> {
        match self.cause {
            Cause::Os(errno) => Some(errno),
            Cause::NoProgress(errno) => (errno != 0).then_some(errno),
            Cause::EndOfFile { .. } => None,
        }
    }

    /// True if a read met the end of the file.
    pub fn is_end_of_file(&self) -> bool {
        matches!(self.cause, Cause::EndOfFile { .. })
    }

    /// True if the device or the quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self.os_error(), Some(libc::ENOSPC | libc::EDQUOT))
    }
}

impl fmt::Display for IoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if self.operation != IoOperation::Sync {
            write!(f, " of {} bytes at byte {}", self.bytes, self.offset)?;
        }
        match self.cause {
            Cause::Os(errno) => write!(f, " failed: {}", std::io::Error::from_raw_os_error(errno)),
            Cause::EndOfFile { after_bytes } => {
                write!(f, " failed: the file ends after {after_bytes} of them")
            }
            Cause::NoProgress(0) => write!(f, " failed: {RETRIES_MAX} attempts transferred nothing"),
            Cause::NoProgress(errno) => {
                let last = std::io::Error::from_raw_os_error(errno);
                write!(f, " failed: {RETRIES_MAX} attempts transferred nothing, the last with: {last}")
            }
        }
    }
}

impl std::error::Error for IoError {}

impl From<IoError> for std::io::Error {
    fn from(error: IoError) -> Self {
        let kind = match error.cause {
            Cause::Os(errno) => std::io::Error::from_raw_os_error(errno).kind(),
            Cause::EndOfFile { .. } => std::io::ErrorKind::UnexpectedEof,
            Cause::NoProgress(_) => std::io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}

/// How to start a backend.
#[derive(Clone, Debug)]
pub(crate) struct IoOptions {
    /// Which one.
    pub(crate) io: Io,
    /// Most operations in flight per ring; from 1 to 4,096.
    pub(crate) depth: u32,
    /// Let a kernel thread pick up submissions; it sleeps after this many idle milliseconds.
    pub(crate) sqpoll_idle_ms: Option<u32>,
    /// Poll the device for completions instead of taking interrupts. Direct I/O only.
    pub(crate) iopoll: bool,
    /// Most threads of the `threads` backend.
    pub(crate) threads_max: usize,
    /// Reads in flight with which the device is taken to be saturated, so that tenants take turns; from 1 to 4,096.
    pub(crate) saturation_depth: u32,
    /// Behave as if the kernel refused io_uring. Also set by the environment variable
    /// `BUFPOOL_REFUSE_URING` (any value but `0`), for tests.
    pub(crate) refuse_uring: bool,
}

impl Default for IoOptions {
    fn default() -> Self {
        Self {
            io: Io::Auto,
            depth: 256,
            sqpoll_idle_ms: None,
            iopoll: false,
            threads_max: 16,
            saturation_depth: 32,
            refuse_uring: refused("BUFPOOL_REFUSE_URING"),
        }
    }
}

/// True if the environment variable `name` asks for a refusal.
pub(crate) fn refused(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| value != "0" && !value.is_empty())
}

/// Starts the backend that `options` ask for.
///
/// # Errors
///
/// The reason, if the required backend is impossible; with [`Io::Auto`] there is always one.
pub(crate) fn start(options: &IoOptions) -> std::io::Result<Arc<dyn Backend>> {
    let threads = |steps_down| Arc::new(threads::Threads::new(options, steps_down));
    match options.io {
        Io::Require(IoBackend::Threads) => Ok(threads(Vec::new())),
        Io::Require(IoBackend::Uring) => start_uring(options),
        Io::Auto => {
            start_uring(options).or_else(|error| Ok(threads(vec![format!("io_uring: {error}")]) as _))
        }
    }
}

/// One read that has to queue, submitted and waited for.
fn run_queued(
    backend: &dyn Backend,
    tenant: TenantId,
    file: &Arc<IoFile>,
    read: Action,
) -> Result<(), IoError> {
    let group = Group::new(1);
    let completion = Arc::clone(&group) as Arc<dyn Completion>;
    let request =
        Request { file: Arc::clone(file), action: read, tenant: Some(tenant), token: 0, completion };
    backend.submit(&mut vec![request]);
    group.wait();
    group.take_failures().pop().map_or(Ok(()), |(_, error)| Err(error))
}

fn start_uring(options: &IoOptions) -> std::io::Result<Arc<dyn Backend>> {
    if options.refuse_uring {
        let why = "refused by an option or by BUFPOOL_REFUSE_URING";
        return Err(std::io::Error::new(std::io::ErrorKind::Unsupported, why));
    }
    Ok(Arc::new(uring::Uring::new(options)?))
}

/// The backend on a simulated device.
#[cfg(any(test, feature = "sim"))]
pub(crate) fn start_sim(device: &sim::SimDevice) -> Arc<dyn Backend> {
    Arc::new(sim::Sim::new(device))
}

/// Which backend runs, with what, and the reason for each step down. `Display` prints it in lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IoReport {
    /// `uring`, `threads` or `sim`; `none` in the child of a fork.
    pub backend: &'static str,
    /// What is in use: flags, registrations, depth.
    pub features: Vec<String>,
    /// What was tried or wanted and is not in use, each with the reason.
    pub steps_down: Vec<String>,
}

impl fmt::Display for IoReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I/O backend: {}", self.backend)?;
        for feature in &self.features {
            write!(f, "\n  with {feature}")?;
        }
        for step in &self.steps_down {
            write!(f, "\n  without {step}")?;
        }
        Ok(())
    }
}
