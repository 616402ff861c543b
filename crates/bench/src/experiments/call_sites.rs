//! What call sites are worth: the default manager against policies that do not know who accesses.
//!
//! Each point is a trace and a size of the recorded baselines (`baselines` beside the traces), and a row: our miss ratio, and its
//! quotients by the best generic policy, LRU and ARC, recorded and our own. Then the bars, over all points. Wherever
//! traces or baselines are absent the rows say so. This runs for minutes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use bufpool_policies::ManagerKind;
use bufpool_policies::classic::PolicyKind;
use indicatif::ProgressBar;

use super::{Context, Experiment, Finding, Verdict};
use crate::baselines::{self, Row};
use crate::parallel;
use crate::random::Random;
use crate::simulate::{By, Counts, NextUses, Scheme, Setup, simulate};
use crate::streams::{Advice, Settings, find};
use crate::trace::{Item, LoadOptions, Reader, Reference, Trace};

pub(super) const ID: &str = "call-sites";

pub(super) static ALL: &[Experiment] =
    &[Experiment::new(ID, "the default manager against policies without call sites", call_sites)];

const AUTO: Scheme = Scheme::Managed(ManagerKind::Auto);

/// Recorded policies that are no opponents: bounds, and MRU, which only pure loops are good for.
const NOT_GENERIC: [&str; 3] = ["OPT", "Random", "MRU_own"];

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
    finding(what, "", String::new(), "", Verdict::NotReproduced(why.to_owned()))
}

fn finding(what: &str, published: &str, ours: String, tolerance: &str, verdict: Verdict) -> Finding {
    Finding {
        id: ID,
        what: what.to_owned(),
        published: published.to_owned(),
        ours,
        tolerance: tolerance.to_owned(),
        verdict,
    }
}

/// A trace at a size: miss ratios.
struct Point {
    trace: String,
    frames: u32,
    /// Whether the trace has call sites.
    is_tagged: bool,
    auto: f64,
    lru: f64,
    arc: f64,
    /// The best generic policy that was recorded.
    recorded: (String, f64),
    /// The best of our own; only where the trace has call sites.
    own: Option<(&'static str, f64)>,
}

impl Point {
    fn to_best_recorded(&self) -> f64 {
        self.auto / self.recorded.1
    }

    fn to_best(&self) -> f64 {
        self.own.map_or(self.to_best_recorded(), |(_, own)| self.auto / own.min(self.recorded.1))
    }

    fn to_better(&self) -> f64 {
        self.auto / self.lru.min(self.arc)
    }

    /// The most that the quotient by the better of LRU and ARC may be at any one point.
    fn limit(&self) -> f64 {
        match (self.is_tagged, self.frames) {
            (true, _) => 1.01,
            (false, 100..) => 1.06,
            (false, _) => 1.10,
        }
    }

