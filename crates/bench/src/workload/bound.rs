//! The fewest pages that any replacement policy could read.

use anyhow::Result;

use super::contract::Workload;
use super::database::Database;
use super::options::{Memory, RunOptions};
use super::run::run;
use super::scheme::Scheme;
use crate::simulate::{self, NextUses, Setup, simulate};
use crate::trace::Trace;
use crate::trace::recording::Recording;

/// Memory of the run whose accesses are recorded, in bytes.
const MEMORY_BYTES: u64 = 256 << 20;

/// The recorded accesses of a workload, to which OPT is played.
pub struct Bound {
    trace: Trace,
    next_uses: NextUses,
    creations: u64,
}

impl Bound {
    /// Records the accesses of a workload in a deterministic run under LRU with 256 MiB. They are the same
    /// under every scheme and with any memory, except that their order may differ where reads are disclosed.
    ///
    /// # Errors
    /// Those of [`run`].
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

    /// The number of pages that OPT reads with `frames` frames.
    ///
    /// # Errors
    /// As the simulator's.
    pub fn reads(&self, frames: u32) -> Result<u64> {
        let outcome =
            simulate(&self.trace, simulate::Policy::Opt, &Setup::frames(frames), Some(&self.next_uses))?;
        Ok(outcome.total().misses() - self.creations)
    }
}
