//! Goal: an engine's own source is a file like any other. Its failures are errors for its users, and have no
//! effect on other files.
//! Method: a source in memory with a thread of its own, written against the public trait alone, which can be
//! held, made to fail, panic or drop its requests at each call; on every backend.

mod common;

use std::error::Error as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, mpsc};

use bufpool::source::{Alignment, Capabilities, Done, FileIdentity, ReadRequest, Source, WriteRequest};
use bufpool::{ErrorKind, FileOptions, PoolOptions};
use common::{PAGE_BYTES, block_on, deterministic, directory, kind, on_each_backend, small, stamp, version};

const PAGES: u64 = 100;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Call {
    Length,
    SetLength,
    Read,
    Write,
    Sync,
    Allocate,
    DropCache,
}

/// What the source does with the calls of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Serve,
    Fail(io::ErrorKind),
    /// The request is dropped by the source's thread.
    Drop,
    /// The call panics.
    Panic,
    /// The call finishes the request, and then panics.
    PanicLate,
}

/// The error of a failing source, which tests recognise by its type.
#[derive(Debug)]
struct Lost(Call);

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?} was lost", self.0)
    }
}

impl std::error::Error for Lost {}

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    does: Vec<(Call, Does)>,
    /// Requests wait while this is true.
    held: bool,
    /// Requests that wait.
    waiting: usize,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct Memory {
    number: u128,
    capabilities: Capabilities,
    shared: Arc<Shared>,
    queue: mpsc::Sender<Request>,
}

enum Request {
    Read(ReadRequest),
    Write(WriteRequest),
    Sync(Done),
    Allocate(u64, Done),
}

impl Request {
    fn call(&self) -> Call {
        match self {
            Self::Read(_) => Call::Read,
            Self::Write(_) => Call::Write,
            Self::Sync(_) => Call::Sync,
            Self::Allocate(..) => Call::Allocate,
        }
    }

