//! Goal: a batch grants the pages that need no wait for other threads, says which it does not grant, and
//! loses nothing when reads fail. Method: counts and contents in small cases, failures of the simulated
//! device at every read, threads whose lists overlap.

mod common;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bufpool::engine::{PageHooks, PageName};
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, IoOperation, Page, Pool, Tenant};
use common::{
    assert_frames_can_be_held, deterministic, directory, new_file, on_each_backend, open_on, small,
    spend_read_failure, stamp, stamped_device, version,
};

/// A file of stamped pages (version 1) on a simulated device, in a pool that is cold.
fn on_sim(options: bufpool::PoolOptions, pages: u64) -> (SimDevice, Pool, File) {
    let device = stamped_device(pages);
    let (pool, file) = open_on(options, &device);
    (device, pool, file)
}

fn pages_of(file: &File, numbers: impl IntoIterator<Item = u64>) -> Vec<Page<'_>> {
    numbers.into_iter().map(|number| file.page(number)).collect()
}

/// Reads all of `numbers`, asking again for what was not granted, and checks the contents. Returns how many
/// calls that took.
fn read_all(tenant: &Tenant, file: &File, numbers: impl IntoIterator<Item = u64>, least: u64) -> usize {
    let mut left = pages_of(file, numbers);
    let mut calls = 0;
    while !left.is_empty() {
        calls += 1;
        let granted = tenant.read_many(&left);
        assert_eq!(granted.len(), left.len());
        assert!(granted.iter().any(|page| !matches!(page, Ok(None))), "a call makes progress");
        let mut next = Vec::new();
        for (page, guard) in left.iter().zip(granted) {
            match guard.unwrap() {
                Some(guard) => assert!(version(&guard, page.number()) >= least),
                None => next.push(*page),
            }
        }
        left = next;
    }
    calls
}

#[test]
fn hits_and_misses_are_counted_as_single_reads_are() {
    on_each_backend(|io| {
        for options in [small(), deterministic()] {
            let directory = directory();
            let pool = options.io(io).open().unwrap();
            let file = new_file(&pool, directory.path(), "data", 60);
            let tenant = pool.default_tenant();
            for number in 0..60 {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
            }
            pool.checkpoint().unwrap();
            file.discard(0..60).unwrap();
            drop(tenant.read(file.page(7)).unwrap());
            let before = pool.stats();

            // Two runs of neighbours, a page in memory, and pages named twice, in memory and not.
            let list = [3, 4, 5, 7, 20, 21, 7, 4, 50];
            let granted = tenant.read_many(&pages_of(&file, list));
            for (number, guard) in list.iter().zip(&granted) {
                assert_eq!(version(guard.as_ref().unwrap().as_ref().unwrap(), *number), 1);
            }
            drop(granted);
            let after = pool.stats();
            assert_eq!(after.accesses - before.accesses, 9);
            assert_eq!(after.misses - before.misses, 6);
            assert_eq!(after.reads - before.reads, 6);
            assert_eq!(after.waited, 0);
            pool.check_invariants();
        }
    });
}

#[test]
fn neighbours_are_read_in_one_transfer() {
    let (device, pool, file) = on_sim(small().frames(128), 100);
    let tenant = pool.default_tenant();
    let granted = tenant.read_many(&pages_of(&file, 0..80));
    assert!(granted.iter().all(|page| matches!(page, Ok(Some(_)))));
    drop(granted);
    // 256 KiB, and the rest.
    assert_eq!(device.calls(IoOperation::Read), 2);
    assert_eq!(pool.stats().reads, 80);
    pool.check_invariants();
}

#[test]
fn pages_on_their_way_are_waited_for() {
    let (device, pool, file) = on_sim(small().frames(128), 200);
    device.set_latency(Duration::from_millis(5), Duration::from_millis(5));
    let tenant = pool.default_tenant();
    for (first, others) in [(0, 0), (40, 10), (80, 0), (120, 10)] {
        let before = pool.stats();
        // As many as may be ahead.
        let ahead = tenant.prefetch(pages_of(&file, first..first + 20)) as u64;
        assert!(ahead > 10);
        // Pages on their way, others, and one twice.
        let list = || (first..first + ahead + others).chain([first]);
        for (number, guard) in list().zip(tenant.read_many(&pages_of(&file, list()))) {
            assert!(version(&guard.unwrap().unwrap(), number) >= 1);
        }
        let after = pool.stats();
        assert_eq!(after.accesses - before.accesses, ahead + others + 1);
        assert_eq!(after.misses - before.misses, others);
        assert_eq!(after.prefetch_used - before.prefetch_used, ahead);
        let waited = after.waited - before.waited;
        assert!(waited <= ahead && (waited > 0 || others > 0), "{waited} waits");
    }
    pool.check_invariants();
}

