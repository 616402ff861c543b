//! Goal: each change reaches the file, by one write, and no change is lost unless an error said so. Method:
//! counts of writes in small cases; failures of the simulated device at chosen calls.

mod common;

use std::path::Path;
use std::time::Duration;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions};
use common::{PAGE_BYTES, deterministic, directory, kind, new_file, on_each_backend, small, stamp, version};

#[test]
fn only_dirty_pages_are_written_and_each_once() {
    for options in [deterministic(), small().dirty_limit_percent(100)] {
        let directory = directory();
        let pool = options.open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 20);
        let tenant = pool.default_tenant();
        for number in 0..20 {
            drop(tenant.read(file.page(number)).unwrap());
            // Latched exclusively, but not changed.
            assert_eq!(tenant.write(file.page(number)).unwrap()[0], 0);
        }
        file.flush().unwrap();
        assert_eq!(pool.stats().writes, 0);
        for _ in 0..3 {
            for number in 5..10 {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
            }
        }
        assert_eq!(pool.stats().dirty_frames, 5);
        file.flush_page(5).unwrap();
        file.flush_page(5).unwrap();
        assert_eq!((pool.stats().writes, pool.stats().dirty_frames), (1, 4));
        pool.checkpoint().unwrap();
        pool.checkpoint().unwrap();
        assert_eq!((pool.stats().writes, pool.stats().dirty_frames), (5, 0));
        pool.check_invariants();
    }
}

#[test]
fn dirty_victims_come_back_as_they_left() {
    on_each_backend(|io| {
        let options = [(small(), false), (small().dirty_limit_percent(1), false), (deterministic(), true)];
        for (options, is_deterministic) in options {
            let directory = directory();
            // LRU order, in which every round misses every page.
            let pool = options.io(io).manager(None).open().unwrap();
            let file = new_file(&pool, directory.path(), "data", 300);
            let tenant = pool.default_tenant();
            for round in 1..4 {
                for number in 0..300 {
                    let mut page = tenant.write(file.page(number)).unwrap();
                    if round > 1 {
                        assert_eq!(version(&page, number), round - 1);
                    }
                    stamp(&mut page, number, round);
                }
            }
            pool.checkpoint().unwrap();
            pool.check_invariants();
            let stats = pool.stats();
            assert_eq!(stats.reads, stats.misses);
            if is_deterministic {
                assert_eq!((stats.misses, stats.writes), (900, 900), "each change is written once");
            }
        }
    });
}

#[test]
fn dropped_pages_are_not_written() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 20);
    let tenant = pool.default_tenant();
    for number in 0..20 {
        stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
    }
    file.flush().unwrap();
    for number in 0..20 {
        stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2);
    }
    file.discard(0..5).unwrap();
    file.truncate(15).unwrap();
    assert_eq!(pool.stats().dirty_frames, 10);
    for number in 0..15 {
        let expected = if number < 5 { 1 } else { 2 };
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), expected);
    }
    // Pages that were truncated and are added again are zeros.
    assert_eq!(file.extend(2).unwrap(), 15..17);
    assert!(tenant.read(file.page(15)).unwrap().iter().all(|&byte| byte == 0));
    pool.check_invariants();
    pool.close().unwrap();
    assert_eq!(std::fs::metadata(directory.path().join("data")).unwrap().len(), 17 * PAGE_BYTES as u64);
}

#[test]
fn space_is_allocated_not_a_hole() {
    use std::os::unix::fs::MetadataExt;
    let directory = directory();
    let pool = small().open().unwrap();
    let _file = new_file(&pool, directory.path(), "data", 64);
    let metadata = std::fs::metadata(directory.path().join("data")).unwrap();
    assert_eq!(metadata.len(), 64 * PAGE_BYTES as u64);
    assert!(metadata.blocks() * 512 >= metadata.len());
}

