//! Goal: counts of waits, hints and contexts are what they say while pages come in, or find no room; lists
//! and tiers know what they knew.
//! Method: small cases on the simulated device, where reads are slow or fail.

mod common;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::tier::{MemoryTier, TierAdmit, TierPolicy};
use bufpool::{ErrorKind, File, FileOptions, HintedPage, Hints, IoOperation, PageView, PoolOptions, Tenant};
use common::{PAGE_BYTES, block_on, kind, open_on, small, stamped_device};

const MS: fn(u64) -> Duration = Duration::from_millis;

fn plain() -> PoolOptions {
    small().frames(100).manager(None)
}

fn pages_of(file: &File, numbers: impl IntoIterator<Item = u64>) -> Vec<HintedPage> {
    numbers.into_iter().map(|number| file.page(number).into()).collect()
}

fn read_next(hints: &mut Hints, count: usize) {
    (0..count).for_each(|_| drop(hints.next().unwrap().unwrap()));
}

fn read_all(tenant: &Tenant, file: &File, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
}

fn fail_read(device: &SimDevice, nth: u64) {
    device.fail(SimFault { operation: IoOperation::Read, nth, failure: SimFailure::Io });
}

fn poll<F: Future + Unpin>(future: &mut F) -> bool {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop())).is_pending()
}

// 1. Copies in a tier.

/// A pool of 64 frames above a tier that has pages 0 to 149 of 200.
fn above_a_tier(options: PoolOptions) -> (SimDevice, bufpool::Pool, File) {
    let device = stamped_device(200);
    let options = options.tier(Arc::new(MemoryTier::new(200)), TierPolicy::Inclusive, TierAdmit::All);
    let (pool, file) = open_on(options, &device);
    device.set_latency(MS(2), MS(2));
    read_all(&pool.default_tenant(), &file, 0..200);
    (device, pool, file)
}

fn tier_hits(pool: &bufpool::Pool) -> u64 {
    pool.stats().tier.unwrap().hits
}

#[test]
fn a_prefetch_without_room_leaves_the_tier_its_copies() {
    let (_device, pool, file) = above_a_tier(small().manager(None).frames(64));
    let tenant = pool.default_tenant();
    assert!(tenant.prefetch((0..120).map(|number| file.page(number))) < 20);
    let before = tier_hits(&pool);
    read_all(&tenant, &file, 60..120);
    assert_eq!(tier_hits(&pool) - before, 60);
}

#[test]
fn a_future_that_waits_for_a_frame_leaves_the_tier_its_copy() {
    let (_device, pool, file) = above_a_tier(small().manager(None));
    let tenant = pool.default_tenant();
    let pins: Vec<_> = (60..92).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let before = tier_hits(&pool);
    let mut future = tenant.read_async(file.page(3));
    assert!(poll(&mut future));
    drop(pins);
    drop(block_on(future).unwrap());
    assert_eq!(tier_hits(&pool) - before, 1);
}

#[test]
fn a_miss_that_finds_no_frame_leaves_the_tier_its_copy() {
    let (_device, pool, file) = above_a_tier(small().manager(None).frame_wait_ms(20));
    let tenant = pool.default_tenant();
    let pins: Vec<_> = (60..92).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let before = tier_hits(&pool);
    assert_eq!(kind(tenant.read(file.page(3))), ErrorKind::Exhausted);
    drop(pins);
    drop(tenant.read(file.page(3)).unwrap());
    assert_eq!(tier_hits(&pool) - before, 1);
}

/// The pages that leave for those of the batch may still be read without a latch.
#[test]
fn a_batch_whose_frames_may_still_be_read_leaves_the_tier_its_copies() {
    let (device, pool, file) = above_a_tier(small().manager(None));
    let tenant = pool.default_tenant();
    device.put("other", &vec![0; 32 * PAGE_BYTES]);
    let other = pool.open_file("other", FileOptions::new().optimistic(true)).unwrap();
    (0..32).for_each(|number| _ = tenant.optimistic(other.page(number), |_| ()).unwrap());
    let before = tier_hits(&pool);
    let within = |_: PageView<'_>| {
        let pages = tenant.read_many(&[file.page(103), file.page(104)]);
        pages.into_iter().filter(|page| matches!(page, Ok(Some(_)))).count()
    };
    assert_eq!(tenant.optimistic(other.page(31), within).unwrap().0, 0);
    read_all(&tenant, &file, [103, 104]);
    assert_eq!(tier_hits(&pool) - before, 2);
}

