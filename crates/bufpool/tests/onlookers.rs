//! Goal: a thread that uses a file which is being closed, removed, reopened or shortened, or a pool which is
//! being closed, sees no effect before the operation has succeeded, and none at all if it fails. Method: such
//! threads, the onlookers, use the file in every way while operations are repeated, until both have done
//! enough; and a hook stops an operation right before it succeeds or fails.

mod common;

use std::future::Future;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::sim::{SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions, Tenant};
use common::{PAGE_BYTES, block_on, kind, open_on, small, stamp, stamped_device, version};

const PAGES: u64 = 48;
const ONLOOKERS: u64 = 3;
/// Operations, and rounds of each onlooker.
const ENOUGH: u64 = 200;
/// Longer than any test lasts.
const LONG_MS: u64 = 600_000;
const LONG: Duration = Duration::from_millis(LONG_MS);

/// Uses the file once in each way, and checks the bytes of the pages. Calls with a limit of their own are
/// used where the limits of the pool would be too short.
fn look(tenant: &Tenant, file: &File, round: u64) -> bufpool::Result<()> {
    let page = |step: u64| file.page((round * 7 + step) % PAGES);
    let check = |number: u64, bytes: &[u8]| assert_eq!(version(bytes, number), 1);
    for step in 0..4 {
        if let Some(guard) = tenant.read_timeout(page(step), LONG)? {
            check(page(step).number(), &guard);
        }
    }
    if let Some(guard) = tenant.try_read(page(4))? {
        check(page(4).number(), &guard);
    }
    if let Some(mut guard) = tenant.write_timeout(page(5), LONG)? {
        stamp(&mut guard, page(5).number(), 1);
    }
    if let Some(mut guard) = tenant.create_timeout(page(6), LONG)? {
        stamp(&mut guard, page(6).number(), 1);
    }
    if let Some(mut guard) = tenant.try_write(page(7))? {
        stamp(&mut guard, page(7).number(), 1);
    }
    if let Some(guard) = tenant.try_read_owned(page(13))? {
        check(page(13).number(), &guard);
    }
    if let Some(mut guard) = tenant.create_owned_timeout(page(14), LONG)? {
        stamp(&mut guard, page(14).number(), 1);
    }
    let pages = [page(8), page(9), page(10)];
    for (page, guard) in pages.iter().zip(tenant.read_many(&pages)) {
        if let Some(guard) = guard? {
            check(page.number(), &guard);
        }
    }
    tenant.prefetch([page(11), page(12)]);
    assert_eq!(file.pages(), PAGES);
    Ok(())
}

/// Calls a function when it is dropped, also in a panic, so that no other thread waits for ever.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        self.0();
    }
}

/// Repeats `operation` while onlookers use the files, until both have been done often enough. No onlooker may
/// see an error.
fn while_others_look(pool: &Pool, files: &[File], mut operation: impl FnMut()) {
    let (stop, rounds) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; ONLOOKERS as usize]);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ONLOOKERS as usize)
            .map(|at| {
                let (stop, rounds, file) = (&stop, &rounds[at], &files[at % files.len()]);
                scope.spawn(move || -> bufpool::Result<()> {
                    let tenant = pool.default_tenant();
                    let _end = AtEnd(|| rounds.store(ENOUGH, Ordering::Relaxed));
                    let mut outcome = Ok(());
                    while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
                        let round = rounds.fetch_add(1, Ordering::Relaxed);
                        outcome = look(&tenant, file, round + 1000 * at as u64);
                    }
                    outcome
                })
            })
            .collect();
        let end = AtEnd(|| stop.store(true, Ordering::Relaxed));
        let mut operations = 0;
        while operations < ENOUGH || rounds.iter().any(|rounds| rounds.load(Ordering::Relaxed) < ENOUGH) {
            operation();
            operations += 1;
        }
        drop(end);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
    });
    for file in files {
        works(pool, file);
    }
}

/// Checks that every page can be read, and that the file takes writes.
fn works(pool: &Pool, file: &File) {
    let tenant = pool.default_tenant();
    for number in 0..PAGES {
        stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
    }
    file.flush().unwrap();
    assert_eq!(file.pages(), PAGES);
    pool.check_invariants();
}

fn options() -> PoolOptions {
    small().latch_wait_ms(LONG_MS)
}

#[test]
fn a_file_is_reopened_while_others_use_it() {
    let (pool, file) = open_on(options(), &stamped_device(PAGES));
    while_others_look(&pool, std::slice::from_ref(&file), || assert_eq!(file.reopen().unwrap(), 0));
}

#[test]
fn what_fails_because_of_a_pin_is_not_seen() {
    let device = stamped_device(PAGES);
    let (pool, file) = open_on(options(), &device);
    let tenant = pool.default_tenant();
    let pin = tenant.pin(file.page(PAGES - 1)).unwrap();
    let mut turn = 0;
    while_others_look(&pool, std::slice::from_ref(&file), || {
        turn += 1;
        let failed = match turn % 5 {
            0 => kind(file.clone().close()),
            1 => kind(file.clone().remove()),
            2 => kind(file.reopen()),
            3 => kind(file.truncate(1)),
            _ => kind(pool.clone().close()),
        };
        assert_eq!(failed, ErrorKind::PageBusy);
    });
    drop(pin);
    file.close().unwrap();
    assert!(device.contents("data").is_some());
}

