//! A7, A8: ReadN next to Read300.

use anyhow::Result;

use super::programs::{LRU_S, LRU_SP, READ_N_FRAMES, read_300, read_n};
use super::service;
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::simulate::{By, Outcome, Policy, Setup, SimError, simulate};
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// Group sizes of the foreground program in the ReadN experiment, in blocks.
pub(super) const READ_N: [u64; 4] = [390, 400, 490, 500];

/// A row of the published ReadN table, with values for each of [`READ_N`].
pub(super) struct ReadNRow {
    pub(super) what: &'static str,
    /// The row's name in the chart.
    pub(super) short: &'static str,
    /// The advice of the background program, Read300.
    pub(super) advice: Advice,
    pub(super) policy: Policy,
    pub(super) reads: [f64; 4],
    pub(super) seconds: [f64; 4],
}

pub(super) const READ_N_ROWS: [ReadNRow; 3] = [
    ReadNRow {
        what: "oblivious",
        short: "oblivious",
        advice: Advice::None,
        policy: LRU_SP,
        reads: [1172.0, 1181.0, 1176.0, 1481.0],
        seconds: [53.0, 58.0, 59.0, 72.0],
    },
    ReadNRow {
        what: "foolish background, unprotected (LRU-S)",
        short: "unprotected",
        advice: Advice::Foolish,
        policy: LRU_S,
        reads: [1300.0, 1538.0, 1465.0, 2294.0],
        seconds: [73.0, 89.0, 76.0, 122.0],
    },
    ReadNRow {
        what: "foolish background, protected (LRU-SP)",
        short: "protected",
        advice: Advice::Foolish,
        policy: LRU_SP,
        reads: [1170.0, 1170.0, 1199.0, 1580.0],
        seconds: [75.0, 75.0, 72.0, 91.0],
    },
];

const INTERLEAVING: &str =
    "who comes when is not published, and decides whether 490 + 300 and 500 + 300 fit in 819";

/// Simulates ReadN (tenant 0) and Read300 (tenant 1) in turns: three accesses of ReadN, then two of Read300.
pub(super) fn read_n_by_turns(
    n: u64,
    advice: Advice,
    policy: Policy,
    revocation: bool,
) -> Result<Outcome, SimError> {
    let trace = Trace::of("readn", streams::items("readn", &[&format!("n={n}")], advice, 1));
    let setup = Setup { by: By::Tenant, revocation, ..Setup::frames(READ_N_FRAMES) };
    simulate(&trace, policy, &setup, None)
}

pub(super) fn read_n_reads(_: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ReadNRow { what: row, advice, policy, reads, .. } in READ_N_ROWS {
        for (n, published) in READ_N.into_iter().zip(reads) {
            let ours = read_n_by_turns(n, advice, policy, false)?.counts[&0].misses();
            findings.push(Finding {
                id: "A7",
                what: format!("Read{n} next to Read300, {row}: block I/Os"),
                published: published.to_string(),
                ours: ours.to_string(),
                tolerance: "± 15 %".to_owned(),
                verdict: Verdict::of_ratio(published, ours as f64, 0.15, INTERLEAVING),
            });
        }
    }
    for n in READ_N {
        let oblivious = read_n_by_turns(n, Advice::None, LRU_SP, false)?.counts[&0].misses();
        let protected = read_n_by_turns(n, Advice::Foolish, LRU_SP, false)?.counts[&0].misses();
        findings.push(Finding {
            id: "A7",
            what: format!("Read{n}: protected next to a fool against next to an oblivious program"),
            published: "about equal".to_owned(),
            ours: format!("{protected} against {oblivious}"),
            tolerance: "exact".to_owned(),
            verdict: Verdict::of(protected == oblivious, "protection has a hole"),
        });
    }
    Ok(findings)
}

pub(super) fn read_n_elapsed(_: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for ReadNRow { what: row, advice, policy, seconds, .. } in READ_N_ROWS {
        for (n, published) in READ_N.into_iter().zip(seconds) {
            let programs = [read_n(1170, n, Advice::None), read_300(advice)];
            let ran = service::run(&programs, policy, &Setup::frames(READ_N_FRAMES))?;
            let ours = ran[0].elapsed_s;
            findings.push(Finding {
                id: "A8",
                what: format!("Read{n} next to Read300, {row}: seconds, one disk"),
                published: published.to_string(),
                ours: format!("{ours:.1} ({} block I/Os)", ran[0].counts.misses()),
                tolerance: "± 20 %".to_owned(),
                verdict: Verdict::of_ratio(published, ours, 0.2, INTERLEAVING),
            });
        }
    }
    Ok(findings)
}