#[test]
fn dropping_every_handle_writes_what_is_dirty() {
    // One dirty page, and more than are in flight at a time.
    for dirty in [2..3, 0..400] {
        on_each_backend(|io| {
            let directory = directory();
            {
                let pool = small().frames(512).dirty_limit_percent(100).io(io).open().unwrap();
                let file = new_file(&pool, directory.path(), "data", 400);
                for number in dirty.clone() {
                    stamp(&mut pool.default_tenant().write(file.page(number)).unwrap(), number, 8);
                }
                let tenant = pool.default_tenant();
                drop(pool);
                // Files and tenants keep the pool alive.
                assert_eq!(version(&tenant.read(file.page(2)).unwrap(), 2), 8);
            }
            let bytes = std::fs::read(directory.path().join("data")).unwrap();
            for number in dirty.clone() {
                assert_eq!(version(&bytes[number as usize * PAGE_BYTES..][..PAGE_BYTES], number), 8);
            }
        });
    }
}

/// Runs of neighbours and single pages, in two files, many more than there are frames for copies.
#[test]
fn a_flush_of_many_pages_writes_each_of_them_once() {
    on_each_backend(|io| {
        for options in [small().dirty_limit_percent(100), deterministic()] {
            let directory = directory();
            let pool = options.frames(1024).io(io).open().unwrap();
            let files = ["one", "two"].map(|name| new_file(&pool, directory.path(), name, 500));
            let tenant = pool.default_tenant();
            let numbers: Vec<u64> = (0..200).chain((200..500).step_by(3)).collect();
            for version in 1..3 {
                for file in &files {
                    for &number in &numbers {
                        stamp(&mut tenant.write(file.page(number)).unwrap(), number, version);
                    }
                }
                let before = pool.stats().writes;
                if version == 1 {
                    pool.checkpoint().unwrap();
                } else {
                    files[1].flush().unwrap();
                }
                let stats = pool.stats();
                let (flushed, left) = if version == 1 { (600, 0) } else { (300, 300) };
                assert_eq!((stats.writes - before, stats.dirty_frames), (flushed, left));
                pool.check_invariants();
                let bytes = std::fs::read(directory.path().join("two")).unwrap();
                for &number in &numbers {
                    let found = common::version(&bytes[number as usize * PAGE_BYTES..][..PAGE_BYTES], number);
                    assert_eq!(found, version);
                }
            }
        }
    });
}

/// With frames for copies, and without. A transfer ends at a clean page, and at the end of the file.
#[test]
fn a_flush_writes_dirty_neighbours_in_one_transfer() {
    let copies = small().reserve_high_frames(12).reserve_low_frames(1);
    for options in [copies.dirty_limit_percent(100), deterministic()] {
        let device = SimDevice::new(1);
        let pool = options.open_on(&device).unwrap();
        let [file, other] = ["data", "other"].map(|name| new_file(&pool, Path::new(""), name, 9));
        let tenant = pool.default_tenant();
        for number in [0, 1, 2, 3, 5, 6] {
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
        }
        stamp(&mut tenant.write(other.page(7)).unwrap(), 7, 1);
        let before = device.calls(IoOperation::Write);
        pool.checkpoint().unwrap();
        assert_eq!((pool.stats().writes, device.calls(IoOperation::Write) - before), (7, 3));
    }
}

/// One of many transfers fails: its file is poisoned, the first failure is returned, and the other file's
/// pages are written.
#[test]
fn a_flush_goes_on_after_a_failure() {
    for nth in 1..=8 {
        let device = SimDevice::new(nth);
        let pool = small().frames(1024).dirty_limit_percent(100).open_on(&device).unwrap();
        let files = ["one", "two"].map(|name| new_file(&pool, Path::new(""), name, 400));
        let tenant = pool.default_tenant();
        for number in 0..400 {
            files.iter().for_each(|file| {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
            });
        }
        fail(&device, IoOperation::Write, nth);
        let error = pool.checkpoint().unwrap_err();
        assert_eq!((error.kind(), error.file()), (ErrorKind::Io, Some("one")), "{error}");
        assert_eq!(kind(tenant.write(files[0].page(0))), ErrorKind::FilePoisoned);
        let dirty = pool.stats().dirty_frames;
        assert!((1..=400).contains(&dirty), "{dirty} pages are dirty");
        pool.check_invariants();
        for (number, page) in (0..).zip(device.contents("two").unwrap().chunks(PAGE_BYTES)) {
            assert_eq!(version(page, number), 1);
        }
        for number in 0..400 {
            assert_eq!(version(&tenant.read(files[0].page(number)).unwrap(), number), 1);
        }
        assert_eq!(files[0].reopen().unwrap(), dirty);
        pool.close().unwrap();
    }
}

