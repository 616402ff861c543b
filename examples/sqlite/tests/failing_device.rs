//! A device that fails for a while. A test program of its own, because the limit that makes writes fail is
//! one of the whole process.

mod common;

use common::{BUFPOOL, Db, pool};

/// Limits the length of the files that this process writes.
fn limit_files(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the limit through the reference.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

/// After a write that failed, the database can be read and written as before the transaction, by connections
/// that were open then, as soon as the device takes writes again.
#[test]
fn a_database_goes_on_when_its_device_does() {
    pool();
    // SAFETY: a write that is refused is an error then, and not the end of the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let (db, other) = (Db::open(&path, BUFPOOL), Db::open(&path, BUFPOOL));
    db.run("CREATE TABLE t(a, b); PRAGMA synchronous = FULL");
    let rows = "WITH n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 4000)";
    db.run(&format!("{rows} INSERT INTO t SELECT a, hex(zeroblob(50)) FROM n"));
    db.run("BEGIN; UPDATE t SET b = 1 WHERE a > 3600");
    // The pages to be written are beyond the limit, and the journal is not.
    limit_files(300 << 10);
    let refused = db.try_rows("COMMIT");
    let _ = db.try_rows("ROLLBACK");
    limit_files(libc::RLIM_INFINITY);
    assert!(refused.is_err(), "the pages could not be written");
    for db in [&db, &other] {
        assert_eq!(db.value("SELECT count(*) FROM t WHERE b = 1"), "0");
        db.run("INSERT INTO t VALUES(0, 0)");
        assert_eq!(db.value("PRAGMA integrity_check"), "ok");
    }
    assert_eq!(other.value("SELECT count(*) FROM t"), "4002");
}
