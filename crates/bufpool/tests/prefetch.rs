//! Goal: prefetched pages are in memory when they are needed, within the tenant's limit, and without driving
//! out pages in use; and whatever becomes of their reads, no frame and no change is lost. Method: counts and
//! contents in small cases, on a simulated device with delays and with failures at every read.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::stats::Stats;
use bufpool::{File, FileOptions, IoOperation, Pool, PoolOptions};
use common::{
    assert_frames_can_be_held, deterministic, directory, new_file, on_each_backend, open_on, small,
    spend_read_failure, stamp, stamped_device, version,
};

/// 100 frames, of which 50 may be prefetched pages; no read-ahead, and plain LRU.
fn half() -> PoolOptions {
    small().frames(100).manager(None).prefetch_limit_percent(50).read_ahead(false)
}

/// Waits for what is on its way, checks that every page is accounted for, and returns the counts.
fn settled(pool: &Pool) -> Stats {
    pool.check_invariants();
    let stats = pool.stats();
    let prefetched: u64 = stats.tenants.iter().map(|tenant| tenant.prefetched).sum();
    assert_eq!(prefetched + stats.prefetch_failed, stats.prefetch_issued);
    stats
}

#[test]
fn the_first_access_to_a_prefetched_page_is_a_hit() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = half().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 60);
        let tenant = pool.default_tenant();
        for number in 0..60 {
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
        }
        pool.checkpoint().unwrap();
        file.discard(0..60).unwrap();
        drop(tenant.read(file.page(7)).unwrap());
        let before = settled(&pool);

        // A range with a page in memory, and a list with a page twice and one beyond the end.
        assert_eq!(tenant.prefetch((0..20).map(|number| file.page(number))), 19);
        assert_eq!(tenant.prefetch([50, 30, 50, 60].map(|number| file.page(number))), 2);
        let after = settled(&pool);
        assert_eq!((after.accesses, after.prefetch_used), (before.accesses, 0));
        assert_eq!((after.prefetch_issued, after.reads - before.reads), (21, 21));
        for number in (0..20).chain([50, 30]) {
            for _ in 0..2 {
                assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            }
        }
        let used = settled(&pool);
        assert_eq!((used.hits - before.hits, used.misses), (44, before.misses));
        assert_eq!((used.prefetch_used, used.prefetch_wasted), (21, 0));
        assert_eq!(tenant.prefetch((0..20).map(|number| file.page(number))), 0);
    });
}

/// Neighbouring pages come into neighbouring frames, although the frames become free in another order than
/// that of the pages.
#[test]
fn neighbours_come_into_neighbouring_frames() {
    let device = stamped_device(300);
    let (pool, file) = open_on(half().frames(64), &device);
    let tenant = pool.default_tenant();
    let mut pages_per_piece = Vec::new();
    let mut look = |pages: std::ops::Range<u64>| {
        let list: Vec<_> = pages.clone().map(|number| file.page(number)).collect();
        let starts = tenant.read_many(&list).into_iter().map(|page| page.unwrap().unwrap().as_ptr() as usize);
        let starts: Vec<usize> = starts.collect();
        let pieces = starts.chunk_by(|a, b| a + file.page_bytes() == *b).count();
        pages_per_piece.push(starts.len() / pieces);
    };
    // Loaded downwards and then used upwards, so that frames are given up in descending order.
    (0..64).rev().chain(0..64).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    assert_eq!(tenant.prefetch((100..116).map(|number| file.page(number))), 16);
    settled(&pool);
    look(100..116);
    look(116..132);
    file.discard(100..132).unwrap();
    look(200..232);
    assert_eq!(pages_per_piece, [16, 16, 32]);
}

#[test]
fn neighbours_come_in_one_transfer() {
    let device = stamped_device(100);
    let (pool, file) = open_on(half().frames(200), &device);
    let tenant = pool.default_tenant();
    // 64 pages are 256 KiB.
    assert_eq!(tenant.prefetch((0..90).filter(|number| *number != 80).map(|number| file.page(number))), 89);
    settled(&pool);
    assert_eq!(device.calls(IoOperation::Read), 3);
}

#[test]
fn a_reader_waits_for_a_page_on_its_way() {
    let device = stamped_device(20);
    let (pool, file) = open_on(half(), &device);
    let tenant = pool.default_tenant();
    device.set_latency(Duration::from_millis(50), Duration::from_millis(50));
    assert_eq!(tenant.prefetch([file.page(3)]), 1);
    assert!(tenant.try_read(file.page(3)).unwrap().is_none(), "it is being loaded");
    assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 1);
    let stats = settled(&pool);
    assert_eq!((stats.hits, stats.misses, stats.waited, stats.prefetch_used), (1, 0, 1, 1));
    assert_eq!(stats.prefetch_late, 1);
}

