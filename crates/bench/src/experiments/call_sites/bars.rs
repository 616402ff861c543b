//! Bars over all points, and how much call sites change the misses at these points.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;

use super::points::Point;
use super::shared::{AUTO, finding, items, misses};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::trace::{Item, Reference, Trace};

fn geometric_mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// A row for each bar.
pub(super) fn bars(points: &[Point]) -> Vec<Finding> {
    let tagged = || points.iter().filter(|point| point.is_tagged);
    let plain = || points.iter().filter(|point| !point.is_tagged);
    let at_most = |what: &str, number: f64, limit: f64| {
        let verdict = Verdict::of(number <= limit, "see the points");
        finding(what, "", format!("{number:.3}"), &format!("at most {limit:.2}"), verdict)
    };
    let worst = |points: Vec<&Point>| points.into_iter().map(Point::to_better).reduce(f64::max);
    let mut findings = Vec::new();
    if tagged().next().is_some() {
        findings.push(at_most(
            "tagged traces: geometric mean to the best recorded generic policy of each point",
            geometric_mean(tagged().map(Point::to_best_recorded)),
            0.93,
        ));
        findings.push(at_most(
            "tagged traces: the same to the best recorded or simulated here",
            geometric_mean(tagged().map(Point::to_best)),
            0.93,
        ));
        findings.push(at_most(
            "tagged traces: geometric mean to LRU",
            geometric_mean(tagged().map(|point| point.auto / point.lru)),
            0.81,
        ));
    }
    if plain().next().is_some() {
        let near = plain().filter(|point| point.to_better() <= 1.02).count();
        let share = near as f64 / plain().count() as f64;
        findings.push(finding(
            "other traces: points within 1.02 of the better of LRU and ARC",
            "",
            format!("{near} of {}, {:.1} %", plain().count(), 100.0 * share),
            "at least 95 %",
            Verdict::of(share >= 0.95, "see the points"),
        ));
    }
    for (what, points, limit) in [
        ("tagged traces", tagged().collect(), 1.01),
        ("other traces, 100 frames and more", plain().filter(|point| point.frames >= 100).collect(), 1.06),
        ("other traces, fewer frames", plain().filter(|point| point.frames < 100).collect::<Vec<_>>(), 1.10),
    ] {
        if let Some(worst) = worst(points) {
            findings.push(at_most(&format!("{what}: worst to the better of LRU and ARC"), worst, limit));
        }
    }
    findings
}

/// The misses on the tagged traces played without call sites and files, against LRU; and those with them
/// against those without.
pub(super) fn without_tags(
    traces: &BTreeMap<String, PathBuf>,
    points: &[Point],
    context: &Context,
) -> Result<Vec<Finding>> {
    let mut quotients = Vec::new();
    for (name, path) in traces {
        let of_trace: Vec<&Point> =
            points.iter().filter(|point| point.is_tagged && point.trace == *name).collect();
        if of_trace.is_empty() {
            continue;
        }
        let items = items(path)?.into_iter().filter_map(|item| match item {
            Item::Access(reference) => Some(Item::Access(Reference { site: 0, ..reference })),
            Item::Directive(_) => None,
        });
        let bare = Trace::of(name, items);
        for point in of_trace {
            let bare = misses(&bare, AUTO, point.frames, context.seed)? as f64 / bare.accesses() as f64;
            quotients.push((bare / point.lru, point.auto / bare));
        }
    }
    if quotients.is_empty() {
        return Ok(Vec::new());
    }
    let mean = |which: fn(&(f64, f64)) -> f64| geometric_mean(quotients.iter().map(which));
    Ok(vec![finding(
        "tagged traces without sites and files: geometric mean of auto to LRU, and of tagged to untagged",
        "",
        format!("{:.3}; {:.3}", mean(|pair| pair.0), mean(|pair| pair.1)),
        "the latter at most 1",
        Verdict::of(mean(|pair| pair.1) <= 1.0, "tags cost misses"),
    )])
}
