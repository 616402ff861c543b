//! C2, C4, C5: misses on streams that are loops, and on one that is a tree walk.

use anyhow::Result;

use super::misses::{about, misses, trace};
use crate::experiments::experiment::Context;
use crate::experiments::finding::{Finding, listed};

pub(super) fn big_index(context: &Context) -> Result<Vec<Finding>> {
    const BLOCKS: u64 = 13_568;
    const PASSES: u64 = 5;
    const SIZES: [u32; 5] = [1_696, 3_392, 6_784, 10_176, 13_568];
    let trace = trace("loop", &["blocks=13568", "passes=5"], context.seed);
    let policies = ["lru", "arc", "dear", "pcc", "pcc-gain", "ubm", "ubm-gain", "amp", "amp+", "auto", "opt"];
    let misses = misses(&trace, &policies, &SIZES, context.jobs)?;
    let sizes = listed(&SIZES);
    // The misses of MRU, which a detector can reach.
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

pub(super) fn tree_walk(context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 3] = [50, 500, 2000];
    let trace = trace("scan", &[], context.seed);
    let policies = ["lru", "arc", "pcc", "pcc-gain", "amp", "amp+", "auto", "opt"];
    let misses = misses(&trace, &policies, &SIZES, context.jobs)?;
    let best = misses[0].clone().expect("LRU exists");
    let sizes = listed(&SIZES);
    Ok(policies
        .iter()
        .zip(&misses)
        .map(|(policy, misses)| {
            let what =
                format!("1000 files of 10 blocks, each read 3 times, misses of {policy} at {sizes} frames");
            match *policy {
                "pcc" | "pcc-gain" => about(
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

pub(super) fn against_generic(context: &Context) -> Result<Vec<Finding>> {
    const SIZES: [u32; 3] = [500, 1000, 1500];
    let trace = trace("loop", &["blocks=2000", "passes=20"], context.seed);
    let policies = ["lru", "arc", "amp", "amp+", "auto"];
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
