//! Goal: bad input gets an error of the right kind that names what was wrong, and changes nothing.
//! Method: one case each; after it, the pool still works.

mod common;

use std::fs;
use std::os::fd::OwnedFd;

use bufpool::sim::SimDevice;
use bufpool::{Direct, Error, ErrorKind, File, FileOptions, Policy, PoolOptions};
use common::{
    PAGE_BYTES, block_on, deterministic, directory, kind, new_file, on_each_backend, open_on, small, stamp,
    stamped_device, version,
};

#[test]
fn page_sizes_are_powers_of_two_in_range() {
    for bytes in [0, 1, 256, 4095, 5000, 12_288, 1 << 21] {
        assert_eq!(kind(small().page_bytes(bytes).open()), ErrorKind::PageSize, "{bytes}");
    }
    for bytes in [512, 4096, 65_536] {
        small().page_bytes(bytes).open().unwrap().close().unwrap();
    }
}

#[test]
fn memory_is_enough_for_the_threads_and_not_beyond_all_bounds() {
    assert_eq!(kind(small().frames(23).open()), ErrorKind::Memory);
    small().frames(24).open().unwrap();
    assert_eq!(kind(small().memory_bytes(0).open()), ErrorKind::Memory);
    assert_eq!(kind(small().memory_bytes(20 * PAGE_BYTES as u64).open()), ErrorKind::Memory);
    assert_eq!(kind(small().frames(u32::MAX).open()), ErrorKind::Memory);
    assert_eq!(kind(small().memory_bytes(u64::MAX).open()), ErrorKind::Memory);
    assert_eq!(kind(small().threads_max(u32::MAX).open()), ErrorKind::Memory);
}

#[test]
fn options_out_of_range_are_refused() {
    struct Deaf;
    impl bufpool::engine::Recorder for Deaf {
        fn record(&mut self, _: bufpool::engine::Event<'_>) {}
    }
    let refused = [
        (small().threads_max(0), "threads_max is 0, expected at least 1"),
        (small().program_fuel(0), "program_fuel is 0, expected at least 1 step"),
        (small().dirty_limit_percent(0), "dirty_limit_percent is 0, expected from 1 to 100"),
        (small().dirty_limit_percent(101), "dirty_limit_percent is 101, expected from 1 to 100"),
        (small().prefetch_limit_percent(51), "prefetch_limit_percent is 51, expected from 0 to 50"),
        (small().hint_limit_percent(91), "hint_limit_percent is 91, expected from 0 to 90"),
        (small().io_depth(4_097), "io_depth is 4097, expected from 1 to 4096"),
        (small().saturation_depth(0), "saturation_depth is 0, expected from 1 to 4096"),
        (small().reserve_high_frames(0), "reserve_high_frames is 0, expected from 1 to 1048576"),
        (
            small().reserve_high_frames(u32::MAX),
            "reserve_high_frames is 4294967295, expected from 1 to 1048576",
        ),
    ];
    for (options, message) in refused {
        let error = options.open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidOptions);
        assert!(error.to_string().contains(message), "{error}");
    }
    assert_eq!(kind(small().reserve_high_frames(8).reserve_low_frames(8).open()), ErrorKind::InvalidOptions);
    assert_eq!(kind(deterministic().reserve_high_frames(8).open()), ErrorKind::InvalidOptions);
    assert_eq!(kind(deterministic().reserve_low_frames(1).open()), ErrorKind::InvalidOptions);
    let pool = small().reserve_high_frames(9).reserve_low_frames(8).frame_wait_ms(u64::MAX).open().unwrap();
    assert_eq!(pool.stats().reserve_frames, 9);
    assert_eq!(kind(small().recorder(Box::new(Deaf)).open()), ErrorKind::InvalidOptions);
}

#[test]
fn a_file_of_odd_length_is_refused() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("odd");
        fs::write(&path, vec![1; PAGE_BYTES + 100]).unwrap();
        let pool = small().io(io).open().unwrap();
        let error = pool.open_file(&path, FileOptions::new()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileLength);
        assert!(error.to_string().contains("odd"), "{error}");
        fs::write(&path, vec![1; PAGE_BYTES]).unwrap();
        assert_eq!(pool.open_file(&path, FileOptions::new()).unwrap().pages(), 1);
    });
}

#[test]
fn files_that_are_not_there_or_not_files_are_refused() {
    let directory = directory();
    let pool = small().open().unwrap();
    let error = pool.open_file(directory.path().join("none"), FileOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.io_kind()), (ErrorKind::NotFound, std::io::ErrorKind::NotFound));
    assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::NotFound);
    assert!(matches!(
        kind(pool.open_file(directory.path(), FileOptions::new())),
        ErrorKind::Io | ErrorKind::Unsupported
    ));
    let none = FileOptions::new().create(true).read_only(true);
    assert_eq!(kind(pool.open_file(directory.path().join("none"), none)), ErrorKind::NotFound);
    assert!(!directory.path().join("none").exists());
}

