//! The programs in `examples/programs` miss what the policies in Rust of the same names miss, on synthetic
//! streams and on parts of recorded page requests; `bufbench` checks, prints and simulates programs.

mod command;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use bufpool_bench::simulate::{Policy, Setup, misses, read_program};
use bufpool_bench::trace::{Directive, Item, Reference, Trace};
use bufpool_policies::program::Program;
use bufpool_policies::{Allocation, SplitMix64};
use command::{failure, stdout};

/// Programs that have a twin in Rust, of the same name.
const TWINS: [&str; 8] = ["lru", "mru", "fifo", "clock", "sieve", "s3-fifo", "lfu", "2q"];

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs").join(format!("{name}.policy"))
}

fn program(name: &str) -> Program {
    read_program(&path(name)).unwrap()
}

fn program_misses(trace: &Trace, name: &str, frames: u32) -> u64 {
    let setup = Setup { program: Some(program(name)), ..Setup::frames(frames) };
    misses(trace, Policy::Program(Allocation::LruSp), &setup, None).unwrap()
}

fn accesses(blocks: impl IntoIterator<Item = u64>) -> Trace {
    let access = |block| Item::Access(Reference { block, site: 0, tenant: 0 });
    Trace::of("stream", blocks.into_iter().map(access))
}

/// Loops, hot blocks and single scans, one after the other and mixed.
fn streams() -> [(&'static str, Trace); 4] {
    let mut random = SplitMix64::new(5);
    let mut skewed = move || (random.unit().powi(4) * 400.0) as u64;
    let hot: Vec<u64> = (0..8000).map(|_| skewed()).collect();
    let scans = hot.iter().enumerate().map(|(at, block)| if at % 5 == 0 { 1000 + at as u64 } else { *block });
    let phases = (0..12_000_u64).map(|at| match at / 2000 % 3 {
        0 => at % 130,
        1 => hot[at as usize % 8000],
        _ => 300 + at % 90,
    });
    [
        ("loop", accesses((0..6000).map(|at| at % 150))),
        ("hot", accesses(hot.clone())),
        ("hot and scans", accesses(scans)),
        ("phases", accesses(phases)),
    ]
}

#[test]
fn programs_miss_what_their_twins_miss() {
    for (stream, trace) in streams() {
        for name in TWINS {
            let twin: Policy = name.parse().unwrap();
            for frames in [1, 2, 3, 7, 20, 64, 100, 149] {
                let expected = misses(&trace, twin, &Setup::frames(frames), None).unwrap();
                assert_eq!(
                    program_misses(&trace, name, frames),
                    expected,
                    "{name}, {stream}, {frames} frames"
                );
            }
        }
    }
}

#[test]
fn programs_miss_what_their_twins_miss_of_real_page_requests() {
    for trace in ["pg_mixed3_cut", "pg_nlj_loop_cut"] {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(format!("{trace}.tsv.zst"));
        // As one tenant, since each tenant would run a copy of the program.
        let trace = one_tenant(&data);
        for name in TWINS {
            let twin: Policy = name.parse().unwrap();
            for percent in [1, 10] {
                let frames = (trace.distinct() * percent / 100) as u32;
                let expected = misses(&trace, twin, &Setup::frames(frames), None).unwrap();
                assert_eq!(program_misses(&trace, name, frames), expected, "{name}, {percent} %");
            }
        }
    }
}

/// The accesses of a trace, all made by one tenant.
fn one_tenant(path: &Path) -> Trace {
    let mut reader =
        bufpool_bench::trace::Reader::open(path, None, &indicatif::ProgressBar::hidden()).unwrap();
    let mut blocks = Vec::new();
    while let Some(item) = reader.next_item().unwrap() {
        if let Item::Access(Reference { block, .. }) = item {
            blocks.push(block);
        }
    }
    accesses(blocks)
}

/// FIFO with second chance, as HiPEC describes it, written plainly; quadratic.
fn naive_fifo2(blocks: &[u64], frames: usize) -> u64 {
    let (mut active, mut inactive) = (VecDeque::new(), VecDeque::<(u64, bool)>::new());
    let mut misses = 0;
    for block in blocks {
        let resident = active.iter_mut().chain(&mut inactive).find(|(resident, _)| resident == block);
        if let Some((_, referenced)) = resident {
            *referenced = true;
            continue;
        }
        misses += 1;
        if active.len() + inactive.len() == frames {
            while inactive.len() < (2 * frames).div_ceil(3) {
                let (page, _) = active.pop_front().unwrap();
                inactive.push_back((page, false));
            }
            let mut chances = 2 * inactive.len();
            while inactive[0].1 && chances > 0 {
                let (page, _) = inactive.pop_front().unwrap();
                inactive.push_back((page, false));
                chances -= 1;
            }
            inactive.pop_front();
        }
        active.push_back((*block, false));
    }
    misses
}

#[test]
fn fifo2_misses_what_the_description_says() {
    let mut random = SplitMix64::new(8);
    let mut block = |at: u64| match at / 500 % 2 {
        0 => (random.unit().powi(3) * 300.0) as u64,
        _ => at % 110,
    };
    let blocks: Vec<u64> = (0..8000).map(&mut block).collect();
    for frames in [1, 2, 3, 4, 10, 33, 100] {
        let found = program_misses(&accesses(blocks.iter().copied()), "fifo2", frames);
        assert_eq!(found, naive_fifo2(&blocks, frames as usize), "{frames} frames");
    }
}

#[test]
fn check_prints_a_row_for_each_event() {
    let file = path("sieve");
    let csv = stdout(&["program", "check", file.to_str().unwrap(), "--format", "csv"]);
    let expected = "event,instructions,steps_max\ninitial,1,1\nfault,2,2\ngone,6,6\nreplace,15,\n";
    assert_eq!(csv, expected);
}

#[test]
fn what_disassemble_prints_is_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    for name in TWINS.into_iter().chain(["fifo2", "levels", "ring"]) {
        let text = stdout(&["program", "disassemble", path(name).to_str().unwrap()]);
        let again = folder.path().join("again.policy");
        fs::write(&again, &text).unwrap();
        assert_eq!(read_program(&again).unwrap().to_bytes(), program(name).to_bytes(), "{name}");
        assert_eq!(stdout(&["program", "disassemble", again.to_str().unwrap()]), text, "{name}");
    }
}

