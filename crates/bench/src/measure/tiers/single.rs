//! What a hit in a tier takes, and what a question and a demotion cost a miss.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use bufpool::Direct;
use bufpool::tier::{FileTier, MemoryTier, Tier, TierAdmit, TierPolicy};

use super::Effort;
use super::reads::{Shape, Side};
use crate::measure::comparison::{Bar, Comparison};
use crate::output::note;
use crate::random::Random;
use crate::rounds::alternate_often;

/// Frames of the pool, and pages of the tier below it.
const FRAMES: u32 = 1024;
/// Pages that are read in turn: more than the frames, so that none is in the pool when it is read, and fewer
/// than fit into pool and tier together.
const PAGES: u64 = FRAMES as u64 * 3 / 2;
/// Reads in a round of the pool without a tier.
const SOURCE_READS: usize = 200;
const SOURCE_LATENCY: Duration = Duration::from_millis(2);
/// Threads that fill pool and tier.
const FILLERS: usize = 16;

/// For a tier in memory and one in a file: the time of a read that hits in the tier against that of a read of
/// the source, and the hits and demotions of the tier against the misses.
///
/// # Errors
/// As the pool's.
pub fn hits(folder: &Path, direct: Direct, effort: Effort) -> Result<Vec<Comparison>> {
    let memory = MemoryTier::new(FRAMES);
    let file = FileTier::new(folder.join("hits"), FRAMES).direct(direct);
    let mut found = Vec::new();
    found.extend(hits_of(Arc::new(memory), MEMORY, effort)?);
    found.extend(hits_of(Arc::new(file), FILE, effort)?);
    Ok(found)
}

/// Names of rows: the median of a hit, its 99th percentile, hits, demotions.
type Names = [&'static str; 4];
const MEMORY: Names = [
    "hit in memory tier, median",
    "hit in memory tier, p99",
    "hits in memory tier",
    "demotions to memory tier",
];
const FILE: Names =
    ["hit in file tier, median", "hit in file tier, p99", "hits in file tier", "demotions to file tier"];

fn hits_of(tier: Arc<dyn Tier>, names: Names, effort: Effort) -> Result<[Comparison; 4]> {
    let shape =
        Shape { frames: FRAMES, pages: PAGES, source_latency: SOURCE_LATENCY, is_deterministic: false };
    let (tiered, plain) = (Side::new(shape, Some(tier))?, Side::new(shape, None)?);
    let mut order: Vec<u64> = (0..PAGES).collect();
    Random::new(effort.seed).shuffle(&mut order);
    for side in [&tiered, &plain] {
        side.read(&order, FILLERS, SOURCE_LATENCY)?;
    }
    let mut turn = order.iter().copied().cycle();
    let rounds = alternate_often(effort.rounds, names[0], || {
        let before = tiered.stats();
        let ours = tiered.read(&order, 1, Duration::ZERO)?;
        let after = tiered.stats();
        let some: Vec<u64> = turn.by_ref().take(SOURCE_READS).collect();
        let theirs = plain.read(&some, 1, Duration::ZERO)?;
        let count = |count: fn(&bufpool::stats::Stats) -> u64| (count(&after) - count(&before)) as f64;
        let misses = count(|stats| stats.misses);
        ensure!(misses > 0.0, "no page of {PAGES} read in turn was missed in {FRAMES} frames");
        let hits = count(|stats| stats.tier.as_ref().map_or(0, |tier| tier.hits));
        let demotions = count(|stats| stats.tier.as_ref().map_or(0, |tier| tier.demotions));
        Ok([
            (ours.long_us(0.5), theirs.long_us(0.5)),
            (ours.long_us(0.99), theirs.long_us(0.99)),
            (hits, misses),
            (demotions, misses),
        ])
    })?;
    note(format_args!("{}: {}", names[0], tiered.state_of_tier()));
    let of = |line: usize, unit, against: &str| Comparison {
        work: names[line],
        unit,
        against: against.to_owned(),
        rounds: rounds.iter().map(|round| round[line]).collect(),
        bar: Bar::None,
    };
    Ok([of(0, "us", "source"), of(1, "us", "source"), of(2, "pages", "misses"), of(3, "pages", "misses")])
}

/// The time of a miss of one thread on a source that answers at once, against the same pool without a tier:
/// with a question to the tier, with a question and a demotion that is refused, and while the tier is passed
/// by. A round has as many reads as half a million a second make in [`Effort::round`], and at least one for
/// each page.
///
/// # Errors
/// As the pool's.
pub fn demotions(effort: Effort) -> Result<Vec<Comparison>> {
    Ok(vec![
        // One byte a second may be demoted, and no time passes in deterministic mode: there are no demotions.
        a_miss("miss with a question", true, Some(1), effort)?,
        a_miss("miss with a question and a demotion", true, None, effort)?,
        a_miss("miss with a tier passed by", false, None, effort)?,
    ])
}

fn a_miss(
    work: &'static str,
    is_deterministic: bool,
    bytes_per_second: Option<u64>,
    effort: Effort,
) -> Result<Comparison> {
    let pages = 4 * u64::from(FRAMES);
    let shape = Shape { frames: FRAMES, pages, source_latency: Duration::ZERO, is_deterministic };
    // A tier without room refuses every page.
    let tiered = Side::with_options(shape, |options| {
        let options = options.tier(Arc::new(MemoryTier::new(0)), TierPolicy::Demote, TierAdmit::All);
        match bytes_per_second {
            Some(bytes) => options.tier_bytes_per_second(bytes),
            None => options,
        }
    })?;
    let plain = Side::new(shape, None)?;
    let mut random = Random::new(effort.seed);
    let mut numbers = |reads: u64| -> Vec<u64> { (0..reads).map(|_| random.below(pages)).collect() };
    let filling = numbers(2 * pages);
    for side in [&tiered, &plain] {
        side.read(&filling, 1, Duration::MAX)?;
    }
    let reads_a_second = 500_000.0;
    let reads = (effort.round.as_secs_f64() * reads_a_second).ceil() as u64;
    let rounds = alternate_often(effort.rounds, work, || {
        let numbers = numbers(reads.max(pages));
        let a_miss_ns = |side: &Side| {
            let before = side.stats().misses;
            let took = side.read(&numbers, 1, Duration::MAX)?;
            anyhow::Ok(took.elapsed.as_nanos() as f64 / (side.stats().misses - before) as f64)
        };
        Ok((a_miss_ns(&tiered)?, a_miss_ns(&plain)?))
    })?;
    note(format_args!("{work}: {}", tiered.state_of_tier()));
    Ok(Comparison { work, unit: "ns", against: "none".to_owned(), rounds, bar: Bar::None })
}
