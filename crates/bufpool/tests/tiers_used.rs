//! Goal: a tier is used as far as it pays and its limit allows, keeps what it may keep, and its counts add
//! up.
//! Method: small cases on tiers in memory and in files, on the simulated device.

mod common;
mod tiers_below;

use bufpool::engine::{PageHooks, PageName};
use bufpool::manager::Allocation;
use bufpool::sim::SimDevice;
use bufpool::tier::*;
use bufpool::{FileOptions, PoolOptions};
use bufpool_policies::mix64;
use common::{PAGE_BYTES, Random, deterministic, open_on, small, stamped_device, version};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tiers_below::{Answer, FRAMES, Hoarder, over};

const PAGES: u64 = 100;
fn reader() -> FileOptions {
    FileOptions::new().read_only(true).tag(5).epoch(1)
}
fn in_file(o: PoolOptions, pages: u32, policy: TierPolicy) -> PoolOptions {
    over(o, Arc::new(FileTier::new("below", pages).persistent(true)), policy).tier_wait_ms(10_000)
}

#[test]
fn a_tier_file_of_smaller_pages_is_a_tiers() {
    let device = SimDevice::new(1);
    in_file(deterministic().page_bytes(512), 4, TierPolicy::Demote)
        .open_on(&device)
        .unwrap()
        .close()
        .unwrap();
    in_file(deterministic().page_bytes(1 << 17), 4, TierPolicy::Demote)
        .open_on(&device)
        .unwrap()
        .close()
        .unwrap();
}

fn second(policy: TierPolicy, between: u64) -> bool {
    let hoarder = Arc::new(Hoarder::new(Answer::AsAsked));
    let o = deterministic().frames(FRAMES).allocation(Allocation::GlobalLru).manager(None);
    let pool = o
        .tier(Arc::clone(&hoarder) as _, policy, TierAdmit::SecondEviction)
        .open_on(&stamped_device(400))
        .unwrap();
    let file = pool.open_file("data", reader()).unwrap();
    let tenant = pool.default_tenant();
    let read = |n: u64| assert_eq!(version(&tenant.read(file.page(n)).unwrap(), n), 1);
    read(1);
    // 32 others, and page 1 has left; then `between` others leave.
    let mut at = 10;
    for _ in 0..32 + between {
        read(at);
        at += 2;
    }
    read(1);
    for _ in 0..40 {
        read(at);
        at += 2;
    }
    !hoarder.bytes_of(5, 1).is_empty()
}

#[test]
fn a_second_eviction_counts_in_a_shared_tier_too() {
    let found: Vec<_> = [4, 10, 14, 20, 28]
        .into_iter()
        .map(|b| (b, second(TierPolicy::Demote, b), second(TierPolicy::DemoteAdapt(Segments::Uniform), b)))
        .collect();
    assert!(found.iter().all(|(_, a, b)| *a && *b), "{found:?}");
}

#[test]
fn a_page_that_keeps_coming_back_is_admitted_each_time() {
    let o = deterministic().frames(FRAMES).allocation(Allocation::GlobalLru).manager(None);
    let pool = o
        .tier(Arc::new(MemoryTier::new(200)), TierPolicy::Demote, TierAdmit::SecondEviction)
        .open_on(&stamped_device(400))
        .unwrap();
    let file = pool.open_file("data", reader()).unwrap();
    let tenant = pool.default_tenant();
    let round = || (0..48).for_each(|n| drop(tenant.read(file.page(2 * n)).unwrap()));
    (0..4).for_each(|_| round());
    let before = pool.stats().tier.unwrap();
    (0..100).for_each(|_| round());
    let after = pool.stats().tier.unwrap();
    assert_eq!(
        after.not_admitted,
        before.not_admitted,
        "{} offered, hits {} of {}",
        after.demotions - before.demotions,
        after.hits - before.hits,
        48 * 100
    );
}

#[test]
fn a_limit_of_bytes_holds_under_promote() {
    let device = stamped_device(PAGES);
    device.set_latency(Duration::from_micros(200), Duration::from_micros(300));
    let o = over(small(), Arc::new(MemoryTier::new(200)), TierPolicy::Promote);
    let (pool, file) =
        open_on(o.tier_bytes_per_second(100 * PAGE_BYTES as u64).tier_wait_ms(10_000), &device);
    let (tenant, begun, mut random) = (pool.default_tenant(), Instant::now(), Random(3));
    while begun.elapsed() < Duration::from_secs(3) {
        let n = random.below(PAGES);
        assert_eq!(version(&tenant.read(file.page(n)).unwrap(), n), 1);
    }
    let (tier, most) = (pool.stats().tier.unwrap(), 100.0 * begun.elapsed().as_secs_f64() + 20.0);
    assert!(((tier.demotions - tier.refused) as f64) < most, "{most} {tier:?}");
}