#[test]
fn a_file_that_must_be_new_is_made_once() {
    let directory = directory();
    let path = directory.path().join("data");
    let new = FileOptions::new().create_new(true);
    let pool = small().open().unwrap();
    let makers: Vec<_> = std::thread::scope(|scope| {
        let makers = [(); 4].map(|()| scope.spawn(|| pool.open_file(&path, new)));
        makers.into_iter().map(|maker| maker.join().unwrap()).collect()
    });
    let (made, refused): (Vec<_>, Vec<_>) = makers.into_iter().partition(Result::is_ok);
    assert_eq!((made.len(), refused.len()), (1, 3));
    for error in refused.into_iter().map(Result::unwrap_err) {
        assert_eq!(
            (error.kind(), error.io_kind()),
            (ErrorKind::AlreadyExists, std::io::ErrorKind::AlreadyExists)
        );
        assert_eq!(error.file(), Some(path.to_str().unwrap()));
        assert!(error.to_string().contains("create_new"), "{error}");
    }
    let file = made.into_iter().next().unwrap().unwrap();
    file.extend(2).unwrap();
    // With handles, without, closed, and for the other call.
    assert_eq!(kind(pool.open_or_share(&path, new)), ErrorKind::AlreadyExists);
    drop(file);
    assert_eq!(kind(pool.open_file(&path, new)), ErrorKind::AlreadyExists);
    let file = pool.open_file(&path, FileOptions::new()).unwrap();
    assert_eq!(file.pages(), 2, "a try to make it anew has changed nothing");
    file.close().unwrap();
    assert_eq!(kind(pool.open_file(&path, new.create(true))), ErrorKind::AlreadyExists);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert_eq!(kind(pool.open_file(&link, new)), ErrorKind::AlreadyExists);
    assert_eq!(kind(pool.open_file(directory.path(), new)), ErrorKind::AlreadyExists);
    pool.open_file(&path, FileOptions::new()).unwrap().remove().unwrap();
    assert_eq!(pool.open_or_share(&path, new).unwrap().pages(), 0);
}

/// Otherwise the next try would find a file, though none was ever opened.
#[test]
fn a_file_that_could_not_be_opened_is_not_left_behind() {
    struct Changes;
    impl bufpool::engine::PageHooks for Changes {
        fn on_read(&self, _: bufpool::engine::PageName, _: &mut [u8]) -> Result<(), String> {
            Ok(())
        }
        fn before_write(&self, _: bufpool::engine::PageName, _: &mut [u8]) {}
    }
    let directory = directory();
    let path = directory.path().join("data");
    let new = FileOptions::new().create_new(true);
    let pool = small().hooks(Box::new(Changes)).open().unwrap();
    assert_eq!(kind(pool.open_file(&path, new.read_only(true))), ErrorKind::InvalidOptions);
    assert_eq!(kind(pool.open_file(&path, new.bytes(true))), ErrorKind::Unsupported);
    let device = SimDevice::new(1);
    let simulated = small().hooks(Box::new(Changes)).open_on(&device).unwrap();
    assert_eq!(kind(simulated.open_file("data", new.bytes(true))), ErrorKind::Unsupported);
    assert!(!path.exists() && device.contents("data").is_none());
    pool.open_file(&path, new).unwrap();
    simulated.open_file("data", new).unwrap();
}

#[test]
fn pages_smaller_than_direct_io_allows_are_refused() {
    let directory = directory();
    let path = directory.path().join("data");
    fs::write(&path, vec![0; 512 * 8]).unwrap();
    let pool = small().page_bytes(512).open().unwrap();
    match pool.open_file(&path, FileOptions::new().direct(Direct::Require)) {
        // A device with sectors of 512 bytes, or no direct I/O at all.
        Ok(file) => assert_eq!(file.pages(), 8),
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::Alignment | ErrorKind::IoUnavailable), "{error}");
        }
    }
    let file = pool.open_file(&path, FileOptions::new().direct(Direct::Off));
    assert!(file.is_ok() || kind(file) == ErrorKind::FileAlreadyOpen);
    // If direct I/O is not required, the file is opened without it.
    let other = directory.path().join("other");
    fs::write(&other, vec![0; 512 * 8]).unwrap();
    assert_eq!(pool.open_file(&other, FileOptions::new()).unwrap().pages(), 8);
}

#[test]
fn pages_and_ranges_beyond_the_end_are_refused() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 3);
    let tenant = pool.default_tenant();
    for number in [3, 4, 1 << 40, u64::MAX] {
        let error = tenant.read(file.page(number)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PageBeyondEnd);
        assert_eq!(error.page(), Some(number));
        assert!(error.file().unwrap().ends_with("data"));
        assert_eq!(kind(tenant.write(file.page(number))), ErrorKind::PageBeyondEnd);
        assert_eq!(kind(tenant.create(file.page(number))), ErrorKind::PageBeyondEnd);
        assert_eq!(kind(tenant.pin(file.page(number))), ErrorKind::PageBeyondEnd);
        assert_eq!(kind(file.flush_page(number)), ErrorKind::PageBeyondEnd);
    }
    assert_eq!(kind(file.truncate(4)), ErrorKind::Range);
    assert_eq!(kind(file.discard(2..4)), ErrorKind::Range);
    #[allow(clippy::reversed_empty_ranges)]
    let inverted = 2..1;
    assert_eq!(kind(file.discard(inverted.clone())), ErrorKind::Range);
    assert_eq!(kind(tenant.set_temporary_priority(&file, inverted, -1)), ErrorKind::Range);
    assert_eq!(kind(tenant.set_temporary_priority(&file, 0..4, -1)), ErrorKind::Range);
    assert_eq!(kind(file.extend(u64::MAX)), ErrorKind::FileLength);
    assert_eq!(kind(file.extend(1 << 40)), ErrorKind::FileLength);
    assert_eq!(file.pages(), 3);
    assert_eq!(pool.stats().accesses, 0);
}

