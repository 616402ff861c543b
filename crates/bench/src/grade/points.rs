//! Recorded traces at the sizes of the baselines, beside LRU, ARC, the best generic policy and OPT.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use bufpool_policies::classic::PolicyKind;

use super::Ratios;
use crate::baselines::Row;
use crate::parallel;
use crate::simulate::{self, NextUses, Policy, Setup, SimError};
use crate::trace::{Size, Trace};

/// Recorded policies that do not count as generic: OPT, which is a bound; random replacement; and MRU, which
/// suits loops only.
const NOT_GENERIC: [&str; 3] = [OPT, "Random", "MRU_own"];
const OPT: &str = "OPT";
/// Sizes of a trace without baselines.
const SIZES: [Size; 4] = [Size::Percent(5.0), Size::Percent(10.0), Size::Percent(20.0), Size::Percent(40.0)];

/// A trace at a size, and the miss ratios of reference policies there.
#[derive(Clone, Debug)]
pub struct GradePoint {
    /// The number of the trace.
    pub trace: usize,
    /// Frames of the cache.
    pub frames: u32,
    /// Miss ratio of LRU.
    pub lru: f64,
    /// Miss ratio of ARC.
    pub arc: f64,
    /// Miss ratio of the best generic policy: of those recorded or, where none was recorded, of those of
    /// [`PolicyKind`].
    pub best: f64,
    /// Miss ratio of OPT.
    pub opt: f64,
}

/// Traces, and the points at which policies are graded on them.
#[derive(Debug)]
pub struct GradePoints {
    traces: Vec<Trace>,
    points: Vec<GradePoint>,
    seed: u64,
    jobs: usize,
}

impl GradePoints {
    /// Reads the traces, and plays the reference policies that `recorded` lacks, on at most `jobs` threads.
    /// `seed` is the seed of the random numbers that policies draw.
    ///
    /// # Errors
    ///
    /// If a trace cannot be read or played.
    pub fn open(paths: &[PathBuf], recorded: &[Row], seed: u64, jobs: usize) -> Result<Self> {
        let traces = parallel::map(paths.len(), jobs, |number| Trace::open(&paths[number]));
        let traces = traces.into_iter().collect::<Result<Vec<Trace>, _>>()?;
        let mut sized: Vec<(usize, u32, Vec<&Row>)> = Vec::new();
        for (number, trace) in traces.iter().enumerate() {
            let mut sizes: BTreeMap<u32, Vec<&Row>> = BTreeMap::new();
            for row in recorded.iter().filter(|row| row.trace == trace.name()) {
                sizes.entry(row.frames).or_default().push(row);
            }
            if sizes.is_empty() {
                sizes = SIZES.iter().map(|size| (size.frames(trace.distinct()), Vec::new())).collect();
            }
            sized.extend(sizes.into_iter().map(|(frames, rows)| (number, frames, rows)));
        }
        let points = parallel::map(sized.len(), jobs, |number| {
            let (trace, frames, rows) = &sized[number];
            reference(&traces[*trace], *trace, *frames, rows, seed)
        });
        let points = points.into_iter().collect::<Result<_, SimError>>()?;
        Ok(Self { traces, points, seed, jobs })
    }

    /// The points, those of a trace together.
    pub fn points(&self) -> &[GradePoint] {
        &self.points
    }

    /// The traces.
    pub fn traces(&self) -> &[Trace] {
        &self.traces
    }

    /// The miss ratio of a policy at each point. `change` may alter the setup of the cache.
    ///
    /// # Errors
    ///
    /// If a trace cannot be played.
    pub fn play(&self, policy: Policy, change: impl Fn(&mut Setup) + Sync) -> Result<Vec<f64>, SimError> {
        let ratios = parallel::map(self.points.len(), self.jobs, |number| {
            let point = &self.points[number];
            let mut setup = setup(point.frames, self.seed);
            change(&mut setup);
            ratio(&self.traces[point.trace], policy, &setup, None)
        });
        ratios.into_iter().collect()
    }
}

fn setup(frames: u32, seed: u64) -> Setup {
    Setup { revocation: true, seed, ..Setup::frames(frames) }
}

fn ratio(trace: &Trace, policy: Policy, setup: &Setup, uses: Option<&NextUses>) -> Result<f64, SimError> {
    Ok(simulate::misses(trace, policy, setup, uses)? as f64 / trace.accesses().max(1) as f64)
}