#[test]
fn the_limit_holds_and_the_oldest_unused_pages_go_first() {
    let device = stamped_device(400);
    let (pool, file) = open_on(half(), &device);
    let tenant = pool.default_tenant();
    for number in 300..350 {
        drop(tenant.read(file.page(number)).unwrap());
    }
    assert_eq!(tenant.prefetch((0..200).map(|number| file.page(number))), 50);
    assert_eq!(settled(&pool).prefetch_wasted, 0);
    assert_eq!(tenant.prefetch((200..300).map(|number| file.page(number))), 0);
    let read = |number| drop(tenant.read(file.page(number)).unwrap());
    (0..20).for_each(read);
    // 20 of the prefetched pages have been used. The other 30 count as wasted once the pages in use have been
    // hit very often (one hit in 256 a frame is noted), although no page comes in.
    (0..200_000).for_each(|_| (300..350).for_each(read));
    assert_eq!(tenant.prefetch((200..300).map(|number| file.page(number))), 50);
    let stats = settled(&pool);
    assert_eq!((stats.prefetch_issued, stats.prefetch_used, stats.prefetch_wasted), (100, 20, 30));
    (200..250).chain(300..350).for_each(read);
    let stats = settled(&pool);
    assert_eq!((stats.misses, stats.prefetch_used), (50, 70), "nobody in use had to leave before them");

    let off = half().prefetch_limit_percent(0);
    let (pool, file) = open_on(off, &stamped_device(10));
    assert_eq!(pool.default_tenant().prefetch([file.page(0)]), 0);
    assert!(small().prefetch_limit_percent(51).open().is_err());
}

#[test]
fn tenants_have_limits_of_their_own() {
    let (pool, file) = open_on(half(), &stamped_device(400));
    let small = pool.tenant("small").cap_frames(20).open().unwrap();
    let other = pool.tenant("other").open().unwrap();
    assert_eq!(small.prefetch((0..100).map(|number| file.page(number))), 10);
    assert_eq!(other.prefetch((100..400).map(|number| file.page(number))), 50);
    small.close().unwrap();
    assert_eq!(settled(&pool).prefetch_issued, 60);
}

#[test]
fn no_dirty_page_makes_room_for_a_prefetch() {
    let device = stamped_device(200);
    let (pool, file) = open_on(half().dirty_limit_percent(100), &device);
    let tenant = pool.default_tenant();
    // The last frame is pinned, so that the pages stay below the limit at which they are written.
    let _pin = tenant.pin(file.page(199)).unwrap();
    for number in 0..99 {
        stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2);
    }
    let before = pool.stats().evictions;
    let begun = tenant.prefetch((100..150).map(|number| file.page(number)));
    assert_eq!((begun, pool.stats().evictions), (0, before));
    assert_eq!(pool.stats().prefetch_scarce, 1);
    pool.checkpoint().unwrap();
    assert_eq!(tenant.prefetch((100..150).map(|number| file.page(number))), 50);
    settled(&pool);
}

#[test]
fn nothing_is_prefetched_where_it_makes_no_sense() {
    let (pool, file) = open_on(deterministic(), &stamped_device(20));
    assert_eq!(pool.default_tenant().prefetch([file.page(0)]), 0);
    let (pool, file) = open_on(half(), &stamped_device(20));
    let (other, foreign) = open_on(half(), &stamped_device(20));
    let tenant = pool.default_tenant();
    assert_eq!(tenant.prefetch([foreign.page(0), file.page(1)]), 1);
    let closing = pool.tenant("closing").open().unwrap();
    let handle = closing.clone();
    closing.close().unwrap();
    assert_eq!(handle.prefetch([file.page(2)]), 0);
    drop(other);
    let unused = file.clone();
    file.close().unwrap();
    assert_eq!(tenant.prefetch([unused.page(3)]), 0);
    pool.close().unwrap();
    assert_eq!(tenant.prefetch([unused.page(3)]), 0);
}

#[test]
fn files_and_pools_close_while_pages_are_on_their_way() {
    let device = stamped_device(100);
    device.set_latency(Duration::from_millis(1), Duration::from_millis(20));
    let (pool, file) = open_on(half(), &device);
    let tenant = pool.default_tenant();
    let prefetch = |file: &File| tenant.prefetch((0..40).step_by(2).map(|number| file.page(number)));
    assert_eq!(prefetch(&file), 20);
    file.discard(0..100).unwrap();
    assert_eq!(prefetch(&file), 20);
    file.truncate(30).unwrap();
    settled(&pool);
    assert_eq!(prefetch(&file), 0, "the pages below 30 are still there");
    file.discard(0..30).unwrap();
    assert_eq!(prefetch(&file), 15);
    file.close().unwrap();
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    assert_eq!(prefetch(&file), 15);
    pool.close().unwrap();

    // All handles are dropped with reads in flight.
    let (pool, file) = open_on(half(), &device);
    let tenant = pool.default_tenant();
    tenant.prefetch((0..30).step_by(2).map(|number| file.page(number)));
    drop((pool, file, tenant));
}

