//! Goal: engines can verify pages on the way in and prepare them on the way out, and checksums show torn,
//! changed and misdirected pages. Method: files are damaged between two openings.

mod common;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bufpool::engine::{Checksum, ChecksumStore, PageHooks, PageName};
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions};
use common::{PAGE_BYTES, deterministic, directory, kind, new_file, on_each_backend, small, stamp, version};

const PAGES: u64 = 80;
const FIELD: usize = 12;

fn open(device: &SimDevice, options: PoolOptions, hooks: impl PageHooks + 'static, tag: u64) -> (Pool, File) {
    let pool = options.hooks(Box::new(hooks)).open_on(device).unwrap();
    let file = pool.open_file("data", FileOptions::new().create(true).tag(tag)).unwrap();
    (pool, file)
}

/// Fills a file with checked pages; more than fit in memory, so that all ways of writing are used.
fn fill(device: &SimDevice, options: PoolOptions, hooks: impl PageHooks + 'static) {
    let (pool, file) = open(device, options, hooks, 9);
    file.extend(PAGES + 1).unwrap();
    let tenant = pool.default_tenant();
    for round in 0..2 {
        for number in 0..PAGES {
            tenant.write(file.page(number)).unwrap()[100..108]
                .copy_from_slice(&(number + round).to_le_bytes());
        }
        file.flush().unwrap();
    }
    for number in 0..PAGES {
        let page = tenant.read(file.page(number)).unwrap();
        assert_eq!(page[100..108], (number + 1).to_le_bytes());
    }
    pool.close().unwrap();
}

fn damage(device: &SimDevice, change: impl FnOnce(&mut [u8])) {
    let mut bytes = device.contents("data").unwrap();
    change(&mut bytes);
    device.put("data", &bytes);
}

#[test]
fn damaged_and_misdirected_pages_are_found() {
    for options in [deterministic as fn() -> PoolOptions, small] {
        let device = SimDevice::new(1);
        fill(&device, options(), Checksum::in_page(FIELD));
        damage(&device, |bytes| {
            bytes[5 * PAGE_BYTES + 2000] ^= 1;
            // Pages 7 and 8 changed places.
            let (left, right) = bytes.split_at_mut(8 * PAGE_BYTES);
            left[7 * PAGE_BYTES..].swap_with_slice(&mut right[..PAGE_BYTES]);
        });
        let (pool, file) = open(&device, options(), Checksum::in_page(FIELD), 9);
        let tenant = pool.default_tenant();
        for number in 0..PAGES {
            let read = tenant.read(file.page(number)).map(drop);
            if [5, 7, 8].contains(&number) {
                let error = read.unwrap_err();
                assert_eq!((error.kind(), error.page()), (ErrorKind::Corrupt, Some(number)));
                // The page is read twice before the error.
                assert!(error.to_string().contains("twice"), "{error}");
            } else {
                read.unwrap();
            }
        }
        // A page that was never written has no checksum.
        drop(tenant.read(file.page(PAGES)).unwrap());
        // A caller that knows the contents can create the page anew.
        tenant.create(file.page(5)).unwrap()[0] = 1;
        pool.check_invariants_when_quiet();
        pool.close().unwrap();
        // The file of another tag is another file.
        let (pool, file) = open(&device, options(), Checksum::in_page(FIELD), 10);
        assert_eq!(kind(pool.default_tenant().read(file.page(0))), ErrorKind::Corrupt);
    }
}

trait WhenQuiet {
    fn check_invariants_when_quiet(&self);
}

impl WhenQuiet for Pool {
    fn check_invariants_when_quiet(&self) {
        self.checkpoint().unwrap();
        self.check_invariants();
    }
}

#[derive(Default)]
struct Sidecar(Mutex<HashMap<(u64, u64), u32>>);

impl ChecksumStore for Sidecar {
    fn load(&self, page: PageName) -> Option<u32> {
        self.0.lock().unwrap().get(&(page.file_tag, page.number)).copied()
    }

