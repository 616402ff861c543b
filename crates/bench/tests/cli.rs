//! The program `bufbench` as users and scripts see it: columns, digits, exit status, messages.

mod command;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use command::{bufbench, command, failure, stdout};
use tempfile::TempDir;

fn write(dir: &TempDir, name: &str, text: &str) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, text).unwrap();
    path
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

const HEADER: &str = "trace,policy,frames,accesses,distinct,hits,misses,miss_ratio,evictions,decisions,overrules,\
                      mistakes,vindications,revocations,ns_per_access,tier_hits,demotions,aborted,refused,\
                      latency_ms";

#[test]
fn sim_prints_every_column_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "tiny.first.txt", "# two loops\n1\n2\n3\n1\n2\n3\n");
    let csv = stdout(&[
        "sim",
        "--trace",
        text(&trace),
        "--policy",
        "lru,mru",
        "--frames",
        "2,100%,1%",
        "--format",
        "csv",
    ]);
    let expected = [
        HEADER,
        "tiny,lru,2,6,3,0,6,1.000000,4,0,0,0,0,0,,,,,,",
        "tiny,lru,3,6,3,3,3,0.500000,0,0,0,0,0,0,,,,,,",
        "tiny,lru,1,6,3,0,6,1.000000,5,0,0,0,0,0,,,,,,",
        "tiny,mru,2,6,3,2,4,0.666667,2,0,0,0,0,0,,,,,,",
        "tiny,mru,3,6,3,3,3,0.500000,0,0,0,0,0,0,,,,,,",
        "tiny,mru,1,6,3,0,6,1.000000,5,0,0,0,0,0,,,,,,",
    ];
    assert_eq!(csv.lines().collect::<Vec<_>>(), expected);
}

/// Under LRU the process misses three blocks, each of which takes 0.5 ms to start and 22 ms of the disk.
/// Under AGGRESSIVE each comes in ahead while it computes, one at a time, since at most half of its frames
/// may be unread.
#[test]
fn a_machine_has_a_row_for_each_tenant_and_one_for_all() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "!compute 3 1.5\n!hints-all 3\n10 0 3\n30 0 3\n20 0 3\n");
    let machine = "disks=1,sequential_ms=5,random_ms=22,hit_us=0";
    let mut arguments = vec!["sim", "--trace", text(&trace), "--policy", "lru,aggressive", "--frames", "3"];
    arguments.extend(["--machine", machine, "--format", "csv"]);
    let csv = stdout(&arguments);
    let expected = [
        "trace,policy,frames,tenant,accesses,elapsed_s,stall_s,cpu_s,demand_misses,prefetches,late,wasted,\
         frames_owned",
        "t,lru,3,3,3,0.072000,0.067500,0.006000,3,0,0,0,3",
        "t,lru,3,all,3,0.072000,0.067500,0.006000,3,0,0,0,3",
        "t,aggressive,3,3,3,0.067500,0.061500,0.006000,0,3,3,0,3",
        "t,aggressive,3,all,3,0.067500,0.061500,0.006000,0,3,3,0,3",
    ];
    assert_eq!(csv.lines().collect::<Vec<_>>(), expected);
    let refused = |policy: &'static str, machine: &'static str| {
        let mut arguments = vec!["sim", "--trace", text(&trace), "--frames", "3", "--policy", policy];
        if !machine.is_empty() {
            arguments.extend(["--machine", machine]);
        }
        failure(&arguments)
    };
    assert!(refused("tip2", "").contains("expected one of the policies"));
    assert!(refused("opt", machine).contains("expected one of the policies of a machine"));
    assert!(refused("lru", "disks=0,sequential_ms=5,random_ms=22").contains("disks a whole number"));
    let pinned = write(&dir, "p.txt", "!pin 4\n4\n");
    let arguments =
        ["sim", "--trace", text(&pinned), "--frames", "3", "--policy", "lru", "--machine", machine];
    assert!(failure(&arguments).contains("expected a trace without !pin"));
}

#[test]
fn times_are_given_with_one_job_only() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n1\n");
    let csv = |jobs: &str| {
        stdout(&[
            "sim",
            "--trace",
            text(&trace),
            "--policy",
            "lru",
            "--frames",
            "2",
            "--format",
            "csv",
            "--jobs",
            jobs,
        ])
    };
    let nanoseconds = |csv: &str| csv.lines().nth(1).unwrap().split(',').nth(14).unwrap().parse::<f64>();
    assert!(nanoseconds(&csv("1")).unwrap() > 0.0);
    assert!(nanoseconds(&csv("2")).is_err());
}

#[test]
fn the_number_of_jobs_and_streaming_make_no_difference() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("readn.txt.zst");
    stdout(&["gen", "readn", "--advice", "foolish", "--out", text(&trace)]);
    let sim = |extra: &[&str]| {
        let policies = "lru,opt,clock,lru-sp,lru-s,alloc-lru";
        let mut arguments =
            vec!["sim", "--trace", text(&trace), "--policy", policies, "--frames", "100,10%,819"];
        arguments.extend(["--format", "csv"]);
        arguments.extend(extra);
        stdout(&arguments)
    };
    let expected = sim(&["--jobs", "3"]);
    assert_eq!(sim(&["--jobs", "2"]), expected);
    let scratch = text(dir.path());
    assert_eq!(sim(&["--jobs", "2", "--trace-memory", "0", "--scratch", scratch]), expected);
}

#[test]
fn counts_by_tenant_have_a_key_and_no_total() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1 5 7\n2 5 7\n3 6 2\n1 5 7\n");
    let rows = |by: &str| -> Vec<String> {
        let arguments = ["sim", "--trace", text(&trace), "--policy", "lru-sp", "--frames", "2", "--by", by];
        let csv = stdout(&[&arguments[..], &["--format", "csv"]].concat());
        csv.lines().map(str::to_owned).collect()
    };
    assert_eq!(
        rows("tenant"),
        [
            &format!("key,{HEADER}"),
            "2,t,lru-sp,2,1,3,0,1,1.000000,0,0,0,0,0,0,,,,,,",
            "7,t,lru-sp,2,3,3,0,3,1.000000,2,0,0,0,0,0,,,,,,",
        ]
    );
    assert_eq!(
        rows("site")[1..],
        [
            "5,t,lru-sp,2,3,3,0,3,1.000000,2,0,0,0,0,0,,,,,,",
            "6,t,lru-sp,2,1,3,0,1,1.000000,0,0,0,0,0,0,,,,,,",
        ]
    );
}