#[test]
fn a_copy_that_hooks_reject_is_counted_once() {
    struct Once(Arc<AtomicBool>);
    impl PageHooks for Once {
        fn before_write(&self, _: PageName, _: &mut [u8]) {}
        fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
            if self.0.swap(false, Ordering::Relaxed) { Err("once".into()) } else { Ok(()) }
        }
    }
    let fails = Arc::new(AtomicBool::new(false));
    let o = over(
        deterministic().hooks(Box::new(Once(Arc::clone(&fails)))),
        Arc::new(MemoryTier::new(200)),
        TierPolicy::Demote,
    );
    let (pool, file) = open_on(o, &stamped_device(PAGES));
    let tenant = pool.default_tenant();
    for n in 0..PAGES {
        drop(tenant.read(file.page(n)).unwrap());
    }
    fails.store(true, Ordering::Relaxed);
    drop(tenant.read(file.page(0)).unwrap());
    let tier = pool.stats().tier.unwrap();
    assert_eq!(tier.wrong, 1);
    assert_eq!(tier.hits + tier.absent + tier.timed_out, PAGES + 1, "{tier:?}");
}

#[test]
fn pages_that_are_not_sent_under_promote_are_counted() {
    let hoarder = Arc::new(Hoarder::new(Answer::Never));
    let (pool, file) =
        open_on(over(small().tier_wait_ms(1), hoarder, TierPolicy::Promote), &stamped_device(PAGES));
    let tenant = pool.default_tenant();
    for n in (0..3).flat_map(|_| 0..PAGES) {
        drop(tenant.read(file.page(n)).unwrap());
    }
    let (reads, tier) = (pool.stats().reads, pool.stats().tier.unwrap());
    assert!(tier.passed_by.is_some());
    assert!(tier.demotions + tier.skipped + tier.not_admitted >= reads, "{reads} reads, {tier:?}");
}

#[test]
fn a_damaged_copy_is_found_once() {
    for policy in [TierPolicy::Inclusive, TierPolicy::Promote] {
        let device = stamped_device(PAGES);
        let open = || {
            let pool = in_file(deterministic(), 200, policy).open_on(&device).unwrap();
            let file = pool.open_file("data", reader()).unwrap();
            (pool, file)
        };
        let all = |pool: &bufpool::Pool, file: &bufpool::File| {
            for n in 0..PAGES {
                assert_eq!(version(&pool.default_tenant().read(file.page(n)).unwrap(), n), 1);
            }
        };
        let (pool, file) = open();
        (0..3).for_each(|_| all(&pool, &file));
        drop(file);
        pool.close().unwrap();
        let mut contents = device.contents("below").unwrap();
        for place in 0..10 {
            contents[PAGE_BYTES * (1 + place) + 100] ^= 1;
        }
        device.put("below", &contents);
        let (pool, file) = open();
        let wrong: Vec<_> = (0..8)
            .map(|_| {
                all(&pool, &file);
                pool.stats().tier.unwrap().wrong
            })
            .collect();
        assert!(*wrong.last().unwrap() <= 10, "{policy:?}: {wrong:?}");
    }
}

#[test]
fn pages_on_their_way_down_are_there_for_the_next_pool() {
    let device = stamped_device(PAGES);
    let tier = Arc::new(FileTier::new("below", 300).persistent(true));
    let open = || {
        over(small(), Arc::clone(&tier) as _, TierPolicy::Inclusive)
            .tier_wait_ms(10_000)
            .open_on(&device)
            .unwrap()
    };
    let pool = open();
    let file = pool.open_file("data", reader()).unwrap();
    let tenant = pool.default_tenant();
    for n in 0..32 {
        drop(tenant.read(file.page(n)).unwrap());
    }
    device.set_latency(Duration::from_millis(50), Duration::from_millis(51));
    for n in 40..44 {
        drop(tenant.read(file.page(n)).unwrap());
    }
    let before = pool.stats().tier.unwrap();
    drop((file, tenant));
    pool.close().unwrap();
    device.set_latency(Duration::ZERO, Duration::ZERO);
    let found = open().stats().tier.unwrap().report.pages;
    assert_eq!(found, before.report.pages, "{before:?}");
}

