//! What a hit costs: one thread or a few read pages that are all in memory, each contender in its own way.
//!
//! A visit gets at a page, reads its first 8 bytes, and lets go. Pages are drawn from a Zipf distribution
//! (0.99), drawn before the clock starts. Contenders take turns in rounds, so that what else the machine does
//! falls on all of them, and each is told by the median of its rounds.

mod floors;
#[cfg(feature = "peers")]
mod peers;
mod pools;

use std::sync::Barrier;

use anyhow::Result;

pub use floors::{Array, OneLock, Words};
#[cfg(feature = "peers")]
pub use peers::{Cached, Foyer, Moka, MutexLru, PageCache, PageDb, QuickCache};
pub use pools::{Latched, OpenPool, Optimistic, Owned, PoolKind, PoolPages};

use crate::machine::cpu_time::thread_cpu_time;
use crate::random::{Random, Weighted};
use crate::rounds::Spread;

/// Bytes of a page where nothing else is said.
pub const PAGE_BYTES: usize = 4096;
/// Exponent of the distribution.
const ZIPF: f64 = 0.99;

/// One way to read pages that are in memory.
pub trait Contender: Sync {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Visits `pages` in order; returns the sum of what it read, so that nothing is left out.
    ///
    /// # Errors
    ///
    /// If a page cannot be read.
    fn visit(&self, pages: &[u32]) -> Result<u64>;
}

impl<C: Contender + ?Sized> Contender for &C {
    fn name(&self) -> String {
        (**self).name()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        (**self).visit(pages)
    }
}

/// What page `number` holds in its first 8 bytes.
pub fn contents(number: u32) -> u64 {
    crate::random::mix(u64::from(number) + 1)
}

/// `visits` page numbers below `pages`; the popular ones are spread over the whole range.
pub fn zipf_visits(pages: u32, visits: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut numbers: Vec<u32> = (0..pages).collect();
    random.shuffle(&mut numbers);
    let ranks = Weighted::zipf(u64::from(pages), ZIPF);
    (0..visits).map(|_| numbers[ranks.draw(&mut random) as usize]).collect()
}

/// One contender's times of a visit, in nanoseconds, a round each.
#[derive(Clone, Debug)]
pub struct Times {
    /// The contender.
    pub name: String,
    /// In the order of the rounds.
    pub rounds_ns: Vec<f64>,
}

impl Times {
    /// The median round.
    pub fn median_ns(&self) -> f64 {
        self.spread_ns().median
    }

    /// The quickest and the slowest round.
    pub fn range_ns(&self) -> (f64, f64) {
        let Spread { least, greatest, .. } = self.spread_ns();
        (least, greatest)
    }

    fn spread_ns(&self) -> Spread {
        Spread::of(self.rounds_ns.iter().copied())
    }

    /// The median over the rounds of this one's time over the other's in the same round.
    pub fn ratio_to(&self, other: &Times) -> f64 {
        Spread::of(self.rounds_ns.iter().zip(&other.rounds_ns).map(|(own, others)| own / others)).median
    }
}

/// Lets the contenders visit `visits` in turns, `rounds` times, after one round that does not count; with
/// several threads each makes all visits, beginning at another place.
///
/// # Errors
///
/// If a contender fails, or reads something that is not in the pages.
///
/// # Panics
///
/// Without threads or rounds.
pub fn take_turns(
    contenders: &[&dyn Contender],
    visits: &[u32],
    threads: usize,
    rounds: usize,
) -> Result<Vec<Times>> {
    assert!(threads > 0 && rounds > 0);
    let expected = visits.iter().fold(0, |sum: u64, page| sum.wrapping_add(contents(*page)));
    let mut times: Vec<Times> =
        contenders.iter().map(|one| Times { name: one.name(), rounds_ns: Vec::new() }).collect();
    for round in 0..=rounds {
        for (contender, times) in contenders.iter().zip(&mut times) {
            let ns = one_turn(*contender, visits, threads, expected)?;
            if round > 0 {
                times.rounds_ns.push(ns);
            }
        }
    }
    Ok(times)
}

/// Nanoseconds a visit, as each thread sees it.
fn one_turn(contender: &dyn Contender, visits: &[u32], threads: usize, expected: u64) -> Result<f64> {
    let start = Barrier::new(threads);
    let turn = |thread: usize| -> Result<(f64, u64)> {
        let (late, early) = visits.split_at(visits.len() / threads * thread);
        start.wait();
        let began = thread_cpu_time();
        let sum = contender.visit(early)?.wrapping_add(contender.visit(late)?);
        Ok(((thread_cpu_time() - began).as_nanos() as f64 / visits.len() as f64, sum))
    };
    let turns: Vec<Result<(f64, u64)>> = if threads == 1 {
        vec![turn(0)]
    } else {
        std::thread::scope(|scope| {
            let spawned: Vec<_> = (0..threads).map(|thread| scope.spawn(move || turn(thread))).collect();
            spawned.into_iter().map(|thread| thread.join().expect("visits do not panic")).collect()
        })
    };
    let mut sum_ns = 0.0;
    for turn in turns {
        let (ns, sum) = turn?;
        anyhow::ensure!(sum == expected, "{} read {sum:#x}, expected {expected:#x}", contender.name());
        sum_ns += ns;
    }
    Ok(sum_ns / threads as f64)
}

/// The first 8 bytes of a page.
#[inline]
pub fn first_word(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))
}
