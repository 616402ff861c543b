//! Goal: an optimistic read returns one version of the page, never a mix of two, whatever writers, evictions
//! and other files do meanwhile.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Context;
use std::time::{Duration, Instant};

use bufpool::{ErrorKind, File, FileOptions, PageView, Pool, Tenant, Version};
use common::{PAGE_BYTES, directory, on_each_backend, small};

const WORDS: usize = PAGE_BYTES / 8;

fn optimistic_file(pool: &Pool, folder: &std::path::Path, pages: u64) -> File {
    let options = FileOptions::new().create(true).optimistic(true);
    let file = pool.open_file(folder.join("optimistic"), options).unwrap();
    file.extend(pages).unwrap();
    file
}

/// Writes a version over the whole page: each word says page, version and its own place.
fn stamp(guard: &mut bufpool::OptimisticWriteGuard<'_>, number: u64, version: u64) {
    guard.edit(0..PAGE_BYTES, |bytes| {
        for (index, word) in bytes.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&word_of(number, version, index).to_le_bytes());
        }
    });
}

fn word_of(number: u64, version: u64, index: usize) -> u64 {
    number << 48 | version << 16 | index as u64
}

/// The version of a page, or why it is a mix. Looks at some words only, the first and the last among them.
fn check(number: u64, word: impl Fn(usize) -> u64) -> Result<u64, String> {
    let version = word(0) >> 16 & 0xffff_ffff;
    for index in [0, 1, 7, 8, WORDS / 2, WORDS - 2, WORDS - 1] {
        let (found, expected) = (word(index), word_of(number, version, index));
        if found != expected {
            return Err(format!("word {index} of page {number} is {found:#x}, expected {expected:#x}"));
        }
    }
    Ok(version)
}

fn read(tenant: &Tenant, file: &File, number: u64) -> (u64, Version) {
    let whole = |page: PageView<'_>| check(number, |index| page.read_u64(8 * index));
    let (checked, version) = tenant.optimistic(file.page(number), whole).unwrap();
    (checked.unwrap(), version)
}

/// The outcome of a future that has nothing to wait for.
fn now<F: Future>(future: F) -> F::Output {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(outcome) => outcome,
        std::task::Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn versions_follow_writes_and_departures() {
    let folder = directory();
    let pool = small().manager(None).open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 100);
    let tenant = pool.default_tenant();
    for number in 0..100 {
        stamp(&mut tenant.create_optimistic(file.page(number)).unwrap(), number, 1);
    }
    let page = file.page(7);
    let (_, first) = read(&tenant, &file, 7);
    assert!(tenant.still(page, first));
    assert_eq!(read(&tenant, &file, 7), (1, first), "a read changes nothing");
    drop(tenant.write_optimistic(page).unwrap());
    assert!(tenant.still(page, first), "nor does a guard that was not written through");
    let mut guard = tenant.write_optimistic(page).unwrap();
    assert!(!tenant.still(page, first), "a writer is there");
    stamp(&mut guard, 7, 2);
    drop(guard);
    let (version, second) = read(&tenant, &file, 7);
    assert_eq!(version, 2);
    assert!(!tenant.still(page, first) && tenant.still(page, second));
    for number in 10..90 {
        assert_eq!(read(&tenant, &file, number).0, 1);
    }
    assert!(!tenant.still(page, second), "the page has left");
    assert_eq!(read(&tenant, &file, 7).0, 2);
    pool.check_invariants();
    let stats = pool.stats();
    // Creations, reads and the two guards, each once.
    assert_eq!(stats.accesses, 100 + 3 + 2 + 80 + 1);
    assert_eq!(stats.accesses, stats.hits + stats.misses);
}

/// The page has the same frame and the same number of changes after each opening, but another version.
#[test]
fn a_version_of_before_does_not_come_again_when_the_file_is_opened_anew() {
    let folder = directory();
    let pool = small().manager(None).open().unwrap();
    let tenant = pool.default_tenant();
    optimistic_file(&pool, folder.path(), 2).close().unwrap();
    let mut earlier: Vec<Version> = Vec::new();
    for round in 1..=20 {
        let file = optimistic_file(&pool, folder.path(), 0);
        let (_, version) = tenant.optimistic(file.page(0), |page| page.read_u64(0)).unwrap();
        assert!(tenant.still(file.page(0), version));
        assert!(earlier.iter().all(|earlier| !tenant.still(file.page(0), *earlier)), "{round}");
        assert!(!earlier.contains(&version), "{round}");
        earlier.push(version);
        tenant.write_optimistic(file.page(0)).unwrap().write_u64(0, round);
        file.close().unwrap();
    }
}