#[test]
fn a_dirty_limit_that_is_lowered_has_pages_written() {
    let directory = directory();
    let pool = small().frames(512).dirty_limit_percent(100).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 400);
    let tenant = pool.default_tenant();
    for number in 0..400 {
        stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
    }
    pool.check_invariants();
    assert_eq!(pool.stats().dirty_frames, 400);
    pool.set_dirty_limit_percent(90).unwrap();
    for percent in [0, 101] {
        assert_eq!(kind(pool.set_dirty_limit_percent(percent)), ErrorKind::InvalidOptions);
    }
    // Waits until the background writer rests.
    pool.check_invariants();
    assert_eq!(pool.stats().dirty_frames, 400);
    pool.set_dirty_limit_percent(10).unwrap();
    pool.check_invariants();
    let stats = pool.stats();
    assert!(stats.dirty_frames <= 51 && stats.writes + stats.dirty_frames == 400, "{stats:?}");
    let other = pool.clone();
    pool.close().unwrap();
    assert_eq!(kind(other.set_dirty_limit_percent(10)), ErrorKind::PoolClosed);
}

/// Also if the background writer and the backend hold references to the pool at that moment.
#[test]
fn whoever_drops_the_last_handle_finds_everything_written_and_unlocked() {
    for seed in 0..20 {
        let device = SimDevice::new(seed);
        let (pool, file) = sim_pool(&device, small().dirty_limit_percent(1));
        device.set_latency(Duration::from_micros(20), Duration::from_micros(200));
        let tenant = pool.default_tenant();
        for number in 0..100 {
            stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
        }
        drop((pool, tenant, file));
        for (number, page) in (0..).zip(device.contents("data").unwrap().chunks(PAGE_BYTES)) {
            assert_eq!(version(page, number), 1);
        }
        let pool = small().open_on(&device).unwrap();
        assert_eq!(pool.open_file("data", FileOptions::new()).unwrap().pages(), 100);
    }
}

#[test]
fn a_thread_that_panics_with_the_last_handle_writes_nothing() {
    let device = SimDevice::new(8);
    let pool = small().open_on(&device).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 4);
    let panicked = std::thread::spawn(move || {
        // Dropped in the order opposite to this one, the pool last.
        let (pool, file) = (pool, file);
        stamp(&mut pool.default_tenant().write(file.page(2)).unwrap(), 2, 8);
        // Not `panic!`, which prints.
        std::panic::resume_unwind(Box::new("in the middle of something"));
    });
    panicked.join().unwrap_err();
    assert!(device.contents("data").unwrap().iter().all(|&byte| byte == 0));
}

#[test]
fn a_file_without_handles_is_given_back_with_its_pages() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    stamp(&mut pool.default_tenant().write(file.page(1)).unwrap(), 1, 3);
    drop(file);
    let path = directory.path().join("data");
    assert_eq!(kind(pool.open_file(&path, FileOptions::new().read_only(true))), ErrorKind::FileAlreadyOpen);
    let file = pool.open_file(&path, FileOptions::new()).unwrap();
    assert_eq!(version(&pool.default_tenant().read(file.page(1)).unwrap(), 1), 3);
    assert_eq!(pool.stats().reads, 1);
}

fn sim_pool(device: &SimDevice, options: PoolOptions) -> (Pool, File) {
    let pool = options.open_on(device).unwrap();
    let file = new_file(&pool, Path::new(""), "data", 100);
    (pool, file)
}

fn fail(device: &SimDevice, operation: IoOperation, after: u64) {
    let nth = device.calls(operation) + after;
    device.fail(SimFault { operation, nth, failure: SimFailure::Io });
}

