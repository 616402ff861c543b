//! What a miss costs without a device. Threads read pages of a source in memory, so that the pool itself is
//! measured: against two pools that share nothing, and against other caches that copy a page from memory.
//!
//! A visit reads the first 8 bytes of a page. Some visits are to a few hot pages, which stay resident. The
//! others are to the rest of the pages in a random order, in which each page comes once before any comes
//! again.

mod model;
#[cfg(feature = "peers")]
mod peers;
mod pools;
mod source;

use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use model::Network;
#[cfg(feature = "peers")]
pub use peers::CachedMemory;
pub use pools::{Pools, TWO_POOLS};
pub use source::MemoryPages;

pub use crate::measure::hits::{PAGE_BYTES, contents, first_word};

use crate::machine::cpu_time::{Displaced, thread_cpu_time};
use crate::random::{Permutation, Random};
use crate::workload::Scheme;

/// Pages of the source: 4 GiB of them.
pub const PAGES: u32 = 1 << 20;

/// A cache of pages in front of the source.
pub trait Contender: Sync {
    /// Its name in tables.
    fn name(&self) -> String;

    /// Visits `pages` in order, as the thread with number `thread`. Returns the wrapping sum of the first
    /// words, and the number of misses, or 0 if [`counts`](Self::counts) has them.
    ///
    /// # Errors
    ///
    /// If a page cannot be read.
    fn visit(&self, thread: usize, pages: &[u32]) -> Result<(u64, u64)>;

    /// What the contender has counted since it was made; `None` if it counts nothing.
    fn counts(&self) -> Option<Counts>;
}

/// What a pool counts.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counts {
    /// Misses.
    pub misses: u64,
    /// Nanoseconds under the policy lock, estimated from some of its holds.
    pub held_ns: u64,
}

/// Pages that threads visit, a list for each.
pub struct Visits {
    of_threads: Vec<Vec<u32>>,
    /// The wrapping sum of the first words of all visited pages.
    sum: u64,
}

/// Draws visits.
pub struct Drawing {
    random: Random,
    order: Permutation,
    next: u64,
    /// The number of hot pages, which are the first ones.
    hot: u32,
}

impl Drawing {
    /// Draws visits to `hot` pages that are visited again and again, and to the others.
    ///
    /// # Panics
    ///
    /// If `hot` is 0 or not less than [`PAGES`].
    pub fn new(hot: u32, seed: u64) -> Self {
        assert!((1..PAGES).contains(&hot));
        let order = Permutation::new(u64::from(PAGES - hot), seed);
        Self { random: Random::new(seed), order, next: 0, hot }
    }

    /// Visits of `threads` threads. Each thread has `misses / threads` visits to pages that were not visited
    /// for long; about `hit_percent` per cent of all visits, below 100, are to hot pages.
    pub fn draw(&mut self, threads: usize, misses: usize, hit_percent: u32) -> Visits {
        let cold_share = f64::from(100 - hit_percent) / 100.0;
        let of_threads: Vec<Vec<u32>> = (0..threads)
            .map(|_| {
                let mut pages = Vec::new();
                let mut left = misses / threads;
                while left > 0 {
                    let is_cold = self.random.chance(cold_share);
                    left -= usize::from(is_cold);
                    pages.push(if is_cold { self.cold() } else { self.random.below(self.hot.into()) as u32 });
                }
                pages
            })
            .collect();
        let sum = of_threads.iter().flatten().fold(0, |sum: u64, page| sum.wrapping_add(contents(*page)));
        Visits { of_threads, sum }
    }

    fn cold(&mut self) -> u32 {
        let number = self.order.apply(self.next % u64::from(PAGES - self.hot));
        self.next += 1;
        self.hot + number as u32
    }
}

/// What one turn of a contender took.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// From the first thread's beginning to the last one's end.
    pub elapsed: Duration,
    /// Processor time of all threads.
    pub cpu: Duration,
    /// Visits.
    pub visits: u64,
    /// Visits that missed.
    pub misses: u64,
    /// Times that a thread went to sleep (voluntary context switches).
    pub parks: u64,
    /// Nanoseconds under the policy lock; `None` for a contender that is no pool.
    pub held_ns: Option<u64>,
}