/// A page whose prefetch has failed is read by the call that needs it, which gets the error if there is one.
#[test]
fn a_page_on_its_way_that_does_not_arrive_is_read() {
    for fails_again in [false, true] {
        let (device, pool, file) = on_sim(small(), 40);
        device.set_latency(Duration::from_millis(5), Duration::from_millis(5));
        let fail = |nth| device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
        fail(1);
        if fails_again {
            fail(3);
        }
        let tenant = pool.default_tenant();
        assert_eq!(tenant.prefetch([file.page(3)]), 1);
        let mut granted = tenant.read_many(&pages_of(&file, [3, 9]));
        assert_eq!(version(&granted.pop().unwrap().unwrap().unwrap(), 9), 1);
        match granted.pop().unwrap() {
            Ok(guard) => assert!(!fails_again && version(&guard.unwrap(), 3) == 1),
            Err(error) => assert!(fails_again && error.page() == Some(3), "{error}"),
        }
        assert_eq!(device.calls(IoOperation::Read), 3);
        assert_eq!(pool.stats().prefetch_failed, 1);
        pool.check_invariants();
        assert_frames_can_be_held(&pool, &file);
    }
}

#[test]
fn a_list_longer_than_memory_is_granted_in_parts() {
    for options in [small(), deterministic()] {
        let (_device, pool, file) = on_sim(options, 200);
        let tenant = pool.default_tenant();
        // 32 frames, of which 7 other threads may need 2 each.
        let granted = tenant.read_many(&pages_of(&file, 0..200));
        let count = granted.iter().filter(|page| matches!(page, Ok(Some(_)))).count();
        assert_eq!(count, 18);
        assert!(granted[..18].iter().all(|page| matches!(page, Ok(Some(_)))), "the first of the list");
        assert!(tenant.read(file.page(199)).is_ok(), "others still find frames");
        drop(granted);
        assert_eq!(read_all(&tenant, &file, 0..200, 1), 200_usize.div_ceil(18));
        pool.check_invariants();
    }
}

#[test]
fn what_is_latched_elsewhere_is_left_out() {
    for options in [small(), deterministic()] {
        let (_device, pool, file) = on_sim(options, 20);
        let tenant = pool.default_tenant();
        let held = tenant.write(file.page(5)).unwrap();
        let granted = tenant.read_many(&pages_of(&file, [4, 5, 6]));
        assert!(matches!(&granted[..], [Ok(Some(_)), Ok(None), Ok(Some(_))]));
        drop((granted, held));
        assert!(matches!(tenant.read_many(&[file.page(5)])[..], [Ok(Some(_))]));
    }
}

#[test]
fn a_call_that_gets_nothing_waits_for_the_first_page() {
    let (_device, pool, file) = on_sim(small(), 20);
    let tenant = pool.default_tenant();
    let mut held = tenant.write(file.page(5)).unwrap();
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| read_all(&tenant, &file, [5, 5], 2));
        std::thread::sleep(std::time::Duration::from_millis(20));
        stamp(&mut held, 5, 2);
        drop(held);
        waiter.join().unwrap();
    });
}

#[test]
fn wrong_pages_fail_alone() {
    let (_device, pool, file) = on_sim(small(), 20);
    let (_other_device, other, foreign) = on_sim(small(), 20);
    let tenant = pool.default_tenant();
    let list = [file.page(1), file.page(20), foreign.page(2), file.page(3)];
    let granted = tenant.read_many(&list);
    let kinds: Vec<_> = granted.iter().map(|page| page.as_ref().err().map(bufpool::Error::kind)).collect();
    assert_eq!(kinds, [None, Some(ErrorKind::PageBeyondEnd), Some(ErrorKind::WrongPool), None]);
    drop(granted);
    assert!(tenant.read_many(&[] as &[Page]).is_empty());
    other.close().unwrap();
    pool.close().unwrap();
    assert_eq!(tenant_kind(&tenant, &file), Some(ErrorKind::PoolClosed));
}

fn tenant_kind(tenant: &Tenant, file: &File) -> Option<ErrorKind> {
    tenant.read_many(&[file.page(0)]).remove(0).err().map(|error| error.kind())
}

