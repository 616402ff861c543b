//! Random statements, by the pool's VFS and by SQLite's own: the same answers, the same errors, and files
//! that are the same.

mod common;

use std::fs;
use std::path::Path;

use common::{BUFPOOL, Db, Random, UNIX, pool};

const STATEMENTS: usize = 150;

#[test]
fn in_delete_mode() {
    compare("delete", 0, &[(1, 512), (2, 1024), (3, 4096)]);
}

#[test]
fn in_wal_mode() {
    compare("wal", 0, &[(4, 512), (5, 4096), (6, 65536)]);
}

#[test]
fn in_persist_mode_with_truncation() {
    compare("persist", 0, &[(7, 2048), (8, 16384)]);
}

#[test]
fn with_pages_read_in_their_frames() {
    compare("delete", 1 << 30, &[(9, 4096)]);
    compare("wal", 1 << 30, &[(10, 4096), (11, 1024)]);
}

/// Runs of these seeds and page sizes.
fn compare(journal_mode: &str, mmap_bytes: u64, runs: &[(u64, u32)]) {
    pool();
    for &(seed, page_bytes) in runs {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().join("unix.db"), folder.path().join("bufpool.db")];
        let mut dbs = open(&paths, mmap_bytes);
        let vacuum = seed % 3;
        let setup = format!("PRAGMA page_size = {page_bytes}; PRAGMA auto_vacuum = {vacuum}; {CREATE}");
        for db in &dbs {
            db.run(&setup);
            db.run(&format!("PRAGMA journal_mode = {journal_mode}"));
        }
        let mut random = Random::new(seed);
        for number in 0..STATEMENTS {
            let sql = statement(&mut random);
            let [expected, answer] = dbs.each_ref().map(|db| db.try_rows(&sql));
            assert_eq!(answer, expected, "seed {seed}, statement {number}: {sql}");
            if number % 50 == 49 {
                // Whatever transaction is open ends with its connection.
                drop(dbs);
                check_files(&paths, seed, mmap_bytes == 0);
                dbs = open(&paths, mmap_bytes);
            }
        }
    }
}

fn open(paths: &[impl AsRef<Path>; 2], mmap_bytes: u64) -> [Db; 2] {
    let dbs = [Db::open(&paths[0], UNIX), Db::open(&paths[1], BUFPOOL)];
    // Pages are written before their transaction ends.
    for db in &dbs {
        db.run(&format!("PRAGMA cache_size = 8; PRAGMA cache_spill = 8; PRAGMA mmap_size = {mmap_bytes}"));
    }
    dbs
}

/// Compares the contents of the databases, and all bytes of the files if `to_the_byte`. If SQLite reads pages
/// in their frames, its own buffers have other contents, and these get into unused bytes of pages.
fn check_files(paths: &[impl AsRef<Path>; 2], seed: u64, to_the_byte: bool) {
    let dbs = [Db::open(&paths[0], UNIX), Db::open(&paths[1], BUFPOOL)];
    assert_eq!(dbs[1].value("PRAGMA integrity_check"), "ok", "seed {seed}");
    let [expected, found] = dbs.each_ref().map(|db| db.rows(DUMP));
    assert_eq!(found, expected, "seed {seed}");
    drop(dbs);
    let [expected, found] = paths.each_ref().map(|path| fs::read(path).unwrap());
    assert_eq!(found.len(), expected.len(), "seed {seed}");
    let differing = found.iter().zip(&expected).position(|(found, expected)| found != expected);
    assert!(!to_the_byte || differing.is_none(), "seed {seed}, byte {differing:?}");
}

const DUMP: &str = "
    SELECT k, a, hex(b) FROM t0; SELECT k, a, hex(b) FROM t1; SELECT a, k FROM t0 INDEXED BY t0_a ORDER BY a;
    SELECT name, rootpage, sql FROM sqlite_schema; PRAGMA page_count; PRAGMA freelist_count";

const CREATE: &str = "
    CREATE TABLE t0(k INTEGER PRIMARY KEY, a, b);
    CREATE TABLE t1(k, a, b, PRIMARY KEY(k, a)) WITHOUT ROWID;
    CREATE INDEX t0_a ON t0(a)";

/// A random statement. It may fail, as long as it fails with both VFSs.
fn statement(random: &mut Random) -> String {
    let table = random.below(2);
    let key = random.below(400);
    let other = random.below(400);
    let rows = 1 + random.below(60);
    let bytes = random.below(3000);
    match random.below(24) {
        0..=7 => format!(
            "WITH RECURSIVE n(i) AS (SELECT {key} UNION ALL SELECT i + 1 FROM n WHERE i < {key} + {rows})
             INSERT OR REPLACE INTO t{table} SELECT i, i * 7919 % 1009, zeroblob({bytes}) || i FROM n"
        ),
        8..=10 => {
            format!("UPDATE t{table} SET a = a + 1, b = b || '{key}' WHERE k BETWEEN {key} AND {key} + 9")
        }
        11..=12 => format!("DELETE FROM t{table} WHERE k BETWEEN {key} AND {other}"),
        13 => format!("SELECT k, a, length(b), hex(substr(b, -4)) FROM t{table} ORDER BY a, k LIMIT 100"),
        14 => "SELECT count(*), sum(length(t0.b)), sum(t1.a) FROM t0 JOIN t1 ON t0.a = t1.k".to_owned(),
        15 => format!("SELECT k, b FROM t{table} WHERE k = {key}"),
        16..=17 => "BEGIN".to_owned(),
        18..=19 => "COMMIT".to_owned(),
        20 => "ROLLBACK".to_owned(),
        21 => ["VACUUM", "PRAGMA incremental_vacuum(5)", "REINDEX", "ANALYZE"][key as usize % 4].to_owned(),
        22 => ["PRAGMA wal_checkpoint(TRUNCATE)", "PRAGMA wal_checkpoint", "PRAGMA integrity_check"]
            [key as usize % 3]
            .to_owned(),
        _ => "PRAGMA page_count; PRAGMA freelist_count".to_owned(),
    }
}
