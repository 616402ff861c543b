//! Goal: nothing is acknowledged that is lost, and nothing held that others wait for, while pages leave and
//! files change.
//! Method: a log whose next advance runs what happens meanwhile, a source whose syncs can be held, and the
//! simulated device.

mod common;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bufpool::engine::Log;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::source::{Capabilities, Done, FileIdentity, ReadRequest, Source, WriteRequest};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions};
use common::{PAGE_BYTES, deterministic, in_a_minute, kind, new_file, small, stamp, version};

type Meanwhile = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Records {
    last: AtomicU64,
    durable: AtomicU64,
    fails: AtomicBool,
    advances: AtomicU64,
    committing: Mutex<()>,
    /// The last one happens first.
    meanwhile: Mutex<Vec<Meanwhile>>,
}

struct Handle(Arc<Records>);

impl Log for Handle {
    fn end(&self) -> u64 {
        self.0.last.load(SeqCst) + 1
    }
    fn durable(&self) -> u64 {
        self.0.durable.load(SeqCst)
    }
    fn advance(&self, lsn: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.0.advances.fetch_add(1, SeqCst);
        let meanwhile = self.0.meanwhile.lock().unwrap().pop();
        meanwhile.into_iter().for_each(|happens| happens());
        if self.0.fails.load(SeqCst) {
            return Err("gone".into());
        }
        let _lock = self.0.committing.lock().unwrap();
        self.0.durable.fetch_max(lsn, SeqCst);
        Ok(())
    }
}

/// A pool with a log, and a flushed file of 200 pages.
fn world(options: PoolOptions, device: &SimDevice) -> (Pool, File, Arc<Records>) {
    let log = Arc::new(Records::default());
    let pool = options.log(Box::new(Handle(Arc::clone(&log)))).open_on(device).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 200);
    pool.checkpoint().unwrap();
    (pool, file, log)
}

fn change(pool: &Pool, file: &File, log: &Records, number: u64) -> u64 {
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(number)).unwrap();
    let lsn = log.last.fetch_add(1, SeqCst) + 1;
    stamp(&mut guard, number, lsn);
    guard.set_lsn(lsn);
    lsn
}

/// Poisons the file by a page without log records.
fn poison(device: &SimDevice, pool: &Pool, file: &File, failure: SimFailure) {
    stamp(&mut pool.default_tenant().write(file.page(101)).unwrap(), 101, 1);
    let nth = device.calls(IoOperation::Sync) + 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth, failure });
    assert_eq!(kind(file.flush_page(101)), ErrorKind::Io);
}

#[test]
fn nothing_is_acknowledged_that_a_reopening_has_dropped() {
    type Call = fn(&Pool, &File) -> bufpool::Result<()>;
    let calls: [(&str, Call); 6] = [
        ("flush", |_, file| file.flush()),
        ("flush_page", |_, file| file.flush_page(3)),
        ("begin_flush", |_, file| file.begin_flush().wait()),
        ("checkpoint", |pool, _| pool.checkpoint()),
        ("close", |_, file| file.clone().close()),
        ("close pool", |pool, _| pool.clone().close()),
    ];
    let wrong: Vec<_> = calls
        .into_iter()
        .filter(|(_, call)| {
            let device = SimDevice::new(1);
            let (pool, file, log) = world(small(), &device);
            change(&pool, &file, &log, 3);
            let meanwhile: Meanwhile = Box::new({
                let (device, pool, file) = (device.clone(), pool.clone(), file.clone());
                move || {
                    poison(&device, &pool, &file, SimFailure::Lost);
                    assert_eq!(file.reopen().unwrap(), 1, "the change is lost");
                }
            });
            log.meanwhile.lock().unwrap().push(meanwhile);
            let acknowledged = call(&pool, &file).is_ok();
            acknowledged && device.contents("data").unwrap()[3 * PAGE_BYTES] == 0
        })
        .map(|(name, _)| name)
        .collect();
    assert!(wrong.is_empty(), "acknowledged and lost: {wrong:?}");
}

#[derive(Debug, Default)]
struct MemState {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    hold: bool,
    held: Option<Done>,
    fail_writes: bool,
    dropped_during_sync: bool,
    syncs: u64,
}

