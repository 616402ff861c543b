//! `bufbench` without a sub-command, `live`, `record` and other commands with data files, as a user runs
//! them: columns, exit status, messages, and which files are left.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn bufbench(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bufbench"));
    command.current_dir(folder).args(["--format", "csv", "--direct", "prefer"]).args(arguments);
    command.output().unwrap()
}

/// Rows of a CSV result, each as its cells; the first one is the header.
fn rows(output: &Output) -> Vec<Vec<String>> {
    let problems = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{problems}");
    let text = std::str::from_utf8(&output.stdout).unwrap();
    text.lines().map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn refusal(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "nothing but results on standard output");
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn the_main_job_prints_each_workload_under_each_scheme() {
    let folder = folder();
    let rows = rows(&bufbench(folder.path(), &["--quick", "--deterministic"]));
    let header = "workload,scheme,frames,accesses,misses,reads,writes,hit_ratio,elapsed_s,cpu_s,opt_reads";
    assert_eq!(rows[0].join(","), header);
    let workloads = [
        "block-nested-loop-join",
        "index-join",
        "scan-and-lookup",
        "lookup-uniform",
        "lookup-zipf",
        "range-scan",
        "index-scan",
        "bitmap-scan",
        "external-sort",
    ];
    let disclosed = ["block-nested-loop-join", "index-join", "index-scan", "bitmap-scan", "external-sort"];
    let expected = workloads.iter().flat_map(|workload| {
        let hints = disclosed.contains(workload).then_some("auto+hints");
        ["lru", "lru-sp", "auto"].into_iter().chain(hints).map(|scheme| [*workload, scheme])
    });
    assert!(rows[1..].iter().map(|row| [row[0].as_str(), row[1].as_str()]).eq(expected));
    for row in &rows[1..] {
        let [accesses, misses, reads, opt_reads] =
            [3, 4, 5, 10].map(|column| row[column].parse::<u64>().unwrap());
        assert!(opt_reads <= reads && reads <= misses && misses <= accesses, "{row:?}");
        let creations = misses - reads;
        let hit_ratio = format!("{:.6}", (accesses - misses) as f64 / (accesses - creations) as f64);
        assert_eq!(row[7], hit_ratio);
    }
    // Not told anything, the automatic manager reads little more than hand-given directives do: at full size
    // 1.05 times as much at most (README, "Figures"), in tables of a tenth somewhat more.
    for workload in workloads {
        let reads = |scheme: &str| {
            let row = rows.iter().find(|row| row[0] == workload && row[1] == scheme).unwrap();
            row[5].parse::<u64>().unwrap()
        };
        let (auto, told) = (reads("auto"), reads("lru-sp"));
        assert!(auto * 100 <= told * 110, "{workload}: auto reads {auto}, with directives {told}");
    }
    assert_eq!(names_in(folder.path()), ["bufbench-report.html"], "the data files are gone");
}

/// With directives, and with a manager that draws random numbers and uses contexts.
#[test]
fn a_recorded_run_simulates_to_the_same_misses() {
    let (workload, tuples, frames) = ("external-sort", "4000", "40");
    for scheme in ["lru-sp", "auto"] {
        let folder = folder();
        let flags = ["--workload", workload, "--scheme", scheme, "--tuples", tuples, "--frames", frames];
        let record = ["record", "--out", "run.gz", "--seed", "7"];
        let recorded = rows(&bufbench(folder.path(), &[&record[..], &flags].concat()));
        let live = ["live", "--deterministic", "--seed", "7"];
        let live = rows(&bufbench(folder.path(), &[&live[..], &flags].concat()));
        assert_eq!(
            live[0].join(","),
            "workload,scheme,backend,threads,frames,accesses,hits,misses,reads,writes,elapsed_s,cpu_s,lookups_per_s"
        );
        assert_eq!(live[1][4..10], recorded[1][4..10], "frames to writes are the same each time");
        assert_eq!(live[1][12], "", "{workload} makes no lookups");

        let simulated = rows(&bufbench(
            folder.path(),
            &[
                &["sim", "--trace", "run.gz", "--policy", scheme, "--frames", frames][..],
                &["--shared-pages", "on", "--seed", "7", "--jobs", "1"],
            ]
            .concat(),
        ));
        let column = |name: &str| simulated[0].iter().position(|column| column == name).unwrap();
        assert_eq!(simulated[1][column("misses")], live[1][7], "{workload} under {scheme}");
        assert_eq!(simulated[1][column("hits")], live[1][6], "{workload} under {scheme}");
    }
}

#[test]
fn a_recording_that_fails_leaves_what_was_there() {
    let folder = folder();
    let [trace, link] = ["run.txt", "link.txt"].map(|name| folder.path().join(name));
    fs::write(&trace, "1\n").unwrap();
    symlink("run.txt", &link).unwrap();
    let few = ["--workload", "readn", "--frames", "3"];
    let unknown = ["--workload", "hash-join"];
    for (out, flags) in [("run.txt", &few[..]), ("link.txt", &few), ("link.txt", &unknown)] {
        refusal(&bufbench(folder.path(), &[&["record", "--out", out][..], flags].concat()));
        assert_eq!(fs::read_to_string(&trace).unwrap(), "1\n", "{out} {flags:?}");
    }
    assert_eq!(names_in(folder.path()).len(), 2);
    let runs = ["record", "--out", "link.txt", "--workload", "btree", "--tuples", "1000"];
    assert_eq!(rows(&bufbench(folder.path(), &runs)).len(), 2);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&trace).unwrap().lines().count() > 100);
    assert_eq!(names_in(folder.path()).len(), 2);
}