#[test]
fn views_and_guards_take_any_offset() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 1);
    let tenant = pool.default_tenant();
    let mut model = vec![0_u8; PAGE_BYTES];
    let mut guard = tenant.create_optimistic(file.page(0)).unwrap();
    for (offset, length) in [(0, 8), (3, 2), (5, 40), (17, 0), (4091, 5), (8, 16), (63, 1), (62, 11)] {
        let bytes: Vec<u8> = (0..length).map(|byte| (offset * 7 + byte * 3 + 1) as u8).collect();
        guard.write_at(offset, &bytes);
        model[offset..offset + length].copy_from_slice(&bytes);
        assert_eq!(guard[..], model[..]);
    }
    guard.write_u64(13, 0x0102_0304_0506_0708);
    model[13..21].copy_from_slice(&0x0102_0304_0506_0708_u64.to_le_bytes());
    assert_eq!(
        guard.edit(100..103, |bytes| {
            bytes.copy_from_slice(b"abc");
            bytes.len()
        }),
        3
    );
    model[100..103].copy_from_slice(b"abc");
    assert_eq!(guard[..], model[..]);
    drop(guard);
    model.extend([0; 16]);
    let compare = |page: PageView<'_>| {
        for offset in (0..70).chain(PAGE_BYTES - 9..PAGE_BYTES + 2) {
            let eight = u64::from_le_bytes(model[offset..offset + 8].try_into().unwrap());
            assert_eq!(page.read_u64(offset), eight, "{offset}");
            assert_eq!(page.read_u32(offset), eight as u32);
            assert_eq!((page.read_u16(offset), page.read_u8(offset)), (eight as u16, eight as u8));
            let mut out = [0; 13];
            page.read_at(offset, &mut out);
            assert_eq!(out[..8], model[offset..offset + 8]);
        }
        assert_eq!((page.read_u64(usize::MAX), page.len()), (0, PAGE_BYTES));
    };
    tenant.optimistic(file.page(0), compare).unwrap();
}

#[test]
fn a_write_beyond_the_page_changes_nothing() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 1);
    let tenant = pool.default_tenant();
    for (offset, length) in [(PAGE_BYTES - 3, 4), (usize::MAX, 2), (PAGE_BYTES + 1, 0)] {
        let mut guard = tenant.write_optimistic(file.page(0)).unwrap();
        let write = std::panic::AssertUnwindSafe(|| guard.write_at(offset, &vec![1; length]));
        assert!(std::panic::catch_unwind(write).is_err());
        assert!(guard.iter().all(|&byte| byte == 0));
    }
    assert_eq!(pool.stats().dirty_frames, 0);
}

#[test]
fn the_wrong_kind_of_file_is_an_error() {
    let folder = directory();
    let pool = small().open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 1);
    let plain = pool.open_file(folder.path().join("plain"), FileOptions::new().create(true)).unwrap();
    plain.extend(1).unwrap();
    let tenant = pool.default_tenant();
    let refused = [
        tenant.write(file.page(0)).err(),
        tenant.create(file.page(0)).err(),
        tenant.try_write(file.page(0)).err(),
        tenant.write_owned(file.page(0)).err(),
        tenant.create_owned(file.page(0)).err(),
        tenant.pin(file.page(0)).unwrap().write().err(),
        tenant.pin_owned(file.page(0)).unwrap().try_write(&tenant).err(),
        now(tenant.write_async(file.page(0))).err(),
        tenant.optimistic(plain.page(0), |_| ()).err(),
        tenant.write_optimistic(plain.page(0)).err(),
        tenant.create_optimistic(plain.page(0)).err(),
    ];
    for error in refused {
        let error = error.unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("optimistic"), "{error}");
    }
    let beyond = tenant.optimistic(file.page(9), |_| ()).unwrap_err();
    assert_eq!(beyond.kind(), ErrorKind::PageBeyondEnd);
    drop(file);
    let reopened = pool.open_file(folder.path().join("optimistic"), FileOptions::new());
    assert_eq!(reopened.unwrap_err().kind(), ErrorKind::FileAlreadyOpen);
}

