//! Many lookups at once: down the tree level by level, so that the misses of a level are read together.

use bufpool::{Page, Tenant};

use super::node::Node;
use super::{BTree, ROOT, ReadNode};
use crate::Result;

/// A key on its way down: the page that it needs next, and its place in the list.
type Descent = (u64, usize);

impl<const K: usize, const V: usize> BTree<K, V> {
    /// The values of `keys`, in the order of `keys`, which may contain a key more than once.
    ///
    /// Takes one access for each page that the keys need at each level. The pages of a level that are not in
    /// memory are read together. The pages of a level stay latched until those of the next level are, as in
    /// [`get`](Self::get). So each value is one that its key had during the call. The thread holds latches on
    /// up to twice as many pages as there are keys. Where a page is busy, its keys are looked up again from
    /// the root, once the latches of the others are released.
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

    /// Looks up the keys at the places `left`. Returns the places of the keys that were not looked up because
    /// a page on their way was busy: to wait for it while other pages of its level are latched could be a
    /// deadlock. At least one key is looked up, so calling again ends.
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
            let places =
                places(at.iter().map(|&(node, key)| (level[node].keys(), &keys[key])), |k, key| k <= key);
            let children = at.iter().zip(places).map(|(&(node, key), place)| (level[node].child(place), key));
            let mut descents: Vec<Descent> = children.collect();
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
        let places = places(at.iter().map(|&(leaf, key)| (level[leaf].keys(), &keys[key])), |k, key| k < key);
        for ((leaf, key), place) in at.into_iter().zip(places) {
            let leaf = &level[leaf];
            let is_there = leaf.keys().get(place) == Some(&keys[key]);
            values[key] = is_there.then(|| *leaf.value(place));
        }
        Ok(blocked)
    }
}

/// A binary search under way: the answer is at least `from` and at most `from + left`.
struct Search<'n, const K: usize> {
    keys: &'n [[u8; K]],
    key: &'n [u8; K],
    from: usize,
    left: usize,
}

/// For each key, how many keys of its node are before it, as `partition_point` would say. All searches make
/// a step before any makes the next one, so the cache misses of different nodes overlap.
fn places<'n, const K: usize>(
    searches: impl Iterator<Item = (&'n [[u8; K]], &'n [u8; K])>,
    is_before: impl Fn(&[u8; K], &[u8; K]) -> bool,
) -> Vec<usize> {
    let mut searches: Vec<Search<'n, K>> =
        searches.map(|(keys, key)| Search { keys, key, from: 0, left: keys.len() }).collect();
    let mut is_open = true;
    while is_open {
        is_open = false;
        for search in searches.iter_mut().filter(|search| search.left > 0) {
            let half = search.left / 2;
            let right = is_before(&search.keys[search.from + half], search.key);
            // Without branches: after a wrong branch prediction the processor would repeat what it has done
            // ahead for the searches behind this one.
            search.from += usize::from(right) * (half + 1);
            search.left = half - usize::from(right && search.left % 2 == 0);
            is_open |= search.left > 0;
        }
    }
    searches.into_iter().map(|search| search.from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_side_by_side_find_what_single_ones_do() {
        let keys: Vec<[u8; 1]> = (0..40).map(|at| [at * 5 + 3]).collect();
        for len in 0..=keys.len() {
            let nodes: Vec<_> =
                (0..=255).map(|key| (&keys[..len - usize::from(key) % (len + 1)], [key])).collect();
            let searches = || nodes.iter().map(|(keys, key)| (*keys, key));
            let expected = |is_before: fn(&[u8; 1], &[u8; 1]) -> bool| -> Vec<usize> {
                searches().map(|(keys, key)| keys.partition_point(|k| is_before(k, key))).collect()
            };
            assert_eq!(places(searches(), |k, key| k < key), expected(|k, key| k < key));
            assert_eq!(places(searches(), |k, key| k <= key), expected(|k, key| k <= key));
        }
    }
}
