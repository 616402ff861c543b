//! Going through a tree in key order.

use std::ops::{Bound, RangeBounds};

use bufpool::Tenant;

use super::BTree;
use super::node::{NO_PAGE, Node};
use crate::Result;

impl<const K: usize, const V: usize> BTree<K, V> {
    /// The entries of a range of keys, in order.
    ///
    /// A key that is in the tree from the start of the scan to its end is seen exactly once. One that is
    /// inserted or removed meanwhile may be seen or not. The scan copies leaf after leaf and holds no latch
    /// between two steps, so the tree may be changed inside the loop. Takes one access for each level at the
    /// start, then one for each leaf.
    ///
    /// # Errors
    /// As [`get`](Self::get), here and from each step; after an error the scan ends.
    #[track_caller]
    pub fn scan<'a>(&'a self, tenant: &'a Tenant, keys: impl RangeBounds<[u8; K]>) -> Result<Scan<'a, K, V>> {
        let start = match keys.start_bound() {
            Bound::Included(key) | Bound::Excluded(key) => *key,
            Bound::Unbounded => [0; K],
        };
        let leaf = self.leaf_shared(tenant, &start)?;
        let at = match (leaf.search(&start), keys.start_bound()) {
            (Ok(at), Bound::Excluded(_)) => at + 1,
            (Ok(at) | Err(at), _) => at,
        };
        let copy = vec![0; leaf.bytes().len()].into_boxed_slice();
        let leaf = Node::copy_of(copy, leaf.bytes());
        Ok(Scan { tree: self, tenant, leaf, at, end: keys.end_bound().cloned(), ended: false })
    }
}

/// The rest of a range of entries, in key order; made by [`BTree::scan`].
pub struct Scan<'a, const K: usize, const V: usize> {
    tree: &'a BTree<K, V>,
    tenant: &'a Tenant,
    /// A copy of the leaf as it was when the scan read it.
    leaf: Node<Box<[u8]>, K, V>,
    at: usize,
    end: Bound<[u8; K]>,
    ended: bool,
}

impl<const K: usize, const V: usize> Scan<'_, K, V> {
    /// Goes on to the first leaf with an entry. False at the end of the tree.
    ///
    /// The link of the copy is still right, and no entry is missed: leaves are never freed, and a later split
    /// of the leaf moves entries only to a new leaf between it and the one that it was linked to. Those
    /// entries are in the copy.
    #[track_caller]
    fn find_entry(&mut self) -> Result<bool> {
        while self.at == self.leaf.count() {
            let next = self.leaf.link();
            if next == NO_PAGE {
                return Ok(false);
            }
            let leaf = self.tree.read(self.tenant, next)?;
            if !leaf.is_leaf() {
                return Err(self.tree.not_ours(next));
            }
            self.leaf.copy_from(leaf.bytes());
            self.at = 0;
        }
        Ok(true)
    }

    fn is_beyond_end(&self, key: &[u8; K]) -> bool {
        match &self.end {
            Bound::Included(end) => key > end,
            Bound::Excluded(end) => key >= end,
            Bound::Unbounded => false,
        }
    }
}

impl<const K: usize, const V: usize> Iterator for Scan<'_, K, V> {
    type Item = Result<([u8; K], [u8; V])>;

    #[track_caller]
    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let found = self.find_entry();
        self.ended = match &found {
            Ok(true) => self.is_beyond_end(&self.leaf.keys()[self.at]),
            Ok(false) | Err(_) => true,
        };
        match found {
            Err(error) => Some(Err(error)),
            Ok(_) if self.ended => None,
            Ok(_) => {
                let entry = (self.leaf.keys()[self.at], *self.leaf.value(self.at));
                self.at += 1;
                Some(Ok(entry))
            }
        }
    }
}
