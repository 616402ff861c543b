//! Goal: each kind of lock keeps out those who ask for the same kind, and nobody else. Method: a pool has a
//! file open while other pools, and plain calls of flock and fcntl, ask for a lock of it.

mod common;

use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool::{ErrorKind, FileLock, FileOptions};
use common::{PAGE_BYTES, directory, kind, small};

/// Whether an exclusive lock of the file could be had by flock, and by fcntl.
fn is_free(path: &std::path::Path) -> (bool, bool) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    // SAFETY: takes a descriptor that is open, and a flag; closing it ends the lock.
    let by_flock = unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0;
    // SAFETY: a structure of numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    // SAFETY: takes a descriptor that is open, and a structure that lives during the call.
    let by_fcntl = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) } == 0;
    (by_flock, by_fcntl)
}

#[test]
fn each_lock_keeps_out_those_who_ask_for_it() {
    let folder = directory();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![0; PAGE_BYTES]).unwrap();
    let locks =
        [(FileLock::Flock, (false, true)), (FileLock::Ofd, (true, false)), (FileLock::None, (true, true))];
    for (lock, free) in locks {
        let how = FileOptions::new().lock(lock);
        let (pool, other) = (small().open().unwrap(), small().open().unwrap());
        let file = pool.open_file(&path, how).unwrap();
        assert_eq!(is_free(&path), free, "{lock:?}");
        for asked in [FileLock::Flock, FileLock::Ofd] {
            for read_only in [false, true] {
                let opened = other.open_file(&path, how.lock(asked).read_only(read_only));
                match opened {
                    Ok(file) if asked != lock => file.close().unwrap(),
                    opened => assert_eq!(kind(opened), ErrorKind::FileLocked, "{asked:?} beside {lock:?}"),
                }
            }
        }
        // In one pool a file is open once, whatever its lock.
        assert_eq!(kind(pool.open_file(&path, how.lock(FileLock::None))), ErrorKind::FileAlreadyOpen);
        file.close().unwrap();
        assert_eq!(is_free(&path), (true, true), "{lock:?}");
    }
}

#[test]
fn readers_share_a_file_under_each_lock() {
    let folder = directory();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![0; PAGE_BYTES]).unwrap();
    for lock in [FileLock::Flock, FileLock::Ofd, FileLock::None] {
        let how = FileOptions::new().lock(lock).read_only(true);
        let pools = [(); 2].map(|()| small().open().unwrap());
        let files = pools.each_ref().map(|pool| pool.open_file(&path, how).unwrap());
        let third = small().open().unwrap();
        let writer = third.open_file(&path, how.read_only(false));
        assert_eq!(writer.is_ok(), lock == FileLock::None, "{lock:?}");
        drop((writer, files));
    }
}

/// The file is read by more threads than there are shards of reference counts of its source. After the close
/// none of them keeps the source open.
#[test]
fn a_closed_file_is_free_at_once_though_threads_were_reading_it() {
    const PAGES: u64 = 64;
    const THREADS: u64 = 8;
    let folder = directory();
    let path = folder.path().join("data");
    std::fs::write(&path, vec![0; PAGES as usize * PAGE_BYTES]).unwrap();
    let pool = small().open().unwrap();
    for _ in 0..30 {
        let file = pool.open_file(&path, FileOptions::default()).unwrap();
        let reading = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for first in 0..THREADS {
                let (tenant, file, reading) = (pool.default_tenant(), file.clone(), &reading);
                scope.spawn(move || {
                    let read = |number: u64| tenant.read(file.page(number % PAGES)).map(drop);
                    read(first).unwrap();
                    reading.fetch_add(1, Ordering::Relaxed);
                    let refused = (first..).find_map(|number| read(number).err()).unwrap();
                    assert_eq!(refused.kind(), ErrorKind::FileClosed);
                });
            }
            while reading.load(Ordering::Relaxed) < THREADS {
                std::thread::yield_now();
            }
            while let Err(busy) = file.clone().close() {
                assert_eq!(busy.kind(), ErrorKind::PageBusy);
            }
            assert_eq!(is_free(&path), (true, true));
        });
    }
}
