//! D11: stand-ins for traces of several clients.

use anyhow::Result;
use bufpool_policies::tier::TierKind::{AdaptExp, AdaptUni, Demote, NoneLru};

use super::runs::{TRACE_TIMES, Workload, mean_ms};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};

/// How many times faster DEMOTE, ADAPT-UNI and ADAPT-EXP are than an array without demotions.
fn speed_ups(workload: &Workload, client_frames: u32, frames: u32, jobs: usize) -> Result<[f64; 3]> {
    let counts = workload.run_all(client_frames, &[NoneLru, Demote, AdaptUni, AdaptExp], frames, jobs)?;
    let times: Vec<f64> = counts.iter().map(|counts| mean_ms(&TRACE_TIMES, counts)).collect();
    Ok([1, 2, 3].map(|at| times[0] / times[at]))
}

fn listed(speed_ups: [f64; 3]) -> String {
    speed_ups.map(|speed_up| format!("{speed_up:.2}")).join(", ")
}

pub(super) fn several(context: &Context) -> Result<Vec<Finding>> {
    let Context { seed, jobs } = *context;
    let disjoint = speed_ups(&Workload::clients(8, 4_096, 0, seed), 1_024, 8_192, jobs)?;
    let two = speed_ups(&Workload::clients(2, 12_288, 100, seed), 4_096, 4_096, jobs)?;
    let seven = speed_ups(&Workload::clients(7, 12_288, 100, seed), 4_096, 4_096, jobs)?;
    let [demote, uni, exp] = disjoint;
    let disjoint_holds = demote > uni.max(exp) && uni.min(exp) > 1.0;
    let shared_holds = |[demote, _, exp]: [f64; 3]| exp > 1.0 && demote < 1.0;
    Ok(vec![
        Finding {
            id: "D11",
            what: "none to DEMOTE, ADAPT-UNI, ADAPT-EXP, time; 8 clients of 1024 blocks above 8192, each with Zipf's \
                   law over 4096 blocks of its own (for DB2)"
                .to_owned(),
            published: "1.50, 1.27 to 1.32 x".to_owned(),
            ours: format!("{} x", listed(disjoint)),
            tolerance: "DEMOTE above ADAPT above 1".to_owned(),
            verdict: Verdict::of(disjoint_holds, "see the numbers"),
        },
        Finding {
            id: "D11",
            what: "the same; 2 clients of 4096 blocks above 4096, the same reads by Zipf's law over 12288 blocks, 100 \
                   apart (for HTTPD)"
                .to_owned(),
            published: "0.55, 0.91, 1.18 x".to_owned(),
            ours: format!("{} x", listed(two)),
            tolerance: "ADAPT-EXP above 1 above DEMOTE".to_owned(),
            verdict: Verdict::of(shared_holds(two), "see the numbers"),
        },
        Finding {
            id: "D11/7",
            what: "the same with 7 clients".to_owned(),
            published: "0.55, 0.91, 1.18 x".to_owned(),
            ours: format!("{} x", listed(seven)),
            tolerance: "ADAPT-EXP above 1 above DEMOTE".to_owned(),
            verdict: match (shared_holds(seven), seven[0] < 1.0) {
                (true, _) => Verdict::Reproduced,
                (false, true) => Verdict::SameOrder(
                    "only the first client's reads, one in seven, can gain from blocks that were demoted, because the \
                     others find what it has just read; all pay for their demotions"
                        .to_owned(),
                ),
                (false, false) => Verdict::NotReproduced("see the numbers".to_owned()),
            },
        },
    ])
}
