//! One body of checks for every kind of source on every backend.
//!
//! Each check gets a [`Bench`]: a started backend, files, and a place for them. It asserts what the [module
//! above](super) promises. What concerns one backend only (faults, flags, refusals) is tested beside that
//! backend.

use std::any::Any;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use bufpool_policies::TenantId;
use parking_lot::Mutex;

use super::local::LocalFile;
use super::local::opener::LocalFiles;
use super::sim::{SimDevice, SimFailure, SimFault};
use super::threads::Threads;
use super::uring::Uring;
use super::{
    Action, Backend, Buffer, Buffers, Completion, FileOpen, Group, IoError, IoOperation, IoOptions,
    OpenError, Opener, Request, Source, SourceRef, Started,
};
use crate::sys::Mapping;

mod memory;
mod streams;

use memory::MemoryFiles;
use streams::streams;

const PAGE_BYTES: usize = 4096;
/// Fewer than the pages of the larger tests, so that batches exceed the queue.
const DEPTH: u32 = 8;
/// Reads in flight from which on tenants take turns.
const SATURATION: u32 = 2;

/// A folder for one test. Not in the system's folder for temporary files, which may be in memory and
/// without direct I/O; `BUFPOOL_TEST_DIR` names another place.
pub(super) fn directory() -> tempfile::TempDir {
    let place = std::env::var_os("BUFPOOL_TEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tmp"), PathBuf::from);
    std::fs::create_dir_all(&place).unwrap();
    tempfile::tempdir_in(place).unwrap()
}

/// Aligned memory in pages.
struct Pages(Mapping);

impl Pages {
    fn new(count: usize) -> Self {
        Self(Mapping::new(count * PAGE_BYTES).unwrap())
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is that long and initialized; tests look at it when nothing is in flight.
        unsafe { std::slice::from_raw_parts_mut(self.0.start().as_ptr(), self.0.len()) }
    }

    fn page(&mut self, index: usize) -> &mut [u8] {
        &mut self.bytes()[index * PAGE_BYTES..][..PAGE_BYTES]
    }

    /// Page `index`, to be lent to one operation at a time.
    fn buffer(&self, index: usize) -> Buffer {
        assert!((index + 1) * PAGE_BYTES <= self.0.len());
        // SAFETY: the whole mapping. Tests keep it until the operation is complete, and leave the page
        // alone meanwhile.
        let all = unsafe { Buffer::new(self.0.start(), self.0.len()) };
        all.skip(index * PAGE_BYTES).first(PAGE_BYTES)
    }
}

/// What page `number` of a file made by [`Bench::file`] is filled with.
fn pattern(number: usize) -> u8 {
    (number % 251) as u8 + 1
}

fn read(number: usize, buffer: Buffer) -> Action {
    Action::Read { offset: (number * PAGE_BYTES) as u64, buffers: buffer.into() }
}

fn write(number: usize, buffer: Buffer) -> Action {
    Action::Write { offset: (number * PAGE_BYTES) as u64, buffers: buffer.into() }
}

fn request(source: &SourceRef, action: Action, token: u64, completion: Arc<dyn Completion>) -> Request {
    Request { source: source.clone(), action, tenant: None, token, completion }
}

const READ_WRITE: FileOpen = FileOpen::READ_WRITE;
const READ_ONLY: FileOpen = FileOpen::READ_ONLY;

/// How a pair of backend and files is started; none where there is no such backend.
type Start = fn() -> Option<Started>;

/// A backend and a kind of source on trial.
struct Bench {
    start: Start,
    backend: Arc<dyn Backend>,
    opener: Arc<dyn Opener>,
    directory: tempfile::TempDir,
}

impl Bench {
    fn new(start: Start) -> Option<Self> {
        let Started { opener, backend } = start()?;
        Some(Self { start, backend, opener, directory: directory() })
    }

    /// Another pair of the same kind, which nobody else refers to.
    fn fresh(&self) -> Self {
        Self::new(self.start).expect("it was started before")
    }

