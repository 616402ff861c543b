//! Part C: Zhou, von Behren, Brewer, "AMP: Program Context Specific Buffer Caching", USENIX ATC '05.
//!
//! The paper's traces are lost, and its measurements on Linux need its patch of a kernel of 2004. Stand-ins are named as such:
//! synthetic streams, and recorded traces of a database (`BUFPOOL_TRACES`, default `../shared/traces`).

use std::time::Instant;

use anyhow::Result;
use bufpool_policies::detect::{Amp, AmpOptions, Class, Dear, DearOptions, Detector, Pcc};
use bufpool_policies::{PageId, SplitMix64};
use indicatif::ProgressBar;

use super::{Context, Experiment, Finding, Verdict};
use crate::baselines;
use crate::parallel;
use crate::simulate::{NextUses, Scheme, Setup, simulate};
use crate::streams::{Advice, Settings, find};
use crate::trace::{Item, LoadOptions, Trace};

pub(super) static ALL: &[Experiment] = &[
    Experiment::new("C1", "classes of the synthetic streams, by detector", classes),
    Experiment::new("C2", "misses against policies that detect nothing", against_generic),
    Experiment::new("C3", "misses against other detectors", against_detectors),
    Experiment::new("C4", "cscope on a 106 MB index", big_index),
    Experiment::new("C5", "a tree walk that reads each file three times", tree_walk),
    Experiment::new("C6", "DBT3", dbt3),
    Experiment::new("C7", "glimpseindex on Linux", glimpse_on_linux),
    Experiment::new("C8", "DBT3 on Linux", dbt3_on_linux),
    Experiment::new("C9", "cost of detection an access", cost_of_detection),
];

fn trace(name: &str, set: &[&str], seed: u64) -> Trace {
    let stream = find(name).expect("a known stream");
    let mut settings = Settings::of(stream);
    set.iter().for_each(|assignment| settings.set(assignment).expect("a valid setting"));
    Trace::of(name, stream.items(&settings, Advice::None, seed))
}

/// Misses of each policy at each size; none for a policy that does not exist.
fn misses(trace: &Trace, policies: &[&str], sizes: &[u32], jobs: usize) -> Result<Vec<Option<Vec<u64>>>> {
    let next_uses = NextUses::in_memory(trace)?;
    let rows = parallel::map(policies.len(), jobs, |number| {
        let Ok(scheme) = policies[number].parse::<Scheme>() else { return Ok(None) };
        let counted = sizes.iter().map(|&frames| {
            Ok(simulate(trace, scheme, &Setup::frames(frames), Some(&next_uses))?.total().misses())
        });
        counted.collect::<Result<Vec<u64>>>().map(Some)
    });
    rows.into_iter().collect()
}

fn listed(numbers: &[u64]) -> String {
    numbers.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
}

/// A finding about a policy, or that it is not built.
fn about(
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
            None => Verdict::NotYetBuilt,
            Some(misses) => Verdict::of(holds(misses), "see the numbers"),
        },
    }
}

/// The streams that stand in for the paper's lost ones, and what they are. (f is too close to a threshold to be a test.)
const STREAMS: [(&str, Class); 11] = [
    ("a", Class::Temporal),
    ("a'", Class::Temporal),
    ("b", Class::Looping),
    ("c", Class::Looping),
    ("d", Class::Looping),
    ("e", Class::Other),
    ("f'", Class::Temporal),
    ("g", Class::OneShot),
    ("h", Class::Looping),
    ("i", Class::Looping),
    ("j", Class::Other),
];

fn blocks(name: &str, seed: u64) -> Vec<PageId> {
    let stream = find(name).expect("a known stream");
    let items = stream.items(&Settings::of(stream), Advice::None, seed);
    let block = |item| match item {
        Item::Access(reference) => Some(PageId(reference.block)),
        Item::Directive(_) => None,
    };
    items.into_iter().filter_map(block).collect()
}

/// The streams that `class_of` does not call what they are.
fn wrong(seed: u64, class_of: impl Fn(&[PageId]) -> Class) -> Vec<&'static str> {
    let is_wrong = |(name, truth): &(&'static str, Class)| class_of(&blocks(name, seed)) != *truth;
    STREAMS.iter().filter(|stream| is_wrong(stream)).map(|(name, _)| *name).collect()
}

