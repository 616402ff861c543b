//! Goal: a list of disclosed reads gives its pages in order, whatever happens to them meanwhile; fetches
//! ahead within its limits; and harms nobody but its owner when the iterator blocks, lies or panics.
//! Method: contents and counts in small cases on each backend, and on a simulated device where reads are held
//! up.

mod common;

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use bufpool::sim::{SimFailure, SimFault};
use bufpool::tier::{MemoryTier, TierAdmit, TierPolicy};
use bufpool::{
    ErrorKind, File, FileOptions, HintPolicy, HintedPage, Hints, IoOperation, Pool, PoolOptions, Tenant,
};
use bufpool_policies::{Allocation, FileId};
use common::{
    CallsBack, block_on, deterministic, directory, in_a_minute, new_file, on_each_backend, open_on, small,
    stamp, stamped_device, version,
};

/// 100 frames, no read-ahead, plain LRU.
fn plain() -> PoolOptions {
    small().frames(100).manager(None).read_ahead(false)
}

fn stamped_file(pool: &Pool, folder: &tempfile::TempDir, pages: u64) -> File {
    let file = new_file(pool, folder.path(), "data", pages);
    for number in 0..pages {
        stamp(&mut pool.default_tenant().write(file.page(number)).unwrap(), number, 1);
    }
    pool.checkpoint().unwrap();
    file.discard(0..pages).unwrap();
    file
}

fn pages_of(file: &File, numbers: impl IntoIterator<Item = u64>) -> Vec<HintedPage> {
    numbers.into_iter().map(|number| file.page(number).into()).collect()
}

/// Reads to the end. Returns the numbers of the pages.
fn rest(hints: &mut Hints) -> Vec<u64> {
    let mut read = Vec::new();
    while let Some(page) = hints.next().unwrap() {
        assert_eq!(version(&page, page.page().number()), 1);
        read.push(page.page().number());
    }
    read
}

/// Page numbers without a pattern.
fn scattered(count: u64, below: u64) -> Vec<u64> {
    (0..count).map(|at| bufpool_policies::mix64(at) % below).collect()
}

#[test]
fn pages_come_in_the_order_of_the_list() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = plain().io(io).open().unwrap();
        let file = stamped_file(&pool, &folder, 400);
        let tenant = pool.default_tenant();
        let numbers = scattered(1000, 400);
        let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
        assert_eq!(rest(&mut hints), numbers);
        assert_eq!(hints.position(), 1000);
        assert!(hints.next().unwrap().is_none());
        let counts = hints.counts();
        assert_eq!((counts.given, counts.used, counts.skipped), (1000, 1000, 0), "{counts:?}");
        assert!(counts.prefetched > 300, "{counts:?}");
        drop(hints);
        pool.check_invariants();
        let stats = pool.stats();
        assert_eq!(stats.accesses - 400, 1000);
    });
}

#[test]
fn neighbours_are_one_transfer() {
    let device = stamped_device(256);
    // The device is so slow that the reader waits, which makes the list look farther ahead.
    device.set_latency(Duration::from_millis(2), Duration::from_millis(2));
    let (pool, file) = open_on(plain(), &device);
    let mut hints = pool.default_tenant().hint(pages_of(&file, 0..256)).unwrap();
    let mut pages = 0;
    while hints.next().unwrap().is_some() {
        pages += 1;
    }
    assert_eq!(pages, 256);
    let transfers = device.calls(IoOperation::Read);
    assert!(transfers * 3 < 256, "{transfers} transfers for 256 pages");
}

/// A page that a tier in memory has comes in within the call that asks for it, and the next page of the list
/// may then be asked for. That is done in a loop and not by recursion.
#[test]
fn a_long_list_above_a_tier_takes_little_stack() {
    const PAGES: u64 = 12_000;
    let device = stamped_device(PAGES);
    let tier = Arc::new(MemoryTier::new(PAGES as u32));
    let options = plain().frames(2_000).hint_limit_percent(90);
    let (pool, file) = open_on(options.tier(tier, TierPolicy::Inclusive, TierAdmit::All), &device);
    let tenant = pool.tenant("reader").hints(HintPolicy::Aggressive { batch: 1 }).open().unwrap();
    device.set_latency(Duration::from_millis(1), Duration::from_millis(1));
    // Pages from 4,000 on are in the tier then, and the neighbours are read from the file as runs.
    for first in (4_000..PAGES).chain(0..2_000).step_by(50) {
        let pages: Vec<_> = (first..first + 50).map(|number| file.page(number)).collect();
        assert!(tenant.read_many(&pages).into_iter().all(|page| page.is_ok()));
    }
    file.discard(0..2_000).unwrap();
    let pages = pages_of(&file, (0..PAGES).step_by(2));
    let thread = std::thread::Builder::new().stack_size(256 << 10);
    let reading = thread.spawn(move || {
        let mut hints = tenant.hint(pages).unwrap();
        // These pages come from the file, which makes the list look far ahead.
        (0..1_000).for_each(|_| drop(hints.next().unwrap()));
        hints.skip(2_000);
        rest(&mut hints)
    });
    let read = reading.unwrap().join().unwrap();
    assert!(read.into_iter().eq((6_000..PAGES).step_by(2)));
    let stats = pool.stats();
    assert!(stats.hints[0].depth_max > 1_000, "{:?}", stats.hints);
    assert!(stats.tier.as_ref().unwrap().hits > 1_000, "{:?}", stats.tier);
}