#[test]
fn directives_out_of_range_or_beyond_their_limit_are_refused() {
    let directory = directory();
    let pool = small().open().unwrap();
    let tenant = pool.tenant("t").open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 3);
    for priority in [-33, 32, i32::MIN, i32::MAX] {
        assert_eq!(kind(tenant.set_policy(priority, Policy::Mru)), ErrorKind::Directive);
        assert_eq!(kind(tenant.policy(priority)), ErrorKind::Directive);
        assert_eq!(kind(tenant.set_priority(&file, priority)), ErrorKind::Directive);
        assert_eq!(kind(tenant.set_temporary_priority(&file, 0..3, priority)), ErrorKind::Directive);
        assert_eq!(kind(tenant.set_temporary_priority(&file, 1..1, priority)), ErrorKind::Directive);
    }
    tenant.set_policy(31, Policy::Mru).unwrap();
    assert_eq!(tenant.policy(31).unwrap(), Policy::Mru);
    assert_eq!(tenant.policy(30).unwrap(), Policy::Lru);
    assert_eq!(tenant.priority(&file).unwrap(), 0);
}

#[test]
fn ranges_with_a_priority_are_limited() {
    let pool = small().open_on(&SimDevice::new(1)).unwrap();
    let tenant = pool.tenant("t").open().unwrap();
    let (mut refused, mut files) = (None, Vec::new());
    for number in 0..5000 {
        let file = pool.open_file(number.to_string(), FileOptions::new().create(true));
        let file = file.unwrap();
        match tenant.set_priority(&file, 1) {
            Ok(_) => files.push(file),
            Err(error) => {
                refused = Some((number, error.kind()));
                assert_eq!(tenant.priority(&file).unwrap(), 0);
                break;
            }
        }
    }
    assert_eq!(refused, Some((4096, ErrorKind::DirectiveLimit)));
}

#[test]
fn floors_leave_room_for_everybody() {
    let pool = small().open().unwrap();
    // 32 frames, 8 threads: 8 frames may be promised.
    let first = pool.tenant("first").floor_frames(6).open().unwrap();
    assert_eq!(kind(pool.tenant("second").floor_frames(3).open()), ErrorKind::Floor);
    let second = pool.tenant("second").floor_frames(2).open().unwrap();
    assert_eq!(kind(first.set_floor_frames(7)), ErrorKind::Floor);
    assert_eq!(kind(pool.tenant("third").floor_frames(u32::MAX).open()), ErrorKind::Floor);
    assert_eq!(kind(pool.tenant("third").cap_frames(0).open()), ErrorKind::Floor);
    assert_eq!(kind(first.set_cap_frames(5)), ErrorKind::Floor);
    second.close().unwrap();
    first.set_floor_frames(8).unwrap();
}

#[test]
fn the_same_file_is_open_once() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 1);
        let path = directory.path().join("data");
        assert_eq!(kind(pool.open_file(&path, FileOptions::new())), ErrorKind::FileAlreadyOpen);
        assert_eq!(
            kind(pool.open_file(&path, FileOptions::new().read_only(true))),
            ErrorKind::FileAlreadyOpen
        );
        fs::hard_link(&path, directory.path().join("link")).unwrap();
        assert_eq!(
            kind(pool.open_file(directory.path().join("link"), FileOptions::new())),
            ErrorKind::FileAlreadyOpen
        );
        let other = small().io(io).open().unwrap();
        assert_eq!(kind(other.open_file(&path, FileOptions::new())), ErrorKind::FileLocked);
        assert_eq!(kind(other.open_file(&path, FileOptions::new().read_only(true))), ErrorKind::FileLocked);
        file.close().unwrap();
        let reader = other.open_file(&path, FileOptions::new().read_only(true)).unwrap();
        assert_eq!(kind(pool.open_file(&path, FileOptions::new())), ErrorKind::FileLocked);
        let second = pool.open_file(&path, FileOptions::new().read_only(true)).unwrap();
        assert_eq!((reader.pages(), second.pages()), (1, 1));
    });
}

#[test]
fn a_descriptor_can_be_handed_over_but_not_removed() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        let open = fs::File::options().read(true).write(true).create_new(true).open(&path).unwrap();
        let pool = small().io(io).open().unwrap();
        let file = pool.open_fd(OwnedFd::from(open), FileOptions::new()).unwrap();
        file.extend(2).unwrap();
        let tenant = pool.default_tenant();
        stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 9);
        assert_eq!(kind(file.clone().remove()), ErrorKind::Unsupported);
        assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), 9);
        file.close().unwrap();
        assert_eq!(version(&fs::read(&path).unwrap()[PAGE_BYTES..], 1), 9);
    });
}

#[test]
fn a_read_only_file_takes_no_changes() {
    on_each_backend(|io| {
        let directory = directory();
        let path = directory.path().join("data");
        fs::write(&path, vec![7; 2 * PAGE_BYTES]).unwrap();
        let pool = small().io(io).open().unwrap();
        let file = pool.open_file(&path, FileOptions::new().read_only(true)).unwrap();
        let tenant = pool.default_tenant();
        assert!(tenant.read(file.page(1)).unwrap().iter().all(|&byte| byte == 7));
        assert_eq!(kind(tenant.write(file.page(1))), ErrorKind::ReadOnly);
        assert_eq!(kind(tenant.create(file.page(1))), ErrorKind::ReadOnly);
        assert_eq!(kind(file.extend(1)), ErrorKind::ReadOnly);
        assert_eq!(kind(file.truncate(1)), ErrorKind::ReadOnly);
        assert_eq!(kind(file.clone().remove()), ErrorKind::ReadOnly);
        file.flush().unwrap();
        pool.close().unwrap();
        assert_eq!(fs::read(&path).unwrap(), vec![7; 2 * PAGE_BYTES]);
    });
}

