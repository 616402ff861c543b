//! Lists that are wrong: what they cost the tenant that gives them, and its neighbour.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use anyhow::Result;
use bufpool::{File, HintedPage, Pool, PoolOptions, Tenant};

use crate::measure::comparison::{Bar, Comparison};
use crate::random::{Permutation, Random};
use crate::rounds::alternate;
use crate::workload::{Database, PAGE_BYTES, Table};

/// Pages of the file for each frame of the pool.
const PAGES_PER_FRAME: u64 = 12;
/// Fewest frames of the pool.
const FRAMES_MIN: u64 = 64;
/// Reads of each tenant for each frame of the pool.
const READS_PER_FRAME: u64 = 10;
/// Reads after which the tenant extends its list by as many.
const READS_PER_CALL: usize = 16;
/// Floor of each tenant in frames.
const FLOOR_FRAMES: u32 = 16;

/// How a tenant's list compares with the reads that it makes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum List {
    /// There is no list.
    None,
    /// The list has the reads in their order.
    Right,
    /// The list has pages that are never read.
    Wrong,
    /// Half of the list's pages are never read.
    HalfWrong,
    /// One read in twenty has changed places with another.
    Shuffled,
    /// The list has the reads in their order, and is withdrawn half-way.
    Stopped,
}

/// Two tenants that read at random, each among as many pages as there are frames. One of them discloses its
/// reads, rightly or wrongly.
///
/// # Errors
/// As the pool's.
pub fn wrong_lists(database: &Database, seed: u64) -> Result<Vec<Comparison>> {
    const LISTS: [List; 7] =
        [List::None, List::Wrong, List::HalfWrong, List::Shuffled, List::Stopped, List::Right, List::None];
    database.build_table(Table::Large)?;
    let readers = Readers::new(database, seed);
    let mut rounds = Vec::new();
    alternate("wrong lists", || {
        rounds.push(LISTS.iter().map(|list| readers.beside(*list)).collect::<Result<Vec<_>>>()?);
        Ok(())
    })?;
    rounds.remove(0);
    let pairs = |list: usize, who: fn(&Elapsed) -> f64| {
        rounds.iter().map(|of: &Vec<Elapsed>| (who(&of[list]), who(&of[0]))).collect()
    };
    let tenant = |of: &Elapsed| of.tenant;
    let neighbour = |of: &Elapsed| of.neighbour;
    let time = |work, rounds, bar| Comparison { work, unit: "s", against: "no list".to_owned(), rounds, bar };
    Ok(vec![
        time("all hints wrong: the tenant", pairs(1, tenant), Bar::AtMost(1.15)),
        time("all hints wrong: its neighbour", pairs(1, neighbour), Bar::AtMost(1.10)),
        Comparison {
            work: "all hints wrong: its neighbour's misses in deterministic mode",
            unit: "misses",
            against: "no list".to_owned(),
            rounds: vec![(
                readers.neighbours_misses(List::Wrong)? as f64,
                readers.neighbours_misses(List::None)? as f64,
            )],
            bar: Bar::AtMost(1.0),
        },
        time("half of the hints wrong: the tenant", pairs(2, tenant), Bar::None),
        time("half of the hints wrong: its neighbour", pairs(2, neighbour), Bar::None),
        time("shuffled by 5 %: the tenant", pairs(3, tenant), Bar::None),
        time("shuffled by 5 %: its neighbour", pairs(3, neighbour), Bar::None),
        time("stopped half-way: the tenant", pairs(4, tenant), Bar::None),
        time("stopped half-way: its neighbour", pairs(4, neighbour), Bar::None),
        time("all hints right: the tenant", pairs(5, tenant), Bar::None),
        time("all hints right: its neighbour", pairs(5, neighbour), Bar::None),
        time("no list again: the tenant", pairs(6, tenant), Bar::None),
        time("no list again: its neighbour", pairs(6, neighbour), Bar::None),
    ])
}

/// Seconds that each tenant took.
struct Elapsed {
    tenant: f64,
    neighbour: f64,
}

struct Readers<'a> {
    database: &'a Database,
    frames: u64,
    seed: u64,
}

impl<'a> Readers<'a> {
    fn new(database: &'a Database, seed: u64) -> Self {
        let frames = (database.table_pages(Table::Large) / PAGES_PER_FRAME).max(FRAMES_MIN);
        Self { database, frames, seed }
    }

    fn reads(&self) -> usize {
        (self.frames * READS_PER_FRAME) as usize
    }

    /// The pages that the tenant reads, drawn from the file's first pages, of which there are as many as
    /// frames.
    fn tenants_pages(&self) -> Vec<u64> {
        let mut random = Random::new(self.seed);
        (0..self.reads()).map(|_| random.below(self.frames)).collect()
    }

    /// The pages that the neighbour reads, drawn from as many pages after the tenant's.
    fn neighbours_pages(&self) -> Vec<u64> {
        let mut random = Random::new(!self.seed);
        (0..self.reads()).map(|_| self.frames + random.below(self.frames)).collect()
    }