    fn open(&self, name: &str, how: &FileOpen) -> Result<SourceRef, OpenError> {
        self.opener.open(&self.path(name), how).map(SourceRef::new)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A new file of `pages` pages, each filled with its [`pattern`].
    fn file(&self, name: &str, pages: usize) -> SourceRef {
        let file = self.open(name, &READ_WRITE).unwrap();
        if pages > 0 {
            let mut memory = Pages::new(pages);
            (0..pages).for_each(|number| memory.page(number).fill(pattern(number)));
            let pieces = (0..pages).map(|number| memory.buffer(number)).collect();
            let buffers = Buffers::Many(pieces);
            self.backend.run(&file, Action::Write { offset: 0, buffers }).unwrap();
        }
        file
    }
}

/// Instantiates the suite for each backend with each kind of source; one `#[test]` per check.
macro_rules! suite {
    ($($check:ident),* $(,)?) => {
        suite!(@pair uring, uring, local, $($check),*);
        suite!(@pair uring_simulated, uring, simulated, $($check),*);
        suite!(@pair uring_memory, uring, memory, $($check),*);
        suite!(@pair uring_sqpoll, uring_sqpoll, local, $($check),*);
        suite!(@pair threads, threads, local, $($check),*);
        suite!(@pair threads_simulated, threads, simulated, $($check),*);
        suite!(@pair threads_memory, threads, memory, $($check),*);
        suite!(@pair sim, sim, simulated, $($check),*);
        suite!(@pair sim_local, sim, local, $($check),*);
        suite!(@pair sim_memory, sim, memory, $($check),*);
    };
    (@pair $name:ident, $backend:ident, $files:ident, $($check:ident),*) => {
        mod $name {
            fn start() -> Option<crate::io::Started> {
                super::start::$backend().map(super::start::$files)
            }

            $(
                #[test]
                fn $check() {
                    if let Some(bench) = super::Bench::new(start) {
                        super::$check(&bench);
                    }
                }
            )*
        }
    };
}

suite!(
    reads_what_was_written,
    transfers_several_buffers,
    reads_into_part_of_a_batch_at_the_end_of_the_file_fail,
    completes_each_request_of_a_large_batch_once,
    streams,
    completes_without_anybody_waiting,
    a_completion_may_submit,
    tenants_take_turns,
    reads_of_many_tenants_are_done_once_each,
    failed_reads_give_their_turn_back,
    closing_finishes_reads_that_wait_for_their_turn,
    a_panicking_completion_harms_nobody,
    serves_many_threads,
    finishes_for_a_thread_that_has_ended,
    drops_only_when_everything_is_done,
    a_completion_may_own_the_backend,
    allocates_and_truncates,
    syncs,
    locks_files,
    makes_files_that_must_be_new,
    keeps_files_apart_that_come_and_go,
    reports_bad_transfers,
);

/// Starts each backend, or says why not, and gives it each kind of source.
mod start {
    use super::*;

    pub(super) fn uring() -> Option<Arc<dyn Backend>> {
        start_uring(&IoOptions { depth: DEPTH, ..IoOptions::default() })
    }

    pub(super) fn uring_sqpoll() -> Option<Arc<dyn Backend>> {
        start_uring(&IoOptions { depth: DEPTH, sqpoll_idle_ms: Some(10), ..IoOptions::default() })
    }

    fn start_uring(options: &IoOptions) -> Option<Arc<dyn Backend>> {
        match Uring::new(options) {
            Ok(backend) if !options.refuse_uring => Some(Arc::new(backend)),
            Ok(_) => {
                println!("skipped: io_uring is refused by the environment");
                None
            }
            Err(error) => {
                println!("skipped: no io_uring here: {error}");
                None
            }
        }
    }

    pub(super) fn threads() -> Option<Arc<dyn Backend>> {
        Some(Arc::new(Threads::new(&IoOptions { threads_max: 3, ..IoOptions::default() }, Vec::new())))
    }

    pub(super) fn sim() -> Option<Arc<dyn Backend>> {
        Some(super::super::start_sim(&SimDevice::new(1)).backend)
    }

    pub(super) fn local(backend: Arc<dyn Backend>) -> Started {
        let opener = LocalFiles::new(Arc::clone(&backend), SATURATION);
        Started { opener: Arc::new(opener), backend }
    }

    pub(super) fn simulated(backend: Arc<dyn Backend>) -> Started {
        Started { opener: Arc::new(SimDevice::new(2)), backend }
    }

