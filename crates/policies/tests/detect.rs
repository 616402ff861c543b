//! The synthetic streams a to j, which are substitutes for the lost streams of the AMP paper: the class that
//! each detector must give them, and how far the sampled recency may be from the exact one.

use bufpool_policies::{
    PageId, SplitMix64,
    detect::{Amp, AmpExact, AmpOptions, Class, Dear, DearOptions, Detector, Pcc, Ubm},
};

const FRAMES: u32 = 1000;

fn shuffled(mut blocks: Vec<u64>, random: &mut SplitMix64) -> Vec<u64> {
    for last in (1..blocks.len()).rev() {
        blocks.swap(last, random.below(last as u64 + 1) as usize);
    }
    blocks
}

/// The stream of this name: 200 blocks and 2,000 accesses unless its definition says otherwise.
fn stream(name: &str, seed: u64) -> Vec<u64> {
    let mut random = SplitMix64::new(seed);
    let passes = |pass: &mut dyn FnMut() -> Vec<u64>| (0..10).flat_map(|_| pass()).collect();
    match name {
        "a" => (0..500).flat_map(|at| (at..at + 10).map(|block| block + 1)).collect(),
        "a'" => (0..100).flat_map(|file| (0..3).flat_map(move |_| file * 10..file * 10 + 10)).collect(),
        "b" => passes(&mut || (1..=200).collect()),
        "c" => passes(&mut || {
            let runs = (0..25).map(|run| shuffled((run * 8..run * 8 + 8).collect(), &mut random));
            runs.flatten().collect()
        }),
        "d" => {
            let order = shuffled((1..=200).collect(), &mut random);
            passes(&mut || order.clone())
        }
        "e" => (0..2000).map(|_| random.below(200)).collect(),
        // Of two uniform numbers the smaller one has a linearly decreasing density.
        "f" => (0..2000).map(|_| random.below(200).min(random.below(200))).collect(),
        "f'" => {
            let weights: Vec<f64> = (1..=200).map(|rank| 1.0 / f64::from(rank)).collect();
            let total: f64 = weights.iter().sum();
            let mut draw = || {
                let mut left = random.unit() * total;
                weights.iter().position(|weight| {
                    left -= weight;
                    left <= 0.0
                })
            };
            (0..2000).map(|_| draw().unwrap_or(199) as u64).collect()
        }
        "g" => (1..=2000).collect(),
        "h" => passes(&mut || (1..=200).chain([1, 2, 3]).collect()),
        "i" => passes(&mut || shuffled((1..=200).collect(), &mut random)),
        "j" => {
            let mut zigzag = Vec::new();
            (0..5).for_each(|_| zigzag.extend((1..=200).chain((1..=200).rev())));
            zigzag
        }
        _ => panic!("no stream {name}"),
    }
}

fn watch<D: Detector>(mut detector: D, name: &str, seed: u64) -> D {
    stream(name, seed).into_iter().for_each(|block| detector.access(PageId(block)));
    detector
}

fn exact(name: &str, seed: u64) -> AmpExact {
    watch(AmpExact::new(), name, seed)
}

fn sampled(name: &str, seed: u64, plain_mean: bool) -> Amp {
    let amp = watch(Amp::new(AmpOptions { plain_mean, ..AmpOptions::for_frames(FRAMES) }), name, seed);
    amp.check_invariants();
    amp
}

#[test]
fn exact_recency_of_the_streams() {
    for (name, expected, tolerance) in [
        ("a", 0.934, 0.001),
        ("a'", 0.952, 0.001),
        ("b", 0.0, 0.0),
        ("c", 0.009, 0.003),
        ("d", 0.0, 0.0),
        ("e", 0.5, 0.02),
        ("f", 0.55, 0.025),
        ("f'", 0.763, 0.03),
        ("h", 0.015, 0.015),
        ("i", 0.245, 0.02),
        ("j", 0.5, 0.002),
    ] {
        let recency = exact(name, 1).recency().unwrap();
        assert!((recency - expected).abs() <= tolerance, "{name}: {recency}");
    }
    assert_eq!(exact("g", 1).recency(), None);
}

#[test]
fn amp_classifies_all_streams() {
    use Class::{Looping, OneShot, Other, Temporal};
    for (name, truth) in [
        ("a", Temporal),
        ("a'", Temporal),
        ("b", Looping),
        ("c", Looping),
        ("d", Looping),
        ("e", Other),
        ("f'", Temporal),
        ("g", OneShot),
        ("h", Looping),
        ("i", Looping),
        ("j", Other),
    ] {
        assert_eq!(exact(name, 1).class(), truth, "{name}, exact");
        for seed in 1..=5 {
            assert_eq!(sampled(name, seed, false).class(), truth, "{name}, sampled, seed {seed}");
        }
    }
}

