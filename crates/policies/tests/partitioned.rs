//! The partitioned manager: it misses little more than OPT in loops, and as ARC where nothing loops or
//! accesses have no contexts; it takes a wrong class from the stream that has it and from no other; and its
//! state is consistent.
//!
//! Method: streams with a known optimum, and random mixes, through a real directory.

mod cache;

use bufpool_policies::classic::{self, Departure, PolicyKind};
use bufpool_policies::detect::{Class, DetectorKind};
use bufpool_policies::{
    ContextId, FrameId, ManagerKind, PageId, Partitioned, SplitMix64, StreamReport, TenantId,
};
use cache::Cache;
use proptest::prelude::*;

const PARTITIONED: [ManagerKind; 7] = [
    ManagerKind::Amp,
    ManagerKind::AmpPlus,
    ManagerKind::Pcc,
    ManagerKind::PccGain,
    ManagerKind::Ubm,
    ManagerKind::UbmGain,
    ManagerKind::Dear,
];

fn streams(cache: &Cache) -> Vec<StreamReport> {
    let mut streams = Vec::new();
    cache.directory.streams(TenantId(0), &mut |stream| streams.push(*stream));
    streams
}

fn stream(cache: &Cache, context: u32) -> StreamReport {
    let found = streams(cache).into_iter().find(|stream| stream.context == ContextId(context));
    found.expect("the stream is remembered")
}

#[test]
fn loops_cost_little_more_than_the_optimum_once_they_are_seen() {
    for kind in PARTITIONED {
        for frames in [300u64, 500, 800] {
            let (length, passes) = (1000, 20);
            let mut cache = Cache::managed(frames as u32, kind);
            cache.misses(1, (0..3 * length).map(|at| at % length));
            let ours = cache.misses(1, (0..passes * length).map(|at| at % length));
            let optimum = (passes * length * (length - frames)) as f64 / (length - 1) as f64;
            assert!(ours as f64 <= 1.05 * optimum, "{kind}, {frames} frames: {ours}, OPT {optimum}");
            let report = streams(&cache)[0];
            // DEAR sees 500 accesses at a time, and so no page of this loop twice. As one-shot the loop
            // misses no more than as a loop.
            let class = if kind == ManagerKind::Dear { Class::OneShot } else { Class::Looping };
            assert_eq!(report.class, class, "{kind}");
            assert_eq!(u64::from(report.frames), frames, "{kind}");
            assert_eq!(report.hits + report.misses, (passes + 3) * length);
            assert!(report.unchanged >= passes * length && report.samples > 16 && !report.revoked);
        }
    }
}

/// Misses of ARC over all frames.
fn arc_misses(frames: u32, pages: impl Iterator<Item = u64>) -> u64 {
    let mut arc = classic::build(PolicyKind::Arc, frames);
    let mut frame_of = std::collections::HashMap::new();
    let mut misses = 0;
    for page in pages.map(PageId) {
        if let Some(frame) = frame_of.get(&page) {
            arc.hit(*frame, page);
            continue;
        }
        misses += 1;
        let mut frame = FrameId(frame_of.len() as u32);
        if frame.0 == frames {
            frame = arc.victim(page, &mut |_| false).unwrap();
            let victim = *frame_of.iter().find(|(_, at)| **at == frame).unwrap().0;
            frame_of.remove(&victim);
            arc.remove(frame, victim, Departure::Evicted);
        }
        arc.insert(frame, page);
        frame_of.insert(page, frame);
    }
    misses
}

/// Phases that make ARC move its target both ways: a hot set, a scan, a loop, a hot set of another size.
fn phases(seed: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(seed);
    let mut pages: Vec<u64> = (0..3000).map(|_| random.below(80)).collect();
    pages.extend(1000..1400);
    pages.extend((0..1200).map(|at| 2000 + at % 150));
    pages.extend((0..4000).map(|_| random.below(300).min(random.below(300))));
    pages
}

#[test]
fn without_contexts_it_is_arc() {
    for kind in [ManagerKind::Amp, ManagerKind::Pcc] {
        for (seed, frames) in [(1, 64), (2, 100), (3, 17)] {
            let ours = Cache::managed(frames, kind).misses(0, phases(seed).into_iter());
            assert_eq!(ours, arc_misses(frames, phases(seed).into_iter()), "{kind}, {frames} frames");
        }
    }
}

/// A context whose blocks are used in no order has no partition, and so misses as ARC too.
#[test]
fn without_loops_it_is_arc() {
    let random = |seed: u64| {
        let mut random = SplitMix64::new(seed);
        (0..20_000).map(move |_| random.below(400).min(random.below(400)))
    };
    let ours = Cache::managed(100, ManagerKind::Amp).misses(3, random(5));
    assert_eq!(ours, arc_misses(100, random(5)));
}