fn reference(
    trace: &Trace,
    number: usize,
    frames: u32,
    rows: &[&Row],
    seed: u64,
) -> Result<GradePoint, SimError> {
    let setup = setup(frames, seed);
    let of = |kind| ratio(trace, Policy::OneLevel(kind), &setup, None);
    let recorded = rows.iter().filter(|row| !NOT_GENERIC.contains(&row.policy.as_str()));
    let recorded = recorded.map(|row| row.theirs).reduce(f64::min);
    let ours = || -> Result<f64, SimError> {
        let kinds = PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Mru);
        let ratios = kinds.map(of).collect::<Result<Vec<f64>, SimError>>()?;
        Ok(ratios.into_iter().fold(f64::INFINITY, f64::min))
    };
    let opt = rows.iter().find(|row| row.policy == OPT).map(|row| row.theirs);
    let bound = || ratio(trace, Policy::Opt, &setup, Some(&NextUses::in_memory(trace)?));
    Ok(GradePoint {
        trace: number,
        frames,
        lru: of(PolicyKind::Lru)?,
        arc: of(PolicyKind::Arc)?,
        best: recorded.map_or_else(ours, Ok)?,
        opt: opt.map_or_else(bound, Ok)?,
    })
}

/// A policy's miss ratios at some points, compared with those of reference policies.
#[derive(Clone, Debug)]
pub struct Grade {
    /// Ratios to the best generic policy of each point.
    pub to_best: Ratios,
    /// Ratios to LRU.
    pub to_lru: Ratios,
    /// Ratios to the better of LRU and ARC at each point.
    pub to_better: Ratios,
    /// The part of the difference between LRU and OPT, in miss ratios summed over the points, that the policy
    /// saves. `None` if LRU and OPT do not differ.
    pub way_to_opt: Option<f64>,
    /// As `way_to_opt`, of the best generic policy of each point.
    pub best_way_to_opt: Option<f64>,
}

impl Grade {
    /// The grade of a policy that has these miss ratios at these points.
    pub fn of<'a>(at: impl Iterator<Item = (&'a GradePoint, f64)>) -> Self {
        let at: Vec<(&GradePoint, f64)> = at.collect();
        let to = |reference: fn(&GradePoint) -> f64| -> Ratios {
            at.iter().map(|(point, ratio)| ratio / reference(point)).collect()
        };
        let sum = |of: fn(&(&GradePoint, f64)) -> f64| at.iter().map(of).sum::<f64>();
        let (lru, opt) = (sum(|at| at.0.lru), sum(|at| at.0.opt));
        let way = |ratios: f64| (lru - opt > 1e-9).then(|| (lru - ratios) / (lru - opt));
        Self {
            to_best: to(|point| point.best),
            to_lru: to(|point| point.lru),
            to_better: to(|point| point.lru.min(point.arc)),
            way_to_opt: way(sum(|at| at.1)),
            best_way_to_opt: way(sum(|at| at.0.best)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(lru: f64, arc: f64, best: f64, opt: f64) -> GradePoint {
        GradePoint { trace: 0, frames: 10, lru, arc, best, opt }
    }

    #[test]
    fn a_grade_compares_with_each_reference() {
        let points = [point(0.8, 0.5, 0.4, 0.2), point(0.4, 0.5, 0.4, 0.4)];
        let grade = Grade::of(points.iter().zip([0.5, 0.44]));
        assert_eq!(grade.to_better.worst().map(|worst| (worst * 1000.0).round()), Some(1100.0));
        assert_eq!(grade.to_better.share_above(1.02), Some(0.5));
        assert!((grade.to_lru.mean().unwrap() - (0.625_f64 * 1.1).sqrt()).abs() < 1e-12);
        // LRU 1.2, OPT 0.6: the policy is at 0.94, the best generic one at 0.8.
        assert!((grade.way_to_opt.unwrap() - 0.26 / 0.6).abs() < 1e-12);
        assert!((grade.best_way_to_opt.unwrap() - 0.4 / 0.6).abs() < 1e-12);
        assert_eq!(Grade::of([(&point(0.5, 0.5, 0.5, 0.5), 0.5)].into_iter()).way_to_opt, None);
    }
}
