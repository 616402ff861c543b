//! Goal: asynchronous accesses are accesses like others; a future that is dropped, whatever it has come to,
//! leaves the pool as if it had not been; and nothing that fails under one is lost. Method: a hand-made
//! executor that polls when the test says so, on a simulated device with delays and failures; several threads
//! that drop futures at random.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, OwnedReadGuard, Pool, ReadFuture};
use common::{
    PAGE_BYTES, block_on, deterministic, directory, kind, new_file, on_each_backend, open_on, small,
    spend_read_failure, stamp, stamped_device, version,
};

/// Counts how often it was woken.
#[derive(Default)]
struct Count(AtomicU64);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Count {
    /// Waits until it was woken more than `before` times.
    fn wait_beyond(&self, before: u64) {
        while self.0.load(Ordering::Relaxed) <= before {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F, count: &Arc<Count>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(count));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// Nothing is latched, pinned or on its way, and every frame can be had.
#[track_caller]
fn assert_as_new(pool: &Pool, file: &File) {
    pool.check_invariants();
    file.discard(0..file.pages()).unwrap();
    let tenant = pool.default_tenant();
    let guards: Vec<_> = (0..32).map(|number| tenant.write(file.page(number)).unwrap()).collect();
    drop(guards);
    pool.check_invariants();
}

#[test]
fn asynchronous_accesses_count_as_others_do() {
    on_each_backend(|io| {
        for options in [small(), deterministic()] {
            let directory = directory();
            let pool = options.io(io).open().unwrap();
            let file = new_file(&pool, directory.path(), "data", 100);
            let tenant = pool.default_tenant();
            for number in 0..100 {
                stamp(&mut block_on(tenant.write_async(file.page(number))).unwrap(), number, 1);
            }
            let stats = pool.stats();
            assert_eq!((stats.accesses, stats.misses, stats.reads), (100, 100, 100));
            pool.checkpoint().unwrap();
            file.discard(0..100).unwrap();
            for number in (0..100).chain([99; 10]) {
                let guard = block_on(tenant.read_async(file.page(number))).unwrap();
                assert_eq!(version(&guard, number), 1);
                assert_eq!(guard.page().number(), number);
            }
            let stats = pool.stats();
            assert_eq!((stats.accesses, stats.hits, stats.misses), (210, 10, 200));
            let here = stats.contexts.iter().filter(|context| context.file.ends_with("cancel.rs"));
            assert_eq!(here.map(|context| context.accesses).collect::<Vec<_>>(), [110, 100]);
            assert_as_new(&pool, &file);
        }
    });
}

#[test]
fn many_reads_are_in_flight_at_once() {
    let device = stamped_device(60);
    device.set_latency(Duration::from_millis(40), Duration::from_millis(60));
    let (pool, file) = open_on(small(), &device);
    let tenant = pool.default_tenant();
    let count = Arc::<Count>::default();
    let mut futures: Vec<ReadFuture> =
        (0..20).map(|number| tenant.read_async(file.page(number * 2))).collect();
    for future in &mut futures {
        assert!(poll_once(future, &count).is_pending());
    }
    assert_eq!(device.calls(IoOperation::Read), 20, "all were begun before the first was over");
    for (number, future) in futures.into_iter().enumerate() {
        assert_eq!(version(&block_on(future).unwrap(), 2 * number as u64), 1);
    }
    assert_as_new(&pool, &file);
}

#[test]
fn owned_guards_move_between_threads() {
    fn is_send<T: Send>(value: T) -> T {
        value
    }
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let guard: OwnedReadGuard = block_on(is_send(tenant.read_async(file.page(3)))).unwrap();
    let other = std::thread::spawn(move || version(&guard, 3));
    assert_eq!(other.join().unwrap(), 1);
    let mut guard = block_on(is_send(tenant.write_async(file.page(3)))).unwrap();
    let writer = std::thread::spawn(move || {
        stamp(&mut guard, 3, 2);
        guard
    });
    let guard = writer.join().unwrap();
    assert!(tenant.try_read(file.page(3)).unwrap().is_none(), "still latched, wherever it is");
    drop(guard);
    assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 2);
    assert_as_new(&pool, &file);
}

/// Drops futures in each state that a future can be in.
#[test]
fn dropped_in_any_state_it_leaves_nothing_behind() {
    for wait in [Duration::ZERO, Duration::from_millis(30)] {
        for is_write in [false, true] {
            let device = stamped_device(60);
            device.set_latency(Duration::from_millis(10), Duration::from_millis(10));
            let (pool, file) = open_on(small(), &device);
            let tenant = pool.default_tenant();
            let count = Arc::<Count>::default();
            // With `wait` a load has landed when its future is dropped; without, it is in flight.
            let begin = |number, polls: u32| {
                if is_write {
                    let mut future = tenant.write_async(file.page(number));
                    (0..polls).for_each(|_| assert!(poll_once(&mut future, &count).is_pending()));
                    std::thread::sleep(wait);
                } else {
                    let mut future = tenant.read_async(file.page(number));
                    (0..polls).for_each(|_| assert!(poll_once(&mut future, &count).is_pending()));
                    std::thread::sleep(wait);
                }
            };
            // Never polled; loading; loading and polled again.
            begin(1, 0);
            assert_eq!(pool.stats().accesses, 0);
            begin(2, 1);
            begin(3, 2);
            // Waiting for another's load, and for a latch.
            let mut loader = tenant.read_async(file.page(4));
            assert!(poll_once(&mut loader, &count).is_pending());
            if wait.is_zero() {
                begin(4, 2);
            }
            let held = block_on(loader).unwrap();
            let writer = tenant.write(file.page(5)).unwrap();
            begin(5, 2);
            drop((held, writer));
            assert_eq!(pool.stats().accesses, 4, "what was loaded for nobody was an access all the same");
            // Waiting for a frame.
            let pins: Vec<_> = (10..42).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
            begin(50, 3);
            drop(pins);
            assert_as_new(&pool, &file);
        }
    }
}

#[test]
fn a_page_loaded_for_a_dropped_future_is_there_for_others() {
    let device = stamped_device(60);
    device.set_latency(Duration::from_millis(30), Duration::from_millis(30));
    let (pool, file) = open_on(small(), &device);
    let tenant = pool.default_tenant();
    let mut future = tenant.read_async(file.page(7));
    assert!(poll_once(&mut future, &Arc::default()).is_pending());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| version(&tenant.read(file.page(7)).unwrap(), 7));
        drop(future);
        assert_eq!(waiter.join().unwrap(), 1);
    });
    let stats = pool.stats();
    assert_eq!((stats.reads, stats.misses, stats.hits, stats.waited), (1, 1, 1, 1));
    assert_as_new(&pool, &file);
}