#[test]
fn a_recording_that_cannot_be_written_names_its_file() {
    let folder = folder();
    let runs = ["record", "--out", "/dev/full", "--workload", "lookup-zipf", "--tuples", "1000"];
    let output = bufbench(folder.path(), &runs);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("/dev/full: cannot be written, expected a path"), "{message}");
}

/// The name of a folder is part of the names of the files in it.
#[test]
fn a_recording_of_files_whose_names_fit_in_no_line_is_refused() {
    let folder = folder();
    let broken = folder.path().join("two\nlines");
    let record = ["--dir", broken.to_str().unwrap(), "record", "--out", "run.txt", "--workload", "readn"];
    let output = bufbench(folder.path(), &record);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message.contains("expected a name that a line of a trace can hold"), "{message}");
    assert_eq!(names_in(folder.path()), ["two\nlines"]);
}

#[test]
fn a_report_says_whose_it_is() {
    let folder = folder();
    let flags = ["--workload", "readn,btree", "--tuples", "1000", "--scheme", "lru,lru-sp", "--report"];
    let output = bufbench(folder.path(), &[&["live"], &flags[..]].concat());
    assert_eq!(rows(&output).len(), 1 + 4);
    let messages = String::from_utf8_lossy(&output.stderr);
    for heading in ["readn under lru:", "readn under lru-sp:", "btree under lru:", "btree under lru-sp:"] {
        assert_eq!(messages.lines().filter(|line| *line == heading).count(), 1, "{heading} in {messages}");
    }
}

#[test]
fn lookups_without_a_miss_have_no_bound_by_the_device() {
    let folder = folder();
    let flags = ["live", "--workload", "btree", "--tuples", "1000", "--batch", "8"];
    let output = bufbench(folder.path(), &flags);
    assert_eq!(rows(&output)[1][7], "0");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("lookups/s without a miss") && !messages.contains("inf"), "{messages}");
}

/// One thread does the work of both in turns.
#[test]
fn neighbours_are_compared_with_the_threads_that_were_asked_for() {
    let folder = folder();
    let flags = ["live", "--workload", "neighbours", "--tuples", "1000", "--scheme", "lru", "--threads", "1"];
    let output = bufbench(folder.path(), &flags);
    assert_eq!(rows(&output)[1][3], "1");
    let messages = String::from_utf8_lossy(&output.stderr);
    assert!(messages.contains("the same one oblivious (--threads 1, 7 rounds)"), "{messages}");
}

