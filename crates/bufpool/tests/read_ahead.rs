//! Goal: sequential and strided reads find their pages in memory without hints, other reads bring no pages
//! in, and pages that were brought in for nothing go first. Method: counts of misses and reads for streams
//! whose pages are known. (The planner itself has its tests beside it.)

mod common;

use std::time::Duration;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::stats::Stats;
use bufpool::{File, FileOptions, IoOperation, ManagerKind, Pool, PoolOptions, Tenant};
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

/// Streams of a closed tenant are not those of the next one, which has the same number and reads the same
/// file from the same place.
#[test]
fn a_stream_ends_with_its_tenant() {
    let (pool, file) = open_on(medium(), &stamped_device(PAGES));
    // The place of these calls stays the same context, as the default tenant has it too.
    read(&pool.default_tenant(), &file, [1900]);
    let tenant = pool.tenant("first").open().unwrap();
    let number = tenant.id();
    read(&tenant, &file, 0..15);
    assert!(pool.stats().prefetch_issued > 0);
    tenant.close().unwrap();
    file.discard(0..PAGES).unwrap();
    let tenant = pool.tenant("next").open().unwrap();
    assert_eq!(tenant.id(), number);
    let before = pool.stats();
    read(&tenant, &file, 15..17);
    pool.check_invariants();
    let stats = pool.stats();
    let issued = stats.prefetch_issued - before.prefetch_issued;
    assert_eq!((stats.misses - before.misses, issued), (2, 0), "two reads are no scan");
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

/// The scan is like that of a join that looks rows up, in pages that stay, for each row of its scan.
#[test]
fn what_is_ahead_of_a_slow_scan_stays_until_its_use() {
    let (pool, file) = open_on(medium(), &stamped_device(PAGES));
    let tenant = pool.default_tenant();
    let resident = PAGES - 300..PAGES;
    read(&tenant, &file, resident.clone());
    let before = pool.stats();
    for number in 0..500 {
        read(&tenant, &file, [number]);
        read(&tenant, &file, resident.clone());
    }
    pool.check_invariants();
    let stats = pool.stats();
    assert_eq!(stats.prefetch_wasted, before.prefetch_wasted, "{stats:?}");
    let ahead = stats.prefetch_issued - stats.prefetch_used;
    assert_eq!(stats.reads - before.reads, 500 + ahead, "each page is read once: {stats:?}");
}

/// The scan is like that of a join that ends before its outer table does, and looks rows up in pages that
/// stay. On a busy machine the scan may wait for a page after all, and then has more pages ahead.
#[test]
fn a_slow_scan_that_ends_leaves_two_transfers_unused() {
    let transfer = (256 << 10) / common::PAGE_BYTES as u64;
    let never_waited = || {
        let (waited, unused) = end_of_a_slow_scan();
        assert!(waited > 0 || unused <= 2 * transfer, "{unused} pages");
        waited == 0
    };
    assert!((0..20).any(|_| never_waited()));
}

/// How often a scan of 2,000 pages with a lookup of 300 resident ones after each has waited, and how many
/// pages that it brought in ahead are not used when it ends.
fn end_of_a_slow_scan() -> (u64, u64) {
    let device = stamped_device(TREE_PAGES);
    let (pool, file) = open_on(small().frames(4000).read_ahead(true), &device);
    let tenant = pool.default_tenant();
    let resident = TREE_PAGES - 300..TREE_PAGES;
    read(&tenant, &file, resident.clone());
    let before = pool.stats();
    for number in 0..2000 {
        read(&tenant, &file, [number]);
        read(&tenant, &file, resident.clone());
        // The thread of the device gets a processor, of which there may be one.
        std::thread::sleep(Duration::from_micros(50));
    }
    pool.check_invariants();
    let stats = pool.stats();
    assert!(stats.misses - before.misses < 20, "{stats:?}");
    let unused = |stats: &Stats| stats.prefetch_issued - stats.prefetch_used;
    (stats.waited - before.waited, unused(&stats) - unused(&before))
}

/// Short runs of pages, each somewhere else in the file, bring in pages for nothing; these are a bounded
/// share.
#[test]
fn scans_that_break_off_waste_a_bounded_share() {
    let device = stamped_device(TREE_PAGES);
    for length in [4, 6, 20] {
        let (pool, file) = open_on(medium(), &device);
        let reads = 40_000;
        for run in 0..reads / length {
            let first = run * 1999 % (TREE_PAGES - length);
            read(&pool.default_tenant(), &file, first..first + length);
        }
        pool.check_invariants();
        let stats = pool.stats();
        let (wasted, used) = (stats.prefetch_wasted, stats.prefetch_used);
        // The first credit is a window, here the limit; and as many pages may be ahead at the end. A run that
        // is on trial has all of its pages but three judged.
        let would_be_used = reads / length * (length - 3);
        let bound = (reads / 8 + used / 4).min(used.max(would_be_used) / 4);
        assert!(wasted <= 48 + 64 + bound, "length {length}: {stats:?}");
        assert!(stats.prefetch_issued > 0);
    }
}

/// Where a B-tree has the inner page of each `gap` pages, and when a scan of its leaves reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Inner {
    /// Before its leaves, and held by the reader, so that its number is passed over.
    Skipped,
    /// Before its leaves, and read before them.
    Before,
    /// Behind its leaves, and read before them.
    Behind,
    /// Before its leaves, and read after them.
    After,
    /// One of a few pages at the file's end, and read before its leaves.
    Apart,
    /// Anywhere among the leaves, and read before its own.
    Anywhere,
}

