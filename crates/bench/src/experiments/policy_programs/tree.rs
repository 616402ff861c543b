//! E5, E6: random lookups in a binary tree whose pages are kept by level.

use anyhow::Result;
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

use super::{sizes::SIZES, texts};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict, listed};
use crate::parallel;
use crate::simulate::{self, Policy, Setup, TenantProgram};
use crate::streams::{self, Advice};
use crate::trace::Trace;

const LOOKUPS: u64 = 100_000;
/// Lookups that fill the memory. What is left of [`LOOKUPS`] stands for the rest of a million.
const WARM_UP: u64 = 40_000;
/// Time with level queues in hundredths of that without, by size: a million lookups, and a hundred thousand.
const PUBLISHED_MILLION: [f64; 4] = [91.32, 89.52, 86.30, 85.05];
const PUBLISHED_HUNDRED_THOUSAND: [f64; 4] = [97.85, 98.08, 98.06, 98.49];

const FIFO2: Policy = Policy::OneLevel(PolicyKind::Fifo2);
const LRU: Policy = Policy::OneLevel(PolicyKind::Lru);
const ALLOCATIONS: [(&str, Allocation); 2] =
    [("FIFO2-SP", Allocation::Fifo2Sp), ("LRU-SP", Allocation::LruSp)];

/// How nodes may lie in pages: a setting of the stream, and its meaning.
const LAYOUTS: [(&str, &str); 2] =
    [("breadth_first=0", "by insertion"), ("breadth_first=1", "breadth first")];

/// Misses of lookups, by size.
struct Misses {
    /// Of the first [`WARM_UP`].
    warm_up: Vec<u64>,
    /// Of all.
    all: Vec<u64>,
}

impl Misses {
    fn after_warm_up(&self) -> Vec<u64> {
        self.all.iter().zip(&self.warm_up).map(|(all, warm_up)| all - warm_up).collect()
    }
}

struct Traces {
    warm_up: Trace,
    all: Trace,
}

struct Lookups {
    plain: Traces,
    /// With a priority for the pages of each level.
    directed: Traces,
    levels: TenantProgram,
    jobs: usize,
}

impl Lookups {
    fn new(layout: &str, context: &Context) -> Self {
        let items = |lookups: u64, advice| {
            streams::items("tree", &[layout, &format!("lookups={lookups}")], advice, context.seed)
        };
        let trace = |lookups, advice| Trace::of("tree", items(lookups, advice));
        let levels = texts::levels(&items(1, Advice::Smart), 0);
        let traces = |advice| Traces { warm_up: trace(WARM_UP, advice), all: trace(LOOKUPS, advice) };
        Self { plain: traces(Advice::None), directed: traces(Advice::Smart), levels, jobs: context.jobs }
    }

    /// Under a policy without programs.
    fn under(&self, policy: Policy) -> Result<Misses> {
        self.misses(&self.plain, policy, Setup::frames)
    }

    /// With directives, each priority an LRU list.
    fn by_priorities(&self) -> Result<Misses> {
        self.misses(&self.directed, Policy::TwoLevel(Allocation::LruSp), Setup::frames)
    }

    /// With the tree's program.
    fn by_level(&self, allocation: Allocation) -> Result<Misses> {
        let programs = [(0, self.levels.clone())];
        self.misses(&self.plain, Policy::TwoLevel(allocation), |frames| Setup {
            programs: programs.clone().into(),
            ..Setup::frames(frames)
        })
    }

    fn misses(&self, traces: &Traces, policy: Policy, setup: impl Fn(u32) -> Setup + Sync) -> Result<Misses> {
        let counted = parallel::map(2 * SIZES.len(), self.jobs, |number| {
            let trace = if number < SIZES.len() { &traces.warm_up } else { &traces.all };
            simulate::misses(trace, policy, &setup(SIZES[number % SIZES.len()]), None)
        });
        let mut warm_up = counted.into_iter().collect::<Result<Vec<u64>, _>>()?;
        let all = warm_up.split_off(SIZES.len());
        Ok(Misses { warm_up, all })
    }
}

fn ratios(ours: &[u64], others: &[u64]) -> Vec<f64> {
    ours.iter().zip(others).map(|(ours, others)| *ours as f64 / *others as f64).collect()
}

fn shown(ratios: &[f64]) -> String {
    listed(&ratios.iter().map(|ratio| format!("{ratio:.3}")).collect::<Vec<_>>())
}

fn published(percent: &[f64]) -> String {
    format!("{} % of the time", listed(percent))
}

pub(super) fn a_million(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for (layout, nodes_lie) in LAYOUTS {
        let lookups = Lookups::new(layout, context);
        let fifo2 = lookups.under(FIFO2)?.after_warm_up();
        let lru = lookups.under(LRU)?.after_warm_up();
        let without_levels = ratios(&fifo2, &lru);
        for (name, allocation) in ALLOCATIONS {
            let by_level = lookups.by_level(allocation)?.after_warm_up();
            for (opponent, others) in [("FIFO2", &fifo2), ("LRU", &lru)] {
                let found = ratios(&by_level, others);
                let who = format!("the levels' program under {name}");
                findings.push(gain(nodes_lie, &who, opponent, &found, &without_levels));
            }
        }
        let by_directives = lookups.by_priorities()?.after_warm_up();
        let found = ratios(&by_directives, &lru);
        findings.push(gain(
            nodes_lie,
            "a priority for each level under LRU-SP",
            "LRU",
            &found,
            &without_levels,
        ));
    }
    Ok(findings)
}

/// The row of `who` against `opponent`; `without_levels` are FIFO2's misses over those of LRU.
fn gain(nodes_lie: &str, who: &str, opponent: &str, found: &[f64], without_levels: &[f64]) -> Finding {
    let holds = found.iter().all(|ratio| *ratio < 1.0) && found.is_sorted_by(|a, b| a > b);
    let reason = format!(
        "levels gain nothing at some size in this layout; FIFO2 without levels misses {} times as often as LRU",
        shown(without_levels)
    );
    Finding {
        id: "E5",
        what: format!(
            "tree with nodes {nodes_lie}, misses of {} lookups after {WARM_UP}: {who} to {opponent}, \
             {} frames",
            LOOKUPS - WARM_UP,
            listed(&SIZES)
        ),
        published: published(&PUBLISHED_MILLION),
        ours: shown(found),
        tolerance: "each below 1, and less with fewer frames".to_owned(),
        verdict: Verdict::of(holds, &reason),
    }
}

pub(super) fn a_hundred_thousand(context: &Context) -> Result<Vec<Finding>> {
    let of_layout = |(layout, nodes_lie): (&str, &str)| {
        let lookups = Lookups::new(layout, context);
        let found = ratios(&lookups.by_level(Allocation::Fifo2Sp)?.all, &lookups.under(FIFO2)?.all);
        Ok(Finding {
            id: "E6",
            what: format!(
                "tree with nodes {nodes_lie}, misses of the first {LOOKUPS} lookups: the levels' program \
                 under FIFO2-SP to FIFO2, {} frames",
                listed(&SIZES)
            ),
            published: published(&PUBLISHED_HUNDRED_THOUSAND),
            ours: shown(&found),
            tolerance: "from .95 to 1.02".to_owned(),
            verdict: Verdict::of(
                found.iter().all(|ratio| (0.95..=1.02).contains(ratio)),
                "the levels gain more here; how nodes lie in pages decides it, and is not published",
            ),
        })
    };
    LAYOUTS.into_iter().map(of_layout).collect()
}
