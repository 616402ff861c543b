//! A process that may have few addresses: page tables are not where hits look for them, and pages are read and written all the same.

use bufpool::{Direct, ErrorKind, FileOptions, PoolOptions};

#[test]
fn files_of_a_process_with_few_addresses_work() -> bufpool::Result<()> {
    let pool = PoolOptions::new().page_bytes(4096).frames(64).direct(Direct::Prefer).open()?;
    let folder = tempfile::tempdir().unwrap();
    let tenant = pool.default_tenant();
    // Not enough for the table, and plenty for everything else.
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
}

/// So many bytes of addresses more than the process has now.
fn limit_addresses(more: u64) {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split_whitespace().next().unwrap().parse().unwrap();
    let most = pages * 4096 + more;
    let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
    // SAFETY: a limit of the process's own is set from a value.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}
