//! How long a tenant's reads take beside a tenant whose program runs for long. The program runs under the
//! policy lock, which the neighbour's misses need as well.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use anyhow::Result;
use bufpool::stats::ProgramStats;
use bufpool::{Direct, File, FileOptions, Io, IoBackend, PoolOptions, Program, Tenant};

use super::FRAMES;
use crate::machine::data_file::PAGE_BYTES;
use crate::random::Random;
use crate::rounds::{self, Spread, percentile_99_ns};

/// Pages of each tenant: twice as many as there are frames, so that both miss.
const PAGES: u64 = 2 * FRAMES as u64;

/// A neighbour's reads beside a tenant with one program, and beside one with another.
#[derive(Clone, Debug)]
pub struct Beside {
    /// The 99th percentile of the time of the neighbour's reads in nanoseconds, beside the sound program.
    pub sound_ns: Spread,
    /// The same beside the other program.
    pub other_ns: Spread,
    /// The time beside the other program, divided by the mean of the two beside the sound one in the same
    /// round.
    pub ratio: Spread,
    /// The second time beside the sound program, divided by the first in the same round.
    pub noise: Spread,
    /// What the other program did in the last round.
    pub stats: Option<ProgramStats>,
}

/// Times `reads` reads beside a tenant on another thread that misses all the time, three times a round: while
/// that tenant's program is `sound`, `other`, and `sound` again. The pages are those of
/// [`build_file`](super::build_file) at `path`, in the system's cache.
///
/// # Errors
/// As the pool's.
pub fn compare_neighbours(path: &Path, sound: &Program, other: &Program, reads: u64) -> Result<Beside> {
    let mut stats = None;
    let rounds = rounds::alternate("neighbour", || {
        let (before, _) = read_beside(path, sound, reads)?;
        let (beside, told) = read_beside(path, other, reads)?;
        stats = told;
        let (after, _) = read_beside(path, sound, reads)?;
        Ok([before, beside, after])
    })?;
    let spread = |of: fn(&[f64; 3]) -> f64| Spread::of(rounds.iter().map(of));
    Ok(Beside {
        sound_ns: spread(|[before, ..]| *before),
        other_ns: spread(|[_, beside, _]| *beside),
        ratio: spread(|[before, beside, after]| beside / before.midpoint(*after)),
        noise: spread(|[before, _, after]| after / before),
        stats,
    })
}

/// The 99th percentile of the neighbour's reads in a new pool, and what the program did meanwhile.
fn read_beside(path: &Path, program: &Program, reads: u64) -> Result<(f64, Option<ProgramStats>)> {
    let pool = PoolOptions::new()
        .frames(FRAMES)
        .page_bytes(PAGE_BYTES)
        .manager(None)
        .read_ahead(false)
        .io(Io::Require(IoBackend::Threads))
        .open()?;
    let file = pool.open_file(path, FileOptions::new().read_only(true).direct(Direct::Off))?;
    let neighbour = pool.tenant("neighbour").open()?;
    let managed = pool.tenant("managed").program(program).open()?;
    let is_over = AtomicBool::new(false);
    let times = thread::scope(|scope| {
        let other = scope.spawn(|| -> Result<()> {
            for page in (PAGES..2 * PAGES).cycle() {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                std::hint::black_box(managed.read(file.page(page))?[0]);
            }
            Ok(())
        });
        let times = timed_reads(&neighbour, &file, reads);
        is_over.store(true, Ordering::Relaxed);
        other.join().expect("the other reader does not panic")?;
        times
    });
    let stats = pool.stats().tenants.into_iter().find(|stats| stats.id == managed.id());
    Ok((percentile_99_ns(times?), stats.and_then(|stats| stats.program)))
}

/// Nanoseconds of each read, of pages that are drawn at random, those with low numbers more often.
fn timed_reads(neighbour: &Tenant, file: &File, reads: u64) -> Result<Vec<u32>> {
    let mut random = Random::new(1);
    let mut times = Vec::with_capacity(reads as usize);
    for _ in 0..reads {
        let page = (random.unit().powi(2) * PAGES as f64) as u64;
        let start = Instant::now();
        std::hint::black_box(neighbour.read(file.page(page))?[0]);
        times.push(u32::try_from(start.elapsed().as_nanos()).unwrap_or(u32::MAX));
    }
    Ok(times)
}
