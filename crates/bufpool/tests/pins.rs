//! Goal: a page that is held stays, one that is released can leave, and the forms of access differ only in
//! how long they wait. Method: one or two threads, pages worked out by hand.

mod common;

use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bufpool::{ErrorKind, OwnedPin, OwnedReadGuard, OwnedWriteGuard, ReadGuard, WriteGuard, site};
use common::{deterministic, directory, new_file, small, stamp, version};

#[test]
fn held_pages_are_never_victims() {
    for options in [deterministic(), small()] {
        let directory = directory();
        let pool = options.manager(None).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 300);
        let tenant = pool.default_tenant();
        let guard = tenant.read(file.page(0)).unwrap();
        let pin = tenant.pin(file.page(1)).unwrap();
        let from_guard = guard.pin();
        let mut exclusive = tenant.write(file.page(2)).unwrap();
        exclusive[0] = 77;
        for number in 3..300 {
            drop(tenant.read(file.page(number)).unwrap());
        }
        let before = pool.stats().misses;
        assert_eq!(exclusive[0], 77);
        drop((guard, exclusive));
        drop(from_guard.read().unwrap());
        drop(pin.write().unwrap());
        assert_eq!(tenant.read(file.page(2)).unwrap()[0], 77);
        assert_eq!(pool.stats().misses, before, "all three stayed");
        drop((pin, from_guard));
        for number in 3..300 {
            drop(tenant.read(file.page(number)).unwrap());
        }
        let before = pool.stats().misses;
        (0..3).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        assert_eq!(pool.stats().misses, before + 3, "all three left");
        assert_eq!(tenant.read(file.page(2)).unwrap()[0], 77);
    }
}

/// A page word counts at most 123 shared latches, so 1,000 hits show that each guard releases its latch.
#[test]
fn a_hit_in_passing_is_a_hit_like_any_other() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 8);
    let tenant = pool.default_tenant();
    let site = site!("here");
    assert!(tenant.at(site).read_in_passing(file.page(1)).is_none(), "it is not in memory");
    let before = pool.stats().accesses;
    let mut in_passing = 0;
    for _ in 0..1000 {
        let passing = tenant.at(site).read_in_passing(file.page(1));
        in_passing += u64::from(passing.is_some());
        let guard = passing.is_none().then(|| tenant.at(site).read(file.page(1)).unwrap());
        let bytes = guard.as_deref().map_or_else(|| passing.as_ref().unwrap().0, NonNull::from);
        assert_eq!(bytes.len(), pool.page_bytes());
        assert!(!matches!(tenant.try_write(file.page(1)), Ok(Some(_))), "it is latched");
    }
    assert!(in_passing > 900, "{in_passing} in passing");
    assert_eq!(pool.stats().accesses, before + 1000);
    let writer = tenant.write(file.page(1)).unwrap();
    assert!(tenant.at(site).read_in_passing(file.page(1)).is_none());
    drop(writer);
    let other = small().open().unwrap();
    assert!(other.default_tenant().at(site).read_in_passing(file.page(1)).is_none());
    drop(tenant.at(site).read_in_passing(file.page(1)));
    pool.check_invariants();
}

#[test]
fn readers_beyond_what_a_page_word_counts_wait_for_others() {
    const READERS: usize = 150;
    let directory = directory();
    let pool = small().threads_max(READERS as u32).frames(4 * READERS as u32).latch_wait_ms(60_000);
    let pool = pool.open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let inside = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let tenant = pool.default_tenant();
                let guard = tenant.read(file.page(0)).unwrap();
                inside.fetch_add(1, Ordering::Relaxed);
                while inside.load(Ordering::Relaxed) < 123 {
                    std::thread::yield_now();
                }
                drop(guard);
            });
        }
    });
    assert_eq!(inside.into_inner(), READERS);
    drop(pool.default_tenant().write(file.page(0)).unwrap());

    let tenant = pool.default_tenant();
    let guards: Vec<ReadGuard> = (0..123).map(|_| tenant.read(file.page(0)).unwrap()).collect();
    let more = tenant.read_timeout(file.page(0), Duration::from_millis(10));
    let error = more.expect_err("all are this thread's own");
    assert!(matches!(error.kind(), ErrorKind::SelfDeadlock | ErrorKind::LatchTimeout), "{error}");
    drop(guards);
    drop(tenant.write(file.page(0)).unwrap());
}