/// A source in memory that has 20 pages.
#[derive(Debug)]
struct Mem {
    capabilities: Capabilities,
    state: Mutex<MemState>,
}

impl Mem {
    fn new(capabilities: Capabilities) -> Arc<Self> {
        let mut bytes = vec![0; 20 * PAGE_BYTES];
        (0..).zip(bytes.chunks_mut(PAGE_BYTES)).for_each(|(number, page)| stamp(page, number, 1));
        let state = Mutex::new(MemState { synced: bytes.clone(), bytes, ..MemState::default() });
        Arc::new(Self { capabilities, state })
    }
    fn with<T>(&self, call: impl FnOnce(&mut MemState) -> T) -> T {
        call(&mut self.state.lock().unwrap())
    }
}

impl Source for Mem {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(1)
    }
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.with(|state| state.bytes.len() as u64))
    }
    fn read(&self, mut request: ReadRequest) {
        let from = request.offset() as usize;
        let bytes = self.with(|state| state.bytes[from..from + request.len()].to_vec());
        request.fill(0, &bytes);
        request.finish(Ok(()));
    }
    fn write(&self, request: WriteRequest) {
        let fails = self.with(|state| {
            let mut at = request.offset() as usize;
            for piece in request.pieces().filter(|_| !state.fail_writes) {
                state.bytes[at..at + piece.len()].copy_from_slice(piece);
                at += piece.len();
            }
            state.fail_writes
        });
        request.finish(if fails { Err(io::Error::other("lost")) } else { Ok(()) });
    }
    fn sync(&self, _: bool, done: Done) {
        let done = self.with(|state| {
            state.syncs += 1;
            if state.hold {
                state.held = Some(done);
                return None;
            }
            state.synced = state.bytes.clone();
            Some(done)
        });
        done.into_iter().for_each(|done| done.finish(Ok(())));
    }
    fn drop_cache(&self) -> io::Result<()> {
        self.with(|state| {
            state.dropped_during_sync |= state.held.is_some();
            state.bytes = state.synced.clone();
        });
        Ok(())
    }
}

/// `Source::drop_cache`: "with no request in flight".
#[test]
fn a_file_is_not_reopened_while_it_is_synced() {
    in_a_minute(|| {
        let source = Mem::new(Capabilities { writable: true, ..Capabilities::default() });
        let pool = small().open().unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        file.flush().unwrap();
        let tenant = pool.default_tenant();
        stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 2);
        source.with(|state| state.hold = true);
        let [flushing, reopening] = [file.clone(), file.clone()];
        let flush = std::thread::spawn(move || flushing.flush());
        while source.with(|state| state.held.is_none()) {
            std::thread::yield_now();
        }
        source.with(|state| state.fail_writes = true);
        stamp(&mut tenant.write(file.page(2)).unwrap(), 2, 2);
        assert_eq!(kind(file.flush_page(2)), ErrorKind::Io);
        source.with(|state| (state.fail_writes, state.hold) = (false, false));
        let reopen = std::thread::spawn(move || reopening.reopen());
        std::thread::sleep(Duration::from_millis(200));
        let done = source.with(|state| {
            state.synced = state.bytes.clone();
            state.held.take().unwrap()
        });
        done.finish(Ok(()));
        let (flushed, _) = (flush.join().unwrap(), reopen.join().unwrap());
        let (there, during) = source
            .with(|state| (version(&state.synced[PAGE_BYTES..2 * PAGE_BYTES], 1), state.dropped_during_sync));
        assert!(flushed.is_err() || there == 2, "acknowledged and lost: {flushed:?}");
        assert!(!during, "a sync was in flight");
    });
}

