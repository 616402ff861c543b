//! Managers on pieces of real page requests: a PostgreSQL server's, with the call stack of each request as
//! its site. `pg_nlj_loop_cut` is 80,000 requests out of nested-loop joins whose inner relation is scanned
//! again and again; `pg_mixed3_cut` is 40,000 out of TPC-H queries, nested-loop joins and point lookups at
//! once.

use std::path::Path;

use bufpool_bench::simulate::{NextUses, Policy, Setup, simulate};
use bufpool_bench::trace::Trace;

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
    let [lru, arc, amp, auto] = ["lru", "arc", "amp", "auto"].map(|policy| misses(&trace, policy));
    for at in 0..PERCENTS.len() {
        let better = lru[at].min(arc[at]) as f64;
        assert!(auto[at] as f64 <= 1.01 * better, "auto {auto:?}, ARC {arc:?}, LRU {lru:?}");
        assert!(amp[at] as f64 <= 1.05 * arc[at] as f64, "amp {amp:?}, ARC {arc:?}");
    }
    assert!(auto.iter().sum::<u64>() as f64 <= 0.95 * arc.iter().sum::<u64>() as f64, "{auto:?}, {arc:?}");
}