#[test]
fn a_victim_that_cannot_be_written_stays() {
    let device = SimDevice::new(1);
    let (pool, file) = sim_pool(&device, deterministic().manager(None));
    let tenant = pool.default_tenant();
    for number in 0..32 {
        stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
    }
    fail(&device, IoOperation::Write, 1);
    let error = tenant.read(file.page(50)).unwrap_err();
    assert_eq!((error.kind(), error.page()), (ErrorKind::Io, Some(0)));
    // Nothing is lost: every page is still there, and none was marked clean.
    let stats = pool.stats();
    assert_eq!((stats.dirty_frames, stats.write_failures), (32, 1));
    for number in 0..32 {
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
    }
    pool.check_invariants();
    // The file takes no more writes, and says why.
    assert_eq!(kind(tenant.write(file.page(0))), ErrorKind::FilePoisoned);
    assert_eq!(kind(file.extend(1)), ErrorKind::FilePoisoned);
    assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
    assert!(pool.checkpoint().unwrap_err().to_string().contains("os error 5"));
    let error = tenant.read(file.page(51)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted);
    assert!(
        error.to_string().contains("32 dirty pages of poisoned files")
            && error.to_string().contains("reopen"),
        "{error}"
    );
    // Other files do.
    let other = pool.open_file("other", FileOptions::new().create(true)).unwrap();
    other.extend(1).unwrap();
    other.flush().unwrap();
    // Reopened, it begins with what the device has.
    assert_eq!(file.reopen().unwrap(), 32);
    assert!(tenant.read(file.page(0)).unwrap().iter().all(|&byte| byte == 0));
    stamp(&mut tenant.write(file.page(0)).unwrap(), 0, 2);
    pool.check_invariants();
    pool.close().unwrap();
    assert_eq!(version(&device.contents("data").unwrap()[..PAGE_BYTES], 0), 2);
}

#[test]
fn a_page_whose_write_fails_in_the_background_stays_readable() {
    let device = SimDevice::new(2);
    let (pool, file) = sim_pool(&device, small().manager(None).frame_wait_ms(1));
    let tenant = pool.default_tenant();
    for after in 1..2000 {
        fail(&device, IoOperation::Write, after);
    }
    // Fewer than make the background writer begin by itself.
    for number in 0..15 {
        stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
    }
    // Misses push dirty pages into the reserve, from where they cannot be written. One that finds the reserve
    // full may have to write a page itself, and fail.
    for number in 15..64 {
        if let Err(error) = tenant.read(file.page(number)).map(drop) {
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::FilePoisoned), "{error}");
        }
    }
    for number in 0..15 {
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1, "still in memory");
    }
    assert_eq!(kind(tenant.write(file.page(0))), ErrorKind::FilePoisoned);
    assert_eq!(kind(pool.checkpoint()), ErrorKind::FilePoisoned);
    pool.check_invariants();
    assert_eq!(pool.stats().dirty_frames, 15);
    assert_eq!(file.reopen().unwrap(), 15);
    pool.check_invariants();
    assert_eq!(pool.stats().dirty_frames, 0);
}

#[test]
fn a_failed_sync_poisons_the_file() {
    let device = SimDevice::new(3);
    let (pool, file) = sim_pool(&device, deterministic());
    let tenant = pool.default_tenant();
    stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 1);
    fail(&device, IoOperation::Sync, 1);
    assert_eq!(kind(file.flush()), ErrorKind::Io);
    // A second try must not succeed: nobody knows what the first one lost.
    assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
    assert_eq!(kind(file.flush_page(3)), ErrorKind::FilePoisoned);
    assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 1);
    assert_eq!(kind(pool.close()), ErrorKind::FilePoisoned);
}

