//! E8, in addition to the mixes: how misses change if a page with a second chance becomes active again, as in
//! Mach, instead of staying inactive, as in the paper. Of the mixes' programs only the tree reads pages again
//! while they are in memory.

use anyhow::Result;
use bufpool_policies::Allocation;
use bufpool_policies::program::Program;

use super::{sizes::SIZES, texts};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::parallel;
use crate::simulate::{Policy, Setup, SimError, misses};
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// The mixes' programs.
const STREAMS: [&str; 4] = ["tree", "nlj", "player", "writer"];

/// Misses in `frames` frames if a page with a second chance stays inactive, and if it becomes active.
fn misses_of_both(trace: &Trace, frames: u32) -> Result<[u64; 2], SimError> {
    let of = |program: Program| {
        let setup = Setup { program: Some(program), ..Setup::frames(frames) };
        misses(trace, Policy::Program(Allocation::LruSp), &setup, None)
    };
    Ok([of(texts::fifo2())?, of(texts::fifo2_mach())?])
}

pub(super) fn as_in_mach(context: &Context) -> Result<Vec<Finding>> {
    let row = |name: &str| {
        let trace = Trace::of(name, streams::items(name, &[], Advice::None, context.seed));
        let both = parallel::map(SIZES.len(), context.jobs, |size| misses_of_both(&trace, SIZES[size]));
        let both = both.into_iter().collect::<Result<Vec<_>, _>>()?;
        let ratios = both.iter().map(|[stays, active]| *active as f64 / *stays as f64);
        let ratios: Vec<String> = ratios.map(|ratio| format!("{ratio:.3}")).collect();
        let is_same = both.iter().all(|[stays, active]| stays == active);
        Ok(Finding {
            id: "E8",
            what: format!(
                "{name} alone under FIFO2, misses where a second chance makes a page active again (Mach) to those \
                 where it does not, at {} frames",
                listed(&SIZES)
            ),
            published: "not told which of them ran".to_owned(),
            ours: listed(&ratios),
            tolerance: if name == "tree" { "below 1" } else { "1: nothing is read again in memory" }
                .to_owned(),
            verdict: Verdict::of(
                if name == "tree" { both.iter().all(|[stays, active]| active < stays) } else { is_same },
                "pages are read again otherwise than by the published programs",
            ),
        })
    };
    STREAMS.into_iter().map(row).collect()
}