#[test]
fn a_read_that_fails_takes_nobody_with_it() {
    // Pages 10..14 are one transfer. It fails, and so does the second of the single reads that find out why.
    let (device, pool, file) = on_sim(small(), 20);
    let tenant = pool.default_tenant();
    let fail = |nth| device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
    [1, 3].into_iter().for_each(fail);
    let granted = tenant.read_many(&pages_of(&file, 10..14));
    let failed: Vec<bool> = granted.iter().map(Result::is_err).collect();
    assert_eq!(failed, [false, true, false, false]);
    let error = granted[1].as_ref().unwrap_err();
    assert_eq!((error.kind(), error.page(), error.file()), (ErrorKind::Io, Some(11), Some("data")));
    drop(granted);
    pool.check_invariants();
    assert_eq!(pool.stats().misses, 3);
    assert_eq!(read_all(&tenant, &file, 10..14, 1), 1);
}

/// Every read of a script of batches fails in its turn; dirty pages have to make room meanwhile.
#[test]
fn failures_at_every_read_lose_neither_frames_nor_changes() {
    let script = |pool: &Pool, file: &File| {
        let tenant = pool.default_tenant();
        let mut failures = 0;
        for first in [0_u64, 40, 20, 0, 60, 10] {
            let list = (first..first + 6).chain((first + 10..first + 20).step_by(3));
            for (number, guard) in list.clone().zip(tenant.read_many(&pages_of(file, list))) {
                match guard {
                    Ok(Some(guard)) => assert!(version(&guard, number) >= 1),
                    Ok(None) => {}
                    Err(error) => {
                        assert_eq!((error.kind(), error.page()), (ErrorKind::Io, Some(number)));
                        failures += 1;
                    }
                }
            }
            for number in first..first + 4 {
                if let Ok(mut page) = tenant.write(file.page(number)) {
                    stamp(&mut page, number, 2);
                }
            }
        }
        failures
    };
    for options in [small, deterministic] {
        let (device, pool, file) = on_sim(options(), 100);
        assert_eq!(script(&pool, &file), 0);
        let reads = device.calls(IoOperation::Read);
        let mut failures = 0;
        for nth in 1..=reads {
            let (device, pool, file) = on_sim(options(), 100);
            device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
            failures += script(&pool, &file);
            pool.check_invariants();
            pool.checkpoint().unwrap();
            spend_read_failure(&device, &pool, &file, nth);
            assert_frames_can_be_held(&pool, &file);
        }
        println!("{reads} reads failed one at a time, {failures} pages refused, no frame lost");
    }
}

/// Rejects a page the first `rejections` times it is read.
struct Rejects {
    number: u64,
    rejections: AtomicU64,
}

impl PageHooks for Rejects {
    fn on_read(&self, page: PageName, _: &mut [u8]) -> Result<(), String> {
        let left = |left: u64| left.checked_sub(1);
        let rejects = page.number == self.number
            && self.rejections.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok();
        if rejects { Err("rejected".into()) } else { Ok(()) }
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {}
}

#[test]
fn a_page_of_a_batch_is_verified_and_read_once_more() {
    for (rejections, fails) in [(1, false), (2, true)] {
        let hooks = Rejects { number: 3, rejections: AtomicU64::new(rejections) };
        let (_device, pool, file) = on_sim(small().hooks(Box::new(hooks)), 20);
        let tenant = pool.default_tenant();
        let granted = tenant.read_many(&pages_of(&file, 0..8));
        let kinds: Vec<_> =
            granted.iter().map(|page| page.as_ref().err().map(bufpool::Error::kind)).collect();
        let mut expected = vec![None; 8];
        expected[3] = fails.then_some(ErrorKind::Corrupt);
        assert_eq!(kinds, expected);
        drop(granted);
        assert_eq!(pool.stats().reads, 9);
        pool.check_invariants();
    }
}

/// Batches in opposite orders over the same few pages, writers between them, and fewer frames than pages.
#[test]
fn overlapping_batches_and_writers_make_progress() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 60);
        let tenant = pool.default_tenant();
        (0..60).for_each(|number| stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1));
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let (tenant, file) = (pool.tenant(format!("reader {thread}")).open().unwrap(), &file);
                scope.spawn(move || {
                    for round in 0..40 {
                        let first = (round * 7 + thread * 3) % 48;
                        if round % 3 == 0 {
                            tenant.prefetch(pages_of(file, first..first + 6));
                        }
                        if thread % 2 == 0 {
                            read_all(&tenant, file, first..first + 12, 1);
                        } else {
                            read_all(&tenant, file, (first..first + 12).rev(), 1);
                        }
                    }
                });
            }
            let (tenant, file) = (&tenant, &file);
            scope.spawn(move || {
                for round in 2..60 {
                    let number = round * 11 % 60;
                    stamp(&mut tenant.write(file.page(number)).unwrap(), number, round);
                }
            });
        });
        pool.check_invariants();
    });
}