const PLACES: [Inner; 6] =
    [Inner::Skipped, Inner::Before, Inner::Behind, Inner::After, Inner::Apart, Inner::Anywhere];
const TREE_PAGES: u64 = 6000;
const APART_PAGES: u64 = 40;

/// The pages that a scan accesses, in order, and how many of them may be missed because they lie elsewhere:
/// an inner page that lies anywhere, and the leaves beside it when it is their turn.
fn tree_scan(gap: u64, inner: Inner) -> (Vec<u64>, u64) {
    let of_gap = |first: u64| -> Vec<u64> {
        let end = (first + gap).min(TREE_PAGES);
        match inner {
            Inner::Skipped => (first + 1..end).collect(),
            Inner::Before => (first..end).collect(),
            Inner::Behind => std::iter::once(end - 1).chain(first..end - 1).collect(),
            Inner::After => (first + 1..end).chain([first]).collect(),
            Inner::Apart => {
                std::iter::once(TREE_PAGES + first / gap % APART_PAGES).chain(first..end).collect()
            }
            Inner::Anywhere => {
                std::iter::once(first.wrapping_mul(7919) % TREE_PAGES).chain(first..end).collect()
            }
        }
    };
    let strays = if inner == Inner::Anywhere { TREE_PAGES / gap } else { 0 };
    ((0..TREE_PAGES).step_by(gap as usize).flat_map(of_gap).collect(), strays)
}

/// Misses of eight rounds of a scan. The pool holds less than half of the file.
fn misses_by_round(pool: &Pool, file: &File, numbers: &[u64]) -> [u64; 8] {
    let tenant = pool.default_tenant();
    std::array::from_fn(|_| {
        let before = pool.stats().misses;
        numbers.iter().for_each(|number| drop(tenant.read(file.page(*number)).unwrap()));
        pool.check_invariants();
        pool.stats().misses - before
    })
}

/// Runs scans of trees, and one of all pages in order, each in a pool of its own, and compares their misses.
fn assert_trees_are_read_ahead(open: impl Fn(PoolOptions) -> (Pool, File), gaps: &[u64], places: &[Inner]) {
    for manager in [Some(ManagerKind::Auto), None] {
        let misses = |numbers: &[u64]| {
            // As large a window as it gets fits in.
            let options = small().frames(2500).prefetch_limit_percent(24).manager(manager).read_ahead(true);
            let (pool, file) = open(options);
            misses_by_round(&pool, &file, numbers)
        };
        let plain = misses(&Vec::from_iter(0..TREE_PAGES)).into_iter().max().unwrap();
        for (gap, inner) in gaps.iter().flat_map(|gap| places.iter().map(move |inner| (*gap, *inner))) {
            let (numbers, strays) = tree_scan(gap, inner);
            let by_round = misses(&numbers);
            // A reader that overtakes its plan misses some pages, most where pages are left out that are
            // ahead until they are old.
            let most = plain * 13 / 10 + strays * 13 / 10 + TREE_PAGES / 10;
            println!("{manager:?}, gap {gap}, {inner:?}: {by_round:?}, at most {most}");
            assert!(
                by_round.into_iter().all(|misses| misses <= most),
                "{manager:?}, gap {gap}, {inner:?}: {by_round:?}, at most {most}"
            );
        }
    }
}

#[test]
fn inner_pages_among_leaves_do_not_end_read_ahead() {
    let device = stamped_device(TREE_PAGES + APART_PAGES);
    assert_trees_are_read_ahead(|options| open_on(options, &device), &[10, 20, 50, 70, 200], &PLACES);
}

#[test]
fn inner_pages_in_a_real_file_do_not_end_read_ahead() {
    let directory = directory();
    let path = directory.path().join("tree");
    std::fs::write(&path, vec![1; (TREE_PAGES + APART_PAGES) as usize * common::PAGE_BYTES]).unwrap();
    let open = |options: PoolOptions| {
        let pool = options.open().unwrap();
        let file = pool.open_file(&path, FileOptions::new()).unwrap();
        (pool, file)
    };
    assert_trees_are_read_ahead(open, &[50, 70], &[Inner::Skipped, Inner::After, Inner::Anywhere]);
}
