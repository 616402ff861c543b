//! Goal: nothing that an engine has acknowledged is lost when its process is killed, and no page is left as a
//! mix of versions. Method: a child process runs a small engine with a redo log on a real file, tells of each
//! commit on a pipe, and is killed at a random moment, sometimes while it recovers from the kill before.
//! `BUFPOOL_KILLS` says how often; 5 if it is not set.

mod redo_engine;

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use redo_engine::{Engine, PAGES, THREADS, pages_of};

/// Names the engine's directory, in the child's environment.
const CHILD: &str = "BUFPOOL_KILL_DIRECTORY";
const TEST: &str = "nothing_acknowledged_is_lost_by_a_kill";

#[test]
fn nothing_acknowledged_is_lost_by_a_kill() {
    if let Some(directory) = env::var_os(CHILD) {
        run_engine(Path::new(&directory));
    }
    let kills = env::var("BUFPOOL_KILLS").map_or(5, |kills| kills.parse().expect("a number of kills"));
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let directory = tempfile::Builder::new().prefix("bufpool-kill").tempdir_in(place).unwrap();
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut acknowledged = [0; THREADS];
    let (mut replayed, mut torn) = (0, 0);
    for kill in 0..kills {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        run_and_kill(directory.path(), Duration::from_millis(random >> 32 & 0x1ff), &mut acknowledged);
        // Some kills hit an engine that recovers from another kill.
        if kill % 3 != 1 || kill + 1 == kills {
            let (engine, recovery) = Engine::open(directory.path());
            check(&engine, &acknowledged);
            replayed += recovery.records;
            torn += recovery.torn;
        }
    }
    let commits: u64 = acknowledged.iter().sum();
    println!("{kills} kills, {commits} commits acknowledged, 0 lost, {replayed} replayed, {torn} pages torn");
    assert!(commits > kills, "the engine came to nothing");
}

/// The child: commits until it is killed.
fn run_engine(directory: &Path) -> ! {
    let (engine, _) = Engine::open(directory);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let engine = &engine;
            let last = engine.transactions(thread).into_iter().max().unwrap_or(0);
            scope.spawn(move || {
                for number in last + 1.. {
                    engine.transact(thread, number);
                    writeln!(std::io::stdout().lock(), "committed {thread} {number}").unwrap();
                    match (thread, number % 40) {
                        (0, 0) => engine.checkpoint(),
                        (0, 20) => engine.advance_redo_start(),
                        _ => {}
                    }
                }
            });
        }
    });
    unreachable!("the threads do not end")
}

/// Starts the engine and kills it after `delay`. Notes in `acknowledged` which transactions it has
/// acknowledged.
fn run_and_kill(directory: &Path, delay: Duration, acknowledged: &mut [u64; THREADS]) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", TEST, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || commits(output));
    std::thread::sleep(delay);
    kill(&mut child);
    for (thread, number) in reader.join().unwrap() {
        assert!(number > acknowledged[thread], "commits come in order");
        acknowledged[thread] = number;
    }
}

fn kill(child: &mut Child) {
    assert!(child.try_wait().unwrap().is_none(), "the engine ended before it was killed");
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Threads and numbers of the transactions that the child has told of. A line is written as a whole or not at
/// all.
fn commits(output: ChildStdout) -> Vec<(usize, u64)> {
    let lines = BufReader::new(output).lines().map(Result::unwrap);
    let commit = |line: String| {
        let (thread, number) = line.strip_prefix("committed ")?.split_once(' ')?;
        Some((thread.parse().unwrap(), number.parse().unwrap()))
    };
    lines.filter_map(commit).collect()
}

/// The transactions of each thread must be there up to some number that is not below the last acknowledged
/// one, and of later transactions nothing.
fn check(engine: &Engine, acknowledged: &[u64; THREADS]) {
    for (thread, &told) in acknowledged.iter().enumerate() {
        let found = engine.transactions(thread);
        let last = found.iter().copied().max().unwrap_or(0);
        assert!(last >= told, "thread {thread}: {told} was acknowledged, {last} is the last one there");
        let mut expected = vec![0; PAGES as usize];
        for number in 1..=last {
            pages_of(thread, number).iter().for_each(|&page| expected[page as usize] = number);
        }
        assert_eq!(found, expected, "thread {thread} after {last} transactions");
    }
}