/// `Source::sync`: "Not called if the file is open for reading only."
#[test]
fn a_read_only_file_that_was_reopened_is_neither_synced_nor_cut() {
    let source = Mem::new(Capabilities::default());
    let pool = small().open().unwrap();
    let file = pool.open_source(source.clone(), FileOptions::new().read_only(true)).unwrap();
    file.reopen().unwrap();
    file.flush().unwrap();
    assert_eq!(source.with(|state| state.syncs), 0);

    let directory = common::directory();
    let path = directory.path().join("data");
    std::fs::write(&path, vec![1; 5000]).unwrap();
    let options = FileOptions::new().read_only(true).bytes(true).lock(bufpool::FileLock::None);
    let file = pool.open_file(&path, options).unwrap();
    file.reopen().unwrap();
    std::fs::write(&path, vec![1; 6000]).unwrap();
    file.flush().unwrap();
}

/// "Such an operation deadlocks with nobody: not with a thread that holds a page of the file and fetches
/// another."
#[test]
fn a_cut_in_bytes_waits_for_nobody_who_waits_for_it() {
    in_a_minute(|| {
        let pool = small().latch_wait_ms(2000).open_on(&SimDevice::new(1)).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true).bytes(true)).unwrap();
        let tenant = pool.default_tenant();
        tenant.write_at(&file, 0, &[1; 10 * PAGE_BYTES]).unwrap();
        let holder = tenant.write(file.page(7)).unwrap();
        let cutting = file.clone();
        let cut = std::thread::spawn(move || cutting.set_byte_len(2 * PAGE_BYTES as u64 + 100));
        std::thread::sleep(Duration::from_millis(100));
        drop(tenant.write(file.page(2)).unwrap());
        drop(holder);
        cut.join().unwrap().unwrap();
    });
}

/// Pages that leave wait for a log that cannot be advanced. A poisoned file is closed and reopened all the
/// same.
#[test]
fn what_the_log_holds_up_goes_with_a_poisoned_file() {
    type Call = fn(File) -> bufpool::Result<()>;
    let calls: [(&str, Call); 2] = [
        ("close", |file| {
            let again = file.clone();
            drop(file.close());
            if again.is_closed() { Ok(()) } else { again.flush() }
        }),
        ("reopen", |file| file.reopen().map(drop)),
    ];
    let wrong: Vec<_> = calls
        .into_iter()
        .filter_map(|(name, call)| {
            let device = SimDevice::new(1);
            let (pool, file, log) =
                world(small().latch_wait_ms(300).frame_wait_ms(300).dirty_limit_percent(100), &device);
            let other = new_file(&pool, Path::new(""), "other", 200);
            pool.checkpoint().unwrap();
            log.fails.store(true, SeqCst);
            (0..20).for_each(|number| _ = change(&pool, &file, &log, number));
            (0..60).for_each(|number| _ = pool.default_tenant().read(other.page(number)).map(drop));
            poison(&device, &pool, &file, SimFailure::Io);
            call(file).err().map(|error| (name, error.kind()))
        })
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// "The log may wait for threads that miss pages, for example because they hold its lock."
#[test]
fn a_closing_file_does_not_advance_the_log_with_its_pages_held() {
    in_a_minute(|| {
        let (pool, file, log) =
            world(small().latch_wait_ms(1500).dirty_limit_percent(100), &SimDevice::new(1));
        let tenant = pool.default_tenant();
        let mut guard = tenant.write(file.page(3)).unwrap();
        let closing = file.clone();
        let closing = std::thread::spawn(move || closing.close());
        std::thread::sleep(Duration::from_millis(300));
        let committing = log.committing.lock().unwrap();
        let lsn = log.last.fetch_add(1, SeqCst) + 1;
        stamp(&mut guard, 3, lsn);
        guard.set_lsn(lsn);
        drop(guard);
        std::thread::sleep(Duration::from_millis(700));
        let missed = tenant.read(file.page(50)).map(drop).map_err(|error| error.kind());
        drop(committing);
        closing.join().unwrap().unwrap();
        assert_ne!(missed, Err(ErrorKind::LatchTimeout));
    });
}

/// The same of a flush that has no frames for copies.
#[test]
fn a_flush_in_place_does_not_advance_the_log_with_pages_held() {
    in_a_minute(|| {
        let (pool, file, log) =
            world(deterministic().latch_wait_ms(700).frame_wait_ms(700), &SimDevice::new(1));
        (0..32).for_each(|number| _ = change(&pool, &file, &log, number));
        let missed = Arc::new(Mutex::new(None));
        let second: Meanwhile = Box::new({
            let (pool, file, missed) = (pool.clone(), file.clone(), Arc::clone(&missed));
            move || {
                let other = std::thread::spawn(move || {
                    let read = pool.default_tenant().read(file.page(60)).map(drop);
                    read.map_err(|error| error.kind())
                });
                *missed.lock().unwrap() = Some(other.join().unwrap());
            }
        });
        let first: Meanwhile = Box::new({
            let (pool, file, log) = (pool.clone(), file.clone(), Arc::clone(&log));
            move || (0..16).for_each(|number| _ = change(&pool, &file, &log, number))
        });
        *log.meanwhile.lock().unwrap() = vec![second, first];
        file.flush().unwrap();
        assert_eq!(missed.lock().unwrap().take(), Some(Ok(())));
    });
}

/// "`min_dirty_lsn` is not above the first record of a change that is not in its file."
#[test]
fn redo_finds_what_was_written_and_not_synced() {
    let device = SimDevice::new(1);
    let (pool, file, log) = world(deterministic(), &device);
    let lsn = change(&pool, &file, &log, 3);
    log.durable.store(lsn, SeqCst);
    (10..150).for_each(|number| drop(pool.default_tenant().read(file.page(number)).unwrap()));
    let redo = pool.min_dirty_lsn();
    let lost = (0..20).any(|seed| device.crash_image(seed).contents("data").unwrap()[3 * PAGE_BYTES] == 0);
    assert!(!lost || redo.is_some_and(|redo| redo <= lsn), "lost by a power cut, redo begins at {redo:?}");
}

#[test]
fn redo_finds_what_a_failed_sync_has_lost() {
    for seed in 1..20 {
        let device = SimDevice::new(seed);
        let (pool, file, log) = world(deterministic(), &device);
        let lsn = change(&pool, &file, &log, 3);
        let nth = device.calls(IoOperation::Sync) + 1;
        device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Lost });
        assert_eq!(kind(file.flush()), ErrorKind::Io);
        let redo = pool.min_dirty_lsn();
        let dropped = file.reopen().unwrap();
        let tenant = pool.default_tenant();
        let is_there = tenant.read(file.page(3)).unwrap().chunks(512).all(|sector| sector[0] != 0);
        assert!(is_there || redo.is_some_and(|redo| redo <= lsn), "{redo:?}, and {dropped} pages were lost");
    }
}