    fn store(&self, page: PageName, checksum: u32) {
        self.0.lock().unwrap().insert((page.file_tag, page.number), checksum);
    }
}

#[test]
fn checksums_may_lie_beside_the_pages() {
    let device = SimDevice::new(2);
    let sidecar = Arc::new(Sidecar::default());
    fill(&device, small(), Checksum::beside(sidecar.clone()));
    assert_eq!(sidecar.0.lock().unwrap().len() as u64, PAGES);
    damage(&device, |bytes| bytes[3 * PAGE_BYTES + 1] ^= 0x80);
    let (pool, file) = open(&device, small(), Checksum::beside(sidecar), 9);
    assert_eq!(kind(pool.default_tenant().read(file.page(3))), ErrorKind::Corrupt);
    drop(pool.default_tenant().read(file.page(4)).unwrap());
}

/// Damaged pages among neighbours that one transfer brings in ahead: the others come in, each as itself.
#[test]
fn damaged_pages_of_a_run_are_left_out_of_it() {
    const RUN: u64 = 16;
    for damaged in [&[0][..], &[15], &[5, 6], &[0, 7, 15], &[1, 3, 5, 14], &[]] {
        let device = SimDevice::new(6);
        fill(&device, small(), Checksum::in_page(FIELD));
        damage(&device, |bytes| damaged.iter().for_each(|number| bytes[number * PAGE_BYTES + 2000] ^= 1));
        let (pool, file) =
            open(&device, small().frames(64).prefetch_limit_percent(50), Checksum::in_page(FIELD), 9);
        let tenant = pool.default_tenant();
        assert_eq!(tenant.prefetch((0..RUN).map(|number| file.page(number))), RUN as usize);
        pool.check_invariants();
        let before = pool.stats();
        assert_eq!(before.prefetch_failed, damaged.len() as u64);
        for number in (0..RUN as usize).filter(|number| !damaged.contains(number)) {
            let page = tenant.read(file.page(number as u64)).unwrap();
            assert_eq!(page[100..108], (number as u64 + 1).to_le_bytes());
        }
        assert_eq!(pool.stats().misses, before.misses, "pages that are sound came in ahead");
        for number in damaged {
            assert_eq!(kind(tenant.read(file.page(*number as u64))), ErrorKind::Corrupt);
        }
        let guards: Vec<_> = (RUN..PAGES).map(|number| tenant.read(file.page(number)).unwrap()).collect();
        assert_eq!(guards.len(), 64, "no frame is lost");
        drop(guards);
        pool.check_invariants();
    }
}

/// Refuses the first `.0` reads, and panics before the write of page `.1`.
struct Moody(AtomicU32, u64);

impl PageHooks for Moody {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        left.map_or(Ok(()), |_| Err("not in the mood".into()))
    }

    fn before_write(&self, page: PageName, _: &mut [u8]) {
        if page.number == self.1 {
            std::panic::panic_any(common::Bomb);
        }
    }
}

#[test]
fn a_page_is_read_once_more_before_the_error() {
    for (failures, is_read) in [(0, true), (1, true), (2, false), (3, false)] {
        let device = SimDevice::new(3);
        let (pool, file) = open(&device, small(), Moody(AtomicU32::new(failures), 99), 0);
        file.extend(1).unwrap();
        assert_eq!(pool.default_tenant().read(file.page(0)).is_ok(), is_read, "{failures} failures");
        assert_eq!(pool.stats().reads, u64::from(failures.min(1)) + 1);
        pool.check_invariants();
    }
}