#[test]
fn sampled_recency_is_near_the_exact_one() {
    for seed in 1..=20 {
        for (plain_mean, names, tolerance) in [
            (true, &["b", "c", "d", "e", "f", "h", "i", "j"][..], 0.05),
            (false, &["b", "c", "d", "e", "f", "i", "j"][..], 0.10),
            // A few hot blocks make most of the re-accesses, and whether they are sampled is chance.
            (true, &["f'"][..], 0.20),
            (false, &["f'"][..], 0.20),
        ] {
            for name in names {
                let exact = exact(name, seed).recency().unwrap();
                let (ours, _) = sampled(name, seed, plain_mean).recency().unwrap();
                assert!((ours - exact).abs() <= tolerance, "{name}, seed {seed}: {ours} for {exact}");
            }
        }
    }
}

/// Old evidence is forgotten. After 50,000 random accesses a loop is seen once the older blocks are
/// forgotten, which takes four times as many accesses as frames, and once it has been passed often enough for
/// the mean: the class is computed every 256 accesses, and a pass or two are needed.
#[test]
fn a_loop_that_starts_late_is_seen() {
    for (frames, blocks, seed) in [300, 1000, 4000]
        .into_iter()
        .flat_map(|frames| [5, 20, 64, 200].map(|blocks| (frames, blocks)))
        .flat_map(|(frames, blocks)| (1..=3).map(move |seed| (frames, blocks, seed)))
    {
        let mut amp = Amp::new(AmpOptions::for_frames(frames));
        let mut random = SplitMix64::new(seed);
        (0..50_000).for_each(|_| amp.access(PageId(random.below(10_000))));
        assert_ne!(amp.class(), Class::Looping);
        let seen = (0..50_000).find(|access| {
            amp.access(PageId(1_000_000 + access % blocks));
            amp.class() == Class::Looping
        });
        amp.check_invariants();
        let seen = seen.expect("the loop is seen");
        assert!(
            seen <= 4 * u64::from(frames) + 600,
            "{frames} frames: a loop of {blocks} is seen after {seen} accesses"
        );
    }
}

/// Relabelling the blocks does not change the recency, and neither do blocks that are accessed once.
#[test]
fn recency_depends_on_order_only() {
    for name in ["a", "e", "i"] {
        let plain = exact(name, 3).recency();
        let mut relabelled = AmpExact::new();
        stream(name, 3)
            .into_iter()
            .for_each(|block| relabelled.access(PageId(block.wrapping_mul(0x9e37_79b9_7f4a_7c15))));
        assert_eq!(relabelled.recency(), plain);
        let mut followed = exact(name, 3);
        (1 << 40..(1 << 40) + 500).for_each(|block| followed.access(PageId(block)));
        assert_eq!(followed.recency(), plain);
    }
}

/// PCC calls every stream with re-accesses a loop, also those that are none, such as the temporally clustered
/// a, the uniform e and the linear f, which the paper names.
#[test]
fn pcc_is_wrong_where_the_paper_says() {
    assert_eq!(watch(Pcc::new(), "a", 1).counts(), (-3982, 4491));
    assert_eq!(watch(Pcc::new(), "a'", 1).counts(), (-1000, 2000));
    assert_eq!(watch(Pcc::new(), "g", 1).counts(), (2000, 0));
    for name in ["a", "a'", "b", "c", "d", "e", "f", "f'", "h", "i", "j"] {
        assert_eq!(watch(Pcc::new(), name, 1).class(), Class::Looping, "{name}");
    }
    assert_eq!(watch(Pcc::new(), "g", 1).class(), Class::OneShot);
}

#[test]
fn ubm_sees_consecutive_loops_only() {
    assert_eq!(watch(Ubm::new(), "b", 1).class(), Class::Looping);
    assert_eq!(watch(Ubm::new(), "b", 1).period(), Some(200.0));
    assert_eq!(watch(Ubm::new(), "g", 1).class(), Class::OneShot);
    for name in ["d", "e", "f", "i"] {
        assert_eq!(watch(Ubm::new(), name, 1).class(), Class::Other, "{name}");
    }
}

/// DEAR with the setting of the AMP paper: a period of half the stream, ten groups.
#[test]
fn dear_on_the_streams() {
    use Class::{Looping, OneShot, Other, Temporal};
    for (name, expected) in [
        ("a", Temporal),
        ("b", Looping),
        ("d", Looping),
        ("e", Other),
        ("f", Other),
        ("g", OneShot),
        ("j", Temporal),
    ] {
        let period = stream(name, 1).len() / 2;
        assert_eq!(watch(Dear::new(DearOptions { period, groups: 10 }), name, 1).class(), expected, "{name}");
    }
}
