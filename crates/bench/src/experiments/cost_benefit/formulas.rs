//! B1, B2: statements that follow by arithmetic, or can be tried on all small cases.

use anyhow::Result;
use bufpool_policies::hints::CostModel;
use bufpool_policies::hints::costs::aggressive_bound as bound_of;

use super::bound::{self, Cases};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};

pub(super) fn horizon(_: &Context) -> Result<Vec<Finding>> {
    let horizon = CostModel::default().horizon();
    Ok(vec![Finding {
        id: "B1",
        what: "accesses ahead, with 425 us a hit and 29 ms a read".to_owned(),
        published: "68".to_owned(),
        ours: horizon.to_string(),
        tolerance: "exact".to_owned(),
        verdict: Verdict::of(horizon == 68, "the formula differs"),
    }])
}

pub(super) fn aggressive_bound(context: &Context) -> Result<Vec<Finding>> {
    let example = bound_of(50, 1500);
    let tried =
        bound::try_all(&Cases { accesses_max: 8, blocks_max: 6, frames_max: 4, fetch_max: 4 }, context.jobs);
    Ok(vec![
        Finding {
            id: "B2",
            what: "bound at 1500 frames and a fetch of 50 accesses".to_owned(),
            published: "within 1 + F/K, about 3 %".to_owned(),
            ours: format!("{example:.4}"),
            tolerance: "exact".to_owned(),
            verdict: Verdict::of((example - 1.0 - 1.0 / 30.0).abs() < 1e-9, "the formula differs"),
        },
        Finding {
            id: "B2",
            what: format!(
                "time against the best schedule, all {} strings of at most 8 accesses to at most 6 blocks, 1 to 4 \
                 frames, fetches of 1 to 4 accesses: {} cases",
                tried.strings, tried.cases
            ),
            published: "at most 1 + F/K".to_owned(),
            ours: format!("{} above", tried.above),
            tolerance: "exact".to_owned(),
            verdict: Verdict::of(tried.above == 0, "a schedule is better by more than the bound"),
        },
    ])
}
