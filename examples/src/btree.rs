//! A B+-tree from fixed-size keys to fixed-size values, for any number of threads.
//!
//! Keys are compared as byte strings, so integers have to be stored big-endian. The root is always page 0:
//! when it splits, its contents move to a new page below it. So the number of the root never changes.
//!
//! **Latches.** Every operation goes down from the root and latches a child before it releases the parent.
//! Readers take shared latches. Writers take shared latches down to the leaf, which they latch exclusively. A
//! writer that finds its leaf full starts over with exclusive latches, and keeps those of the pages that a
//! split could reach: the lowest page with room, and the pages below it. No thread waits for a latch on a
//! page above, or on the same level as, one that it holds. So no threads wait for each other in a circle.
//!
//! **Deletion is lazy.** A key leaves its leaf, but leaves are neither merged nor freed: an empty leaf stays
//! for later keys of its range. So no page but the root ever changes its level or leaves the tree, and a scan
//! may remember the number of the next leaf without a latch.

mod batch;
mod build;
mod check;
mod node;
mod scan;

use bufpool::{File, ReadGuard, Tenant, WriteGuard};

use self::node::Node;
pub use self::scan::Scan;
use crate::space::Space;
use crate::{Error, Result};

const ROOT: u64 = 0;

/// Keys that must fit on a page at least, so that a split leaves both halves with some.
const CAPACITY_MIN: usize = 4;

type ReadNode<'t, const K: usize, const V: usize> = Node<ReadGuard<'t>, K, V>;
type WriteNode<'t, const K: usize, const V: usize> = Node<WriteGuard<'t>, K, V>;

/// A B+-tree with keys of `K` bytes and values of `V` bytes, each key once.
///
/// An operation takes one access for each level; an insert or a removal in a tree of one level takes two. An
/// insert that splits takes about twice as many accesses, and one creation for each page that is split. A
/// thread holds latches on at most 2 × levels + 1 pages, except in [`get_many`](Self::get_many).
pub struct BTree<const K: usize, const V: usize> {
    file: File,
    space: Space,
}

impl<const K: usize, const V: usize> BTree<K, V> {
    /// Makes an empty tree in an empty file.
    ///
    /// # Errors
    /// As the pool's; [`Error::Invalid`] if the file is not empty, or fewer than four keys and values fit on
    /// a page.
    #[track_caller]
    pub fn create(file: File, tenant: &Tenant) -> Result<Self> {
        Self::build(file, tenant, [], 100)
    }

    /// Opens the tree in `file`.
    ///
    /// # Errors
    /// As the pool's; [`Error::Format`] if there is no tree with these sizes of keys and values.
    #[track_caller]
    pub fn open(file: File, tenant: &Tenant) -> Result<Self> {
        let tree = Self { file, space: Space::new() };
        tree.read(tenant, ROOT)?;
        Ok(tree)
    }

    /// The file below, for its directives.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// As the pool's; [`Error::Format`] if a page is not one of this tree.
    #[track_caller]
    pub fn get(&self, tenant: &Tenant, key: &[u8; K]) -> Result<Option<[u8; V]>> {
        let leaf = self.leaf_shared(tenant, key)?;
        Ok(leaf.search(key).ok().map(|at| *leaf.value(at)))
    }

    /// Sets the value of `key` and returns the one it had.
    ///
    /// # Errors
    /// As [`get`](Self::get); the tree is then as before.
    #[track_caller]
    pub fn insert(&self, tenant: &Tenant, key: &[u8; K], value: &[u8; V]) -> Result<Option<[u8; V]>> {
        let mut leaf = self.leaf_exclusive(tenant, key)?;
        match put(&mut leaf, key, value) {
            Put::Done(previous) => Ok(previous),
            Put::Full => {
                drop(leaf);
                self.insert_splitting(tenant, key, value)
            }
        }
    }

    /// Removes `key` and returns the value it had.
    ///
    /// # Errors
    /// As [`get`](Self::get); the tree is then as before.
    #[track_caller]
    pub fn remove(&self, tenant: &Tenant, key: &[u8; K]) -> Result<Option<[u8; V]>> {
        let mut leaf = self.leaf_exclusive(tenant, key)?;
        Ok(leaf.search(key).ok().map(|at| {
            let value = *leaf.value(at);
            leaf.remove(at);
            value
        }))
    }

    /// Goes down to the leaf of `key` under shared latches.
    #[track_caller]
    fn leaf_shared<'t>(&'t self, tenant: &'t Tenant, key: &[u8; K]) -> Result<ReadNode<'t, K, V>> {
        let mut node = self.read(tenant, ROOT)?;
        while !node.is_leaf() {
            node = self.child_shared(tenant, &node, key)?;
        }
        Ok(node)
    }

    /// Goes down under shared latches and takes the leaf of `key` exclusively.
    #[track_caller]
    fn leaf_exclusive<'t>(&'t self, tenant: &'t Tenant, key: &[u8; K]) -> Result<WriteNode<'t, K, V>> {
        let mut node = self.read(tenant, ROOT)?;
        if node.is_leaf() {
            drop(node);
            let root = self.write(tenant, ROOT)?;
            if root.is_leaf() {
                return Ok(root);
            }
            // The root was split between the two latches. It never becomes a leaf again.
            drop(root);
            node = self.read(tenant, ROOT)?;
        }
        while node.level() > 1 {
            node = self.child_shared(tenant, &node, key)?;
        }
        self.child_exclusive(tenant, &node, key)
    }