    pub(super) fn memory(backend: Arc<dyn Backend>) -> Started {
        Started { opener: Arc::new(MemoryFiles::default()), backend }
    }
}

fn reads_what_was_written(bench: &Bench) {
    let file = bench.file("a", 4);
    let mut memory = Pages::new(2);
    memory.page(0).fill(77);
    bench.backend.run(&file, write(2, memory.buffer(0))).unwrap();
    for (number, expected) in [(0, pattern(0)), (2, 77), (3, pattern(3))] {
        bench.backend.run(&file, read(number, memory.buffer(1))).unwrap();
        assert!(memory.page(1).iter().all(|&byte| byte == expected));
    }
    assert_eq!(file.len_bytes().unwrap(), 4 * PAGE_BYTES as u64);
}

/// Vectored, through each way of submitting, with buffers in another order than their pages.
fn transfers_several_buffers(bench: &Bench) {
    let file = bench.file("a", 8);
    let mut memory = Pages::new(6);
    for (index, value) in [(0, 200), (1, 201), (2, 202)] {
        memory.page(index).fill(value);
    }
    let scattered = |order: [usize; 3]| Buffers::Many(order.map(|index| memory.buffer(index)).into());
    let group = Group::new(2);
    let mut batch = vec![
        request(&file, Action::Write { offset: 0, buffers: scattered([2, 0, 1]) }, 0, group.clone()),
        request(&file, Action::Read { offset: 5 * 4096, buffers: scattered([5, 3, 4]) }, 1, group.clone()),
    ];
    bench.backend.submit_and_wait(&mut batch, &group);
    assert!(group.take_failures().is_empty());
    for (index, number) in [(5, 5), (3, 6), (4, 7)] {
        assert!(memory.page(index).iter().all(|&byte| byte == pattern(number)), "page {number}");
    }
    let scattered = |order: [usize; 3]| Buffers::Many(order.map(|index| memory.buffer(index)).into());
    let group = Group::new(1);
    let again = Action::Read { offset: 0, buffers: scattered([3, 4, 5]) };
    bench.backend.submit(&mut vec![request(&file, again, 0, group.clone())]);
    group.wait();
    assert!(group.take_failures().is_empty());
    for (index, value) in [(3, 202), (4, 200), (5, 201)] {
        assert!(memory.page(index).iter().all(|&byte| byte == value));
    }
}

/// A page beyond the end, and a page that the end cuts.
fn reads_into_part_of_a_batch_at_the_end_of_the_file_fail(bench: &Bench) {
    let file = bench.file("a", 3);
    file.set_len_bytes(2 * PAGE_BYTES as u64 + 512).unwrap();
    let mut memory = Pages::new(4);
    let group = Group::new(4);
    let mut batch: Vec<_> = (0..4)
        .map(|number| request(&file, read(number, memory.buffer(number)), number as u64, group.clone()))
        .collect();
    bench.backend.submit_and_wait(&mut batch, &group);
    let mut failures = group.take_failures();
    failures.sort_by_key(|&(token, _)| token);
    assert_eq!(failures.iter().map(|&(token, _)| token).collect::<Vec<_>>(), [2, 3]);
    for (token, error) in failures {
        assert!(error.is_end_of_file(), "{error}");
        assert_eq!(error.operation(), IoOperation::Read);
        assert_eq!(error.offset(), token * PAGE_BYTES as u64);
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::UnexpectedEof);
        assert!(
            bench.backend.run(&file, read(token as usize, memory.buffer(0))).unwrap_err().is_end_of_file()
        );
    }
    assert!(memory.page(1).iter().all(|&byte| byte == pattern(1)));
}

/// Counts completions per token.
struct Tally {
    counts: Vec<AtomicUsize>,
    failures: Mutex<Vec<IoError>>,
    group: Arc<Group>,
}

impl Tally {
    fn new(requests: usize) -> Arc<Self> {
        let counts = (0..requests).map(|_| AtomicUsize::new(0)).collect();
        Arc::new(Self { counts, failures: Mutex::default(), group: Group::new(requests) })
    }

    fn assert_each_once(&self) {
        assert!(self.counts.iter().all(|count| count.load(Ordering::SeqCst) == 1));
        assert_eq!(*self.failures.lock(), []);
    }
}