#[test]
fn waiting_futures_are_woken() {
    let (pool, file) = open_on(small(), &stamped_device(60));
    let tenant = pool.default_tenant();
    let count = Arc::<Count>::default();
    let guard = tenant.write(file.page(1)).unwrap();
    let mut read = tenant.read_async(file.page(1));
    let mut write = tenant.write_async(file.page(1));
    assert!(poll_once(&mut read, &count).is_pending());
    assert!(poll_once(&mut write, &count).is_pending());
    let before = count.0.load(Ordering::Relaxed);
    drop(guard);
    count.wait_beyond(before);
    let Poll::Ready(Ok(reader)) = poll_once(&mut read, &count) else { panic!("the page is free") };
    assert!(poll_once(&mut write, &count).is_pending());
    let before = count.0.load(Ordering::Relaxed);
    drop(reader);
    count.wait_beyond(before);
    assert!(matches!(poll_once(&mut write, &count), Poll::Ready(Ok(_))));

    // A frame comes free.
    let mut pins: Vec<_> = (0..32).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let mut read = tenant.read_async(file.page(50));
    assert!(poll_once(&mut read, &count).is_pending());
    pins.pop();
    assert!(block_on(read).is_ok());
    drop(pins);
    assert_as_new(&pool, &file);
}

#[test]
fn waits_have_the_limits_that_threads_have() {
    let (pool, file) = open_on(small().latch_wait_ms(30).frame_wait_ms(30), &stamped_device(50));
    let tenant = pool.default_tenant();
    let guard = block_on(tenant.write_async(file.page(1))).unwrap();
    assert_eq!(kind(block_on(tenant.read_async(file.page(1)))), ErrorKind::LatchTimeout);
    assert_eq!(kind(block_on(tenant.write_async(file.page(1)))), ErrorKind::LatchTimeout);
    drop(guard);
    let guards: Vec<_> =
        (0..32).map(|number| block_on(tenant.read_async(file.page(number))).unwrap()).collect();
    let error = block_on(tenant.read_async(file.page(40))).unwrap_err();
    assert_eq!((error.kind(), error.page()), (ErrorKind::Exhausted, Some(40)));
    assert!(error.to_string().contains("32 guards and pins"), "{error}");
    drop(guards);
    assert_as_new(&pool, &file);
}

#[test]
fn wrong_pages_are_refused() {
    let device = stamped_device(10);
    device.set_latency(Duration::from_millis(5), Duration::from_millis(5));
    let (pool, file) = open_on(small(), &device);
    let (_other, foreign) = open_on(small(), &stamped_device(10));
    let tenant = pool.default_tenant();
    assert_eq!(kind(block_on(tenant.read_async(file.page(10)))), ErrorKind::PageBeyondEnd);
    assert_eq!(kind(block_on(tenant.read_async(foreign.page(0)))), ErrorKind::WrongPool);
    let options = FileOptions::new().create(true).optimistic(true);
    let words = pool.open_file("words", options).unwrap();
    words.extend(1).unwrap();
    assert_eq!(kind(block_on(tenant.write_async(words.page(0)))), ErrorKind::Unsupported);
    assert!(block_on(tenant.read_async(words.page(0))).is_ok());
    let reads = pool.stats().reads;
    let mut late = tenant.read_async(file.page(3));
    assert!(poll_once(&mut late, &Arc::default()).is_pending());
    while pool.stats().reads == reads {
        std::thread::yield_now();
    }
    pool.check_invariants();
    assert_eq!(kind(file.clone().close()), ErrorKind::PageBusy, "page 3 waits for its future");
    drop(late);
    file.clone().close().unwrap();
    assert_eq!(kind(block_on(tenant.read_async(file.page(1)))), ErrorKind::FileClosed);
    pool.close().unwrap();
    assert_eq!(kind(block_on(tenant.write_async(file.page(1)))), ErrorKind::PoolClosed);
}

