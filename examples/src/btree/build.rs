//! Building a tree from sorted entries, from the leaves up: each page is written once.

use bufpool::{File, Tenant};

use super::node::{NO_PAGE, Node};
use super::{BTree, CAPACITY_MIN, ROOT};
use crate::space::Space;
use crate::{Error, Result};

impl<const K: usize, const V: usize> BTree<K, V> {
    /// Makes a tree of `entries` in an empty file, its pages filled to `fill_percent` (50 to 100).
    ///
    /// The leaves come to lie in key order. Costs one creation for each page.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the file is not empty, fewer than four keys and values fit on a page, or the
    /// fill is out of range; nothing has changed then. [`Error::Invalid`] if the keys are not strictly
    /// ascending, and as the pool's; the file then has pages of an unfinished tree.
    #[track_caller]
    pub fn build(
        file: File,
        tenant: &Tenant,
        entries: impl IntoIterator<Item = ([u8; K], [u8; V])>,
        fill_percent: u8,
    ) -> Result<Self> {
        check_sizes::<K, V>(&file)?;
        if !(50..=100).contains(&fill_percent) {
            return Err(Error::Invalid(format!("a fill of {fill_percent} %: expected 50 to 100")));
        }
        let tree = Self { file, space: Space::new() };
        let root = tree.space.take(&tree.file)?;
        debug_assert_eq!(root, ROOT);

        let mut builder = Builder { tree: &tree, tenant, fill_percent, levels: Vec::new() };
        builder.start(0, NO_PAGE, [0; K], None);
        for (key, value) in entries {
            builder.add(&key, &value)?;
        }
        builder.finish()?;
        tree.space.give_back(&tree.file)?;
        Ok(tree)
    }
}

fn check_sizes<const K: usize, const V: usize>(file: &File) -> Result<()> {
    let page_bytes = file.page_bytes();
    let capacity = |level| Node::<Box<[u8]>, K, V>::capacity_of(page_bytes, level);
    let sizes_fit = u16::try_from(K).is_ok() && u16::try_from(V).is_ok();
    if K == 0 || !sizes_fit || capacity(0) < CAPACITY_MIN || capacity(1) < CAPACITY_MIN {
        return Err(Error::Invalid(format!(
            "keys of {K} bytes and values of {V}: expected at least {CAPACITY_MIN} on a page of {page_bytes} bytes"
        )));
    }
    if file.pages() > 0 {
        let name = file.name();
        return Err(Error::Invalid(format!(
            "{name} has {} pages: a new tree takes an empty file",
            file.pages()
        )));
    }
    Ok(())
}

/// The rightmost page of each level, in private memory until it is complete.
struct Builder<'a, const K: usize, const V: usize> {
    tree: &'a BTree<K, V>,
    tenant: &'a Tenant,
    fill_percent: u8,
    /// From the leaf up.
    levels: Vec<Open<K, V>>,
}

struct Open<const K: usize, const V: usize> {
    node: Node<Box<[u8]>, K, V>,
    /// The lowest key below the page.
    first: [u8; K],
    /// The page's number, if the link of the leaf before has it already.
    number: Option<u64>,
}

impl<const K: usize, const V: usize> Builder<'_, K, V> {
    #[track_caller]
    fn add(&mut self, key: &[u8; K], value: &[u8; V]) -> Result<()> {
        let leaf = &self.levels[0].node;
        if leaf.keys().last().is_some_and(|last| last >= key) {
            return Err(Error::Invalid(
                "a key that is not above the one before it: expected sorted entries".into(),
            ));
        }
        if leaf.count() == self.limit(0) {
            let next = self.tree.space.take(&self.tree.file)?;
            self.levels[0].node.set_link(next);
            self.complete(0)?;
            self.start(0, NO_PAGE, *key, Some(next));
        }
        let leaf = &mut self.levels[0].node;
        leaf.insert(leaf.count(), key, value);
        Ok(())
    }

    /// Adds a complete page to the level above it.
    #[track_caller]
    fn add_child(&mut self, level: usize, first: &[u8; K], child: u64) -> Result<()> {
        if level == self.levels.len() {
            self.start(level, child, *first, None);
        } else if self.levels[level].node.count() < self.limit(level) {
            self.levels[level].node.insert_child(first, child);
        } else {
            self.complete(level)?;
            self.start(level, child, *first, None);
        }
        Ok(())
    }

    /// Writes the page of `level` out and adds it to the level above.
    #[track_caller]
    fn complete(&mut self, level: usize) -> Result<()> {
        let open = &self.levels[level];
        let number = match open.number {
            Some(number) => number,
            None => self.tree.space.take(&self.tree.file)?,
        };
        let first = open.first;
        self.write_out(level, number)?;
        self.add_child(level + 1, &first, number)
    }

    /// Writes the rightmost pages out; the only one of its level is the root.
    #[track_caller]
    fn finish(mut self) -> Result<()> {
        let mut level = 0;
        while level + 1 < self.levels.len() {
            self.complete(level)?;
            level += 1;
        }
        self.write_out(level, ROOT)
    }

    #[track_caller]
    fn write_out(&self, level: usize, number: u64) -> Result<()> {
        let mut page = self.tenant.create(self.tree.file.page(number))?;
        page.copy_from_slice(self.levels[level].node.bytes());
        Ok(())
    }

    fn start(&mut self, level: usize, link: u64, first: [u8; K], number: Option<u64>) {
        let page = vec![0; self.tree.file.page_bytes()].into_boxed_slice();
        let open = Open { node: Node::format(page, level as u16, link), first, number };
        if level == self.levels.len() {
            self.levels.push(open);
        } else {
            self.levels[level] = open;
        }
    }

    /// Keys that a page of that level gets.
    fn limit(&self, level: usize) -> usize {
        let capacity = self.levels[level].node.capacity();
        (capacity * usize::from(self.fill_percent)).div_ceil(100)
    }
}