/// Tests that a script runs in the background may be started to ignore signals. `env` restores the default.
#[test]
fn a_signal_leaves_nothing_behind_and_is_seen_in_the_status() {
    for (name, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
        let folder = folder();
        fs::write(folder.path().join("run.txt"), "1\n").unwrap();
        let mut command = Command::new("env");
        command.arg(format!("--default-signal={name}")).arg(env!("CARGO_BIN_EXE_bufbench"));
        command.current_dir(folder.path()).args(["--direct", "prefer", "record", "--out", "run.txt"]);
        command.args(["--workload", "btree", "--tuples", "50000000"]).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // The trace that is being written, the folder of the data, and the earlier trace.
        while names_in(folder.path()).len() < 3 {
            assert!(child.try_wait().unwrap().is_none(), "it has work for minutes");
            thread::sleep(Duration::from_millis(5));
        }
        let kill = Command::new("kill").args(["-s", name, &child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        assert_eq!(child.wait().unwrap().signal(), Some(number), "{name}");
        assert_eq!(names_in(folder.path()), ["run.txt"], "{name}");
        assert_eq!(fs::read_to_string(folder.path().join("run.txt")).unwrap(), "1\n");
    }
}

/// Started as by `nohup`.
#[test]
fn a_signal_that_is_ignored_stays_so() {
    let folder = folder();
    let mut command = Command::new("env");
    command.args(["--ignore-signal=HUP", env!("CARGO_BIN_EXE_bufbench")]).current_dir(folder.path());
    command.args(["--direct", "prefer", "live", "--workload", "btree", "--tuples", "20000"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    while names_in(folder.path()).is_empty() {
        assert!(child.try_wait().unwrap().is_none(), "it makes a folder for its data");
        thread::sleep(Duration::from_millis(1));
    }
    Command::new("kill").args(["-s", "HUP", &child.id().to_string()]).status().unwrap();
    assert!(child.wait().unwrap().success());
}

#[test]
fn data_files_are_kept_on_request() {
    let folder = folder();
    let flags = ["--keep", "live", "--workload", "readn", "--scheme", "lru"];
    assert_eq!(rows(&bufbench(folder.path(), &flags)).len(), 2);
    let kept = names_in(folder.path());
    assert!(kept.len() == 1 && kept[0].starts_with("bufbench-data-"), "{kept:?}");
}

#[test]
fn mistakes_are_refused_with_what_was_expected() {
    let folder = folder();
    let refused = |arguments: &[&str]| refusal(&bufbench(folder.path(), arguments));
    assert!(refused(&["live", "--workload", "hash-join"]).contains("expected one of block-nested-loop-join"));
    let two_threads = ["live", "--workload", "readn", "--deterministic", "--threads", "2"];
    assert!(refused(&two_threads).contains("expected --threads 1"));
    let record = ["record", "--out", "half", "--workload", "readn", "--threads", "2"];
    assert!(refused(&record).contains("--threads 2: a trace has all accesses in one order"));
    assert!(
        refused(&["live", "--workload", "readn", "--scheme", "best"])
            .contains("expected one of lru, lru-sp, auto")
    );
    assert!(
        refused(&["live", "--workload", "readn", "--frames", "3"])
            .contains("--frames 3: open pool: 3 frames")
    );
    assert!(
        refused(&["live", "--workload", "readn", "--memory", "0"])
            .contains("--memory 0: open pool: 0 frames")
    );
    // The folder for data files is made, but not below a file that is no folder.
    assert!(refused(&["--dir", "/dev/null/missing", "live", "--workload", "readn"]).contains("missing"));
    assert!(
        refused(&["live", "--workload", "readn", "--batch", "8"]).contains("expected one of the workloads")
    );
    assert!(
        refused(&["live", "--workload", "readn", "--hints", "auto"])
            .contains("expected one of the workloads block-nested-loop-join, index-join, index-scan")
    );
    let half = ["record", "--out", "half", "--workload", "readn", "--frames", "3"];
    assert!(refused(&half).contains("expected from"));
    assert!(refused(&["--quick", "live", "--workload", "readn"]).contains("main job"));
    assert_eq!(names_in(folder.path()), [""; 0], "nothing is left behind");
}

#[test]
fn hints_are_held_against_what_engines_do_without() {
    let folder = folder();
    let rows = rows(&bufbench(folder.path(), &["hints", "--tuples", "20000", "--batch", "16"]));
    assert_eq!(rows[0].join(","), "work,unit,ours,against,theirs,ratio,least,greatest,bar,verdict");
    assert_eq!(rows.len(), 1 + 4 + 4 + 13 + 1);
    let misses = rows.iter().find(|row| row[1] == "misses").unwrap();
    assert_eq!(misses[5..], ["1.000000", "1.000000", "1.000000", "<= 1", "met"]);
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn a_tier_is_held_against_none() {
    let folder = folder();
    let few = ["--rounds", "1", "--seconds", "0.001", "--warm-up", "0.001", "--tuples", "20000"];
    let tiers = |only: &str| {
        let rows = rows(&bufbench(folder.path(), &[&["tiers", "--only", only][..], &few].concat()));
        assert_eq!(rows[0].join(","), "work,unit,ours,against,theirs,ratio,least,greatest,bar,verdict");
        rows
    };
    assert_eq!(tiers("wasted").len(), 1 + 5 * 2 + 1);
    assert_eq!(tiers("pays").len(), 1 + 2);
    assert_eq!(tiers("demotions").len(), 1 + 3);
    assert_eq!(tiers("compressed")[1][9], "met");
    let hits = tiers("hits");
    let counts = |work: &str| {
        let row = hits.iter().find(|row| row[0] == work).unwrap();
        [2, 4].map(|column| row[column].parse::<u64>().unwrap())
    };
    // A loop over one and a half times as many pages as frames; the tier has room for all.
    assert_eq!(counts("hits in memory tier"), [1536, 1536]);
    assert_eq!(counts("demotions to memory tier"), [1536, 1536]);
    assert_eq!(counts("demotions to file tier"), [1536, 1536]);
    // If the disk stalls for longer than a miss waits, the page is read from the source instead.
    let [hits_in_file, misses] = counts("hits in file tier");
    assert!(misses == 1536 && (1..=misses).contains(&hits_in_file), "{hits_in_file} of {misses}");
    for (flag, value, expected) in [
        ("--rounds", "0", "from 1 to 1000"),
        ("--seconds", "nan", "above 0"),
        ("--warm-up", "601", "at most 600"),
        ("--only", "gain", "possible values: wasted, pays, compressed, hits, demotions"),
    ] {
        let problem = refusal(&bufbench(folder.path(), &["tiers", flag, value]));
        assert!(problem.contains(expected), "{problem}");
    }
    assert!(names_in(folder.path()).is_empty());
}

#[test]
fn io_compares_the_pool_with_a_bare_loop_at_each_depth() {
    let folder = folder();
    let output = bufbench(
        folder.path(),
        &["io", "--depth", "1,4", "--pages", "8192", "--reads", "600", "--list", "256"],
    );
    if String::from_utf8_lossy(&output.stderr).contains("a ring for the bare loop") {
        println!("skipped: no io_uring here");
        return;
    }
    let rows = rows(&output);
    assert_eq!(rows[0].join(","), "depth,ours_iops,raw_iops,ratio,ours_cpu_us,raw_cpu_us");
    assert_eq!(rows[1..].iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["1", "4"]);
    for row in &rows[1..] {
        let [ours, raw, ratio] = [1, 2, 3].map(|column| row[column].parse::<f64>().unwrap());
        assert!((ours / raw - ratio).abs() < 0.001 * ratio + 1.0 / raw, "{row:?}");
    }
    assert!(names_in(folder.path()).is_empty());
    let small =
        refusal(&bufbench(folder.path(), &["io", "--depth", "1", "--pages", "1024", "--list", "256"]));
    assert!(small.contains("--pages 1024: expected at least 4096 at --depth 1 with --list 256"), "{small}");
    let futures =
        refusal(&bufbench(folder.path(), &["io", "--depth", "1,1024", "--pages", "8000", "--futures"]));
    assert!(futures.contains("--pages 8000: expected at least 8192 at --depth 1024: "), "{futures}");
}

/// Visits to hot pages are hits under each scheme, and the others are misses.
#[test]
fn misses_on_a_source_in_memory_are_held_against_two_pools() {
    let folder = folder();
    let flags =
        ["--threads", "1,3", "--hits", "0,50", "--frames", "1024", "--misses", "3000", "--rounds", "2"];
    let plot = ["--plot", "misses.svg", "--scheme", "lru,auto"];
    let rows = rows(&bufbench(folder.path(), &[&["misses"], &flags[..], &plot].concat()));
    let header = "scheme,threads,hit_percent,accesses,misses_per_s,ns_per_miss,lock_ns_per_miss,parks_per_miss,\
                  least,greatest,to_one_thread,to_two_threads,to_two_pools,cpu_ns_per_miss,hit_ratio,predicted,error";
    assert_eq!(rows[0].join(","), header);
    let pools: Vec<&Vec<String>> = rows[1..].iter().filter(|row| !row[6].is_empty()).collect();
    assert_eq!(pools.len(), 2 * 2 * 2 * 2, "hits, threads, schemes, and two pools of each");
    for row in pools {
        let (asked, found): (f64, f64) = (row[2].parse().unwrap(), row[14].parse().unwrap());
        let [threads, misses_per_s, ns_per_miss] =
            [1, 4, 5].map(|column| row[column].parse::<f64>().unwrap());
        assert!((misses_per_s * ns_per_miss / (1e9 * threads) - 1.0).abs() < 0.01, "{row:?}");
        assert!(row[3].parse::<u64>().unwrap() >= 3000, "{row:?}");
        assert!((found - asked / 100.0).abs() < 0.05, "{row:?}");
        let is_one = !row[0].ends_with("-two-pools");
        assert_eq!((!row[15].is_empty(), !row[16].is_empty()), (is_one, is_one), "{row:?}");
        // The model is fitted to the run with one thread.
        let error = &row[16];
        assert!(!is_one || threads > 1.0 || error.parse::<f64>().unwrap().abs() < 0.002, "{row:?}");
    }
    assert!(folder.path().join("misses.svg").exists());
}