fn classes(context: &Context) -> Result<Vec<Finding>> {
    fn watch<D: Detector>(mut detector: D, blocks: &[PageId]) -> Class {
        blocks.iter().for_each(|block| detector.access(*block));
        detector.class()
    }
    let finding = |detector: &str, published: &str, wrong: &[&str], verdict| Finding {
        id: "C1",
        what: format!("streams a to j that {detector} calls something else than they are"),
        published: published.to_owned(),
        ours: if wrong.is_empty() { "none".to_owned() } else { wrong.join(" ") },
        tolerance: "the streams are stand-ins".to_owned(),
        verdict,
    };
    let amp = wrong(context.seed, |blocks| watch(Amp::new(AmpOptions::for_frames(1000)), blocks));
    let dear = wrong(context.seed, |blocks| {
        watch(Dear::new(DearOptions { period: blocks.len() / 2, groups: 10 }), blocks)
    });
    let pcc = wrong(context.seed, |blocks| watch(Pcc::new(), blocks));
    let amp_verdict = Verdict::of(amp.is_empty(), "see the streams");
    let dear_verdict = match dear.len() {
        2 => Verdict::Reproduced,
        1..=5 => Verdict::SameOrder("the paper's streams are lost, and these are stand-ins".to_owned()),
        _ => Verdict::NotReproduced("see the streams".to_owned()),
    };
    // The paper's third is linear f, for which Zipf f' stands here.
    let pcc_fails = ["a", "e", "f'"].iter().all(|name| pcc.contains(name));
    Ok(vec![
        finding("AMP", "none", &amp, amp_verdict),
        finding("DEAR", "two", &dear, dear_verdict),
        finding(
            "PCC",
            "three, the most clustered one among them",
            &pcc,
            Verdict::of(pcc_fails, "see the streams"),
        ),
    ])
}

fn big_index(context: &Context) -> Result<Vec<Finding>> {
    const BLOCKS: u64 = 13_568;
    const PASSES: u64 = 5;
    const SIZES: [u32; 5] = [1_696, 3_392, 6_784, 10_176, 13_568];
    let trace = trace("loop", &["blocks=13568", "passes=5"], context.seed);
    let policies = ["lru", "arc", "dear", "pcc", "amp", "auto", "opt"];
    let misses = misses(&trace, &policies, &SIZES, context.jobs)?;
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    // MRU's closed form: what a detector can reach.
    let reachable = |frames: u32| BLOCKS + (PASSES - 1) * (BLOCKS - u64::from(frames));
    Ok(policies
        .iter()
        .zip(&misses)
        .map(|(policy, misses)| {
            let what = format!("index of 13568 blocks read 5 times, misses of {policy} at {sizes} frames");
            match *policy {
                "lru" | "arc" => about(
                    "C4",
                    what,
                    "gain nothing until the index fits",
                    "exact",
                    misses.as_ref(),
                    |misses| misses[..4].iter().all(|&count| count == BLOCKS * PASSES) && misses[4] == BLOCKS,
                ),
                "opt" => about(
                    "C4",
                    what,
                    "the bound",
                    "no more than a loop under MRU",
                    misses.as_ref(),
                    |misses| misses.iter().zip(SIZES).all(|(&count, frames)| count <= reachable(frames)),
                ),
                _ => about(
                    "C4",
                    what,
                    "far better than LRU",
                    "within 10 % of MRU",
                    misses.as_ref(),
                    |misses| {
                        misses
                            .iter()
                            .zip(SIZES)
                            .all(|(&count, frames)| count as f64 <= 1.1 * reachable(frames) as f64)
                    },
                ),
            }
        })
        .collect())
}

fn tree_walk(context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 3] = [50, 500, 2000];
    let trace = trace("scan", &[], context.seed);
    let policies = ["lru", "arc", "pcc", "amp", "auto", "opt"];
    let misses = misses(&trace, &policies, &SIZES, context.jobs)?;
    let best = misses[0].clone().expect("LRU exists");
    let sizes = SIZES.map(|size| size.to_string()).join(", ");
    Ok(policies
        .iter()
        .zip(&misses)
        .map(|(policy, misses)| {
            let what =
                format!("1000 files of 10 blocks, each read 3 times, misses of {policy} at {sizes} frames");
            match *policy {
                "pcc" => about(
                    "C5",
                    what,
                    "far worse than LRU",
                    "at some size 1.5 x LRU",
                    misses.as_ref(),
                    |misses| misses.iter().zip(&best).any(|(&count, &lru)| 2 * count >= 3 * lru),
                ),
                _ => about("C5", what, "fine: only first touches", "1.02 x LRU", misses.as_ref(), |misses| {
                    misses.iter().zip(&best).all(|(&count, &lru)| count as f64 <= 1.02 * lru as f64)
                }),
            }
        })
        .collect())
}