impl Completion for Tally {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        self.counts[token as usize].fetch_add(1, Ordering::SeqCst);
        self.failures.lock().extend(result.err());
        self.group.complete(token, Ok(()));
    }
}

fn completes_each_request_of_a_large_batch_once(bench: &Bench) {
    let pages = 20 * DEPTH as usize;
    let file = bench.file("a", pages);
    let mut memory = Pages::new(pages);
    for waited in [true, false] {
        memory.bytes().fill(0);
        let tally = Tally::new(pages);
        let mut batch: Vec<_> = (0..pages)
            .map(|number| request(&file, read(number, memory.buffer(number)), number as u64, tally.clone()))
            .collect();
        if waited {
            bench.backend.submit_and_wait(&mut batch, &tally.group);
        } else {
            bench.backend.submit(&mut batch);
            tally.group.wait();
        }
        assert!(batch.is_empty());
        tally.assert_each_once();
        for number in 0..pages {
            assert!(memory.page(number).iter().all(|&byte| byte == pattern(number)), "page {number}");
        }
    }
}

/// Sends the token of each completion.
struct Sender(mpsc::Sender<u64>);

impl Completion for Sender {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        result.unwrap();
        let _ = self.0.send(token);
    }
}

/// The submitter listens to a channel, as a future's waker would: it never comes back to the backend.
fn completes_without_anybody_waiting(bench: &Bench) {
    let file = bench.file("a", 16);
    let memory = Pages::new(16);
    let (sender, receiver) = mpsc::channel();
    let completion = Arc::new(Sender(sender));
    for number in 0..16 {
        let action = read(number, memory.buffer(number));
        bench.backend.submit(&mut vec![request(&file, action, number as u64, completion.clone())]);
    }
    let mut tokens: Vec<_> = receiver.iter().take(16).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, (0..16).collect::<Vec<_>>());
}

/// Reads the next page when one is done.
struct Chain {
    backend: Arc<dyn Backend>,
    file: SourceRef,
    memory: Pages,
    pages: u64,
    group: Arc<Group>,
    me: Mutex<Option<Arc<Chain>>>,
}

impl Completion for Chain {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        let next = token + 1;
        if result.is_ok() && next < self.pages {
            let me = self.me.lock().clone().expect("set before the start");
            let action = read(next as usize, self.memory.buffer(next as usize));
            self.backend.submit(&mut vec![request(&self.file, action, next, me)]);
        }
        self.group.complete(token, result);
    }
}

fn a_completion_may_submit(bench: &Bench) {
    let pages = 12;
    let chain = Arc::new(Chain {
        backend: Arc::clone(&bench.backend),
        file: bench.file("a", pages),
        memory: Pages::new(pages),
        pages: pages as u64,
        group: Group::new(pages),
        me: Mutex::default(),
    });
    *chain.me.lock() = Some(Arc::clone(&chain));
    bench.backend.submit(&mut vec![request(&chain.file, read(0, chain.memory.buffer(0)), 0, chain.clone())]);
    chain.group.wait();
    assert_eq!(chain.group.take_failures(), []);
    chain.me.lock().take();
    bench.backend.drain();
}

/// Notes the tokens of completions in their order.
struct Order {
    tokens: Mutex<Vec<u64>>,
    group: Arc<Group>,
}

impl Completion for Order {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        self.tokens.lock().push(token);
        self.group.complete(token, result);
    }
}

fn read_of(tenant: u32, file: &SourceRef, action: Action, completion: Arc<dyn Completion>) -> Request {
    Request { tenant: Some(TenantId(tenant)), ..request(file, action, u64::from(tenant), completion) }
}