/// Each read of a script of futures, some of them dropped in flight, fails in its turn.
#[test]
fn failures_at_every_read_lose_neither_frames_nor_changes() {
    let script = |pool: &Pool, file: &File| {
        let tenant = pool.default_tenant();
        let count = Arc::<Count>::default();
        let mut failures = 0;
        for first in [0_u64, 30, 10, 40, 0] {
            let mut dropped: Vec<_> =
                (first + 10..first + 14).map(|number| tenant.read_async(file.page(number))).collect();
            dropped.iter_mut().for_each(|future| drop(poll_once(future, &count)));
            drop(dropped);
            for number in first..first + 12 {
                match block_on(tenant.write_async(file.page(number))) {
                    Ok(mut guard) => {
                        assert!(version(&guard, number) >= 1);
                        stamp(&mut guard, number, 2);
                    }
                    Err(error) => {
                        assert_eq!((error.kind(), error.page()), (ErrorKind::Io, Some(number)));
                        failures += 1;
                    }
                }
            }
        }
        failures
    };
    for options in [small, deterministic] {
        let device = stamped_device(60);
        let (pool, file) = open_on(options(), &device);
        assert_eq!(script(&pool, &file), 0);
        let reads = device.calls(IoOperation::Read);
        let mut failures = 0;
        for nth in 1..=reads {
            let device = stamped_device(60);
            device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
            let (pool, file) = open_on(options(), &device);
            failures += script(&pool, &file);
            pool.checkpoint().unwrap();
            for number in 0..60 {
                let contents =
                    &device.contents("data").unwrap()[number as usize * PAGE_BYTES..][..PAGE_BYTES];
                assert!(version(contents, number) >= 1);
            }
            spend_read_failure(&device, &pool, &file, nth);
            assert_as_new(&pool, &file);
        }
        println!("{reads} reads failed one at a time, {failures} accesses with them, no frame lost");
        assert!(failures > 0);
    }
}

#[test]
fn pools_close_with_futures_in_flight() {
    let device = stamped_device(60);
    device.set_latency(Duration::from_millis(1), Duration::from_millis(10));
    for closes in [true, false] {
        let (pool, file) = open_on(small(), &device);
        let tenant = pool.default_tenant();
        let count = Arc::<Count>::default();
        for number in 0..10 {
            let mut future = tenant.read_async(file.page(number));
            assert!(poll_once(&mut future, &count).is_pending());
        }
        if closes {
            pool.close().unwrap();
        }
    }
    // The future has the last handle of the pool.
    let (pool, file) = open_on(small(), &device);
    let mut future = pool.default_tenant().read_async(file.page(20));
    assert!(poll_once(&mut future, &Arc::default()).is_pending());
    drop((pool, file));
    assert_eq!(version(&block_on(future).unwrap(), 20), 1);
}

/// Futures, threads that wait, and futures that are dropped after a few polls, with too few frames.
#[test]
fn tasks_and_threads_among_each_other() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 80);
        let setup = pool.default_tenant();
        let latest: Vec<AtomicU64> = (0..80).map(|_| AtomicU64::new(1)).collect();
        (0..80).for_each(|number| stamp(&mut setup.write(file.page(number)).unwrap(), number, 1));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (tenant, file, latest) = (pool.default_tenant(), &file, &latest);
                scope.spawn(move || {
                    let mut state = thread + 1;
                    for _ in 0..400 {
                        state = state
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let number = (state >> 33) % 80;
                        let page = file.page(number);
                        match (state >> 20) % 5 {
                            0 => drop(poll_once(&mut tenant.read_async(page), &Arc::default())),
                            1 => {
                                let mut future = tenant.write_async(page);
                                let _ = poll_once(&mut future, &Arc::default());
                                std::thread::yield_now();
                            }
                            2 => {
                                let mut guard = block_on(tenant.write_async(page)).unwrap();
                                let next = latest[number as usize].fetch_add(1, Ordering::Relaxed) + 1;
                                assert_eq!(version(&guard, number), next - 1);
                                stamp(&mut guard, number, next);
                            }
                            3 => {
                                let guard = block_on(tenant.read_async(page)).unwrap();
                                assert_eq!(
                                    version(&guard, number),
                                    latest[number as usize].load(Ordering::Relaxed)
                                );
                            }
                            _ => {
                                let guard = tenant.read(page).unwrap();
                                assert_eq!(
                                    version(&guard, number),
                                    latest[number as usize].load(Ordering::Relaxed)
                                );
                            }
                        }
                    }
                });
            }
        });
        assert_as_new_after_flush(&pool, &file);
    });
}

fn assert_as_new_after_flush(pool: &Pool, file: &File) {
    file.flush().unwrap();
    assert_as_new(pool, file);
}