/// Each read of a script fails in its turn.
#[test]
fn failures_at_every_read_lose_neither_frames_nor_changes() {
    let script = |pool: &Pool, file: &File| {
        let tenant = pool.default_tenant();
        for first in [0_u64, 40, 20, 0, 60, 10] {
            tenant.prefetch(
                (first..first + 12).filter(|number| number % 5 != 0).map(|number| file.page(number)),
            );
            for number in first..first + 14 {
                if let Ok(page) = tenant.read(file.page(number)) {
                    assert!(version(&page, number) >= 1);
                }
            }
            for number in first..first + 3 {
                if let Ok(mut page) = tenant.write(file.page(number)) {
                    stamp(&mut page, number, 2);
                }
            }
        }
    };
    let options = || half().frames(32);
    let device = stamped_device(100);
    let (pool, file) = open_on(options(), &device);
    script(&pool, &file);
    let reads = device.calls(IoOperation::Read);
    let mut failed = 0;
    for nth in 1..=reads {
        let device = stamped_device(100);
        device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
        let (pool, file) = open_on(options(), &device);
        script(&pool, &file);
        failed += settled(&pool).prefetch_failed;
        pool.checkpoint().unwrap();
        spend_read_failure(&device, &pool, &file, nth);
        assert_frames_can_be_held(&pool, &file);
    }
    println!("{reads} reads failed one at a time, {failed} prefetched pages with them, no frame lost");
    assert!(failed > 20);
}

/// An iterator of pages may itself read the pages that it has named.
#[test]
fn the_iterator_may_read_what_it_has_named() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = half().io(io).latch_wait_ms(2_000).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 40);
        file.discard(0..40).unwrap();
        let tenant = pool.default_tenant();
        let pages = (0..40).map(|number| {
            if number > 0 {
                drop(tenant.read(file.page(number - 1)).unwrap());
            }
            file.page(number)
        });
        // All but the last were read by then.
        assert_eq!(tenant.prefetch(pages), 1);
        settled(&pool);
    });
}

/// An iterator that panics leaves what was begun, and nothing else.
#[test]
fn an_iterator_that_panics_leaves_the_other_pages_absent() {
    let device = stamped_device(400);
    let (pool, file) = open_on(half().frames(1_000), &device);
    let tenant = pool.default_tenant();
    let pages = (0..400).map(|number| if number < 300 { file.page(number) } else { panic!("in the middle") });
    assert!(catch_unwind(AssertUnwindSafe(|| tenant.prefetch(pages))).is_err());
    assert_eq!(settled(&pool).prefetch_issued, 256);
    assert_eq!(tenant.prefetch((0..400).map(|number| file.page(number))), 144);
    settled(&pool);
}

#[test]
fn pages_of_another_pools_file_are_passed_over() {
    let device = stamped_device(4);
    let (pool, file) = open_on(half(), &device);
    let (_other_pool, other) = open_on(half(), &stamped_device(4));
    let pages = [other.page(0), file.page(1), other.page(2), other.page(3), file.page(3)];
    assert_eq!(pool.default_tenant().prefetch(pages), 2);
    settled(&pool);
}

/// A number that no file can have names no page of another file.
#[test]
fn numbers_beyond_all_files_name_no_other_files_page() {
    let device = stamped_device(4);
    let (_pool, file) = open_on(half(), &device);
    for number in [1 << 40, (1 << 40) + 7, u64::MAX] {
        assert_eq!(file.page(number).id().file(), file.id());
    }
}

/// The iterator is the engine's code, and may take long: the tenant's number may be another's by its end.
#[test]
fn a_tenant_that_is_closed_meanwhile_brings_nothing_in_for_the_next_one() {
    let pool = half().open_on(&stamped_device(8)).unwrap();
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    let tenant = pool.tenant("closed").open().unwrap();
    let mut next = None;
    let begun = tenant.prefetch((0..8).map(|number| {
        if number == 7 {
            tenant.clone().close().unwrap();
            next = Some(pool.tenant("next").open().unwrap());
        }
        file.page(number)
    }));
    assert_eq!(next.unwrap().id(), tenant.id());
    assert_eq!((begun, settled(&pool).prefetch_issued), (0, 0));
}