/// Two threads see that a file is poisoned, and both reopen it: what was written between is not lost.
#[test]
fn reopening_a_sound_file_loses_nothing() {
    for options in [deterministic(), small()] {
        let device = SimDevice::new(5);
        let (pool, file) = sim_pool(&device, options);
        let tenant = pool.default_tenant();
        stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 1);
        fail(&device, IoOperation::Sync, 1);
        assert_eq!(kind(file.flush()), ErrorKind::Io);
        file.reopen().unwrap();
        stamp(&mut tenant.write(file.page(4)).unwrap(), 4, 2);
        assert_eq!(file.reopen().unwrap(), 0);
        assert_eq!(version(&tenant.read(file.page(4)).unwrap(), 4), 2);
        assert_eq!(pool.stats().dirty_frames, 0);
        // And if it cannot be flushed, it is poisoned and has its pages.
        stamp(&mut tenant.write(file.page(4)).unwrap(), 4, 3);
        fail(&device, IoOperation::Sync, 1);
        assert_eq!(kind(file.reopen()), ErrorKind::Io);
        assert_eq!(version(&tenant.read(file.page(4)).unwrap(), 4), 3);
        assert_eq!(kind(tenant.write(file.page(4))), ErrorKind::FilePoisoned);
        pool.check_invariants();
    }
}

/// What a failed sync has left in the operating system's cache reads as if it were on the device. A caller
/// that reopens the file and sees it may rely on it after the next flush that succeeds, which therefore syncs
/// although nothing is dirty.
#[test]
fn what_reads_back_after_a_failed_sync_is_durable_once_a_flush_succeeds() {
    let device = SimDevice::new(9);
    let (pool, file) = sim_pool(&device, deterministic());
    let tenant = pool.default_tenant();
    file.flush().unwrap();
    stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 1);
    fail(&device, IoOperation::Sync, 1);
    assert_eq!(kind(file.flush()), ErrorKind::Io);
    let survives = |seed| {
        let image = device.crash_image(seed).contents("data").unwrap();
        image[3 * PAGE_BYTES..][..PAGE_BYTES].iter().any(|&byte| byte != 0)
    };
    assert!((0..50).any(|seed| !survives(seed)), "the failed sync has made nothing durable");
    let before = device.calls(IoOperation::Sync);
    assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
    assert_eq!(kind(pool.checkpoint()), ErrorKind::FilePoisoned);
    assert_eq!(device.calls(IoOperation::Sync), before, "nobody asks again what the device has forgotten");
    // The page was written, so it is clean or dirty in memory, and gone from there in any case.
    file.reopen().unwrap();
    assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 1);
    file.flush().unwrap();
    assert_eq!(device.calls(IoOperation::Sync), before + 1);
    assert!((0..50).all(survives));
}

/// A failed sync of a buffered file, after which Linux takes its pages for clean: they read as they were
/// written, and no later sync writes them. What had been acknowledged is there; nothing is acknowledged until
/// the file is reopened; from then on pages read as the device has them, so that an engine that goes through
/// its log finds out what is missing.
#[test]
fn what_a_failed_sync_has_lost_shows_when_the_file_is_reopened() {
    let mut lost = 0;
    for seed in 0..20 {
        for options in [deterministic(), small()] {
            let device = SimDevice::new(seed);
            device.set_sector_bytes(PAGE_BYTES);
            let (pool, file) = sim_pool(&device, options);
            let tenant = pool.default_tenant();
            let found = |page| version(&tenant.read(file.page(page)).unwrap(), page);
            let survived = |image: &SimDevice, page: u64| {
                let contents = image.contents("data").unwrap();
                version(&contents[page as usize * PAGE_BYTES..][..PAGE_BYTES], page)
            };
            for page in [3, 4] {
                stamp(&mut tenant.write(file.page(page)).unwrap(), page, 1);
            }
            file.flush().unwrap();
            stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 2);
            device.fail(SimFault {
                operation: IoOperation::Sync,
                nth: device.calls(IoOperation::Sync) + 1,
                failure: SimFailure::Lost,
            });
            assert_eq!(kind(file.flush()), ErrorKind::Io);
            let syncs = device.calls(IoOperation::Sync);
            // The device would say that all is well, and has lost the page for good.
            for refused in [file.flush(), file.flush_page(3), pool.checkpoint()] {
                assert_eq!(kind(refused), ErrorKind::FilePoisoned);
            }
            assert_eq!(device.calls(IoOperation::Sync), syncs);
            assert_eq!((found(3), found(4)), (2, 1), "in memory");
            // Out of memory: from here on the operating system's cache answers.
            (20..90).for_each(|page| drop(tenant.read(file.page(page)).unwrap()));
            assert_eq!((found(3), found(4)), (2, 1), "in the cache");
            let image = device.crash_image(seed);
            let on_device = survived(&image, 3);
            assert!((1..=2).contains(&on_device) && survived(&image, 4) == 1);
            lost += u32::from(on_device == 1);

            file.reopen().unwrap();
            assert_eq!((found(3), found(4)), (on_device, 1), "on the device");
            stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 2);
            file.flush().unwrap();
            let image = device.crash_image(seed);
            assert_eq!((survived(&image, 3), survived(&image, 4)), (2, 1));
            pool.check_invariants();
        }
    }
    assert!((1..40).contains(&lost), "lost in {lost} of 40 runs");
}

