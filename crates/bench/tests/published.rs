//! Published experiments, with the counts that follow from them by arithmetic.
//!
//! Streams and numbers, except those of the last two tests, are from Cao, Felten, Li, "Implementation and
//! Performance of Application-Controlled File Caching", OSDI '94. Single programs are loops, whose misses
//! under LRU and MRU have closed forms. The experiment ReadN with two programs is run with a fixed
//! interleaving: three accesses of the foreground, then two of the background.

use bufpool_bench::simulate::{By, Counts, Policy, Setup, simulate};
use bufpool_bench::streams::{self, Advice};
use bufpool_bench::trace::Trace;
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

const LRU: Policy = Policy::OneLevel(PolicyKind::Lru);
const LRU_SP: Policy = Policy::TwoLevel(Allocation::LruSp);
const LRU_S: Policy = Policy::TwoLevel(Allocation::LruS);

/// 6.4, 8, 12 and 16 MB of 8 KB blocks.
const SIZES: [u32; 4] = [819, 1024, 1536, 2048];

fn trace(name: &str, set: &[&str], advice: Advice) -> Trace {
    Trace::of(name, streams::items(name, set, advice, 1))
}

fn misses(trace: &Trace, policy: Policy, frames: u32) -> u64 {
    simulate(trace, policy, &Setup::frames(frames), None).expect("a simulation").total().misses()
}

/// Counts of the foreground and of the background.
fn both(trace: &Trace, policy: Policy, revocation: bool) -> [Counts; 2] {
    let setup = Setup { by: By::Tenant, revocation, ..Setup::frames(819) };
    let outcome = simulate(trace, policy, &setup, None).expect("a simulation");
    [outcome.counts[&0], outcome.counts[&1]]
}

#[test]
fn smart_programs_alone_miss_as_loops_under_mru_do() {
    for (name, lru, smart) in [
        ("cs1", [8584, 8584, 1073, 1073], [2851, 1416, 1073, 1073]),
        ("cs2", [9848, 9848, 9848, 9848], [7391, 6776, 5240, 3704]),
        ("cs3", [5120, 5120, 1280, 1280], [2663, 2048, 1280, 1280]),
        ("din", [9216, 1024, 1024, 1024], [2664, 1024, 1024, 1024]),
    ] {
        let (oblivious, advised) = (trace(name, &[], Advice::None), trace(name, &[], Advice::Smart));
        assert_eq!(SIZES.map(|frames| misses(&oblivious, LRU, frames)), lru, "{name}, lru");
        assert_eq!(
            SIZES.map(|frames| misses(&oblivious, LRU_SP, frames)),
            lru,
            "{name}, lru-sp without advice"
        );
        assert_eq!(SIZES.map(|frames| misses(&advised, LRU_SP, frames)), smart, "{name}, lru-sp");
    }
}

/// A loop of L blocks and P passes misses, under MRU with C < L frames and with q = (P - 1) L,
/// L + floor(q / (L - 1)) (L - C) + max(0, q mod (L - 1) - (C - 1)) times.
#[test]
fn the_closed_form_for_loops_under_mru_holds() {
    for (blocks, passes, frames) in [(50_u64, 4, 10), (50, 4, 49), (7, 30, 3), (100, 101, 60), (13, 2, 1)] {
        let again = (passes - 1) * blocks;
        let rest = again % (blocks - 1);
        let expected = blocks + again / (blocks - 1) * (blocks - frames) + rest.saturating_sub(frames - 1);
        let set = [format!("blocks={blocks}"), format!("passes={passes}")];
        let trace = trace("cs1", &[&set[0], &set[1]], Advice::Smart);
        assert_eq!(misses(&trace, LRU_SP, frames as u32), expected, "L {blocks}, P {passes}, C {frames}");
    }
}

#[test]
fn read_n_is_protected_to_the_last_miss() {
    for (n, oblivious, unprotected) in
        [("n=390", 1170, 1170), ("n=400", 1170, 1170), ("n=490", 1170, 1170), ("n=500", 1833, 3345)]
    {
        let (plain, foolish) = (trace("readn", &[n], Advice::None), trace("readn", &[n], Advice::Foolish));
        assert_eq!(both(&plain, LRU_SP, false)[0].misses(), oblivious, "{n}, oblivious");
        assert_eq!(both(&plain, LRU, false)[0].misses(), oblivious, "{n}, plain LRU");
        assert_eq!(both(&foolish, LRU_S, false)[0].misses(), unprotected, "{n}, unprotected");
        let [front, back] = both(&foolish, LRU_SP, false);
        assert_eq!(front.misses(), oblivious, "{n}, protected");
        assert!(
            (3300..=3700).contains(&back.misses()),
            "{n}: the fool pays for its folly, {}",
            back.misses()
        );
        let wrong = back.mistakes as f64 / back.overrules as f64;
        assert!((0.74..=0.81).contains(&wrong), "{n}: share of wrong overrules {wrong}");
    }
}

