//! A pool with many tenants, each with a floor: what it takes to open them, to hit, to miss, to ask for
//! statistics, and to close them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use bufpool::{File, FileOptions, ManagerKind, Pool, PoolOptions, Tenant};

use crate::measure::tiers::{Numbered, PAGE_BYTES};
use crate::random::Random;

/// Frames of the pool: enough for a floor of one for each of 10,000 tenants.
const FRAMES: u32 = 16_384;
/// Pages of the source: so many that about three of four random reads miss.
const PAGES: u64 = 4 * FRAMES as u64;
/// Pages that stay resident while hits are counted.
const RESIDENT: u64 = 10_000;
const HITS: u64 = 1_000_000;
const MISSES: u64 = 100_000;
const ASKED: u64 = 100;

/// Something that is done to the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// A tenant is opened.
    Open,
    /// A resident page is read, by each tenant in turn.
    Hit,
    /// A random page is read, by each tenant in turn. The time of all reads is divided by the misses.
    Miss,
    /// [`Pool::stats`] is called.
    Stats,
    /// A tenant is closed.
    Close,
}

impl Work {
    /// All of them, in the order they are done.
    pub const ALL: [Self; 5] = [Self::Open, Self::Hit, Self::Miss, Self::Stats, Self::Close];

    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Hit => "hit",
            Self::Miss => "miss",
            Self::Stats => "stats",
            Self::Close => "close",
        }
    }
}

/// How often each [`Work`] was done, and the nanoseconds that it took each time; in the order of
/// [`Work::ALL`].
pub type LiveCosts = [(u64, f64); 5];

/// Opens a pool and `tenants` tenants in it, each with a floor of one frame, and does every [`Work`].
///
/// # Errors
///
/// As the pool's; if a page is not what the source has.
///
/// # Panics
///
/// If there are no tenants.
pub fn live(tenants: u32, manager: Option<ManagerKind>, seed: u64) -> Result<LiveCosts> {
    let pool = PoolOptions::new().frames(FRAMES).page_bytes(PAGE_BYTES).read_ahead(false).open()?;
    let source = Arc::new(Numbered::new(PAGES, Duration::ZERO)?);
    let file = pool.open_source(source, FileOptions::new().read_only(true))?;
    let began = Instant::now();
    let open =
        |number| Ok(pool.tenant(format!("tenant {number}")).floor_frames(1).manager(manager).open()?);
    let readers = (0..tenants).map(open).collect::<Result<Vec<Tenant>>>()?;
    let opening = per(began.elapsed(), u64::from(tenants));
    let turn = |at: u64| &readers[(at % u64::from(tenants)) as usize];
    (0..RESIDENT).try_for_each(|number| read(turn(number), &file, number))?;
    let began = Instant::now();
    (0..HITS).try_for_each(|at| read(turn(at), &file, at % RESIDENT))?;
    let hitting = per(began.elapsed(), HITS);
    let missing = misses(&pool, &file, turn, seed)?;
    let began = Instant::now();
    let counted = (0..ASKED).map(|_| std::hint::black_box(pool.stats()).accesses).max();
    let asking = per(began.elapsed(), ASKED);
    ensure!(counted > Some(HITS), "accesses are counted");
    let began = Instant::now();
    readers.into_iter().try_for_each(Tenant::close)?;
    let closing = per(began.elapsed(), u64::from(tenants));
    Ok([opening, hitting, missing, asking, closing])
}

/// Makes random reads, about [`MISSES`] of which miss. Returns the number of misses and the nanoseconds a
/// miss.
fn misses<'t>(pool: &Pool, file: &File, turn: impl Fn(u64) -> &'t Tenant, seed: u64) -> Result<(u64, f64)> {
    let mut random = Random::new(seed);
    let numbers: Vec<u64> = (0..MISSES * 4 / 3).map(|_| random.below(PAGES)).collect();
    let before = pool.stats().misses;
    let began = Instant::now();
    (0..).zip(&numbers).try_for_each(|(at, number)| read(turn(at), file, *number))?;
    let elapsed = began.elapsed();
    Ok(per(elapsed, pool.stats().misses - before))
}

fn read(tenant: &Tenant, file: &File, number: u64) -> Result<()> {
    let page = tenant.read(file.page(number))?;
    let found = u64::from_le_bytes(page[..8].try_into().expect("eight bytes"));
    ensure!(found == number, "page {number} has the contents of page {found}");
    Ok(())
}

fn per(elapsed: Duration, times: u64) -> (u64, f64) {
    (times, elapsed.as_nanos() as f64 / times.max(1) as f64)
}