/// Two flushes that wait for one another: the one that finds nothing left to sync must not take the other's
/// failure for a success.
#[test]
fn a_failed_sync_fails_everybody_who_waited_for_it() {
    let device = SimDevice::new(3);
    let (pool, file) = sim_pool(&device, small());
    let tenant = pool.default_tenant();
    stamp(&mut tenant.write(file.page(3)).unwrap(), 3, 1);
    fail(&device, IoOperation::Sync, 1);
    let before = device.calls(IoOperation::Sync);
    // The failing sync lasts long enough for the other flush to begin.
    device.set_latency(Duration::from_millis(100), Duration::from_millis(100));
    std::thread::scope(|scope| {
        let first = scope.spawn(|| kind(file.flush()));
        while device.calls(IoOperation::Sync) == before {
            std::thread::yield_now();
        }
        assert_eq!(kind(file.flush_page(3)), ErrorKind::FilePoisoned);
        assert_eq!(first.join().unwrap(), ErrorKind::Io);
    });
}

/// Everything fails from one moment on, as when a device is pulled out.
#[test]
fn a_vanished_device_is_an_error_everywhere_and_loses_nothing_in_memory() {
    for options in [deterministic(), small()] {
        let device = SimDevice::new(6);
        let (pool, file) = sim_pool(&device, options.frame_wait_ms(1));
        let tenant = pool.default_tenant();
        for number in 0..15 {
            stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
        }
        device.cut_power();
        assert_eq!(kind(tenant.read(file.page(80))), ErrorKind::Io);
        assert_eq!(kind(file.extend(1)), ErrorKind::Io);
        assert_eq!(kind(file.truncate(90)), ErrorKind::Io);
        assert_eq!(kind(file.flush_page(3)), ErrorKind::Io);
        assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
        assert_eq!(kind(pool.checkpoint()), ErrorKind::FilePoisoned);
        assert_eq!(kind(pool.open_file("other", FileOptions::new().create(true))), ErrorKind::Io);
        for number in 20..70 {
            assert!(matches!(kind(tenant.read(file.page(number))), ErrorKind::Io | ErrorKind::Exhausted));
        }
        for number in 0..15 {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1, "still in memory");
        }
        assert_eq!((file.pages(), pool.stats().dirty_frames), (100, 15));
        pool.check_invariants();
        assert_eq!(kind(file.reopen()), ErrorKind::Io);
        // The failed reopening has closed the file, and its dirty pages are gone.
        assert_eq!(pool.stats().dirty_frames, 0);
        pool.close().unwrap();
    }
}

