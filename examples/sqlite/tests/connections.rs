//! Connections to one database: in this process by the pool, in others by SQLite's own VFS.

mod common;

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use common::{BUFPOOL, Db, UNIX, pool};
use libsqlite3_sys as ffi;

/// In the environment of this program run anew: the database that it is to look at.
const OTHER_PROCESS: &str = "BUFPOOL_SQLITE_OTHER_PROCESS";

#[test]
fn what_is_written_is_there_for_either_vfs() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path, BUFPOOL);
    db.run("CREATE TABLE t(a, b)");
    fill(&db, 5000);
    assert_eq!(db.value("PRAGMA integrity_check"), "ok");
    drop(db);
    for vfs in [UNIX, BUFPOOL] {
        let db = Db::open(&path, vfs);
        assert_eq!(db.value("SELECT count(*) || ' ' || sum(a) FROM t"), "5000 12502500");
        assert_eq!(db.value("PRAGMA integrity_check"), "ok");
        db.run("UPDATE t SET b = a || b");
    }
    let db = Db::open(&path, UNIX);
    assert_eq!(db.value("SELECT count(*) FROM t WHERE b LIKE a || a || '%'"), "5000");
}

#[test]
fn the_report_tells_connections_and_statements_apart() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let one = Db::open(folder.path().join("one.db"), BUFPOOL);
    let two = Db::open(folder.path().join("two.db"), BUFPOOL);
    one.run("CREATE TABLE t(a, b)");
    fill(&one, 300);
    two.run("CREATE TABLE t(a, b)");
    two.run("PRAGMA mmap_size = 1000000000");
    fill(&two, 300);
    one.run("SELECT sum(a) FROM t");
    two.run("SELECT max(b) FROM t");
    let report = one.value("PRAGMA bufpool_report");
    for (database, statement, call) in
        [("one.db", "SELECT sum(a) FROM t", "xRead"), ("two.db", "SELECT max(b) FROM t", "xFetch")]
    {
        let named = report.lines().find(|line| line.ends_with(&format!(": {statement}"))).unwrap();
        let number = named.split(':').next().unwrap();
        let is_context =
            |line: &&str| line.contains(database) && line.contains(&format!("{number} > {call}"));
        assert!(report.lines().any(|line| is_context(&line)), "{named}, {call}: {report}");
    }
}

#[test]
fn a_closed_database_has_the_length_that_it_should_have_to_the_byte() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    for page_bytes in [512, 1024, 4096, 65536] {
        let path = folder.path().join(format!("{page_bytes}.db"));
        let db = Db::open(&path, BUFPOOL);
        db.run(&format!("PRAGMA page_size = {page_bytes}; CREATE TABLE t(a, b)"));
        for rows in [1, 300, 7] {
            fill(&db, rows);
            db.run("VACUUM");
        }
        db.run("DELETE FROM t WHERE a > 100; VACUUM");
        let pages: u64 = db.value("PRAGMA page_count").parse().unwrap();
        assert_eq!(db.value("PRAGMA integrity_check"), "ok");
        drop(db);
        assert_eq!(fs::metadata(&path).unwrap().len(), pages * page_bytes);
        assert_eq!(Db::open(&path, UNIX).value("SELECT count(*) FROM t"), "108");
    }
}

#[test]
fn a_writer_keeps_out_other_connections_of_the_process_as_sqlite_has_it() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let (one, two) = (Db::open(&path, BUFPOOL), Db::open(&path, BUFPOOL));
    one.run("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 1)");
    assert_eq!(two.value("SELECT a FROM t"), "1");

    one.run("BEGIN IMMEDIATE; INSERT INTO t VALUES(2, 2)");
    assert_eq!(two.value("SELECT count(*) FROM t"), "1");
    assert_eq!(two.try_rows("INSERT INTO t VALUES(3, 3)").unwrap_err().code, ffi::SQLITE_BUSY);
    two.run("BEGIN; SELECT * FROM t");
    assert_eq!(one.try_rows("COMMIT").unwrap_err().code, ffi::SQLITE_BUSY);
    two.run("COMMIT");
    one.run("COMMIT");
    assert_eq!(two.value("SELECT count(*) FROM t"), "2");
}

#[test]
fn in_wal_mode_readers_keep_their_snapshot_beside_a_writer() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let (one, two) = (Db::open(&path, BUFPOOL), Db::open(&path, BUFPOOL));
    assert_eq!(one.value("PRAGMA journal_mode = wal"), "wal");
    one.run("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 1)");
    two.run("BEGIN; SELECT * FROM t");
    fill(&one, 2000);
    // The log cannot be written to the database behind the reader.
    assert_eq!(one.rows("PRAGMA wal_checkpoint(PASSIVE)")[0][0].as_deref(), Some("0"));
    assert_eq!(two.value("SELECT count(*) FROM t"), "1");
    two.run("COMMIT");
    assert_eq!(two.value("SELECT count(*) FROM t"), "2001");
    assert_eq!(one.rows("PRAGMA wal_checkpoint(TRUNCATE)")[0][0].as_deref(), Some("0"));
    fill(&two, 10);
    drop((one, two));
    assert!(!folder.path().join("x.db-wal").exists() && !folder.path().join("x.db-shm").exists());
    assert_eq!(Db::open(&path, UNIX).value("SELECT count(*) FROM t"), "2011");
}

#[test]
fn other_processes_are_told_that_the_database_is_busy() {
    if let Some(path) = env::var_os(OTHER_PROCESS) {
        pool();
        for vfs in [UNIX, BUFPOOL] {
            let answer = Db::open(&path, vfs).try_rows("SELECT count(*) FROM t");
            println!("answer {:?}", answer.map_or_else(|error| error.code, |_| 0));
        }
        return;
    }
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path, BUFPOOL);
    for mode in ["delete", "wal"] {
        db.run(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE IF NOT EXISTS t(a, b)"));
        assert_eq!(other_process(&path), [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY]);
    }
    drop(db);
    assert_eq!(other_process(&path), [0, 0]);
}

#[test]
fn a_database_that_another_vfs_reads_is_busy_until_it_is_done() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let unix = Db::open(&path, UNIX);
    unix.run("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 1); BEGIN; SELECT * FROM t");
    // Never closed before the other is done: closing a descriptor ends its process's locks on the file.
    let db = Db::open(&path, BUFPOOL);
    assert_eq!(db.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
    unix.run("COMMIT");
    assert_eq!(db.value("SELECT a FROM t"), "1");
    assert_eq!(unix.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
}

/// The result codes that another process gets with each VFS.
fn other_process(path: &Path) -> Vec<i32> {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "other_processes_are_told_that_the_database_is_busy", "--nocapture"]);
    let output = command.env(OTHER_PROCESS, path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split_once("answer ")?.1.parse().ok()).collect()
}

/// Adds rows to the table `t`.
fn fill(db: &Db, rows: u32) {
    db.run(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n"
    ));
}
