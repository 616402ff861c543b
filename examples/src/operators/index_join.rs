//! Index nested-loop join, the keys looked up in batches.

use bufpool::Tenant;

use super::fetches::{Fetches, Plan, Visit, visits};
use crate::Result;
use crate::btree::BTree;
use crate::heap::{HeapFile, Rid};

/// The partners of `outer` by an index: heap pages, each with the slots of partners and, for each slot, the
/// value that `outer` gave with the key. Keys without a partner are left out.
///
/// `batch` keys are looked up together ([`BTree::get_many`]), and their partners are visited in the order of
/// the file. The list does not end between two batches, so the device is not idle there.
///
/// # Errors
/// Those of `outer`, as [`BTree::get_many`] and as the pool's, from each step.
///
/// # Panics
/// If `batch` is 0.
#[track_caller]
pub fn index_join<'a, T: 'a, const K: usize>(
    tenant: &'a Tenant,
    outer: impl Iterator<Item = Result<([u8; K], T)>> + 'a,
    index: &'a BTree<K, 8>,
    heap: &'a HeapFile,
    batch: usize,
) -> Result<Fetches<Visit<T>, impl Plan<Visit<T>> + 'a>> {
    assert!(batch > 0, "a batch without keys");
    let mut outer = outer.fuse();
    let entries = std::iter::from_fn(move || {
        let keys = outer.by_ref().take(batch).collect::<Result<Vec<_>>>();
        let is_over = keys.as_ref().is_ok_and(Vec::is_empty);
        (!is_over).then(|| keys.and_then(|keys| partners(tenant, index, keys)))
    });
    let entries = entries.flat_map(|partners| match partners {
        Ok(partners) => partners.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    });
    Fetches::new(tenant, visits(heap, entries))
}

/// The partners of a batch, in the order of the heap.
fn partners<T, const K: usize>(
    tenant: &Tenant,
    index: &BTree<K, 8>,
    outer: Vec<([u8; K], T)>,
) -> Result<Vec<(Rid, T)>> {
    let (keys, items): (Vec<[u8; K]>, Vec<T>) = outer.into_iter().unzip();
    let found = index.get_many(tenant, &keys)?.into_iter().zip(items);
    let mut partners: Vec<(Rid, T)> =
        found.filter_map(|(rid, item)| Some((Rid::from_bytes(rid?), item))).collect();
    partners.sort_by_key(|(rid, _)| *rid);
    Ok(partners)
}