/// What a tenant gives up counts though all its accesses came before the count.
#[test]
fn who_only_gives_up_blocks_has_a_row() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1 0 7\n2 0 2\n");
    let flags =
        ["--policy", "lru-sp", "--frames", "1", "--by", "tenant", "--warm-up", "1", "--format", "csv"];
    let csv = stdout(&[&["sim", "--trace", text(&trace)][..], &flags].concat());
    let rows: Vec<_> = csv.lines().skip(1).collect();
    assert_eq!(
        rows,
        [
            "2,t,lru-sp,1,1,2,0,1,1.000000,0,0,0,0,0,0,,,,,,",
            "7,t,lru-sp,1,0,2,0,0,0.000000,1,0,0,0,0,0,,,,,,",
        ]
    );
}

/// Worked out by hand. Under DEMOTE 1 and 2 pass through the tier. 3 ejects 1, which the tier has already,
/// and takes the place of 2 there. 1 ejects 2, which takes the place of 3 in the tier, and is found in the
/// tier.
#[test]
fn a_lower_cache_has_columns_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n3\n1\n3\n");
    let row = |tier: &str, extra: &[&str]| {
        let arguments = ["sim", "--trace", text(&trace), "--frames", "2", "--tier", tier, "--format", "csv"];
        let policy: &[&str] = if extra.contains(&"--policy") { &[] } else { &["--policy", "lru"] };
        let csv = stdout(&[&arguments[..], policy, extra].concat());
        assert_eq!(csv.lines().next(), Some(HEADER));
        csv.lines().nth(1).unwrap().to_owned()
    };
    let demote = "t,lru,2,5,3,1,4,0.800000,2,0,0,0,0,0,,1,2,1,0,6.240000";
    assert_eq!(row("demote:2", &["--jobs", "2"]), demote);
    let of_tier = |row: &str| row.split(',').skip(15).collect::<Vec<_>>().join(",");
    assert_eq!(of_tier(&row("demote:2", &["--policy", "lru-sp"])), "1,2,1,0,6.240000");
    // OPT ejects 2 for 3, and keeps 1.
    assert_eq!(of_tier(&row("demote:2", &["--policy", "opt"])), "0,1,1,0,6.160000");
    let latency = ["--latency", "t_d=10,t_a=0.2,t_abort=0.1"];
    assert!(row("demote:2", &latency).ends_with(",1,2,1,0,6.220000"));
    assert!(row("demote:2", &["--latency", "t_a=1,t_d=5"]).ends_with(",1,2,1,0,4.200000"));
    for tier in ["none-lru:2", "inclusive:2", "none-lru:60%"] {
        assert!(row(tier, &["--jobs", "2"]).ends_with(",2,0,0,0,0,0,,0,0,0,0,8.160000"), "{tier}");
    }
    assert_eq!(
        row("demote:2", &["--warm-up", "3"]),
        "t,lru,2,2,3,1,1,0.500000,1,0,0,0,0,0,,1,1,0,0,0.200000"
    );
    assert_eq!(row("demote:2", &["--warm-up", "9"]), "t,lru,2,0,3,0,0,0.000000,0,0,0,0,0,0,,0,0,0,0,");
    for tier in ["demote-lru:2", "slru/50:2", "adapt-uni:2", "adapt-exp:2", "promote:2"] {
        assert_eq!(row(tier, &[]), row(tier, &[]), "{tier}");
    }
}

#[test]
fn clients_share_the_frames_and_the_lower_cache() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1 0 5\n1 0 9\n2 0 5\n1 0 9\n");
    let rows = |extra: &[&str]| -> Vec<String> {
        let arguments = ["sim", "--trace", text(&trace), "--policy", "lru-sp", "--format", "csv"];
        let csv = stdout(&[&arguments[..], &["--tier", "demote:1", "--clients"], extra].concat());
        csv.lines().skip(1).map(str::to_owned).collect()
    };
    let total = "t,lru-sp,3,4,2,1,3,0.750000,1,0,0,0,0,0,,1,1,1,0,6.000000";
    // A frame each; one is left over.
    assert_eq!(rows(&["--frames", "3", "--latency", "t_a=1,t_d=10"]), [total]);
    assert_eq!(
        rows(&["--frames", "2", "--by", "tenant"]),
        [
            "5,t,lru-sp,2,2,2,0,2,1.000000,1,0,0,0,0,0,,0,1,1,0,10.300000",
            "9,t,lru-sp,2,2,2,1,1,0.500000,0,0,0,0,0,0,,1,0,0,0,0.100000",
        ]
    );
}

#[test]
fn wrong_lower_caches_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1 0 5\n1 0 9\n");
    let refused = |policy: &str, extra: &[&str]| {
        let arguments = ["sim", "--trace", text(&trace), "--frames", "1", "--policy", policy];
        failure(&[&arguments[..], extra].concat())
    };
    for (policy, extra, expected) in [
        ("lru", &["--tier", "demote"][..], "expected KIND:FRAMES with one of the kinds none-lru"),
        ("lru", &["--tier", "slru/101:5"], "expected one of the kinds none-lru"),
        ("lru", &["--tier", "demote:0"], "expected a number of frames"),
        ("lru", &["--tier", "demote:4294967295"], "expected at most 2147483646 frames"),
        ("lru", &["--tier", "demote:5", "--latency", "t_x=1"], "expected one of the keys t_a, t_d, t_abort"),
        ("lru", &["--latency", "t_a=1"], "--tier"),
        ("lru", &["--clients"], "--tier"),
        ("lru", &["--tier", "demote:5", "--clients"], "expected at least a frame for each of the 2 tenants"),
        ("opt", &["--tier", "promote:5"], "expected another policy than opt"),
        ("lru", &["--tier", "demote:5", "--warm-up", "x"], "--warm-up"),
        ("lru", &["--tier", "demote:5", "--machine", "disks=1,sequential_ms=5,random_ms=22"], "--machine"),
        ("lru", &["--clients", "--machine", "disks=1,sequential_ms=5,random_ms=22"], "--machine"),
        ("lru", &["--latency", "t_a=1", "--machine", "disks=1,sequential_ms=5,random_ms=22"], "--machine"),
    ] {
        let message = refused(policy, extra);
        assert!(message.contains(expected), "{expected:?} is missing in: {message}");
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_bufbench"));
    command.args([
        "sim",
        "--trace",
        text(&trace),
        "--frames",
        "1",
        "--policy",
        "lru",
        "--tier",
        "adapt-exp:9",
    ]);
    let output = command.output().unwrap();
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("only the last segment exists"));
}

