//! Goal: a miss takes the policy lock once, and a miss that fails leaves no trace. Method: counts of a pool
//! on the simulated device.

mod common;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::{ErrorKind, IoOperation, ManagerKind};
use common::{kind, small, version};

const PAGES: u64 = 600;

#[test]
fn a_miss_holds_the_policy_lock_once() {
    for manager in [None, Some(ManagerKind::Auto)] {
        let device = common::stamped_device(PAGES);
        let (pool, file) = common::open_on(small().manager(manager), &device);
        let tenant = pool.default_tenant();
        // Frames are free at first, and have pages later.
        for pages in [1..PAGES / 2, PAGES / 2..PAGES] {
            let before = pool.stats().lock_holds;
            let of_stats = pool.stats().lock_holds - before;
            for number in pages.clone() {
                drop(tenant.read(file.page(number)).unwrap());
            }
            let holds = pool.stats().lock_holds - before - 2 * of_stats;
            let misses = pages.end - pages.start;
            // The thread's first miss may clean up after ended threads of other tests, with a few holds more.
            assert!((misses..misses + 4).contains(&holds), "{holds} holds for {misses} misses, {manager:?}");
        }
    }
}

/// The directory is told of a page before it is read. If it cannot be read, the access is not counted, and
/// the frame is as good as before.
#[test]
fn a_miss_that_fails_leaves_nothing_behind() {
    for manager in [None, Some(ManagerKind::Auto)] {
        let device = common::stamped_device(PAGES);
        let (pool, file) = common::open_on(small().manager(manager), &device);
        let tenant = pool.default_tenant();
        let frames = u64::from(pool.stats().frames);
        // The first miss finds a free frame, the second a victim.
        for number in [0, frames + 10] {
            (1..number).for_each(|before| drop(tenant.read(file.page(before)).unwrap()));
            let before = pool.stats();
            let nth = device.calls(IoOperation::Read) + 1;
            device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
            assert_eq!(kind(tenant.read(file.page(number))), ErrorKind::Io, "{manager:?}");
            let after = pool.stats();
            assert_eq!((after.accesses, after.misses), (before.accesses, before.misses), "{manager:?}");
            pool.check_invariants();
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            assert_eq!(pool.stats().misses, before.misses + 1);
        }
        for number in 0..PAGES {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
        }
        pool.check_invariants();
    }
}