#[test]
fn a_list_is_skipped_extended_and_dropped_at_any_place() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = plain().io(io).open().unwrap();
        let file = stamped_file(&pool, &folder, 300);
        let tenant = pool.default_tenant();
        let mut hints = tenant.hint(pages_of(&file, (0..200).rev())).unwrap();
        for number in (150..200).rev() {
            assert_eq!(hints.next().unwrap().unwrap().page().number(), number);
        }
        hints.skip(100);
        assert_eq!(hints.position(), 150);
        assert_eq!(hints.next().unwrap().unwrap().page().number(), 49);
        hints.extend(pages_of(&file, [250, 251]));
        let mut expected: Vec<u64> = (0..49).rev().collect();
        expected.extend([250, 251]);
        assert_eq!(rest(&mut hints), expected);
        hints.skip(7);
        assert_eq!((hints.position(), hints.next().unwrap().is_none()), (202, true));
        let counts = hints.counts();
        assert_eq!((counts.given - counts.used - counts.skipped, counts.used), (0, 102), "{counts:?}");
        // The list is dropped half-way, with pages in flight.
        for stop in [0, 1, 17, 80] {
            let mut hints = tenant.hint(pages_of(&file, scattered(100, 300))).unwrap();
            (0..stop).for_each(|_| drop(hints.next().unwrap()));
            drop(hints);
            pool.check_invariants();
        }
        file.discard(0..300).unwrap();
        pool.close().unwrap();
    });
}

/// A list is told anew, in the middle, with pages in flight, and when it has ended.
#[test]
fn a_list_is_planned_anew_at_any_place() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = plain().io(io).open().unwrap();
        let file = stamped_file(&pool, &folder, 300);
        let mut hints = pool.default_tenant().hint(pages_of(&file, 0..200)).unwrap();
        for number in 0..40 {
            assert_eq!(hints.next().unwrap().unwrap().page().number(), number);
        }
        let anew: Vec<u64> = (20..120).rev().chain(250..260).collect();
        hints.replan(pages_of(&file, anew.clone())).unwrap();
        pool.check_invariants();
        assert_eq!(hints.position(), 40);
        assert_eq!(rest(&mut hints), anew);
        hints.replan(pages_of(&file, [7, 8])).unwrap();
        assert_eq!(rest(&mut hints), [7, 8]);
        let counts = hints.counts();
        assert_eq!((counts.used, counts.skipped, counts.wasted), (152, 0, 0), "{counts:?}");
        hints.replan([]).unwrap();
        assert_eq!((hints.position(), hints.next().unwrap().is_none()), (152, true));
        drop(hints);
        pool.check_invariants();
        pool.close().unwrap();
    });
}

/// A plan that panics leaves the list as it was.
#[test]
fn a_list_goes_on_after_a_plan_that_panics() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 50);
    let mut hints = pool.default_tenant().hint(pages_of(&file, 0..50)).unwrap();
    hints.next().unwrap();
    let plan = (0..9).map(|at| if at == 5 { panic!("no plan") } else { file.page(at).into() });
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| hints.replan(plan))).unwrap_err();
    assert_eq!(rest(&mut hints), (1..50).collect::<Vec<u64>>());
}

/// A plan that takes the place of an iterator ends that one where it may call the pool, as an iterator does
/// that has another list and guards of its own.
#[test]
fn an_iterator_that_a_new_plan_ends_may_have_a_list_of_its_own() {
    in_a_minute(|| {
        let folder = directory();
        let pool = plain().open().unwrap();
        let file = stamped_file(&pool, &folder, 100);
        let tenant = pool.default_tenant();
        let mut leaves = tenant.hint(pages_of(&file, 50..100)).unwrap();
        let index = file.clone();
        let tuples = std::iter::from_fn(move || {
            let leaf = leaves.next().unwrap()?;
            Some(index.page(leaf.page().number() - 50).into())
        });
        let mut hints = tenant.hint(tuples).unwrap();
        assert_eq!(hints.next().unwrap().unwrap().page().number(), 0);
        hints.replan(pages_of(&file, [7, 8])).unwrap();
        assert_eq!(hints.next().unwrap().unwrap().page().number(), 7);
        drop(hints);
        assert!(pool.stats().hints.iter().all(|site| site.open == 0), "{:?}", pool.stats().hints);
        pool.check_invariants();
    });
}