#[test]
fn a_pool_that_stays_open_keeps_all_files() {
    let device = stamped_device(PAGES);
    device.put("other", &device.contents("data").unwrap());
    let (pool, file) = open_on(options(), &device);
    let other = pool.open_file("other", FileOptions::new()).unwrap();
    let tenant = pool.default_tenant();
    let pin = tenant.pin(other.page(0)).unwrap();
    while_others_look(&pool, &[file.clone(), other.clone()], || {
        assert_eq!(kind(pool.clone().close()), ErrorKind::PageBusy);
    });
    drop(pin);
    pool.clone().close().unwrap();
    assert_eq!(kind(tenant.read(file.page(0))), ErrorKind::PoolClosed);
}

/// Operations that fail because a thread holds a page have no effect, not even on that thread when it reads
/// other pages of the file.
#[test]
fn what_fails_because_of_a_guard_is_not_seen() {
    let (pool, file) = open_on(small().latch_wait_ms(300), &stamped_device(PAGES));
    let operations: [fn(&Pool, &File) -> bufpool::Result<()>; 5] = [
        |_, file| file.clone().close(),
        |_, file| file.clone().remove(),
        |_, file| file.reopen().map(drop),
        |_, file| file.truncate(1),
        |pool, _| pool.clone().close(),
    ];
    for operation in operations {
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let tenant = pool.default_tenant();
            let guard = tenant.read(file.page(PAGES - 1)).unwrap();
            let failing = scope.spawn(|| {
                let _end = AtEnd(|| is_over.store(true, Ordering::Relaxed));
                kind(operation(&pool, &file))
            });
            let mut number = 0;
            let mut outcome = Ok(());
            while outcome.is_ok() && (number < PAGES || !is_over.load(Ordering::Relaxed)) {
                let read = tenant.read_timeout(file.page(number % (PAGES - 1)), LONG);
                outcome = read.map(|guard| assert!(guard.is_some()));
                number += 1;
            }
            assert_eq!(failing.join().unwrap(), ErrorKind::LatchTimeout);
            drop(guard);
            outcome.unwrap();
        });
        works(&pool, &file);
    }
}

#[test]
fn a_truncation_that_the_device_refuses_is_not_seen() {
    let device = stamped_device(PAGES);
    let (pool, file) = open_on(options(), &device);
    let tenant = pool.default_tenant();
    // In memory, since nothing can be read any more.
    (0..16).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    device.cut_power();
    let stop = AtomicBool::new(false);
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| -> bufpool::Result<()> {
            let tenant = pool.default_tenant();
            let _end = AtEnd(|| rounds.store(u64::MAX / 2, Ordering::Relaxed));
            let mut outcome = Ok(());
            while outcome.is_ok() && !stop.load(Ordering::Relaxed) {
                let number = rounds.fetch_add(1, Ordering::Relaxed) % 16;
                outcome = tenant.read(file.page(number)).map(|page| assert_eq!(version(&page, number), 1));
            }
            outcome
        });
        let end = AtEnd(|| stop.store(true, Ordering::Relaxed));
        let mut operations = 0;
        while operations < ENOUGH || rounds.load(Ordering::Relaxed) < 100 * ENOUGH {
            assert_eq!(kind(file.truncate(0)), ErrorKind::Io);
            operations += 1;
        }
        drop(end);
        reader.join().unwrap().unwrap();
    });
    assert_eq!(file.pages(), PAGES);
}

