//! One run of a workload under a scheme, measured.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, ensure};
use bufpool::engine::Recorder;
use bufpool::tier::{CompressedTier, TierAdmit, TierPolicy};
use bufpool::{ErrorKind, HintPolicy, Pool, PoolOptions};

use super::contract::Workload;
use super::database::{Database, PAGE_BYTES};
use super::depths::watched;
use super::measurement::{Measurement, Start};
use super::options::{Memory, RunOptions};
use super::scheme::Scheme;
use super::session::Session;
use crate::output::progress;

/// The fewest threads that a pool is opened for, since a merge pins as many pages as it merges runs.
const POOL_THREADS_MIN: u32 = 8;
/// Default frames are at least two for each thread of the pool, and this many more.
const FRAMES_SPARE: u64 = 8;

/// Builds the files that the workload needs, runs it in a pool of its own that begins empty, and checks its
/// answer.
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
        "--threads {}: in deterministic mode accesses come in one order; expected --threads 1",
        options.threads
    );
    ensure!(
        options.hints == HintPolicy::Off || workload.takes_hints(),
        "{} with hints: expected a workload that discloses its reads",
        workload.name()
    );
    workload.build(database)?;
    let pool = open_pool(workload, scheme, database, options, recorder)?;
    let what = format!("{} under {}", workload.name(), options.name_of(scheme));
    let bar = progress::bar(&what, 1, "steps");
    let start = Mutex::new(Start::now(&pool));
    let session = Session {
        pool: &pool,
        database,
        scheme,
        threads: options.threads,
        seed: options.seed,
        batch: options.batch,
        hints: options.hints,
        deterministic: options.deterministic,
        progress: &bar,
        start: &start,
    };
    let work = || workload.run(&session);
    let (answer, depths) = if options.watches_depths { watched(&pool, work) } else { (work(), Vec::new()) };
    let answer = answer.with_context(|| what.clone())?;
    bar.finish_and_clear();
    let start = start.into_inner().unwrap_or_else(PoisonError::into_inner);
    let measurement = Measurement { depths, ..start.until_now(&pool, workload.lookups(database)) };
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
        .read_ahead(options.read_ahead)
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
    if options.compressed_bytes > 0 {
        let tier = Arc::new(CompressedTier::new(options.compressed_bytes));
        pool = pool.tier(tier, TierPolicy::Demote, TierAdmit::All);
    }
    if let Some(depth) = options.saturation_depth {
        pool = pool.saturation_depth(depth);
    }
    if options.deterministic {
        pool = pool.deterministic(options.seed);
    }
    if let Some(recorder) = recorder {
        pool = pool.recorder(recorder);
    }
    pool.open().map_err(|error| {
        let flag = match options.memory {
            Memory::Frames(frames) => format!("--frames {frames}"),
            Memory::Bytes(bytes) => format!("--memory {bytes}"),
            Memory::Default => return error.into(),
        };
        let is_of_memory = error.kind() == ErrorKind::Memory;
        let error = anyhow::Error::from(error);
        if is_of_memory { error.context(flag) } else { error }
    })
}
