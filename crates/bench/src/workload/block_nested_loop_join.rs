//! Block nested-loop join: the inner relation is scanned once for each block of the outer one. LRU does worst
//! on such a loop.

use std::collections::HashMap;

use anyhow::Result;
use bufpool::Policy;
use bufpool_examples::heap::HeapFile;
use bufpool_examples::operators::{Fetches, Plan, Side, nested_loop};

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Table};
use super::session::Session;
use super::wisconsin::{unique1, unique2};

/// The number of blocks of the outer relation, and so of scans of the inner one.
const BLOCKS: u64 = 10;

/// Joins the small relation, block by block in private memory, with the large one on `unique1`.
///
/// Half of the inner relation fits in memory. Directive (the paper's for repeated scans): level 0 replaces
/// the most recently used page, so that half of the inner relation stays from scan to scan.
pub struct BlockNestedLoopJoin;

impl Workload for BlockNestedLoopJoin {
    fn name(&self) -> &'static str {
        "block-nested-loop-join"
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Small)?;
        database.build_table(Table::Large)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok(database.table_pages(Table::Large) / 2)
    }

    fn takes_hints(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let outer = session.database.open_table(session.pool, Table::Small)?;
        let inner = session.database.open_table(session.pool, Table::Large)?;
        let tenant = session.tenant("join", |join| join.set_policy(0, Policy::Mru))?;

        let block_of = |block| outer.pages() * block / BLOCKS..outer.pages() * (block + 1) / BLOCKS;
        if session.gives_hints() {
            return session.share_ranges(BLOCKS, |blocks, answer| {
                let mut pages = nested_loop(&tenant, &outer, &inner, blocks.map(block_of))?;
                join_planned(&mut pages, &outer, &inner, answer)
            });
        }
        session.share(BLOCKS, |block, answer| {
            let mut partners = HashMap::new();
            for number in block_of(block) {
                let page = outer.page(&tenant, number)?;
                partners.extend(page.tuples().map(|(_, tuple)| (unique1(tuple), unique2(tuple))));
            }
            for number in 0..inner.pages() {
                let page = inner.page(&tenant, number)?;
                for (_, tuple) in page.tuples() {
                    if let Some(&partner) = partners.get(&unique1(tuple)) {
                        answer.add(partner, unique2(tuple));
                    }
                }
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, _seed: u64) -> Answer {
        let (outer, inner) = (database.relation(Table::Small), database.relation(Table::Large));
        let partner =
            |unique2| inner.unique2(outer.unique1(unique2)).expect("the small domain lies in the large one");
        (0..outer.tuples()).map(|unique2| (unique2, partner(unique2))).collect()
    }
}

/// Joins the pages of a plan in the order in which the plan yields them.
fn join_planned(
    pages: &mut Fetches<Side, impl Plan<Side>>,
    outer: &HeapFile,
    inner: &HeapFile,
    answer: &mut Answer,
) -> Result<()> {
    let mut partners = HashMap::new();
    while let Some((side, guard)) = pages.next()? {
        let number = guard.page().number();
        if side == Side::Inner {
            for (_, tuple) in inner.view(&*guard, number)?.tuples() {
                if let Some(&partner) = partners.get(&unique1(tuple)) {
                    answer.add(partner, unique2(tuple));
                }
            }
            continue;
        }
        if side == Side::NewBlock {
            partners.clear();
        }
        let page = outer.view(&*guard, number)?;
        partners.extend(page.tuples().map(|(_, tuple)| (unique1(tuple), unique2(tuple))));
    }
    Ok(())
}