/// A file that takes no writes, with every page of it dirty, beside one that is well.
#[test]
fn a_failing_file_harms_no_other() {
    for options in [deterministic(), small()] {
        let device = SimDevice::new(7);
        let (pool, bad) = sim_pool(&device, options);
        let good = new_file(&pool, Path::new(""), "good", 60);
        let unlucky = pool.tenant("unlucky").cap_frames(20).open().unwrap();
        let lucky = pool.tenant("lucky").open().unwrap();
        for number in 0..60 {
            stamp(&mut lucky.create(good.page(number)).unwrap(), number, 1);
        }
        good.flush().unwrap();
        for number in 0..20 {
            stamp(&mut unlucky.create(bad.page(number)).unwrap(), number, 1);
        }
        for nth in 1..=100 {
            fail(&device, IoOperation::Write, nth);
        }
        // A miss that has to make room finds out, and takes another frame.
        for number in 0..60 {
            assert_eq!(version(&lucky.read(good.page(number)).unwrap(), number), 1);
        }
        device.forget_faults();
        assert!(bad.flush().is_err());
        let stats = pool.stats();
        assert_eq!(stats.contexts.iter().map(|context| context.accesses).sum::<u64>(), stats.accesses);
        for round in 2..5 {
            for number in 0..60 {
                let mut page = lucky.write(good.page(number)).unwrap();
                assert_eq!(version(&page, number), round - 1);
                stamp(&mut page, number, round);
            }
            good.flush().unwrap();
            assert_eq!(kind(pool.checkpoint()), ErrorKind::FilePoisoned);
            let survived = device.crash_image(round).contents("good").unwrap();
            for (number, page) in (0..).zip(survived.chunks(PAGE_BYTES)) {
                assert_eq!(version(page, number), round);
            }
        }
        pool.check_invariants();
        good.close().unwrap();
    }
}

#[test]
fn a_failed_read_leaves_the_page_absent() {
    let device = SimDevice::new(4);
    let (pool, file) = sim_pool(&device, small());
    let tenant = pool.default_tenant();
    fail(&device, IoOperation::Read, 1);
    let error = tenant.read(file.page(7)).unwrap_err();
    assert_eq!((error.kind(), error.page()), (ErrorKind::Io, Some(7)));
    pool.check_invariants();
    assert_eq!((pool.stats().accesses, pool.stats().reads), (0, 0));
    assert!(tenant.read(file.page(7)).unwrap().iter().all(|&byte| byte == 0));
    tenant.write(file.page(7)).unwrap()[0] = 1;
    pool.close().unwrap();
}

#[test]
fn a_full_device_is_reported_before_anything_is_overwritten() {
    let device = SimDevice::new(5);
    let (pool, file) = sim_pool(&device, small());
    device.set_capacity_bytes(110 * PAGE_BYTES as u64);
    assert_eq!(kind(file.extend(20)), ErrorKind::NoSpace);
    assert_eq!(file.pages(), 100);
    assert_eq!(file.extend(5).unwrap(), 100..105);
    stamp(&mut pool.default_tenant().write(file.page(104)).unwrap(), 104, 1);
    pool.close().unwrap();
}

#[test]
fn a_file_shortened_behind_our_back_is_an_error() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 10);
        let outside = std::fs::File::options().write(true).open(directory.path().join("data")).unwrap();
        outside.set_len(5 * PAGE_BYTES as u64).unwrap();
        let error = pool.default_tenant().read(file.page(7)).map(drop).unwrap_err();
        assert_eq!((error.kind(), error.page()), (ErrorKind::UnexpectedEof, Some(7)));
        drop(pool.default_tenant().read(file.page(4)).unwrap());
        // Opened again, it has the length it has.
        file.reopen().unwrap();
        assert_eq!(file.pages(), 5);
        let error = pool.default_tenant().read(file.page(7)).map(drop).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PageBeyondEnd);
        assert_eq!(file.extend(3).unwrap(), 5..8);
        assert!(pool.default_tenant().read(file.page(7)).unwrap().iter().all(|&byte| byte == 0));
        pool.check_invariants();
    });
}

/// Frames that optimistic readers may still look at cannot be copied to; one of these readers may be the
/// thread that flushes.
#[test]
fn a_flush_within_an_optimistic_read_ends() {
    // How many of the reserve's frames have held such pages is left to chance.
    (0..8).for_each(|_| flush_within_an_optimistic_read());
}

