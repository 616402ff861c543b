//! What a hit costs: one thread or a few read pages that are all in memory, each contender in its own way.
//!
//! A visit gets at a page, reads its first 8 bytes, and lets go. Pages are drawn from a Zipf distribution (0.99), drawn before the clock
//! starts. Contenders take turns in rounds, so that what else the machine does falls on all of them, and each is told by the
//! median of its rounds.

#[cfg(feature = "peers")]
mod peers;
mod pools;

use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use anyhow::Result;

#[cfg(feature = "peers")]
pub use peers::{Cached, Foyer, Moka, MutexLru, PageDb, QuickCache};
pub use pools::{Latched, OpenPool, Optimistic, PoolKind, PoolPages};

use crate::cpu_time::thread_cpu_time;
use crate::random::{Random, Weighted};

/// Bytes of a page here.
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
        let mut sorted = self.rounds_ns.clone();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    }

    /// The quickest and the slowest round.
    pub fn range_ns(&self) -> (f64, f64) {
        let least = self.rounds_ns.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.rounds_ns.iter().copied().fold(0.0, f64::max))
    }

    /// The median over the rounds of this one's time over the other's in the same round.
    pub fn ratio_to(&self, other: &Times) -> f64 {
        let ratios = self.rounds_ns.iter().zip(&other.rounds_ns).map(|(own, others)| own / others);
        Times { name: String::new(), rounds_ns: ratios.collect() }.median_ns()
    }
}

/// Lets the contenders visit `visits` in turns, `rounds` times, after one round that does not count; with several threads each makes all
/// visits, beginning at another place.
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

/// An array of pages, indexed directly: the floor.
pub struct Array {
    pages: Vec<[u8; PAGE_BYTES]>,
    huge: bool,
}

impl Array {
    /// `pages` pages with their [`contents`]; if `huge`, in huge pages where the system has them, as a pool's memory is.
    pub fn new(pages: u32, huge: bool) -> Self {
        let mut array = Self { pages: Vec::with_capacity(pages as usize), huge };
        let spare = array.pages.spare_capacity_mut();
        let advice = if huge { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        let start = spare.as_mut_ptr().map_addr(|at| at.next_multiple_of(PAGE_BYTES));
        // SAFETY: the range is within the vector's own allocation, and the advice changes only how it is backed.
        unsafe { libc::madvise(start.cast(), (spare.len() - 1) * PAGE_BYTES, advice) };
        for number in 0..pages {
            let mut page = [0; PAGE_BYTES];
            page[..8].copy_from_slice(&contents(number).to_le_bytes());
            array.pages.push(page);
        }
        array
    }
}

impl Contender for Array {
    fn name(&self) -> String {
        if self.huge { "array-huge-pages".into() } else { "array".into() }
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for page in pages {
            sum = sum.wrapping_add(first_word(&self.pages[*page as usize]));
        }
        Ok(sum)
    }
}

/// An array with a word for each page, and nothing else: what translation and latch cost on this machine, whoever makes them. A visit
/// loads the page's word and finds the page by it; latched it adds a holder with one compare-and-swap and takes it away with one
/// subtraction, otherwise it loads the word again.
pub struct Words<'a> {
    array: &'a Array,
    words: Vec<AtomicU64>,
    latched: bool,
}

/// One holder in a word; below is the page's index.
const HOLDER: u64 = 1 << 32;

impl<'a> Words<'a> {
    /// Words for the pages of `array`.
    pub fn new(array: &'a Array, latched: bool) -> Self {
        let words = (0..array.pages.len() as u64).map(AtomicU64::new).collect();
        Self { array, words, latched }
    }

    #[inline(always)]
    fn first_word_by(&self, word: u64) -> u64 {
        first_word(&self.array.pages[word as u32 as usize])
    }
}

impl Contender for Words<'_> {
    fn name(&self) -> String {
        if self.latched { "word-latched".into() } else { "word-checked".into() }
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for page in pages {
            let word = &self.words[*page as usize];
            let mut seen = word.load(Ordering::Acquire);
            if self.latched {
                while let Err(now) =
                    word.compare_exchange_weak(seen, seen + HOLDER, Ordering::Acquire, Ordering::Relaxed)
                {
                    seen = now;
                }
                sum = sum.wrapping_add(self.first_word_by(seen));
                word.fetch_sub(HOLDER, Ordering::Release);
            } else {
                sum = sum.wrapping_add(self.first_word_by(seen));
                fence(Ordering::Acquire);
                anyhow::ensure!(word.load(Ordering::Relaxed) == seen, "nobody writes");
            }
        }
        Ok(sum)
    }
}

/// A reader-writer lock around one word, read again and again: what threads pay that meet at one lock.
pub struct OneLock(parking_lot::RwLock<u64>);

impl OneLock {
    /// Around what page `number` holds.
    pub fn new(number: u32) -> Self {
        Self(parking_lot::RwLock::new(contents(number)))
    }
}

impl Contender for OneLock {
    fn name(&self) -> String {
        "rw-lock".into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for _ in pages {
            sum = sum.wrapping_add(*self.0.read());
        }
        Ok(sum)
    }
}

/// The first 8 bytes of a page.
#[inline]
pub fn first_word(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("8 bytes"))
}
