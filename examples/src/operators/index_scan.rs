//! The tuples of an index range.

use std::ops::RangeBounds;

use bufpool::Tenant;

use super::fetches::{Fetches, Plan, Visit, visits};
use crate::Result;
use crate::btree::BTree;
use crate::heap::{HeapFile, Rid};

/// Slots of a page, each with its key.
type KeyVisit<const K: usize> = Visit<[u8; K]>;

/// The heap pages of a range of keys, in the order of the keys, each with the keys and slots of the tuples
/// that are wanted from it. A page is visited once for consecutive keys that lead to it, and again when a
/// later key does.
///
/// Costs one access for each leaf and each visit. For a LIMIT, drop the [`Fetches`] early.
///
/// # Errors
/// As [`BTree::scan`], here and from each step.
#[track_caller]
pub fn index_scan<'a, const K: usize>(
    tenant: &'a Tenant,
    index: &'a BTree<K, 8>,
    heap: &'a HeapFile,
    keys: impl RangeBounds<[u8; K]>,
) -> Result<Fetches<KeyVisit<K>, impl Plan<KeyVisit<K>>>> {
    let entries = index.scan(tenant, keys)?;
    let entries = entries.map(|entry| entry.map(|(key, rid)| (Rid::from_bytes(rid), key)));
    Fetches::new(tenant, visits(heap, entries))
}
