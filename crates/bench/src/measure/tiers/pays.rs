//! A tier in a local file, for a pool on a slow source.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use bufpool::Direct;
use bufpool::tier::FileTier;

use super::Effort;
use super::reads::{Shape, Side};
use crate::measure::comparison::{Bar, Comparison};
use crate::output::note;
use crate::random::{Permutation, Random, Weighted};
use crate::rounds::alternate_often;

/// Reads in flight: threads, or futures.
const IN_FLIGHT: usize = 16;
const ZIPF_EXPONENT: f64 = 0.99;
const SHAPE: Shape =
    Shape { frames: 1024, pages: 4096, source_latency: Duration::from_millis(5), is_deterministic: false };
/// Reads of a step of the warm-up.
const STEP: usize = 1024;
const ELAPSED_RATIO_MAX: f64 = 0.7;

/// Reads by Zipf's law, by threads and by futures, through a pool with a [`FileTier`] of as many pages as the
/// pool has frames, made in `folder`, and through a pool without a tier.
///
/// # Errors
/// As the pool's.
pub fn pays(folder: &Path, direct: Direct, effort: Effort) -> Result<Vec<Comparison>> {
    let tier = FileTier::new(folder.join("tier"), SHAPE.frames).direct(direct);
    let (tiered, plain) = (Side::new(SHAPE, Some(Arc::new(tier)))?, Side::new(SHAPE, None)?);
    let mut pages = Pages::new(effort.seed);
    let mut warm_up =
        |side: &Side| effort.warm_up(STEP, || side.read(&pages.draw(STEP), IN_FLIGHT, SHAPE.source_latency));
    warm_up(&tiered)?;
    let reads = warm_up(&plain)?;
    let compare = |work, read: fn(&Side, &[u64]) -> Result<Duration>, pages: &mut Pages| {
        let rounds = alternate_often(effort.rounds, work, || {
            let numbers = pages.draw(reads);
            Ok((read(&tiered, &numbers)?.as_secs_f64(), read(&plain, &numbers)?.as_secs_f64()))
        })?;
        let bar = Bar::AtMost(ELAPSED_RATIO_MAX);
        anyhow::Ok(Comparison { work, unit: "s", against: "none".to_owned(), rounds, bar })
    };
    let threads = compare(
        "file tier, 16 threads",
        |side, numbers| Ok(side.read(numbers, IN_FLIGHT, SHAPE.source_latency)?.elapsed),
        &mut pages,
    )?;
    let futures =
        compare("file tier, 16 futures", |side, numbers| side.read_async(numbers, IN_FLIGHT), &mut pages)?;
    note(format_args!(
        "file tier: {}; {:?}",
        tiered.state_of_tier(),
        tiered.stats().tier.unwrap_or_default()
    ));
    Ok(vec![threads, futures])
}

/// Draws pages by Zipf's law. Popular pages are spread over the whole source.
struct Pages {
    ranks: Weighted,
    places: Permutation,
    random: Random,
}

impl Pages {
    fn new(seed: u64) -> Self {
        let ranks = Weighted::zipf(SHAPE.pages, ZIPF_EXPONENT);
        Self { ranks, places: Permutation::new(SHAPE.pages, seed), random: Random::new(seed) }
    }

    fn draw(&mut self, reads: usize) -> Vec<u64> {
        (0..reads).map(|_| self.places.apply(self.ranks.draw(&mut self.random))).collect()
    }
}
