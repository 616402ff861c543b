//! What the best possible policy would read.

use anyhow::Result;

use super::contract::Workload;
use super::database::Database;
use super::options::{Memory, RunOptions};
use super::run::run;
use super::scheme::Scheme;
use crate::simulate::{self, NextUses, Setup, simulate};
use crate::trace::Trace;
use crate::trace::recording::Recording;

/// Memory of the run whose accesses are recorded.
const MEMORY_BYTES: u64 = 256 << 20;

/// The accesses of a workload, for which OPT is asked.
pub struct Bound {
    trace: Trace,
    next_uses: NextUses,
    creations: u64,
}

impl Bound {
    /// Records the accesses of a workload, which are the same under every scheme and in any memory: so in
    /// much. What it discloses may change their order.
    ///
    /// # Errors
    /// As [`run`].
    pub fn of(workload: &dyn Workload, database: &Database, options: &RunOptions) -> Result<Self> {
        let recording = Recording::in_memory();
        let memory = Memory::Bytes(MEMORY_BYTES);
        let (hints, seed) = (options.hints, options.seed);
        let options = RunOptions { memory, deterministic: true, hints, seed, ..RunOptions::default() };
        run(workload, Scheme::find("lru")?, database, &options, Some(recording.recorder()))?;
        let (items, creations) = recording.finish()?;
        let trace = Trace::of(workload.name(), items);
        let next_uses = NextUses::in_memory(&trace)?;
        Ok(Self { trace, next_uses, creations })
    }

    /// Pages that OPT reads with that many frames.
    ///
    /// # Errors
    /// As the simulator's.
    pub fn reads(&self, frames: u32) -> Result<u64> {
        let outcome =
            simulate(&self.trace, simulate::Policy::Opt, &Setup::frames(frames), Some(&self.next_uses))?;
        Ok(outcome.total().misses() - self.creations)
    }
}
