//! Goal: a flush that was begun by `begin_flush` or `flush_async` makes durable what `flush` does, on each
//! backend, and reports its failures. Method: a simulated device that loses what was not synced, and fails at
//! chosen calls.

mod common;

use std::future::Future;
use std::pin::pin;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Waker};

use bufpool::engine::{PageHooks, PageName};
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, IoOperation, Pool, PoolOptions, Tenant};
use common::{
    PAGE_BYTES, block_on, deterministic, directory, kind, new_file, on_each_backend, open_on, small, stamp,
    stamped_device, version,
};

const PAGES: u64 = 20;

/// Gives each page this version.
fn change(tenant: &Tenant, file: &File, next: u64) {
    for number in 0..PAGES {
        stamp(&mut tenant.write(file.page(number)).unwrap(), number, next);
    }
}

/// The versions of the pages that a power cut leaves.
fn versions_after_power_cut(device: &SimDevice) -> Vec<u64> {
    let image = device.crash_image(7).contents("data").unwrap();
    (0..).zip(image.chunks(PAGE_BYTES)).map(|(number, page)| version(page, number)).collect()
}

fn fail_next_sync(device: &SimDevice) {
    let nth = device.calls(IoOperation::Sync) + 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Io });
}

/// Hooks that say when page 0 is about to be written, and hold that up until they are told to go on.
struct Held {
    begun: Mutex<Sender<()>>,
    go: Mutex<Receiver<()>>,
}

impl PageHooks for Held {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn before_write(&self, page: PageName, _: &mut [u8]) {
        if page.number == 0 {
            let _ = self.begun.lock().unwrap().send(());
            let _ = self.go.lock().unwrap().recv();
        }
    }
}

/// A pool, its file, a receiver that hears when a flush begins, and a sender that lets it go on. Dropping the
/// sender lets all flushes go on.
fn held_up(device: &SimDevice) -> (Pool, File, Receiver<()>, Sender<()>) {
    let ((begun, has_begun), (go, goes)) = (channel(), channel());
    let hooks = Held { begun: Mutex::new(begun), go: Mutex::new(goes) };
    // Nothing is written in the background.
    let options = small().frames(64).dirty_limit_percent(100).hooks(Box::new(hooks));
    let (pool, file) = open_on(options, device);
    (pool, file, has_begun, go)
}

/// With each way to wait for a flush.
#[test]
fn what_was_dirty_when_it_was_begun_is_durable() {
    let waits: [fn(&File); 3] = [
        |file| file.begin_flush().wait().unwrap(),
        |file| block_on(file.flush_async()).unwrap(),
        |file| [file.begin_flush(), file.begin_flush()].into_iter().for_each(|flush| flush.wait().unwrap()),
    ];
    for options in [small as fn() -> PoolOptions, deterministic] {
        for wait in waits {
            let device = stamped_device(PAGES);
            let (pool, file) = open_on(options(), &device);
            change(&pool.default_tenant(), &file, 2);
            wait(&file);
            assert_eq!(versions_after_power_cut(&device), [2; PAGES as usize]);
        }
    }
}

#[test]
fn on_each_backend_the_file_has_what_was_flushed() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", PAGES);
        for round in 1..4 {
            change(&pool.default_tenant(), &file, round);
            file.begin_flush().wait().unwrap();
            let bytes = std::fs::read(directory.path().join("data")).unwrap();
            for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
                assert_eq!(version(page, number), round);
            }
        }
        pool.close().unwrap();
    });
}

/// Ten committers that come while a flush is under way cost one more sync.
#[test]
fn flushes_that_wait_become_one() {
    let device = stamped_device(PAGES);
    let (pool, file, has_begun, go) = held_up(&device);
    change(&pool.default_tenant(), &file, 2);
    let before = device.calls(IoOperation::Sync);
    let first = file.begin_flush();
    has_begun.recv().unwrap();
    // The first flush writes a copy of page 0 that was made before this change.
    stamp(&mut pool.default_tenant().write(file.page(0)).unwrap(), 0, 3);
    let later: Vec<_> = (0..10).map(|_| file.begin_flush()).collect();
    drop(go);
    later.into_iter().for_each(|flush| flush.wait().unwrap());
    first.wait().unwrap();
    assert_eq!(device.calls(IoOperation::Sync) - before, 2);
    let mut expected = [2; PAGES as usize];
    expected[0] = 3;
    assert_eq!(versions_after_power_cut(&device), expected);
}