#[test]
fn json_has_the_same_columns() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n1\n");
    let json =
        stdout(&["sim", "--trace", text(&trace), "--policy", "opt", "--frames", "1", "--format", "json"]);
    let rows: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(rows.as_array().unwrap().len(), 1);
    assert_eq!(rows[0]["policy"], "opt");
    assert_eq!(rows[0]["misses"], 3);
    assert_eq!(rows[0].as_object().unwrap().len(), HEADER.split(',').count());
}

#[test]
fn malformed_input_is_an_error_that_names_file_line_and_expectation() {
    let dir = tempfile::tempdir().unwrap();
    for (name, trace, expected) in [
        ("word.txt", "1\n2\nx\n", "word.txt: line 3: expected `block [site [tenant]]`"),
        (
            "policy.txt",
            "!policy 0 0 opt\n",
            "policy.txt: line 1: expected `!policy TENANT PRIO NAME` with a known NAME",
        ),
        ("unpin.txt", "1\n!unpin 1\n", "unpin.txt: line 2: expected a block that is pinned"),
        ("pins.txt", "1\n!pin 1\n# all pinned\n2\n", "pins.txt: line 4: block 2 needs a frame"),
        ("half.oracleGeneral", "not a record", "half.oracleGeneral: byte 0: expected a record of 24 bytes"),
        ("bad.txt.gz", "no gzip", "bad.txt.gz: "),
    ] {
        let trace = write(&dir, name, trace);
        let message = failure(&["sim", "--trace", text(&trace), "--policy", "lru-sp", "--frames", "1"]);
        assert!(message.contains(expected), "{name}: {message}");
    }
    let folder = failure(&["sim", "--trace", "/", "--policy", "lru", "--frames", "1"]);
    assert!(folder.contains("/: cannot be opened, expected a trace file: is a directory"), "{folder}");
    let message = failure(&["sim", "--trace", "no/such/file.txt", "--policy", "lru", "--frames", "1"]);
    assert!(message.contains("no/such/file.txt: cannot be opened, expected a trace file"), "{message}");
}

/// Opening the pipe a second time would block for ever, since nothing writes to it any more.
#[test]
fn a_pipe_is_read_once_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let sim = |steps: &'static str, extra: &[&str]| {
        let path = pipe.clone();
        let writer = std::thread::spawn(move || fs::write(path, steps));
        let arguments = ["sim", "--trace", text(&pipe), "--policy", "lru,arc", "--frames", "1"];
        let output = bufbench(&[&arguments[..], &["--format", "csv"], extra].concat());
        writer.join().unwrap().unwrap();
        output
    };
    let whole = sim("1\n2\n1\n", &[]);
    assert!(
        whole.status.success() && whole.stdout.ends_with(b"pipe,arc,1,3,2,0,3,1.000000,2,0,0,0,0,0,,,,,,\n")
    );
    for (steps, extra, expected) in [
        ("1\n2\n", &["--trace-memory", "0"][..], "expected a regular file, or a larger --trace-memory"),
        ("1\n!pin 1\n2\n", &[], "pipe: block 2 needs a frame"),
    ] {
        let output = sim(steps, extra);
        let message = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{message}");
        assert!(message.contains(expected), "{message}");
    }
}

/// `timeout` ends what would wait for ever.
#[test]
fn a_named_pipe_whose_other_end_nobody_has_is_said_to_be_one() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = |name: &str| {
        let path = dir.path().join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    };
    let [silent, unread, _beside] = [pipe("silent"), pipe("unread"), pipe("t.files.tsv")];
    let trace = write(&dir, "t.txt", "1\n");
    let baselines = dir.path().join("baselines");
    fs::create_dir(&baselines).unwrap();
    pipe("baselines/rows.csv");
    let [silent, unread, trace, baselines] = [&silent, &unread, &trace, &baselines].map(|path| text(path));
    let folder = text(dir.path());
    let program = format!("program:{silent}");
    let sim = |trace, policy| vec!["sim", "--trace", trace, "--frames", "1", "--policy", policy];
    let commands = [
        (sim(silent, "lru"), "silent: cannot be opened, expected a trace file"),
        (sim(trace, "lru"), "t.files.tsv: cannot be opened"),
        (sim("/dev/null", &program), "silent: cannot be read, expected the text of a program"),
        (vec!["program", "check", silent], "silent: cannot be read, expected the text of a program"),
        (vec!["grade", silent, "--traces", folder], "silent: cannot be read, expected a list of traces"),
        (
            vec!["check-baselines", baselines, "--traces", folder],
            "rows.csv: cannot be read, expected a CSV file",
        ),
        (vec!["gen", "loop", "--out", unread], "unread: cannot be written"),
    ];
    let runs = commands.map(|(arguments, expected)| {
        let mut command = Command::new("timeout");
        command.args(["60", env!("CARGO_BIN_EXE_bufbench")]).args(&arguments);
        (command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), expected)
    });
    for (run, expected) in runs {
        let output = run.wait_with_output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{expected}: {message}");
        assert!(message.contains(expected), "{expected:?} is missing in: {message}");
        let other_end = if expected.ends_with("written") { "reading" } else { "writing" };
        let why = format!("it is a FIFO (named pipe), expected a program that has it open for {other_end}");
        assert!(message.contains(&why), "{message}");
    }
}

/// A writer may come after the reader, and may rest between two lines. A pipe of a shell has no name, and may
/// have lost its writer when it is opened.
#[test]
fn pipes_with_writers_are_read_to_their_ends() {
    let dir = tempfile::tempdir().unwrap();
    let script = r#"
        mkfifo pipe.txt out
        (sleep 0.2; cat out > got) &
        "$BUFBENCH" gen loop --out out
        wait
        "$BUFBENCH" gen loop | cmp - got
        (sleep 0.2; echo 1; sleep 0.2; echo 2; echo 1) > pipe.txt &
        "$BUFBENCH" sim --trace pipe.txt --policy lru --frames 2 --format csv
        "$BUFBENCH" sim --trace <(echo 1; sleep 0.2; echo 1) --policy program:<(cat policy) --frames 2 --format csv
        "$BUFBENCH" sim --trace <(true) --policy lru --frames 2 --format csv
        echo 7 | "$BUFBENCH" sim --trace /dev/stdin --policy lru --frames 2 --format csv"#;
    write(&dir, "policy", include_str!("../../../examples/programs/mru.policy"));
    let mut command = Command::new("timeout");
    command.args(["60", "bash", "-e", "-c", script]).current_dir(dir.path());
    let output = command.env("BUFBENCH", env!("CARGO_BIN_EXE_bufbench")).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let counts = printed.lines().filter(|line| *line != HEADER);
    let counts: Vec<_> =
        counts.map(|row| row.split(',').skip(3).take(4).collect::<Vec<_>>().join(",")).collect();
    let problems = String::from_utf8_lossy(&output.stderr);
    assert_eq!(counts, ["3,2,1,2", "2,1,1,1", "0,0,0,0", "1,1,0,1"], "{printed}{problems}");
    assert!(output.status.success(), "{problems}");
}

