//! Bitmap scans: several index ranges, their tuples read in the order of the table.

use std::collections::BTreeSet;

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
const RANGE_TUPLES: u64 = 100;
/// Ranges of a scan.
const RANGES: u64 = 20;
/// Tuples of the table for each scan.
const TUPLES_PER_SCAN: u64 = 20_000;

/// Each scan reads the tuples of twenty ranges of `unique1` at random places, in the order of the table: at
/// the default size a third of the table's pages.
///
/// Three tenths of index and table fit in memory. There are no directives, since all tuples are equally
/// likely; only the disclosed reads tell more. Without hints pages are read one by one, or in batches.
pub struct BitmapScan;

impl BitmapScan {
    fn scans(database: &Database) -> u64 {
        database.sizes().tuples.div_ceil(TUPLES_PER_SCAN)
    }

    /// First and last keys of the ranges of scan `item`.
    fn ranges(database: &Database, seed: u64, item: u64) -> Vec<(u64, u64)> {
        let tuples = database.relation(Table::Large).tuples();
        let mut random = random_of(seed, item);
        let range = |first: u64| (first, (first + RANGE_TUPLES).min(tuples) - 1);
        (0..RANGES).map(|_| range(random.below(tuples))).collect()
    }
}

impl Workload for BitmapScan {
    fn name(&self) -> &'static str {
        "bitmap-scan"
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
        session.share(Self::scans(session.database), |item, answer| {
            let ranges = Self::ranges(session.database, session.seed, item);
            let tuples = tuples_of(&tenant, &index, &ranges)?;
            if session.gives_hints() {
                return scan_disclosed(&tenant, &table, tuples, answer);
            }
            let visits: Vec<&[Rid]> = tuples.chunk_by(|a, b| a.page == b.page).collect();
            if session.batch == 1 {
                for visit in visits {
                    add(answer, &table.page(&tenant, visit[0].page)?, visit.iter().map(|rid| rid.slot))?;
                }
                return Ok(());
            }
            for visits in visits.chunks(session.batch as usize) {
                let numbers: Vec<u64> = visits.iter().map(|visit| visit[0].page).collect();
                visit_together(&tenant, &table, &numbers, |at, page| {
                    add(answer, &page, visits[at].iter().map(|rid| rid.slot))
                })?;
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let relation = database.relation(Table::Large);
        let mut answer = Answer::default();
        for item in 0..Self::scans(database) {
            let ranges = Self::ranges(database, seed, item).into_iter();
            let keys: BTreeSet<u64> = ranges.flat_map(|(first, last)| first..=last).collect();
            for key in keys {
                answer.add(0, relation.unique2(key).expect("drawn from the relation's domain"));
            }
        }
        answer
    }
}

/// The tuples of all ranges, each once, in the order of the table.
fn tuples_of(tenant: &Tenant, index: &IndexTree, ranges: &[(u64, u64)]) -> Result<Vec<Rid>> {
    let mut tuples = Vec::new();
    for (first, last) in ranges {
        for entry in index.scan(tenant, first.to_be_bytes()..=last.to_be_bytes())? {
            tuples.push(Rid::from_bytes(entry?.1));
        }
    }
    tuples.sort_unstable();
    tuples.dedup();
    Ok(tuples)
}

fn scan_disclosed(tenant: &Tenant, table: &HeapFile, tuples: Vec<Rid>, answer: &mut Answer) -> Result<()> {
    let mut pages = operators::bitmap_scan(tenant, table, tuples.into_iter().map(Ok))?;
    while let Some((visit, guard)) = pages.next()? {
        let page = table.view(&*guard, guard.page().number())?;
        add(answer, &page, visit.iter().map(|(slot, ())| *slot))?;
    }
    Ok(())
}

fn add<B>(answer: &mut Answer, page: &HeapPage<B>, slots: impl Iterator<Item = u16>) -> Result<()>
where
    B: std::ops::Deref<Target = [u8]>,
{
    for slot in slots {
        answer.add(0, unique2(page.tuple(slot).context("an index entry without a tuple")?));
    }
    Ok(())
}