#[test]
fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(0)).unwrap();
    stamp(&mut guard, 0, 5);
    let try_read = || tenant.try_read(file.page(0)).unwrap().map(|guard| version(&guard, 0));
    let try_write = || tenant.try_write(file.page(0)).unwrap().map(drop);
    std::thread::scope(|scope| {
        assert_eq!(scope.spawn(try_read).join().unwrap(), None);
        let guard = guard.downgrade();
        assert_eq!(scope.spawn(try_read).join().unwrap(), Some(5));
        assert!(scope.spawn(try_write).join().unwrap().is_none());
        assert_eq!(version(&guard, 0), 5);
        drop(guard);
        assert!(scope.spawn(try_write).join().unwrap().is_some());
    });
}

#[test]
fn a_waiting_access_gets_its_turn() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(0)).unwrap();
    std::thread::scope(|scope| {
        let readers: Vec<_> =
            (0..3).map(|_| scope.spawn(|| version(&tenant.read(file.page(0)).unwrap(), 0))).collect();
        let patient = scope.spawn(|| {
            let guard = tenant.write_timeout(file.page(0), Duration::from_secs(60)).unwrap();
            version(&guard.unwrap(), 0)
        });
        stamp(&mut guard, 0, 9);
        drop(guard);
        for thread in readers.into_iter().chain([patient]) {
            assert_eq!(thread.join().unwrap(), 9);
        }
    });
    assert_eq!(pool.stats().accesses, 5);
}

#[test]
fn try_forms_load_what_nobody_holds() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.default_tenant();
    assert!(tenant.try_read(file.page(0)).unwrap().is_some());
    assert!(tenant.try_write(file.page(1)).unwrap().is_some());
    let mut created = tenant.try_create(file.page(2)).unwrap().unwrap();
    created[0] = 1;
    drop(created);
    let mut again = tenant.create_timeout(file.page(2), Duration::ZERO).unwrap().unwrap();
    assert_eq!(again[0], 0, "created again, and zeroed again");
    again[0] = 2;
    drop(again);
    assert_eq!(tenant.read_timeout(file.page(2), Duration::ZERO).unwrap().unwrap()[0], 2);
    let stats = pool.stats();
    assert_eq!((stats.accesses, stats.misses, stats.creations, stats.reads), (5, 3, 1, 2));
}

#[test]
fn try_forms_of_owned_guards_and_pins_load_what_nobody_holds() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 5);
    let tenant = pool.default_tenant();
    let page = |number| file.page(number);
    let mut created = tenant.try_create_owned(page(0)).unwrap().unwrap();
    assert!(created.iter().all(|byte| *byte == 0));
    created[0] = 1;
    drop(created);
    let mut again = tenant.create_owned(page(0)).unwrap();
    assert_eq!(again[0], 0, "created again, and zeroed again");
    again[0] = 2;
    drop(again);
    assert_eq!(tenant.read_owned_timeout(page(0), Duration::ZERO).unwrap().unwrap()[0], 2);
    let created = tenant.create_owned_timeout(page(0), Duration::ZERO).unwrap();
    assert_eq!(created.unwrap()[0], 0);
    drop(tenant.try_read_owned(page(1)).unwrap().unwrap());
    drop(tenant.try_write_owned(page(2)).unwrap().unwrap());
    drop(tenant.write_owned_timeout(page(2), Duration::ZERO).unwrap().unwrap());
    let pins = (tenant.try_pin(page(3)).unwrap().unwrap(), tenant.try_pin_owned(page(4)).unwrap().unwrap());
    let stats = pool.stats();
    assert_eq!((stats.accesses, stats.misses, stats.creations, stats.reads), (9, 5, 1, 4));
    drop(pins.0.try_read().unwrap().unwrap());
    drop(pins.0.try_write().unwrap().unwrap());
    drop(pins.1.try_write(&tenant).unwrap().unwrap());
    drop(pins.1.try_read(&tenant).unwrap().unwrap());
    drop(tenant.pin_timeout(page(3), Duration::ZERO).unwrap().unwrap());
    drop(tenant.pin_owned_timeout(page(4), Duration::ZERO).unwrap().unwrap());
    let stats = pool.stats();
    assert_eq!((stats.accesses, stats.misses), (15, 5), "a pin's accesses are hits");
    pool.check_invariants();
}

