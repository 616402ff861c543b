//! How a workload is run.

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
    /// Threads that share the work, at least 1.
    pub threads: u32,
    /// Whether the pool is in deterministic mode, which takes one thread.
    pub deterministic: bool,
    /// Seed of everything drawn at random.
    pub seed: u64,
    /// Lookups made together, at least 1, where the workload takes batches.
    pub batch: u32,
    /// Reads in flight from which on tenants take turns; the pool's default if none is given.
    pub saturation_depth: Option<u32>,
}

impl Default for RunOptions {
    fn default() -> Self {
        Self {
            memory: Memory::Default,
            threads: 1,
            deterministic: false,
            seed: 1,
            batch: 1,
            saturation_depth: None,
        }
    }
}
