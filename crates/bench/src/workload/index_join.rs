//! Index nested-loop join: the paper's `pjn`, a Postgres join whose index just fits in memory.

use anyhow::{Context, Result};
use bufpool::Tenant;
use bufpool_examples::heap::{HeapFile, Rid};
use bufpool_examples::operators::index_join;

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Index, Table};
use super::session::Session;
use super::wisconsin::{unique1, unique2};

/// Keys that are looked up together if reads are disclosed.
const KEYS_TOGETHER: usize = 32;

/// Looks up each tuple of the sparse relation in the index on `unique1` of the large one. About one in five
/// has a partner, which is fetched.
///
/// Memory is a quarter more than the index. Directive (the paper's): the index has priority 1, so that
/// neither the outer relation, which is read once, nor the tuples fetched displace it.
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

    fn takes_hints(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let outer = session.database.open_table(session.pool, Table::Sparse)?;
        let inner = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("join", |_| Ok(()))?;
        let index = session.database.open_index(session.pool, &tenant, Index::LargeUnique1)?;
        if session.takes_advice() {
            tenant.set_priority(index.file(), 1)?;
        }

        if session.gives_hints() {
            return session.share_ranges(outer.pages(), |numbers, answer| {
                let keys = numbers.flat_map(|number| keys_of(&tenant, &outer, number));
                let mut partners = index_join(&tenant, keys, &index, &inner, KEYS_TOGETHER)?;
                while let Some((visit, guard)) = partners.next()? {
                    let page = inner.view(&*guard, guard.page().number())?;
                    for (slot, outer) in visit {
                        let partner = page.tuple(slot).map(unique2);
                        answer.add(outer, partner.context("an index entry without a tuple")?);
                    }
                }
                Ok(())
            });
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

/// Key and `unique2` of the tuples of an outer page, or the error of reading it.
fn keys_of(tenant: &Tenant, outer: &HeapFile, number: u64) -> Vec<bufpool_examples::Result<([u8; 8], u64)>> {
    let keys = |tuple: &[u8]| (unique1(tuple).to_be_bytes(), unique2(tuple));
    match outer.page(tenant, number) {
        Ok(page) => page.tuples().map(|(_, tuple)| Ok(keys(tuple))).collect(),
        Err(error) => vec![Err(error)],
    }
}