/// A few reads behind many of another tenant, all queued at once, are not done last.
fn tenants_take_turns(bench: &Bench) {
    let (many, few) = (60, 4);
    let file = bench.file("a", many + few);
    if bench.backend.report().backend == "sim" || LocalFile::of(&*file).is_none() {
        return; // Backends begin at once what they execute in memory, and what sources do themselves.
    }
    let memory = Pages::new(many + few);
    let tenant = |number: usize| if number < many { 1 } else { 2 };
    // The position of the last of the few among all reads, in the order in which they were done.
    let last = || {
        let order = Arc::new(Order { tokens: Mutex::default(), group: Group::new(many + few) });
        let mut batch: Vec<_> = (0..many + few)
            .map(|number| read_of(tenant(number), &file, read(number, memory.buffer(number)), order.clone()))
            .collect();
        bench.backend.submit(&mut batch);
        order.group.wait();
        assert_eq!(order.group.take_failures(), []);
        order.tokens.lock().iter().rposition(|token| *token == 2).unwrap()
    };
    // Every other read that is started is one of the few. More than the slots can overtake the last of them
    // only if its thread is kept from running by other load on the machine.
    assert!((0..10).any(|_| last() < 2 * few + 4 * SATURATION as usize));
    assert!(bench.backend.report().to_string().contains("taking turns from 2 reads"));
}

/// Alone, in batches, and without waiting, by more threads than slots.
fn reads_of_many_tenants_are_done_once_each(bench: &Bench) {
    const THREADS: usize = 12;
    const PAGES: usize = 20;
    let file = bench.file("a", PAGES);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                let tenant = thread as u32 % 3;
                let mut memory = Pages::new(PAGES);
                for way in 0..9 {
                    memory.bytes().fill(0);
                    let tally = Tally::new(PAGES);
                    let one = |number: usize| Request {
                        tenant: Some(TenantId(tenant)),
                        ..request(file, read(number, memory.buffer(number)), number as u64, tally.clone())
                    };
                    match (thread + way) % 3 {
                        0 => (0..PAGES).for_each(|number| {
                            let action = read(number, memory.buffer(number));
                            bench.backend.read_for(TenantId(tenant), file, action).unwrap();
                        }),
                        1 => bench.backend.submit_and_wait(&mut (0..PAGES).map(one).collect(), &tally.group),
                        _ => {
                            bench.backend.submit(&mut (0..PAGES).map(one).collect());
                            tally.group.wait();
                        }
                    }
                    if (thread + way) % 3 != 0 {
                        tally.assert_each_once();
                    }
                    assert!((0..PAGES).all(|number| memory.page(number)[1] == pattern(number)));
                }
            });
        }
    });
}

/// More failures than slots; were one not given back, the reads after them would wait for ever.
fn failed_reads_give_their_turn_back(bench: &Bench) {
    let file = bench.file("a", 4);
    let memory = Pages::new(24);
    for tenant in 1..3 {
        let beyond = read(9, memory.buffer(0));
        assert!(bench.backend.read_for(TenantId(tenant), &file, beyond).unwrap_err().is_end_of_file());
        let group = Group::new(1);
        let beyond = read_of(tenant, &file, read(9, memory.buffer(0)), group.clone());
        bench.backend.submit_and_wait(&mut vec![beyond], &group);
        assert_eq!(group.take_failures().len(), 1);
    }
    for waited in [true, false, true, false] {
        let group = Group::new(24);
        let number = |index: usize| if index.is_multiple_of(2) { 9 } else { index % 4 };
        let mut batch: Vec<_> = (0..24)
            .map(|index| {
                let action = read(number(index), memory.buffer(index));
                read_of(index as u32 / 12, &file, action, group.clone())
            })
            .collect();
        if waited {
            bench.backend.submit_and_wait(&mut batch, &group);
        } else {
            bench.backend.submit(&mut batch);
            group.wait();
        }
        assert_eq!(group.take_failures().len(), 12);
    }
    bench.backend.drain();
}

/// Nobody waits for them any more; they are done before the backend is gone.
fn closing_finishes_reads_that_wait_for_their_turn(bench: &Bench) {
    let fresh = bench.fresh();
    let file = fresh.file("a", 40);
    let mut memory = Pages::new(120);
    let tally = Tally::new(120);
    let mut batch: Vec<_> = (0..120)
        .map(|index| Request {
            tenant: Some(TenantId(index as u32 % 3)),
            ..request(&file, read(index / 3, memory.buffer(index)), index as u64, tally.clone())
        })
        .collect();
    fresh.backend.submit(&mut batch);
    drop(fresh);
    tally.group.wait();
    tally.assert_each_once();
    assert!((0..120).all(|index| memory.page(index)[3] == pattern(index / 3)));
}

struct Panicking;