#[test]
fn hints_without_room_leave_the_tier_its_copies() {
    let (_device, pool, file) = above_a_tier(plain().hint_limit_percent(80));
    let tenant = pool.default_tenant();
    let _pins: Vec<_> = (110..200).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let before = tier_hits(&pool);
    let mut hints = tenant.hint(pages_of(&file, (0..100).step_by(2))).unwrap();
    read_next(&mut hints, 50);
    assert!(tier_hits(&pool) - before >= 40, "{} of 50", tier_hits(&pool) - before);
}

// 2. Which accesses move a list.

#[test]
fn the_first_next_goes_on_where_other_reads_have_come_to() {
    let (pool, file) = open_on(plain(), &stamped_device(100));
    let tenant = pool.default_tenant();
    let mut hints = tenant.hint(pages_of(&file, 0..60)).unwrap();
    read_all(&tenant, &file, 0..10);
    assert_eq!(hints.next().unwrap().unwrap().page().number(), 10);
}

/// A caller that expects each page gets each, though other threads read some of them for the same tenant.
#[test]
fn a_list_to_read_begins_at_its_first_page() {
    let (pool, file) = open_on(plain(), &stamped_device(100));
    let tenant = pool.default_tenant();
    let mut hints = tenant.hint_to_read(pages_of(&file, 0..60)).unwrap();
    read_all(&tenant, &file, 0..10);
    assert_eq!(hints.next().unwrap().unwrap().page().number(), 0);
    assert_eq!((hints.position(), hints.counts().used), (1, 1));
}

#[test]
fn reads_of_pages_that_were_hit_a_moment_ago_are_matched() {
    let (pool, file) = open_on(plain(), &stamped_device(100));
    let tenant = pool.default_tenant();
    (0..5).for_each(|_| read_all(&tenant, &file, 0..60));
    let mut hints = tenant.hint(pages_of(&file, 0..60)).unwrap();
    read_all(&tenant, &file, 0..10);
    hints.extend([]);
    assert_eq!((hints.position(), hints.counts().used), (10, 10));
}

#[test]
fn reads_of_pages_that_others_own_are_matched() {
    let (pool, file) = open_on(plain(), &stamped_device(100));
    (0..5).for_each(|_| read_all(&pool.default_tenant(), &file, 0..20));
    let tenant = pool.tenant("other").open().unwrap();
    let mut hints = tenant.hint(pages_of(&file, (0..60).map(|at| at % 4))).unwrap();
    for _ in 0..4 {
        read_all(&tenant, &file, 0..4);
        hints.extend([]);
    }
    assert_eq!(hints.position(), 16);
}

// 3. Counts.

#[test]
fn a_page_is_wasted_once() {
    let device = stamped_device(100);
    device.set_latency(MS(1), MS(1));
    let (pool, file) = open_on(plain(), &device);
    let mut hints = pool.default_tenant().hint(pages_of(&file, 0..100)).unwrap();
    read_next(&mut hints, 50);
    std::thread::sleep(MS(50));
    hints.skip(100);
    std::thread::sleep(MS(50));
    let before = hints.counts();
    hints.replan([]).unwrap();
    assert_eq!(hints.counts().wasted, before.wasted);
    assert!(before.wasted > 0);
}

#[test]
fn a_page_that_is_named_again_is_neither_wasted_again_nor_lost() {
    let (pool, file) = open_on(plain(), &stamped_device(100));
    let tenant = pool.default_tenant();
    let assert_counted_once = || {
        pool.check_invariants();
        let counts = pool.stats().tenants[0].hints;
        assert!(0 < counts.wasted && counts.lost + counts.wasted <= counts.prefetched, "{counts:?}");
    };
    let mut hints = tenant.hint(pages_of(&file, 0..20)).unwrap();
    read_next(&mut hints, 2);
    for _ in 0..3 {
        pool.check_invariants();
        hints.skip(20);
        assert_counted_once();
        hints.extend(pages_of(&file, 0..20));
    }
    let other = tenant.hint(pages_of(&file, 0..20)).unwrap();
    drop(hints);
    assert_counted_once();
    file.discard(0..20).unwrap();
    drop(other);
    assert_counted_once();
}

#[test]
fn a_page_that_goes_over_to_another_list_counts_there() {
    let (pool, file) = open_on(plain(), &stamped_device(300));
    let tenant = pool.default_tenant();
    let mut first = tenant.hint(pages_of(&file, 0..100)).unwrap();
    read_next(&mut first, 20);
    pool.check_invariants();
    let mut other = tenant.hint(pages_of(&file, 200..210)).unwrap();
    other.extend(pages_of(&file, 0..100));
    drop(first);
    file.discard(0..100).unwrap();
    let counts = other.counts();
    assert!(counts.lost + counts.wasted <= counts.prefetched, "{counts:?}");
}