#[test]
fn a_tenant_has_at_most_4096_ranges_and_the_line_of_the_next_is_named() {
    let dir = tempfile::tempdir().unwrap();
    // Disjoint ranges of alternating priority, so that none replaces or extends another.
    let ranges = |count: u64| -> String {
        (0..count).map(|at| format!("!priority 0 {} {} {}\n", 10 * at, 10 * at, 1 + at % 2)).collect()
    };
    let trace = write(&dir, "fits.txt", &(ranges(4096) + "1\n"));
    let sim = |trace: &Path| {
        vec![
            "sim".to_owned(),
            "--trace".into(),
            text(trace).into(),
            "--policy".into(),
            "lru-sp".into(),
            "--frames".into(),
            "9".into(),
        ]
    };
    let words = sim(&trace);
    stdout(&words.iter().map(String::as_str).collect::<Vec<_>>());
    let words = sim(&write(&dir, "over.txt", &(ranges(4097) + "1\n")));
    let message = failure(&words.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(message.contains("over.txt: line 4097: "), "{message}");
}

#[test]
fn wrong_arguments_end_with_status_one_and_say_what_was_expected() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n");
    let sim = |policy: &str, frames: &str, extra: &[&str]| {
        let arguments = ["sim", "--trace", text(&trace), "--policy", policy, "--frames", frames];
        failure(&[&arguments[..], extra].concat())
    };
    for (message, expected) in [
        (sim("lruu", "1", &[]), "expected one of the policies lru"),
        (sim("lru", "0", &[]), "expected a number of frames"),
        (sim("lru", "5x", &[]), "expected a number of frames"),
        (sim("program:", "1", &[]), "expected program:FILE with the path of a program, found no path"),
        (sim("lru,fifo2-sp+program:", "1", &[]), "expected fifo2-sp+program:FILE with the path of a program"),
        (sim("lru-sp", "5", &["--floor", "1"]), "expected TENANT=FRAMES"),
        (
            sim("lru-sp", "5", &["--floor", "0=3", "--cap", "0=2"]),
            "--floor, --cap: tenant 0: a cap of 2 frames, expected at least 1 and at least the floor of 3",
        ),
        (sim("lru-sp", "5", &["--floor", "0=6"]), "tenant 0: floors of 6 frames in all, expected at most 5"),
        (sim("lru-sp", "5", &["--cap", "0=0"]), "--floor, --cap: tenant 0: a cap of 0 frames"),
        (sim("lru-sp", "5", &["--floor", "3=1"]), "expected a tenant of trace t, found 3"),
        (sim("lru-sp", "5", &["--floor", "0=1", "--floor", "0=2"]), "expected one --floor a tenant"),
        (sim("opt", "5", &["--trace-memory", "0"]), "expected --scratch DIR"),
        (sim("lru", "1", &["--jobs", "x"]), "expected a number of threads from 1 to 1024"),
        (sim("lru", "1", &["--jobs", "0"]), "expected a number of threads from 1 to 1024"),
        (sim("lru", "1", &["--seed", "x"]), "expected a whole number from 0 to 18446744073709551615"),
        (
            sim("lru", "1", &["--plot", "no/such/plot.svg"]),
            "no/such/plot.svg: cannot be written, expected a path",
        ),
        (sim("opt", "1", &["--scratch", "no/such"]), "--scratch: the next uses of OPT cannot be written"),
        (failure(&["gen", "cs1", "--out", "no/such.txt"]), "no/such.txt: cannot be written, expected a path"),
        (failure(&["gen", "cs9"]), "expected one of the streams cs1"),
        (failure(&["gen", "cs1", "--set", "n=3"]), "one of the keys blocks, passes, references"),
        (failure(&["no-such-command"]), "no-such-command"),
    ] {
        assert!(message.contains(expected), "{expected:?} is missing in: {message}");
    }
}

/// A message of the parser of numbers says neither what was expected nor, of a number below zero, which flag
/// it was for.
#[test]
fn wrong_numbers_name_their_flag_and_what_was_expected() {
    let sim = ["sim", "--trace", "t.txt", "--policy", "lru", "--frames", "1"];
    let live = ["live", "--workload", "lookup-zipf"];
    let search = ["program", "search", "--tune", "a", "--holdout", "b", "--frames", "1", "--out", "c"];
    let u64s = "expected a whole number from 0 to 18446744073709551615";
    for (arguments, flag, range) in [
        (&sim[..], "--warm-up", u64s),
        (&sim, "--trace-memory", u64s),
        (&sim, "--program-fuel", "expected a whole number from 1 to 4294967295"),
        (&live, "--frames", "expected a whole number from 0 to 4294967295"),
        (&live, "--memory", u64s),
        (&live, "--tuples", "expected a whole number from 100 to 536870912"),
        (&live, "--threads", "expected a whole number from 1 to 1024"),
        (&search, "--budget", "expected a whole number from 1 to 18446744073709551615"),
        (&["gen", "clients"], "--lag", u64s),
        (&["io"], "--depth", "expected a whole number from 1 to 1024"),
        (&["misses"], "--hits", "expected a whole number from 0 to 99"),
        (&["phases"], "--seed", u64s),
    ] {
        for number in ["x", "", "1.5", "-1", "99999999999999999999"] {
            let message = failure(&[arguments, &[flag, number]].concat());
            assert!(message.contains(&format!("'{number}' for '{flag} <")), "{flag} {number:?}: {message}");
            assert!(message.contains(range), "{flag} {number:?}: {message}");
        }
    }
    for (arguments, flag, value, expected) in [
        (&sim[..5], "--frames", "-1", "'--frames <SIZE>': expected a number of frames"),
        (&sim[..5], "--frames", "-5%", "'--frames <SIZE>': expected a number of frames"),
        (&sim, "--floor", "-1=2", "'--floor <TENANT=FRAMES>': expected TENANT=FRAMES"),
        (&["phases"], "--seeds", "-1..2", "expected a seed, or FIRST..LAST"),
        (&["phases"], "--frames", "-.5%", "expected a number of frames"),
    ] {
        let message = failure(&[arguments, &[flag, value]].concat());
        assert!(message.contains(&format!("'{value}' for '{flag} <")), "{message}");
        assert!(message.contains(expected), "{message}");
    }
    let too_many = failure(&["--keep", "-5%"]);
    assert!(too_many.contains("unexpected value '-5%' for '--keep'"), "{too_many}");
}

