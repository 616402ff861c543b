//! What a hit costs: one thread or several read pages that are all in memory, each contender in its own way.
//!
//! A visit finds a page, reads its first 8 bytes, and releases it. Pages are drawn from a Zipf distribution
//! (exponent 0.99) before the clock starts. Contenders take turns in rounds, so that other work on the
//! machine slows all of them. A contender's result is the median of its rounds.

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

/// Bytes of a page, unless a function takes another size.
pub const PAGE_BYTES: usize = 4096;
/// Exponent of the distribution.
const ZIPF: f64 = 0.99;

/// One way to read pages that are in memory.
pub trait Contender: Sync {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Visits `pages` in order. Returns the wrapping sum of the words read, so that the compiler keeps the
    /// reads and the caller can check them.
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

/// The first 8 bytes of page `number`, as a little-endian number.
pub fn contents(number: u32) -> u64 {
    crate::random::mix(u64::from(number) + 1)
}

/// `visits` page numbers below `pages`, drawn from a Zipf distribution. Popular pages are spread over the
/// whole range.
pub fn zipf_visits(pages: u32, visits: usize, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let mut numbers: Vec<u32> = (0..pages).collect();
    random.shuffle(&mut numbers);
    let ranks = Weighted::zipf(u64::from(pages), ZIPF);
    (0..visits).map(|_| numbers[ranks.draw(&mut random) as usize]).collect()
}

/// One contender's processor time of a visit in each round, in nanoseconds.
#[derive(Clone, Debug)]
pub struct Times {
    /// The contender's name.
    pub name: String,
    /// The times, in the order of the rounds.
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

    /// The median over the rounds of the ratio of this contender's time to the other's in the same round.
    pub fn ratio_to(&self, other: &Times) -> f64 {
        Spread::of(self.rounds_ns.iter().zip(&other.rounds_ns).map(|(own, others)| own / others)).median
    }
}

/// Lets the contenders visit `visits` in turns, `rounds` times, after one round that does not count. With
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

/// Processor time of a visit in nanoseconds, the mean over the threads.
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

/// The first 8 bytes of a page, as a little-endian number.
///
/// # Panics
///
/// If the page is shorter.
#[inline]
pub fn first_word(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))
}
