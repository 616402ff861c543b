//! Connections to one database: in this process by the pool, in others by SQLite's own VFS.

mod common;

use std::ffi::CStr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use bufpool::PoolOptions;
use bufpool_sqlite::{Sharing, VfsOptions};
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
fn a_new_database_has_the_permissions_that_its_uri_names() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let like = folder.path().join("like");
    fs::write(&like, "").unwrap();
    fs::set_permissions(&like, fs::Permissions::from_mode(0o662)).unwrap();
    for vfs in [UNIX, BUFPOOL] {
        let path = folder.path().join(vfs.to_str().unwrap());
        let uri = |like: &str| format!("file:{}?modeof={like}", path.display());
        let missing = Db::try_open(uri("/no/such/file"), vfs).map(drop).unwrap_err();
        assert_eq!((missing.code, path.exists()), (ffi::SQLITE_IOERR, false), "{vfs:?}: {missing:?}");
        Db::open(uri(like.to_str().unwrap()), vfs).run("CREATE TABLE t(a)");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o662, "{vfs:?}");
        // Those of a database that is there are its own.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        Db::open(uri(like.to_str().unwrap()), vfs).run("INSERT INTO t VALUES(1)");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600, "{vfs:?}");
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

/// A transaction that has written, and reads more than SQLite's cache holds, writes its changes early, and
/// lets no new readers in from then on. Pages that SQLite reads in their frames take no place in that cache.
/// SQLite reads only pages in their frames that are no larger than the pool's.
#[test]
fn pages_larger_than_those_of_the_pool_fill_sqlites_cache() {
    let pool_page_bytes = pool().page_bytes();
    let is_busy = |vfs, page_bytes: usize, mapped_bytes: u64| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let db = Db::open(&path, vfs);
        db.run(&format!("PRAGMA page_size = {page_bytes}; CREATE TABLE t(k INTEGER PRIMARY KEY, b)"));
        db.run(&a_row_for_each_page(page_bytes));
        drop(db);
        let db = Db::open(&path, vfs);
        db.run(&format!("PRAGMA cache_size = 8; PRAGMA mmap_size = {mapped_bytes}"));
        lets_nobody_read_after_reading(&db, &path, vfs)
    };
    assert!(is_busy(UNIX, pool_page_bytes, 0) && !is_busy(UNIX, pool_page_bytes, 1 << 30));
    assert!(is_busy(BUFPOOL, pool_page_bytes, 0) && is_busy(BUFPOOL, 2 * pool_page_bytes, 1 << 30));
}

/// SQLite's unix VFS maps what the file was when the connection first read from it, and what the file grows
/// by later, unless the connection reads in the mapping then. This VFS pins each page by itself, so pages are
/// read in their frames however the file has grown. The cache, and so the locks, differ as they do above.
#[test]
fn pages_that_a_file_grows_by_while_it_is_read_are_in_their_frames() {
    pool();
    let pool = PoolOptions::new().frames(1024).page_bytes(4096).open().unwrap();
    bufpool_sqlite::register(c"roomy", &pool, VfsOptions::default()).unwrap();
    let is_busy = |vfs, maps_anew: bool| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.db");
        let db = Db::open(&path, vfs);
        db.run(
            "CREATE TABLE small(a, b); INSERT INTO small VALUES(1, zeroblob(3000)), (2, zeroblob(3000));
             CREATE TABLE t(k INTEGER PRIMARY KEY, b); PRAGMA cache_size = 8; PRAGMA mmap_size = 1000000000",
        );
        let cursor = db.cursor("SELECT a FROM small");
        db.run(&format!("BEGIN; {}; COMMIT", a_row_for_each_page(4096)));
        drop(cursor);
        if maps_anew {
            db.run("PRAGMA mmap_size = 1000000001");
        }
        lets_nobody_read_after_reading(&db, &path, vfs)
    };
    assert!(is_busy(UNIX, false) && !is_busy(UNIX, true));
    assert!(!is_busy(c"roomy", false));
}

/// The SQL that fills the table `t` with 40 pages.
fn a_row_for_each_page(page_bytes: usize) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40)
         INSERT INTO t SELECT i, zeroblob({page_bytes} * 3 / 4) FROM n"
    )
}