/// The limits of the pool are so long that a form which took them would be noticed.
#[test]
fn forms_with_a_limit_of_their_own_end_without_an_error() {
    let directory = directory();
    let pool = small().latch_wait_ms(600_000).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let tenant = pool.default_tenant();
    let pin = tenant.pin(file.page(0)).unwrap();
    let owned_pin = tenant.pin_owned(file.page(0)).unwrap();
    let writer = tenant.write_owned(file.page(0)).unwrap();
    let (page, limit) = (file.page(0), Duration::from_millis(2));
    assert!(tenant.try_read_owned(page).unwrap().is_none());
    assert!(tenant.try_write_owned(page).unwrap().is_none());
    assert!(tenant.try_create_owned(page).unwrap().is_none());
    assert!(tenant.read_owned_timeout(page, limit).unwrap().is_none());
    assert!(tenant.write_owned_timeout(page, limit).unwrap().is_none());
    assert!(tenant.create_owned_timeout(page, limit).unwrap().is_none());
    assert!(tenant.try_pin(page).unwrap().is_none());
    assert!(tenant.pin_timeout(page, limit).unwrap().is_none());
    assert!(tenant.try_pin_owned(page).unwrap().is_none());
    assert!(tenant.pin_owned_timeout(page, limit).unwrap().is_none());
    assert!(pin.try_read().unwrap().is_none());
    assert!(pin.try_write().unwrap().is_none());
    assert!(pin.read_timeout(limit).unwrap().is_none());
    assert!(pin.write_timeout(limit).unwrap().is_none());
    assert!(owned_pin.try_read(&tenant).unwrap().is_none());
    assert!(owned_pin.try_write(&tenant).unwrap().is_none());
    assert!(owned_pin.read_timeout(&tenant, limit).unwrap().is_none());
    assert!(owned_pin.write_timeout(&tenant, limit).unwrap().is_none());
    assert_eq!(pool.stats().accesses, 3, "what was not granted is no access");
    drop(writer);
    drop(tenant.try_write_owned(page).unwrap().unwrap());
    pool.check_invariants();
}

#[test]
fn two_threads_that_miss_the_same_page_read_it_once() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let tenant = pool.default_tenant();
    for number in 0..64 {
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    start.wait();
                    drop(tenant.read(file.page(number)).unwrap());
                });
            }
        });
    }
    let stats = pool.stats();
    assert_eq!((stats.accesses, stats.misses, stats.reads), (256, 64, 64));
    assert!(stats.waited <= stats.hits, "{stats:?}");
}

/// Guards keep file and tenant borrowed, and tenant and file may come from different places.
#[test]
fn guards_can_be_returned_from_functions() {
    fn read<'g>(tenant: &'g bufpool::Tenant, file: &'g bufpool::File) -> bufpool::Result<ReadGuard<'g>> {
        tenant.at(bufpool::site!("helper")).read(file.page(0))
    }
    fn write<'g>(tenant: &'g bufpool::Tenant, file: &'g bufpool::File) -> bufpool::Result<WriteGuard<'g>> {
        tenant.write(file.page(0))
    }
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let tenant = pool.default_tenant();
    write(&tenant, &file).unwrap()[3] = 4;
    assert_eq!(read(&tenant, &file).unwrap()[3], 4);
}

