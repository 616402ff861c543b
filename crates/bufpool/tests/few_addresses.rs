//! Processes that may have few addresses: page tables are not where hits look for them, and pages are read
//! and written all the same. Each test sets limits, so it runs in a process of its own.

use std::env;
use std::fs::File as StdFile;
use std::path::PathBuf;
use std::process::Command;

use bufpool::{Direct, ErrorKind, FileOptions, Pool, PoolOptions};

/// In the child's environment.
const CHILD: &str = "BUFPOOL_FEW_ADDRESSES";

/// Runs `run` in a process that runs only the test of this name, which calls this. It must end well.
fn in_own_process(test: &str, run: fn() -> bufpool::Result<()>) {
    if env::var_os(CHILD).is_some() {
        return run().unwrap();
    }
    let child = Command::new(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "")
        .output()
        .unwrap();
    assert!(child.status.success(), "{}: {}", child.status, String::from_utf8_lossy(&child.stderr));
}

#[test]
fn files_of_a_process_with_few_addresses_work() {
    in_own_process("files_of_a_process_with_few_addresses_work", || {
        let pool = small_pool()?;
        let folder = tempfile::tempdir().unwrap();
        let tenant = pool.default_tenant();
        // Too little for the page table, and enough for everything else.
        limit_addresses(900 << 20);
        let file = pool.open_file(
            folder.path().join("pages"),
            FileOptions::new().create(true).optimistic(true).read_only(false),
        )?;
        file.extend(200)?;
        for number in 0..200 {
            tenant.create_optimistic(file.page(number))?.write_u64(8, number);
        }
        for number in (0..200).chain(190..200) {
            assert_eq!(tenant.read(file.page(number))?[8], number as u8);
            let (seen, version) = tenant.optimistic(file.page(number), |page| page.read_u64(8))?;
            assert_eq!(seen, number);
            assert!(tenant.still(file.page(number), version));
        }
        let beyond = tenant.read(file.page(200)).unwrap_err();
        assert_eq!(beyond.kind(), ErrorKind::PageBeyondEnd);
        assert!(pool.stats().hits > 0);
        pool.close()
    });
}

#[test]
fn page_tables_leave_addresses_to_the_rest_of_the_process() {
    in_own_process("page_tables_leave_addresses_to_the_rest_of_the_process", || {
        let pool = small_pool()?;
        let folder = tempfile::tempdir().unwrap();
        let tenant = pool.default_tenant();
        limit_addresses(600 << 20);
        let mut files = Vec::new();
        for name in 0..200_u64 {
            let file =
                pool.open_file(folder.path().join(name.to_string()), FileOptions::new().create(true))?;
            file.extend(1)?;
            tenant.create(file.page(0))?[..8].copy_from_slice(&name.to_le_bytes());
            files.push(file);
        }
        // What the engine itself needs: memory in small and large pieces, and a thread.
        let small: Vec<Vec<u8>> = (0..1000).map(|size| vec![1; size]).collect();
        let large: Vec<Vec<u8>> = (0..10).map(|_| vec![1; 4 << 20]).collect();
        assert_eq!(std::thread::spawn(move || small.len() + large.len()).join().unwrap(), 1010);
        for (name, file) in files.iter().enumerate() {
            assert_eq!(tenant.read(file.page(0))?[..8], (name as u64).to_le_bytes());
        }
        pool.close()
    });
}

#[test]
fn a_page_whose_word_finds_no_room_is_an_error() {
    in_own_process("a_page_whose_word_finds_no_room_is_an_error", || {
        let pool = small_pool()?;
        let folder = tempfile::tempdir().unwrap();
        let tenant = pool.default_tenant();
        // The last page needs 512 MiB for words.
        let path = file_of_holes(&folder);
        limit_addresses(400 << 20);
        let file = pool.open_file(&path, FileOptions::new())?;
        tenant.write(file.page(3))?[0] = 7;
        let tables_bytes = pool.stats().page_tables_bytes;
        for _ in 0..2 {
            let refused = tenant.read(file.page(file.pages() - 1)).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::FileLength);
            assert_eq!((refused.operation(), refused.page()), ("read page", Some((1 << 27) - 1)));
            assert!(refused.to_string().contains("536870912 bytes"), "{refused}");
            assert_eq!(tenant.prefetch([file.page(file.pages() - 2)]), 0);
        }
        assert_eq!(pool.stats().page_tables_bytes, tables_bytes);
        assert_eq!(tenant.read(file.page(3))?[0], 7);
        assert_eq!(tenant.read(file.page(100_000))?[0], 0);
        let other = pool.open_file(folder.path().join("other"), FileOptions::new().create(true))?;
        other.extend(1)?;
        tenant.create(other.page(0))?[0] = 8;
        pool.close()
    });
}

/// A page whose word would need nearly all of the addresses that are left is refused, as if there were none.
#[test]
fn words_that_are_needed_leave_addresses_to_the_rest_of_the_process() {
    in_own_process("words_that_are_needed_leave_addresses_to_the_rest_of_the_process", || {
        let pool = small_pool()?;
        let folder = tempfile::tempdir().unwrap();
        let tenant = pool.default_tenant();
        let path = file_of_holes(&folder);
        limit_addresses(900 << 20);
        let file = pool.open_file(&path, FileOptions::new())?;
        drop(tenant.read(file.page(3))?);
        // The word of this page comes with 256 MiB of others.
        let far = file.page(1 << 25);
        limit_addresses((256 + 8) << 20);
        assert_eq!(tenant.read(far).unwrap_err().kind(), ErrorKind::FileLength);
        limit_addresses((256 + 256) << 20);
        drop(tenant.read(far)?);
        pool.close()
    });
}

#[test]
fn a_pool_that_cannot_be_mapped_says_how_much_memory_it_wanted() {
    in_own_process("a_pool_that_cannot_be_mapped_says_how_much_memory_it_wanted", || {
        limit_addresses(64 << 20);
        let error = PoolOptions::new().memory_bytes(256 << 20).page_bytes(4096).open().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert_eq!(error.io_kind(), std::io::ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("268435456 bytes of memory for 65536 frames"), "{error}");
        Ok(())
    });
}

/// A file of 512 GiB that holds nothing.
fn file_of_holes(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("holes");
    StdFile::create(&path).unwrap().set_len((1 << 27) * 4096).unwrap();
    path
}

fn small_pool() -> bufpool::Result<Pool> {
    PoolOptions::new().page_bytes(4096).frames(64).direct(Direct::Prefer).open()
}

/// Limits the process, until the next call, to this many bytes of addresses more than it has now.
fn limit_addresses(more: u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
    let most = pages * 4096 + more;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: getrlimit fills the structure that the pointer names.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) }, 0);
    limit.rlim_cur = most;
    // SAFETY: a limit of the process's own is set from a value.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}