/// A miss within an optimistic read could need the very frame that is being read.
#[test]
fn a_miss_within_an_optimistic_read_ends() {
    let folder = directory();
    let pool = small().manager(None).open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 100);
    let tenant = pool.default_tenant();
    for number in 0..32 {
        drop(tenant.create_optimistic(file.page(number)).unwrap());
    }
    // The page is clean: for a dirty victim the miss would get another frame, from the reserve.
    file.flush().unwrap();
    tenant.optimistic(file.page(31), |_| ()).unwrap();
    let mut reads = 0;
    let within = |_: PageView<'_>| {
        reads += 1;
        assert!(reads < 100, "the page leaves again and again while it is read");
        tenant.read(file.page(60)).map(drop).map_err(|error| error.kind())
    };
    assert_eq!(tenant.optimistic(file.page(31), within).unwrap().0, Err(ErrorKind::SelfDeadlock));
    assert_eq!(tenant.optimistic(file.page(31), |page| page.read_u64(0)).unwrap().0, 0);
    assert!(tenant.read(file.page(60)).is_ok());
    pool.check_invariants();
}

/// Calls that never wait do not wait for a thread that is within an optimistic read of the only frame that
/// could be taken. The reader ends only after each call has returned, and every other frame is pinned.
#[test]
fn what_never_waits_does_not_wait_for_an_optimistic_reader() {
    let folder = directory();
    let pool = small().manager(None).frame_wait_ms(60_000).latch_wait_ms(60_000).open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 100);
    let tenant = pool.default_tenant();
    let frames = u64::from(pool.frames());
    // Page 0 is the first to go, and the only one that nobody pins.
    let mut pins = Vec::new();
    for number in 0..frames {
        let guard = tenant.create_optimistic(file.page(number)).unwrap();
        if number > 0 {
            pins.push(guard.pin());
        }
    }
    file.flush().unwrap();
    let (inside, entered) = std::sync::mpsc::channel();
    let (let_go, leave) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let reader = scope.spawn({
            let (tenant, file) = (&tenant, &file);
            move || {
                let mut first = true;
                let read = |page: PageView<'_>| {
                    if std::mem::take(&mut first) {
                        inside.send(()).unwrap();
                        // This ends when the sender is dropped, too, so that a failed check leaves no thread
                        // waiting.
                        let _ = leave.recv();
                    }
                    page.read_u64(0)
                };
                tenant.optimistic(file.page(0), read).map(|(value, _)| value)
            }
        });
        let let_go = let_go;
        entered.recv().unwrap();
        assert!(tenant.try_read(file.page(60)).unwrap().is_none());
        assert!(tenant.read_timeout(file.page(62), Duration::ZERO).unwrap().is_none());
        assert_eq!(tenant.prefetch([file.page(63)]), 0);
        let mut future = Box::pin(tenant.read_async(file.page(64)));
        let mut context = Context::from_waker(std::task::Waker::noop());
        assert!(future.as_mut().poll(&mut context).is_pending());
        drop(future);
        let_go.send(()).unwrap();
        // The read saw a page that has left meanwhile, so it is repeated, and waits for a frame itself.
        assert!(reader.join().unwrap().is_ok());
    });
    pins.clear();
    // The frame is not lost.
    let all: Vec<_> = (0..frames).map(|number| tenant.read(file.page(number)).unwrap().pin()).collect();
    drop(all);
    pool.check_invariants();
}