/// Owned guards and pins are used and released by other threads than their own, when all other handles of the
/// pool are gone.
#[test]
fn owned_guards_and_pins_keep_what_they_need_wherever_they_go() {
    fn goes_anywhere<T: Send + Sync + 'static>(value: T) -> T {
        value
    }
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 3);
    let tenant = pool.default_tenant();
    let read: OwnedReadGuard = goes_anywhere(tenant.read_owned(file.page(0)).unwrap());
    let write: OwnedWriteGuard = goes_anywhere(tenant.write_owned(file.page(1)).unwrap());
    let pin: OwnedPin = goes_anywhere(tenant.pin_owned(file.page(2)).unwrap());
    assert!(tenant.try_write(file.page(0)).unwrap().is_none());
    assert!(tenant.try_read(file.page(1)).unwrap().is_none());
    assert!(tenant.try_write(file.page(2)).unwrap().is_some());
    let path = directory.path().join("data");
    drop((tenant, file, pool));
    let writer = std::thread::spawn(move || {
        let (read, mut write) = (read, write);
        stamp(&mut write, 1, 7);
        assert_eq!(read.page().number(), 0);
        (read.pin(), write.pin())
    });
    let pins = writer.join().unwrap();
    let tenant_of = |pin: &OwnedPin| pin.page().file().clone();
    assert_eq!(tenant_of(&pins.1).pages(), 3);
    drop(pins);
    std::thread::spawn(move || drop(pin)).join().unwrap();
    // Everything is written and closed now.
    let pool = small().open().unwrap();
    let file = pool.open_file(path, bufpool::FileOptions::new()).unwrap();
    assert_eq!(version(&pool.default_tenant().read(file.page(1)).unwrap(), 1), 7);
}

/// With pages that have to be read first, and with pages that are named through the guard of another page.
#[test]
fn owned_guards_and_pins_keep_pages_and_latches_like_borrowed_ones() {
    for options in [deterministic(), small()] {
        let directory = directory();
        let pool = options.manager(None).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 300);
        let tenant = pool.default_tenant();
        let mut written = tenant.write_owned(file.page(0)).unwrap();
        stamp(&mut written, 0, 5);
        let read = tenant.read_owned(written.page().file().page(1)).unwrap();
        let pin = tenant.pin_owned(read.page().file().page(2)).unwrap();
        for number in 3..300 {
            drop(tenant.read_owned(file.page(number)).unwrap());
        }
        let before = pool.stats();
        assert_eq!((before.accesses, before.misses), (300, 300));
        assert_eq!(version(&written, 0), 5);
        let mut through_pin = pin.write(&tenant).unwrap();
        stamp(&mut through_pin, 2, 6);
        drop(through_pin);
        // SAFETY: the pin is there, and no write guard of the page.
        assert_eq!(version(unsafe { pin.as_ptr().as_ref() }, 2), 6);
        assert_eq!(version(&pin.read(&tenant).unwrap(), 2), 6);
        drop((written, read));
        assert_eq!(pool.stats().misses, before.misses, "all three stayed");
        let error = file.clone().close().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PageBusy, "{error}");
        drop(pin);
        for number in 3..300 {
            drop(tenant.read(file.page(number)).unwrap());
        }
        let before = pool.stats().misses;
        drop((0..3).map(|number| tenant.read_owned(file.page(number)).unwrap()).collect::<Vec<_>>());
        assert_eq!(pool.stats().misses, before + 3, "all three left");
        pool.close().unwrap();
        assert_eq!(tenant.read_owned(file.page(0)).unwrap_err().kind(), ErrorKind::PoolClosed);
    }
}

#[test]
fn a_pin_of_another_pool_is_refused() {
    let directory = directory();
    let pools = [small().open().unwrap(), small().open().unwrap()];
    let file = new_file(&pools[0], directory.path(), "data", 1);
    let pin = pools[0].default_tenant().pin_owned(file.page(0)).unwrap();
    let other = pools[1].default_tenant();
    assert_eq!(pin.read(&other).unwrap_err().kind(), ErrorKind::WrongPool);
    assert_eq!(pin.write(&other).unwrap_err().kind(), ErrorKind::WrongPool);
}