/// Stops each write of page 0 until it is told to go on.
struct Stop {
    reached: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl PageHooks for Stop {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn before_write(&self, page: PageName, _: &mut [u8]) {
        if page.number == 0 {
            self.reached.lock().unwrap().send(()).unwrap();
            // Once the test has dropped its sender, no write is stopped any more.
            let _ = self.go_on.lock().unwrap().recv();
        }
    }
}

/// Runs `operation` until it holds all pages and writes the last dirty one, and uses the file meanwhile. Then
/// the write fails or not. Returns the result of the operation and of those who have waited: a future of a
/// page in memory, a future of another page, and a read.
fn decided_while_others_wait(
    operation: fn(&Pool, &File) -> bufpool::Result<()>,
    fails: bool,
) -> (bufpool::Result<()>, Vec<bufpool::Result<u64>>) {
    let device = stamped_device(PAGES);
    let (reached, stops) = channel();
    let (go, go_on) = channel();
    let hooks = Stop { reached: Mutex::new(reached), go_on: Mutex::new(go_on) };
    let options = options().dirty_limit_percent(100).hooks(Box::new(hooks));
    let (pool, file) = open_on(options, &device);
    let tenant = pool.default_tenant();
    stamp(&mut tenant.write(file.page(0)).unwrap(), 0, 2);
    std::thread::scope(|scope| {
        let operating = scope.spawn(|| operation(&pool, &file));
        stops.recv_timeout(LONG).unwrap();
        // The flush before the operation is under way: the page is dirty again when it is over.
        stamp(&mut tenant.write(file.page(0)).unwrap(), 0, 3);
        go.send(()).unwrap();
        stops.recv_timeout(LONG).unwrap();

        assert!(tenant.try_read(file.page(0)).unwrap().is_none());
        assert!(tenant.try_read(file.page(9)).unwrap().is_none());
        assert!(tenant.try_write(file.page(9)).unwrap().is_none());
        assert!(tenant.try_create(file.page(9)).unwrap().is_none());
        assert!(tenant.read_timeout(file.page(9), Duration::ZERO).unwrap().is_none());
        assert!(tenant.try_read_owned(file.page(9)).unwrap().is_none());
        assert!(tenant.write_owned_timeout(file.page(9), Duration::ZERO).unwrap().is_none());
        assert!(tenant.try_create_owned(file.page(9)).unwrap().is_none());
        assert!(tenant.try_pin(file.page(9)).unwrap().is_none());
        assert!(tenant.try_pin_owned(file.page(9)).unwrap().is_none());
        assert_eq!(tenant.prefetch([file.page(10)]), 0);
        let mut futures = [tenant.read_async(file.page(0)), tenant.read_async(file.page(9))];
        for future in &mut futures {
            let polled = std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop()));
            assert!(polled.is_pending());
        }
        // Dropped, it leaves nothing behind.
        let mut dropped = tenant.read_async(file.page(11));
        let polled = std::pin::Pin::new(&mut dropped).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        drop(dropped);
        let reader = scope.spawn(|| {
            let tenant = pool.default_tenant();
            tenant.read(file.page(12)).map(|page| version(&page, 12))
        });

        if fails {
            let nth = device.calls(IoOperation::Write) + 1;
            device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
        }
        drop(go);
        let outcome = operating.join().unwrap();
        let [resident, absent] = futures;
        let seen = vec![
            block_on(resident).map(|page| version(&page, 0)),
            block_on(absent).map(|page| version(&page, 9)),
            reader.join().unwrap(),
        ];
        (outcome, seen)
    })
}

fn seen_or_kind(seen: Vec<bufpool::Result<u64>>) -> Vec<Result<u64, ErrorKind>> {
    seen.into_iter().map(|seen| seen.map_err(|error| error.kind())).collect()
}

#[test]
fn those_who_wait_see_what_was_decided() {
    let close = |_: &Pool, file: &File| file.clone().close();
    let reopen = |_: &Pool, file: &File| file.reopen().map(drop);
    let close_pool = |pool: &Pool, _: &File| pool.clone().close();
    for operation in [close, reopen, close_pool] as [fn(&Pool, &File) -> bufpool::Result<()>; 3] {
        let (outcome, seen) = decided_while_others_wait(operation, true);
        assert_eq!(kind(outcome), ErrorKind::Io);
        assert_eq!(seen_or_kind(seen), [Ok(3), Ok(1), Ok(1)]);
    }
    for (operation, expected) in [
        (reopen as fn(&Pool, &File) -> bufpool::Result<()>, [Ok(3), Ok(1), Ok(1)]),
        (close, [Err(ErrorKind::FileClosed); 3]),
        (close_pool, [Err(ErrorKind::PoolClosed); 3]),
    ] {
        let (outcome, seen) = decided_while_others_wait(operation, false);
        outcome.unwrap();
        assert_eq!(seen_or_kind(seen), expected);
    }
}

/// Threads reopen, extend, remove and close one file at a time. Either the removal or the close succeeds, and
/// every error of the others is that the file is closed.
#[test]
fn operations_on_one_file_exclude_each_other() {
    for _ in 0..50 {
        let device = stamped_device(PAGES);
        let (pool, file) = open_on(options(), &device);
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let reopening = scope.spawn(|| file.reopen().map(drop));
            let growing = scope.spawn(|| file.extend(1).map(drop));
            let removing = scope.spawn(|| file.clone().remove());
            let closing = scope.spawn(|| file.clone().close());
            [reopening, growing, removing, closing].map(|thread| thread.join().unwrap()).into()
        });
        let closed = outcomes[2..].iter().filter(|outcome| outcome.is_ok()).count();
        assert_eq!(closed, 1, "{outcomes:?}");
        for error in outcomes.into_iter().filter_map(Result::err) {
            assert_eq!(error.kind(), ErrorKind::FileClosed, "{error}");
        }
        pool.check_invariants();
        if device.contents("data").is_some() {
            assert_eq!(device.contents("data").unwrap().len() % PAGE_BYTES, 0);
            drop(pool.open_file("data", FileOptions::new()).unwrap());
        }
        pool.close().unwrap();
    }
}