impl Completion for Panicking {
    fn complete(&self, _: u64, _: Result<(), IoError>) {
        std::panic::resume_unwind(Box::new("a completion that does not keep its contract"));
    }
}

fn a_panicking_completion_harms_nobody(bench: &Bench) {
    let file = bench.file("a", 4);
    let memory = Pages::new(8);
    let group = Group::new(4);
    let mut batch = Vec::new();
    for number in 0..4 {
        batch.push(request(&file, read(number, memory.buffer(number)), 0, Arc::new(Panicking)));
        batch.push(request(&file, read(number, memory.buffer(4 + number)), 0, group.clone()));
    }
    bench.backend.submit_and_wait(&mut batch, &group);
    assert_eq!(group.take_failures(), []);
    bench.backend.submit(&mut vec![request(&file, read(0, memory.buffer(0)), 0, Arc::new(Panicking))]);
    bench.backend.drain();
    bench.backend.run(&file, read(0, memory.buffer(0))).unwrap();
}

/// More threads than cores and than slots, each with pages of its own, through every way in.
fn serves_many_threads(bench: &Bench) {
    const THREADS: usize = 24;
    const PAGES: usize = 12;
    let file = bench.file("a", THREADS * PAGES);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let file = &file;
            scope.spawn(move || {
                let mut memory = Pages::new(PAGES);
                let first = thread * PAGES;
                for round in 0..6 {
                    let value = (thread * 7 + round) as u8;
                    memory.bytes().fill(value);
                    rewrite(bench, file, first, &memory, PAGES, round);
                    memory.bytes().fill(!value);
                    reread(bench, file, first, &memory, PAGES, round);
                    assert!(memory.bytes().iter().all(|&byte| byte == value), "thread {thread}");
                }
            });
        }
    });
}

fn rewrite(bench: &Bench, file: &SourceRef, first: usize, memory: &Pages, pages: usize, round: usize) {
    move_pages(bench, file, pages, round, &|number| write(first + number, memory.buffer(number)));
}

fn reread(bench: &Bench, file: &SourceRef, first: usize, memory: &Pages, pages: usize, round: usize) {
    move_pages(bench, file, pages, round + 1, &|number| read(first + number, memory.buffer(number)));
}

/// Does `action` for each page: as a batch that is waited for, as one that is not, or one by one.
fn move_pages(bench: &Bench, file: &SourceRef, pages: usize, way: usize, action: &dyn Fn(usize) -> Action) {
    if way.is_multiple_of(3) {
        (0..pages).for_each(|number| bench.backend.run(file, action(number)).unwrap());
        return;
    }
    let tally = Tally::new(pages);
    let mut batch: Vec<_> =
        (0..pages).map(|number| request(file, action(number), number as u64, tally.clone())).collect();
    if way % 3 == 1 {
        bench.backend.submit_and_wait(&mut batch, &tally.group);
    } else {
        bench.backend.submit(&mut batch);
        tally.group.wait();
    }
    tally.assert_each_once();
}

/// A sync, which the kernel does on a worker of the submitting task, and transfers.
fn finishes_for_a_thread_that_has_ended(bench: &Bench) {
    let file = bench.file("a", 64);
    let memory = Pages::new(64);
    for _ in 0..8 {
        let tally = Tally::new(65);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut batch: Vec<_> = (0..64)
                    .map(|number| {
                        request(&file, write(number, memory.buffer(number)), number as u64, tally.clone())
                    })
                    .collect();
                batch.push(request(&file, Action::Sync { all_metadata: true }, 64, tally.clone()));
                bench.backend.submit(&mut batch);
            });
        });
        tally.group.wait();
        tally.assert_each_once();
    }
}

fn drops_only_when_everything_is_done(bench: &Bench) {
    let file = bench.file("a", 128);
    let mut memory = Pages::new(128);
    let tally = Tally::new(128);
    let mut batch: Vec<_> = (0..128)
        .map(|number| request(&file, read(number, memory.buffer(number)), number as u64, tally.clone()))
        .collect();
    bench.backend.submit(&mut batch);
    bench.backend.drain();
    assert!(tally.group.is_done());
    tally.assert_each_once();
    assert!((0..128).all(|number| memory.page(number)[17] == pattern(number)));
}

