//! Runs of clients above an array.

use anyhow::Result;
use bufpool_policies::classic::PolicyKind;
use bufpool_policies::tier::TierKind;

use crate::parallel;
use crate::simulate::{self, Counts, Latency, LowerCache, Policy, Setup};
use crate::streams::{self, Advice};
use crate::trace::Trace;

/// Frames of the paper's client and of its array.
pub const FRAMES: u32 = 16_384;

/// Times of the experiments with traces.
pub const TRACE_TIMES: Latency = Latency { tier_ms: 0.2, source_ms: 5.0, abort_ms: None };

/// A stream, and how many of its first reads are not counted.
pub struct Workload {
    trace: Trace,
    warm_up: u64,
}

impl Workload {
    /// A stream by its name and settings, with this many first reads that are not counted.
    pub fn new(stream: &str, set: &[String], warm_up: u64, seed: u64) -> Self {
        let set: Vec<&str> = set.iter().map(String::as_str).collect();
        Self { trace: Trace::of(stream, streams::items(stream, &set, Advice::None, seed)), warm_up }
    }

    /// Uniform reads of this many blocks: a read for each block that is not counted, and ten that are.
    pub fn random(blocks: u64, seed: u64) -> Self {
        Self::of_blocks("random", blocks, seed)
    }

    /// A loop over this many blocks: a pass that is not counted, and ten that are.
    pub fn cyclic(blocks: u64) -> Self {
        Self::of_blocks("cyclic", blocks, 1)
    }

    /// Reads of this many blocks by Zipf's law, as many as with [`Workload::random`].
    pub fn zipf(blocks: u64, seed: u64) -> Self {
        Self::of_blocks("zipf", blocks, seed)
    }

    fn of_blocks(stream: &str, blocks: u64, seed: u64) -> Self {
        let set = [format!("blocks={blocks}"), format!("accesses={}", 11 * blocks)];
        Self::new(stream, &set, blocks, seed)
    }

    /// Clients that read in turns, by Zipf's law. Each has `blocks` blocks of its own; or, if `lag` is not 0,
    /// all make the same reads, each client `lag` reads after the one before it.
    pub fn clients(clients: u32, blocks: u64, lag: u64, seed: u64) -> Self {
        let set = [
            format!("clients={clients}"),
            format!("blocks={blocks}"),
            format!("accesses={}", 11 * blocks),
            format!("lag={lag}"),
        ];
        Self::new("clients", &set, u64::from(clients) * blocks, seed)
    }

    /// The trace.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The counts with LRU clients of `client_frames` frames, one for each tenant, above an array of `frames`
    /// frames.
    ///
    /// # Errors
    ///
    /// If the simulation cannot be carried out.
    pub fn run(&self, client_frames: u32, kind: TierKind, frames: u32) -> Result<Counts> {
        let clients = self.trace.tenants().len() as u32;
        let lower = LowerCache { kind, frames, client_per_tenant: true };
        let setup =
            Setup { lower: Some(lower), warm_up: self.warm_up, ..Setup::frames(clients * client_frames) };
        Ok(simulate::simulate(&self.trace, Policy::OneLevel(PolicyKind::Lru), &setup, None)?.total())
    }

    /// As [`Workload::run`], for each kind of array.
    ///
    /// # Errors
    ///
    /// As those of [`Workload::run`].
    pub fn run_all(
        &self,
        client_frames: u32,
        kinds: &[TierKind],
        frames: u32,
        jobs: usize,
    ) -> Result<Vec<Counts>> {
        let runs = parallel::map(kinds.len(), jobs, |at| self.run(client_frames, kinds[at], frames));
        runs.into_iter().collect()
    }
}

/// The mean time of a read, in milliseconds.
pub fn mean_ms(latency: &Latency, counts: &Counts) -> f64 {
    latency.mean_ms(counts).expect("reads were counted")
}

/// Hits of the clients and of the array, in per cent of all reads.
pub fn hit_percents(counts: &Counts) -> [f64; 2] {
    [counts.hits, counts.tier_hits].map(|hits| 100.0 * hits as f64 / counts.accesses as f64)
}