#[test]
fn a_one_shot_scan_does_not_displace_what_is_used_again() {
    let mut cache = Cache::managed(500, ManagerKind::Amp);
    let mut random = SplitMix64::new(3);
    let mut missed = 0;
    for at in 0..60_000 {
        let hot = cache.misses(1, std::iter::once(random.below(400)));
        missed += if at >= 20_000 { hot } else { 0 };
        cache.misses(2, std::iter::once(1000 + at));
    }
    assert_eq!(stream(&cache, 2).class, Class::OneShot);
    assert_eq!(missed, 0, "the hot pages fit, and the scan gives up its own");
}

/// Each of many small files is read three times: PCC takes that for a loop, AMP does not.
#[test]
fn pcc_is_fooled_by_small_files_and_amp_is_not() {
    let walk = || (0..1000u64).flat_map(|file| (0..30).map(move |at| file * 10 + at % 10));
    let [amp, pcc] =
        [ManagerKind::Amp, ManagerKind::Pcc].map(|kind| Cache::managed(50, kind).misses(1, walk()));
    assert!(amp <= 10_200, "LRU misses each page once; {amp}");
    assert!(pcc >= 15_000, "{pcc}");
}

/// A loop and an index, each with its own context and file, share the frames. Ghosts or periods decide the
/// shares, and the index is kept. Under UBM the index is in the default partition.
#[test]
fn sizes_adapt_to_what_frames_are_worth() {
    for kind in [ManagerKind::Amp, ManagerKind::PccGain, ManagerKind::UbmGain] {
        let mut cache = Cache::managed(1000, kind);
        let mut random = SplitMix64::new(9);
        let mut missed = [0, 0];
        for at in 0..200_000u64 {
            let pages = [10_000 + random.below(500), at % 2000];
            for (number, page) in pages.into_iter().enumerate() {
                let is_hit = cache.access(TenantId(0), number as u32 + 1, number as u32, page);
                missed[number] += u32::from(!is_hit && at >= 100_000);
            }
        }
        // A frame of the index is hit once in 500 rounds, and one of the loop once in 2,000. With all of the
        // index in memory 500 frames are left for the loop.
        assert!(missed[0] <= 10_000, "{kind}, index: {missed:?}");
        assert!(missed[1] <= 85_000, "{kind}, loop: {missed:?}");
    }
}

/// Of two loops of the same length, that whose blocks come back sooner is kept where marginal gains decide.
#[test]
fn by_marginal_gains_the_loop_of_the_longest_period_gives_up_frames() {
    for kind in [ManagerKind::PccGain, ManagerKind::UbmGain] {
        let mut cache = Cache::managed(600, kind);
        let mut missed = [0, 0];
        for at in 0..60_000u64 {
            // Three accesses of the first loop to one of the second.
            let number = usize::from(at % 4 == 3);
            let page = [10_000 + (at - at / 4) % 500, at / 4 % 500][number];
            let is_hit = cache.access(TenantId(0), number as u32 + 1, number as u32, page);
            missed[number] += u32::from(!is_hit && at >= 30_000);
        }
        // The second loop has 100 frames for 500 blocks, and 7,500 accesses.
        assert!(missed[0] <= 100 && (5900..=6300).contains(&missed[1]), "{kind}: {missed:?}");
    }
}

/// A stream loops until the manager knows that, and then becomes local. After four times as many accesses as
/// frames it misses hardly more than under LRU, and an oblivious tenant hits wherever it would beside a
/// tenant without a manager.
#[test]
fn a_stream_that_changes_recovers_and_costs_an_oblivious_tenant_nothing() {
    for kind in [ManagerKind::AmpPlus, ManagerKind::Auto] {
        let frames = 300;
        let mut plain = Cache::new(frames, true);
        let mut next_to_it = Cache::new(frames, true);
        let [other, _] =
            [&mut plain, &mut next_to_it].map(|cache| cache.directory.open_tenant(0, frames).unwrap());
        next_to_it.manage(other, kind, 5);
        let mut random = SplitMix64::new(4);
        let mut local = 10_000u64;
        let mut missed = [0u32; 2];
        for at in 0..40_000u64 {
            let page = if at < 20_000 {
                1000 + at % 400
            } else {
                local += u64::from(at % 10 == 0);
                local + random.below(10)
            };
            let hits = [&mut plain, &mut next_to_it].map(|cache| cache.access(other, 7, 0, page));
            if at >= 20_000 + 4 * u64::from(frames) {
                hits.iter().zip(&mut missed).for_each(|(hit, missed)| *missed += u32::from(!hit));
            }
            let own = random.below(150) * random.below(2);
            let hits = [&mut plain, &mut next_to_it].map(|cache| cache.access(TenantId(0), 1, 0, own));
            assert!(
                hits[1] || !hits[0],
                "{kind}, access {at}: LRU hits page {own}, next to the manager it misses"
            );
        }
        let [lru, ours] = missed.map(f64::from);
        assert!(ours <= 1.02 * lru, "{kind}: {ours} misses, LRU {lru}");
    }
}