fn against_generic(context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 3] = [500, 1000, 1500];
    let trace = trace("loop", &["blocks=2000", "passes=20"], context.seed);
    let policies = ["lru", "arc", "amp", "auto"];
    let misses = misses(&trace, &policies, &SIZES, context.jobs)?;
    let generic = misses[0].iter().chain(&misses[1]).flatten().copied().min().expect("LRU exists");
    let detecting = policies.iter().zip(&misses).skip(2);
    Ok(detecting
        .map(|(policy, misses)| {
            let what = format!(
                "a loop of 2000 blocks, misses of {policy} at 500, 1000, 1500 frames; LRU and ARC miss {generic} times"
            );
            about("C2", what, "up to -50 %", "at least -50 % at 1500 frames", misses.as_ref(), |misses| {
                2 * misses[2] <= generic
            })
        })
        .collect())
}

/// The recorded TPC-H session that stands for DBT3, or findings that it is not there.
fn recorded_session(id: &'static str) -> Result<Result<Trace, Vec<Finding>>> {
    const NAME: &str = "pg_tpch_stream";
    if let Some(path) = baselines::shared_trace(NAME) {
        return Ok(Ok(Trace::load(&path, &LoadOptions::default(), &ProgressBar::hidden())?));
    }
    let dir = baselines::shared_traces();
    let why = format!("there is no {NAME} in {}; set BUFPOOL_TRACES", dir.display());
    let nothing = lost(id, "a recorded session that stands for DBT3", "", why);
    Ok(Err(vec![nothing]))
}

/// A finding that nothing can be said, and why.
fn lost(id: &'static str, what: &str, published: &str, why: impl Into<String>) -> Finding {
    Finding {
        id,
        what: what.to_owned(),
        published: published.to_owned(),
        ours: String::new(),
        tolerance: String::new(),
        verdict: Verdict::NotReproduced(why.into()),
    }
}

/// Miss ratios of policies at shares of the distinct blocks.
fn ratios(trace: &Trace, policies: &[&str], percents: &[u64], context: &Context) -> Result<Vec<Vec<f64>>> {
    let sizes: Vec<u32> =
        percents.iter().map(|percent| (trace.distinct() * percent / 100).max(1) as u32).collect();
    let counts = misses(trace, policies, &sizes, context.jobs)?;
    let ratio = |count: u64| count as f64 / trace.accesses() as f64;
    Ok(counts.into_iter().flatten().map(|counts| counts.into_iter().map(ratio).collect()).collect())
}

fn percentages(ratios: &[f64]) -> String {
    ratios.iter().map(|ratio| format!("{:.1} %", 100.0 * ratio)).collect::<Vec<_>>().join(", ")
}

fn against_detectors(context: &Context) -> Result<Vec<Finding>> {
    const PERCENTS: [u64; 3] = [10, 20, 40];
    let trace = match recorded_session("C3")? {
        Ok(trace) => trace,
        Err(findings) => return Ok(findings),
    };
    let policies = ["amp", "pcc", "ubm", "dear"];
    let ratios = ratios(&trace, &policies, &PERCENTS, context)?;
    let (amp, others) = ratios.split_first().expect("four policies");
    Ok(policies[1..]
        .iter()
        .zip(others)
        .map(|(policy, others)| {
            let saved: Vec<f64> = amp.iter().zip(others).map(|(amp, other)| 1.0 - amp / other).collect();
            let best = saved.iter().copied().fold(f64::MIN, f64::max);
            Finding {
                id: "C3",
                what: format!(
                    "misses that amp saves of {policy}'s, {} at 10, 20, 40 % of its pages",
                    trace.name()
                ),
                published: "up to 15 %".to_owned(),
                ours: percentages(&saved),
                tolerance: "fewer at one size; another trace".to_owned(),
                verdict: match best {
                    0.10.. => Verdict::Reproduced,
                    0.0.. => Verdict::SameOrder(STAND_IN.to_owned()),
                    _ => Verdict::NotReproduced("never fewer on this trace".to_owned()),
                },
            }
        })
        .collect())
}

fn dbt3(context: &Context) -> Result<Vec<Finding>> {
    const PERCENTS: [u64; 3] = [10, 20, 40];
    let trace = match recorded_session("C6")? {
        Ok(trace) => trace,
        Err(findings) => return Ok(findings),
    };
    let policies = ["amp", "arc", "lru", "auto"];
    let ratios = ratios(&trace, &policies, &PERCENTS, context)?;
    let published = ["25.9 %", "55.4 %", "57.6 %", ""];
    // Published: AMP below ARC, ARC below LRU. Each is held against the next one, LRU against both.
    let is_below =
        |one: usize, other: usize| ratios[one].iter().zip(&ratios[other]).all(|(one, other)| one < other);
    let verdict = |at: usize| {
        let holds = match at {
            0 => is_below(0, 1),
            1 => is_below(1, 2),
            2 => is_below(0, 2) && is_below(1, 2),
            _ => is_below(3, 0) && is_below(3, 1),
        };
        if holds {
            Verdict::SameOrder(STAND_IN.to_owned())
        } else {
            Verdict::NotReproduced("not at every size; this session is mostly index probes".to_owned())
        }
    };
    Ok(policies
        .iter()
        .enumerate()
        .map(|(at, policy)| Finding {
            id: "C6",
            what: format!(
                "TPC-H session ({}), miss ratio of {policy} at 10, 20, 40 % of its pages",
                trace.name()
            ),
            published: published[at].to_owned(),
            ours: percentages(&ratios[at]),
            tolerance: "order only: another database, server and trace".to_owned(),
            verdict: verdict(at),
        })
        .collect())
}

