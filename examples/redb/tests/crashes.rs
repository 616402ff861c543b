//! Goal: acknowledged commits survive, and the next commit is there as a whole or not at all. Method: the
//! power is cut at every third call of the device, every second call fails, and a process is killed while it
//! commits.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, io};

use bufpool::IoOperation;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool_redb::PoolBackend;
use common::{Random, Rows, assert_same, change, open, rows_of, small_pool};
use redb::{Database, ReadableDatabase, ReadableTableMetadata, TableDefinition};

const TRANSACTIONS: usize = 8;
const KILLS: u64 = 20;
/// For the lock of a process that was killed to end; a moment is enough.
const LOCK_WAIT: Duration = Duration::from_secs(60);

fn open_on(device: &SimDevice) -> Result<Database, redb::Error> {
    let pool = small_pool().deterministic(1).open_on(device).map_err(io::Error::from)?;
    let backend = PoolBackend::open(&pool, "x", "x.redb").map_err(io::Error::from)?;
    Ok(open(backend)?)
}

/// The rows after each transaction that was acknowledged, until a call fails. The first entry is for the
/// creation of the database.
fn run(device: &SimDevice) -> Vec<Rows> {
    let Ok(database) = open_on(device) else { return Vec::new() };
    let mut acknowledged = vec![Rows::new()];
    let (mut random, mut rows) = (Random(11), Rows::new());
    for _ in 0..TRANSACTIONS {
        if change(&database, &mut rows, &mut random).is_err() {
            break;
        }
        acknowledged.push(rows.clone());
    }
    acknowledged
}

/// Checks that a database whose creation was acknowledged is sound, and has the rows of the last acknowledged
/// transaction or of the next.
fn check(device: &SimDevice, acknowledged: &[Rows], all: &[Rows]) {
    let mut database = match open_on(device) {
        // redb does not open a file whose creation it has not finished.
        Err(_) if acknowledged.is_empty() => return,
        database => database.unwrap(),
    };
    assert!(database.check_integrity().unwrap());
    let found = rows_of(&database);
    if found != all[acknowledged.len().min(all.len() - 1)] {
        assert_same(&found, acknowledged.last().unwrap_or(&Rows::new()));
    }
}

#[test]
fn a_power_cut_at_any_call_leaves_the_last_commit_or_the_next() {
    let device = SimDevice::new(1);
    let all = run(&device);
    let calls = device.calls_total();
    assert!(calls > 100, "{calls}");
    for call in (1..=calls).step_by(3) {
        let device = SimDevice::new(call);
        device.cut_power_at(call);
        let acknowledged = run(&device);
        for seed in 0..2 {
            check(&device.crash_image(seed), &acknowledged, &all);
        }
    }
}

#[test]
fn a_call_that_fails_is_an_error_and_loses_nothing() {
    let device = SimDevice::new(1);
    let all = run(&device);
    for operation in [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate] {
        for nth in (1..=device.calls(operation)).step_by(2) {
            let device = SimDevice::new(nth);
            device.fail(SimFault { operation, nth, failure: SimFailure::Io });
            let acknowledged = run(&device);
            device.forget_faults();
            check(&device, &acknowledged, &all);
        }
    }
}

/// In the environment of this program run anew: the database that it is to write to.
const WRITER: &str = "BUFPOOL_REDB_WRITER";
const COMMITS: TableDefinition<u64, &[u8]> = TableDefinition::new("commits");

#[test]
fn acknowledged_commits_survive_kills() {
    if let Some(path) = env::var_os(WRITER) {
        return write(path.as_ref());
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("x.redb");
    let mut random = Random(19);
    for round in 0..KILLS {
        let acknowledged = write_until_killed(&path, 1 + random.below(12));
        let pool = small_pool().open().unwrap();
        // The lock of a process that was killed ends a moment later. Each try waits a fifth of a second.
        let until = Instant::now() + LOCK_WAIT;
        let backend = loop {
            match PoolBackend::open(&pool, "x", &path) {
                Err(error) if error.kind() == bufpool::ErrorKind::FileLocked => {
                    let is_in_time = Instant::now() < until;
                    assert!(is_in_time, "round {round}: {LOCK_WAIT:?} after the process was killed: {error}");
                }
                backend => break backend.unwrap(),
            }
        };
        let mut database = open(backend).unwrap();
        assert!(database.check_integrity().unwrap(), "round {round}");
        let reading = database.begin_read().unwrap();
        let there = reading.open_table(COMMITS).unwrap().len().unwrap();
        assert!(there >= acknowledged, "round {round}: {there} commits of {acknowledged} are there");
    }
}

/// Runs a writer, and kills it once it has acknowledged `commits`. Returns the number of its last one.
fn write_until_killed(path: &std::path::Path, commits: u64) -> u64 {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "acknowledged_commits_survive_kills", "--nocapture"]);
    let mut writer = command.env(WRITER, path).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let numbers = lines.filter_map(|line| line.unwrap().strip_prefix("committed ")?.parse().ok());
    let last = numbers.take(commits as usize).last();
    writer.kill().unwrap();
    writer.wait().unwrap();
    last.expect("the writer commits")
}

/// Commits, and says so, until it is killed.
fn write(path: &std::path::Path) {
    let pool = small_pool().open().unwrap();
    let database = open(PoolBackend::open(&pool, "x", path).unwrap()).unwrap();
    println!();
    loop {
        let writing = database.begin_write().unwrap();
        let number = {
            let mut table = writing.open_table(COMMITS).unwrap();
            let number = table.len().unwrap() + 1;
            table.insert(number, &vec![number as u8; 5_000][..]).unwrap();
            number
        };
        writing.commit().unwrap();
        println!("committed {number}");
        io::stdout().flush().unwrap();
    }
}
