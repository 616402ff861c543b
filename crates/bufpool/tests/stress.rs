//! Goal: no thread ever sees a stale, torn or lost page, whatever the others do. Method: more threads than
//! cores and far fewer frames than pages. Each page is filled with its number and version, and a table
//! outside the pool says which version it must have whenever it is latched. At the end the file on disk is
//! compared, too.

mod common;
mod tiers_below;

use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::ScopedJoinHandle;
use std::time::Instant;

use bufpool::manager::Allocation;
use bufpool::tier::TierPolicy;
use bufpool::{ErrorKind, FileOptions, Io, IoBackend, Policy, Pool, PoolOptions, Tenant, context};
use common::{PAGE_BYTES, Random, directory, new_file, on_each_backend, small, stamp, version};
use tiers_below::Below;

const PAGES: u64 = 150;
const THREADS: u64 = 8;
const STEPS: u64 = 3_000;

struct World {
    file: bufpool::File,
    versions: Vec<AtomicU64>,
}

impl World {
    /// A file `data` in the folder, each page at version 1.
    fn new(pool: &Pool, folder: &Path) -> Self {
        let file = new_file(pool, folder, "data", PAGES);
        let world = Self { file, versions: (0..PAGES).map(|_| AtomicU64::new(0)).collect() };
        let tenant = pool.default_tenant();
        for number in 0..PAGES {
            world.change(number, &mut tenant.create(world.file.page(number)).unwrap());
        }
        world
    }

    /// Closes the pool, and compares the file on disk.
    fn close_and_compare(&self, pool: Pool, folder: &Path) {
        pool.close().unwrap();
        let bytes = std::fs::read(folder.join("data")).unwrap();
        assert_eq!(bytes.len(), PAGES as usize * PAGE_BYTES);
        for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
            self.check(number, page);
        }
    }

    fn check(&self, number: u64, bytes: &[u8]) {
        let expected = self.versions[number as usize].load(Ordering::Acquire);
        assert_eq!(version(bytes, number), expected, "page {number}");
    }

    /// Gives a page its next version; the caller holds its exclusive latch.
    fn change(&self, number: u64, bytes: &mut [u8]) {
        let next = self.versions[number as usize].load(Ordering::Acquire) + 1;
        stamp(bytes, number, next);
        self.versions[number as usize].store(next, Ordering::Release);
    }

    fn step(&self, tenant: &Tenant, random: &mut Random) -> bufpool::Result<()> {
        // Some pages are hot, so that threads meet.
        let number = if random.below(3) == 0 { random.below(4) } else { random.below(PAGES) };
        let page = self.file.page(number);
        match random.below(100) {
            0..50 => self.check(number, &tenant.read(page)?),
            50..75 => {
                let mut guard = tenant.write(page)?;
                self.check(number, &guard);
                self.change(number, &mut guard);
            }
            75..80 => {
                let mut guard = tenant.create(page)?;
                assert!(guard.iter().all(|&byte| byte == 0));
                self.change(number, &mut guard);
                self.check(number, &guard.downgrade());
            }
            80..85 => {
                let pin = tenant.pin(page)?;
                self.check(number, &pin.read()?);
                let mut guard = pin.write()?;
                self.check(number, &guard);
                self.change(number, &mut guard);
            }
            85..90 => {
                if let Some(mut guard) = tenant.try_write(page)? {
                    self.check(number, &guard);
                    self.change(number, &mut guard);
                }
            }
            90..93 => {
                // Two pages at once, in ascending order.
                let other = random.below(PAGES);
                if other > number {
                    let first = tenant.read(page)?;
                    let mut second = tenant.write(self.file.page(other))?;
                    self.check(number, &first);
                    self.check(other, &second);
                    self.change(other, &mut second);
                }
            }
            93..96 => self.file.flush_page(number)?,
            96 => self.file.flush()?,
            97 => {
                tenant.set_temporary_priority(&self.file, number..number + 1, -1)?;
            }
            98 => tenant.set_policy(0, if random.below(2) == 0 { Policy::Mru } else { Policy::Lru })?,
            _ => {
                let guard = tenant.try_read(page)?;
                if let Some(guard) = guard {
                    self.check(number, &guard);
                }
            }
        }
        Ok(())
    }
}

