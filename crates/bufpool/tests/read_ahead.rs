//! Goal: sequential and strided reads find their pages in memory without being told to; other reads are left alone; what was
//! brought in needlessly goes first.
//! Method: counts of misses and reads for streams whose pages are known. (The arithmetic of streams has its tests beside it.)

mod common;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::{File, IoOperation, PoolOptions, Tenant};
use common::{
    deterministic, directory, new_file, on_each_backend, open_on, small, stamp, stamped_device, version,
};

const PAGES: u64 = 2000;

fn medium() -> PoolOptions {
    small().frames(400).read_ahead(true)
}

fn read(tenant: &Tenant, file: &File, numbers: impl IntoIterator<Item = u64>) {
    for number in numbers {
        assert!(version(&tenant.read(file.page(number)).unwrap(), number) >= 1);
    }
}

#[test]
fn a_cold_scan_misses_its_first_pages_only() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = medium().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", PAGES);
        let tenant = pool.default_tenant();
        (0..PAGES).for_each(|number| stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1));
        file.flush().unwrap();
        file.discard(0..PAGES).unwrap();
        let before = pool.stats();
        read(&tenant, &file, 0..PAGES);
        pool.check_invariants();
        let stats = pool.stats();
        let misses = stats.misses - before.misses;
        // A plan may meet the limit or a lack of clean frames; then a few more.
        assert!(misses < PAGES / 20, "{misses} misses: {stats:?}");
        assert_eq!(stats.reads - before.reads, PAGES, "each page is read once");
        assert_eq!(stats.prefetch_used, PAGES - misses);
        assert_eq!((stats.prefetch_wasted, stats.read_ahead_wasteful), (0, 0));
    });
}

#[test]
fn strides_are_followed_and_leave_out_what_is_between() {
    let device = stamped_device(PAGES);
    let (pool, file) = open_on(medium(), &device);
    let tenant = pool.default_tenant();
    read(&tenant, &file, (0..PAGES).step_by(5));
    pool.check_invariants();
    let stats = pool.stats();
    assert!(stats.misses < 40, "{} of 400", stats.misses);
    assert_eq!(stats.reads, 400);
}

#[test]
fn it_can_be_switched_off() {
    for options in [medium().read_ahead(false), medium().prefetch_limit_percent(0), deterministic()] {
        let (pool, file) = open_on(options, &stamped_device(PAGES));
        read(&pool.default_tenant(), &file, 0..500);
        let stats = pool.stats();
        assert_eq!((stats.misses, stats.reads, stats.prefetch_issued), (500, 500, 0));
    }
}

#[test]
fn random_reads_are_left_alone() {
    let (pool, file) = open_on(medium(), &stamped_device(PAGES));
    let mut state = 1_u64;
    let numbers = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % PAGES
    });
    read(&pool.default_tenant(), &file, numbers.take(5000));
    pool.check_invariants();
    let stats = pool.stats();
    assert!(stats.prefetch_issued < 100, "{} pages for 5,000 reads", stats.prefetch_issued);
}

/// Scans that break off bring pages in for nothing. Those go before any page that somebody used.
#[test]
fn broken_off_scans_do_not_drive_out_what_is_in_use() {
    let (pool, file) = open_on(medium(), &stamped_device(PAGES));
    let tenant = pool.default_tenant();
    let hot = 1700..2000;
    read(&tenant, &file, hot.clone());
    let warm = pool.stats().misses;
    for round in 0..60 {
        let first = round * 25;
        read(&tenant, &file, first..first + 6);
        read(&tenant, &file, hot.clone());
        pool.check_invariants();
    }
    let stats = pool.stats();
    let of_scans = 60 * 6;
    let of_hot_pages = (stats.misses - warm).saturating_sub(of_scans);
    assert!(of_hot_pages == 0, "{of_hot_pages} hot pages came in again");
    assert!(stats.prefetch_issued > 0);
}

#[test]
fn scans_by_several_threads_with_a_writer_between_them() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = medium().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 1200);
        let tenant = pool.default_tenant();
        (0..1200).for_each(|number| stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1));
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (tenant, file) = (&tenant, &file);
                scope.spawn(move || read(tenant, file, thread * 400..thread * 400 + 400));
            }
            for number in (0..1200).step_by(7) {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2);
            }
        });
        pool.check_invariants();
        for number in (0..1200).step_by(7) {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 2);
        }
    });
}

#[test]
fn failures_reach_only_those_who_need_the_page() {
    for nth in (1..40).step_by(3) {
        let device = stamped_device(PAGES);
        device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
        let (pool, file) = open_on(medium(), &device);
        let tenant = pool.default_tenant();
        let failures = (0..1000).filter(|number| tenant.read(file.page(*number)).is_err()).count();
        assert!(failures <= 1);
        pool.check_invariants();
        let stats = pool.stats();
        assert!(failures == 1 || stats.prefetch_failed > 0, "read {nth} failed for nobody");
        read(&tenant, &file, 0..1000);
    }
}