#[test]
fn a_thread_that_holds_every_frame_is_told_at_once() {
    let directory = directory();
    // Long enough that a test that waited for it would be noticed.
    let pool = small().frame_wait_ms(600_000).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 40);
    let tenant = pool.tenant("hoarder").open().unwrap();
    let guards: Vec<_> = (0..16).map(|number| tenant.read(file.page(number)).unwrap()).collect();
    let pins: Vec<_> = (16..32).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
    let error = tenant.read(file.page(32)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(error.to_string().contains("32 guards and pins on pages of tenant hoarder"), "{error}");
    // The thread itself holds all frames, so waiting is of no use, and a limit of the call changes nothing.
    assert_eq!(kind(tenant.try_read(file.page(32))), ErrorKind::Exhausted);
    let limit = std::time::Duration::from_secs(600);
    assert_eq!(kind(tenant.write_timeout(file.page(32), limit)), ErrorKind::Exhausted);
    drop(pins);
    tenant.read(file.page(32)).unwrap();
    drop(guards);
}

/// There are more pools than a thread has slots for, so that the holds in some of them are counted in another
/// way.
#[test]
fn a_thread_that_holds_pages_of_other_pools_waits_all_the_same() {
    const POOLS: usize = 40;
    let directory = directory();
    let pools: Vec<_> = (0..POOLS)
        .map(|at| {
            let pool = small().frame_wait_ms(10).open().unwrap();
            let file = new_file(&pool, directory.path(), &format!("data {at}"), 40);
            let tenant = pool.default_tenant();
            (tenant, file)
        })
        .collect();
    // Each of two threads pins half of the frames of each pool. So each has more pins than a pool has frames.
    let hold = |first: u64, pages: u64| {
        let pages = (first..first + pages).flat_map(|number| pools.iter().map(move |pool| (pool, number)));
        pages.map(|((tenant, file), number)| tenant.pin(file.page(number)).unwrap()).collect::<Vec<_>>()
    };
    while_another_thread_holds(
        || hold(0, 16),
        || {
            let _pins = hold(16, 16);
            for (tenant, file) in &pools {
                let error = tenant.read(file.page(32)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Exhausted);
                assert!(error.to_string().contains("none came free within frame_wait_ms"), "{error}");
            }
        },
    );
    for (tenant, file) in &pools {
        let _pins: Vec<_> = (0..32).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
        let error = tenant.read(file.page(32)).unwrap_err();
        assert!(error.to_string().contains("the calling thread holds them all itself"), "{error}");
    }
}

/// Guards of a pool that were forgotten are not counted as holds in a pool that is opened later.
#[test]
fn forgotten_guards_count_for_no_other_pool() {
    let directory = directory();
    for round in 0..40 {
        let pool = small().frame_wait_ms(1).open().unwrap();
        let file = new_file(&pool, directory.path(), &format!("data {round}"), 40);
        let tenant = pool.default_tenant();
        std::mem::forget(tenant.read(file.page(0)).unwrap());
        std::mem::forget(tenant.pin(file.page(1)).unwrap());
        while_another_thread_holds(
            || tenant.pin(file.page(2)).unwrap(),
            || {
                let _pins: Vec<_> = (3..32).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
                let error = tenant.read(file.page(32)).unwrap_err();
                assert!(error.to_string().contains("none came free within frame_wait_ms"), "{error}");
            },
        );
    }
}

/// Runs `test` while another thread holds what `hold` returns.
fn while_another_thread_holds<T>(hold: impl FnOnce() -> T + Send, test: impl FnOnce()) {
    let (held, is_held) = std::sync::mpsc::channel();
    let (release, is_released) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let _holds = hold();
            held.send(()).unwrap();
            let _ = is_released.recv();
        });
        let _release = release;
        is_held.recv().unwrap();
        test();
    });
}

#[test]
fn a_miss_waits_for_frames_of_other_threads_and_then_gives_up() {
    let directory = directory();
    let pool = small().frame_wait_ms(50).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 40);
    let tenant = pool.default_tenant();
    let (held, release) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let pins: Vec<_> = (0..32).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
            held.wait();
            release.wait();
            drop(pins);
        });
        held.wait();
        assert_eq!(kind(tenant.read(file.page(32))), ErrorKind::Exhausted);
        // Forms with a limit of their own end without an error.
        assert!(tenant.try_read(file.page(32)).unwrap().is_none());
        assert!(tenant.try_create(file.page(32)).unwrap().is_none());
        let limit = std::time::Duration::from_millis(2);
        assert!(tenant.write_timeout(file.page(32), limit).unwrap().is_none());
        assert!(tenant.try_read_owned(file.page(32)).unwrap().is_none());
        assert!(tenant.create_owned_timeout(file.page(32), limit).unwrap().is_none());
        assert!(tenant.try_pin(file.page(32)).unwrap().is_none());
        assert!(tenant.pin_owned_timeout(file.page(32), limit).unwrap().is_none());
        release.wait();
    });
    tenant.read(file.page(32)).unwrap();
    assert_eq!(pool.stats().misses, 33);
}

#[test]
fn a_latch_wait_ends_and_names_the_page() {
    let directory = directory();
    let pool = small().latch_wait_ms(30).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.default_tenant();
    let guard = tenant.write(file.page(2)).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let error = tenant.read(file.page(2)).unwrap_err();
            assert_eq!((error.kind(), error.page()), (ErrorKind::LatchTimeout, Some(2)));
            let bytes = vec![0; common::PAGE_BYTES];
            let page = file.page(2);
            let busy = [
                ("read page", tenant.read(page).map(drop)),
                ("write page", tenant.write(page).map(drop)),
                ("create page", tenant.create(page).map(drop)),
                ("overwrite page", tenant.overwrite(page, &bytes)),
                ("create page", tenant.create_owned(page).map(drop)),
                ("read page", tenant.pin(page).map(drop)),
            ];
            for (operation, refused) in busy {
                assert_eq!(refused.unwrap_err().operation(), operation);
            }
            assert_eq!(kind(file.flush_page(2)), ErrorKind::LatchTimeout);
            assert_eq!(kind(file.truncate(0)), ErrorKind::LatchTimeout);
            assert!(tenant.try_write(file.page(2)).unwrap().is_none());
            assert!(
                tenant.read_timeout(file.page(2), std::time::Duration::from_millis(1)).unwrap().is_none()
            );
        });
    });
    assert_eq!(file.pages(), 4);
    drop(guard);
    tenant.read(file.page(2)).unwrap();
}

