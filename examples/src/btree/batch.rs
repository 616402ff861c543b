//! Many lookups at once: down the tree level by level, so that the misses of a level are read together.

use bufpool::{Page, Tenant};

use super::node::Node;
use super::{BTree, ROOT, ReadNode};
use crate::Result;

/// A key on its way down: the page that it needs next, and its place in the list.
type Descent = (u64, usize);

impl<const K: usize, const V: usize> BTree<K, V> {
    /// The values of `keys`, in their order; a key may be there more than once.
    ///
    /// One access for each page that the keys need at each level, and those of a level that are not in memory are read together. A
    /// level stays latched until the next one is, as in [`get`](Self::get), so each value is one that its key had during the call; a thread holds
    /// latches on up to twice as many pages as there are keys.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    #[track_caller]
    pub fn get_many(&self, tenant: &Tenant, keys: &[[u8; K]]) -> Result<Vec<Option<[u8; V]>>> {
        let mut values = vec![None; keys.len()];
        let mut left: Vec<usize> = (0..keys.len()).collect();
        while !left.is_empty() {
            left = self.get_some(tenant, keys, &left, &mut values)?;
        }
        Ok(values)
    }

    /// Looks up the keys at the places `left`. Returns those whose way was blocked: a page of it was busy, and waiting for one
    /// while others of its level are held could be for ever. At least one key is not among them.
    #[track_caller]
    fn get_some(
        &self,
        tenant: &Tenant,
        keys: &[[u8; K]],
        left: &[usize],
        values: &mut [Option<[u8; V]>],
    ) -> Result<Vec<usize>> {
        let mut level = vec![self.read(tenant, ROOT)?];
        // Which node of the level each key is at.
        let mut at: Vec<(usize, usize)> = left.iter().map(|&key| (0, key)).collect();
        let mut blocked = Vec::new();
        while let Some(first) = level.first().filter(|node| !node.is_leaf()) {
            let below = first.level() - 1;
            let mut descents: Vec<Descent> =
                at.iter().map(|&(node, key)| (level[node].child_of(&keys[key]), key)).collect();
            descents.sort_unstable();
            let groups: Vec<&[Descent]> = descents.chunk_by(|a, b| a.0 == b.0).collect();
            let pages: Vec<Page<'_>> = groups.iter().map(|group| self.file.page(group[0].0)).collect();
            let mut children: Vec<ReadNode<'_, K, V>> = Vec::with_capacity(pages.len());
            at.clear();
            for (group, guard) in groups.iter().zip(tenant.read_many(&pages)) {
                let keys = group.iter().map(|(_, key)| *key);
                let Some(guard) = guard? else {
                    blocked.extend(keys);
                    continue;
                };
                let child = Node::open(guard).filter(|child| child.level() == below);
                at.extend(keys.map(|key| (children.len(), key)));
                children.push(child.ok_or_else(|| self.not_ours(group[0].0))?);
            }
            level = children;
        }
        for (node, key) in at {
            let leaf = &level[node];
            values[key] = leaf.search(&keys[key]).ok().map(|at| *leaf.value(at));
        }
        Ok(blocked)
    }
}