    fn finish(self, result: io::Result<()>) {
        match self {
            Self::Read(request) => request.finish(result),
            Self::Write(request) => request.finish(result),
            Self::Sync(done) | Self::Allocate(_, done) => done.finish(result),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn at_once<T>(&self, call: Call, serve: impl FnOnce(&mut State) -> T) -> io::Result<T> {
        let mut state = self.lock();
        match state.does(call) {
            Does::Serve => Ok(serve(&mut state)),
            Does::Fail(kind) => Err(io::Error::new(kind, Lost(call))),
            does => {
                drop(state);
                eprintln!("{call:?}: {does:?}");
                std::panic::panic_any(common::Bomb)
            }
        }
    }

    /// Does with the request what [`Does`] says for the call.
    fn work(&self, mut request: Request) {
        let mut state = self.lock();
        state.waiting += 1;
        self.changed.notify_all();
        while state.held {
            state = self.changed.wait(state).unwrap();
        }
        state.waiting -= 1;
        let result = match state.does(request.call()) {
            Does::Drop => return,
            Does::Fail(kind) => Err(io::Error::new(kind, Lost(request.call()))),
            _ => state.serve(&mut request),
        };
        // `finish` may make other calls, which need this lock.
        drop(state);
        request.finish(result);
    }
}

impl State {
    fn does(&self, call: Call) -> Does {
        self.does.iter().find(|(other, _)| *other == call).map_or(Does::Serve, |&(_, does)| does)
    }

    fn serve(&mut self, request: &mut Request) -> io::Result<()> {
        match request {
            Request::Read(request) => {
                let from = request.offset() as usize;
                let found = self.bytes.get(from..from + request.len());
                let mut found = found.ok_or(io::ErrorKind::UnexpectedEof)?;
                for piece in request.pieces() {
                    let (now, later) = found.split_at(piece.len());
                    piece.copy_from_slice(now);
                    found = later;
                }
            }
            Request::Write(request) => {
                let mut at = request.offset() as usize;
                for piece in request.pieces() {
                    self.bytes[at..at + piece.len()].copy_from_slice(piece);
                    at += piece.len();
                }
            }
            Request::Sync(_) => self.synced.clone_from(&self.bytes),
            Request::Allocate(end, _) => self.bytes.resize((*end as usize).max(self.bytes.len()), 0),
        }
        Ok(())
    }
}

impl Memory {
    /// A writable source of `pages` stamped pages, version 1.
    fn new(pages: u64) -> Arc<Self> {
        Self::with(pages, Capabilities { writable: true, ..Capabilities::default() })
    }

    fn with(pages: u64, capabilities: Capabilities) -> Arc<Self> {
        static NUMBERS: AtomicU64 = AtomicU64::new(1);
        let mut bytes = vec![0; pages as usize * PAGE_BYTES];
        (0..).zip(bytes.chunks_mut(PAGE_BYTES)).for_each(|(number, page)| stamp(page, number, 1));
        let state = State { synced: bytes.clone(), bytes, does: Vec::new(), held: false, waiting: 0 };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let (queue, requests) = mpsc::channel();
        let of_thread = Arc::clone(&shared);
        std::thread::spawn(move || requests.into_iter().for_each(|request| of_thread.work(request)));
        Arc::new(Self { number: NUMBERS.fetch_add(1, Ordering::Relaxed).into(), capabilities, shared, queue })
    }

    fn on(&self, call: Call, does: Does) {
        let mut state = self.shared.lock();
        state.does.retain(|(other, _)| *other != call);
        state.does.push((call, does));
    }

    fn hold(&self, held: bool) {
        self.shared.lock().held = held;
        self.shared.changed.notify_all();
    }

    fn wait_for_waiting(&self, requests: usize) {
        let mut state = self.shared.lock();
        while state.waiting < requests {
            state = self.shared.changed.wait(state).unwrap();
        }
    }

    /// The version of a page as of the last sync.
    fn synced(&self, number: u64) -> u64 {
        version(&self.shared.lock().synced[number as usize * PAGE_BYTES..][..PAGE_BYTES], number)
    }

    fn begin(&self, request: Request) {
        let does = self.shared.lock().does(request.call());
        match does {
            Does::Panic => resume_unwind(Box::new("before the end")),
            Does::PanicLate => {
                self.shared.work(request);
                resume_unwind(Box::new("after the end"));
            }
            _ => self.queue.send(request).unwrap(),
        }
    }
}

impl Source for Memory {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(self.number)
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn note(&self) -> String {
        format!("memory {}", self.number)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        self.shared.at_once(Call::Length, |state| state.bytes.len() as u64)
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        self.shared.at_once(Call::SetLength, |state| state.bytes.resize(bytes as usize, 0))
    }

    fn read(&self, request: ReadRequest) {
        self.begin(Request::Read(request));
    }

    fn write(&self, request: WriteRequest) {
        self.begin(Request::Write(request));
    }

    fn sync(&self, _: bool, done: Done) {
        self.begin(Request::Sync(done));
    }

    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        self.begin(Request::Allocate(offset + bytes, done));
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.shared.at_once(Call::DropCache, |state| state.bytes.clone_from(&state.synced))
    }
}

/// On each backend, and in deterministic mode.
fn on_each_pool(test: impl Fn(PoolOptions)) {
    on_each_backend(|io| {
        test(small().io(io));
        test(deterministic().io(io));
    });
}

#[test]
fn a_source_is_a_file_like_any_other() {
    on_each_pool(|options| {
        let source = Memory::new(PAGES);
        let pool = options.open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        assert_eq!(file.pages(), PAGES);
        assert!(pool.io().to_string().contains(&file.name().to_owned()));
        for number in 0..PAGES {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2);
        }
        file.flush().unwrap();
        assert!((0..PAGES).all(|number| source.synced(number) == 2));
        for number in file.extend(20).unwrap() {
            stamp(&mut tenant.create(file.page(number)).unwrap(), number, 3);
        }
        pool.checkpoint().unwrap();
        assert_eq!(source.synced(PAGES + 19), 3);
        let pages: Vec<_> = (0..16).map(|number| file.page(7 * number)).collect();
        for (page, read) in pages.iter().zip(tenant.read_many(&pages)) {
            version(&read.unwrap().unwrap(), page.number());
        }
        assert_eq!(version(&block_on(tenant.read_async(file.page(50))).unwrap(), 50), 2);
        file.truncate(10).unwrap();
        assert_eq!(source.shared.lock().bytes.len(), 10 * PAGE_BYTES);
        assert_eq!(file.reopen().unwrap(), 0);
        assert_eq!(kind(file.clone().remove()), ErrorKind::Unsupported);
        stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 4);
        pool.check_invariants();
        file.close().unwrap();
        assert_eq!((source.synced(3), Arc::strong_count(&source)), (4, 1));
        pool.close().unwrap();
    });
}