/// Whether a transaction of `db` that changes three pages, and then reads twenty, lets nobody begin to read.
fn lets_nobody_read_after_reading(db: &Db, path: &Path, vfs: &CStr) -> bool {
    let reader = Db::open(path, vfs);
    let _cursor = reader.cursor("SELECT k FROM t");
    db.run("BEGIN; UPDATE t SET b = zeroblob(length(b) - 1) WHERE k <= 3");
    let new_reader = || Db::open(path, vfs).try_rows("SELECT k FROM t WHERE k = 1").map(drop);
    assert_eq!(new_reader(), Ok(()));
    // Four pages at a time.
    db.run(
        "SELECT a.b, b.b, c.b, d.b FROM t a JOIN t b ON b.k = a.k + 2 JOIN t c ON c.k = a.k + 4
         JOIN t d ON d.k = a.k + 6 WHERE a.k > 20",
    );
    new_reader().is_err_and(|error| error.code == ffi::SQLITE_BUSY)
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
fn a_connection_that_may_only_read_leaves_the_log_as_it_is() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path, BUFPOOL);
    db.run("PRAGMA journal_mode = wal; CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 2)");
    let reader = Db::open(format!("file:{}?mode=ro", path.display()), BUFPOOL);
    assert_eq!(reader.value("SELECT b FROM t"), "2");
    assert_eq!(reader.try_rows("DELETE FROM t").unwrap_err().code, ffi::SQLITE_READONLY);
    drop(db);
    assert_eq!(reader.value("SELECT b FROM t"), "2");
    drop(reader);
    assert!(folder.path().join("x.db-wal").exists());
    assert_eq!(Db::open(&path, UNIX).value("SELECT b FROM t"), "2");
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
    let test = "other_processes_are_told_that_the_database_is_busy";
    let db = Db::open(&path, BUFPOOL);
    for mode in ["delete", "wal"] {
        db.run(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE IF NOT EXISTS t(a, b)"));
        assert_eq!(other_process(test, &path), [ffi::SQLITE_BUSY, ffi::SQLITE_BUSY]);
    }
    drop(db);
    assert_eq!(other_process(test, &path), [0, 0]);
}

#[test]
fn a_database_that_another_vfs_reads_is_busy_until_it_is_done() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let unix = Db::open(&path, UNIX);
    unix.run("CREATE TABLE t(a, b); INSERT INTO t VALUES(1, 1); BEGIN; SELECT * FROM t");
    // Not closed before the other connection is: closing a descriptor would end the locks that the unix VFS
    // has for this process.
    let db = Db::open(&path, BUFPOOL);
    assert_eq!(db.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
    unix.run("COMMIT");
    assert_eq!(db.value("SELECT a FROM t"), "1");
    assert_eq!(unix.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
}

#[test]
fn a_database_that_is_shared_belongs_to_others_between_transactions() {
    pool();
    let pool = PoolOptions::new().frames(64).page_bytes(4096).open().unwrap();
    let options = VfsOptions { sharing: Sharing::BetweenTransactions, ..VfsOptions::default() };
    bufpool_sqlite::register(c"shared", &pool, options).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let (one, two) = (Db::open(&path, c"shared"), Db::open(&path, c"shared"));
    let unix = Db::open(&path, UNIX);
    one.run("PRAGMA page_size = 1024; CREATE TABLE t(a, b)");
    for rows in [1, 100, 400] {
        fill(&one, rows);
        fill(&unix, rows);
        fill(&two, rows);
        assert_eq!(one.value("SELECT count(*) FROM t"), unix.value("SELECT count(*) FROM t"));
        let pages: u64 = unix.value("PRAGMA page_count").parse().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), pages * 1024);
        two.run("BEGIN; SELECT * FROM t");
        assert_eq!(unix.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
        two.run("COMMIT");
        unix.run("BEGIN; SELECT * FROM t");
        assert_eq!(one.try_rows("SELECT * FROM t").unwrap_err().code, ffi::SQLITE_BUSY);
        unix.run("COMMIT");
    }
    assert_eq!(two.value("PRAGMA integrity_check"), "ok");
}