#[test]
fn lists_baselines_and_programs_name_the_line_that_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let folder = text(dir.path());
    let raw = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        text(&path).to_owned()
    };
    raw("t.txt", b"1\n2\n");
    for (baselines, expected) in [
        (&b""[..], "rows.csv: line 1: expected the header trace,capacity,policy,miss_ratio"),
        (b"t,2,LRU,1.0\n", "rows.csv: line 1: expected the header"),
        (b"trace,policy,capacity,miss_ratio\nt,LRU,2,1.0\n", "rows.csv: line 1: expected the header"),
        (
            b"trace,capacity,policy,miss_ratio\nt,2,LRU,1.0\n\xff,2,LRU,1.0\n",
            "rows.csv: line 3: expected UTF-8",
        ),
        (b"trace,capacity,policy,miss_ratio\nu,2,LRU,1.0\n", "expected a trace u"),
    ] {
        raw("rows.csv", baselines);
        let message = failure(&["check-baselines", folder, "--traces", folder]);
        assert!(message.contains(expected) && message.contains(folder), "{message}");
    }
    for (names, expected) in [
        (
            &b"# which\nnosuch.txt\n"[..],
            "some.list: line 2: expected a trace nosuch.txt beside the list or in ",
        ),
        (b"t.txt\n\n\xff\n", "some.list: line 3: expected UTF-8 text"),
    ] {
        let list = raw("some.list", names);
        let message = failure(&["grade", &list, "--traces", folder]);
        assert!(message.contains(expected), "{message}");
    }
    let endless = failure(&["grade", "/dev/zero", "--traces", folder]);
    assert!(endless.contains("/dev/zero: expected a list of traces of at most 67108864 bytes"), "{endless}");
    let program = raw("some.policy", "policy x {\n  # \u{e9}\n  event ".as_bytes());
    fs::OpenOptions::new().append(true).open(&program).unwrap().write_all(b"\xff { ret }").unwrap();
    let message = failure(&["program", "check", &program]);
    assert!(message.contains("some.policy:3:9: expected UTF-8 text"), "{message}");
}

/// What cannot be printed ends a command with status 1 if it is the result, and is lost if it is a note.
#[test]
fn full_outputs_are_named_and_notes_to_nobody_are_lost() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n1\n");
    let sim = ["sim", "--trace", text(&trace), "--policy", "lru", "--frames", "1"];
    let noted = [&sim[..], &["--tier", "adapt-exp:2", "--format", "csv"]].concat();
    let policy = write(&dir, "p.policy", include_str!("../../../examples/programs/mru.policy"));
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for arguments in [&sim[..], &["program", "disassemble", text(&policy)], &["gen", "cs1"], &["--help"]] {
        let output = command(arguments).stdout(full()).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(
            message.contains("standard output: cannot be written, expected room"),
            "{arguments:?}: {message}"
        );
    }
    let (reader, closed) = std::io::pipe().unwrap();
    drop(reader);
    for lost in [full().into(), Stdio::from(closed)] {
        let output = command(&noted).stderr(lost).output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        assert!(String::from_utf8(output.stdout).unwrap().contains("t,lru,1,3,2,"));
    }
    let failed =
        command(&["sim", "--trace", "nosuch", "--policy", "lru", "--frames", "1"]).stderr(full()).output();
    assert_eq!(failed.unwrap().status.code(), Some(1));
}

#[test]
fn what_is_given_twice_or_is_no_folder_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(&dir, "t.txt", "1\n");
    for (arguments, expected) in [
        (
            &["gen", "cs1", "--set", "blocks=1", "--set", "blocks=2"][..],
            "--set blocks=2: expected each key once",
        ),
        (&["gen", "clients", "--set", "lag=1", "--lag", "2"], "--set lag=2: expected each key once"),
        (
            &["live", "--workload", "lookup-zipf,lookup-zipf"],
            "--workload lookup-zipf: expected each workload once",
        ),
        (&["live", "--workload", "lookup-zipf", "--dir", text(&file)], "t.txt: expected a folder"),
    ] {
        let message = failure(arguments);
        assert!(message.contains(expected), "{message}");
    }
}

/// An option that would change nothing is refused or named in a message.
#[test]
fn options_without_effect_are_refused_or_told() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n");
    let sim = |policy: &str, extra: &[&str]| {
        let arguments =
            ["sim", "--trace", text(&trace), "--policy", policy, "--frames", "9", "--format", "csv"];
        let output = bufbench(&[&arguments[..], extra].concat());
        (output.status.success(), String::from_utf8(output.stderr).unwrap())
    };
    for option in
        [&["--floor", "0=1"][..], &["--cap", "0=9"], &["--shared-pages", "on"], &["--program-fuel", "9"]]
    {
        let refused =
            format!("{} has no effect under lru opt, expected one of the policies lru-sp ", option[0]);
        let (succeeded, message) = sim("lru,opt", option);
        assert!(!succeeded && message.contains(&refused) && message.contains("program:FILE"), "{message}");
        let (succeeded, message) = sim("lru,lru-sp", option);
        assert!(
            succeeded && message.contains(&format!("{} has no effect under lru\n", option[0])),
            "{message}"
        );
        assert_eq!(sim("lru-sp,auto", option), (true, String::new()));
    }
    for option in [["--shared-account", "off"], ["--shared-learning", "off"]] {
        let (succeeded, message) = sim("lru-sp", &option);
        assert!(
            !succeeded && message.contains("under lru-sp, expected one of the policies auto"),
            "{message}"
        );
        assert_eq!(sim("auto", &option), (true, String::new()));
    }
    let (succeeded, message) = sim("auto", &["--program-fuel", "0"]);
    assert!(!succeeded && message.contains("--program-fuel"), "{message}");
    let machine = ["--machine", "disks=1,sequential_ms=5,random_ms=22"];
    for option in [
        ["--plot", "t.svg"],
        ["--shared-pages", "on"],
        ["--shared-account", "off"],
        ["--shared-learning", "off"],
        ["--program-fuel", "9"],
    ] {
        let (succeeded, message) = sim("lru", &[&machine[..], &option].concat());
        assert!(
            !succeeded && message.contains("cannot be used with") && message.contains(option[0]),
            "{message}"
        );
    }
    for policy in ["tip2", "aggressive", "horizon", "lru,tip2"] {
        let (succeeded, message) = sim(policy, &[]);
        assert!(
            !succeeded && message.contains("expected --machine, such as --machine disks=1,"),
            "{message}"
        );
        assert_eq!(sim(policy, &machine), (true, String::new()));
    }
}