#[test]
fn a_source_is_open_once() {
    let source = Memory::new(PAGES);
    let pool = small().open().unwrap();
    let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
    let again = || pool.open_source(source.clone(), FileOptions::new());
    assert_eq!(kind(again()), ErrorKind::FileAlreadyOpen);
    stamp(&mut pool.default_tenant().write(file.page(5)).unwrap(), 5, 2);
    drop(file);
    let other = pool.open_source(source.clone(), FileOptions::new().read_only(true));
    assert_eq!(kind(other), ErrorKind::FileAlreadyOpen);
    let twin = Arc::new(Memory { number: source.number, ..Arc::into_inner(Memory::new(PAGES)).unwrap() });
    assert_eq!(kind(pool.open_source(twin.clone(), FileOptions::new())), ErrorKind::FileAlreadyOpen);
    let file = again().unwrap();
    assert_eq!(version(&pool.default_tenant().read(file.page(5)).unwrap(), 5), 2);
    file.close().unwrap();
    pool.open_source(twin, FileOptions::new()).unwrap();
    pool.close().unwrap();
    assert_eq!(Arc::strong_count(&source), 1);
}

#[test]
fn a_source_that_cannot_be_used_is_refused() {
    let writable = Capabilities { writable: true, ..Capabilities::default() };
    let pool = small().open().unwrap();
    let open = |source: &Arc<Memory>| pool.open_source(source.clone(), FileOptions::new());
    let read_only = Memory::with(PAGES, Capabilities::default());
    assert_eq!(kind(open(&read_only)), ErrorKind::ReadOnly);
    let odd = Memory::new(PAGES);
    odd.shared.lock().bytes.push(0);
    assert_eq!(kind(open(&odd)), ErrorKind::FileLength);
    for offset_bytes in [8192, 3] {
        let alignment = Alignment { memory_bytes: 1, offset_bytes };
        assert_eq!(
            kind(open(&Memory::with(1, Capabilities { alignment, ..writable }))),
            ErrorKind::Alignment
        );
    }
    let lost = Memory::new(PAGES);
    for does in [Does::Fail(io::ErrorKind::TimedOut), Does::Panic] {
        lost.on(Call::Length, does);
        assert_eq!(kind(open(&lost)), ErrorKind::Io);
    }
    // Limits of 0 count as the least possible ones.
    let file =
        open(&Memory::with(2, Capabilities { run_bytes: 0, requests_in_flight: 0, ..writable })).unwrap();
    assert_eq!(version(&pool.default_tenant().read(file.page(1)).unwrap(), 1), 1);
    pool.clone().close().unwrap();
    assert_eq!(kind(pool.open_source(lost, FileOptions::new())), ErrorKind::PoolClosed);
}

#[test]
fn a_source_for_reading_only_refuses_changes() {
    let source = Memory::with(PAGES, Capabilities::default());
    let pool = small().open().unwrap();
    let file = pool.open_source(source, FileOptions::new().read_only(true)).unwrap();
    let tenant = pool.default_tenant();
    assert_eq!(version(&tenant.read(file.page(7)).unwrap(), 7), 1);
    assert_eq!(kind(tenant.write(file.page(7))), ErrorKind::ReadOnly);
    assert_eq!(kind(file.extend(1)), ErrorKind::ReadOnly);
    assert_eq!(kind(file.truncate(1)), ErrorKind::ReadOnly);
    assert_eq!(file.reopen().unwrap(), 0);
    pool.close().unwrap();
}

