//! A process is killed again and again while it writes: every commit that it has acknowledged is there
//! afterwards, whichever VFS opens the database.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io};

use common::{BUFPOOL, Db, Random, UNIX, pool};

/// In the environment of this program run anew: the database that it is to write to.
const WRITER: &str = "BUFPOOL_SQLITE_WRITER";
const KILLS: u64 = 10;

#[test]
fn in_delete_mode() {
    kill("in_delete_mode", "delete");
}

#[test]
fn in_wal_mode() {
    kill("in_wal_mode", "wal");
}

fn kill(test: &str, journal_mode: &str) {
    pool();
    if let Some(path) = env::var_os(WRITER) {
        return write(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.db");
    let db = Db::open(&path, BUFPOOL);
    db.run(&format!("PRAGMA journal_mode = {journal_mode}"));
    db.run("CREATE TABLE t(k INTEGER PRIMARY KEY, round, b); CREATE INDEX t_round ON t(round, k)");
    drop(db);
    let mut random = Random::new(19);
    for round in 0..KILLS {
        let acknowledged = write_until_killed(test, &path, 1 + random.below(60));
        let db = Db::open(&path, if round % 2 == 0 { UNIX } else { BUFPOOL });
        assert_eq!(db.value("PRAGMA integrity_check"), "ok");
        let there: u64 = db.value("SELECT max(round) FROM t").parse().unwrap();
        assert!(there >= acknowledged, "round {round}: {there} commits of {acknowledged} are there");
        assert_eq!(db.value("SELECT count(*) FROM t"), (10 * there).to_string());
        let wrong = format!("SELECT count(*) FROM t WHERE CAST(trim(b) AS INTEGER) <> {}", last_round(there));
        assert_eq!(db.value(&wrong), "0", "round {round}");
    }
}

/// Runs a writer, and kills it once it has acknowledged `commits`. Returns the number of its last
/// acknowledged one.
fn write_until_killed(test: &str, path: &Path, commits: u64) -> u64 {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env(WRITER, path).stdout(Stdio::piped());
    let mut writer = command.spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("committed ")?.parse().ok());
    let last = numbers.take(commits as usize).last();
    writer.kill().unwrap();
    writer.wait().unwrap();
    last.expect("the writer commits")
}

/// The SQL for the number of the commit that changed a row last, after `there` commits. Each commit changes
/// the first 100 rows, the rows that it inserts, and one row in 97.
fn last_round(there: u64) -> String {
    format!("CASE WHEN k <= 100 THEN {there} ELSE max(round, {there} - (({there} - k) % 97 + 97) % 97) END")
}

/// Commits, and says so, until it is killed.
fn write(path: &Path) {
    let db = Db::open(path, BUFPOOL);
    // Pages are written before their transaction ends, and the log begins anew every few transactions.
    db.run("PRAGMA cache_size = 8; PRAGMA cache_spill = 8; PRAGMA wal_autocheckpoint = 40");
    let first: u64 = db.value("SELECT coalesce(max(round), 0) + 1 FROM t").parse().unwrap();
    println!();
    for round in first.. {
        db.run(&format!(
            "BEGIN;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10)
             INSERT INTO t SELECT NULL, {round}, '' FROM n;
             UPDATE t SET b = printf('%400d', {round}) WHERE k <= 100 OR round = {round};
             UPDATE t SET b = printf('%400d', {round}) WHERE k % 97 = {round} % 97;
             COMMIT"
        ));
        println!("committed {round}");
        io::stdout().flush().unwrap();
    }
}