/// As a `Flush`, and as a future that was polled.
#[test]
fn one_that_is_dropped_early_goes_on() {
    for as_future in [false, true] {
        let device = stamped_device(PAGES);
        let (pool, file, has_begun, go) = held_up(&device);
        change(&pool.default_tenant(), &file, 2);
        if as_future {
            let mut future = pin!(file.flush_async());
            assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            has_begun.recv().unwrap();
        } else {
            let flush = file.begin_flush();
            has_begun.recv().unwrap();
            drop(flush);
        }
        drop(go);
        // The drop of the last handles waits for the flush.
        drop((pool, file));
        assert_eq!(versions_after_power_cut(&device), [2; PAGES as usize]);
        let (pool, _) = open_on(small(), &device);
        pool.close().unwrap();
    }
}

#[test]
fn a_future_that_was_never_polled_flushes_nothing() {
    let device = stamped_device(PAGES);
    let (pool, file) = open_on(small().dirty_limit_percent(100), &device);
    stamp(&mut pool.default_tenant().write(file.page(0)).unwrap(), 0, 2);
    let before = device.calls(IoOperation::Sync);
    drop(file.flush_async());
    assert_eq!(device.calls(IoOperation::Sync), before);
    let mut future = pin!(file.flush_async());
    while future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
        std::thread::yield_now();
    }
    assert!(device.calls(IoOperation::Sync) > before);
}

#[test]
fn a_failure_is_told_to_everybody_who_waits() {
    let device = stamped_device(PAGES);
    let (pool, file, has_begun, go) = held_up(&device);
    change(&pool.default_tenant(), &file, 2);
    fail_next_sync(&device);
    let first = file.begin_flush();
    has_begun.recv().unwrap();
    let later = [file.begin_flush(), file.begin_flush()];
    drop(go);
    assert_eq!(kind(first.wait()), ErrorKind::Io);
    for flush in later {
        assert_eq!(kind(flush.wait()), ErrorKind::FilePoisoned);
    }
    assert_eq!(kind(block_on(file.flush_async())), ErrorKind::FilePoisoned);
    assert_eq!(kind(pool.close()), ErrorKind::FilePoisoned);
}

#[test]
fn a_latch_that_is_held_is_waited_for_only_so_long() {
    let (pool, file) = open_on(small().latch_wait_ms(20), &stamped_device(PAGES));
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(3)).unwrap();
    stamp(&mut guard, 3, 2);
    assert_eq!(kind(file.begin_flush().wait()), ErrorKind::LatchTimeout);
    drop(guard);
    file.begin_flush().wait().unwrap();
}

#[test]
fn a_closed_file_is_refused() {
    let (_pool, file) = open_on(small(), &stamped_device(PAGES));
    let same = file.clone();
    file.close().unwrap();
    assert_eq!(kind(same.begin_flush().wait()), ErrorKind::FileClosed);
    assert_eq!(kind(block_on(same.flush_async())), ErrorKind::FileClosed);
}

#[test]
fn closing_the_pool_waits_for_what_was_begun() {
    let device = stamped_device(PAGES);
    let (pool, file, has_begun, go) = held_up(&device);
    change(&pool.default_tenant(), &file, 2);
    let flush = file.begin_flush();
    has_begun.recv().unwrap();
    let closing = std::thread::spawn(move || pool.close());
    drop(go);
    closing.join().unwrap().unwrap();
    flush.wait().unwrap();
    assert_eq!(versions_after_power_cut(&device), [2; PAGES as usize]);
}

struct Panicking;

impl PageHooks for Panicking {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {
        panic!("the engine's hook panics");
    }
}

/// The thread that makes flushes survives the panic of a hook: flushes that are begun later end, too.
#[test]
fn a_panic_of_the_engine_poisons_the_file_and_ends_no_other_flush() {
    let device = stamped_device(PAGES);
    // Nothing is written in the background.
    let options = small().frames(64).dirty_limit_percent(100).hooks(Box::new(Panicking));
    let (pool, file) = open_on(options, &device);
    change(&pool.default_tenant(), &file, 2);
    let kinds = [(); 3].map(|()| file.begin_flush().wait().map_err(|error| error.kind()));
    assert_eq!(kinds[1..], [Err(ErrorKind::FilePoisoned); 2], "{kinds:?}");
    assert!(kinds[0].is_err());
    pool.check_invariants();
    assert_eq!(versions_after_power_cut(&device), [1; PAGES as usize], "nothing was written");
}