    /// Inserts where the leaf was found full, under exclusive latches on every page that a split could
    /// change.
    #[track_caller]
    fn insert_splitting(&self, tenant: &Tenant, key: &[u8; K], value: &[u8; V]) -> Result<Option<[u8; V]>> {
        let mut path = vec![self.write(tenant, ROOT)?];
        while let Some(node) = path.last().filter(|node| !node.is_leaf()) {
            let child = self.child_exclusive(tenant, node, key)?;
            if !child.is_full() {
                path.clear();
            }
            path.push(child);
        }
        let leaf = path.last_mut().expect("the path ends in a leaf");
        if let Put::Done(previous) = put(leaf, key, value) {
            return Ok(previous);
        }
        // Everything that can fail comes first: the new pages, one for each full page, and one more below a
        // full root.
        let splits = path.iter().filter(|node| node.is_full()).count();
        let grows = path[0].is_full();
        let mut fresh = Vec::with_capacity(splits + 1);
        for _ in 0..splits + usize::from(grows) {
            let number = self.space.take(&self.file)?;
            fresh.push((number, tenant.create(self.file.page(number))?));
        }
        split_path(path, fresh, key, value);
        Ok(None)
    }

    #[track_caller]
    fn read<'t>(&'t self, tenant: &'t Tenant, number: u64) -> Result<ReadNode<'t, K, V>> {
        Node::open(tenant.read(self.file.page(number))?).ok_or_else(|| self.not_ours(number))
    }

    #[track_caller]
    fn write<'t>(&'t self, tenant: &'t Tenant, number: u64) -> Result<WriteNode<'t, K, V>> {
        Node::open(tenant.write(self.file.page(number))?).ok_or_else(|| self.not_ours(number))
    }

    #[track_caller]
    fn child_shared<'t, B>(
        &'t self,
        tenant: &'t Tenant,
        parent: &Node<B, K, V>,
        key: &[u8; K],
    ) -> Result<ReadNode<'t, K, V>>
    where
        B: std::ops::Deref<Target = [u8]>,
    {
        let number = parent.child_of(key);
        let child = self.read(tenant, number)?;
        if child.level() + 1 == parent.level() { Ok(child) } else { Err(self.not_ours(number)) }
    }

    #[track_caller]
    fn child_exclusive<'t, B>(
        &'t self,
        tenant: &'t Tenant,
        parent: &Node<B, K, V>,
        key: &[u8; K],
    ) -> Result<WriteNode<'t, K, V>>
    where
        B: std::ops::Deref<Target = [u8]>,
    {
        let number = parent.child_of(key);
        let child = self.write(tenant, number)?;
        if child.level() + 1 == parent.level() { Ok(child) } else { Err(self.not_ours(number)) }
    }

    #[cold]
    fn not_ours(&self, page: u64) -> Error {
        let expected =
            format!("a page of a B+-tree with {K}-byte keys and {V}-byte values, where one belongs");
        Error::Format { file: self.file.name().to_string(), page, expected }
    }
}

enum Put<const V: usize> {
    Done(Option<[u8; V]>),
    Full,
}

/// Sets the value of `key` on its leaf, unless the key is new and the leaf is full.
fn put<const K: usize, const V: usize>(
    leaf: &mut WriteNode<'_, K, V>,
    key: &[u8; K],
    value: &[u8; V],
) -> Put<V> {
    match leaf.search(key) {
        Ok(at) => {
            let previous = *leaf.value(at);
            leaf.set_value(at, value);
            Put::Done(Some(previous))
        }
        Err(_) if leaf.is_full() => Put::Full,
        Err(at) => {
            leaf.insert(at, key, value);
            Put::Done(None)
        }
    }
}

/// Splits the full pages of `path`, from the top, and inserts `key` into the leaf at its end. All pages of
/// the path but the first are full. If the first one is full, too, it is the root. `fresh` holds the new
/// pages.
fn split_path<'t, const K: usize, const V: usize>(
    path: Vec<WriteNode<'t, K, V>>,
    fresh: Vec<(u64, WriteGuard<'t>)>,
    key: &[u8; K],
    value: &[u8; V],
) {
    let mut fresh = fresh.into_iter();
    let mut new_page = || fresh.next().expect("a new page for each split was counted");
    let appends = appends(path.last().expect("the path ends in a leaf"), key);

    let mut path = path.into_iter();
    let mut parent = path.next().expect("the path starts at the root or at a page with room");
    let mut node = if parent.is_full() { Some(grow(&mut parent, new_page())) } else { path.next() };
    while let Some(mut left) = node {
        // Where keys arrive in ascending order, the left page stays full; otherwise each half gets as many.
        let at = if appends { left.count() - 1 } else { left.count() / 2 };
        let (number, guard) = new_page();
        let (separator, right) = left.split(at, guard, number);
        parent.insert_child(&separator, number);
        parent = if *key < separator { left } else { right };
        node = path.next();
    }
    let mut leaf = parent;
    let at = leaf.search(key).expect_err("the key was looked for before");
    leaf.insert(at, key, value);
}

/// True if `key` goes behind the last key of the tree.
fn appends<const K: usize, const V: usize>(leaf: &WriteNode<'_, K, V>, key: &[u8; K]) -> bool {
    leaf.link() == node::NO_PAGE && leaf.keys().last().is_some_and(|last| last < key)
}

/// Moves what the root holds to a new page below it, and returns that page.
fn grow<'t, const K: usize, const V: usize>(
    root: &mut WriteNode<'t, K, V>,
    (number, guard): (u64, WriteGuard<'t>),
) -> WriteNode<'t, K, V> {
    let child = Node::copy_of(guard, root.bytes());
    root.format_as_parent_of(number);
    child
}