/// In all builds: what does not wait does not wait for itself.
#[test]
fn a_thread_that_tries_what_it_holds_itself_is_told_that_it_is_busy() {
    let directory = directory();
    let pool = small().latch_wait_ms(600_000).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let tenant = pool.default_tenant();
    let (page, pin) = (file.page(0), tenant.pin(file.page(0)).unwrap());
    let owned_pin = tenant.pin_owned(page).unwrap();
    let reader = tenant.read(page).unwrap();
    assert!(tenant.try_write(page).unwrap().is_none());
    assert!(tenant.try_create(page).unwrap().is_none());
    assert!(tenant.try_write_owned(page).unwrap().is_none());
    assert!(pin.try_write().unwrap().is_none());
    assert!(owned_pin.try_write(&tenant).unwrap().is_none());
    drop(reader);
    let writer = tenant.write(page).unwrap();
    assert!(tenant.try_read(page).unwrap().is_none());
    assert!(tenant.try_read_owned(page).unwrap().is_none());
    assert!(tenant.try_pin(page).unwrap().is_none());
    assert!(pin.try_read().unwrap().is_none());
    drop(writer);
    assert!(tenant.try_write(page).unwrap().is_some());
}

#[cfg(debug_assertions)]
#[test]
fn a_thread_that_would_wait_for_itself_is_told_at_once() {
    let directory = directory();
    let pool = small().latch_wait_ms(600_000).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 2);
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(0)).unwrap();
    guard[0] = 1;
    assert_eq!(kind(tenant.read(file.page(0))), ErrorKind::SelfDeadlock);
    assert_eq!(kind(tenant.write(file.page(0))), ErrorKind::SelfDeadlock);
    assert_eq!(kind(file.flush()), ErrorKind::SelfDeadlock);
    assert_eq!(kind(file.discard(0..2)), ErrorKind::SelfDeadlock);
    assert_eq!(kind(pool.clone().close()), ErrorKind::SelfDeadlock);
    drop(guard);
    let shared = tenant.read(file.page(0)).unwrap();
    assert_eq!(kind(tenant.write(file.page(0))), ErrorKind::SelfDeadlock);
    // An owned guard belongs to no thread, so it does not change that.
    drop(tenant.read_owned(file.page(0)).unwrap());
    drop(common::block_on(tenant.read_async(file.page(0))).unwrap());
    assert_eq!(kind(tenant.write(file.page(0))), ErrorKind::SelfDeadlock);
    drop(shared);
    pool.close().unwrap();
}

#[test]
fn pinned_pages_cannot_be_dropped() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.default_tenant();
    stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 5);
    let pin = tenant.pin(file.page(2)).unwrap();
    assert_eq!(kind(file.truncate(1)), ErrorKind::PageBusy);
    assert_eq!(kind(file.discard(0..4)), ErrorKind::PageBusy);
    assert_eq!(kind(file.clone().remove()), ErrorKind::PageBusy);
    assert_eq!(kind(file.clone().close()), ErrorKind::PageBusy);
    assert_eq!(file.pages(), 4);
    assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), 5);
    drop(pin);
    file.truncate(1).unwrap();
    assert_eq!(file.pages(), 1);
}

#[test]
fn what_was_closed_stays_closed() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.tenant("t").open().unwrap();
    tenant.clone().close().unwrap();
    assert_eq!(kind(tenant.read(file.page(0))), ErrorKind::TenantClosed);
    assert_eq!(kind(tenant.set_policy(0, Policy::Mru)), ErrorKind::TenantClosed);
    assert_eq!(kind(tenant.close()), ErrorKind::TenantClosed);
    let default = pool.default_tenant();
    assert_eq!(kind(default.clone().close()), ErrorKind::Unsupported);
    file.clone().close().unwrap();
    assert_eq!(kind(default.read(file.page(0))), ErrorKind::FileClosed);
    assert_eq!(kind(file.extend(1)), ErrorKind::FileClosed);
    assert_eq!(kind(file.flush()), ErrorKind::FileClosed);
    let second = new_file(&pool, directory.path(), "second", 1);
    pool.clone().close().unwrap();
    assert_eq!(kind(default.read(second.page(0))), ErrorKind::PoolClosed);
    assert_eq!(kind(pool.tenant("late").open()), ErrorKind::PoolClosed);
    assert_eq!(
        kind(pool.open_file(directory.path().join("data"), FileOptions::new())),
        ErrorKind::PoolClosed
    );
    assert_eq!(kind(pool.checkpoint()), ErrorKind::PoolClosed);
    assert_eq!(kind(pool.close()), ErrorKind::PoolClosed);
}

#[test]
fn tenants_and_files_of_two_pools_do_not_mix() {
    let directory = directory();
    let (one, two) = (small().open().unwrap(), deterministic().open().unwrap());
    let file = new_file(&one, directory.path(), "data", 1);
    assert_eq!(kind(two.default_tenant().read(file.page(0))), ErrorKind::WrongPool);
    assert_eq!(kind(two.default_tenant().set_priority(&file, 1)), ErrorKind::WrongPool);
}

