//! Points: a trace at a size of the recorded baselines.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use bufpool_policies::classic::PolicyKind;

use super::shared::{AUTO, ID, misses};
use crate::baselines::Row;
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;
use crate::simulate::Policy;
use crate::trace::Trace;

/// Recorded policies that are not compared with: bounds, and MRU, which is good on pure loops only.
const NOT_GENERIC: [&str; 3] = ["OPT", "Random", "MRU_own"];

/// The miss ratios of a trace at a size.
pub(super) struct Point {
    pub(super) trace: String,
    pub(super) frames: u32,
    /// Whether the trace has call sites and is one of the recorded database sessions (`pg_*`).
    pub(super) is_tagged: bool,
    pub(super) auto: f64,
    pub(super) lru: f64,
    arc: f64,
    /// The best generic policy that was recorded, and its miss ratio.
    recorded: (String, f64),
    /// The best of our one-level policies except MRU, and its miss ratio; `None` unless `is_tagged`.
    own: Option<(&'static str, f64)>,
}

impl Point {
    pub(super) fn to_best_recorded(&self) -> f64 {
        self.auto / self.recorded.1
    }

    pub(super) fn to_best(&self) -> f64 {
        self.own.map_or(self.to_best_recorded(), |(_, own)| self.auto / own.min(self.recorded.1))
    }

    pub(super) fn to_better(&self) -> f64 {
        self.auto / self.lru.min(self.arc)
    }

    /// The greatest ratio to the better of LRU and ARC that is allowed at this point.
    fn limit(&self) -> f64 {
        match (self.is_tagged, self.frames) {
            (true, _) => 1.01,
            (false, 100..) => 1.06,
            (false, _) => 1.10,
        }
    }

    pub(super) fn finding(&self) -> Finding {
        let (name, recorded) = &self.recorded;
        let own = self.own.map_or_else(String::new, |(name, ratio)| format!(", {name} {ratio:.6} of ours"));
        let ours = format!(
            "{:.6}; {:.3} of LRU, {:.3} of ARC, {:.3} of the best",
            self.auto,
            self.auto / self.lru,
            self.auto / self.arc,
            self.to_best()
        );
        Finding {
            id: ID,
            what: format!("{}, {} frames: miss ratio of auto", self.trace, self.frames),
            published: format!("LRU {:.6}, ARC {:.6}, best {name} {recorded:.6}{own}", self.lru, self.arc),
            ours,
            tolerance: format!("{:.2} of the better of LRU and ARC", self.limit()),
            verdict: Verdict::of(self.to_better() <= self.limit(), &format!("{:.3}", self.to_better())),
        }
    }
}

pub(super) fn points(
    traces: &BTreeMap<String, PathBuf>,
    rows: &[Row],
    context: &Context,
) -> Result<Vec<Point>> {
    let mut sizes: BTreeMap<&str, BTreeMap<u32, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        sizes.entry(&row.trace).or_default().entry(row.frames).or_default().push(row);
    }
    let mut points = Vec::new();
    for (name, sizes) in sizes {
        let path = traces.get(name).with_context(|| format!("expected a trace {name} beside the others"))?;
        let trace = Trace::open(path)?;
        let is_tagged = trace.sites().len() > 1 && name.starts_with("pg_");
        let sizes: Vec<(u32, Vec<&Row>)> = sizes.into_iter().collect();
        let found = parallel::map(sizes.len(), context.jobs, |number| {
            let (frames, rows) = &sizes[number];
            point(&trace, is_tagged, *frames, rows, context.seed)
        });
        for point in found {
            points.push(point?);
        }
    }
    Ok(points)
}

fn point(trace: &Trace, is_tagged: bool, frames: u32, rows: &[&Row], seed: u64) -> Result<Point> {
    let ratio = |policy| {
        Ok::<f64, anyhow::Error>(misses(trace, policy, frames, seed)? as f64 / trace.accesses() as f64)
    };
    let generic = rows.iter().filter(|row| !NOT_GENERIC.contains(&row.policy.as_str()));
    let best = generic.min_by(|one, other| one.theirs.total_cmp(&other.theirs));
    let best =
        best.with_context(|| format!("{}: expected a generic policy at {frames} frames", trace.name()))?;
    let own = if is_tagged {
        let kinds = PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Mru);
        let ratios = kinds.map(|kind| Ok((kind.name(), ratio(Policy::OneLevel(kind))?)));
        let ratios = ratios.collect::<Result<Vec<_>>>()?;
        ratios.into_iter().min_by(|one, other| one.1.total_cmp(&other.1))
    } else {
        None
    };
    Ok(Point {
        trace: trace.name().to_owned(),
        frames,
        is_tagged,
        auto: ratio(AUTO)?,
        lru: ratio(Policy::OneLevel(PolicyKind::Lru))?,
        arc: ratio(Policy::OneLevel(PolicyKind::Arc))?,
        recorded: (best.policy.clone(), best.theirs),
        own,
    })
}
