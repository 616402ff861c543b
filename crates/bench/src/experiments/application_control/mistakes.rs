//! A13: mistakes tell fools from smart programs.

use anyhow::Result;

use super::programs::{APPLICATIONS, LRU_SP, MIXES, READ_N_FRAMES, items, program};
use super::read_n::{READ_N, read_n_by_turns};
use super::service::{self, Program, Ran};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;
use crate::simulate::{Counts, Setup, SimError, simulate};
use crate::streams::Advice;
use crate::trace::Trace;

const UNNOTICED: &str = "the fool's mistakes are not among the overrules that it is judged by";

fn wrong_share(counts: &Counts) -> f64 {
    counts.mistakes as f64 / counts.overrules.max(1) as f64
}

pub(super) fn mistakes(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for n in READ_N {
        let free = read_n_by_turns(n, Advice::Foolish, LRU_SP, false)?;
        let (fool, share) = (free.counts[&1], wrong_share(&free.counts[&1]));
        findings.push(Finding {
            id: "A13",
            what: format!("foolish Read300 next to Read{n}: wrong overrules, without revocation"),
            published: "none (our earlier simulation: 0.74 to 0.80)".to_owned(),
            ours: format!("{share:.2} of {}", fool.overrules),
            tolerance: "0.74 to 0.81".to_owned(),
            verdict: Verdict::of((0.74..=0.81).contains(&share), "the share of wrong overrules is another"),
        });
        let judged = read_n_by_turns(n, Advice::Foolish, LRU_SP, true)?;
        let oblivious = read_n_by_turns(n, Advice::None, LRU_SP, false)?;
        findings.push(Finding {
            id: "A13",
            what: format!(
                "foolish Read300 next to Read{n}: revocations; block I/Os of both without and with revocation"
            ),
            published: "was being added, no number".to_owned(),
            ours: format!(
                "{}; Read300 {} and {}, Read{n} {} and {}",
                judged.counts[&1].revocations,
                fool.misses(),
                judged.counts[&1].misses(),
                free.counts[&0].misses(),
                judged.counts[&0].misses()
            ),
            tolerance: "at least one revocation; same order: none, yet nobody pays".to_owned(),
            verdict: if judged.counts[&1].revocations > 0 {
                Verdict::Reproduced
            } else if judged.counts[&0].misses() <= oblivious.counts[&0].misses() {
                Verdict::SameOrder(UNNOTICED.to_owned())
            } else {
                Verdict::NotReproduced(UNNOTICED.to_owned())
            },
        });
    }
    for (name, _) in APPLICATIONS {
        let trace = Trace::of(name, items(name, Advice::Smart, context.seed));
        let setup = Setup { revocation: true, ..Setup::frames(READ_N_FRAMES) };
        let counts = simulate(&trace, LRU_SP, &setup, None)?.total();
        findings.push(Finding {
            id: "A13",
            what: format!("smart {name}: wrong overrules; revocations"),
            published: "none (our earlier simulation: 0.00)".to_owned(),
            ours: format!("{:.2} of {}; {}", wrong_share(&counts), counts.overrules, counts.revocations),
            tolerance: "at most 0.02 wrong, none revoked".to_owned(),
            verdict: Verdict::of(
                wrong_share(&counts) <= 0.02 && counts.revocations == 0,
                "a smart program errs",
            ),
        });
    }
    findings.push(mistakes_in_mixes(context)?);
    Ok(findings)
}

/// Smart programs in mixes: the largest share of wrong overrules of any program, and the number of
/// revocations.
fn mistakes_in_mixes(context: &Context) -> Result<Finding> {
    let ran = parallel::map(MIXES.len(), context.jobs, |number| {
        let advice = |name: &&str| program(name, Advice::Smart, context.seed);
        let programs: Vec<Program> = MIXES[number].iter().map(advice).collect();
        let setup = Setup { revocation: true, ..Setup::frames(READ_N_FRAMES) };
        service::run(&programs, LRU_SP, &setup)
    });
    let ran: Vec<Vec<Ran>> = ran.into_iter().collect::<Result<_, SimError>>()?;
    let counts = || ran.iter().flatten().map(|ran| ran.counts);
    let worst = counts().map(|counts| wrong_share(&counts)).fold(0.0, f64::max);
    let revocations: u64 = counts().map(|counts| counts.revocations).sum();
    Ok(Finding {
        id: "A13",
        what: "smart programs of the nine mixes at 819 frames: largest share of wrong overrules; revocations"
            .to_owned(),
        published: "none".to_owned(),
        ours: format!("{worst:.2}; {revocations}"),
        tolerance: "none revoked".to_owned(),
        verdict: Verdict::of(revocations == 0, "a smart program loses its say"),
    })
}
