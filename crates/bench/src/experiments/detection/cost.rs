//! C9: what detection costs at each access.

use std::time::Instant;

use anyhow::Result;
use bufpool_policies::detect::{Amp, AmpOptions, Detector};
use bufpool_policies::{PageId, SplitMix64};

use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};

/// Times the sampled detector on uniformly random pages.
pub(super) fn cost_of_detection(context: &Context) -> Result<Vec<Finding>> {
    const ACCESSES: u64 = 2_000_000;
    const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let ns = |pages: u64| {
        let once = || {
            let mut amp = Amp::new(AmpOptions::for_frames(10_000));
            let mut random = SplitMix64::new(context.seed);
            let started = Instant::now();
            (0..ACCESSES).for_each(|_| amp.access(PageId(random.below(pages))));
            let elapsed = started.elapsed();
            std::hint::black_box(amp.class());
            elapsed.as_secs_f64() * 1e9 / ACCESSES as f64
        };
        (0..5).map(|_| once()).fold(f64::MAX, f64::min)
    };
    let costs = SIZES.map(ns);
    let (least, most) =
        costs.iter().fold((f64::MAX, 0.0_f64), |(least, most), &ns| (least.min(ns), most.max(ns)));
    Ok(vec![Finding {
        id: "C9",
        what: "ns an access of the sampled detector, 10^3 to 10^7 distinct pages, best of 5".to_owned(),
        published: "constant".to_owned(),
        ours: costs.map(|ns| format!("{ns:.1}")).join(", "),
        tolerance: "at most a factor of 2 between them".to_owned(),
        verdict: Verdict::of(most <= 2.0 * least, "see the numbers"),
    }])
}