/// Pages are made while a list names them in the same order, and read in another one, which is known
/// afterwards. What is kept is what Belady's policy would keep.
#[test]
fn pages_that_are_made_for_a_list_go_once_they_are_read_in_another_order() {
    const PAGES: u64 = 300;
    let device = stamped_device(PAGES);
    let (pool, file) = open_on(deterministic().frames(100).manager(None), &device);
    let tenant = pool.default_tenant();
    let mut hints = tenant.hint([]).unwrap();
    hints.extend(pages_of(&file, 0..PAGES));
    (0..PAGES).for_each(|number| stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1));
    let order: Vec<u64> = (0..50).flat_map(|at| [at, 50 + at]).chain(100..PAGES).collect();
    hints.replan(pages_of(&file, order.clone())).unwrap();
    let before = pool.stats();
    assert_eq!(rest(&mut hints), order);
    // The page made last, and the 99 that are read first.
    assert_eq!(pool.stats().misses - before.misses, PAGES - 100);
    pool.check_invariants();
}

/// Pages that are skipped before the pool has heard of them are not disclosed.
#[test]
fn a_list_is_skipped_far_beyond_what_the_pool_knows_of_it() {
    for leads in [true, false] {
        let folder = directory();
        let pool = plain().open().unwrap();
        let file = stamped_file(&pool, &folder, 3000);
        let tenant = pool.default_tenant();
        let mut hints = tenant.hint(pages_of(&file, scattered(3000, 3000))).unwrap();
        hints.skip(1000);
        for numbers in scattered(3000, 3000)[1000..1400].chunks(40) {
            for number in numbers {
                match leads {
                    true => assert_eq!(hints.next().unwrap().unwrap().page().number(), *number),
                    false => drop(tenant.read(file.page(*number)).unwrap()),
                }
            }
            hints.skip(0);
        }
        let counts = hints.counts();
        assert_eq!((hints.position(), counts.used), (1400, 400), "{leads}: {counts:?}");
        assert!(counts.prefetched > 200 && counts.lost + counts.wasted < 40, "{leads}: {counts:?}");
        pool.check_invariants();
    }
}

/// Pages that a list names and its file does not have are passed over, at no cost to the pages before them.
#[test]
fn pages_that_were_read_before_a_page_that_is_not_there_are_not_wasted() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 90);
    let numbers = (0..90).flat_map(|number| {
        let beyond = (number % 3 == 2).then_some(1000 + number);
        std::iter::once(number).chain(beyond)
    });
    let mut hints = pool.default_tenant().hint(pages_of(&file, numbers)).unwrap();
    assert_eq!(rest(&mut hints), (0..90).collect::<Vec<u64>>());
    let counts = hints.counts();
    assert_eq!((counts.used, counts.skipped, counts.wasted), (90, 30, 0), "{counts:?}");
    assert!(counts.prefetched > 0, "{counts:?}");
}

/// A list that names many files keeps only the last few of them open.
#[test]
fn a_list_lets_go_of_files_that_it_has_left_behind() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let paths: Vec<_> = (0..20).map(|number| folder.path().join(format!("file {number}"))).collect();
    let file = |path| pool.open_file(path, FileOptions::new().create(true)).unwrap();
    let files: Vec<File> = paths.iter().map(file).collect();
    files.iter().for_each(|file| _ = file.extend(1).unwrap());
    let pages: Vec<_> = files.iter().map(|file| file.page(0).into()).collect();
    let mut hints = pool.default_tenant().hint(pages).unwrap();
    (0..15).for_each(|_| drop(hints.next().unwrap().unwrap()));
    drop(files);
    pool.open_file(&paths[5], FileOptions::new()).unwrap();
    (0..5).for_each(|_| drop(hints.next().unwrap().unwrap()));
    assert!(hints.next().unwrap().is_none());
}

/// Once `next` was called it gives each page of the list, whatever else is read meanwhile.
#[test]
fn other_reads_do_not_move_a_reader() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = plain().io(io).open().unwrap();
        let file = stamped_file(&pool, &folder, 60);
        let tenant = pool.default_tenant();
        let numbers = scattered(500, 60);
        let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
        for (at, number) in numbers.iter().enumerate() {
            assert_eq!(hints.next().unwrap().unwrap().page().number(), *number);
            // Pages that the list names a little later, too.
            let other = numbers[(at + at % 40) % 500];
            drop(tenant.read(file.page(other)).unwrap());
        }
        let counts = hints.counts();
        assert_eq!((hints.position(), counts.used, counts.skipped), (500, 500, 0));
    });
}