#[test]
fn page_tables_have_a_limit() {
    let directory = directory();
    let pool = small().page_tables_bytes_max(4096).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1000);
    let tenant = pool.default_tenant();
    tenant.read(file.page(0)).unwrap();
    assert_eq!(kind(tenant.read(file.page(999))), ErrorKind::FileLength);
    assert_eq!(pool.stats().page_tables_bytes, 4096);
    let other = file.clone();
    file.close().unwrap();
    assert_eq!(pool.stats().page_tables_bytes, 0);
    // A closed file gets no page table, because it would not be freed.
    assert_eq!(tenant.prefetch([other.page(999)]), 0);
    assert_eq!(kind(tenant.read(other.page(999))), ErrorKind::FileClosed);
    assert_eq!(pool.stats().page_tables_bytes, 0);
}

#[test]
fn a_required_backend_that_cannot_be_had_is_an_error() {
    match PoolOptions::new().io(bufpool::Io::Require(bufpool::IoBackend::Uring)).open() {
        Ok(pool) => assert_eq!(pool.io().backend, "uring"),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::IoUnavailable);
            assert!(error.to_string().contains("io_uring"), "{error}");
        }
    }
}

/// An engine that passes errors on as those of the standard library can still tell them apart.
#[test]
fn errors_keep_their_kind_as_errors_of_the_standard_library() {
    let device = common::stamped_device(4);
    let (pool, file) = common::open_on(small(), &device);
    let tenant = pool.default_tenant();
    let io_kind = |error: bufpool::Error| std::io::Error::from(error).kind();
    let beyond = tenant.read(file.page(4)).unwrap_err();
    assert_eq!(io_kind(beyond), std::io::ErrorKind::InvalidInput);
    let guard = tenant.pin(file.page(0)).unwrap();
    assert_eq!(io_kind(file.discard(0..1).unwrap_err()), std::io::ErrorKind::ResourceBusy);
    drop(guard);
    tenant.write(file.page(0)).unwrap()[9] = 1;
    device.fail(bufpool::sim::SimFault {
        operation: bufpool::IoOperation::Write,
        nth: device.calls(bufpool::IoOperation::Write) + 1,
        failure: bufpool::sim::SimFailure::NoSpace,
    });
    let error = file.flush().unwrap_err();
    assert_eq!((error.kind(), error.io_kind()), (ErrorKind::NoSpace, std::io::ErrorKind::StorageFull));
    assert_eq!(io_kind(error), std::io::ErrorKind::StorageFull);
}

#[test]
fn a_file_without_handles_is_not_given_back_with_other_options() {
    let directory = directory();
    let pool = small().direct(bufpool::Direct::Off).open().unwrap();
    let path = directory.path().join("data");
    let options = FileOptions::new().create(true).tag(7);
    let id = pool.open_file(&path, options).unwrap().id();
    for (other, name) in [
        (options.tag(8), "tag"),
        (options.direct(bufpool::Direct::Prefer), "direct"),
        (options.optimistic(true), "optimistic"),
        (options.read_only(true), "read_only"),
    ] {
        let error = pool.open_file(&path, other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileAlreadyOpen, "{name}");
        assert!(error.to_string().contains(&format!("another option `{name}`")), "{error}");
    }
    assert_eq!(pool.open_file(&path, options).unwrap().id(), id);
}

/// Futures that have begun or not, owned guards, and lists that have been read.
#[test]
fn what_has_a_handle_of_its_own_keeps_a_file_from_being_given_back() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let path = directory.path().join("data");
    let tenant = pool.default_tenant();
    let check = |what: &str, file: bufpool::File, keeps: Box<dyn std::any::Any>| {
        drop(file);
        assert_eq!(kind(pool.open_file(&path, FileOptions::new().create(true))), ErrorKind::FileAlreadyOpen);
        assert!(pool.open_or_share(&path, FileOptions::new().create(true)).is_ok(), "{what}");
        drop(keeps);
        pool.open_file(&path, FileOptions::new().create(true)).expect(what)
    };
    let future = Box::new(tenant.read_async(file.page(0)));
    let file = check("a future", file, future);
    let guard = Box::new(tenant.read_owned(file.page(0)).unwrap());
    let file = check("an owned guard", file, guard);
    let mut hints =
        Box::new(tenant.hint((0..4).map(|number| file.page(number).into()).collect::<Vec<_>>()).unwrap());
    drop(hints.next().unwrap());
    check("a list", file, hints);
}

/// As with local files, for which the pool finds out in another way which file a path leads to.
#[test]
fn a_file_of_the_simulated_device_is_open_once_and_given_back() {
    let device = SimDevice::new(1);
    let pool = small().open_on(&device).unwrap();
    let options = FileOptions::new().create(true);
    let file = pool.open_file("data", options).unwrap();
    file.extend(1).unwrap();
    drop(pool.default_tenant().read(file.page(0)).unwrap());
    assert_eq!(kind(pool.open_file("data", options)), ErrorKind::FileAlreadyOpen);
    assert_eq!(pool.open_or_share("data", options).unwrap().id(), file.id());
    assert_eq!(kind(small().open_on(&device).unwrap().open_file("data", options)), ErrorKind::FileLocked);
    let id = file.id();
    drop(file);
    assert_eq!(kind(pool.open_file("data", options.tag(1))), ErrorKind::FileAlreadyOpen);
    let file = pool.open_file("data", options).unwrap();
    let misses = pool.stats().misses;
    drop(pool.default_tenant().read(file.page(0)).unwrap());
    assert_eq!((file.id(), pool.stats().misses), (id, misses), "with its cached pages");
    file.close().unwrap();
    assert_ne!(pool.open_file("data", options).unwrap().id(), id);
}