/// Overrules are judged when they are settled, so the foolish program is revoked although some 300 of its
/// overrules lie between an overrule and the mistake that settles it. Once revoked it misses little more than
/// an oblivious program (1,310). The foreground misses no more, and is not revoked.
#[test]
fn the_fool_is_revoked_and_a_smart_program_never() {
    for n in [390, 400, 490, 500] {
        let foolish = trace("readn", &[&format!("n={n}")], Advice::Foolish);
        let [foreground, background] = both(&foolish, LRU_SP, true);
        assert!((1..=2).contains(&background.revocations), "{n}: {background:?}");
        assert!(background.misses() < 1800, "{n}: {background:?}");
        assert_eq!(foreground.revocations, 0, "{n}");
        let [protected, fool] = both(&foolish, LRU_SP, false);
        assert_eq!(foreground.misses(), protected.misses(), "{n}");
        assert!(background.misses() < fool.misses() * 6 / 10, "{n}: {background:?} {fool:?}");
    }
    for name in ["cs1", "cs2", "cs3", "din", "gli", "pjn", "sort"] {
        let advised = trace(name, &[], Advice::Smart);
        let setup = Setup { revocation: true, ..Setup::frames(819) };
        let counts = simulate(&advised, LRU_SP, &setup, None).expect("a simulation").total();
        assert_eq!(counts.revocations, 0, "{name}");
        assert!(counts.mistakes * 50 < counts.overrules, "{name}: {counts:?}");
    }
}

/// Lee, Chen, Chang, "In-Kernel Policy Interpretation for Application-Specific Memory Caching Management": a
/// join of L = 15,360 outer pages, which are read 64 times, in C frames. Under LRU every access misses. MRU
/// keeps the inner page and C - 1 outer ones: of the accesses to outer pages 4.85, 31.10, 57.35 and 83.60 %
/// miss. Without the inner page they are a loop of which C pages are kept: 4.84, 31.09, 57.34 and 83.59 %.
#[test]
fn a_nested_loop_join_misses_as_its_formula_says() {
    const MRU: Policy = Policy::OneLevel(PolicyKind::Mru);
    const OUTER: u64 = 15_360;
    let (join, advised) = (trace("nlj", &[], Advice::None), trace("nlj", &[], Advice::Smart));
    let outer = trace("loop", &["blocks=15360", "passes=64"], Advice::None);
    assert_eq!(join.accesses(), 64 * (OUTER + 1));
    let percent = |misses: u64| format!("{:.2}", 100.0 * misses as f64 / (64 * OUTER) as f64);
    for (frames, with_inner, outer_alone) in [
        (14_848, "4.85", "4.84"),
        (10_752, "31.10", "31.09"),
        (6_656, "57.35", "57.34"),
        (2_560, "83.60", "83.59"),
    ] {
        let missing = OUTER - u64::from(frames);
        let expected = 1 + OUTER + 63 * (missing + 1);
        assert_eq!(misses(&join, LRU, frames), join.accesses(), "LRU at {frames}");
        assert_eq!(misses(&join, MRU, frames), expected, "MRU at {frames}");
        assert_eq!(misses(&advised, LRU_SP, frames), expected, "MRU by directives at {frames}");
        assert_eq!(misses(&outer, MRU, frames), OUTER + 63 * missing, "MRU on the outer pages at {frames}");
        assert_eq!(percent(expected - 1), with_inner);
        assert_eq!(percent(OUTER + 63 * missing), outer_alone);
    }
}

/// From the same paper: lookups in a tree whose pages have priorities by level miss less than under LRU, and
/// the gain is the greater, the fewer frames there are.
#[test]
fn levels_of_a_tree_gain_more_in_less_memory() {
    const SET: &[&str] = &["lookups=30000"];
    let (plain, by_level) = (trace("tree", SET, Advice::None), trace("tree", SET, Advice::Smart));
    let ratios = [14_848, 10_752, 6_656, 2_560]
        .map(|frames| misses(&by_level, LRU_SP, frames) as f64 / misses(&plain, LRU, frames) as f64);
    assert!(ratios[0] < 1.0 && ratios.is_sorted_by(|larger, smaller| larger > smaller), "{ratios:?}");
}