/// Drops the last reference to a backend from within one of its own threads, with more in flight.
struct Owner {
    backend: Mutex<Option<Arc<dyn Backend>>>,
    tally: Arc<Tally>,
}

impl Completion for Owner {
    fn complete(&self, token: u64, result: Result<(), IoError>) {
        let backend = self.backend.lock().take();
        drop(backend);
        self.tally.complete(token, result);
    }
}

fn a_completion_may_own_the_backend(bench: &Bench) {
    let bench = bench.fresh();
    let file = bench.file("a", 32);
    let memory = Pages::new(32);
    let tally = Tally::new(32);
    let Bench { backend, opener, directory: _directory, start: _ } = bench;
    drop(opener);
    let owner =
        Arc::new(Owner { backend: Mutex::new(Some(Arc::clone(&backend))), tally: Arc::clone(&tally) });
    let mut batch: Vec<_> = (0..32)
        .map(|number| request(&file, read(number, memory.buffer(number)), number as u64, owner.clone()))
        .collect();
    backend.submit(&mut batch);
    drop(backend);
    tally.group.wait();
    tally.assert_each_once();
}

fn allocates_and_truncates(bench: &Bench) {
    let file = bench.file("a", 2);
    let mut memory = Pages::new(1);
    let allocate = |from: usize, pages: usize| Action::Allocate {
        offset: (from * PAGE_BYTES) as u64,
        bytes: (pages * PAGE_BYTES) as u64,
    };
    bench.backend.run(&file, allocate(2, 6)).unwrap();
    assert_eq!(file.len_bytes().unwrap(), 8 * PAGE_BYTES as u64);
    for (number, expected) in [(1, pattern(1)), (2, 0), (7, 0)] {
        memory.page(0).fill(9);
        bench.backend.run(&file, read(number, memory.buffer(0))).unwrap();
        assert!(memory.page(0).iter().all(|&byte| byte == expected), "page {number}");
    }
    let group = Group::new(2);
    let mut batch = vec![
        request(&file, allocate(8, 2), 0, group.clone()),
        request(&file, read(0, memory.buffer(0)), 1, group.clone()),
    ];
    bench.backend.submit_and_wait(&mut batch, &group);
    assert_eq!(group.take_failures(), []);
    assert_eq!(file.len_bytes().unwrap(), 10 * PAGE_BYTES as u64);
    file.set_len_bytes(PAGE_BYTES as u64).unwrap();
    assert!(bench.backend.run(&file, read(1, memory.buffer(0))).unwrap_err().is_end_of_file());
}

fn syncs(bench: &Bench) {
    let file = bench.file("a", 1);
    for all_metadata in [false, true] {
        bench.backend.run(&file, Action::Sync { all_metadata }).unwrap();
        let group = Group::new(2);
        let sync = || request(&file, Action::Sync { all_metadata }, 0, group.clone());
        bench.backend.submit(&mut vec![sync()]);
        bench.backend.submit_and_wait(&mut vec![sync()], &group);
        assert_eq!(group.take_failures(), []);
    }
}

