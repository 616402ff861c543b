//! How a workload is run.

use bufpool::HintPolicy;

use super::scheme::Scheme;

/// How much memory a run gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Memory {
    /// What the workload asks for.
    Default,
    /// That many frames.
    Frames(u32),
    /// That many bytes, the clean reserve included.
    Bytes(u64),
}

/// How a workload is run.
#[derive(Clone, Copy, Debug)]
pub struct RunOptions {
    /// Memory of the pool.
    pub memory: Memory,
    /// Memory of a compressed tier below the pool, in bytes; 0: there is none.
    pub compressed_bytes: u64,
    /// Threads that share the work, at least 1.
    pub threads: u32,
    /// Whether the pool is in deterministic mode, which takes one thread.
    pub deterministic: bool,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Lookups made together, at least 1, where the workload takes batches.
    pub batch: u32,
    /// What the pool does with reads that the workload discloses; `Off`: it discloses none.
    pub hints: HintPolicy,
    /// Whether a thread looks at the lists of disclosed reads during the run, which costs a little.
    pub watches_depths: bool,
    /// Whether the pool reads ahead by itself.
    pub read_ahead: bool,
    /// Reads in flight from which on tenants take turns; the pool's default if none is given.
    pub saturation_depth: Option<u32>,
}

impl RunOptions {
    /// How a scheme is called under these options.
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
            // What is compared is which pages stay: each miss of a policy shall be seen.
            read_ahead: false,
            saturation_depth: None,
        }
    }
}