/// What a thread does besides [`World::step`], one time in ten.
fn many_at_once(world: &World, tenant: &Tenant, random: &mut Random) -> bufpool::Result<()> {
    let number = random.below(PAGES);
    let pages = || (0..3).map(|step| world.file.page((number + 7 * step) % PAGES));
    match random.below(100) {
        0..40 => {
            let pages: Vec<_> = pages().collect();
            for (page, granted) in pages.iter().zip(tenant.read_many(&pages)) {
                if let Some(guard) = granted? {
                    world.check(page.number(), &guard);
                }
            }
        }
        40..55 => {
            tenant.prefetch(pages());
        }
        55..75 => {
            // Dropped here, whatever it has come to.
            let read = pin!(tenant.read_async(world.file.page(number)));
            if let Poll::Ready(guard) = read.poll(&mut Context::from_waker(Waker::noop())) {
                world.check(number, &guard?);
            }
        }
        75..85 => {
            let write = pin!(tenant.write_async(world.file.page(number)));
            if let Poll::Ready(guard) = write.poll(&mut Context::from_waker(Waker::noop())) {
                let mut guard = guard?;
                world.check(number, &guard);
                world.change(number, &mut guard);
            }
        }
        85..95 => {
            let _query = context!("stress", number % 10);
            world.check(number, &tenant.read(world.file.page(number))?);
        }
        95 => world.file.begin_flush().wait()?,
        96 => {
            // Dropped here: it may have begun.
            let _ = pin!(world.file.flush_async()).poll(&mut Context::from_waker(Waker::noop()));
            drop(world.file.begin_flush());
        }
        97 => tenant.set_floor_frames(random.below(2) as u32)?,
        _ => tenant.set_cap_frames(4 + random.below(29) as u32)?,
    }
    Ok(())
}

/// Eight threads of reads, writes, pins, flushes, lists, futures that are dropped, floors and caps, beside
/// checkpoints.
fn stress_everything(options: PoolOptions, seed: u64) {
    stress_everything_over(Below::Nothing, options, seed);
}

fn stress_everything_over(below: Below, options: PoolOptions, seed: u64) {
    let directory = directory();
    let pool = below.a_pool(options, directory.path()).open().unwrap();
    let world = World::new(&pool, directory.path());
    let (done, refused) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (pool, world, refused) = (&pool, &world, &refused);
                scope.spawn(move || {
                    let tenant = pool.tenant(format!("thread {thread}")).open().unwrap();
                    let mut random = Random(seed * 1000 + thread + 1);
                    for _ in 0..STEPS {
                        let outcome = match random.below(10) {
                            0 => many_at_once(world, &tenant, &mut random),
                            _ => world.step(&tenant, &mut random),
                        };
                        match outcome {
                            Ok(()) => {}
                            // Frames may be in use for a while by seven others, or all that the tenant's cap
                            // lets it have.
                            Err(error) if error.kind() == ErrorKind::Exhausted => {
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => panic!("{error}"),
                        }
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                pool.checkpoint().unwrap();
            }
        });
        let outcomes: Vec<_> = workers.into_iter().map(ScopedJoinHandle::join).collect();
        done.store(true, Ordering::Relaxed);
        outcomes.into_iter().for_each(|outcome| outcome.unwrap());
    });
    pool.checkpoint().unwrap();
    pool.check_invariants();
    let stats = pool.stats();
    assert_eq!(stats.accesses, stats.hits + stats.misses);
    assert_eq!(stats.dirty_frames, 0);
    let refused = refused.into_inner();
    assert!(refused < THREADS * STEPS / 10, "{refused} of {} found no frame", THREADS * STEPS);
    world.close_and_compare(pool, directory.path());
}

#[test]
fn lists_futures_floors_and_caps_beside_checkpoints() {
    on_each_backend(|io| {
        stress_everything(small().io(io), 11);
        stress_everything(small().io(io).read_ahead(true), 12);
    });
}

fn stress(options: PoolOptions, seed: u64) {
    stress_over(Below::Nothing, options, seed);
}

