//! Tiers that do not pay: what they cost once the pool passes them by.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;

use super::Effort;
use super::faulty::{Fault, FaultyTier};
use super::reads::{Shape, Side};
use crate::measure::comparison::{Bar, Comparison};
use crate::output::note;
use crate::random::Random;
use crate::rounds::alternate_often;

const THREADS: usize = 4;
const SOURCE_LATENCY: Duration = Duration::from_micros(200);
const SHAPE: Shape =
    Shape { frames: 1024, pages: 4096, source_latency: SOURCE_LATENCY, is_deterministic: false };
/// Reads of a step of the warm-up.
const STEP: usize = 256;
/// Reads before a pool is closed.
const READS_BEFORE_CLOSE: usize = 4096;

const ELAPSED_RATIO_MAX: f64 = 1.02;
const P99_RATIO_MAX: f64 = 1.1;
const CLOSE_MS_MAX: f64 = 1000.0;

/// The faults, and the names of their rows: elapsed time, and the 99th percentile of a miss.
const FAULTS: [(Fault, &str, &str); 5] = [
    (Fault::Slow, "slow as the source", "slow as the source, p99 of a miss"),
    (Fault::NeverHit, "never hit", "never hit, p99 of a miss"),
    (Fault::Refuses, "refuses all", "refuses all, p99 of a miss"),
    (Fault::Dead, "dead", "dead, p99 of a miss"),
    (Fault::Stuck, "stuck", "stuck, p99 of a miss"),
];

/// Uniform reads of four threads through a pool with a tier that has a fault, and through one without a tier.
///
/// # Errors
/// As the pool's.
pub fn wasted(effort: Effort) -> Result<Vec<Comparison>> {
    let mut found = Vec::new();
    for (fault, elapsed, p99) in FAULTS {
        found.extend(compare(fault, elapsed, p99, effort)?);
    }
    found.push(closing(effort)?);
    Ok(found)
}

fn compare(
    fault: Fault,
    elapsed: &'static str,
    p99: &'static str,
    effort: Effort,
) -> Result<[Comparison; 2]> {
    let tiered = Side::new(SHAPE, Some(Arc::new(FaultyTier::new(fault, SOURCE_LATENCY)?)))?;
    let plain = Side::new(SHAPE, None)?;
    let mut random = Random::new(effort.seed);
    let mut warm_up = |side: &Side| {
        effort.warm_up(STEP, || side.read(&uniform(&mut random, STEP), THREADS, SOURCE_LATENCY))
    };
    warm_up(&tiered)?;
    let reads = warm_up(&plain)?;
    let mut tiered_first = false;
    let rounds = alternate_often(effort.rounds, elapsed, || {
        let numbers = uniform(&mut random, reads);
        // Long reads are the misses: they wait for the source, and a hit hardly ever takes as long.
        let read = |side: &Side| side.read(&numbers, THREADS, SOURCE_LATENCY);
        tiered_first = !tiered_first;
        let (ours, theirs) = if tiered_first {
            let ours = read(&tiered)?;
            (ours, read(&plain)?)
        } else {
            let theirs = read(&plain)?;
            (read(&tiered)?, theirs)
        };
        let seconds = (ours.elapsed.as_secs_f64(), theirs.elapsed.as_secs_f64());
        Ok((seconds, (ours.long_us(0.99), theirs.long_us(0.99))))
    })?;
    note(format_args!(
        "{elapsed}: {}; {:?}",
        tiered.state_of_tier(),
        tiered.stats().tier.unwrap_or_default()
    ));
    let comparison = |work, unit, rounds, bar| Comparison {
        work,
        unit,
        against: "none".to_owned(),
        rounds,
        bar: Bar::AtMost(bar),
    };
    let (seconds, p99s) = rounds.into_iter().unzip();
    Ok([comparison(elapsed, "s", seconds, ELAPSED_RATIO_MAX), comparison(p99, "us", p99s, P99_RATIO_MAX)])
}

fn uniform(random: &mut Random, reads: usize) -> Vec<u64> {
    (0..reads).map(|_| random.below(SHAPE.pages)).collect()
}

/// The time to close a pool whose tier has never answered a question.
fn closing(effort: Effort) -> Result<Comparison> {
    let mut random = Random::new(effort.seed);
    let rounds = alternate_often(effort.rounds, "closing", || {
        let numbers = uniform(&mut random, READS_BEFORE_CLOSE);
        let close_ms = |side: Side| {
            side.read(&numbers, THREADS, SOURCE_LATENCY)?;
            anyhow::Ok(side.close()?.as_secs_f64() * 1e3)
        };
        let stuck = FaultyTier::new(Fault::Stuck, SOURCE_LATENCY)?;
        Ok((close_ms(Side::new(SHAPE, Some(Arc::new(stuck)))?)?, close_ms(Side::new(SHAPE, None)?)?))
    })?;
    let bar = Bar::OursAtMost(CLOSE_MS_MAX);
    Ok(Comparison { work: "stuck, close", unit: "ms", against: "none".to_owned(), rounds, bar })
}
