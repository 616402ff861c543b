//! Misses on pure and disturbed loops, against OPT.

use anyhow::Result;

use super::shared::{AUTO, finding, items, misses};
use crate::baselines;
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, Verdict};
use crate::parallel;
use crate::random::Random;
use crate::simulate::{By, Counts, NextUses, Policy, Setup, simulate};
use crate::streams::{self, Advice};
use crate::trace::{Item, Reference, Trace};

/// A loop: its accesses, how many of them are in the first two passes, and numbers of frames.
struct Loop {
    name: String,
    items: Vec<Item>,
    two_passes: usize,
    sizes: Vec<u32>,
}

/// Rows of misses after the second pass, against OPT.
pub(super) fn loops(context: &Context) -> Result<Vec<Finding>> {
    let made = |blocks: u64, passes: u64, sizes: &[u32]| -> Loop {
        let set = [format!("blocks={blocks}"), format!("passes={passes}")];
        Loop {
            name: format!("a loop of {blocks} blocks, {passes} passes"),
            items: streams::items("loop", &set.each_ref().map(String::as_str), Advice::None, context.seed),
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
    // Many lengths, with many shares that fit, so that constants tuned to a few of them do not pass.
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

/// A loop with disturbances: after `every` accesses on average, two other blocks are accessed two or three
/// times and never again.
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

/// A row with the number of points of `loops` whose misses are at most 1.05 times OPT's.
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
    // OPT looks ahead, so it is given the whole trace. It ignores sites, so sites can tell the two phases
    // apart.
    let phases = one.items.iter().enumerate().map(|(at, item)| match item {
        Item::Access(reference) => {
            Item::Access(Reference { site: 1 + u32::from(at >= one.two_passes), ..*reference })
        }
        other => other.clone(),
    });
    let phases = Trace::of(&one.name, phases);
    let setup = Setup { by: By::Site, ..Setup::frames(frames) };
    let counts = simulate(&phases, Policy::Opt, &setup, Some(&NextUses::in_memory(&phases)?))?.counts;
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
