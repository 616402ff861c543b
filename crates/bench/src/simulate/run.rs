//! The interface of a simulated cache, and its warm-up.

use std::collections::BTreeMap;

use bufpool_policies::ProgramStats;

use super::SimError;
use super::tally::Tally;
use crate::trace::{Act, Batch, Replay};

/// A cache, or several, that a trace is played to.
pub trait Run: Replay<Error = SimError> {
    /// Forgets what was counted so far; the contents of the cache stay.
    fn end_warm_up(&mut self);

    /// What was counted, and what the programs of tenants did, by tenant of the trace.
    fn end(self) -> (Tally, BTreeMap<u32, ProgramStats>);
}

/// A run whose first accesses are left out of its counts.
pub struct WarmUp<R> {
    run: R,
    /// Accesses until the warm-up ends; 0 once it has ended.
    left: u64,
}

impl<R: Run> WarmUp<R> {
    /// A run whose warm-up is the first `accesses`.
    pub fn new(run: R, accesses: u64) -> Self {
        Self { run, left: accesses }
    }

    /// The run. Ends the warm-up first if the trace was no longer than that.
    pub fn into_run(mut self) -> R {
        if self.left > 0 {
            self.run.end_warm_up();
        }
        self.run
    }
}

impl<R: Run> Replay for WarmUp<R> {
    type Error = SimError;

    fn batch(&mut self, batch: Batch<'_>) -> Result<(), SimError> {
        if self.left == 0 {
            return self.run.batch(batch);
        }
        let accesses = batch.blocks.len();
        let warm = self.left.min(accesses as u64) as usize;
        self.run.batch(batch.part(0..warm))?;
        self.left -= warm as u64;
        if self.left == 0 {
            self.run.end_warm_up();
        }
        self.run.batch(batch.part(warm..accesses))
    }

    fn act(&mut self, act: Act<'_>) -> Result<(), SimError> {
        self.run.act(act)
    }
}
