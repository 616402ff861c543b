//! D12: the best share of protected blocks in an SLRU array.

use anyhow::Result;
use bufpool_policies::tier::TierKind::Slru;

use super::runs::{TRACE_TIMES, Workload, mean_ms};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;

/// The name of each workload, and the shares of protected blocks, from 1 to 99 per cent, with which it is
/// fastest. `frames` is the size of a cache that the workloads are scaled to.
///
/// # Errors
///
/// If a simulation cannot be carried out.
pub fn best_shares(frames: u32, context: &Context) -> Result<Vec<(&'static str, Vec<u8>)>> {
    let (set, seed) = (u64::from(frames), context.seed);
    let workloads = [
        ("RANDOM", Workload::random(2 * set, seed), frames, frames),
        ("ZIPF", Workload::zipf(3 * set, seed), frames, frames),
        ("2 clients that read the same", Workload::clients(2, 3 * set, 100, seed), frames, frames),
        ("8 clients with blocks of their own", Workload::clients(8, set, 0, seed), frames / 4, 2 * frames),
    ];
    let best = |workload: &Workload, client_frames, frames| -> Result<Vec<u8>> {
        let times = parallel::map(99, context.jobs, |at| -> Result<f64> {
            let kind = Slru { protected_percent: at as u8 + 1 };
            Ok(mean_ms(&TRACE_TIMES, &workload.run(client_frames, kind, frames)?))
        });
        let times: Vec<f64> = times.into_iter().collect::<Result<_>>()?;
        let least = times.iter().copied().fold(f64::MAX, f64::min);
        Ok((1..=99).filter(|share| times[usize::from(*share) - 1] <= least).collect())
    };
    let found = workloads
        .iter()
        .map(|(name, workload, client_frames, frames)| Ok((*name, best(workload, *client_frames, *frames)?)));
    found.collect()
}

pub(super) fn shares(context: &Context) -> Result<Vec<Finding>> {
    const FRAMES: u32 = 1_024;
    let found = best_shares(FRAMES, context)?;
    Ok(found
        .into_iter()
        .map(|(name, best)| {
            let (first, last) = (best[0], best[best.len() - 1]);
            let is_published = first < 8 || last > 50;
            Finding {
                id: "D12",
                what: format!("share of protected blocks of an SLRU array with which {name} is fastest"),
                published: "below 8 % or above 50 %, by workload".to_owned(),
                ours: if first == last { format!("{first} %") } else { format!("{first} to {last} %") },
                tolerance: "the same".to_owned(),
                verdict: match is_published {
                    true => Verdict::Reproduced,
                    false => Verdict::SameOrder(
                        "the traces are not published; as there, no share is the best for all".to_owned(),
                    ),
                },
            }
        })
        .collect())
}
