//! `bufbench program search`: the same seed finds the same program, the budget is kept, the program found is
//! better than those that the search began with, and traces that cannot be searched on are named.

mod command;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bufpool_bench::random::Random;
use bufpool_bench::search::{Points, SearchOptions, library, search};
use bufpool_bench::simulate::read_program;
use bufpool_bench::trace::{Item, Reference, Trace};
use bufpool_policies::program::Program;
use command::bufbench;

/// Hot blocks, and a loop that does not fit in the cache.
fn blocks(seed: u64) -> Vec<u64> {
    let mut random = Random::new(seed);
    let block =
        |at: u64| if at.is_multiple_of(3) { (random.unit().powi(3) * 40.0) as u64 } else { 100 + at % 70 };
    (0..4000).map(block).collect()
}

fn trace(blocks: Vec<u64>) -> Trace {
    let access = |block| Item::Access(Reference { block, site: 0, tenant: 0 });
    Trace::of("t", blocks.into_iter().map(access))
}

fn points() -> Points {
    Points::new(vec![trace(blocks(1))], &[(0, 20), (0, 50)], 1, 2).unwrap()
}

#[test]
fn a_search_finds_a_better_program_than_those_it_began_with() {
    let points = points();
    let options = SearchOptions { budget: 300, seed: 1, jobs: 2 };
    let mut grades = Vec::new();
    let found = search(&points, &options, &mut |_, grade| grades.push(grade)).unwrap();
    let grade = |program: &Program| points.grade_of(&points.misses(program, 2).unwrap());
    let first = library().iter().map(|(_, program)| grade(program)).fold(f64::INFINITY, f64::min);
    assert!((found.first_grade - first).abs() < 1e-9, "{} {first}", found.first_grade);
    assert!(found.grade < first, "{} of {first}", found.grade);
    assert!((grade(&found.program) - found.grade).abs() < 1e-9, "short traces are graded as they are");
    assert!(grades.is_sorted_by(|one, next| one >= next), "the best is never lost: {grades:?}");
}

#[test]
fn the_budget_is_kept() {
    let points = points();
    // Fewer than the library has programs, one, and a number that generations do not divide.
    for budget in [1, 5, 53] {
        let options = SearchOptions { budget, seed: 3, jobs: 2 };
        let found = search(&points, &options, &mut |_, _| {}).unwrap();
        assert_eq!(found.evaluations, budget);
    }
    let long = (0..70_000).map(|at| at * at % 997).collect();
    let points = Points::new(vec![trace(long)], &[(0, 100)], 1, 2).unwrap();
    for budget in [1, 24] {
        let options = SearchOptions { budget, seed: 3, jobs: 2 };
        let found = search(&points, &options, &mut |_, _| {}).unwrap();
        assert_eq!(found.evaluations, budget, "programs graded on whole traces count");
    }
}

/// A file with a block a line.
fn file(folder: &Path, name: &str, blocks: &[u64]) -> PathBuf {
    let path = folder.join(name);
    let lines: String = blocks.iter().map(|block| format!("{block}\n")).collect();
    fs::write(&path, lines).unwrap();
    path
}

#[test]
fn the_same_seed_writes_the_same_file_whatever_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let tune = file(folder.path(), "tune.txt", &blocks(1));
    let holdout = file(folder.path(), "holdout.txt", &blocks(2));
    let run = |seed: &str, jobs: &str, out: &str| {
        let out = folder.path().join(out);
        let paths = [&tune, &holdout, &out].map(|path| path.to_str().unwrap());
        let output = bufbench(&[
            "program",
            "search",
            "--tune",
            paths[0],
            "--holdout",
            paths[1],
            "--frames",
            "20,30%",
            "--budget",
            "60",
            "--seed",
            seed,
            "--jobs",
            jobs,
            "--out",
            paths[2],
            "--format",
            "csv",
        ]);
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{messages}");
        assert!(messages.contains("programs: "), "progress: {messages}");
        (fs::read_to_string(&out).unwrap(), String::from_utf8(output.stdout).unwrap(), out)
    };
    let (text, table, out) = run("1", "1", "one.policy");
    for (jobs, name) in [("1", "again.policy"), ("2", "two.policy"), ("5", "five.policy")] {
        let (other_text, other_table, _) = run("1", jobs, name);
        assert_eq!((&other_text, &other_table), (&text, &table), "{jobs} threads");
    }
    assert_ne!(run("2", "2", "other.policy").0, text, "another seed");
    read_program(&out).unwrap();
    assert!(text.contains("#     bufbench program search --frames 20,30% --budget 60 --seed 1"), "{text}");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines[0], lines.len()), ("set,trace,frames,program,best_of_four,ratio", 7));
    assert!(lines[1].starts_with("tune,tune,20,") && lines[4].starts_with("holdout,holdout,20,"), "{table}");
    assert!(lines[3].starts_with("tune,all,,,,") && lines[6].starts_with("holdout,all,,,,"), "{table}");
}

