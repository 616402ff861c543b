//! Index nested-loop join: the paper's `pjn`, a Postgres join with an index that just about fits in memory.

use anyhow::Result;
use bufpool_examples::heap::Rid;

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Index, Table};
use super::session::Session;
use super::wisconsin::{unique1, unique2};

/// Looks up each tuple of the sparse relation in the large one's index on `unique1`; one in five has a
/// partner to fetch.
///
/// Memory is a quarter more than the index. Directive (the paper's): the index has priority 1, so that
/// neither the outer relation, read once, nor the tuples fetched push it out.
pub struct IndexJoin;

impl Workload for IndexJoin {
    fn name(&self) -> &'static str {
        "index-join"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Sparse)?;
        database.build_table(Table::Large)?;
        database.build_index(Index::LargeUnique1)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok(database.index_pages(Index::LargeUnique1)? * 5 / 4)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let outer = session.database.open_table(session.pool, Table::Sparse)?;
        let inner = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("join", |_| Ok(()))?;
        let index = session.database.open_index(session.pool, &tenant, Index::LargeUnique1)?;
        if session.takes_advice() {
            tenant.set_priority(index.file(), 1)?;
        }

        session.share(outer.pages(), |number, answer| {
            let page = outer.page(&tenant, number)?;
            for (_, tuple) in page.tuples() {
                let Some(rid) = index.get(&tenant, &unique1(tuple).to_be_bytes())? else { continue };
                if let Some(partner) = inner.get(&tenant, Rid::from_bytes(rid), unique2)? {
                    answer.add(unique2(tuple), partner);
                }
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, _seed: u64) -> Answer {
        let (outer, inner) = (database.relation(Table::Sparse), database.relation(Table::Large));
        let partner = |unique2| {
            let unique1 = outer.unique1(unique2);
            if unique1 < inner.tuples() { inner.unique2(unique1) } else { None }
        };
        (0..outer.tuples()).filter_map(|unique2| Some((unique2, partner(unique2)?))).collect()
    }
}
