//! A device that fails for a while. A test program of its own, because the limit that makes writes fail is
//! one of the whole process.

mod common;

use std::path::Path;

use common::{BUFPOOL, Db, UNIX, pool};

/// Limits the length of the files that this process writes.
fn limit_files(bytes: libc::rlim_t) {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: reads the limit through the reference.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
}

/// Rows of which 400 are changed in pages that are beyond the limit below.
const ROWS: &str = "WITH n(a) AS (SELECT 1 UNION ALL SELECT a + 1 FROM n WHERE a < 4000)
    INSERT INTO t SELECT a, hex(zeroblob(50)) FROM n";
const CHANGE: &str = "BEGIN; UPDATE t SET b = 1 WHERE a > 3600";
const LIMIT: libc::rlim_t = 300 << 10;

/// Runs statements while the device takes no pages beyond the limit. The journal is not so long.
fn refused(statement: impl FnOnce() -> Result<Vec<common::Row>, common::SqlError>) {
    limit_files(LIMIT);
    let refused = statement();
    limit_files(libc::RLIM_INFINITY);
    assert!(refused.is_err(), "the pages could not be written");
}

/// After a write that failed, the database can be read and written as before the transaction, by connections
/// that were open then, as soon as the device takes writes again; and the log can be written to the database,
/// by connections that keep their lock.
#[test]
fn a_database_goes_on_when_its_device_does() {
    pool();
    // SAFETY: a write that is refused is an error then, and not the end of the process.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    let folder = tempfile::tempdir().unwrap();
    for mode in ["delete", "memory"] {
        goes_on(&folder.path().join(format!("{mode}.db")), mode);
    }
    for mapped_bytes in [0, 1 << 30] {
        checkpoint_goes_on(&folder.path().join(format!("wal-{mapped_bytes}.db")), mapped_bytes);
    }
}

fn goes_on(path: &Path, mode: &str) {
    let (db, other) = (Db::open(path, BUFPOOL), Db::open(path, BUFPOOL));
    db.run(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(a, b); PRAGMA synchronous = FULL"));
    db.run(ROWS);
    db.run(CHANGE);
    refused(|| db.try_rows("COMMIT"));
    let _ = db.try_rows("ROLLBACK");
    for db in [&db, &other] {
        assert_eq!(db.value("SELECT count(*) FROM t WHERE b = 1"), "0", "{mode}");
        db.run("INSERT INTO t VALUES(0, 0)");
        assert_eq!(db.value("PRAGMA integrity_check"), "ok", "{mode}");
    }
    assert_eq!(other.value("SELECT count(*) FROM t"), "4002", "{mode}");
}

fn checkpoint_goes_on(path: &Path, mapped_bytes: u64) {
    const CHECKPOINT: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
    let (db, other) = (Db::open(path, BUFPOOL), Db::open(path, BUFPOOL));
    for db in [&db, &other] {
        db.run(&format!("PRAGMA mmap_size = {mapped_bytes}; PRAGMA wal_autocheckpoint = 0"));
    }
    db.run(&format!(
        "PRAGMA journal_mode = wal; CREATE TABLE t(a, b); {ROWS}; {CHECKPOINT}; {CHANGE}; COMMIT"
    ));
    // A checkpoint that a reader keeps from its end is not synced: the page that it writes is lost below.
    let reader = other.cursor("SELECT a FROM t");
    db.run("INSERT INTO t VALUES(0, 0)");
    assert_eq!(db.rows("PRAGMA wal_checkpoint(PASSIVE)")[0][0].as_deref(), Some("0"));
    drop(reader);
    db.run("INSERT INTO t VALUES(0, 0)");
    let reader = other.cursor("SELECT a FROM t");
    refused(|| db.try_rows("PRAGMA wal_checkpoint(PASSIVE)"));
    assert!(db.try_rows("PRAGMA wal_checkpoint(PASSIVE)").is_err(), "somebody reads");
    drop(reader);
    for db in [&other, &db] {
        assert_eq!(db.value("SELECT count(*) || ' ' || sum(b = 1) FROM t"), "4002 400");
        assert_eq!(db.rows(CHECKPOINT)[0][0].as_deref(), Some("0"));
    }
    assert_eq!(path.with_extension("db-wal").metadata().unwrap().len(), 0);
    drop((db, other));
    let db = Db::open(path, UNIX);
    assert_eq!(db.value("SELECT count(*) || ' ' || sum(b = 1) FROM t"), "4002 400");
    assert_eq!(db.value("PRAGMA integrity_check"), "ok");
}