#[test]
fn what_cannot_be_searched_on_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let good = file(folder.path(), "good.txt", &[1, 2, 3]);
    let other = file(folder.path(), "other.txt", &[1, 2, 3]);
    let empty = file(folder.path(), "empty.txt", &[]);
    let bad = folder.path().join("bad.txt");
    fs::write(&bad, "1\nx\n").unwrap();
    let out = folder.path().join("out.policy");
    let paths = [&good, &other, &empty, &bad, &out].map(|path| path.to_str().unwrap());
    let [good, other, empty, bad, out] = paths;
    let run = |tune: &[&str], holdout: &[&str], rest: &[&str]| {
        let mut arguments = vec!["program", "search", "--frames", "2", "--out", out];
        for (flag, paths) in [("--tune", tune), ("--holdout", holdout)] {
            arguments.push(flag);
            arguments.extend(paths);
        }
        arguments.extend(rest);
        let output = bufbench(&arguments);
        assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(1), &b""[..]), "{arguments:?}");
        assert!(!Path::new(out).exists(), "{arguments:?}: nothing is written");
        String::from_utf8(output.stderr).unwrap()
    };
    let budget = &["--budget", "5"];
    for (tune, holdout, rest, expected) in [
        (vec![good, bad], vec![other], &budget[..], "bad.txt: line 2: "),
        (vec![good], vec![bad], budget, "bad.txt: line 2: "),
        (vec![empty], vec![good], budget, "empty.txt: expected a trace with accesses"),
        (vec![good], vec![empty], budget, "empty.txt: expected a trace with accesses"),
        (vec![good], vec![empty, good], budget, "good.txt: expected a trace for tuning or for holdout"),
        (vec![good], vec![], budget, "--holdout"),
        (vec![], vec![good], budget, "--tune"),
        (vec![good], vec![empty], &["--budget", "0"], "--budget"),
    ] {
        let message = run(&tune, &holdout, rest);
        assert!(message.contains(expected), "{tune:?} {holdout:?}: {message}");
    }
}

/// A search that is ended in the middle has not touched the file.
#[test]
fn what_was_there_stays_until_a_program_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let [tune, holdout] = ["tune.txt", "holdout.txt"].map(|name| file(folder.path(), name, &blocks(1)));
    let out = folder.path().join("out.policy");
    fs::write(&out, "old").unwrap();
    let mut search = Command::new(env!("CARGO_BIN_EXE_bufbench"));
    search.args(["program", "search", "--frames", "20", "--budget", "1000000000", "--jobs", "1"]);
    search.arg("--tune").arg(&tune).arg("--holdout").arg(&holdout).arg("--out").arg(&out);
    let mut search = search.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(search.stderr.take().unwrap()).read_line(&mut line).unwrap();
    search.kill().unwrap();
    search.wait().unwrap();
    assert!(line.starts_with("after "), "{line}");
    assert_eq!(fs::read_to_string(&out).unwrap(), "old");
}

#[test]
fn no_trace_is_for_tuning_and_for_holdout() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    let [tune, holdout] = ["tune.list", "holdout.list"].map(|name| {
        let text = fs::read_to_string(folder.join(name)).unwrap();
        let names = text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned);
        names.collect::<Vec<_>>()
    });
    assert!(tune.len() >= 5 && holdout.len() >= 5, "{tune:?} {holdout:?}");
    assert!(tune.iter().all(|name| !holdout.contains(name)), "{tune:?} {holdout:?}");
}
