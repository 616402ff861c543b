//! Index range scans whose tuples lie all over the table.

use anyhow::{Context, Result};
use bufpool::Tenant;
use bufpool_examples::heap::{HeapFile, HeapPage, Rid};
use bufpool_examples::operators;

use super::answer::Answer;
use super::batches::visit_together;
use super::contract::Workload;
use super::database::{Database, Index, IndexTree, Table};
use super::session::{Session, random_of};
use super::wisconsin::unique2;

/// Tuples of a range.
const RANGE_TUPLES: u64 = 250;

/// Scans ranges of `unique1` at random places. Nearly each tuple is on another page of the table, in no
/// order.
///
/// Three tenths of index and table fit in memory. There are no directives, since all tuples are equally
/// likely; only the disclosed reads tell more. Without hints tuples are read one by one, or in batches.
pub struct IndexScan;

impl IndexScan {
    fn ranges(database: &Database) -> u64 {
        (database.sizes().tuples / 8).div_ceil(RANGE_TUPLES)
    }

    /// First and last key of range `item`.
    fn range(database: &Database, seed: u64, item: u64) -> (u64, u64) {
        let tuples = database.relation(Table::Large).tuples();
        let first = random_of(seed, item).below(tuples);
        (first, (first + RANGE_TUPLES).min(tuples) - 1)
    }
}

impl Workload for IndexScan {
    fn name(&self) -> &'static str {
        "index-scan"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Large)?;
        database.build_index(Index::LargeUnique1)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok((database.table_pages(Table::Large) + database.index_pages(Index::LargeUnique1)?) * 3 / 10)
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn takes_hints(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let table = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("scans", |_| Ok(()))?;
        let index = session.database.open_index(session.pool, &tenant, Index::LargeUnique1)?;
        let scan = TuplesByIndex { tenant: &tenant, index: &index, table: &table };
        session.share(Self::ranges(session.database), |item, answer| {
            let (first, last) = Self::range(session.database, session.seed, item);
            match session.batch {
                _ if session.gives_hints() => scan.disclosed(first, last, answer),
                1 => scan.one_by_one(first, last, answer),
                batch => scan.in_batches(first, last, batch as usize, answer),
            }
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let relation = database.relation(Table::Large);
        let ranges = (0..Self::ranges(database)).map(|item| Self::range(database, seed, item));
        let keys = ranges.flat_map(|(first, last)| first..=last);
        keys.map(|key| (key, relation.unique2(key).expect("drawn from the relation's domain"))).collect()
    }
}

/// An index and its table, and three ways to read the tuples of a range of keys.
pub struct TuplesByIndex<'a> {
    /// The tenant that reads.
    pub tenant: &'a Tenant,
    /// The index.
    pub index: &'a IndexTree,
    /// The table.
    pub table: &'a HeapFile,
}

impl TuplesByIndex<'_> {
    /// Reads the tuples of the keys `first..=last`, and discloses their pages before.
    ///
    /// # Errors
    /// As the pool's.
    pub fn disclosed(&self, first: u64, last: u64, answer: &mut Answer) -> Result<()> {
        let keys = first.to_be_bytes()..=last.to_be_bytes();
        let mut pages = operators::index_scan(self.tenant, self.index, self.table, keys)?;
        while let Some((visit, guard)) = pages.next()? {
            let page = self.table.view(&*guard, guard.page().number())?;
            visit.iter().try_for_each(|(slot, key)| add(answer, *key, &page, *slot))?;
        }
        Ok(())
    }

    /// Reads the tuples one after the other.
    ///
    /// # Errors
    /// As the pool's.
    pub fn one_by_one(&self, first: u64, last: u64, answer: &mut Answer) -> Result<()> {
        for entry in self.index.scan(self.tenant, first.to_be_bytes()..=last.to_be_bytes())? {
            let (key, rid) = entry?;
            let rid = Rid::from_bytes(rid);
            add(answer, key, &self.table.page(self.tenant, rid.page)?, rid.slot)?;
        }
        Ok(())
    }

    /// Reads `batch` tuples at a time.
    ///
    /// # Errors
    /// As the pool's.
    pub fn in_batches(&self, first: u64, last: u64, batch: usize, answer: &mut Answer) -> Result<()> {
        let mut entries = self.index.scan(self.tenant, first.to_be_bytes()..=last.to_be_bytes())?;
        loop {
            let entries = entries.by_ref().take(batch);
            let entries = entries.map(|entry| entry.map(|(key, rid)| (key, Rid::from_bytes(rid))));
            let entries = entries.collect::<bufpool_examples::Result<Vec<_>>>()?;
            if entries.is_empty() {
                return Ok(());
            }
            let numbers: Vec<u64> = entries.iter().map(|(_, rid)| rid.page).collect();
            visit_together(self.tenant, self.table, &numbers, |at, page| {
                let (key, rid) = entries[at];
                add(answer, key, &page, rid.slot)
            })?;
        }
    }
}

fn add<B>(answer: &mut Answer, key: [u8; 8], page: &HeapPage<B>, slot: u16) -> Result<()>
where
    B: std::ops::Deref<Target = [u8]>,
{
    let tuple = page.tuple(slot).context("an index entry without a tuple")?;
    answer.add(u64::from_be_bytes(key), unique2(tuple));
    Ok(())
}