#[test]
fn counts_stay_when_a_tenant_leaves_the_commons() {
    let (pool, file) = open_on(small().frames(100), &stamped_device(300));
    let tenant = pool.tenant("t").open().unwrap();
    let mut hints = tenant.hint(pages_of(&file, 0..300)).unwrap();
    read_next(&mut hints, 50);
    assert_eq!(hints.counts().used, 50);
    tenant.set_floor_frames(10).unwrap();
    assert_eq!(hints.counts().used, 50);
    assert_eq!(pool.stats().hints[0].counts.used, 50);
}

#[test]
fn sites_keep_the_counts_of_lists_that_end_with_their_tenant() {
    let (pool, file) = open_on(plain(), &stamped_device(300));
    let tenant = pool.tenant("t").open().unwrap();
    let mut hints = tenant.hint(pages_of(&file, 0..100)).unwrap();
    read_next(&mut hints, 20);
    tenant.close().unwrap();
    drop(hints);
    let stats = pool.stats();
    let of = stats.tenants.iter().find(|tenant| tenant.name == "t").unwrap().hints;
    assert!(of.used > 0);
    assert_eq!(stats.hints[0].counts, of);
}

#[test]
fn contexts_add_up_when_a_read_fails_after_its_context_was_recycled() {
    let device = stamped_device(40);
    let (pool, file) = open_on(small(), &device);
    let tenant = pool.default_tenant();
    drop(tenant.read(file.page(0)).unwrap());
    device.set_latency(MS(1500), MS(1500));
    fail_read(&device, 2);
    let mut future = tenant.read_async(file.page(5));
    assert!(poll(&mut future));
    for scope in 0..6000_u64 {
        let _scope = bufpool::context!("scope", scope);
        drop(tenant.read(file.page(0)).unwrap());
    }
    assert_eq!(kind(block_on(future)), ErrorKind::Io);
    let stats = pool.stats();
    let (of, contexts) = (&stats.tenants[0], &stats.contexts);
    let accesses = contexts.iter().map(|context| context.accesses).sum::<u64>() + of.recycled_accesses;
    let misses = contexts.iter().map(|context| context.misses).sum::<u64>() + of.recycled_misses;
    assert_eq!((accesses, misses), (of.accesses, of.misses));
}

// 4. Waits of `read_many`.

#[test]
fn a_miss_is_no_hit_that_waited() {
    let device = stamped_device(40);
    let (pool, file) = open_on(small(), &device);
    device.set_latency(MS(20), MS(20));
    fail_read(&device, 1);
    let tenant = pool.default_tenant();
    assert_eq!(tenant.prefetch([file.page(3)]), 1);
    assert!(matches!(tenant.read_many(&[file.page(3)])[..], [Ok(Some(_))]));
    let stats = pool.stats();
    assert_eq!((stats.misses, stats.hits, stats.waited), (1, 0, 0));
}

#[test]
fn a_page_that_is_not_granted_is_no_hit_that_waited() {
    let device = stamped_device(40);
    let (pool, file) = open_on(small().latch_wait_ms(20), &device);
    let tenant = pool.default_tenant();
    drop(tenant.read(file.page(9)).unwrap());
    device.set_latency(MS(200), MS(200));
    assert_eq!(tenant.prefetch([file.page(3)]), 1);
    assert!(matches!(tenant.read_many(&[file.page(9), file.page(3)])[..], [Ok(Some(_)), Ok(None)]));
    assert_eq!(pool.stats().waited, 0);
}

#[test]
fn a_call_that_gets_nothing_waits_once() {
    let device = stamped_device(40);
    let (pool, file) = open_on(small().latch_wait_ms(300), &device);
    let tenant = pool.default_tenant();
    device.set_latency(MS(2000), MS(2000));
    assert_eq!(tenant.prefetch([file.page(3)]), 1);
    let begun = Instant::now();
    drop(tenant.read_many(&[file.page(3)]));
    assert!(begun.elapsed() < MS(500), "{:?} for latch_wait_ms = 300", begun.elapsed());
}

/// Somebody waits for a page that is fetched, and that fails.
#[test]
fn a_page_that_does_not_come_is_not_late() {
    let device = stamped_device(40);
    let (pool, file) = open_on(small(), &device);
    device.set_latency(MS(100), MS(100));
    fail_read(&device, 1);
    let tenant = pool.default_tenant();
    assert_eq!(tenant.prefetch([file.page(3)]), 1);
    drop(tenant.read(file.page(3)).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.prefetch_failed, stats.prefetch_late), (1, 0));
}