/// "The log is made durable only up to the log sequence number of that page."
#[test]
fn a_page_that_is_not_in_memory_needs_no_log() {
    let (pool, file, log) = world(deterministic(), &SimDevice::new(1));
    change(&pool, &file, &log, 5);
    file.flush_page(3).unwrap();
    assert_eq!(log.advances.load(SeqCst), 0);
}

#[test]
fn a_file_needs_no_log_of_another() {
    let (pool, file, log) = world(deterministic(), &SimDevice::new(1));
    let other = new_file(&pool, Path::new(""), "other", 20);
    (1..3).for_each(|number| stamp(&mut pool.default_tenant().write(file.page(number)).unwrap(), number, 1));
    change(&pool, &other, &log, 5);
    log.fails.store(true, SeqCst);
    file.flush().unwrap();
}

/// "The operation itself waits for pages that others hold, `latch_wait_ms` in all."
#[test]
fn closing_waits_no_longer_than_its_limit_in_all() {
    let pool = small().latch_wait_ms(200).dirty_limit_percent(100).open_on(&SimDevice::new(1)).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 100);
    let guards: Vec<_> = (0..10)
        .map(|number| {
            let mut guard = pool.default_tenant().write_owned(file.page(number)).unwrap();
            guard[0] = 1;
            guard
        })
        .collect();
    let closing = file.clone();
    let (closed, took) = std::thread::spawn(move || {
        let start = Instant::now();
        (closing.close(), start.elapsed())
    })
    .join()
    .unwrap();
    drop(guards);
    assert_eq!(kind(closed), ErrorKind::LatchTimeout);
    assert!(took < Duration::from_millis(500), "{took:?}");
}
