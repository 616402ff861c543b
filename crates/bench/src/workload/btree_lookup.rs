//! Uniform lookups in a B+-tree that holds the tuples themselves. Trees of other engines are compared on this
//! workload.

use anyhow::{Context, Result};
use bufpool::Tenant;
use bufpool_examples::btree::BTree;

use super::answer::Answer;
use super::contract::Workload;
use super::database::{Database, PAGE_BYTES};
use super::session::{Session, random_of};
use crate::output::progress;

/// Bytes of a tuple beside its 8-byte key.
const PAYLOAD_BYTES: usize = 120;
const FILE: &str = "tuples.btree";
/// Lookups that one thread makes in a row.
const LOOKUPS_PER_ITEM: u64 = 1000;
const LOOKUPS_MAX: u64 = 1_000_000;
/// Lookups made together while memory is filled, before the clock starts.
const WARM_UP_BATCH: u64 = 16;

type Tuples = BTree<8, PAYLOAD_BYTES>;

/// Looks up as many random keys as there are tuples, rounded up to a thousand, and at most a million. The
/// keys were inserted in order.
///
/// By default memory holds the whole tree. It is filled before the clock starts, except in deterministic
/// mode. There are no directives: for uniform lookups none is better than LRU.
pub struct BTreeLookup;

impl BTreeLookup {
    fn items(database: &Database) -> u64 {
        database.sizes().tuples.min(LOOKUPS_MAX).div_ceil(LOOKUPS_PER_ITEM)
    }
}

impl Workload for BTreeLookup {
    fn name(&self) -> &'static str {
        "btree"
    }

    fn tuples(&self) -> u64 {
        1_000_000
    }

    fn build(&self, database: &Database) -> Result<()> {
        database.build(FILE, |file, tenant, name| {
            let tree = Tuples::create(file, tenant)?;
            let bar = progress::bar(format!("build {name}"), database.sizes().tuples, "tuples");
            for key in bar.wrap_iter(0..database.sizes().tuples) {
                tree.insert(tenant, &key.to_be_bytes(), &payload(key))?;
            }
            bar.finish_and_clear();
            Ok(())
        })
    }

    fn frames(&self, database: &Database) -> Result<u64> {
        Ok(database.file_pages(FILE)? + 64)
    }

    fn lookups(&self, database: &Database) -> Option<u64> {
        Some(Self::items(database) * LOOKUPS_PER_ITEM)
    }

    fn takes_batches(&self) -> bool {
        true
    }

    fn run(&self, session: &Session<'_>) -> Result<Answer> {
        let tenant = session.tenant("lookups", |_| Ok(()))?;
        let tree = Tuples::open(session.database.open(session.pool, FILE, false)?, &tenant)?;
        let tuples = session.database.sizes().tuples;
        if !session.deterministic {
            warm_up(session, &tree, &tenant)?;
            session.start_measuring();
        }
        session.share(Self::items(session.database), |item, answer| {
            let mut random = random_of(session.seed, item);
            let mut add = |key: u64, payload: Option<[u8; PAYLOAD_BYTES]>| {
                let payload = payload.with_context(|| format!("key {key} is not there"))?;
                answer.add(key, u64::from_le_bytes(payload[..8].try_into()?));
                anyhow::Ok(())
            };
            if session.batch == 1 {
                for _ in 0..LOOKUPS_PER_ITEM {
                    let key = random.below(tuples);
                    add(key, tree.get(&tenant, &key.to_be_bytes())?)?;
                }
                return Ok(());
            }
            let keys: Vec<[u8; 8]> =
                (0..LOOKUPS_PER_ITEM).map(|_| random.below(tuples).to_be_bytes()).collect();
            for keys in keys.chunks(session.batch as usize) {
                for (key, payload) in keys.iter().zip(tree.get_many(&tenant, keys)?) {
                    add(u64::from_be_bytes(*key), payload)?;
                }
            }
            Ok(())
        })
    }

    fn expected(&self, database: &Database, seed: u64) -> Answer {
        let tuples = database.sizes().tuples;
        let keys = |item| {
            let mut random = random_of(seed, item);
            (0..LOOKUPS_PER_ITEM).map(move |_| random.below(tuples))
        };
        (0..Self::items(database)).flat_map(keys).map(|key| (key, !key)).collect()
    }
}

/// Fills memory before the clock starts: with the whole tree, or with as many random paths as there are
/// frames.
fn warm_up(session: &Session<'_>, tree: &Tuples, tenant: &Tenant) -> Result<()> {
    let tuples = session.database.sizes().tuples;
    let frames = u64::from(session.pool.frames());
    let mut random = random_of(session.seed, u64::MAX);
    let bar = progress::bar("warm up", 0, "lookups");
    let visit = |key: u64| tree.get(tenant, &key.to_be_bytes()).map(drop);
    if tree.file().pages() <= frames {
        let one_in_each_leaf = (0..tuples).step_by(PAGE_BYTES / (2 * (8 + PAYLOAD_BYTES)));
        bar.wrap_iter(one_in_each_leaf).try_for_each(visit)?;
    } else {
        // Several at a time, which fills memory sooner and with the same pages.
        for _ in bar.wrap_iter(0..frames.div_ceil(WARM_UP_BATCH)) {
            let keys = [(); WARM_UP_BATCH as usize].map(|()| random.below(tuples).to_be_bytes());
            tree.get_many(tenant, &keys)?;
        }
    }
    bar.finish_and_clear();
    Ok(())
}

fn payload(key: u64) -> [u8; PAYLOAD_BYTES] {
    let mut payload = [key as u8; PAYLOAD_BYTES];
    payload[..8].copy_from_slice(&(!key).to_le_bytes());
    payload
}