impl Turn {
    /// Misses a second.
    pub fn misses_per_s(&self) -> f64 {
        self.misses as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time a miss in nanoseconds, that of the hits included.
    pub fn cpu_ns(&self) -> f64 {
        self.cpu.as_nanos() as f64 / self.misses.max(1) as f64
    }

    /// Times that a thread went to sleep, a miss.
    pub fn parks(&self) -> f64 {
        self.parks as f64 / self.misses.max(1) as f64
    }

    /// Nanoseconds under the policy lock a miss, if it is known.
    pub fn held_ns(&self) -> Option<f64> {
        self.held_ns.map(|ns| ns as f64 / self.misses.max(1) as f64)
    }

    /// The share of visits that hit, from 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        1.0 - self.misses as f64 / self.visits.max(1) as f64
    }
}

/// What one thread measured.
struct Part {
    began: Instant,
    ended: Instant,
    cpu: Duration,
    sum: u64,
    misses: u64,
    parks: u64,
}

/// Lets the contender make the visits, on as many threads as there are lists.
///
/// # Errors
///
/// If it fails, or reads something that is not in the pages.
pub fn turn(contender: &dyn Contender, visits: &Visits) -> Result<Turn> {
    let before = contender.counts();
    let start = Barrier::new(visits.of_threads.len());
    let part = |thread: usize, pages: &[u32]| -> Result<Part> {
        let displaced = Displaced::now();
        start.wait();
        let (began, cpu) = (Instant::now(), thread_cpu_time());
        let (sum, misses) = contender.visit(thread, pages)?;
        let (ended, cpu) = (Instant::now(), thread_cpu_time() - cpu);
        Ok(Part { began, ended, cpu, sum, misses, parks: Displaced::now().since(displaced).parks })
    };
    let part = &part;
    let parts: Vec<Result<Part>> = std::thread::scope(|scope| {
        let lists = visits.of_threads.iter().enumerate();
        let threads: Vec<_> = lists.map(|(thread, pages)| scope.spawn(move || part(thread, pages))).collect();
        threads.into_iter().map(|thread| thread.join().expect("visits do not panic")).collect()
    });
    let parts = parts.into_iter().collect::<Result<Vec<Part>>>()?;
    let sum = parts.iter().fold(0, |sum: u64, part| sum.wrapping_add(part.sum));
    ensure!(sum == visits.sum, "{} read {sum:#x}, expected {:#x}", contender.name(), visits.sum);
    let counts = before.zip(contender.counts());
    let began = parts.iter().map(|part| part.began).min().expect("there are threads");
    let ended = parts.iter().map(|part| part.ended).max().expect("there are threads");
    Ok(Turn {
        elapsed: ended - began,
        cpu: parts.iter().map(|part| part.cpu).sum(),
        visits: visits.of_threads.iter().map(|pages| pages.len() as u64).sum(),
        misses: match counts {
            Some((before, after)) => after.misses - before.misses,
            None => parts.iter().map(|part| part.misses).sum(),
        },
        parks: parts.iter().map(|part| part.parks).sum(),
        held_ns: counts.map(|(before, after)| after.held_ns - before.held_ns),
    })
}

/// The contenders: a pool under each of the schemes, two pools under each of them, and with the feature
/// `peers` other caches.
///
/// # Errors
///
/// As the pool's.
pub fn contenders(schemes: &[&Scheme], frames: u32) -> Result<Vec<Box<dyn Contender>>> {
    let pages = Arc::new(MemoryPages::new(PAGES));
    let mut contenders: Vec<Box<dyn Contender>> = Vec::new();
    for scheme in schemes {
        contenders.push(Box::new(Pools::one(scheme, &pages, frames)?));
        contenders.push(Box::new(Pools::two(scheme, &pages, frames)?));
    }
    #[cfg(feature = "peers")]
    {
        use crate::measure::hits::{Foyer, MutexLru, QuickCache};
        contenders.push(Box::new(CachedMemory::<QuickCache>::new(&pages, frames)));
        contenders.push(Box::new(CachedMemory::<Foyer>::new(&pages, frames)));
        contenders.push(Box::new(CachedMemory::<MutexLru>::new(&pages, frames)));
    }
    Ok(contenders)
}
