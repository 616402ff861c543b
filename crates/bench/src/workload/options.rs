//! How a workload is run.

use bufpool::HintPolicy;

use super::scheme::Scheme;

/// How much memory a run gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// The workload's default.
    Default,
    /// That many frames.
    Frames(u32),
    /// That many bytes, including the clean reserve.
    Bytes(u64),
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Memory of the pool.
    pub memory: Memory,
    /// Memory of a compressed tier below the pool, in bytes; 0 means no tier.
    pub compressed_bytes: u64,
    /// Threads that share the work, at least 1.
    pub threads: u32,
    /// Whether the pool is in deterministic mode, in which only one thread is allowed.
    pub deterministic: bool,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Lookups or reads made together, at least 1, if the workload takes batches.
    pub batch: u32,
    /// What the pool does with reads that the workload discloses; under `Off` it discloses none.
    pub hints: HintPolicy,
    /// Whether a thread samples the depths of the lists of disclosed reads during the run, a hundred times a
    /// second.
    pub watches_depths: bool,
    /// Whether the pool reads ahead by itself.
    pub read_ahead: bool,
    /// Reads in flight from which on tenants take turns; the pool's default if none is given.
    pub saturation_depth: Option<u32>,
}

impl RunOptions {
    /// The name of a scheme under these options.
    pub fn name_of(&self, scheme: &Scheme) -> String {
        let hints = match self.hints {
            HintPolicy::Off => "",
            HintPolicy::Auto => "+hints",
            HintPolicy::CostBenefit => "+hints:cost-benefit",
            HintPolicy::Aggressive { .. } => "+hints:aggressive",
            HintPolicy::Horizon => "+hints:horizon",
        };
        format!("{}{hints}", scheme.name)
    }
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            memory: Memory::Default,
            compressed_bytes: 0,
            threads: 1,
            deterministic: false,
            seed: 1,
            batch: 1,
            hints: HintPolicy::Off,
            watches_depths: false,
            // Schemes are compared by which pages stay, and read-ahead would hide misses.
            read_ahead: false,
            saturation_depth: None,
        }
    }
}
