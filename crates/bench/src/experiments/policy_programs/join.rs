//! E3, E4: a nested-loop join.

use anyhow::Result;
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;
use bufpool_policies::program::Program;

use super::{sizes::SIZES, texts};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::parallel;
use crate::simulate::{self, Policy, Setup};
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// Pages of the outer relation, and how often the relation is read.
const OUTER: u64 = 15_360;
const PASSES: u64 = 64;
/// Published time under MRU in per cent of that under LRU, by size.
const PUBLISHED_PERCENT: [f64; 4] = [4.72, 29.94, 56.85, 83.69];

/// Misses at each size. `program` is needed if the policy is [`Policy::Program`].
fn misses(advice: Advice, policy: Policy, program: Option<&Program>, jobs: usize) -> Result<Vec<u64>> {
    let trace = Trace::of("nlj", streams::items("nlj", &[], advice, 1));
    let counted = parallel::map(SIZES.len(), jobs, |number| {
        let setup = Setup { program: program.cloned(), ..Setup::frames(SIZES[number]) };
        simulate::misses(&trace, policy, &setup, None)
    });
    Ok(counted.into_iter().collect::<Result<_, _>>()?)
}

/// The misses of MRU, which keeps the inner relation's page and as much of the outer relation as fits.
fn reachable(frames: u32) -> u64 {
    1 + OUTER + (PASSES - 1) * (OUTER - u64::from(frames) + 1)
}

pub(super) fn mru_against_lru(context: &Context) -> Result<Vec<Finding>> {
    let lru = misses(Advice::None, Policy::OneLevel(PolicyKind::Lru), None, context.jobs)?;
    let mru = misses(Advice::None, Policy::OneLevel(PolicyKind::Mru), None, context.jobs)?;
    let directed = misses(Advice::Smart, Policy::TwoLevel(Allocation::LruSp), None, context.jobs)?;
    let run =
        |allocation| misses(Advice::None, Policy::Program(allocation), Some(&texts::mru()), context.jobs);
    let (programmed, under_fifo2) = (run(Allocation::LruSp)?, run(Allocation::Fifo2Sp)?);
    let by_size = SIZES.iter().zip(PUBLISHED_PERCENT).zip(mru.iter().zip(&lru));
    let mut findings: Vec<Finding> = by_size
        .map(|((frames, published), (mru, lru))| {
            let ours = 100.0 * *mru as f64 / *lru as f64;
            Finding {
                id: "E3",
                what: format!("nested-loop join at {frames} frames, misses of MRU against LRU"),
                published: format!("{published:.2} % of the time"),
                ours: format!("{ours:.2} %"),
                tolerance: "4 %".to_owned(),
                verdict: Verdict::of_ratio(published, ours, 0.04, "the number of passes is inferred"),
            }
        })
        .collect();
    for (who, misses) in [
        ("MRU", mru),
        ("MRU by directives under LRU-SP", directed),
        ("MRU as a program under LRU-SP", programmed),
        ("MRU as a program under FIFO2-SP", under_fifo2),
    ] {
        let expected = SIZES.map(reachable);
        findings.push(Finding {
            id: "E3",
            what: format!("nested-loop join, misses of {who} at {} frames", listed(&SIZES)),
            published: String::new(),
            ours: listed(&misses),
            tolerance: format!("exact: {}", listed(&expected)),
            verdict: Verdict::of(
                misses == expected,
                "MRU misses L + 63 (L - C + 1), and the inner page once",
            ),
        });
    }
    Ok(findings)
}

pub(super) fn lru_is_flat(context: &Context) -> Result<Vec<Finding>> {
    let (native, programmed) = (Policy::OneLevel(PolicyKind::Lru), Policy::Program(Allocation::LruSp));
    let accesses = PASSES * (OUTER + 1);
    let mut findings = Vec::new();
    for (who, policy) in [("LRU", native), ("LRU as a program under LRU-SP", programmed)] {
        let misses = misses(Advice::None, policy, Some(&texts::lru()), context.jobs)?;
        findings.push(Finding {
            id: "E4",
            what: format!("nested-loop join, misses of {who} at {} frames", listed(&SIZES)),
            published: "the same time, 12572 to 12779 s".to_owned(),
            ours: listed(&misses),
            tolerance: "exact: every access misses".to_owned(),
            verdict: Verdict::of(misses.iter().all(|count| *count == accesses), "an access hits"),
        });
    }
    Ok(findings)
}
