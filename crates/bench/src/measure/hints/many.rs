//! Many lists that are open at the same time, against the same lists one after another.

use std::time::Instant;

use anyhow::Result;
use bufpool::{File, HintPolicy, HintedPage, Hints, PoolOptions, Tenant};

use crate::measure::comparison::{Bar, Comparison};
use crate::random::Random;
use crate::rounds::alternate;
use crate::workload::{Database, PAGE_BYTES, Table};

/// Pages of the file for each frame of the pool.
const PAGES_PER_FRAME: u64 = 6;
/// Fewest frames of the pool.
const FRAMES_MIN: u64 = 64;
/// Lists, as of so many queries that run at the same time.
const LISTS: usize = 1000;
/// Reads of a list.
const READS: usize = 24;

/// The time of a read, with a thousand lists of one tenant that are read in turns, and with the same lists
/// read one after another.
///
/// # Errors
/// As the pool's.
pub fn many_lists(database: &Database, seed: u64) -> Result<Vec<Comparison>> {
    database.build_table(Table::Large)?;
    let frames = (database.table_pages(Table::Large) / PAGES_PER_FRAME).max(FRAMES_MIN) as u32;
    let pool = PoolOptions::new().frames(frames).page_bytes(PAGE_BYTES).io(database.io()).open()?;
    let file = database.open_table(&pool, Table::Large)?.into_file();
    let pages = file.pages();
    let tenant = pool.tenant("queries").hints(HintPolicy::Auto).open()?;
    let mut random = Random::new(seed);
    let lists: Vec<Vec<HintedPage>> =
        (0..LISTS).map(|_| (0..READS).map(|_| file.page(random.below(pages)).into()).collect()).collect();
    let lists = Lists { tenant: &tenant, file: &file, pages, lists };
    let rounds = alternate("many lists", || Ok((lists.read_in(LISTS)?, lists.read_in(1)?)))?;
    Ok(vec![Comparison {
        work: "1,000 lists in turns, a read",
        unit: "us",
        against: "the same one after another".to_owned(),
        rounds,
        bar: Bar::AtMost(1.5),
    }])
}

struct Lists<'a> {
    tenant: &'a Tenant,
    file: &'a File,
    pages: u64,
    lists: Vec<Vec<HintedPage>>,
}

impl Lists<'_> {
    /// Reads all lists, `together` at a time in turns. Returns microseconds a read, with the time to open
    /// and to close the lists. No page is in memory at first.
    fn read_in(&self, together: usize) -> Result<f64> {
        self.file.discard(0..self.pages)?;
        let start = Instant::now();
        let mut reads = 0_u64;
        for group in self.lists.chunks(together) {
            let open = |pages: &Vec<HintedPage>| self.tenant.hint(pages.clone());
            let mut hints = group.iter().map(open).collect::<Result<Vec<Hints<_>>, _>>()?;
            for _ in 0..READS {
                for hints in &mut hints {
                    // A list whose reading has not begun follows the tenant's other reads of its pages.
                    if let Some(page) = hints.next()? {
                        std::hint::black_box(page[0]);
                        reads += 1;
                    }
                }
            }
        }
        Ok(start.elapsed().as_secs_f64() * 1e6 / reads as f64)
    }
}