/// A list whose pages the engine reads by other calls is followed by these.
#[test]
fn reads_past_the_handle_are_matched() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 300);
    let tenant = pool.default_tenant();
    let numbers = scattered(60, 300);
    let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
    numbers[..10].iter().for_each(|number| drop(tenant.read(file.page(*number)).unwrap()));
    hints.extend([]);
    assert_eq!(hints.position(), 10);
    assert_eq!(rest(&mut hints), numbers[10..]);
    assert_eq!(hints.counts().used, 60);
}

#[test]
fn pages_that_cannot_be_read_are_skipped_and_counted() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = plain().io(io).open().unwrap();
        let file = stamped_file(&pool, &folder, 100);
        let gone = new_file(&pool, folder.path(), "gone", 40);
        let tenant = pool.default_tenant();
        let mut pages = pages_of(&file, 0..50);
        pages.extend(pages_of(&gone, 0..40));
        for number in [5000, 1 << 40, u64::MAX] {
            pages.push(HintedPage { file: file.id(), number });
        }
        for id in [3, 1 << 24, u32::MAX] {
            pages.push(HintedPage { file: FileId(id), number: 0 });
        }
        pages.extend(pages_of(&file, 50..100));
        let mut hints = tenant.hint(pages).unwrap();
        for number in 0..30 {
            assert_eq!(hints.next().unwrap().unwrap().page().number(), number);
        }
        gone.remove().unwrap();
        file.truncate(90).unwrap();
        assert_eq!(rest(&mut hints), (30..90).collect::<Vec<u64>>());
        assert_eq!(hints.counts().skipped, 56);
        assert_eq!(hints.position(), 146);
        pool.check_invariants();
    });
}

/// They take no room of those that can be fetched.
#[test]
fn pages_that_cannot_be_read_are_not_asked_for() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 100);
    let gone = new_file(&pool, folder.path(), "gone", 40);
    let tenant = pool.tenant("reader").hints(HintPolicy::Aggressive { batch: 4 }).open().unwrap();
    let mut pages = pages_of(&file, [0]);
    pages.extend(pages_of(&file, 50..55));
    pages.extend(pages_of(&gone, 0..5));
    pages.extend(pages_of(&file, 1..5));
    file.truncate(50).unwrap();
    gone.remove().unwrap();
    let mut hints = tenant.hint(pages).unwrap();
    let before = pool.stats().misses;
    drop(hints.next().unwrap());
    assert_eq!(pool.stats().prefetch_issued, 4);
    assert_eq!(rest(&mut hints), [1, 2, 3, 4]);
    assert_eq!((hints.counts().skipped, pool.stats().misses - before), (10, 1));
    pool.check_invariants();
}

/// A page that is written while it is on the list is read as it is then.
#[test]
fn writers_and_several_tenants_share_the_pages_of_a_list() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 200);
    let writer = pool.tenant("writer").open().unwrap();
    let mut hints = pool.default_tenant().hint(pages_of(&file, 0..200)).unwrap();
    for number in 0..200 {
        stamp(&mut writer.write(file.page(199 - number)).unwrap(), 199 - number, 2);
        let page = hints.next().unwrap().unwrap();
        let expected = if number >= 100 { 2 } else { 1 };
        assert_eq!(version(&page, number), expected);
    }
    drop(hints);
    pool.check_invariants();
}

#[test]
fn a_panic_of_the_iterator_is_the_callers_and_ends_the_list() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 200);
    let tenant = pool.default_tenant();
    let pages = pages_of(&file, 0..200).into_iter().enumerate();
    let pages = pages.map(|(at, page)| if at == 40 { panic!("no more tuples") } else { page });
    let mut hints = tenant.hint(pages).unwrap();
    let mut read = 0;
    let panicked = loop {
        let next = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            hints.next().map(|page| page.is_some())
        }));
        match next {
            Ok(Ok(true)) => read += 1,
            Ok(outcome) => panic!("{outcome:?} before the panic"),
            Err(panic) => break *panic.downcast::<&str>().unwrap(),
        }
    };
    assert_eq!(panicked, "no more tuples");
    assert_eq!(rest(&mut hints).len() + read, 40);
    drop(hints);
    assert_eq!(rest(&mut tenant.hint(pages_of(&file, 0..10)).unwrap()), (0..10).collect::<Vec<u64>>());
    pool.check_invariants();
}

