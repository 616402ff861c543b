//! One run of a workload: its pool, its data, and the threads that share the work.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use bufpool::{HintPolicy, Pool, Tenant};
use indicatif::ProgressBar;

use super::answer::Answer;
use super::database::Database;
use super::measurement::Start;
use super::scheme::{Manager, Scheme};
use crate::random::{Random, mix};

/// What a workload runs with.
#[derive(Clone, Copy)]
pub struct Session<'a> {
    /// A pool that has just been opened.
    pub pool: &'a Pool,
    /// The files that the workload built.
    pub database: &'a Database,
    /// The scheme of the run.
    pub scheme: &'a Scheme,
    /// Threads that share the work.
    pub threads: u32,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Lookups or reads made together, at least 1.
    pub batch: u32,
    /// What the pool does with disclosed reads.
    pub hints: HintPolicy,
    /// Whether the run has to be the same each time. Then the workload makes no access before the
    /// measurement.
    pub deterministic: bool,
    /// The progress bar of the run.
    pub progress: &'a ProgressBar,
    /// Counters and clocks at the start of the measurement.
    pub(super) start: &'a Mutex<Start>,
}

impl Session<'_> {
    /// Opens a tenant, and calls `advise` for its directives if tenants give any under the scheme.
    ///
    /// # Errors
    /// As the pool's.
    pub fn tenant(&self, name: &str, advise: impl FnOnce(&Tenant) -> bufpool::Result<()>) -> Result<Tenant> {
        let tenant = self.pool.tenant(name).hints(self.hints).open()?;
        if self.takes_advice() {
            advise(&tenant)?;
        }
        Ok(tenant)
    }

    /// Whether tenants give directives under this scheme.
    pub fn takes_advice(&self) -> bool {
        self.scheme.manager == Manager::Directives
    }

    /// Whether the workload discloses its reads.
    pub fn gives_hints(&self) -> bool {
        self.hints != HintPolicy::Off
    }

    /// Starts the measurement anew, so that what was done before does not count.
    pub fn start_measuring(&self) {
        *self.start.lock().unwrap_or_else(PoisonError::into_inner) = Start::now(self.pool);
    }

    /// Cuts `0..items` into a range for each thread, does `work` for each range, and merges the answers: for
    /// workloads that make one plan of many items.
    ///
    /// # Errors
    /// As [`share`](Self::share).
    pub fn share_ranges(
        &self,
        items: u64,
        work: impl Fn(Range<u64>, &mut Answer) -> Result<()> + Sync,
    ) -> Result<Answer> {
        let threads = u64::from(self.threads);
        self.share(threads, |at, answer| work(items * at / threads..items * (at + 1) / threads, answer))
    }

    /// Does `work` for each of the items `0..items` and merges the answers. One thread does the items in
    /// order; several threads each take the next item that is left.
    ///
    /// # Errors
    /// The error of an item. Items that were not begun are then left undone.
    pub fn share(&self, items: u64, work: impl Fn(u64, &mut Answer) -> Result<()> + Sync) -> Result<Answer> {
        self.progress.set_position(0);
        self.progress.set_length(items);
        let next = AtomicU64::new(0);
        let worker = || {
            let mut answer = Answer::default();
            loop {
                // Relaxed: the counter hands out numbers, and publishes nothing.
                let item = next.fetch_add(1, Ordering::Relaxed);
                if item >= items {
                    return Ok(answer);
                }
                work(item, &mut answer).inspect_err(|_| next.store(items, Ordering::Relaxed))?;
                self.progress.inc(1);
            }
        };
        if self.threads == 1 {
            return worker();
        }
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(worker)).collect();
            let mut answer = Answer::default();
            let mut failed = None;
            for worker in workers {
                match worker.join() {
                    Ok(Ok(part)) => answer.merge(part),
                    Ok(Err(error)) => failed = failed.or(Some(error)),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            failed.map_or(Ok(answer), Err)
        })
    }
}

/// The random numbers of one item, which do not depend on the thread that does it.
pub(super) fn random_of(seed: u64, item: u64) -> Random {
    Random::new(mix(seed).wrapping_add(item))
}
