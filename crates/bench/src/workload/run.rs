//! One run of a workload under a scheme, measured.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bufpool::{Pool, PoolOptions, Recorder, Stats};

use super::{Database, PAGE_BYTES, Scheme, Session, Workload};
use crate::cpu_time::cpu_time;
use crate::progress;

/// Threads that a pool is prepared for at least; a merge holds as many pages as some threads.
const POOL_THREADS_MIN: u32 = 8;
/// Frames that a pool asks for beyond two for each thread.
const FRAMES_SPARE: u64 = 8;

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
    pub fn now(pool: &Pool) -> Self {
        Self { stats: pool.stats(), time: Instant::now(), cpu: cpu_time() }
    }
}

/// Builds what the workload needs, runs it in a pool of its own, which is cold, and checks its answer.
///
/// # Errors
/// As the pool's, if the options do not fit together, or if the answer is wrong.
pub fn run(
    workload: &dyn Workload,
    scheme: &Scheme,
    database: &Database,
    options: &RunOptions,
    recorder: Option<Box<dyn Recorder>>,
) -> Result<Measurement> {
    ensure!(options.threads >= 1, "0 threads: expected at least 1");
    ensure!(
        !options.deterministic || options.threads == 1,
        "{} threads: deterministic mode takes 1",
        options.threads
    );
    workload.build(database)?;
    let pool = open_pool(workload, scheme, database, options, recorder)?;
    let what = format!("{} under {}", workload.name(), scheme.name);
    let bar = progress::bar(&what, 1, "steps");
    let start = Mutex::new(Start::now(&pool));
    let session = Session {
        pool: &pool,
        database,
        scheme,
        threads: options.threads,
        seed: options.seed,
        batch: options.batch,
        deterministic: options.deterministic,
        progress: &bar,
        start: &start,
    };
    let answer = workload.run(&session).with_context(|| what.clone())?;
    bar.finish_and_clear();
    let start = start.into_inner().unwrap_or_else(PoisonError::into_inner);
    let measurement = measure(&start, &pool, workload.lookups(database));
    pool.close()?;
    answer.check(&what, workload.expected(database, options.seed))?;
    Ok(measurement)
}

fn open_pool(
    workload: &dyn Workload,
    scheme: &Scheme,
    database: &Database,
    options: &RunOptions,
    recorder: Option<Box<dyn Recorder>>,
) -> Result<Pool> {
    let threads_max = options.threads.max(POOL_THREADS_MIN);
    let mut pool = PoolOptions::new()
        .page_bytes(PAGE_BYTES)
        .threads_max(threads_max)
        .allocation(scheme.allocation)
        .manager(scheme.manager.kind())
        // What is compared is which pages stay: each miss of a policy shall be seen.
        .read_ahead(false)
        .io(database.io())
        .direct(database.direct());
    pool = match options.memory {
        Memory::Default => {
            let frames = workload.frames(database)?.max(u64::from(2 * threads_max) + FRAMES_SPARE);
            pool.frames(u32::try_from(frames).context("more frames than a pool can have")?)
        }
        Memory::Frames(frames) => pool.frames(frames),
        Memory::Bytes(bytes) => pool.memory_bytes(bytes),
    };
    if let Some(depth) = options.saturation_depth {
        pool = pool.saturation_depth(depth);
    }
    if options.deterministic {
        pool = pool.deterministic(options.seed);
    }
    if let Some(recorder) = recorder {
        pool = pool.recorder(recorder);
    }
    Ok(pool.open()?)
}

fn measure(start: &Start, pool: &Pool, lookups: Option<u64>) -> Measurement {
    let (elapsed, cpu) = (start.time.elapsed(), cpu_time().saturating_sub(start.cpu));
    let stats = pool.stats();
    let since = |count: fn(&Stats) -> u64| count(&stats) - count(&start.stats);
    let before = |name: &str| misses(&start.stats).find(|(other, _)| *other == name).map_or(0, |(_, n)| n);
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
        report: pool.report().to_string(),
    }
}

/// Names and misses of all tenants.
fn misses(stats: &Stats) -> impl Iterator<Item = (&str, u64)> {
    stats.tenants.iter().map(|tenant| (tenant.name.as_str(), tenant.misses))
}