#[test]
fn threads_that_open_a_file_at_a_time_may_share_it() {
    let directory = directory();
    let pool = small().open().unwrap();
    let path = directory.path().join("data");
    let options = FileOptions::new().create(true);
    let all_here = std::sync::Barrier::new(8);
    let files: Vec<_> = std::thread::scope(|scope| {
        let open = || {
            all_here.wait();
            pool.open_or_share(&path, options).unwrap()
        };
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(files.iter().all(|file| file.id() == files[0].id()));
    let file = pool.open_or_share(&path, options).unwrap();
    assert_eq!(kind(pool.open_file(&path, options)), ErrorKind::FileAlreadyOpen);
    assert_eq!(kind(pool.open_or_share(&path, options.tag(1))), ErrorKind::FileAlreadyOpen);
    assert_eq!(
        kind(pool.open_or_share(directory.path().join("none"), FileOptions::new())),
        ErrorKind::NotFound
    );
    file.extend(1).unwrap();
    assert_eq!(pool.open_or_share(&path, options).unwrap().pages(), 1);
}

#[test]
fn a_page_whose_writer_panics_is_poisoned_if_its_file_says_so() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    for (poisons, owned) in [(true, false), (true, true), (false, false)] {
        let device = common::stamped_device(8);
        let pool = small().latch_wait_ms(100).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new().poison_on_panic(poisons)).unwrap();
        let tenant = pool.default_tenant();
        let no_change = AssertUnwindSafe(|| {
            let _guard = tenant.write(file.page(3)).unwrap();
            panic!("before a change");
        });
        catch_unwind(no_change).unwrap_err();
        let half_change = AssertUnwindSafe(|| {
            if owned {
                let mut guard = tenant.write_owned(file.page(1)).unwrap();
                stamp(&mut guard, 1, 2);
                panic!("in the middle of a change");
            }
            let mut guard = tenant.write(file.page(1)).unwrap();
            stamp(&mut guard, 1, 2);
            panic!("in the middle of a change");
        });
        catch_unwind(half_change).unwrap_err();
        stamp(&mut tenant.write(file.page(2)).unwrap(), 2, 2);
        assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 1);
        if !poisons {
            assert_eq!(version(&tenant.read(file.page(1)).unwrap(), 1), 2);
            file.flush().unwrap();
            continue;
        }
        let report = pool.report().to_string();
        assert!(report.contains("\nPOISONED: page 1 of file data: a writer panicked"), "{report}");
        let listed = pool.files().pop().unwrap();
        assert!(!listed.poisoned && listed.notes[0].starts_with("page 1 of file data"), "{listed:?}");
        let bytes = vec![0; common::PAGE_BYTES];
        let page = file.page(1);
        for refused in [
            tenant.read(page).map(drop),
            tenant.try_read(page).map(drop),
            tenant.write(page).map(drop),
            tenant.create(page).map(drop),
            tenant.read_owned(page).map(drop),
            tenant.create_owned(page).map(drop),
            tenant.try_write_owned(page).map(drop),
            tenant.pin(page).map(drop),
            tenant.try_pin_owned(page).map(drop),
            tenant.overwrite(page, &bytes),
            tenant.read_many(&[page]).pop().unwrap().map(drop),
            common::block_on(tenant.read_async(page)).map(drop),
            file.flush_page(1),
            file.flush(),
            file.clone().close(),
            pool.checkpoint(),
            pool.clone().close(),
        ] {
            let error = refused.unwrap_err();
            assert_eq!((error.kind(), error.page()), (ErrorKind::PagePoisoned, Some(1)), "{error}");
        }
        // What fails has changed nothing.
        let pin = tenant.pin(file.page(5)).unwrap();
        for refused in [file.discard(0..8), file.truncate(0), file.clone().remove()] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::PageBusy);
            assert_eq!(kind(tenant.read(page)), ErrorKind::PagePoisoned);
        }
        drop(pin);
        let in_file = device.contents("data").unwrap();
        let versions: Vec<u64> = (0..)
            .zip(in_file.chunks(common::PAGE_BYTES))
            .map(|(number, page)| version(page, number))
            .collect();
        assert_eq!(versions[1..4], [1, 2, 1], "page 2 is written, page 1 is not");
        file.discard(0..8).unwrap();
        assert_eq!(version(&tenant.read(page).unwrap(), 1), 1);
        stamp(&mut tenant.write(page).unwrap(), 1, 3);
        pool.check_invariants();
        pool.close().unwrap();
    }
}

/// A tenant has priorities for 4,096 ranges, those of files that are open.
#[test]
fn priorities_end_with_their_files() {
    let device = common::stamped_device(8);
    let pool = small().open_on(&device).unwrap();
    let tenant = pool.default_tenant();
    for number in 0..4200 {
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        tenant.set_priority(&file, 1 + number % 2).unwrap();
        file.close().unwrap();
    }
    pool.check_invariants();
}

/// It would never end, and count towards the limit.
#[test]
fn a_file_that_is_closed_gets_no_priority() {
    let device = common::stamped_device(8);
    let pool = small().open_on(&device).unwrap();
    let tenant = pool.default_tenant();
    for _ in 0..4200 {
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        file.clone().close().unwrap();
        assert_eq!(kind(tenant.set_priority(&file, 1)), ErrorKind::FileClosed);
    }
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    tenant.set_priority(&file, 1).unwrap();
    pool.check_invariants();
}

/// Frames and reserve are numbered together, with 24 bits.
#[test]
fn frames_and_reserve_have_numbers_together() {
    let options = PoolOptions::new().page_bytes(common::PAGE_BYTES).frames(bufpool::FRAMES_MAX);
    let error = options.reserve_high_frames(1 << 20).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("expected at most 4095"), "{error}");
}

