//! Misses of policies on a trace, and findings about them.

use anyhow::Result;

use crate::experiments::finding::{Finding, Verdict, listed};
use crate::parallel;
use crate::simulate::{self, NextUses, Policy, Setup};
use crate::streams::{self, Advice};
use crate::trace::Trace;

pub(super) fn trace(name: &str, set: &[&str], seed: u64) -> Trace {
    Trace::of(name, streams::items(name, set, Advice::None, seed))
}

/// Misses of each policy at each size; `None` for a name that is no policy's.
pub(super) fn misses(
    trace: &Trace,
    policies: &[&str],
    sizes: &[u32],
    jobs: usize,
) -> Result<Vec<Option<Vec<u64>>>> {
    let next_uses = NextUses::in_memory(trace)?;
    let rows = parallel::map(policies.len(), jobs, |number| {
        let Ok(policy) = policies[number].parse::<Policy>() else { return Ok(None) };
        let counted = sizes
            .iter()
            .map(|&frames| Ok(simulate::misses(trace, policy, &Setup::frames(frames), Some(&next_uses))?));
        counted.collect::<Result<Vec<u64>>>().map(Some)
    });
    rows.into_iter().collect()
}

/// A finding about a policy's misses: reproduced if `holds`; not run if `misses` is `None`, because there is
/// no policy of that name.
pub(super) fn about(
    id: &'static str,
    what: String,
    published: &str,
    tolerance: &str,
    misses: Option<&Vec<u64>>,
    holds: impl Fn(&[u64]) -> bool,
) -> Finding {
    Finding {
        id,
        what,
        published: published.to_owned(),
        ours: misses.map_or_else(String::new, |misses| listed(misses)),
        tolerance: tolerance.to_owned(),
        verdict: match misses {
            None => Verdict::NotRun("a policy of that name".to_owned()),
            Some(misses) => Verdict::of(holds(misses), "see the numbers"),
        },
    }
}