/// Why a share found here is not the published one.
const STAND_IN: &str = "the paper's traces are lost; this is another program's, with other queries and data";

const KERNEL: &str = "needs the authors' kernel patch and machine; no copy of the patch was found";

fn glimpse_on_linux(context: &Context) -> Result<Vec<Finding>> {
    let trace = trace("gli", &[], context.seed);
    let ratios = ratios(&trace, &["amp", "lru"], &[90], context)?;
    let saved = 1.0 - ratios[0][0] / ratios[1][0];
    Ok(vec![
        Finding {
            id: "C7",
            what: "glimpse as a stream, memory for 90 % of its blocks: reads that amp saves of LRU's"
                .to_owned(),
            published: "43 % of the blocks read".to_owned(),
            ours: format!("{:.1} %", 100.0 * saved),
            tolerance: "a stand-in: the sign".to_owned(),
            verdict: match saved {
                0.2.. => Verdict::SameOrder(STAND_IN.to_owned()),
                _ => Verdict::NotReproduced(
                    "less than half of the published saving on the stand-in".to_owned(),
                ),
            },
        },
        lost("C7", "glimpseindex on 222 MB, elapsed time", "-13 %", KERNEL),
    ])
}

fn dbt3_on_linux(context: &Context) -> Result<Vec<Finding>> {
    let mut findings = match recorded_session("C8")? {
        Err(findings) => findings,
        Ok(trace) => {
            let ratios = ratios(&trace, &["amp", "lru", "auto"], &[20], context)?;
            let finding = |policy: &str, ratio: f64| {
                let saved = 1.0 - ratio / ratios[1][0];
                Finding {
                    id: "C8",
                    what: format!(
                        "TPC-H session ({}), 20 % of its pages: reads that {policy} saves",
                        trace.name()
                    ),
                    published: "24.8 % of the bytes read".to_owned(),
                    ours: format!("{:.1} %", 100.0 * saved),
                    tolerance: "a stand-in: the sign".to_owned(),
                    verdict: match saved {
                        0.12.. => Verdict::SameOrder(STAND_IN.to_owned()),
                        _ => Verdict::NotReproduced(
                            "less than half of the published saving; this session is mostly index probes"
                                .to_owned(),
                        ),
                    },
                }
            };
            vec![finding("amp", ratios[0][0]), finding("auto", ratios[2][0])]
        }
    };
    findings.push(lost("C8", "DBT3, elapsed time", "1091 -> 986 s", KERNEL));
    findings.push(lost("C8", "DBT3, bytes written", "409 -> 382 MB", "the session only reads"));
    Ok(findings)
}

/// The sampled detector on uniformly random pages, which it samples most of.
fn cost_of_detection(context: &Context) -> Result<Vec<Finding>> {
    const ACCESSES: u64 = 2_000_000;
    const SIZES: [u64; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
    let ns = |pages: u64| {
        let once = || {
            let mut amp = Amp::new(AmpOptions::for_frames(10_000));
            let mut random = SplitMix64::new(context.seed);
            let started = Instant::now();
            (0..ACCESSES).for_each(|_| amp.access(PageId(random.below(pages))));
            let elapsed = started.elapsed();
            std::hint::black_box(amp.class());
            elapsed.as_secs_f64() * 1e9 / ACCESSES as f64
        };
        (0..5).map(|_| once()).fold(f64::MAX, f64::min)
    };
    let costs = SIZES.map(ns);
    let (least, most) =
        costs.iter().fold((f64::MAX, 0.0_f64), |(least, most), &ns| (least.min(ns), most.max(ns)));
    Ok(vec![Finding {
        id: "C9",
        what: "ns an access of the sampled detector, 10^3 to 10^7 distinct pages, best of 5".to_owned(),
        published: "constant".to_owned(),
        ours: costs.map(|ns| format!("{ns:.1}")).join(", "),
        tolerance: "at most a factor of 2 between them".to_owned(),
        verdict: Verdict::of(most <= 2.0 * least, "see the numbers"),
    }])
}