#[test]
fn a_hook_that_panics_poisons_the_file_and_nothing_else() {
    for options in [deterministic(), small()] {
        let device = SimDevice::new(4);
        let (pool, file) = open(&device, options, Moody(AtomicU32::new(0), 1), 0);
        file.extend(4).unwrap();
        let other = pool.open_file("other", FileOptions::new().create(true)).unwrap();
        other.extend(1).unwrap();
        let tenant = pool.default_tenant();
        tenant.write(file.page(1)).unwrap()[0] = 1;
        tenant.write(other.page(0)).unwrap()[0] = 1;
        assert_eq!(kind(file.flush()), ErrorKind::FilePoisoned);
        assert_eq!(tenant.read(file.page(1)).unwrap()[0], 1);
        other.flush().unwrap();
        assert_eq!(file.reopen().unwrap(), 1);
        tenant.write(file.page(2)).unwrap()[0] = 1;
        file.flush().unwrap();
        pool.check_invariants();
    }
}

/// Encrypts with a constant.
struct Cipher;

const KEY: u8 = 0xa5;

impl PageHooks for Cipher {
    fn on_read(&self, _: PageName, bytes: &mut [u8]) -> Result<(), String> {
        // A page of zeros was never written.
        if bytes.iter().any(|&byte| byte != 0) {
            bytes.iter_mut().for_each(|byte| *byte ^= KEY);
        }
        Ok(())
    }

    fn before_write(&self, _: PageName, bytes: &mut [u8]) {
        bytes.iter_mut().for_each(|byte| *byte ^= KEY);
    }
}

/// Readers do not see what a hook does to a page for its file, neither after a write nor after one that
/// failed.
#[test]
fn hooks_change_what_is_written_and_not_what_is_in_memory() {
    for options in [deterministic as fn() -> PoolOptions, small] {
        let device = SimDevice::new(5);
        let (pool, file) = open(&device, options().dirty_limit_percent(1), Cipher, 0);
        file.extend(PAGES).unwrap();
        let tenant = pool.default_tenant();
        for round in 1..4 {
            for number in 0..PAGES {
                let mut page = tenant.write(file.page(number)).unwrap();
                if round > 1 {
                    assert_eq!(version(&page, number), round - 1);
                }
                stamp(&mut page, number, round);
            }
            if round == 2 {
                file.flush().unwrap();
            }
            for number in 0..PAGES {
                assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), round);
            }
        }
        pool.checkpoint().unwrap();
        for (number, page) in (0..).zip(device.contents("data").unwrap().chunks(PAGE_BYTES)) {
            let plain: Vec<u8> = page.iter().map(|byte| byte ^ KEY).collect();
            assert_eq!(version(&plain, number), 3);
        }
        for number in 0..10 {
            stamp(&mut tenant.write(file.page(number)).unwrap(), number, 4);
        }
        for nth in 1..200 {
            let nth = device.calls(IoOperation::Write) + nth;
            device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
        }
        assert!(file.flush().is_err());
        for number in (0..PAGES).rev() {
            if let Ok(page) = tenant.read(file.page(number)) {
                assert_eq!(version(&page, number), if number < 10 { 4 } else { 3 });
            }
        }
        for number in 0..10 {
            assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 4, "still in memory");
        }
        pool.check_invariants();
    }
}

/// Many more pages than there are buffers for hooks, which come back while more are prepared.
#[test]
fn a_flush_of_many_pages_prepares_each_of_them() {
    on_each_backend(|io| {
        for options in [deterministic as fn() -> PoolOptions, small] {
            let directory = directory();
            let options = options().frames(512).dirty_limit_percent(100).io(io);
            let pool = options.hooks(Box::new(Cipher)).open().unwrap();
            let file = new_file(&pool, directory.path(), "data", 400);
            let tenant = pool.default_tenant();
            for round in 1..3 {
                for number in 0..400 {
                    stamp(&mut tenant.write(file.page(number)).unwrap(), number, round);
                }
                file.flush().unwrap();
                assert_eq!((pool.stats().writes, pool.stats().dirty_frames), (400 * round, 0));
                let bytes = std::fs::read(directory.path().join("data")).unwrap();
                for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
                    let plain: Vec<u8> = page.iter().map(|byte| byte ^ KEY).collect();
                    assert_eq!(version(&plain, number), round);
                    assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), round);
                }
            }
            pool.close().unwrap();
        }
    });
}
