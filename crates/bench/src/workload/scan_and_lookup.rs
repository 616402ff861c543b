//! A full scan beside point lookups: pages that are read once beside pages that are read again and again.

use anyhow::Result;
use bufpool_examples::heap::Rid;

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Index, Table};
use super::session::{Session, random_of};
use super::wisconsin::unique2;

/// Lookups for each page of the scan.
const LOOKUPS_PER_PAGE: u64 = 2;

/// Scans the large relation, with two lookups in the small one, through its index, after each page.
///
/// Three quarters of the small relation and its index fit in memory. Directive (the paper's for a file read
/// once): the scanned file has priority −1, so that its pages replace one another.
pub struct ScanAndLookup;

impl Workload for ScanAndLookup {
    fn name(&self) -> &'static str {
        "scan-and-lookup"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Large)?;
        database.build_table(Table::Small)?;
        database.build_index(Index::SmallUnique1)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok((database.table_pages(Table::Small) + database.index_pages(Index::SmallUnique1)?) * 3 / 4)
    }

    fn lookups(&self, database: &Database) -> Option<u64> {
        Some(database.table_pages(Table::Large) * LOOKUPS_PER_PAGE)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let scanned = session.database.open_table(session.pool, Table::Large)?;
        let small = session.database.open_table(session.pool, Table::Small)?;
        let tenant = session.tenant("report", |report| report.set_priority(scanned.file(), -1).map(drop))?;
        let index = session.database.open_index(session.pool, &tenant, Index::SmallUnique1)?;

        session.share(scanned.pages(), |number, answer| {
            let page = scanned.page(&tenant, number)?;
            for (_, tuple) in page.tuples() {
                answer.add(0, unique2(tuple));
            }
            drop(page);
            for key in keys(session.database, session.seed, number) {
                let rid = index.get(&tenant, &key.to_be_bytes())?;
                let tuple = rid.map(|rid| small.get(&tenant, Rid::from_bytes(rid), unique2)).transpose()?;
                if let Some(unique2) = tuple.flatten() {
                    answer.add(1 + key, unique2);
                }
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let small = database.relation(Table::Small);
        let mut answer: Answer =
            (0..database.relation(Table::Large).tuples()).map(|unique2| (0, unique2)).collect();
        for key in (0..database.table_pages(Table::Large)).flat_map(|number| keys(database, seed, number)) {
            answer.add(1 + key, small.unique2(key).expect("drawn from the relation's domain"));
        }
        answer
    }
}

/// The keys looked up after page `number`.
fn keys(database: &Database, seed: u64, number: u64) -> [u64; LOOKUPS_PER_PAGE as usize] {
    let mut random = random_of(seed, number);
    let tuples = database.relation(Table::Small).tuples();
    std::array::from_fn(|_| random.below(tuples))
}
