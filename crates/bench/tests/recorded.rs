//! Managers on parts of recorded page requests of a PostgreSQL server, with the call stack of each request as
//! its site. `pg_nlj_loop_cut` has 80,000 requests of nested-loop joins whose inner relation is scanned again
//! and again. `pg_mixed3_cut` has 40,000 requests of TPC-H queries, nested-loop joins and point lookups at
//! the same time.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use bufpool::sim::SimDevice;
use bufpool::{FileOptions, PoolOptions};
use bufpool_bench::random::Random;
use bufpool_bench::simulate::{By, NextUses, Policy, Setup, read_program, simulate};
use bufpool_bench::trace::Trace;
use bufpool_bench::trace::recording::Recording;
use bufpool_policies::Allocation;
use bufpool_policies::program::Program;

const PERCENTS: [u64; 3] = [5, 10, 20];

fn load(name: &str) -> Trace {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    Trace::open(&path).unwrap()
}

/// Misses at each size.
fn misses(trace: &Trace, policy: &str) -> [u64; 3] {
    let policy: Policy = policy.parse().unwrap();
    let next_uses = NextUses::in_memory(trace).unwrap();
    PERCENTS.map(|percent| {
        let frames = (trace.distinct() * percent / 100) as u32;
        let setup = Setup { revocation: true, ..Setup::frames(frames) };
        simulate(trace, policy, &setup, Some(&next_uses)).unwrap().total().misses()
    })
}

#[test]
fn the_inner_relation_of_a_join_is_served_as_opt_would() {
    let trace = load("pg_nlj_loop_cut.tsv.zst");
    assert_eq!(trace.accesses(), 80_000);
    let [lru, opt] = ["lru", "opt"].map(|policy| misses(&trace, policy));
    assert_eq!(lru, [80_000; 3], "LRU never hits");
    for policy in ["amp", "pcc", "ubm", "dear"] {
        for (ours, opt) in misses(&trace, policy).iter().zip(opt) {
            assert!(*ours as f64 <= 1.01 * opt as f64, "{policy}: {ours}, OPT {opt}");
        }
    }
}

#[test]
fn call_sites_help_a_mix_of_sessions() {
    let trace = load("pg_mixed3_cut.tsv.zst");
    assert_eq!((trace.accesses(), trace.tenants().len()), (40_000, 3));
    let [lru, arc, amp, auto] = ["lru", "arc", "amp+", "auto"].map(|policy| misses(&trace, policy));
    for at in 0..PERCENTS.len() {
        let better = lru[at].min(arc[at]) as f64;
        assert!(auto[at] as f64 <= 1.01 * better, "auto {auto:?}, ARC {arc:?}, LRU {lru:?}");
        assert!(amp[at] as f64 <= 1.05 * arc[at] as f64, "amp {amp:?}, ARC {arc:?}");
    }
    assert!(auto.iter().sum::<u64>() as f64 <= 0.95 * arc.iter().sum::<u64>() as f64, "{auto:?}, {arc:?}");
}