#[test]
fn files_without_a_tag_do_not_make_a_persistent_tier_passed_by() {
    let device = stamped_device(400);
    device.put("plain", &vec![0; 400 * PAGE_BYTES]);
    device.set_latency(Duration::from_millis(1), Duration::from_millis(1));
    let pool = in_file(small(), 300, TierPolicy::Demote).open_on(&device).unwrap();
    let plain = pool.open_file("plain", FileOptions::new().read_only(true)).unwrap();
    for n in 0..350 {
        drop(pool.default_tenant().read(plain.page(n)).unwrap());
    }
    let tier = pool.stats().tier.unwrap();
    assert_eq!(tier.passed_by, None, "{tier:?}");
}

/// Counts what it is offered, and never answers.
struct Counting {
    inner: Hoarder,
    offers: std::sync::atomic::AtomicU64,
}
impl Tier for Counting {
    fn attach(&self, to: &Attachment) -> bufpool::Result<()> {
        self.inner.attach(to)
    }
    fn demote(&self, p: PageName, v: Version, b: TierPage) -> Demoted {
        self.offers.fetch_add(1, Ordering::Relaxed);
        drop((p, v, b));
        Demoted::Stored
    }
    fn take(&self, p: PageName, v: Version, into: TierBuffer, done: TierDone) {
        self.inner.take(p, v, into, done);
    }
    fn forget(&self, _: TierRange) {}
    fn report(&self) -> TierReport {
        self.inner.report()
    }
}

#[test]
fn pages_that_are_not_sent_do_not_count_to_the_limit() {
    let offers = |limit: Option<u64>| {
        let device = stamped_device(640);
        device.set_latency(Duration::from_micros(50), Duration::from_micros(60));
        let tier = Arc::new(Counting { inner: Hoarder::new(Answer::Never), offers: Default::default() });
        let o = over(small().tier_wait_ms(1), Arc::clone(&tier) as _, TierPolicy::Demote);
        let o = if let Some(pages) = limit { o.tier_bytes_per_second(pages * PAGE_BYTES as u64) } else { o };
        let (pool, file) = open_on(o, &device);
        for n in 0..200 {
            drop(pool.default_tenant().read(file.page(n)).unwrap());
        }
        assert!(pool.stats().tier.unwrap().passed_by.is_some());
        tier.offers.store(0, Ordering::Relaxed);
        let begun = Instant::now();
        for n in (0..20).flat_map(|_| 0..640) {
            drop(pool.default_tenant().read(file.page(n)).unwrap());
        }
        (tier.offers.load(Ordering::Relaxed), begun.elapsed().as_secs_f64())
    };
    let (free, free_s) = offers(None);
    let (limited, s) = offers(Some(100));
    assert!(limited as f64 > 0.5 * (100.0 * s).min(free as f64), "{free} in {free_s}, {limited} in {s}");
}

/// Answers once it is told to.
struct Late {
    inner: Hoarder,
    answers: AtomicBool,
}
impl Tier for Late {
    fn attach(&self, to: &Attachment) -> bufpool::Result<()> {
        self.inner.attach(to)
    }
    fn demote(&self, page: PageName, version: Version, bytes: TierPage) -> Demoted {
        self.inner.demote(page, version, bytes)
    }
    fn take(&self, page: PageName, version: Version, into: TierBuffer, done: TierDone) {
        if self.answers.load(Ordering::Relaxed) {
            return done.absent(into);
        }
        self.inner.take(page, version, into, done);
    }
    fn forget(&self, _: TierRange) {}
    fn report(&self) -> TierReport {
        self.inner.report()
    }
}

/// While a tier is passed by it is asked for a sample of pages. Where no page in use is one of them, the
/// sample changes after sixteen times as many misses as there are pages to one of the sample: 64 here.
#[test]
fn a_tier_is_tried_again_whatever_pages_are_in_use() {
    const IN_USE: usize = 40;
    let tier = Arc::new(Late { inner: Hoarder::new(Answer::Never), answers: AtomicBool::new(false) });
    let options = over(small().tier_wait_ms(20), Arc::clone(&tier) as _, TierPolicy::Demote);
    let (pool, file) = open_on(options, &stamped_device(640));
    let is_sampled = |number: &u64| mix64(file.page(*number).id().0).is_multiple_of(64);
    let in_use: Vec<u64> = (0..640).filter(|number| !is_sampled(number)).take(IN_USE).collect();
    let read_all = || in_use.iter().for_each(|n| drop(pool.default_tenant().read(file.page(*n)).unwrap()));
    let does_not_answer = || pool.stats().tier.unwrap().passed_by == Some(PassedBy::DoesNotAnswer);
    read_all();
    assert!(does_not_answer());
    tier.answers.store(true, Ordering::Relaxed);
    // After that many misses a page in use is asked for in each round, and eight answers are needed.
    (0..(16 * 64_usize).div_ceil(IN_USE) + 8).for_each(|_| read_all());
    assert!(!does_not_answer(), "{:?}", pool.stats().tier);
}
