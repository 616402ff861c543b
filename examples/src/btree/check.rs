//! Recounting a tree from scratch, for tests.

use bufpool::Tenant;

use super::node::NO_PAGE;
use super::{BTree, ROOT, ReadNode};
use crate::Result;

/// The keys that may lie below a page: from `low` on and below `high`; `None` is no limit.
#[derive(Clone, Copy)]
struct Limits<const K: usize> {
    low: Option<[u8; K]>,
    high: Option<[u8; K]>,
}

impl<const K: usize> Limits<K> {
    fn admit(&self, key: &[u8; K]) -> bool {
        self.low.is_none_or(|low| low <= *key) && self.high.is_none_or(|high| *key < high)
    }
}

impl<const K: usize, const V: usize> BTree<K, V> {
    /// Goes through the whole tree and returns the number of its keys:
    ///
    /// 1. the keys of a page ascend and lie between the separators above it,
    /// 2. a child's level is one below its parent's,
    /// 3. the links of the leaves lead through all of them from left to right.
    ///
    /// For a tree that nobody is changing.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    ///
    /// # Panics
    /// If one of the above does not hold.
    pub fn check_invariants(&self, tenant: &Tenant) -> Result<u64> {
        let mut leaves = Vec::new();
        let root = self.read(tenant, ROOT)?;
        let keys = self.check_below(tenant, ROOT, &root, Limits { low: None, high: None }, &mut leaves)?;
        drop(root);
        for (at, &number) in leaves.iter().enumerate() {
            let next = leaves.get(at + 1).copied().unwrap_or(NO_PAGE);
            assert_eq!(self.read(tenant, number)?.link(), next, "the link of leaf {number}");
        }
        Ok(keys)
    }

    fn check_below(
        &self,
        tenant: &Tenant,
        number: u64,
        node: &ReadNode<'_, K, V>,
        limits: Limits<K>,
        leaves: &mut Vec<u64>,
    ) -> Result<u64> {
        assert!(node.keys().is_sorted_by(|a, b| a < b), "keys of page {number} ascend");
        assert!(
            node.keys().iter().all(|key| limits.admit(key)),
            "keys of page {number} are within their limits"
        );
        if node.is_leaf() {
            leaves.push(number);
            return Ok(node.count() as u64);
        }
        let mut keys = 0;
        for at in 0..=node.count() {
            let child_number = node.child(at);
            let child = self.read(tenant, child_number)?;
            assert_eq!(child.level() + 1, node.level(), "the level of page {child_number}");
            let low = at.checked_sub(1).map(|at| node.keys()[at]).or(limits.low);
            let high = node.keys().get(at).copied().or(limits.high);
            keys += self.check_below(tenant, child_number, &child, Limits { low, high }, leaves)?;
        }
        Ok(keys)
    }
}