/// An iterator that reads through the same pool, and one that waits for another thread, which reads
/// meanwhile.
#[test]
fn an_iterator_may_read_and_block() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 200);
    let tenant = pool.default_tenant();
    let (index, reader) = (file.clone(), tenant.clone());
    let leaves = (0..100_u64).map(move |leaf| {
        let page = reader.read(index.page(leaf)).unwrap();
        HintedPage { file: index.id(), number: 100 + version(&page, leaf) * leaf % 100 }
    });
    let mut hints = tenant.hint(leaves).unwrap();
    assert_eq!(rest(&mut hints), (100..200).collect::<Vec<u64>>());

    let (send, receive) = mpsc::channel::<HintedPage>();
    let other = tenant.clone();
    std::thread::scope(|scope| {
        let held_up = scope.spawn(|| {
            let mut hints = other.hint(receive).unwrap();
            rest(&mut hints)
        });
        // The list's owner waits in `hint` for its first page.
        (0..200).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        send.send(file.page(3).into()).unwrap();
        drop(send);
        assert_eq!(held_up.join().unwrap(), [3]);
    });
    pool.check_invariants();
}

#[test]
fn futures_take_the_same_list_and_a_dropped_one_has_consumed_nothing() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 300);
    let numbers = scattered(200, 300);
    let mut hints = pool.default_tenant().hint(pages_of(&file, numbers.clone())).unwrap();
    let mut read = Vec::new();
    loop {
        // A future that has begun, perhaps with a read in flight, and is dropped.
        let mut dropped = Box::pin(hints.next_async());
        let waker = std::task::Waker::noop();
        let polled = dropped.as_mut().poll(&mut std::task::Context::from_waker(waker));
        let next = match polled {
            std::task::Poll::Ready(next) => next,
            std::task::Poll::Pending => {
                drop(dropped);
                block_on(hints.next_async())
            }
        };
        let Some(page) = next.unwrap() else { break };
        read.push(page.page().number());
    }
    assert_eq!(read, numbers);
    assert_eq!(hints.position(), 200);
    drop(hints);
    pool.check_invariants();
}

/// In deterministic mode nothing is fetched ahead, the lists replace, and two runs are equal.
#[test]
fn deterministic_runs_are_equal_and_a_loop_above_memory_keeps_what_belady_would() {
    let run = |hinted: bool| {
        let device = stamped_device(150);
        let (pool, file) = open_on(deterministic().frames(100).manager(None), &device);
        let tenant = pool.default_tenant();
        let numbers = (0..20 * 150).map(|at| at % 150);
        if hinted {
            let mut hints = tenant.hint(pages_of(&file, numbers)).unwrap();
            while hints.next().unwrap().is_some() {}
        } else {
            numbers.for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        }
        pool.check_invariants();
        pool.stats().misses
    };
    assert_eq!(run(false), 3000);
    let misses = run(true);
    assert_eq!(run(true), misses);
    // Belady's policy misses 150 pages in the first round, and 50 or 51 in each later one.
    assert!((150 + 19 * 50..=(150 + 19 * 51) * 102 / 100).contains(&misses), "{misses}");
}

#[test]
fn hints_can_be_turned_off() {
    for (pool, how) in [
        (plain().hint_limit_percent(0).open().unwrap(), HintPolicy::Auto),
        (plain().open().unwrap(), HintPolicy::Off),
    ] {
        let folder = directory();
        let file = stamped_file(&pool, &folder, 200);
        let tenant: Tenant = pool.tenant("t").hints(how).open().unwrap();
        let mut hints = tenant.hint(pages_of(&file, 0..200)).unwrap();
        assert_eq!(rest(&mut hints), (0..200).collect::<Vec<u64>>());
        assert_eq!((pool.stats().prefetch_issued, hints.counts().given), (0, 0));
    }
    let refused = plain().hint_limit_percent(91).open().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidOptions);
}

/// Pages that are not read yet never fill more than the tenant's share, and leave frames for a neighbour.
#[test]
fn limits_hold() {
    for how in [HintPolicy::Auto, HintPolicy::Horizon, HintPolicy::Aggressive { batch: 64 }] {
        let folder = directory();
        let pool = plain().hint_limit_percent(20).open().unwrap();
        let file = stamped_file(&pool, &folder, 400);
        let tenant = pool.tenant("hinting").hints(how).open().unwrap();
        let mut hints = tenant.hint(pages_of(&file, scattered(400, 400))).unwrap();
        let mut most = 0;
        while hints.next().unwrap().is_some() {
            let stats = pool.stats();
            let of = stats.tenants.iter().find(|tenant| tenant.name == "hinting").unwrap();
            most = most.max(of.prefetched - of.prefetch_used - of.prefetch_wasted);
        }
        assert!((1..=20).contains(&most), "{how:?}: {most} unread pages");
        drop(hints);
        pool.check_invariants();
    }
}

