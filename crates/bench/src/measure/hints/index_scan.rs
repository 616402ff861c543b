//! An index scan whose tuples lie all over the table: with disclosed reads, in batches of `read_many`, and
//! with single reads.

use std::time::Instant;

use anyhow::{Context, Result};
use bufpool::{HintPolicy, Pool, PoolOptions, Tenant};
use bufpool_examples::heap::{HeapFile, Rid};
use bufpool_examples::operators;

use crate::measure::comparison::{Bar, Comparison};
use crate::output::note;
use crate::random::Random;
use crate::rounds::{Spread, alternate};
use crate::workload::{Answer, Database, Index, IndexTree, PAGE_BYTES, Table, TuplesByIndex};

/// Pages of the table for each frame of the pool.
const PAGES_PER_FRAME: u64 = 6;
/// Fewest frames of the pool.
const FRAMES_MIN: u64 = 64;
/// Tuples of the relation for each tuple that is scanned.
const TUPLES_PER_KEY: u64 = 50;
const HINTING: &str = "hinting";
/// Scans of a round that are timed up to their first row.
const FIRST_ROWS: u64 = 101;

/// Scans by `unique1`, with neither index nor table in memory, and the time to the first row of a scan, with
/// the index in memory. Batches have `batch` tuples.
///
/// # Errors
/// As the pool's; if a scan does not find as many rows as it has keys.
pub fn index_scans(database: &Database, batch: usize, seed: u64) -> Result<Vec<Comparison>> {
    database.build_table(Table::Large)?;
    database.build_index(Index::LargeUnique1)?;
    let scans = Scans::open(database, seed)?;
    let mut rounds = Vec::new();
    alternate("index scan", || {
        let disclosed =
            scans.rate(&scans.hinting, |scan, keys, answer| scan.disclosed(keys.0, keys.1, answer))?;
        let in_batches = |scan: &TuplesByIndex<'_>, keys: (u64, u64), answer: &mut Answer| {
            scan.in_batches(keys.0, keys.1, batch, answer)
        };
        let batches = scans.rate(&scans.plain, in_batches)?;
        let single =
            scans.rate(&scans.plain, |scan, keys, answer| scan.one_by_one(keys.0, keys.1, answer))?;
        let again = scans.rate(&scans.plain, in_batches)?;
        rounds.push([disclosed, batches, single, again]);
        Ok(())
    })?;
    let stats = scans.pool.stats();
    let of = stats.tenants.iter().find(|tenant| tenant.name == HINTING).expect("a tenant that was opened");
    note(format_args!(
        "index scan: backend {}; disclosed, of {} accesses: {} waited for a page on its way, {} missed; \
         {} pages came ahead, {} of them for nothing",
        scans.pool.io().backend,
        of.accesses,
        stats.waited,
        of.misses,
        of.prefetched,
        of.prefetch_wasted
    ));
    let first_rows = alternate("first row", || scans.first_rows())?;
    let pairs = |ours: usize, theirs: usize| rounds[1..].iter().map(|of| (of[ours], of[theirs])).collect();
    let throughput = |against: String, rounds, bar| Comparison {
        work: "index scan with heap fetches",
        unit: "tuples/s",
        against,
        rounds,
        bar,
    };
    Ok(vec![
        throughput(format!("read_many of {batch}"), pairs(0, 1), Bar::AtLeast(0.95)),
        throughput("single reads".to_owned(), pairs(0, 2), Bar::AtLeast(3.0)),
        Comparison {
            work: "the same in batches once more",
            ..throughput(format!("read_many of {batch}"), pairs(3, 1), Bar::None)
        },
        Comparison {
            work: "index scan: first row",
            unit: "us",
            against: "a single read".to_owned(),
            rounds: first_rows,
            bar: Bar::AtMost(1.5),
        },
    ])
}

/// Index and table in a pool.
struct Scans {
    pool: Pool,
    hinting: Tenant,
    plain: Tenant,
    index: IndexTree,
    table: HeapFile,
    tuples: u64,
    seed: u64,
}

impl Scans {
    fn open(database: &Database, seed: u64) -> Result<Self> {
        let frames = (database.table_pages(Table::Large) / PAGES_PER_FRAME).max(FRAMES_MIN) as u32;
        let pool = PoolOptions::new().frames(frames).page_bytes(PAGE_BYTES).io(database.io()).open()?;
        let plain = pool.tenant("plain").open()?;
        Ok(Self {
            hinting: pool.tenant(HINTING).hints(HintPolicy::Auto).open()?,
            index: database.open_index(&pool, &plain, Index::LargeUnique1)?,
            table: database.open_table(&pool, Table::Large)?,
            tuples: database.relation(Table::Large).tuples(),
            plain,
            pool,
            seed,
        })
    }

    /// Gives up all pages of the table in the pool.
    fn forget_table(&self) -> Result<()> {
        Ok(self.table.file().discard(0..self.table.pages())?)
    }

    /// Tuples a second of a scan with neither index nor table in memory, always of the same keys.
    fn rate(
        &self,
        tenant: &Tenant,
        scan: impl FnOnce(&TuplesByIndex<'_>, (u64, u64), &mut Answer) -> Result<()>,
    ) -> Result<f64> {
        self.forget_table()?;
        self.index.file().discard(0..self.index.file().pages())?;
        let keys = (self.tuples / 3, self.tuples / 3 + self.tuples / TUPLES_PER_KEY - 1);
        let tuples = TuplesByIndex { tenant, index: &self.index, table: &self.table };
        let (mut answer, start) = (Answer::default(), Instant::now());
        scan(&tuples, keys, &mut answer)?;
        let elapsed = start.elapsed();
        anyhow::ensure!(
            answer.rows == keys.1 - keys.0 + 1,
            "{} rows: expected those of {keys:?}",
            answer.rows
        );
        Ok(answer.rows as f64 / elapsed.as_secs_f64())
    }

    /// Medians of the times from opening a scan to its first row, in microseconds, with disclosed reads and
    /// with a single read. The path to the first key is in memory, the table is not.
    fn first_rows(&self) -> Result<(f64, f64)> {
        let mut random = Random::new(self.seed);
        let (mut disclosed, mut single) = (Vec::new(), Vec::new());
        for _ in 0..FIRST_ROWS {
            let first = random.below(self.tuples);
            disclosed.push(self.first_row(first, |keys| {
                let mut rows = operators::index_scan(&self.hinting, &self.index, &self.table, keys)?;
                drop(rows.next()?.context("a first row")?);
                Ok(rows)
            })?);
            single.push(self.first_row(first, |keys| {
                let mut entries = self.index.scan(&self.plain, keys)?;
                let (_, rid) = entries.next().context("a first row")??;
                drop(self.table.page(&self.plain, Rid::from_bytes(rid).page)?);
                Ok(())
            })?);
        }
        Ok((Spread::of(disclosed).median, Spread::of(single).median))
    }

    /// The time of `read` in microseconds, without the time to drop what it returns.
    fn first_row<T>(
        &self,
        first: u64,
        read: impl FnOnce(std::ops::RangeFrom<[u8; 8]>) -> Result<T>,
    ) -> Result<f64> {
        self.index.get(&self.plain, &first.to_be_bytes())?;
        self.forget_table()?;
        let start = Instant::now();
        let rest = read(first.to_be_bytes()..)?;
        let elapsed = start.elapsed();
        drop(rest);
        Ok(elapsed.as_secs_f64() * 1e6)
    }
}