/// Misses of each form of access wait in the source, and are served in the end.
#[test]
fn a_slow_source_is_waited_for() {
    on_each_backend(|io| {
        let source = Memory::new(PAGES);
        let pool = small().io(io).open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        source.hold(true);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (file, tenant) = (file.clone(), pool.default_tenant());
                scope.spawn(move || {
                    let pages = [file.page(10 + thread), file.page(20 + thread)];
                    assert_eq!(version(&tenant.read(file.page(thread)).unwrap(), thread), 1);
                    tenant.read_many(&pages).into_iter().for_each(|page| drop(page.unwrap().unwrap()));
                });
            }
            pool.default_tenant().prefetch((40..44).map(|number| file.page(number)));
            let given_up = pool.default_tenant();
            let mut future = Box::pin(given_up.read_async(file.page(60)));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(future.as_mut().poll(&mut context).is_pending());
            drop(future);
            source.wait_for_waiting(1);
            source.hold(false);
        });
        pool.check_invariants();
        pool.close().unwrap();
        assert_eq!(source.shared.lock().waiting, 0);
    });
}

#[test]
fn a_failed_read_is_the_readers_error_alone() {
    const CASES: [(Does, ErrorKind); 7] = [
        (Does::Fail(io::ErrorKind::TimedOut), ErrorKind::Io),
        (Does::Fail(io::ErrorKind::InvalidData), ErrorKind::Corrupt),
        (Does::Fail(io::ErrorKind::UnexpectedEof), ErrorKind::UnexpectedEof),
        (Does::Fail(io::ErrorKind::StorageFull), ErrorKind::NoSpace),
        (Does::Drop, ErrorKind::Io),
        (Does::Panic, ErrorKind::Io),
        (Does::Serve, ErrorKind::Io),
    ];
    on_each_pool(|options| {
        let source = Memory::new(PAGES);
        let pool = options.open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        for (number, (does, expected)) in (0..).zip(CASES) {
            source.on(Call::Read, does);
            let read = tenant.read(file.page(number)).map(drop);
            if does == Does::Serve {
                read.unwrap();
                continue;
            }
            let error = read.unwrap_err();
            assert_eq!((error.kind(), error.page()), (expected, Some(number)), "{error}");
            assert_eq!(error.file(), Some(&*source.note()));
            let inner = error.source().and_then(|error| error.source());
            assert_eq!(inner.is_some_and(<dyn std::error::Error>::is::<Lost>), matches!(does, Does::Fail(_)));
            let async_error = block_on(tenant.read_async(file.page(number))).map(drop).unwrap_err();
            assert_eq!(async_error.kind(), expected);
            let pages = [file.page(number), file.page(number + 1)];
            let many = tenant.read_many(&pages).into_iter().map(kind);
            assert_eq!(many.collect::<Vec<_>>(), [expected; 2]);
            tenant.prefetch([file.page(number + 30)]);
        }
        source.on(Call::Read, Does::PanicLate);
        assert_eq!(version(&tenant.read(file.page(90)).unwrap(), 90), 1);
        source.on(Call::Read, Does::Serve);
        stamp(&mut tenant.write(file.page(0)).unwrap(), 0, 2);
        pool.check_invariants();
        pool.close().unwrap();
        assert_eq!(source.synced(0), 2);
    });
}

