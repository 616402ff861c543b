//! A5, A6: mixes of programs, and allocation without swapping.

use anyhow::Result;

use super::programs::{
    ALLOC_LRU, GLOBAL_LRU, LRU_SP, MIXES, SIZES, elapsed_s, least, misses, percent_change, percents, program,
    run_on_two_disks, sizes,
};
use super::service::{self, Program, Ran};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;
use crate::simulate::{Policy, Setup, SimError};
use crate::streams::Advice;

/// Indices of those of [`MIXES`] that the paper also ran without swapping.
const ABLATION_MIXES: [usize; 5] = [0, 1, 6, 7, 8];

fn mix_name(mix: &[&str]) -> String {
    mix.join("+")
}

fn run_mix(
    mix: &[&str],
    advice: Advice,
    policy: Policy,
    frames: u32,
    seed: u64,
) -> Result<Vec<Ran>, SimError> {
    let programs: Vec<Program> = mix.iter().map(|name| program(name, advice, seed)).collect();
    service::run(&programs, policy, &Setup::frames(frames))
}

pub(super) fn mixes(context: &Context) -> Result<Vec<Finding>> {
    let changes = parallel::map(MIXES.len(), context.jobs, |number| {
        let change = |&frames: &u32| -> Result<(f64, f64), SimError> {
            let run = |advice, policy| run_on_two_disks(MIXES[number], advice, policy, frames, context.seed);
            let (before, after) = (run(Advice::None, GLOBAL_LRU)?, run(Advice::Smart, LRU_SP)?);
            let reads = percent_change(misses(&before) as f64, misses(&after) as f64);
            Ok((percent_change(elapsed_s(&before), elapsed_s(&after)), reads))
        };
        SIZES.iter().map(change).collect::<Result<Vec<_>, SimError>>()
    });
    let mut findings = Vec::new();
    let mut best = 0.0_f64;
    for (mix, changes) in MIXES.iter().zip(changes) {
        let (elapsed, reads): (Vec<f64>, Vec<f64>) = changes?.into_iter().unzip();
        best = best.min(least(&elapsed));
        let worst = elapsed.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        findings.push(Finding {
            id: "A5",
            what: format!(
                "{}, elapsed time on two disks, smart against LRU at {} frames",
                mix_name(mix),
                sizes()
            ),
            published: "up to -30 %".to_owned(),
            ours: format!("{} (block I/Os {})", percents(&elapsed), percents(&reads)),
            tolerance: "a gain at some size, no loss above 2 % at any".to_owned(),
            verdict: Verdict::of(least(&elapsed) < -1.0 && worst <= 2.0, "no gain, or a loss at some size"),
        });
    }
    findings.push(Finding {
        id: "A5",
        what: "largest gain in elapsed time among the mixes, on two disks".to_owned(),
        published: "-30 %".to_owned(),
        ours: percents(&[best]),
        tolerance: "± 50 % of it".to_owned(),
        verdict: Verdict::of_ratio(
            -30.0,
            best,
            0.5,
            "the programs' computing times are not published; the less they compute, the more a saved read counts",
        ),
    });
    Ok(findings)
}

const ORDER_INFERRED: &str = "the order of accesses within the programs is inferred: here each gains more by its own policy than \
                              its neighbours take";

pub(super) fn ablation(context: &Context) -> Result<Vec<Finding>> {
    let tasks: Vec<(usize, u32)> =
        ABLATION_MIXES.into_iter().flat_map(|mix| SIZES.map(|frames| (mix, frames))).collect();
    let reads = parallel::map(tasks.len(), context.jobs, |task| {
        let (mix, frames) = tasks[task];
        let reads = |advice, policy| -> Result<u64, SimError> {
            Ok(misses(&run_mix(MIXES[mix], advice, policy, frames, context.seed)?))
        };
        Ok([
            reads(Advice::None, GLOBAL_LRU)?,
            reads(Advice::Smart, ALLOC_LRU)?,
            reads(Advice::Smart, LRU_SP)?,
        ])
    });
    let reads: Vec<[u64; 3]> = reads.into_iter().collect::<Result<_, SimError>>()?;
    let mut findings = Vec::new();
    let mut worse_mixes = 0;
    for (mix, reads) in ABLATION_MIXES.iter().zip(reads.chunks(SIZES.len())) {
        let worse = reads.iter().filter(|[_, alloc, sp]| alloc > sp).count();
        worse_mixes += usize::from(2 * worse >= SIZES.len());
        let texts: Vec<String> = reads.iter().map(|[lru, alloc, sp]| format!("{lru}/{alloc}/{sp}")).collect();
        findings.push(Finding {
            id: "A6",
            what: format!("{}, block I/Os LRU/ALLOC-LRU/LRU-SP at {} frames", mix_name(MIXES[*mix]), sizes()),
            published: "ALLOC-LRU mostly worse than LRU-SP (figure lost)".to_owned(),
            ours: texts.join(", "),
            tolerance: "worse at two sizes of four".to_owned(),
            verdict: Verdict::of(2 * worse >= SIZES.len(), "ALLOC-LRU is not worse here"),
        });
    }
    let loses = reads.iter().filter(|[lru, alloc, _]| alloc > lru).count();
    findings.push(Finding {
        id: "A6",
        what: "mixes in which ALLOC-LRU is worse than LRU-SP; cases in which it is worse than LRU".to_owned(),
        published: "most of 5; some".to_owned(),
        ours: format!("{worse_mixes} of 5; {loses} of {}", reads.len()),
        tolerance: "at least 3 of 5, at least 1".to_owned(),
        verdict: match (worse_mixes >= 3, loses >= 1) {
            (true, true) => Verdict::Reproduced,
            (true, false) | (false, true) => Verdict::SameOrder(ORDER_INFERRED.to_owned()),
            _ => Verdict::NotReproduced(ORDER_INFERRED.to_owned()),
        },
    });
    Ok(findings)
}