#[test]
fn a_closed_tenant_or_pool_ends_the_list() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 100);
    let tenant = pool.tenant("t").open().unwrap();
    let mut hints = tenant.hint(pages_of(&file, 0..100)).unwrap();
    assert!(hints.next().unwrap().is_some());
    tenant.clone().close().unwrap();
    assert_eq!(hints.next().unwrap_err().kind(), ErrorKind::TenantClosed);
    assert!(pool.stats().hints.iter().all(|site| site.open == 0), "{:?}", pool.stats().hints);
    assert_eq!(tenant.hint(pages_of(&file, 0..1)).unwrap_err().kind(), ErrorKind::TenantClosed);
    let mut late = pool.default_tenant().hint(pages_of(&file, 0..100)).unwrap();
    drop(hints);
    pool.close().unwrap();
    assert_eq!(late.next().unwrap_err().kind(), ErrorKind::PoolClosed);
}

/// A pool of 100 frames, and a file of 300 pages and a tenant without anything of its own in it.
fn in_the_commons() -> (tempfile::TempDir, Pool, File, Tenant) {
    let folder = directory();
    let pool = small().frames(100).read_ahead(false).open().unwrap();
    let file = stamped_file(&pool, &folder, 300);
    let tenant = pool.tenant("t").open().unwrap();
    (folder, pool, file, tenant)
}

/// A tenant that leaves the commons, or gets another manager by its first directive, keeps its lists' reader.
#[test]
fn leaving_the_commons_goes_on() {
    let (_folder, pool, file, tenant) = in_the_commons();
    let numbers = scattered(300, 300);
    let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
    let mut read: Vec<u64> = (0..50).map(|_| hints.next().unwrap().unwrap().page().number()).collect();
    tenant.set_floor_frames(10).unwrap();
    read.extend((0..50).map(|_| hints.next().unwrap().unwrap().page().number()));
    tenant.set_policy(0, bufpool::Policy::Mru).unwrap();
    read.extend(rest(&mut hints));
    assert_eq!(read, numbers);
    let counts = hints.counts();
    drop(hints);
    let stats = pool.stats();
    let of = stats.tenants.iter().find(|tenant| tenant.name == "t").unwrap();
    let [site] = &stats.hints[..] else { panic!("{:?}", stats.hints) };
    assert_eq!((site.open, site.counts, of.hints.lists), (0, of.hints, 2), "what ended is counted");
    assert!(of.hints.used >= 300 - 16, "{:?}", of.hints);
    assert_eq!((counts.given, counts.used), (of.hints.given, of.hints.used), "of both");
    pool.check_invariants();
}

/// The same of a list that accesses move: it goes on behind those that were made before.
#[test]
fn leaving_the_commons_goes_on_where_other_reads_have_come_to() {
    let (_folder, pool, file, tenant) = in_the_commons();
    let numbers = scattered(60, 300);
    let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
    numbers[..10].iter().for_each(|number| drop(tenant.read(file.page(*number)).unwrap()));
    tenant.set_floor_frames(10).unwrap();
    hints.extend([]);
    assert_eq!(hints.position(), 10);
    numbers[10..14].iter().for_each(|number| drop(tenant.read(file.page(*number)).unwrap()));
    hints.extend([]);
    assert_eq!(hints.position(), 14);
    let rest: Vec<u64> = rest(&mut hints);
    assert_eq!(rest, numbers[14..]);
    let counts = hints.counts();
    assert_eq!((counts.used, counts.skipped), (60, 0), "{counts:?}");
    pool.check_invariants();
}

/// Below a cap that leaves no room for pages ahead the list is only read. What became of its hints before is
/// still counted.
#[test]
fn a_cap_that_leaves_no_room_ahead_takes_no_counts_away() {
    let (_folder, pool, file, tenant) = in_the_commons();
    let numbers = scattered(60, 300);
    let mut hints = tenant.hint(pages_of(&file, numbers.clone())).unwrap();
    (0..20).for_each(|_| drop(hints.next().unwrap().unwrap()));
    let of_hints = |hints: &Hints| {
        let counts = hints.counts();
        (counts.given, counts.used, counts.lists)
    };
    let before = of_hints(&hints);
    assert_eq!(before.1, 20);
    tenant.set_cap_frames(1).unwrap();
    assert_eq!(rest(&mut hints), numbers[20..]);
    assert_eq!(hints.depth(), 0);
    assert_eq!(of_hints(&hints), before);
    hints.replan(pages_of(&file, [7])).unwrap();
    assert_eq!((rest(&mut hints), of_hints(&hints)), (vec![7], before));
    pool.check_invariants();
}