#[test]
fn a_file_that_cannot_grow_fails_the_statement_and_nothing_else() {
    if let Some(path) = env::var_os(OTHER_PROCESS) {
        pool();
        let limit = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
        // SAFETY: the signal is not handled anywhere else.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        // SAFETY: the limit is read during the call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit) }, 0);
        let db = Db::open(&path, BUFPOOL);
        db.run("CREATE TABLE t(a, b); INSERT INTO t VALUES(0, 0)");
        let error = (0..100).find_map(|_| db.try_rows(&filling(500)).err());
        println!("answer {}", error.map_or(0, |error| error.code));
        println!("answer {}", i32::from(db.value("PRAGMA integrity_check") != "ok"));
        db.run("DELETE FROM t WHERE a > 10");
        return;
    }
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let test = "a_file_that_cannot_grow_fails_the_statement_and_nothing_else";
    assert_eq!(other_process(test, &path), [ffi::SQLITE_IOERR, 0]);
    let db = Db::open(&path, UNIX);
    assert_eq!(db.value("PRAGMA integrity_check"), "ok");
    assert_eq!(db.value("SELECT max(a) FROM t"), "10");
}

#[test]
fn a_full_device_fails_statements_and_loses_nothing() {
    if let Some(folder) = env::var_os(OTHER_PROCESS) {
        let folder = Path::new(&folder);
        mount_small_file_system(folder);
        pool();
        for (mode, file) in [("delete", "d.db"), ("wal", "w.db"), ("memory", "m.db")] {
            println!("answer {}", run_until_full(folder, mode, &folder.join(file)));
        }
        return;
    }
    let Some(namespace) = mount_namespace() else {
        println!("skipped: no file system can be mounted here");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(namespace).arg(env::current_exe().unwrap());
    let test = "a_full_device_fails_statements_and_loses_nothing";
    assert_eq!(answers(&mut command, test, folder.path()), [ffi::SQLITE_FULL; 3]);
}

/// Adds rows to a new database until the device is full, makes room, and goes on. Returns the code of the
/// statement that found no room.
fn run_until_full(folder: &Path, mode: &str, path: &Path) -> i32 {
    let ballast = folder.join("ballast");
    fs::write(&ballast, vec![1; 5 << 20]).unwrap();
    let db = Db::open(path, BUFPOOL);
    db.run(&format!("PRAGMA journal_mode = {mode}; CREATE TABLE t(a, b)"));
    let committed = |db: &Db| db.value("SELECT count(*) FROM t").parse::<u32>().unwrap();
    let mut rows = 0;
    let error = loop {
        match db.try_rows(&filling(500)) {
            Ok(_) => rows += 500,
            Err(error) => break error.code,
        }
        assert!(rows < 100_000, "the device is never full");
    };
    assert_eq!((committed(&db), db.value("PRAGMA integrity_check")), (rows, "ok".into()), "{mode}");
    fs::remove_file(&ballast).unwrap();
    fill(&db, 500);
    assert_eq!(committed(&db), rows + 500);
    drop(db);
    let db = Db::open(path, BUFPOOL);
    assert_eq!((committed(&db), db.value("PRAGMA integrity_check")), (rows + 500, "ok".into()), "{mode}");
    drop(db);
    fs::remove_file(path).unwrap();
    error
}

/// Arguments of `unshare` for a mount that no other process sees; none where that is not allowed.
fn mount_namespace() -> Option<&'static [&'static str]> {
    let ways: [&[&str]; 2] = [&["--mount"], &["--user", "--map-root-user", "--mount"]];
    ways.into_iter().find(|way| {
        let tried =
            Command::new("unshare").args(*way).args(["mount", "-t", "tmpfs", "none", "/mnt"]).output();
        tried.is_ok_and(|output| output.status.success())
    })
}

/// Mounts a file system of 8 MiB at `folder`, in this process's own mount namespace.
fn mount_small_file_system(folder: &Path) {
    let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "size=8m", "none"]).arg(folder).status();
    assert!(mounted.unwrap().success());
}

/// The answers that this test prints in another process, with the database at `path`.
fn other_process(test: &str, path: &Path) -> Vec<i32> {
    answers(&mut Command::new(env::current_exe().unwrap()), test, path)
}