#[test]
fn a_program_that_is_none_is_named_with_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("bad.policy");
    fs::write(&file, "policy bad {\n  queue q\n  event initial { rat }\n}\n").unwrap();
    let file = file.to_str().unwrap();
    let trace = folder.path().join("t.txt");
    fs::write(&trace, "1\n2\n!program 0 bad.policy\n").unwrap();
    let trace = trace.to_str().unwrap();
    let policy = format!("program:{file}");
    for arguments in [
        vec!["program", "check", file],
        vec!["program", "disassemble", file],
        vec!["sim", "--trace", trace, "--policy", &policy, "--frames", "2"],
        vec!["sim", "--trace", trace, "--policy", "lru-sp", "--frames", "2"],
    ] {
        let message = failure(&arguments);
        let expected = format!("{file}:3:19: expected an instruction, one of ret jmp");
        assert!(message.contains(&expected) && message.trim_end().ends_with("found `rat`"), "{message}");
    }
    let message = failure(&["sim", "--trace", trace, "--policy", "lru-sp", "--frames", "2"]);
    assert!(message.contains("t.txt: line 3: "), "{message}");
    let message = failure(&["program", "check", "/nowhere/x.policy"]);
    assert!(
        message.contains("/nowhere/x.policy: cannot be read, expected the text of a program"),
        "{message}"
    );
}