/// If a panic's unwinding downgrades a write guard, the change has ended: the page is not poisoned, and no
/// latch is left behind.
#[test]
fn a_guard_that_a_panic_downgrades_has_ended_its_change() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    struct Cursor<'g>(Option<bufpool::WriteGuard<'g>>);
    impl Drop for Cursor<'_> {
        fn drop(&mut self) {
            self.0.take().map(bufpool::WriteGuard::downgrade);
        }
    }
    let device = common::stamped_device(8);
    let pool = small().latch_wait_ms(40).open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new().poison_on_panic(true)).unwrap();
    let tenant = pool.default_tenant();
    let change = AssertUnwindSafe(|| {
        let mut cursor = Cursor(Some(tenant.write(file.page(3)).unwrap()));
        stamp(cursor.0.as_mut().unwrap(), 3, 2);
        panic!("after the change");
    });
    catch_unwind(change).unwrap_err();
    let read = tenant.read(file.page(3)).unwrap();
    assert_eq!(version(&read, 3), 2);
    assert_eq!(kind(file.discard(3..4)), ErrorKind::SelfDeadlock, "the page is held");
    drop(read);
    file.flush().unwrap();
    let written = device.contents("data").unwrap();
    assert_eq!(version(&written[3 * common::PAGE_BYTES..4 * common::PAGE_BYTES], 3), 2);
    pool.check_invariants();
}

/// A discard that waits for one page of its range does not drop another that was discarded, loaded, half
/// changed and pinned meanwhile.
#[test]
fn discards_of_half_changed_pages_come_one_after_the_other() {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    let device = common::stamped_device(8);
    let pool = small().latch_wait_ms(800).open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new().poison_on_panic(true)).unwrap();
    let tenant = pool.default_tenant();
    let change_half = || {
        let mut pin = None;
        let change = AssertUnwindSafe(|| {
            let mut guard = tenant.write_owned(file.page(0)).unwrap();
            pin = Some(guard.pin());
            stamp(&mut guard, 0, 2);
            panic!("in the middle of a change");
        });
        catch_unwind(change).unwrap_err();
        pin.unwrap()
    };
    for round in 0..6 {
        drop(change_half());
        let held = tenant.write_owned(file.page(1)).unwrap();
        let both = file.clone();
        let discard = std::thread::spawn(move || both.discard(0..2));
        std::thread::sleep(std::time::Duration::from_millis(150 + 25 * round));
        file.discard(0..1).unwrap();
        let pin = change_half();
        drop(held);
        let error = discard.join().unwrap().unwrap_err();
        assert_eq!((error.kind(), error.page()), (ErrorKind::PageBusy, Some(0)), "{error}");
        drop(pin);
        file.discard(0..1).unwrap();
        assert_eq!(version(&tenant.read(file.page(0)).unwrap(), 0), 1);
        pool.check_invariants();
    }
}

/// The error of a refused access names file and page, whatever is wrong with file, tenant or pool.
#[test]
fn a_refused_access_names_its_page() {
    let device = stamped_device(3);
    device.put("words", &[0; 3 * PAGE_BYTES]);
    let pool = small().open_on(&device).unwrap();
    let tenant = pool.tenant("guest").open().unwrap();
    let named = |access: Option<Error>, expected: ErrorKind, file: &File| {
        let error = access.expect("it is refused");
        assert_eq!(
            (error.kind(), error.file(), error.page()),
            (expected, Some(file.name()), Some(2)),
            "{error}"
        );
    };
    let words = pool.open_file("words", FileOptions::new().optimistic(true)).unwrap();
    named(tenant.write(words.page(2)).err(), ErrorKind::Unsupported, &words);
    named(tenant.create(words.page(2)).err(), ErrorKind::Unsupported, &words);
    named(tenant.overwrite(words.page(2), &[0; PAGE_BYTES]).err(), ErrorKind::Unsupported, &words);
    named(block_on(tenant.write_async(words.page(2))).err(), ErrorKind::Unsupported, &words);
    named(tenant.pin(words.page(2)).unwrap().write().err(), ErrorKind::Unsupported, &words);
    named(tenant.pin_owned(words.page(2)).unwrap().write(&tenant).err(), ErrorKind::Unsupported, &words);
    let file = pool.open_file("data", FileOptions::new().read_only(true)).unwrap();
    named(tenant.optimistic(file.page(2), |_| ()).err(), ErrorKind::Unsupported, &file);
    named(tenant.write_optimistic(file.page(2)).err(), ErrorKind::Unsupported, &file);
    named(tenant.write(file.page(2)).err(), ErrorKind::ReadOnly, &file);
    named(tenant.pin(file.page(2)).unwrap().write().err(), ErrorKind::ReadOnly, &file);
    let (other_pool, other) = open_on(small(), &stamped_device(3));
    named(tenant.read(other.page(2)).err(), ErrorKind::WrongPool, &other);
    named(block_on(tenant.read_async(other.page(2))).err(), ErrorKind::WrongPool, &other);
    named(
        tenant.pin_owned(file.page(2)).unwrap().read(&other_pool.default_tenant()).err(),
        ErrorKind::WrongPool,
        &file,
    );
    tenant.clone().close().unwrap();
    named(tenant.read(file.page(2)).err(), ErrorKind::TenantClosed, &file);
    let tenant = pool.default_tenant();
    words.clone().close().unwrap();
    named(tenant.read(words.page(2)).err(), ErrorKind::FileClosed, &words);
    named(tenant.read_many(&[words.page(2)]).pop().unwrap().err(), ErrorKind::FileClosed, &words);
    pool.close().unwrap();
    named(tenant.read(file.page(2)).err(), ErrorKind::PoolClosed, &file);
}
