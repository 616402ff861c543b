//! Goal: the child of a fork can do nothing with its parent's pool, to it, or to its files, and does not
//! crash or hang when it tries. Method: a process forks with pages in memory, dirty ones among them, and
//! guards held; the child makes every call, drops everything and says by its exit status whether each call
//! was as it should be. Then the parent goes on.

mod common;

use std::env;
use std::future::Future;
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};

use bufpool::engine::{Event, Log, Recorder};
use bufpool::{
    ErrorKind, File, FileOptions, Io, IoBackend, Policy, Pool, PoolOptions, Program, Result, Tenant,
};
use common::{PAGE_BYTES, deterministic, directory, kind, small, stamp, version};

const PAGES: u64 = 64;
/// Seconds after which a child that hangs is ended by a signal.
const CHILD_SECONDS: u32 = 60;
/// In the environment of a process that tries to open a file which is locked: its path.
const LOCKED: &str = "BUFPOOL_FORK_LOCKED";

struct Ignores;

impl Recorder for Ignores {
    fn record(&mut self, _: Event<'_>) {}
}

struct NoLog;

impl Log for NoLog {
    fn end(&self) -> u64 {
        1
    }

    fn durable(&self) -> u64 {
        1
    }

    fn advance(&self, _: u64) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// A pool with a file of `PAGES` pages, of which the first 16 are dirty in memory, at version 1, and those
/// from 48 on were never used.
fn pool_with_pages(options: PoolOptions, directory: &Path) -> Result<(Pool, Tenant, File, PathBuf)> {
    std::fs::create_dir_all(directory).unwrap();
    let path = directory.join("data");
    let pool = options.log(Box::new(NoLog)).open()?;
    let file = pool.open_file(&path, FileOptions::new().create(true))?;
    file.extend(PAGES)?;
    let tenant = pool.tenant("tenant").open()?;
    for number in 0..16 {
        stamp(&mut tenant.write(file.page(number))?, number, 1);
    }
    Ok((pool, tenant, file, path))
}

/// Forks. Returns true in the child, which a signal ends if it hangs.
fn forks(child: &mut libc::pid_t) -> bool {
    // SAFETY: the child does nothing but what the tests are about, and ends by `_exit`.
    *child = unsafe { libc::fork() };
    assert!(*child >= 0);
    if *child == 0 {
        // SAFETY: takes a number.
        unsafe { libc::alarm(CHILD_SECONDS) };
    }
    *child == 0
}

/// Does the child's part. False if it panics.
fn goes_well(part: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(part)).is_ok()
}

fn end_child(well: bool) -> ! {
    // SAFETY: takes a number.
    unsafe { libc::_exit(if well { 0 } else { 1 }) }
}

fn assert_child_ended_well(child: libc::pid_t) {
    let mut status = 0;
    // SAFETY: `status` is valid for the call.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0, "signal {}, exit status {}", libc::WTERMSIG(status), libc::WEXITSTATUS(status));
}

#[track_caller]
fn refused<T>(result: Result<T>) {
    assert_eq!(kind(result), ErrorKind::ForkedChild);
}

fn poll<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

/// Makes every call that does not consume its handle, and checks that each is refused.
fn calls_are_refused(pool: &Pool, tenant: &Tenant, file: &File) {
    // Resident, evicted and never used.
    for number in [0, 15, 40, 63] {
        let page = file.page(number);
        refused(tenant.read(page));
        refused(tenant.write(page));
        refused(tenant.create(page));
        refused(tenant.try_read(page));
        refused(tenant.try_write(page));
        refused(tenant.read_timeout(page, std::time::Duration::MAX));
        refused(tenant.create_owned(page));
        refused(tenant.try_read_owned(page));
        refused(tenant.write_owned_timeout(page, std::time::Duration::MAX));
        refused(tenant.pin(page));
        refused(tenant.try_pin(page));
        refused(tenant.try_pin_owned(page));
        refused(pool.default_tenant().read(page));
        assert!(matches!(poll(pin!(tenant.read_async(page))), Poll::Ready(Err(error))
            if error.kind() == ErrorKind::ForkedChild));
        assert!(matches!(poll(pin!(tenant.write_async(page))), Poll::Ready(Err(error))
            if error.kind() == ErrorKind::ForkedChild));
        refused(file.flush_page(number));
    }
    let pages: Vec<_> = (0..PAGES).map(|number| file.page(number)).collect();
    assert_eq!(tenant.prefetch(pages.iter().copied()), 0);
    tenant.read_many(&pages).into_iter().for_each(refused);
    refused(tenant.hint([bufpool::HintedPage::from(pages[0])]));

    refused(file.extend(1));
    refused(file.truncate(1));
    refused(file.discard(0..1));
    refused(file.flush());
    refused(file.reopen());
    refused(file.clone().close());
    refused(file.clone().remove());
    assert_eq!((file.pages(), file.page_bytes()), (PAGES, PAGE_BYTES));

    refused(tenant.set_policy(0, Policy::Mru));
    refused(tenant.policy(0));
    refused(tenant.set_priority(file, 1));
    refused(tenant.priority(file));
    refused(tenant.set_temporary_priority(file, 0..1, -1));
    let program = Program::parse(
        "policy oldest { event initial { ret } event fault(p) { ret } event replace(c) { ret c } }",
    );
    refused(tenant.set_program(&program.unwrap()));
    refused(tenant.send("slot", 1));
    refused(tenant.clear_program());
    refused(tenant.set_floor_frames(1));
    refused(tenant.set_cap_frames(4));
    refused(tenant.clone().close());

    refused(pool.open_file("/nowhere", FileOptions::new()));
    refused(pool.tenant("another").open());
    refused(pool.checkpoint());
    refused(pool.set_dirty_limit_percent(1));
    refused(pool.clone().close());
    assert_eq!(
        (pool.stats().frames, pool.stats().accesses, pool.stats().tenants.len()),
        (pool.frames(), 0, 0)
    );
    assert!(pool.report().to_string().contains("frames"));
    assert!(pool.files().is_empty());
    assert!(pool.io().to_string().contains("forked"));
    assert_eq!(pool.min_dirty_lsn(), None);
    let error = tenant.read(file.page(0)).unwrap_err().to_string();
    // SAFETY: takes nothing.
    assert!(error.contains(&format!("process {}", unsafe { libc::getppid() })), "{error}");
}

/// The parent's pool works, its file is locked, and nothing is lost.
fn parent_goes_on(pool: Pool, tenant: Tenant, file: File, path: &Path) -> Result<()> {
    for number in 0..16 {
        assert_eq!(version(&tenant.read(file.page(number))?, number), 1);
    }
    for number in 8..PAGES {
        stamp(&mut tenant.write(file.page(number))?, number, 2);
    }
    assert_opening_elsewhere_is_refused(path);
    pool.checkpoint()?;
    assert_eq!(pool.stats().dirty_frames, 0);
    drop((tenant, file));
    pool.close()?;
    let written = std::fs::File::open(path).unwrap();
    for number in 0..PAGES {
        let mut page = vec![0; PAGE_BYTES];
        written.read_exact_at(&mut page, number * PAGE_BYTES as u64).unwrap();
        assert_eq!(version(&page, number), if number < 8 { 1 } else { 2 });
    }
    Ok(())
}

fn assert_opening_elsewhere_is_refused(path: &Path) {
    let other = Command::new(env::current_exe().unwrap())
        .args(["--exact", "another_process_finds_the_file_locked", "--nocapture", "--test-threads=1"])
        .env(LOCKED, path)
        .output()
        .unwrap();
    assert!(other.status.success(), "{}: {}", other.status, String::from_utf8_lossy(&other.stderr));
}

/// Does something only in the process that [`assert_opening_elsewhere_is_refused`] starts.
#[test]
fn another_process_finds_the_file_locked() {
    let Some(path) = env::var_os(LOCKED) else { return };
    let pool = small().open().unwrap();
    assert_eq!(kind(pool.open_file(&path, FileOptions::new())), ErrorKind::FileLocked);
}

/// Real backends, and a pool with a recorder, which hears of every guard.
fn on_each_kind(test: impl Fn(PoolOptions)) {
    test(small().io(Io::Require(IoBackend::Threads)));
    match small().io(Io::Require(IoBackend::Uring)).open() {
        Ok(_) => test(small().io(Io::Require(IoBackend::Uring))),
        Err(error) => println!("skipped on io_uring: {error}"),
    }
    test(deterministic().recorder(Box::new(Ignores)));
}

#[test]
fn a_child_is_refused_everything_and_changes_nothing() {
    on_each_kind(|options| {
        let directory = directory();
        let (pool, tenant, file, path) = pool_with_pages(options, directory.path()).unwrap();
        let mut child = 0;
        if forks(&mut child) {
            let calls = goes_well(|| calls_are_refused(&pool, &tenant, &file));
            let drops = goes_well(|| drop((pool, tenant, file)));
            end_child(calls && drops);
        }
        assert_child_ended_well(child);
        parent_goes_on(pool, tenant, file, &path).unwrap();
    });
}

#[test]
fn guards_held_across_a_fork_show_zeros_and_let_go_of_nothing() {
    on_each_kind(|options| {
        let directory = directory();
        let (pool, tenant, file, path) = pool_with_pages(options, directory.path()).unwrap();
        let reads: Vec<_> = (0..6).map(|_| tenant.read(file.page(1)).unwrap()).collect();
        let mut write = tenant.write(file.page(2)).unwrap();
        let downgraded = tenant.write(file.page(3)).unwrap();
        let pin = tenant.pin(file.page(4)).unwrap();
        let Poll::Ready(Ok(owned)) = poll(pin!(tenant.read_async(file.page(5)))) else { panic!("resident") };
        let Poll::Ready(Ok(mut owned_write)) = poll(pin!(tenant.write_async(file.page(6)))) else {
            panic!("resident")
        };
        let mut loading = Box::pin(tenant.read_async(file.page(50)));
        let _ = poll(loading.as_mut());
        let mut waiting = Box::pin(tenant.write_async(file.page(5)));
        assert!(poll(waiting.as_mut()).is_pending());
        let mut child = 0;
        if forks(&mut child) {
            let well = goes_well(|| {
                assert!(reads.iter().all(|read| read.iter().all(|byte| *byte == 0)));
                assert!(owned.iter().all(|byte| *byte == 0));
                write.fill(9);
                write.set_lsn(1);
                assert!(write.iter().all(|byte| *byte == 9));
                owned_write.fill(9);
                drop(reads[0].pin());
                refused(pin.read());
                refused(pin.write());
                drop((downgraded.downgrade(), write, pin, owned, owned_write));
                drop((loading, waiting));
                drop(reads);
                calls_are_refused(&pool, &tenant, &file);
            });
            let drops = goes_well(|| drop((pool, tenant, file)));
            end_child(well && drops);
        }
        assert_child_ended_well(child);
        assert!(reads.iter().all(|read| version(read, 1) == 1));
        drop((reads, pin, owned, owned_write, downgraded, write, loading, waiting));
        parent_goes_on(pool, tenant, file, &path).unwrap();
    });
}

#[test]
fn an_optimistic_read_during_which_a_process_forks_fails_in_the_child() {
    let directory = directory();
    let pool = small().open().unwrap();
    let path = directory.path().join("data");
    let file = pool.open_file(&path, FileOptions::new().create(true).optimistic(true)).unwrap();
    file.extend(1).unwrap();
    let tenant = pool.default_tenant();
    tenant.create_optimistic(file.page(0)).unwrap().write_u64(0, 7);
    let (_, before) = tenant.optimistic(file.page(0), |page| page.read_u64(0)).unwrap();
    let (mut child, mut forked) = (0, false);
    let seen = tenant.optimistic(file.page(0), |page| {
        if !std::mem::replace(&mut forked, true) {
            forks(&mut child);
        }
        page.read_u64(0)
    });
    if child == 0 {
        let well = goes_well(|| {
            assert!(!tenant.still(file.page(0), before));
            refused(seen);
            refused(tenant.optimistic(file.page(0), |page| page.read_u64(0)));
            refused(tenant.write_optimistic(file.page(0)));
            drop((tenant, file, pool));
        });
        end_child(well);
    }
    assert_child_ended_well(child);
    assert_eq!(seen.unwrap().0, 7);
    assert!(tenant.still(file.page(0), before));
    pool.close().unwrap();
}

/// The process forks while other threads may hold any lock of the pool.
#[test]
fn a_child_waits_for_no_lock_of_threads_that_are_not_there() {
    let directory = directory();
    let (pool, tenant, file, path) = pool_with_pages(small(), directory.path()).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (pool, tenant, file, is_over) = (&pool, &tenant, &file, &is_over);
            scope.spawn(move || {
                let mut number = thread;
                while !is_over.load(Ordering::Relaxed) {
                    number = (number * 5 + 7) % 48;
                    if number >= 16 && thread == 0 {
                        stamp(&mut tenant.write(file.page(number)).unwrap(), number, 3);
                    }
                    tenant.read(file.page(number)).unwrap();
                    pool.stats();
                }
            });
        }
        // If a child fails, the threads are still told to end.
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..50 {
                let mut child = 0;
                if forks(&mut child) {
                    end_child(goes_well(|| {
                        calls_are_refused(&pool, &tenant, &file);
                        drop((pool.clone(), tenant.clone(), file.clone()));
                    }));
                }
                assert_child_ended_well(child);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    parent_goes_on(pool, tenant, file, &path).unwrap();
}

/// Handles of the parent's pool that a child drops are not counted for the pools that the child opens itself.
#[test]
fn a_pool_of_the_childs_own_ends_with_its_last_guard() {
    let directory = directory();
    let (pool, tenant, file, path) = pool_with_pages(small(), directory.path()).unwrap();
    drop(tenant.read_owned(file.page(0)).unwrap());
    let mut child = 0;
    if forks(&mut child) {
        let well = goes_well(|| {
            drop((pool, tenant, file));
            let (pool, tenant, file, path) =
                pool_with_pages(small(), &directory.path().join("child")).unwrap();
            // With handles of so many files, the thread keeps none of the parent's in hand.
            let other = |number| common::new_file(&pool, directory.path(), &format!("other {number}"), 1);
            let others: Vec<File> = (0..64).map(other).collect();
            for _ in 0..8 {
                others.iter().for_each(|other| drop(tenant.read_owned(other.page(0)).unwrap()));
            }
            drop(others);
            let guard = tenant.read_owned(file.page(1)).unwrap();
            drop((file, tenant, pool));
            drop(guard);
            small().open().unwrap().open_file(path, FileOptions::new()).unwrap();
        });
        end_child(well);
    }
    assert_child_ended_well(child);
    parent_goes_on(pool, tenant, file, &path).unwrap();
}