    /// The pages on the tenant's list if it reads `pages`.
    fn list_of(&self, list: List, pages: &[u64]) -> Vec<u64> {
        let (mut named, mut random) = (pages.to_vec(), Random::new(self.seed ^ 1));
        let file_pages = self.database.table_pages(Table::Large);
        let unread = |random: &mut Random| 2 * self.frames + random.below(file_pages - 2 * self.frames);
        match list {
            List::None => named.clear(),
            List::Right | List::Stopped => {}
            List::Wrong => named.iter_mut().for_each(|page| *page = unread(&mut random)),
            List::HalfWrong => {
                named.iter_mut().filter(|_| random.below(2) == 0).for_each(|page| *page = u64::MAX);
                let wrong = named.iter_mut().filter(|page| **page == u64::MAX);
                wrong.for_each(|page| *page = unread(&mut random));
            }
            List::Shuffled => {
                let places = Permutation::new(named.len() as u64, self.seed);
                let swapped: Vec<usize> =
                    (0..named.len() as u64 / 20).map(|at| places.apply(at) as usize).collect();
                swapped.chunks_exact(2).for_each(|pair| named.swap(pair[0], pair[1]));
            }
        }
        named
    }

    fn open(&self, deterministic: bool) -> Result<(Pool, File, [Tenant; 2])> {
        let mut options =
            PoolOptions::new().frames(self.frames as u32).page_bytes(PAGE_BYTES).io(self.database.io());
        if deterministic {
            options = options.deterministic(self.seed).manager(None);
        }
        let pool = options.threads_max(4).open()?;
        let file = self.database.open_table(&pool, Table::Large)?.into_file();
        // LRU-SP guarantees that wrong advice costs a neighbour no miss; floors are no part of that
        // guarantee.
        let floor = if deterministic { 0 } else { FLOOR_FRAMES };
        let tenant = |name: &str| pool.tenant(name).floor_frames(floor).open();
        let tenants = [tenant("hinting")?, tenant("neighbour")?];
        Ok((pool, file, tenants))
    }

    /// Times both tenants, which read at the same time. The one that ends first goes on reading until the
    /// other ends.
    fn beside(&self, list: List) -> Result<Elapsed> {
        let (pool, file, [tenant, neighbour]) = self.open(false)?;
        let (mine, others) = (self.tenants_pages(), self.neighbours_pages());
        let named = self.list_of(list, &mine);
        let running = AtomicU32::new(2);
        let timed = |run: &mut dyn FnMut() -> Result<()>| {
            let start = Instant::now();
            let outcome = run();
            let elapsed = start.elapsed().as_secs_f64();
            // Relaxed: the count ends loops and publishes nothing.
            running.fetch_sub(1, Ordering::Relaxed);
            outcome?;
            while running.load(Ordering::Relaxed) > 0 {
                run()?;
            }
            anyhow::Ok(elapsed)
        };
        let elapsed = std::thread::scope(|scope| {
            let beside = scope.spawn(|| {
                let mut run = || others.iter().try_for_each(|page| read(&neighbour, &file, *page));
                timed(&mut run)
            });
            let tenant = timed(&mut || read_disclosed(&tenant, &file, &mine, &named, list))?;
            let neighbour = beside.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            anyhow::Ok(Elapsed { tenant, neighbour })
        })?;
        pool.close()?;
        Ok(elapsed)
    }

    /// Misses of the neighbour in deterministic mode, where the two tenants read in turn.
    fn neighbours_misses(&self, list: List) -> Result<u64> {
        let (pool, file, [tenant, neighbour]) = self.open(true)?;
        let (mine, others) = (self.tenants_pages(), self.neighbours_pages());
        let mut hints = tenant.hint([])?;
        let named = self.list_of(list, &mine);
        hints.extend(named.iter().map(|page| hint(&file, *page)));
        for (mine, other) in mine.iter().zip(&others) {
            read(&tenant, &file, *mine)?;
            read(&neighbour, &file, *other)?;
        }
        drop(hints);
        let stats = pool.stats();
        let misses = stats.tenants.iter().find(|tenant| tenant.name == "neighbour").map(|of| of.misses);
        pool.close()?;
        Ok(misses.expect("a tenant that was opened"))
    }
}

fn hint(file: &File, page: u64) -> HintedPage {
    file.page(page).into()
}

fn read(tenant: &Tenant, file: &File, page: u64) -> Result<()> {
    std::hint::black_box(tenant.read(file.page(page))?[0]);
    Ok(())
}

/// Reads `pages`, and discloses the pages `named`, always the same number of reads ahead.
fn read_disclosed(tenant: &Tenant, file: &File, pages: &[u64], named: &[u64], list: List) -> Result<()> {
    if list == List::None {
        return pages.iter().try_for_each(|page| read(tenant, file, *page));
    }
    let mut hints = tenant.hint([])?;
    let stop = if list == List::Stopped { pages.len() / 2 } else { pages.len() };
    let mut named = named.iter();
    hints.extend(named.by_ref().take(16 * READS_PER_CALL).map(|page| hint(file, *page)));
    for reads in pages[..stop].chunks(READS_PER_CALL) {
        reads.iter().try_for_each(|page| read(tenant, file, *page))?;
        hints.extend(named.by_ref().take(READS_PER_CALL).map(|page| hint(file, *page)));
    }
    drop(hints);
    pages[stop..].iter().try_for_each(|page| read(tenant, file, *page))
}