/// A frame that was set aside is there again for a batch, once its readers have left.
#[test]
fn a_batch_gets_frames_that_readers_have_left() {
    let folder = directory();
    let pool = small().manager(None).open().unwrap();
    let file = optimistic_file(&pool, folder.path(), 100);
    let tenant = pool.default_tenant();
    let frames = u64::from(pool.frames());
    let mut pins = Vec::new();
    for number in 0..frames {
        let guard = tenant.create_optimistic(file.page(number)).unwrap();
        if number > 0 {
            pins.push(guard.pin());
        }
    }
    file.flush().unwrap();
    let (inside, entered) = std::sync::mpsc::channel();
    let (let_go, leave) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let reader = scope.spawn({
            let (tenant, file) = (&tenant, &file);
            move || {
                // The page stays in memory, so the read is not repeated.
                let read = |page: PageView<'_>| {
                    inside.send(()).unwrap();
                    let _ = leave.recv();
                    page.read_u64(0)
                };
                tenant.optimistic(file.page(1), read).map(drop)
            }
        });
        // Dropped here if a check fails, so that the reader does not wait for ever.
        let let_go = let_go;
        entered.recv().unwrap();
        assert!(tenant.try_read(file.page(60)).unwrap().is_none(), "the frame of page 0 is set aside");
        let_go.send(()).unwrap();
        reader.join().unwrap().unwrap();
    });
    // Optimistic readers of other tests of the process hold up such frames, too.
    let end = Instant::now() + Duration::from_secs(30);
    let got_frames = || {
        let guards = tenant.read_many(&[file.page(1), file.page(60)]);
        guards.into_iter().all(|guard| guard.unwrap().is_some())
    };
    while !got_frames() {
        assert!(Instant::now() < end, "the frame that page 0 had is free, and the batch got none");
        std::thread::yield_now();
    }
    drop(pins);
    pool.check_invariants();
}

/// More threads than processors, a pool that holds a third of the pages, writers and evictions all the time,
/// and an ordinary file whose pages are written through `&mut [u8]` in the same frames.
#[test]
fn reads_are_whole_whatever_happens_meanwhile() {
    on_each_backend(|io| {
        let folder = directory();
        let pool = small().io(io).open().unwrap();
        let file = optimistic_file(&pool, folder.path(), 48);
        let plain = pool.open_file(folder.path().join("plain"), FileOptions::new().create(true)).unwrap();
        plain.extend(48).unwrap();
        let setup = pool.default_tenant();
        for number in 0..48 {
            stamp(&mut setup.create_optimistic(file.page(number)).unwrap(), number, 0);
        }
        let (done, mut seen) = (AtomicBool::new(false), 0);
        std::thread::scope(|scope| {
            let readers: Vec<_> = (0..3)
                .map(|thread| {
                    let (pool, file, done) = (&pool, &file, &done);
                    scope.spawn(move || {
                        let tenant = pool.default_tenant();
                        let (mut latest, mut reads) = ([0; 48], 0_u64);
                        while !done.load(Ordering::Relaxed) {
                            let number = (reads * 7 + thread * 5) % 48;
                            let (version, _) = read(&tenant, file, number);
                            assert!(version >= latest[number as usize], "page {number} went back");
                            latest[number as usize] = version;
                            reads += 1;
                        }
                        reads
                    })
                })
                .collect();
            let writers: Vec<_> = (0..2)
                .map(|thread| {
                    let (pool, file, plain) = (&pool, &file, &plain);
                    scope.spawn(move || {
                        let tenant = pool.default_tenant();
                        for round in 1..=60 {
                            for number in (thread..48).step_by(2) {
                                stamp(
                                    &mut tenant.write_optimistic(file.page(number)).unwrap(),
                                    number,
                                    round,
                                );
                                tenant.write(plain.page(number)).unwrap().fill(round as u8);
                            }
                        }
                    })
                })
                .collect();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            done.store(true, Ordering::Relaxed);
            seen = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        });
        pool.check_invariants();
        let tenant = pool.default_tenant();
        for number in 0..48 {
            assert_eq!(read(&tenant, &file, number).0, 60);
            assert!(tenant.read(plain.page(number)).unwrap().iter().all(|&byte| byte == 60));
        }
        let stats = pool.stats();
        assert_eq!(stats.accesses, 48 + seen + 2 * 48 * 60 + 2 * 48);
        assert_eq!(stats.accesses, stats.hits + stats.misses);
        pool.close().unwrap();
    });
}