/// What became of hints is in the statistics and in the report, by tenant and by the place of the call.
#[test]
fn statistics_and_report_tell_lists_apart() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 200);
    let tenant = pool.tenant("orders").open().unwrap();
    let open = |numbers: std::ops::Range<u64>| tenant.hint(pages_of(&file, numbers)).unwrap();
    let mut finished = open(0..60);
    assert_eq!(rest(&mut finished).len(), 60);
    drop(finished);
    let mut open = open(100..200);
    (0..10).for_each(|_| drop(open.next().unwrap()));
    open.skip(5);
    let stats = pool.stats();
    let of = stats.tenants.iter().find(|tenant| tenant.name == "orders").unwrap();
    let [site] = &stats.hints[..] else { panic!("{:?}", stats.hints) };
    assert_eq!((site.tenant, site.open, site.counts), (of.id, 1, of.hints));
    assert_eq!((of.hints.lists, of.hints.used, of.hints.skipped), (2, 70, 5));
    assert!(site.depth >= 2 && site.depth_max >= site.depth);
    let report = pool.report().to_string();
    assert!(report.contains("orders: ") && report.contains("hints.rs"), "{report}");
    println!("{report}");
}

/// Under `Allocation::CostBenefit` a list that is read once fetches ahead, and takes no frames from a loop
/// beside it that fits and is not disclosed. Prices depend on measured rates, which are wrong when the
/// machine stalls. So one of a few attempts has to succeed.
#[test]
fn frames_go_where_they_are_worth_most() {
    on_each_backend(|io| {
        let folder = directory();
        let outcomes: Vec<_> = (0..5)
            .map(|attempt| {
                let name = format!("attempt {attempt}");
                let pool = plain().allocation(Allocation::CostBenefit).io(io).open().unwrap();
                let file = new_file(&pool, folder.path(), &name, 1100);
                let tenant = |name: &str| pool.tenant(name).hints(HintPolicy::CostBenefit).open().unwrap();
                let (scan, looping) = (tenant("scan"), tenant("loop"));
                let mut list = scan.hint(pages_of(&file, 60..1060)).unwrap();
                for round in 0..16 {
                    for number in 0..60 {
                        drop(looping.read(file.page(number)).unwrap());
                        if round > 0 {
                            drop(list.next().unwrap().unwrap());
                        }
                    }
                }
                pool.check_invariants();
                let misses = pool.stats().tenants.iter().find(|of| of.name == "loop").unwrap().misses;
                (misses, list.counts().prefetched)
            })
            .take_while(|(misses, prefetched)| (*misses, *prefetched > 100) != (60, true))
            .collect();
        assert!(outcomes.len() < 5, "misses of the loop, pages fetched: {outcomes:?}");
    });
}

/// A manager may have a list of hints. `Hints::skip` and `Hints::extend`, which return no error, wait for
/// nothing when it calls them under the policy lock.
#[test]
fn a_manager_that_has_a_list_waits_for_nothing() {
    for extends in [false, true] {
        in_a_minute(move || {
            let folder = directory();
            let pool = small().frames(64).read_ahead(true).open().unwrap();
            let file = stamped_file(&pool, &folder, 400);
            let list = Arc::new(Mutex::new(None));
            let (asked, again) = (Arc::clone(&list), HintedPage::from(file.page(99)));
            let manager = CallsBack(move || {
                let mut list = asked.lock().unwrap();
                let Some(hints): Option<&mut Hints> = list.as_mut() else { return };
                assert_eq!(hints.replan([again]).unwrap_err().kind(), ErrorKind::SelfDeadlock);
                if extends { hints.extend([again]) } else { hints.skip(1) }
            });
            let tenant = pool.tenant("managed").custom_manager(Box::new(manager)).open().unwrap();
            let hints = pool.default_tenant().hint(pages_of(&file, (0..1000).map(|at| at % 400))).unwrap();
            *list.lock().unwrap() = Some(hints);
            (100..300).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
            let mut hints = list.lock().unwrap().take().unwrap();
            assert!(hints.position() > 0 || extends);
            while hints.next().unwrap().is_some() {}
            pool.check_invariants();
        });
    }
}

/// A handle that a manager drops under the policy lock ends its list all the same, with the next miss or look
/// at the counts. So does one that the manager of its own tenant has when that is closed.
#[test]
fn a_list_ends_with_a_handle_that_a_manager_drops() {
    for closes in [false, true] {
        let folder = directory();
        // No background thread closes the list.
        let pool = deterministic().frames(64).open().unwrap();
        let file = stamped_file(&pool, &folder, 400);
        let list = Arc::new(Mutex::new(None));
        let held = Arc::clone(&list);
        let manager = CallsBack(move || drop::<Option<Hints>>(held.lock().unwrap().take_if(|_| !closes)));
        let tenant = pool.tenant("managed").custom_manager(Box::new(manager)).open().unwrap();
        let mut hints = tenant.hint(pages_of(&file, 0..100)).unwrap();
        (0..10).for_each(|number| assert_eq!(hints.next().unwrap().unwrap().page().number(), number));
        *list.lock().unwrap() = Some(hints);
        drop(list);
        if closes {
            let number = tenant.id();
            tenant.close().unwrap();
            file.discard(0..400).unwrap();
            let next = pool.tenant("next").open().unwrap();
            assert_eq!(next.id(), number);
            drop(next.read(file.page(300)).unwrap());
            assert_eq!(pool.stats().hints.len(), 0);
        } else {
            drop(tenant.read(file.page(300)).unwrap());
            let stats = pool.stats();
            let [site] = &stats.hints[..] else { panic!("{:?}", stats.hints) };
            assert_eq!((site.open, site.counts.lists, site.counts.used), (0, 1, 10));
        }
        pool.check_invariants();
    }
}