/// The answers that the test prints which `command` runs in another process.
fn answers(command: &mut Command, test: &str, path: &Path) -> Vec<i32> {
    command.args(["--exact", test, "--nocapture"]);
    let output = command.env(OTHER_PROCESS, path).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text.lines().filter_map(|line| line.split_once("answer ")?.1.parse().ok()).collect()
}

/// Adds rows to the table `t`.
fn fill(db: &Db, rows: u32) {
    db.run(&filling(rows));
}

fn filling(rows: u32) -> String {
    format!(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})
         INSERT INTO t SELECT i, hex(zeroblob(100)) FROM n"
    )
}

/// A process that may not write to a database cannot lock out others that write a log and have its index in
/// their own memory. It would read old rows, and then pages of two versions.
#[test]
fn a_log_is_not_read_by_who_may_not_write() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let writer = Db::open(&path, UNIX);
    writer.run("PRAGMA journal_mode = WAL");
    writer.run("CREATE TABLE t(a, b)");
    fill(&writer, 100);
    let others = |path: &Path, mode| fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
    others(folder.path(), 0o755);
    others(&path, 0o444);
    // Changes this thread alone. It has no effect for users other than root, who may not write the file
    // anyway.
    const NOBODY: libc::uid_t = 65_534;
    // SAFETY: changes who this thread is to files, and nothing else.
    let before = unsafe { libc::setfsuid(NOBODY) } as libc::uid_t;
    let reader = Db::open(&path, BUFPOOL);
    let refused = reader.try_rows("SELECT count(*) FROM t");
    // SAFETY: changes who this thread is to files, and nothing else.
    unsafe { libc::setfsuid(before) };
    assert_eq!(refused.unwrap_err().code, ffi::SQLITE_CANTOPEN);
}

/// A commit of a connection without locks is durable, too.
#[test]
fn a_commit_without_locks_is_in_the_file() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("x.db"), folder.path().join("copy.db"));
    let db = Db::open(format!("file:{}?nolock=1", path.display()), BUFPOOL);
    db.run("CREATE TABLE t(a, b)");
    fill(&db, 1000);
    fs::copy(&path, &copy).unwrap();
    let copy = Db::open(&copy, UNIX);
    assert_eq!(copy.value("SELECT count(*) FROM t"), "1000");
    assert_eq!(copy.value("PRAGMA integrity_check"), "ok");
}

/// A program that has closed a standard stream and writes to it all the same does not write to a database.
#[test]
fn a_database_is_none_of_the_standard_streams() {
    pool();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    // SAFETY: nobody reads from it; what another test opens meanwhile may get the number.
    unsafe { libc::close(0) };
    let db = Db::open(&path, BUFPOOL);
    db.run("CREATE TABLE t(a, b)");
    fill(&db, 10);
    let is_database =
        |number: u32| fs::read_link(format!("/proc/self/fd/{number}")).is_ok_and(|to| to == path);
    assert!(!(0..3).any(is_database));
    assert!((3..1000).any(is_database));
}

/// In WAL mode a connection with `locking_mode = EXCLUSIVE` asks for the whole database when it first writes.
/// While others read it is refused, and keeps what it reads; they go on, by either VFS.
#[test]
fn who_is_refused_a_database_of_its_own_leaves_it_to_others() {
    pool();
    for vfs in [UNIX, BUFPOOL] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("one.db");
        let [alone, reader, late] = [(); 3].map(|()| Db::open(&path, vfs));
        alone.run("PRAGMA journal_mode = wal; CREATE TABLE t(x); INSERT INTO t VALUES (1), (2)");
        let reading = reader.cursor("SELECT x FROM t");
        alone.run("PRAGMA locking_mode = exclusive; BEGIN; SELECT x FROM t");
        assert_eq!(alone.try_rows("INSERT INTO t VALUES (3)").unwrap_err().code, ffi::SQLITE_BUSY);
        assert_eq!(late.value("SELECT count(*) FROM t"), "2", "{vfs:?}");
        late.run("INSERT INTO t VALUES (4)");
        drop(reading);
        assert_eq!(alone.value("SELECT count(*) FROM t"), "2", "{vfs:?}");
    }
}