/// By the number that the tenant has in the trace.
#[test]
fn a_directive_for_a_tenant_with_a_program_is_refused_by_the_tenants_name() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("t.txt");
    fs::copy(path("mru"), folder.path().join("mru.policy")).unwrap();
    for directive in ["!policy 500 0 mru", "!priority 500 0 9 1", "!temp 500 0 9 -1"] {
        fs::write(&trace, format!("1 0 9\n!program 500 mru.policy\n{directive}\n")).unwrap();
        let message =
            failure(&["sim", "--trace", trace.to_str().unwrap(), "--policy", "lru-sp", "--frames", "2"]);
        let expected =
            "t.txt: line 3: tenant 500 has a manager of its own, expected one that takes directives";
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn sim_takes_programs_for_all_tenants_and_for_one() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("loop.txt");
    let lines = (0..300).map(|at| format!("{}\n", at % 10)).collect::<String>();
    fs::write(&trace, &lines).unwrap();
    let named = folder.path().join("named.txt");
    fs::write(&named, format!("!program 0 the program.policy\n{lines}")).unwrap();
    fs::copy(path("mru"), folder.path().join("the program.policy")).unwrap();
    let policy = format!("program:{}", path("mru").display());
    let run = |trace: &Path, policies: &str| {
        let trace = trace.to_str().unwrap();
        let csv =
            stdout(&["sim", "--trace", trace, "--policy", policies, "--frames", "6", "--format", "csv"]);
        csv.lines()
            .skip(1)
            .map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>())
            .collect::<Vec<_>>()
    };
    let rows = run(&trace, &format!("mru,{policy},lru"));
    assert_eq!((rows[1][1].as_str(), rows[2][6].as_str()), (policy.as_str(), "300"));
    assert_eq!((&rows[0][6], rows[0][6].as_str()), (&rows[1][6], "138"));
    assert_eq!(run(&named, "lru-sp")[0][6], "138");
}

/// Under FIFO2-SP the program decides as under LRU-SP, and a tenant without a program misses as under FIFO2.
#[test]
fn sim_takes_programs_under_fifo2_sp() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("loop.txt");
    fs::write(&trace, (0..300).map(|at| format!("{}\n", at % 10)).collect::<String>()).unwrap();
    let mru = format!("fifo2-sp+program:{}", path("mru").display());
    let policies = format!("mru,{mru},fifo2-sp,fifo2");
    let trace = trace.to_str().unwrap();
    let csv = stdout(&["sim", "--trace", trace, "--policy", &policies, "--frames", "6", "--format", "csv"]);
    let misses: Vec<&str> = csv.lines().skip(1).map(|line| line.split(',').nth(6).unwrap()).collect();
    assert_eq!(misses, ["138", "138", "300", "300"]);
    let message =
        failure(&["sim", "--trace", trace, "--policy", "fifo2-sp+program:/nowhere", "--frames", "6"]);
    assert!(message.contains("/nowhere: cannot be read, expected the text of a program"), "{message}");
}

/// With a program that never ends, its tenant misses as without a manager, and so do others.
#[test]
fn a_runaway_program_in_any_event_is_as_no_program() {
    let mut random = SplitMix64::new(3);
    let mut reference = |tenant: u32| {
        let block = (random.unit().powi(2) * 60.0) as u64 + u64::from(tenant) * 100;
        Item::Access(Reference { block, site: 0, tenant })
    };
    let items: Vec<Item> = (0..6000).map(|at| reference(at % 2)).collect();
    let text = fs::read_to_string(path("lru")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { by: bufpool_bench::simulate::By::Tenant, ..Setup::frames(50) };
    let counts = |program: Option<&Path>| {
        let file = program.map(|path| path.to_str().unwrap().to_owned());
        let load = file.map(|file| Item::Directive(Directive::Program { tenant: 1, file }));
        let trace = Trace::of("runaway", load.into_iter().chain(items.iter().cloned()));
        let policy = "lru-sp".parse().unwrap();
        let outcome = bufpool_bench::simulate::simulate(&trace, policy, &setup, None).unwrap();
        outcome.counts.iter().map(|(tenant, counts)| (*tenant, counts.misses())).collect::<Vec<_>>()
    };
    let alone = counts(None);
    let endless = "event own { L: jmp L }\n";
    for (event, body) in [
        ("initial", "event initial    { L: jmp L }"),
        ("fault", "event fault(p)   { L: jmp L }"),
        ("gone", "event gone(p)    { L: jmp L }"),
        ("mistake", "event mistake(p) { L: jmp L }"),
        ("replace", "event replace(c) { call own ; ret c }"),
    ] {
        // The event replaces that of the same name in the text, if there is one.
        let lines =
            text.lines().filter(|line| !line.contains(&format!("event {event}")) || event == "replace");
        let mut runaway = lines.collect::<Vec<_>>().join("\n");
        if event == "replace" {
            runaway.truncate(runaway.find("event replace").unwrap());
            runaway.push('}');
        }
        runaway.truncate(runaway.rfind('}').unwrap());
        let file = folder.path().join(format!("{event}.policy"));
        fs::write(&file, format!("{runaway}\n{body}\n{endless}}}\n")).unwrap();
        assert_eq!(counts(Some(&file)), alone, "{event}");
    }
}
