//! What a run cost: counters and clocks from a start on.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bufpool::Pool;
use bufpool::stats::Stats;

use crate::machine::cpu_time::cpu_time;

/// What a run cost.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// Name of the I/O backend that ran.
    pub backend: String,
    /// Frames that policies could fill.
    pub frames: u32,
    /// Guards granted.
    pub accesses: u64,
    /// Accesses that found their page.
    pub hits: u64,
    /// Accesses that did not.
    pub misses: u64,
    /// Misses that made their page instead of reading it.
    pub creations: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Time it took.
    pub elapsed: Duration,
    /// Processor time of all threads, the pool's included.
    pub cpu: Duration,
    /// Lookups made, where counting them makes sense.
    pub lookups: Option<u64>,
    /// Misses of each tenant, by its name.
    pub tenant_misses: BTreeMap<String, u64>,
    /// How far ahead the deepest list of disclosed reads looked, by the time since the run began.
    pub depths: Vec<(Duration, u32)>,
    /// What the pool says about tenants and call sites.
    pub report: String,
}

impl Measurement {
    /// Lookups a second, where that makes sense.
    pub fn lookups_per_s(&self) -> Option<f64> {
        self.lookups.map(|lookups| lookups as f64 / self.elapsed.as_secs_f64())
    }
}

/// Counters and clocks at the moment from which a run is measured.
pub(super) struct Start {
    stats: Stats,
    time: Instant,
    cpu: Duration,
}

impl Start {
    /// Now, of `pool`.
    pub fn now(pool: &Pool) -> Self {
        Self { stats: pool.stats(), time: Instant::now(), cpu: cpu_time() }
    }

    /// What was done and took place since.
    pub fn until_now(&self, pool: &Pool, lookups: Option<u64>) -> Measurement {
        let (elapsed, cpu) = (self.time.elapsed(), cpu_time().saturating_sub(self.cpu));
        let stats = pool.stats();
        let since = |count: fn(&Stats) -> u64| count(&stats) - count(&self.stats);
        let before = |name: &str| misses(&self.stats).find(|(other, _)| *other == name).map_or(0, |(_, n)| n);
        Measurement {
            backend: pool.io().backend.to_owned(),
            frames: pool.frames(),
            accesses: since(|stats| stats.accesses),
            hits: since(|stats| stats.hits),
            misses: since(|stats| stats.misses),
            creations: since(|stats| stats.creations),
            reads: since(|stats| stats.reads),
            writes: since(|stats| stats.writes),
            elapsed,
            cpu,
            lookups,
            tenant_misses: misses(&stats)
                .map(|(name, misses)| (name.to_owned(), misses - before(name)))
                .collect(),
            depths: Vec::new(),
            report: pool.report().to_string(),
        }
    }
}

/// Names and misses of all tenants.
fn misses(stats: &Stats) -> impl Iterator<Item = (&str, u64)> {
    stats.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.misses))
}