/// Lists of several tenants whose windows do not fit the pool together take frames from each other. Each then
/// looks no farther ahead than its pages stay, and all come to rest while nobody reads.
#[test]
fn lists_of_several_tenants_come_to_rest() {
    const TENANTS: u64 = 5;
    for policy in [HintPolicy::Aggressive { batch: 8 }, HintPolicy::Auto, HintPolicy::CostBenefit] {
        on_each_backend(|io| {
            let folder = directory();
            let pool = small().frames(64).threads_max(6).read_ahead(false).io(io).open().unwrap();
            let file = stamped_file(&pool, &folder, 320);
            let tenants: Vec<Tenant> =
                (0..TENANTS).map(|_| pool.tenant("reader").hints(policy).open().unwrap()).collect();
            let lists = tenants.iter().zip(0..).map(|(tenant, first): (&Tenant, u64)| {
                let numbers = (0..5000).map(|step| (first * 37 + step * 3) % 320);
                tenant.hint(pages_of(&file, numbers)).unwrap()
            });
            let mut lists: Vec<Hints> = lists.collect();
            let mut read_some = || {
                for _ in 0..200 {
                    for list in &mut lists {
                        let page = list.next().unwrap().unwrap();
                        assert_eq!(version(&page, page.page().number()), 1);
                    }
                }
            };
            read_some();
            assert_rests(&pool);
            // After frames were lost once, the lists look ahead again.
            let before = pool.stats().prefetch_issued;
            read_some();
            assert!(pool.stats().prefetch_issued > before);
            assert_rests(&pool);
            drop(lists);
            pool.check_invariants();
        });
    }
}

/// Once the reads in flight have ended, no more are begun.
fn assert_rests(pool: &Pool) {
    let mut counts = (0..500).map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        pool.stats().prefetch_issued
    });
    let mut unchanged = 0;
    let mut before = None;
    let rests = counts.any(|now| {
        unchanged = if before.replace(now) == Some(now) { unchanged + 1 } else { 0 };
        unchanged == 10
    });
    assert!(rests, "the pool goes on reading: {} pages ahead", pool.stats().prefetch_issued);
}

/// A page that cannot be read is not asked for again and again.
#[test]
fn a_list_with_a_bad_page_comes_to_rest() {
    let device = stamped_device(256);
    let pool = plain().open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    let tenant = pool.tenant("reader").hints(HintPolicy::Aggressive { batch: 4 }).open().unwrap();
    let first = device.calls(IoOperation::Read);
    for nth in first..first + 100_000 {
        device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
    }
    let hints = tenant.hint(pages_of(&file, (0..256).map(|step| step * 7 % 256))).unwrap();
    assert_rests(&pool);
    assert!(pool.stats().prefetch_failed < 1000, "{} reads failed", pool.stats().prefetch_failed);
    device.forget_faults();
    let mut hints = hints;
    assert_eq!(rest(&mut hints).len(), 256);
    assert!(hints.counts().prefetched > 50, "{:?}", hints.counts());
}

#[test]
fn the_reads_of_a_list_count_where_it_was_said_that_they_are_made() {
    let folder = directory();
    let pool = plain().open().unwrap();
    let file = stamped_file(&pool, &folder, 40);
    let tenant = pool.tenant("reader").open().unwrap();
    let query = bufpool::context!("Q6").context();
    let at = tenant.at(bufpool::site!("index scan")).in_context(query);
    let mut hints = at.hint(pages_of(&file, 0..20)).unwrap();
    assert_eq!(rest(&mut hints).len(), 20);
    drop(hints);
    let mut hints = at.hint_with(pages_of(&file, 20..40)).unwrap();
    while block_on(hints.next_async()).unwrap().is_some() {}
    let stats = pool.stats();
    let named = |context: &&bufpool::stats::ContextStats| context.name.as_deref() == Some("index scan");
    let contexts: Vec<_> = stats.contexts.iter().filter(named).collect();
    assert_eq!(contexts.len(), 1, "{contexts:?}");
    assert_eq!((contexts[0].scopes.as_str(), contexts[0].accesses), ("Q6", 40));
    assert!(stats.hints.iter().all(|of| of.context == contexts[0].id), "{:?}", stats.hints);
}
