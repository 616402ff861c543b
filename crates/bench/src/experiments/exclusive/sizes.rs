//! D8, D9: arrays smaller and larger than the client.

use anyhow::Result;
use bufpool_policies::tier::TierKind::{Demote, DemoteLru, NoneLru};

use super::runs::{FRAMES, Workload, mean_ms};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;
use crate::simulate::Latency;

/// Frames of the client. Hits of uniform reads depend only on the ratio of the sizes, so 2,048 are enough
/// where the paper has 16,384.
const CLIENT_FRAMES: u32 = 2_048;

/// Sizes of the array in 32nds of the client's: doublings from 1:32 to 32:1, and sizes near 1:10 and 10:1.
const SIZES: [u32; 13] = [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 320, 512, 1024];
const EQUAL: u32 = 32;

/// For an array of each of `SIZES`, how many times faster DEMOTE-LRU and DEMOTE are than an array without
/// demotions, on uniform reads of as many blocks as both caches have.
///
/// # Errors
///
/// If a simulation cannot be carried out.
pub fn speed_ups(client_frames: u32, context: &Context) -> Result<Vec<(u32, [f64; 2])>> {
    let of_size = |size: u32| -> Result<(u32, [f64; 2])> {
        let frames = (u64::from(client_frames) * u64::from(size) / u64::from(EQUAL)) as u32;
        let workload = Workload::random(u64::from(client_frames) + u64::from(frames), context.seed);
        let time = |kind| -> Result<f64> {
            Ok(mean_ms(&Latency::default(), &workload.run(client_frames, kind, frames)?))
        };
        let none = time(NoneLru)?;
        Ok((size, [none / time(DemoteLru)?, none / time(Demote)?]))
    };
    // The largest is simulated first, because it takes longest.
    let sizes: Vec<u32> = SIZES.into_iter().rev().collect();
    let mut found: Vec<(u32, [f64; 2])> = parallel::map(sizes.len(), context.jobs, |at| of_size(sizes[at]))
        .into_iter()
        .collect::<Result<_>>()?;
    found.reverse();
    Ok(found)
}

pub(super) fn ratios(context: &Context) -> Result<Vec<Finding>> {
    let found = speed_ups(CLIENT_FRAMES, context)?;
    let best = found.iter().max_by(|a, b| a.1[1].total_cmp(&b.1[1])).expect("there are sizes").0;
    let least = found
        .iter()
        .filter(|(size, _)| (EQUAL / 10..=EQUAL * 10).contains(size))
        .map(|(_, [_, demote])| *demote)
        .fold(f64::MAX, f64::min);
    let texts: Vec<String> = found
        .iter()
        .map(|(size, [_, demote])| format!("{:.2}: {demote:.2}", f64::from(*size) / f64::from(EQUAL)))
        .collect();
    Ok(vec![Finding {
        id: "D8",
        what: "uniform reads of as many blocks as both caches have, none to DEMOTE, time, by the size of the array to \
               the client's"
            .to_owned(),
        published: "most at 1:1, gains over about 10:1 either way".to_owned(),
        ours: texts.join(", "),
        tolerance: "most at 1, above 1.02 from 0.1 to 10".to_owned(),
        verdict: Verdict::of(best == EQUAL && least > 1.02, "see the numbers"),
    }])
}

pub(super) fn order(context: &Context) -> Result<Vec<Finding>> {
    let set = u64::from(FRAMES);
    let workloads = [
        Workload::random(2 * set, context.seed),
        Workload::cyclic(2 * set - 1),
        Workload::zipf(3 * set, context.seed),
    ];
    let mut times = Vec::new();
    for workload in &workloads {
        let counts = workload.run_all(FRAMES, &[DemoteLru, Demote], FRAMES, context.jobs)?;
        let [demote_lru, demote] = [0, 1].map(|at| mean_ms(&Latency::default(), &counts[at]));
        times.push(demote_lru / demote);
    }
    let sizes = speed_ups(CLIENT_FRAMES, context)?;
    times.extend(sizes.iter().map(|(_, [demote_lru, demote])| demote / demote_lru));
    let least = times.iter().copied().fold(f64::MAX, f64::min);
    Ok(vec![Finding {
        id: "D9",
        what: format!(
            "DEMOTE-LRU to DEMOTE, time, on RANDOM, SEQ, ZIPF, and the {} sizes of D8",
            sizes.len()
        ),
        published: "DEMOTE-LRU never beats DEMOTE".to_owned(),
        ours: format!("{:.2}, {:.2}, {:.2}; {least:.2} or more", times[0], times[1], times[2]),
        tolerance: "1 or more".to_owned(),
        verdict: Verdict::of(least >= 1.0, "DEMOTE-LRU is faster once"),
    }])
}