#[test]
fn a_failed_write_or_sync_poisons_the_file_alone() {
    let all = [Does::Fail(io::ErrorKind::TimedOut), Does::Drop, Does::Panic];
    let cases = [Call::Write, Call::Sync].into_iter().flat_map(|call| all.map(|does| (call, does)));
    let cases: Vec<_> = cases.collect();
    on_each_pool(|options| {
        let (source, other) = (Memory::new(PAGES), Memory::new(PAGES));
        let pool = options.open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        let spared = pool.open_source(other.clone(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        for (version_now, (call, does)) in (2..).zip(cases.iter().copied()) {
            stamp(&mut tenant.write(file.page(1)).unwrap(), 1, version_now);
            stamp(&mut tenant.write(spared.page(1)).unwrap(), 1, version_now);
            source.on(call, does);
            let error = file.flush().unwrap_err();
            assert_eq!((error.kind(), error.page()), (ErrorKind::Io, (call == Call::Write).then_some(1)));
            assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
            assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), version_now);
            spared.flush().unwrap();
            source.on(call, Does::Serve);
            assert_eq!(file.reopen().unwrap(), u64::from(call == Call::Write));
            assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), 1, "what is durable");
        }
        source.on(Call::Write, Does::PanicLate);
        source.on(Call::Sync, Does::PanicLate);
        stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 99);
        file.flush().unwrap();
        pool.check_invariants();
        pool.close().unwrap();
        assert_eq!((source.synced(1), other.synced(1)), (99, 7));
    });
}

#[test]
fn a_failed_change_of_length_changes_nothing() {
    let source = Memory::new(PAGES);
    let pool = small().open().unwrap();
    let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
    for does in [Does::Fail(io::ErrorKind::TimedOut), Does::Panic] {
        source.on(Call::SetLength, does);
        source.on(Call::Allocate, does);
        assert_eq!(kind(file.truncate(3)), ErrorKind::Io);
        assert_eq!(kind(file.extend(3)), ErrorKind::Io);
        assert_eq!(file.pages(), PAGES);
        assert_eq!(version(&pool.default_tenant().read(file.page(PAGES - 1)).unwrap(), PAGES - 1), 1);
    }
    pool.close().unwrap();
}

#[test]
fn a_file_that_cannot_be_reopened_is_closed() {
    for (call, does) in [
        (Call::DropCache, Does::Fail(io::ErrorKind::TimedOut)),
        (Call::DropCache, Does::Panic),
        (Call::Length, Does::Panic),
    ] {
        let source = Memory::new(PAGES);
        let pool = small().open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        source.on(call, does);
        assert_eq!(kind(file.reopen()), ErrorKind::Io);
        assert_eq!(kind(file.flush()), ErrorKind::FileClosed);
        source.on(call, Does::Serve);
        pool.open_source(source, FileOptions::new()).unwrap();
        pool.close().unwrap();
    }
}

/// The source's `note` is called by reports, and may itself ask the pool for one.
#[test]
fn a_report_holds_no_lock_while_it_asks_a_source() {
    #[derive(Debug)]
    struct Asks(Mutex<Option<bufpool::Pool>>);

    impl Source for Asks {
        fn identity(&self) -> FileIdentity {
            FileIdentity::from_number(1 << 100)
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
        fn note(&self) -> String {
            let pool = self.0.lock().unwrap();
            format!("{:?} frames dirty", pool.as_ref().map(|pool| pool.stats().frames))
        }
        fn len_bytes(&self) -> io::Result<u64> {
            Ok(0)
        }
        fn read(&self, _: ReadRequest) {}
    }

    let source = Arc::new(Asks(Mutex::default()));
    let pool = small().open().unwrap();
    let file = pool.open_source(source.clone(), FileOptions::new().read_only(true)).unwrap();
    *source.0.lock().unwrap() = Some(pool.clone());
    assert!(pool.io().to_string().contains("Some("));
    *source.0.lock().unwrap() = None;
    file.close().unwrap();
    pool.close().unwrap();
}

/// A source and local files in one pool, and a tenant with a floor that a scan of the source does not touch.
#[test]
fn sources_and_local_files_share_a_pool() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let local = common::new_file(&pool, directory.path(), "local", PAGES);
        let source = Memory::new(PAGES);
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        for number in 0..PAGES {
            stamp(&mut tenant.write(local.page(number)).unwrap(), number, 5);
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, 6);
        }
        pool.checkpoint().unwrap();
        assert!((0..PAGES).all(|number| source.synced(number) == 6));
        for number in 0..PAGES {
            assert_eq!(version(&tenant.read(local.page(number)).unwrap(), number), 5);
        }
        pool.close().unwrap();
    });
}