    fn finding(&self) -> Finding {
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

fn points(traces: &BTreeMap<String, PathBuf>, rows: &[Row], context: &Context) -> Result<Vec<Point>> {
    let mut sizes: BTreeMap<&str, BTreeMap<u32, Vec<&Row>>> = BTreeMap::new();
    for row in rows {
        sizes.entry(&row.trace).or_default().entry(row.frames).or_default().push(row);
    }
    let mut points = Vec::new();
    for (name, sizes) in sizes {
        let path = traces.get(name).with_context(|| format!("expected a trace {name} beside the others"))?;
        let trace = load(path)?;
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
    let ratio = |scheme| {
        Ok::<f64, anyhow::Error>(misses(trace, scheme, frames, seed)? as f64 / trace.accesses() as f64)
    };
    let generic = rows.iter().filter(|row| !NOT_GENERIC.contains(&row.policy.as_str()));
    let best = generic.min_by(|one, other| one.theirs.total_cmp(&other.theirs));
    let best =
        best.with_context(|| format!("{}: expected a generic policy at {frames} frames", trace.name()))?;
    let own = if is_tagged {
        let kinds = PolicyKind::ALL.into_iter().filter(|kind| *kind != PolicyKind::Mru);
        let ratios = kinds.map(|kind| Ok((kind.name(), ratio(Scheme::OneLevel(kind))?)));
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
        lru: ratio(Scheme::OneLevel(PolicyKind::Lru))?,
        arc: ratio(Scheme::OneLevel(PolicyKind::Arc))?,
        recorded: (best.policy.clone(), best.theirs),
        own,
    })
}

fn misses(trace: &Trace, scheme: Scheme, frames: u32, seed: u64) -> Result<u64> {
    let setup = Setup { revocation: true, seed, ..Setup::frames(frames) };
    Ok(simulate(trace, scheme, &setup, None)?.total().misses())
}

fn load(path: &Path) -> Result<Trace> {
    Ok(Trace::load(path, &LoadOptions::default(), &ProgressBar::hidden())?)
}

fn geometric_mean(numbers: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = numbers.fold((0.0, 0), |(sum, count), number| (sum + number.ln(), count + 1));
    (sum / f64::from(count.max(1))).exp()
}

/// What must hold over all points.
fn bars(points: &[Point]) -> Vec<Finding> {
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

/// What the call sites of the tagged traces are worth: the same without them, and without files.
fn without_tags(
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
        "",
        Verdict::of(mean(|pair| pair.1) <= 1.0, "tags cost misses"),
    )])
}

fn items(path: &Path) -> Result<Vec<Item>> {
    let bar = ProgressBar::hidden();
    let mut reader = Reader::open(path, None, &bar)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}

/// A loop: its accesses, how many of them are the first two passes, and sizes.
struct Loop {
    name: String,
    items: Vec<Item>,
    two_passes: usize,
    sizes: Vec<u32>,
}

/// Loops against OPT after the second pass.
fn loops(context: &Context) -> Result<Vec<Finding>> {
    let made = |blocks: u64, passes: u64, sizes: &[u32]| -> Loop {
        let stream = find("loop").expect("a known stream");
        let mut settings = Settings::of(stream);
        for assignment in [format!("blocks={blocks}"), format!("passes={passes}")] {
            settings.set(&assignment).expect("a valid setting");
        }
        Loop {
            name: format!("a loop of {blocks} blocks, {passes} passes"),
            items: stream.items(&settings, Advice::None, context.seed),
            two_passes: 2 * blocks as usize,
            sizes: sizes.to_vec(),
        }
    };
    // ReadN with one group of 1,170 blocks read 20 times; the inner relation of a nested-loop join.
    let mut loops =
        vec![made(1170, 20, &[300, 585, 819, 1100]), made(15_360, 4, &[2560, 6656, 10_752, 14_848])];
    for (name, blocks, sizes) in
        [("cs", 1409, &[100, 400, 700, 1000, 1100, 1300][..]), ("loop", 1011, &[100, 250, 500, 750, 1000])]
    {
        if let Some(path) = baselines::shared_trace(name) {
            let items = items(&path)?;
            loops.push(Loop { name: name.to_owned(), items, two_passes: 2 * blocks, sizes: sizes.to_vec() });
        }
    }
    let mut findings = Vec::new();
    for one in &loops {
        let rows =
            parallel::map(one.sizes.len(), context.jobs, |at| loop_point(one, one.sizes[at], context.seed));
        findings.extend(rows.into_iter().collect::<Result<Vec<Finding>>>()?);
    }
    // Of all lengths, of which more or less does not fit: nothing in the manager may suit but a few.
    let lengths = [100, 250, 600, 1170, 3000, 5000, 9000, 15_360, 20_000];
    let pure = lengths.map(|blocks| {
        let sizes = [30, 50, 70, 85, 92, 95, 97, 98].map(|percent| (blocks * percent / 100) as u32);
        made(blocks, 4, &sizes)
    });
    let what = "loops of 100 to 20,000 blocks, 4 passes, frames for 30 to 98 % of them";
    findings.push(near_the_optimum(what, &pure, context)?);
    let lengths =
        [1170, 5000].into_iter().flat_map(|blocks| [1000, 200, 100, 50].map(|every| (blocks, every)));
    let disturbed: Vec<Loop> =
        lengths.map(|(blocks, every)| disturbed_loop(blocks, every, context.seed)).collect();
    let what = "loops of 1,170 and 5,000 blocks, 8 passes, into which two others come after every 50 to 1,000, \
                frames for 50 to 97 % of them";
    findings.push(near_the_optimum(what, &disturbed, context)?);
    Ok(findings)
}

/// A loop into which come, after `every` accesses on average, two blocks that are used twice or three times and never again.
fn disturbed_loop(blocks: u64, every: u64, seed: u64) -> Loop {
    let mut random = Random::new(seed);
    let (mut items, mut new) = (Vec::new(), blocks);
    let access = |block| Item::Access(Reference { block, site: 0, tenant: 0 });
    for at in 0..8 * blocks {
        items.push(access(at % blocks));
        if at > blocks && random.below(every) == 0 {
            items.extend([0, 0, 1, 1, 0].map(|block| access(new + block)));
            new += 2;
        }
    }
    Loop {
        name: format!("a disturbed loop of {blocks} blocks"),
        two_passes: items.len() / 4,
        items,
        sizes: [50, 80, 90, 97].map(|percent| (blocks * percent / 100) as u32).into(),
    }
}

/// How many points of `loops` are within 5 % of OPT.
fn near_the_optimum(what: &str, loops: &[Loop], context: &Context) -> Result<Finding> {
    let points: Vec<(&Loop, u32)> =
        loops.iter().flat_map(|one| one.sizes.iter().map(move |frames| (one, *frames))).collect();
    let found = parallel::map(points.len(), context.jobs, |at| {
        let (one, frames) = points[at];
        after_two_passes(one, frames, context.seed)
    });
    let found = found.into_iter().collect::<Result<Vec<(u64, u64)>>>()?;
    let near = found.iter().filter(|(ours, opt)| *ours as f64 <= 1.05 * *opt as f64).count();
    let worst = found.iter().map(|(ours, opt)| *ours as f64 / (*opt).max(1) as f64).fold(0.0, f64::max);
    Ok(finding(
        &format!("{what}: points within 1.05 of OPT"),
        "",
        format!("{near} of {}, worst {worst:.3}", found.len()),
        "all",
        Verdict::of(near == found.len(), "see the number"),
    ))
}

/// Misses after the second pass: ours and OPT's.
fn after_two_passes(one: &Loop, frames: u32, seed: u64) -> Result<(u64, u64)> {
    let whole = Trace::of(&one.name, one.items.iter().cloned());
    let prefix = Trace::of(&one.name, one.items[..one.two_passes].iter().cloned());
    let ours = misses(&whole, AUTO, frames, seed)? - misses(&prefix, AUTO, frames, seed)?;
    // OPT looks ahead, so it has to see the whole; it does not look at sites, which keep the phases apart.
    let phases = one.items.iter().enumerate().map(|(at, item)| match item {
        Item::Access(reference) => {
            Item::Access(Reference { site: 1 + u32::from(at >= one.two_passes), ..*reference })
        }
        other => other.clone(),
    });
    let phases = Trace::of(&one.name, phases);
    let setup = Setup { by: By::Site, ..Setup::frames(frames) };
    let counts = simulate(&phases, Scheme::Opt, &setup, Some(&NextUses::in_memory(&phases)?))?.counts;
    Ok((ours, counts.get(&2).map_or(0, Counts::misses)))
}

fn loop_point(one: &Loop, frames: u32, seed: u64) -> Result<Finding> {
    let (ours, opt) = after_two_passes(one, frames, seed)?;
    let quotient = ours as f64 / opt.max(1) as f64;
    Ok(finding(
        &format!("{}, {frames} frames: misses of auto after the second pass", one.name),
        &format!("OPT {opt}"),
        format!("{ours}; {quotient:.3}"),
        "1.05 of OPT",
        Verdict::of(ours as f64 <= 1.05 * opt as f64, "see the numbers"),
    ))
}