fn flush_within_an_optimistic_read() {
    const THREADS: u64 = 8;
    let device = SimDevice::new(1);
    let options = small().reserve_high_frames(4).manager(None).dirty_limit_percent(100);
    let pool = options.open_on(&device).unwrap();
    let options = FileOptions::new().create(true).optimistic(true);
    let file = pool.open_file("optimistic", options).unwrap();
    file.extend(200).unwrap();
    let tenant = pool.default_tenant();
    (0..32).for_each(|number| drop(tenant.create_optimistic(file.page(number)).unwrap()));
    // Slow enough for the whole reserve to be exchanged for frames of these pages.
    device.set_latency(Duration::from_millis(30), Duration::from_millis(30));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (tenant, file) = (&tenant, &file);
            scope.spawn(move || {
                for page in 0..4 {
                    drop(tenant.read(file.page(100 + thread * 4 + page)).unwrap());
                }
            });
        }
    });
    device.set_latency(Duration::ZERO, Duration::ZERO);
    pool.check_invariants();
    for number in 100..110 {
        let mut guard = tenant.write_optimistic(file.page(number)).unwrap();
        guard.edit(0..8, |bytes| bytes.fill(1));
    }
    let (done, has_ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let flushed = tenant.optimistic(file.page(100), |_| file.flush()).unwrap().0;
        // Not if the test has given up.
        let _ = done.send((flushed, pool.stats().dirty_frames));
    });
    let (flushed, dirty) = has_ended.recv_timeout(Duration::from_secs(60)).expect("the flush ends");
    flushed.unwrap();
    assert_eq!(dirty, 0);
}

/// What is evicted has left.
#[test]
fn a_victim_that_could_not_be_written_was_not_evicted() {
    let device = common::stamped_device(100);
    let (pool, file) = common::open_on(deterministic(), &device);
    let other = {
        device.put("other", &vec![0; 4096 * 4]);
        pool.open_file("other", bufpool::FileOptions::new()).unwrap()
    };
    let tenant = pool.default_tenant();
    tenant.write(other.page(0)).unwrap()[0] = 1;
    (0..31).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    device.fail(bufpool::sim::SimFault {
        operation: bufpool::IoOperation::Write,
        nth: device.calls(bufpool::IoOperation::Write) + 1,
        failure: bufpool::sim::SimFailure::Io,
    });
    drop(tenant.read(file.page(50)).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.write_failures, stats.accesses), (1, 33));
    assert_eq!(stats.left_clean + stats.left_written, 1);
    assert_eq!(stats.evictions, 1);
}

/// Who reads the report of a pool that has stopped finds out why.
#[test]
fn the_report_names_what_failed_and_each_poisoned_file() {
    let device = SimDevice::new(1);
    let (pool, file) = sim_pool(&device, deterministic());
    assert!(!pool.report().to_string().contains("FAILED"), "{}", pool.report());
    fail(&device, IoOperation::Read, 1);
    assert!(pool.default_tenant().read(file.page(3)).is_err());
    pool.default_tenant().write(file.page(7)).unwrap()[0] = 1;
    fail(&device, IoOperation::Write, 1);
    let error = file.flush().unwrap_err();
    let report = pool.report().to_string();
    let failed = report.lines().find(|line| line.starts_with("FAILED")).expect(&report);
    assert_eq!(failed, "FAILED: reads 1  writes and syncs 1  advances of the log 0");
    let poisoned = report.lines().find(|line| line.starts_with("POISONED")).expect(&report);
    assert_eq!(poisoned, format!("POISONED: file data takes no writes until it is reopened: {error}"));
    let listed = pool.files().pop().unwrap();
    assert!(listed.poisoned && listed.notes.len() == 1 && listed.dirty_frames == 1, "{listed:?}");
    file.reopen().unwrap();
    assert!(!pool.report().to_string().contains("POISONED"), "{}", pool.report());
    let listed = pool.files().pop().unwrap();
    assert!(!listed.poisoned && listed.notes.is_empty() && listed.dirty_frames == 0, "{listed:?}");
}

#[test]
fn a_dirty_limit_of_one_per_cent_acts_in_a_pool_of_64_frames() {
    let directory = directory();
    let pool = small().frames(64).dirty_limit_percent(1).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 128);
    for number in 0..50 {
        pool.default_tenant().write(file.page(number)).unwrap()[0] = 1;
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(pool.stats().dirty_frames <= 1, "{} dirty frames", pool.stats().dirty_frames);
}
