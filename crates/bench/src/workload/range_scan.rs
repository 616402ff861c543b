//! Index range scans in the order of the table.

use anyhow::Result;
use bufpool_examples::heap::{HeapPage, Rid};

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Index, Table};
use super::session::{Session, random_of};
use super::wisconsin::unique2;

/// Tuples of a range.
const RANGE_TUPLES: u64 = 100;

/// Scans short ranges of `unique2` at random places. A scan accesses the root, one or two leaves, and three
/// or four table pages.
///
/// Three tenths of index and table fit in memory. Directive (the paper's for a hot file): the index has
/// priority 1, since more ranges access a leaf than a table page.
pub struct RangeScan;

impl RangeScan {
    fn ranges(database: &Database) -> u64 {
        database.sizes().tuples / 40
    }

    /// First and last key of range `item`.
    fn range(database: &Database, seed: u64, item: u64) -> (u64, u64) {
        let tuples = database.relation(Table::Large).tuples();
        let first = random_of(seed, item).below(tuples);
        (first, (first + RANGE_TUPLES).min(tuples) - 1)
    }
}

impl Workload for RangeScan {
    fn name(&self) -> &'static str {
        "range-scan"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Large)?;
        database.build_index(Index::LargeUnique2)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok((database.table_pages(Table::Large) + database.index_pages(Index::LargeUnique2)?) * 3 / 10)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let table = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("ranges", |_| Ok(()))?;
        let index = session.database.open_index(session.pool, &tenant, Index::LargeUnique2)?;
        if session.takes_advice() {
            tenant.set_priority(index.file(), 1)?;
        }

        session.share(Self::ranges(session.database), |item, answer| {
            let (first, last) = Self::range(session.database, session.seed, item);
            // One access to a table page for all its tuples in the range.
            let mut visited: Option<(u64, HeapPage<_>)> = None;
            for entry in index.scan(&tenant, first.to_be_bytes()..=last.to_be_bytes())? {
                let (key, rid) = entry?;
                let rid = Rid::from_bytes(rid);
                if visited.as_ref().is_none_or(|(number, _)| *number != rid.page) {
                    drop(visited.take());
                    visited = Some((rid.page, table.page(&tenant, rid.page)?));
                }
                if let Some(tuple) = visited.as_ref().and_then(|(_, page)| page.tuple(rid.slot)) {
                    answer.add(u64::from_be_bytes(key), unique2(tuple));
                }
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let ranges = (0..Self::ranges(database)).map(|item| Self::range(database, seed, item));
        ranges.flat_map(|(first, last)| (first..=last).map(|key| (key, key))).collect()
    }
}
