//! Point lookups through an index, uniform or skewed.

use std::iter;

use anyhow::Result;
use bufpool::Tenant;
use bufpool_examples::heap::{HeapFile, Rid};

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, Index, IndexTree, Table};
use super::session::{Session, random_of};
use super::wisconsin::unique2;
use crate::random::{Permutation, Weighted};

/// Lookups that one thread makes in a row.
const LOOKUPS_PER_ITEM: u64 = 100;

/// Looks up tuples of the large relation by `unique1`. A lookup accesses the pages from the index's root to a
/// leaf, which are three at the default size, and a table page.
///
/// Three tenths of index and table fit in memory. Directive (the paper's for a hot file): the index has
/// priority 1, since a leaf has more keys than a table page has tuples, and is accessed more often.
pub struct Lookup {
    name: &'static str,
    /// Exponent of Zipf's law over the keys, whose ranks are in random order; `None` draws all keys alike.
    zipf: Option<f64>,
}

impl Lookup {
    /// Every key as likely as any other.
    pub const UNIFORM: Self = Self { name: "lookup-uniform", zipf: None };
    /// Zipf's law with exponent 0.99.
    pub const ZIPF: Self = Self { name: "lookup-zipf", zipf: Some(0.99) };

    /// The number of items of [`LOOKUPS_PER_ITEM`] lookups.
    pub(super) fn items(&self, database: &Database) -> u64 {
        (database.sizes().tuples / 8).div_ceil(LOOKUPS_PER_ITEM)
    }

    /// Opens the table and the index for `tenant`.
    pub(super) fn open(&self, session: &Session<'_>, tenant: Tenant) -> Result<Lookups> {
        let table = session.database.open_table(session.pool, Table::Large)?;
        let index = session.database.open_index(session.pool, &tenant, Index::LargeUnique1)?;
        Ok(Lookups { tenant, table, index, keys: self.keys(session.database, session.seed) })
    }

    fn keys(&self, database: &Database, seed: u64) -> Keys {
        let tuples = database.relation(Table::Large).tuples();
        Keys {
            tuples,
            seed,
            skew: self.zipf.map(|alpha| (Weighted::zipf(tuples, alpha), Permutation::new(tuples, !seed))),
        }
    }
}

/// A table and its index, opened, and the keys to look up.
pub(super) struct Lookups {
    tenant: Tenant,
    table: HeapFile,
    index: IndexTree,
    keys: Keys,
}

impl Lookups {
    /// Makes the lookups of one item.
    pub fn run_item(&self, item: u64, answer: &mut Answer) -> Result<()> {
        for key in self.keys.of_item(item) {
            let Some(rid) = self.index.get(&self.tenant, &key.to_be_bytes())? else { continue };
            if let Some(unique2) = self.table.get(&self.tenant, Rid::from_bytes(rid), unique2)? {
                answer.add(key, unique2);
            }
        }
        Ok(())
    }
}

/// The keys of each item.
struct Keys {
    tuples: u64,
    seed: u64,
    /// The distribution of ranks, and the key of each rank; `None` if keys are uniform.
    skew: Option<(Weighted, Permutation)>,
}

impl Keys {
    fn of_item(&self, item: u64) -> impl Iterator<Item = u64> {
        let mut random = random_of(self.seed, item);
        let draw = move || match &self.skew {
            Some((ranks, places)) => places.apply(ranks.draw(&mut random)),
            None => random.below(self.tuples),
        };
        iter::repeat_with(draw).take(LOOKUPS_PER_ITEM as usize)
    }
}

impl Workload for Lookup {
    fn name(&self) -> &'static str {
        self.name
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build_table(Table::Large)?;
        database.build_index(Index::LargeUnique1)
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok((database.table_pages(Table::Large) + database.index_pages(Index::LargeUnique1)?) * 3 / 10)
    }

    fn lookups(&self, database: &Database) -> Option<u64> {
        Some(self.items(database) * LOOKUPS_PER_ITEM)
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let lookups = self.open(session, session.tenant("lookups", |_| Ok(()))?)?;
        if session.takes_advice() {
            lookups.tenant.set_priority(lookups.index.file(), 1)?;
        }
        session.share(self.items(session.database), |item, answer| lookups.run_item(item, answer))
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let (keys, relation) = (self.keys(database, seed), database.relation(Table::Large));
        let all = (0..self.items(database)).flat_map(|item| keys.of_item(item));
        all.map(|key| (key, relation.unique2(key).expect("drawn from the relation's domain"))).collect()
    }
}
