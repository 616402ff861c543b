//! How much call sites gain: the default manager against policies that do not know them.
//!
//! A point is a trace at a size of the recorded baselines (folder `baselines` beside the traces). Each point
//! has a row: our miss ratio, and its ratios to LRU, ARC and the best generic policy. Further rows hold bars
//! over all points. If traces or baselines are absent, a row says so. This runs for minutes.

mod bars;
mod loops;
mod points;
mod shared;

use std::path::Path;

use anyhow::Result;

use self::bars::{bars, without_tags};
use self::loops::loops;
use self::points::{Point, points};
use self::shared::{ID, finding};
use super::experiment::{Context, Experiment};
use super::finding::{Finding, Verdict};
use crate::baselines;

pub(super) static ALL: &[Experiment] =
    &[Experiment::new(ID, "the default manager against policies without call sites", call_sites)];

fn call_sites(context: &Context) -> Result<Vec<Finding>> {
    let dir = baselines::shared_traces();
    let beside = dir.parent().unwrap_or(Path::new(".")).join("baselines");
    let mut findings = Vec::new();
    match (baselines::traces_in(&dir), baselines::read_rows(&beside)) {
        (Ok(traces), Ok(rows)) => {
            let points = points(&traces, &rows, context)?;
            findings.extend(points.iter().map(Point::finding));
            findings.extend(bars(&points));
            findings.extend(without_tags(&traces, &points, context)?);
        }
        (traces, rows) => {
            let why = traces.err().or(rows.err()).map_or_else(String::new, |error| format!("{error:#}"));
            findings.push(absent(&format!("points of the recorded baselines: {why}")));
        }
    }
    findings.extend(loops(context)?);
    Ok(findings)
}

fn absent(what: &str) -> Finding {
    let why = "set BUFPOOL_TRACES to a folder with the traces, and put the baselines beside it";
    finding(what, "", String::new(), "", Verdict::NotRun(why.to_owned()))
}