/// A recording has the programs that are loaded and removed during the run, and the values that are sent to
/// them.
#[test]
fn a_recording_replays_with_its_programs() {
    const PAGES: u64 = 60;
    const FRAMES: u32 = 40;
    let example = |name: &str| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
        read_program(&folder.join(format!("{name}.policy"))).unwrap()
    };
    let newest_if_told = Program::parse(
        "policy told {
           queue all
           int told
           event initial    { ret }
           event fault(p)   { enqt all, p ; ret }
           event replace(c) { jz told, none ; peekt v, all ; isnil t, v ; jnz t, none
                              pinned t, v ; jnz t, none ; ret v
                        none: ret c }
         }",
    )
    .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.txt");
    let recording = Recording::to_file(&path).unwrap();
    let options = PoolOptions::new().page_bytes(512).frames(FRAMES).deterministic(7).manager(None);
    let pool = options.recorder(recording.recorder()).open_on(&SimDevice::new(1)).unwrap();
    let file = pool.open_file("pages", FileOptions::new().create(true)).unwrap();
    file.extend(3 * PAGES).unwrap();
    let first = pool.tenant("first").program(&example("s3-fifo")).open().unwrap();
    let second = pool.tenant("second").open().unwrap();
    let plain = pool.tenant("plain").open().unwrap();
    let mut random = Random::new(1);
    for turn in 0..6000 {
        match turn {
            1000 => second.set_program(&newest_if_told).unwrap(),
            2000 => second.send("told", 1).unwrap(),
            3000 => first.set_program(&example("2q")).unwrap(),
            4000 => first.clear_program().unwrap(),
            5000 => first.set_program(&newest_if_told).unwrap(),
            _ => {}
        }
        for (at, tenant) in (0..).zip([&first, &second, &plain]) {
            let page = at * PAGES + (random.unit().powi(2) * PAGES as f64) as u64;
            tenant.read(file.page(page)).unwrap();
        }
    }
    let live: Vec<u64> = [&first, &second, &plain]
        .map(|tenant| pool.stats().tenants.iter().find(|of| of.id == tenant.id()).unwrap().misses)
        .into();
    let ids = [first.id(), second.id(), plain.id()];
    drop((first, second, plain, file));
    pool.close().unwrap();
    recording.finish().unwrap().0.finish().unwrap();

    let written = std::fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(written, 4, "the trace, and three programs, of which one is given twice");
    let setup = Setup { by: By::Tenant, revocation: true, seed: 7, ..Setup::frames(FRAMES) };
    let trace = Trace::open(&path).unwrap();
    let outcome = simulate(&trace, Policy::TwoLevel(Allocation::LruSp), &setup, None).unwrap();
    let replayed: Vec<u64> = ids.iter().map(|id| outcome.counts[&u64::from(*id)].misses()).collect();
    assert_eq!(replayed, live);
    let told = |tenant: u32| outcome.programs.get(&tenant).map(|stats| stats.calls);
    assert!(told(ids[0]).is_some_and(|calls| calls > 100), "a program at the end: {:?}", told(ids[0]));
    assert_eq!(told(ids[2]), None);
}

/// Recordings in one folder whose names are the same up to the first dot keep the programs of each other.
#[test]
fn a_recording_leaves_the_programs_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let record = |name: &str, at: u64| {
        let recording = Recording::to_file(&folder.path().join(name)).unwrap();
        let options = PoolOptions::new().page_bytes(512).frames(40).deterministic(7).manager(None);
        let pool = options.recorder(recording.recorder()).open_on(&SimDevice::new(1)).unwrap();
        let text = format!(
            "policy p {{ int a = {at}
               event initial {{ ret }}
               event fault(p) {{ ret }}
               event replace(c) {{ ret c }} }}"
        );
        let program = Program::parse(&text).unwrap();
        drop(pool.tenant("t").program(&program).open().unwrap());
        pool.close().unwrap();
        recording.finish().unwrap().0.finish().unwrap();
        program.to_text()
    };
    let program_of = |name: &str| {
        let trace = fs::read_to_string(folder.path().join(name)).unwrap();
        let line = trace.lines().find_map(|line| line.strip_prefix("!program 1 ")).unwrap();
        fs::read_to_string(folder.path().join(line)).unwrap()
    };
    for (name, at) in [("run.a.txt", 1), ("run.b.txt", 2), ("run.c.txt", 1)] {
        let text = record(name, at);
        assert_eq!(program_of(name), text, "{name}");
    }
    assert!(program_of("run.a.txt").contains("int a = 1"), "{}", program_of("run.a.txt"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 5, "three traces and two programs");
}

/// Constants are chosen on one list and judged on the others, so no trace is on two lists. All recordings of
/// the folder `holdout` are on its list, and their accesses have call sites.
#[test]
fn lists_share_no_trace_and_the_holdout_has_all_recordings() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces");
    let names = |list: &str| -> BTreeSet<String> {
        let text = fs::read_to_string(folder.join(list)).unwrap();
        let names: Vec<String> =
            text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect();
        let distinct: BTreeSet<String> = names.iter().cloned().collect();
        assert_eq!(distinct.len(), names.len(), "{list} names each trace once");
        distinct
    };
    let (tuning, holdout) = (names("tuning.list"), names("holdout.list"));
    assert_eq!((tuning.len(), tuning.intersection(&holdout).next()), (13, None));
    assert!(names("public.list").is_disjoint(&(&tuning | &holdout)));
    let recorded: BTreeSet<String> = fs::read_dir(folder.join("holdout"))
        .unwrap()
        .map(|entry| format!("holdout/{}", entry.unwrap().file_name().to_string_lossy()))
        .collect();
    assert_eq!(recorded.len(), 11);
    assert!(recorded.is_subset(&holdout), "{recorded:?}");
    for name in recorded {
        let trace = Trace::open(&folder.join(&name)).unwrap();
        assert!((20_000..=120_000).contains(&trace.accesses()), "{name}: {} accesses", trace.accesses());
        assert!(trace.sites().len() > 1, "{name} has call sites");
    }
}