/// Filling past the end of the memory is refused before a byte is written.
#[test]
fn a_read_cannot_be_filled_beyond_its_end() {
    #[derive(Debug)]
    struct Fills;

    impl Source for Fills {
        fn identity(&self) -> FileIdentity {
            FileIdentity::from_number(2 << 100)
        }
        fn capabilities(&self) -> Capabilities {
            Capabilities::default()
        }
        fn len_bytes(&self) -> io::Result<u64> {
            Ok(4 * PAGE_BYTES as u64)
        }
        fn read(&self, mut request: ReadRequest) {
            let len = request.len();
            for (at, bytes) in [(len, 1), (1, len), (usize::MAX, 1)] {
                let fill = catch_unwind(AssertUnwindSafe(|| request.fill(at, &vec![9; bytes])));
                assert!(fill.is_err());
            }
            (0..len).step_by(100).for_each(|at| request.fill(at, &vec![7; 100.min(len - at)]));
            request.finish(Ok(()));
        }
    }

    let pool = small().open().unwrap();
    let file = pool.open_source(Arc::new(Fills), FileOptions::new().read_only(true)).unwrap();
    let pages: Vec<_> = (0..4).map(|number| file.page(number)).collect();
    for page in pool.default_tenant().read_many(&pages) {
        assert!(page.unwrap().unwrap().iter().all(|&byte| byte == 7));
    }
    pool.close().unwrap();
}

/// A source of zeros whose writes fail once `fails` is set, and whose next sync lasts until the test says so.
#[derive(Debug)]
struct FailsDuringSync {
    fails: AtomicBool,
    next_sync: Mutex<Option<(mpsc::Sender<()>, mpsc::Receiver<()>)>>,
}

impl Source for FailsDuringSync {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(u128::MAX)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { writable: true, ..Capabilities::default() }
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(PAGES * PAGE_BYTES as u64)
    }

    fn read(&self, mut request: ReadRequest) {
        request.pieces().for_each(|piece| piece.fill(0));
        request.finish(Ok(()));
    }

    fn write(&self, request: WriteRequest) {
        let fails = self.fails.load(Ordering::SeqCst);
        request.finish(if fails { Err(io::Error::other("lost")) } else { Ok(()) });
    }

    fn sync(&self, _: bool, done: Done) {
        if let Some((begun, let_go)) = self.next_sync.lock().unwrap().take() {
            begun.send(()).unwrap();
            let_go.recv().unwrap();
        }
        done.finish(Ok(()));
    }
}

/// A page that is changed after the flush at the beginning of a close, and cannot be written, is lost. The
/// close then returns an error.
#[test]
fn what_is_lost_while_a_file_is_closed_is_told() {
    for closes_pool in [false, true] {
        let source = Arc::new(FailsDuringSync { fails: false.into(), next_sync: Mutex::default() });
        let pool = small().open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        let tenant = pool.default_tenant();
        tenant.write(file.page(0)).unwrap()[0] = 1;
        let ((begun, begins), (let_go, lets_go)) = (mpsc::channel(), mpsc::channel());
        *source.next_sync.lock().unwrap() = Some((begun, lets_go));
        let (closed, closed_pool) = (file.clone(), pool.clone());
        let closing =
            std::thread::spawn(move || if closes_pool { closed_pool.close() } else { closed.close() });
        begins.recv().unwrap();
        tenant.write(file.page(1)).unwrap()[0] = 1;
        source.fails.store(true, Ordering::SeqCst);
        let written = file.clone();
        let flushing = std::thread::spawn(move || written.flush_page(1));
        while !file.is_poisoned() {
            std::thread::yield_now();
        }
        let_go.send(()).unwrap();
        assert_eq!(kind(flushing.join().unwrap()), ErrorKind::Io);
        assert_eq!(kind(closing.join().unwrap()), ErrorKind::FilePoisoned, "pool: {closes_pool}");
        assert!(file.is_closed());
    }
}
