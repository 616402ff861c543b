//! What a run cost: differences of counters and clocks.

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
    /// Frames of the pool, without its clean reserve.
    pub frames: u32,
    /// Accesses: guards that were granted.
    pub accesses: u64,
    /// Accesses whose page was in memory.
    pub hits: u64,
    /// Accesses whose page was not in memory.
    pub misses: u64,
    /// Misses that created their page instead of reading it.
    pub creations: u64,
    /// Pages read.
    pub reads: u64,
    /// Pages written.
    pub writes: u64,
    /// Elapsed time.
    pub elapsed: Duration,
    /// Processor time of all threads of the process, including those of the pool.
    pub cpu: Duration,
    /// Lookups made; `None` if the workload is not one of lookups.
    pub lookups: Option<u64>,
    /// Misses of each tenant, by its name.
    pub tenant_misses: BTreeMap<String, u64>,
    /// Samples of how far ahead the deepest list of disclosed reads fetched, in reads, each with the time
    /// since the run began.
    pub depths: Vec<(Duration, u32)>,
    /// The pool's report on tenants and call sites.
    pub report: String,
}

impl Measurement {
    /// Lookups a second; `None` if the workload is not one of lookups.
    pub fn lookups_per_s(&self) -> Option<f64> {
        self.lookups.map(|lookups| lookups as f64 / self.elapsed.as_secs_f64())
    }
}

/// Counters and clocks at the moment at which the measurement of a run starts.
pub(super) struct Start {
    stats: Stats,
    time: Instant,
    cpu: Duration,
}

impl Start {
    /// The counters of `pool` and the clocks, now.
    pub fn now(pool: &Pool) -> Self {
        Self { stats: pool.stats(), time: Instant::now(), cpu: cpu_time() }
    }

    /// The measurement from the start until now.
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