fn stress_over(below: Below, options: PoolOptions, seed: u64) {
    let directory = directory();
    let pool = below.a_pool(options, directory.path()).open().unwrap();
    let world = World::new(&pool, directory.path());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (pool, world) = (&pool, &world);
            scope.spawn(move || {
                let tenant = pool.tenant(format!("thread {thread}")).open().unwrap();
                let mut random = Random(seed * 1000 + thread + 1);
                for _ in 0..STEPS {
                    match world.step(&tenant, &mut random) {
                        Ok(()) => {}
                        // All frames may be in use for a while by seven others.
                        Err(error) if error.kind() == ErrorKind::Exhausted => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
        }
    });
    pool.checkpoint().unwrap();
    pool.check_invariants();
    let stats = pool.stats();
    let of_sites: u64 = stats.contexts.iter().map(|site| site.accesses).sum();
    let of_tenants: u64 = stats.tenants.iter().map(|tenant| tenant.accesses).sum();
    assert_eq!(stats.accesses, stats.hits + stats.misses);
    assert_eq!((of_sites, of_tenants), (stats.accesses, stats.accesses));
    let tier_hits = stats.tier.as_ref().map_or(0, |tier| tier.hits);
    assert_eq!(stats.reads, stats.misses - stats.creations - tier_hits);
    println!("{}", pool.io());
    println!("{}", pool.report());
    world.close_and_compare(pool, directory.path());
}

#[test]
fn all_operations_mixed_on_each_backend() {
    on_each_backend(|io| stress(small().io(io), 1));
}

#[test]
fn with_a_minimum_of_frames() {
    let threads = Io::Require(IoBackend::Threads);
    for seed in 2..4 {
        stress(small().io(threads).frames(24).dirty_limit_percent(1), seed);
    }
}

#[test]
fn with_other_allocations() {
    for allocation in [Allocation::GlobalLru, Allocation::LruS, Allocation::AllocLru] {
        stress(small().allocation(allocation), 5);
    }
}

/// With tiers that answer wrongly as well as with those that do not.
#[test]
fn with_each_tier_below() {
    for below in Below::ALL {
        stress_over(below, small(), 9);
    }
    stress_everything_over(Below::Memory(TierPolicy::Demote), small(), 13);
    stress_everything_over(Below::File(TierPolicy::Demote), small().read_ahead(true), 14);
    stress_everything_over(Below::Memory(TierPolicy::Promote), small(), 15);
}

#[test]
fn in_deterministic_mode_too() {
    stress(small().deterministic(7), 7);
}

#[test]
fn temporary_files_come_and_go_beside_other_work() {
    temporary_files_come_and_go(small(), 30);
}

/// Each of four threads makes, uses and removes a file `rounds` times.
fn temporary_files_come_and_go(options: PoolOptions, rounds: u64) {
    let directory = directory();
    let pool = options.open().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4_u64 {
            let (pool, directory) = (&pool, directory.path());
            scope.spawn(move || {
                let tenant = pool.tenant(format!("sorter {thread}")).open().unwrap();
                for round in 0..rounds {
                    let path = directory.join(format!("run {thread} {round}"));
                    let file = pool.open_file(&path, FileOptions::new().create(true)).unwrap();
                    file.extend(20).unwrap();
                    for number in 0..20 {
                        stamp(&mut tenant.create(file.page(number)).unwrap(), number, round);
                    }
                    file.truncate(15).unwrap();
                    for number in 0..15 {
                        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), round);
                    }
                    file.discard(0..5).unwrap();
                    assert_eq!(file.extend(3).unwrap(), 15..18);
                    assert!(tenant.read(file.page(17)).unwrap().iter().all(|&byte| byte == 0));
                    file.remove().unwrap();
                    assert!(!path.exists());
                }
                tenant.close().unwrap();
            });
        }
    });
    pool.checkpoint().unwrap();
    pool.check_invariants();
    assert_eq!(pool.stats().dirty_frames, 0);
}

/// As long as `BUFPOOL_STRESS_SECONDS` says, and one round without it: all of the above with another seed
/// each time, on one backend after the other. A round always ends; the time only says whether another one
/// begins.
#[test]
fn as_long_as_is_asked_for() {
    let seconds = std::env::var("BUFPOOL_STRESS_SECONDS").map_or(0, |text| text.parse().unwrap());
    let begin = Instant::now();
    for seed in 100.. {
        let io = if seed % 2 == 0 { Io::Auto } else { Io::Require(IoBackend::Threads) };
        stress_everything(small().io(io).read_ahead(seed % 3 == 0), seed);
        temporary_files_come_and_go(small().io(io), 10);
        let elapsed = begin.elapsed();
        println!("seed {seed}: no violation; {} s", elapsed.as_secs());
        if elapsed.as_secs() >= seconds {
            return;
        }
        stress(small().io(io).frames(24).dirty_limit_percent(1), seed);
        stress_everything_over(Below::ALL[seed as usize % Below::ALL.len()], small().io(io), seed);
    }
}