fn locks_files(bench: &Bench) {
    let file = bench.file("a", 1);
    assert!(matches!(bench.open("a", &READ_WRITE), Err(OpenError::Locked)));
    assert!(matches!(bench.open("a", &READ_ONLY), Err(OpenError::Locked)));
    let identity = file.identity();
    drop(file);
    let readers = [(); 2].map(|()| bench.open("a", &READ_ONLY).unwrap());
    assert!(readers.iter().all(|reader| reader.identity() == identity));
    assert!(matches!(bench.open("a", &READ_WRITE), Err(OpenError::Locked)));
    drop(readers);
    let removed = bench.open("a", &READ_WRITE).unwrap();
    removed.entry().unwrap().remove().unwrap();
    removed.entry().unwrap().sync_folder().unwrap();
    drop(removed);
    let gone = bench.open("a", &READ_ONLY).unwrap_err();
    let OpenError::Os { error, .. } = gone else { panic!("{gone}") };
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

fn makes_files_that_must_be_new(bench: &Bench) {
    let new = FileOpen { create_new: true, ..FileOpen::EXISTING };
    let made = bench.open("a", &new).unwrap();
    assert_eq!(made.len_bytes().unwrap(), 0);
    assert!(matches!(bench.open("a", &new), Err(OpenError::Exists)), "it is open");
    drop(made);
    assert!(matches!(bench.open("a", &new), Err(OpenError::Exists)), "it is there");
    bench.file("b", 1);
    assert!(matches!(bench.open("b", &new), Err(OpenError::Exists)));
    let removed = bench.open("a", &READ_WRITE).unwrap();
    removed.entry().unwrap().remove().unwrap();
    drop(bench.open("a", &new).unwrap());
    let makers = std::thread::scope(|scope| {
        let makers = [(); 4].map(|()| scope.spawn(|| bench.open("c", &new).is_ok()));
        makers.map(|maker| usize::from(maker.join().unwrap())).iter().sum::<usize>()
    });
    assert_eq!(makers, 1, "one of them has made it");
}

/// Many more files than stay open, so that places of registered files are used again.
fn keeps_files_apart_that_come_and_go(bench: &Bench) {
    let mut memory = Pages::new(4);
    for round in 0..20_usize {
        let files: Vec<_> = (0..4).map(|index| bench.file(&format!("{round}-{index}"), 1)).collect();
        for (index, file) in files.iter().enumerate() {
            memory.page(index).fill((round * 4 + index) as u8);
            bench.backend.run(file, write(0, memory.buffer(index))).unwrap();
        }
        memory.bytes().fill(255);
        let group = Group::new(4);
        let reads = |group: &Arc<Group>| -> Vec<_> {
            let one = |(index, file)| request(file, read(0, memory.buffer(index)), 0, group.clone() as _);
            files.iter().enumerate().map(one).collect()
        };
        if round % 2 == 0 {
            bench.backend.submit_and_wait(&mut reads(&group), &group);
        } else {
            bench.backend.submit(&mut reads(&group));
            group.wait();
        }
        assert_eq!(group.take_failures(), []);
        for index in 0..4 {
            assert!(memory.page(index).iter().all(|&byte| byte == (round * 4 + index) as u8));
        }
    }
}

/// A write to a file opened for reading fails with the kernel's error, in a batch and alone.
fn reports_bad_transfers(bench: &Bench) {
    let file = bench.file("a", 2);
    if file.note() == "simulated" {
        return sim_reports_faults(bench);
    }
    drop(file);
    let file = bench.open("a", &READ_ONLY).unwrap();
    let memory = Pages::new(2);
    let group = Group::new(2);
    let mut batch = vec![
        request(&file, write(0, memory.buffer(0)), 0, group.clone()),
        request(&file, read(1, memory.buffer(1)), 1, group.clone()),
    ];
    bench.backend.submit_and_wait(&mut batch, &group);
    let failures = group.take_failures();
    assert_eq!(failures.len(), 1);
    let (token, error) = failures[0].clone();
    assert_eq!((token, error.operation(), error.os_error()), (0, IoOperation::Write, Some(libc::EBADF)));
    let alone = bench.backend.run(&file, write(1, memory.buffer(0))).unwrap_err();
    assert_eq!((alone.offset(), alone.os_error()), (PAGE_BYTES as u64, Some(libc::EBADF)));
}

fn sim_reports_faults(bench: &Bench) {
    let device = SimDevice::new(3);
    let file = SourceRef::new(device.open(&bench.path("a"), &READ_WRITE).unwrap());
    let nth = device.calls(IoOperation::Write) + 1;
    device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::NoSpace });
    let memory = Pages::new(1);
    let error = bench.backend.run(&file, write(0, memory.buffer(0))).unwrap_err();
    assert!(error.is_no_space());
    bench.backend.run(&file, write(0, memory.buffer(0))).unwrap();
}

/// Completions keep what they own alive exactly until they have been called.
#[test]
fn a_request_owns_its_completion_until_it_is_done() {
    let bench = Bench::new(|| start::threads().map(start::local)).unwrap();
    let file = bench.file("a", 1);
    let memory = Pages::new(1);
    let group = Group::new(1);
    let owned: Arc<dyn Any + Send + Sync> = group.clone();
    bench.backend.submit(&mut vec![request(&file, read(0, memory.buffer(0)), 0, group.clone())]);
    group.wait();
    bench.backend.drain();
    drop(group);
    assert_eq!(Arc::strong_count(&owned), 1);
}