#[test]
fn gen_writes_the_same_trace_for_the_same_seed() {
    let zipf = |seed: &str| stdout(&["gen", "zipf", "--set", "accesses=500", "--seed", seed]);
    assert_eq!(zipf("4"), zipf("4"));
    assert_ne!(zipf("4"), zipf("5"));
    let lagging = |lag: &[&str]| {
        stdout(&[&["gen", "clients", "--set", "clients=2", "--set", "accesses=30"][..], lag].concat())
    };
    assert_eq!(lagging(&["--lag", "7"]), lagging(&["--set", "lag=7"]));
    assert_ne!(lagging(&["--lag", "7"]), lagging(&[]));
    assert!(failure(&["gen", "cyclic", "--lag", "7"]).contains("one of the keys blocks, accesses"));
    assert_eq!(zipf("4").lines().count(), 500);
    let smart = stdout(&["gen", "din", "--advice", "smart"]);
    let head: Vec<&str> = smart.lines().take(4).collect();
    assert_eq!(head, ["!file 0 1023 data", "!priority 0 0 1023 0", "!policy 0 0 mru", "0\t1"]);
}

/// 2^40 items fit in no memory. Each stream that would keep so many refuses before it writes a line.
#[test]
fn gen_refuses_what_memory_cannot_hold() {
    const MOST: u64 = 1 << 40;
    for (stream, key) in [
        ("c", "blocks"),
        ("d", "blocks"),
        ("f", "blocks"),
        ("f'", "blocks"),
        ("i", "blocks"),
        ("zipf", "blocks"),
        ("clients", "blocks"),
        ("tenants", "blocks"),
        ("hinted-pair", "passes"),
        ("xds", "reads"),
        ("xds-pair", "reads"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("out.txt");
        let refused = failure(&["gen", stream, "--set", &format!("{key}={MOST}"), "--out", text(&out)]);
        assert!(refused.contains(&format!("--set {key}={MOST}: expected less")), "{stream}: {refused}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    // What lagging clients keep is bounded by the sum of their lags, which may exceed 2^64, and by the number
    // of accesses.
    for clients in [1 << 20, MOST] {
        let set = [("clients", clients), ("accesses", MOST), ("blocks", 2), ("lag", 1 << 32)];
        let set = set.map(|(key, value)| format!("{key}={value}"));
        let set: Vec<&str> = set.iter().flat_map(|set| ["--set", set]).collect();
        let refused = failure(&[&["gen", "clients"][..], &set].concat());
        assert!(refused.contains("--set lag=4294967296: expected less"), "{refused}");
    }
}

#[test]
fn plot_draws_every_policy_and_opt_and_leaves_the_table_alone() {
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "drawn.txt", "1\n2\n3\n1\n2\n3\n");
    let plot = dir.path().join("out.svg");
    let arguments =
        ["sim", "--trace", text(&trace), "--policy", "lru,fifo", "--frames", "1,2,3", "--format", "csv"];
    let plain = stdout(&arguments);
    assert_eq!(stdout(&[&arguments[..], &["--plot", text(&plot)]].concat()), plain);
    let svg = fs::read_to_string(plot).unwrap();
    for word in ["drawn", "lru", "fifo", "opt", "miss ratio"] {
        assert!(svg.contains(word), "{word} is missing");
    }
}

/// `/dev/full` can be opened, and refuses all writes.
#[test]
fn a_plot_that_cannot_be_written_is_found_before_the_work_or_does_not_cost_the_table() {
    let early =
        ["sim", "--trace", "no/such.txt", "--policy", "lru", "--frames", "1", "--plot", "no/such.svg"];
    assert!(failure(&early).contains("no/such.svg: cannot be written, expected a path"));
    let paper = failure(&["paper", "--experiment", "a7", "--report", "no/such.html"]);
    assert!(paper.contains("no/such.html: cannot be written, expected a path"), "{paper}");
    let dir = tempfile::tempdir().unwrap();
    let trace = write(&dir, "t.txt", "1\n2\n1\n");
    let sim = ["sim", "--trace", text(&trace), "--policy", "lru", "--frames", "2", "--format", "csv"];
    let table = stdout(&sim);
    let misses = ["misses", "--threads", "1", "--hits", "0", "--frames", "1024", "--misses", "64"];
    let misses = [&misses[..], &["--rounds", "1", "--scheme", "lru", "--format", "csv"]].concat();
    for (arguments, is_table) in [
        (&sim[..], &(|printed: &str| printed == table) as &dyn Fn(&str) -> bool),
        (&misses, &|printed| printed.starts_with("scheme,threads,")),
    ] {
        let output = bufbench(&[arguments, &["--plot", "/dev/full"]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(is_table(&String::from_utf8(output.stdout).unwrap()), "{arguments:?}");
        assert!(String::from_utf8_lossy(&output.stderr).contains("/dev/full: cannot be written"));
    }
}

/// A point of a recorded baseline, worked out by hand: in a loop of 4 blocks over 3 frames LRU always misses.
#[test]
fn what_call_sites_are_worth_is_found_at_the_recorded_points() {
    let dir = TempDir::new().unwrap();
    for folder in ["traces", "baselines"] {
        fs::create_dir(dir.path().join(folder)).unwrap();
    }
    let passes = "1 7\n2 7\n3 7\n4 7\n".repeat(50);
    write(&dir, "traces/pg_tiny.txt", &passes);
    let rows = "trace,capacity,policy,miss_ratio\npg_tiny,3,LRU,1.000000\npg_tiny,3,OPT,0.345000\npg_tiny,3,FIFO,1.000000\n";
    write(&dir, "baselines/tiny.csv", rows);
    let run = |traces: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bufbench"));
        command.env("BUFPOOL_TRACES", dir.path().join(traces));
        command.args(["paper", "--experiment", "call-sites", "--format", "csv"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let found = run("traces");
    assert!(found.starts_with("id,what,published,ours,tolerance,verdict\n"));
    let point = found.lines().find(|line| line.contains("pg_tiny, 3 frames")).unwrap();
    assert!(point.contains("LRU 1.000000, ARC 1.000000, best LRU 1.000000"), "{point}");
    for bar in ["geometric mean to LRU", "without sites and files", "a loop of 1170 blocks"] {
        assert!(found.contains(bar), "{bar}");
    }
    assert!(!found.contains("other traces"), "there are none");
    let absent = run("nowhere");
    assert!(absent.contains("set BUFPOOL_TRACES") && absent.contains("a loop of 1170 blocks"), "{absent}");
}

#[test]
fn paper_prints_findings_and_writes_a_page() {
    let dir = tempfile::tempdir().unwrap();
    let page = dir.path().join("paper.html");
    let csv = stdout(&["paper", "--experiment", "a7", "--report", text(&page), "--format", "csv"]);
    let mut lines = csv.lines();
    assert_eq!(lines.next(), Some("id,what,published,ours,tolerance,verdict"));
    let exact: Vec<&str> = lines.filter(|line| line.contains(",exact,")).collect();
    assert_eq!(exact.len(), 4, "protection, for each size of the foreground's groups");
    assert!(exact.iter().all(|line| line.ends_with(",reproduced")), "{exact:?}");
    let html = fs::read_to_string(page).unwrap();
    assert!(html.contains("</svg>") && html.contains("commit"));
    // The namespace of SVG is a name, from which nothing is loaded.
    assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http"));
    let exact = stdout(&["paper", "--experiment", "D1", "--format", "csv"]);
    assert!(exact.contains("\"5.100, 0.200 ms\",exact,reproduced"), "{exact}");
    assert!(failure(&["paper", "--experiment", "Z9"]).contains("expected one of the experiments A1"));
}

#[test]
fn check_baselines_fails_when_an_exact_policy_differs_and_only_then() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir, "t.txt", "1\n2\n3\n1\n2\n3\n");
    let csv = |rows: &str| write(&dir, "peers.csv", &format!("trace,capacity,policy,miss_ratio\n{rows}"));
    let check = |expected: bool| {
        let arguments =
            ["check-baselines", text(dir.path()), "--traces", text(dir.path()), "--format", "csv"];
        let output = bufbench(&arguments);
        assert_eq!(output.status.success(), expected, "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    csv("t,2,LRU,1.000000\nt,2,OPT,0.666667\nt,2,LeCaR,0.5\n");
    let rows = check(true);
    assert!(rows.contains("LRU,lru,1,1,1,0,0.000000,0.000000,t:2,ok"), "{rows}");
    assert!(rows.contains("LeCaR,,1,,,,,,,skipped"), "{rows}");
    csv("t,2,lru,0.9\n");
    assert!(check(false).contains("lru,lru,1,0,0,0,0.100000"));
    csv("t,2,ARC,0.1\n");
    assert!(check(true).contains("differs"), "a close policy is told and does not fail");
    csv("t,2,OPT,0.666668\n");
    assert!(check(false).contains("OPT,opt,1,0,0"));
    csv("t,2,LeCaR,0.5\n");
    check(false);
    csv("t,2,LRU,1.0\nt,2,LeCaR,0.5\nt,2,Random,0.5\nt,3,LeCaR,0.5\n");
    let rows = bufbench(&["check-baselines", text(dir.path()), "--traces", text(dir.path()), "--rows"]);
    let note = String::from_utf8(rows.stderr).unwrap();
    assert!(note.contains("rows compared: 1, skipped: 3 (no such policy here as LeCaR Random)"), "{note}");
    for ratio in ["2", "-1", "NaN"] {
        csv(&format!("t,2,LRU,0.5\nt,3,LRU,{ratio}\n"));
        let refused = failure(&["check-baselines", text(dir.path()), "--traces", text(dir.path())]);
        assert!(
            refused.contains("peers.csv: line 3: expected")
                && refused.contains(&format!("from 0 to 1, found `t,3,LRU,{ratio}`")),
            "{refused}"
        );
    }
    csv("t,2,LIRS_author,0.833333\n");
    let rows = check(true);
    assert!(rows.contains("LIRS_author,lirs,1,") && rows.contains("LIRS_author,lirs:unbounded,1,"), "{rows}");
}

#[test]
fn the_folder_for_data_files_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let new = dir.path().join("not/there/yet");
    let arguments =
        ["live", "--workload", "btree", "--tuples", "1000", "--direct", "prefer", "--dir", text(&new)];
    assert!(stdout(&arguments).contains("btree"));
    assert!(new.is_dir());
}

#[test]
fn phases_are_graded_beside_lru_and_arc() {
    let phases = |extra: &[&str]| {
        let arguments = ["phases", "--seeds", "1..2", "--frames", "10%,60%", "--format", "csv"];
        stdout(&[&arguments[..], extra].concat())
    };
    let summary = phases(&["--policy", "lru,arc"]);
    let lines: Vec<&str> = summary.lines().collect();
    assert!(lines[0].starts_with("policy,points,mean,above_1.02,worst,worst_at,points_from_5_turnovers,"));
    assert!(
        lines.len() == 3 && lines[1].starts_with("lru,4,") && lines[2].starts_with("arc,4,"),
        "{summary}"
    );
    let points = phases(&["--policy", "lru,arc", "--points", "--jobs", "1"]);
    assert_eq!(points.lines().count(), 1 + 2 * 2 * 2);
    assert_eq!(points, phases(&["--policy", "lru,arc", "--points", "--jobs", "2"]));
    for point in points.lines().skip(1) {
        let cells: Vec<&str> = point.split(',').collect();
        let [_, _, policy, misses, lru, arc, _, _] = cells[..] else { panic!("{point}") };
        assert_eq!(misses, if policy == "lru" { lru } else { arc });
    }
    assert!(failure(&["phases", "--seeds", "9..1"]).contains("expected a seed, or FIRST..LAST"));
    assert!(failure(&["phases", "--policy", "best"]).contains("expected one of the policies"));
}

#[test]
fn lists_are_graded_at_the_sizes_of_the_baselines() {
    let dir = tempfile::tempdir().unwrap();
    let text_of = |blocks: u64| (0..2000).map(|at| format!("{}\n", at * at % blocks)).collect::<String>();
    write(&dir, "pg_one.txt", &text_of(97));
    write(&dir, "two.txt", &text_of(61));
    let baselines = dir.path().join("baselines");
    fs::create_dir(&baselines).unwrap();
    fs::write(
        baselines.join("peers.csv"),
        "trace,capacity,policy,miss_ratio\ntwo,10,SIEVE,0.5\ntwo,10,OPT,0.25\n",
    )
    .unwrap();
    let list = write(&dir, "some.list", "# two traces\npg_one.txt\ntwo.txt\n");
    let grade = |extra: &[&str]| {
        let arguments =
            ["grade", text(&list), "--baselines", text(&baselines), "--policy", "lru", "--format", "csv"];
        stdout(&[&arguments[..], extra].concat())
    };
    let summary = grade(&[]);
    let rows: Vec<Vec<&str>> = summary.lines().map(|line| line.split(',').collect()).collect();
    let named: Vec<[&str; 4]> = rows[1..].iter().map(|row| [row[0], row[1], row[2], row[3]]).collect();
    let expected = [["pg_one", "4"], ["two", "1"], ["tagged", "4"], ["others", "1"], ["all", "5"]];
    assert_eq!(named, expected.map(|[name, points]| ["some", name, "lru", points]), "{summary}");
    assert!(rows[1..].iter().all(|row| row[5] == "1.000000"), "LRU against LRU: {summary}");
    let points = grade(&["--points"]);
    assert!(
        points
            .lines()
            .any(|line| line.starts_with("some,two,10,lru,") && line.ends_with(",0.500000,0.250000"))
    );
    write(&dir, "other.list", "two.txt\n");
    let other = dir.path().join("other.list");
    assert!(failure(&["grade", text(&list), text(&other)]).contains("two.txt: expected a trace on one list"));
    assert!(failure(&["grade", "no.list"]).contains("no.list: cannot be read, expected a list of traces"));
}

#[test]
fn constants_are_scaled_one_by_one() {
    let dir = tempfile::tempdir().unwrap();
    let text_of = |blocks: u64| {
        let block =
            |at: u64| if at.is_multiple_of(3) { at / 3 % blocks } else { blocks + at * at % (2 * blocks) };
        (0..20_000).map(|at| format!("{}\n", block(at))).collect::<String>()
    };
    write(&dir, "one.txt", &text_of(197));
    write(&dir, "two.txt", &text_of(301));
    let lists = ["one", "two"].map(|name| write(&dir, &format!("{name}.list"), &format!("{name}.txt\n")));
    let tune = |constants: &str, factors: &str| {
        let [one, two] = lists.each_ref().map(|list| text(list));
        let chosen = ["--constants", constants, "--factors", factors];
        let rows = stdout(&[&["tune", one, two, "--format", "csv"][..], &chosen].concat());
        let cells = |row: &str| row.split(',').map(str::to_owned).collect::<Vec<_>>();
        rows.lines().skip(1).map(cells).collect::<Vec<_>>()
    };
    let rows = tune("time_per_miss,reach", "1,0.125");
    assert_eq!(rows.len(), 2 * (1 + 2 * 2), "{rows:?}");
    for (list, rows) in ["one", "two"].into_iter().zip(rows.chunks(5)) {
        assert!(rows.iter().all(|row| row[2] == "1" && row[5] == list), "{rows:?}");
        let named: Vec<[&str; 2]> = rows.iter().map(|row| [row[0].as_str(), row[1].as_str()]).collect();
        let [time, reach] = ["time_per_miss", "reach"];
        let expected =
            [["default", "1.000"], [time, "1.000"], [time, "0.125"], [reach, "1.000"], [reach, "0.125"]];
        assert_eq!(named, expected);
        assert_eq!((rows[0][3].as_str(), &rows[0][7..]), ("0.000000", &rows[1][7..]), "times one");
        assert_ne!(rows[0][3], rows[2][3], "misses at one hit a miss: {rows:?}");
    }
    // Without a list, all traces of the folder.
    let all = stdout(&["tune", "--traces", text(dir.path()), "--constants", "reach", "--format", "csv"]);
    assert!(all.starts_with("constant,factor,traces,geo_mean_change,worst_point,"), "{all}");
    assert!(all.lines().skip(1).all(|row| row.split(',').nth(2) == Some("2")), "{all}");
    let unknown = failure(&["tune", text(&lists[0]), "--constants", "nothing"]);
    assert!(unknown.contains("expected one of the constants time_per_miss reach"), "{unknown}");
    let nowhere = failure(&["tune", "--traces", "no/such"]);
    assert!(nowhere.contains("--traces no/such: cannot be read, expected a folder with traces"), "{nowhere}");
}

#[test]
fn a_pool_takes_managers_only_for_its_tenants() {
    assert!(
        failure(&["tenants", "--only", "pool", "--policy", "arc"]).contains("expected lru-sp or a manager")
    );
}

/// The simulator without a machine fetches nothing ahead, but what is disclosed decides which pages go: all
/// later accesses of a tenant, or each of them by itself.
#[test]
fn hints_count_without_time() {
    let dir = tempfile::tempdir().unwrap();
    let loops = "1\n2\n3\n4\n".repeat(3);
    let one_by_one = "!hint 0 1 4\n".repeat(3);
    let misses = |name: &str, steps: &str| {
        let trace = write(&dir, name, steps);
        let flags = ["--policy", "lru-sp", "--frames", "3", "--format", "csv"];
        let rows = stdout(&[&["sim", "--trace", text(&trace)][..], &flags].concat());
        rows.lines().nth(1).unwrap().split(',').nth(6).unwrap().parse::<u64>().unwrap()
    };
    let [plain, all, each] = [
        misses("plain.txt", &loops),
        misses("all.txt", &format!("!hints-all 0\n{loops}")),
        misses("each.txt", &format!("{one_by_one}{loops}")),
    ];
    assert_eq!((plain, all, each), (12, 6, 6));
    // Accesses of another tenant are not disclosed, and a list ends at `!hints-end`.
    let beside = loops.lines().map(|block| format!("{block}\n9 0 1\n")).collect::<String>();
    assert!(misses("beside.txt", &format!("!hints-all 0\n{beside}")) < 24);
    assert_eq!(misses("ended.txt", &format!("!hints-all 0\n!hints-end 0\n{loops}")), 12);
    // A second `!hints-all` discloses nothing twice; after `!hints-end` it discloses again.
    let again = format!("!hints-all 0\n{loops}").replace("\n2", "\n!hints-all 0\n2");
    assert_eq!(misses("again.txt", &again), all);
    let anew = format!("!hints-all 0\n{loops}").replace("\n2", "\n!hints-end 0\n!hints-all 0\n2");
    assert_eq!(misses("anew.txt", &anew), 7);
}

/// Of a loop that is disclosed as a whole, the block needed last goes: the reads that are missed follow each
/// other, from the last block that was kept on.
#[test]
fn all_accesses_disclosed_give_up_the_block_needed_last() {
    let dir = tempfile::tempdir().unwrap();
    let pass: String = (0..128).map(|block| format!("{block} {}\n", block / 32)).collect();
    let trace = write(&dir, "loop.txt", &format!("!hints-all 0\n{pass}{pass}"));
    let flags = ["--policy", "lru-sp", "--frames", "96", "--by", "site", "--format", "csv"];
    let rows = stdout(&[&["sim", "--trace", text(&trace)][..], &flags].concat());
    let misses: Vec<_> = rows.lines().skip(1).map(|row| row.split(',').nth(7).unwrap()).collect();
    assert_eq!(misses, ["32", "32", "33", "63"]);
}

#[cfg(not(feature = "peers"))]
#[test]
fn other_caches_need_a_build_with_them() {
    let refused = failure(&["peers", "--threads", "1,2"]);
    assert!(refused.contains("--features peers"), "{refused}");
}