/// Groups of pages that are each read a few times look like a loop to AMP and PCC and are none; beside them a
/// loop. Whether the groups' stream has lost its class in between.
fn loses_its_class(cache: &mut Cache) -> bool {
    let mut was_revoked = false;
    for group in 0..40u64 {
        for at in 0..5 * 490u64 {
            cache.misses(1, std::iter::once(100_000 + group * 490 + at % 490));
            if at % 4 == 0 {
                cache.misses(2, std::iter::once((group * 613 + at / 4) % 300));
            }
        }
        cache.directory.check_invariants();
        was_revoked |= stream(cache, 1).revoked;
    }
    was_revoked
}

#[test]
fn a_stream_that_keeps_being_wrong_is_not_followed_and_others_are() {
    let mut cache = Cache::new(819, false);
    let manager = Partitioned::new(DetectorKind::Pcc, 819, 1);
    cache.directory.set_manager(TenantId(0), Box::new(manager), true).unwrap();
    assert!(loses_its_class(&mut cache), "{:?}", stream(&cache, 1));
    let mistakes = [1, 2].map(|context| stream(&cache, context).mistakes);
    assert!(mistakes[0] > 128 && mistakes[0] > 4 * mistakes[1], "{mistakes:?}");
    assert!(!stream(&cache, 2).revoked && stream(&cache, 2).class == Class::Looping);
}

/// AMP as it was published has no fallback.
#[test]
fn only_amp_with_a_fallback_stops_following_a_stream_that_is_wrong() {
    for (kind, falls_back) in [(ManagerKind::Amp, false), (ManagerKind::AmpPlus, true)] {
        let mut cache = Cache::managed(819, kind);
        assert_eq!(loses_its_class(&mut cache), falls_back, "{kind}: {:?}", stream(&cache, 1));
    }
}

/// With more loops than partitions, and more streams than are remembered, the state stays consistent.
#[test]
fn many_streams_pass() {
    let mut cache = Cache::managed(400, ManagerKind::Amp);
    for round in 0..12u64 {
        for context in 1..60u32 {
            cache.misses(context, (0..40).map(|at| u64::from(context) * 1000 + at));
        }
        cache.directory.check_invariants();
        let looping = streams(&cache).iter().filter(|stream| stream.class == Class::Looping).count();
        assert!(looping <= 15, "round {round}: {looping} loops");
    }
    for context in 100..10_000 {
        cache.misses(context, (0..2).map(|at| u64::from(context) << 20 | at));
    }
    cache.directory.check_invariants();
    assert!(streams(&cache).len() <= 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]

    /// Any mix of contexts, files and pages, loops among them, discards in between; and the same decisions
    /// when repeated.
    #[test]
    fn state_is_consistent_and_decisions_repeat(
        frames in 1u32..60,
        seed in any::<u64>(),
        phases in prop::collection::vec((1u32..6, 0u32..2, 0u64..200, 1u64..90, 1usize..300, any::<bool>()), 1..20),
    ) {
        for kind in PARTITIONED {
            let mut runs = [Cache::new(frames, true), Cache::new(frames, true)];
            runs.iter_mut().for_each(|cache| cache.manage(TenantId(0), kind, seed));
            let mut random = SplitMix64::new(seed);
            for &(context, file, first, length, accesses, loops) in &phases {
                for at in 0..accesses as u64 {
                    let page = first + if loops { at % length } else { random.below(length) };
                    let hits = runs.each_mut().map(|cache| cache.access(TenantId(0), context - 1, file, page));
                    prop_assert_eq!(hits[0], hits[1]);
                    if random.below(50) == 0 && let Some(frame) = runs[0].frame_of.get(&PageId(page)).copied() {
                        runs.iter_mut().for_each(|cache| {
                            cache.directory.discard(frame);
                            cache.frame_of.remove(&PageId(page));
                        });
                    }
                    runs[0].directory.check_invariants();
                }
            }
        }
    }
}
