//! The page of a B+-tree: keys of one size, each with what it leads to.
//!
//! ```text
//! offset  bytes
//!      0      4  magic "BPT1"
//!      4      2  bytes of a key, K
//!      6      2  bytes of a value, V
//!      8      2  level: 0 is a leaf
//!     10      2  count of keys
//!     12      4  zero
//!     16      8  link: of a leaf, the next leaf (NO_PAGE on the last); of an inner page, its leftmost child
//!     24   n·K  keys, ascending as byte strings
//!   then   n·P  payload of each key: of a leaf V bytes, of an inner page the number of the child that
//!               holds the keys from this one up (8 bytes, little-endian)
//! ```
//!
//! n is the capacity of the page; keys lie together, so that a search stays in few cache lines.

use std::ops::{Deref, DerefMut};

/// The link of the last leaf.
pub(super) const NO_PAGE: u64 = u64::MAX;

const MAGIC: [u8; 4] = *b"BPT1";
const HEADER_BYTES: usize = 24;
const CHILD_BYTES: usize = size_of::<u64>();
/// Keys that are counted instead of halved further: four cache lines of 8-byte keys.
const COUNTED_KEYS: usize = 32;

/// A B+-tree page behind any access to its bytes: a guard, or a private buffer.
pub(super) struct Node<B, const K: usize, const V: usize> {
    page: B,
}

impl<B: Deref<Target = [u8]>, const K: usize, const V: usize> Node<B, K, V> {
    /// Takes the page as a node, if its header says that it is one with these sizes of keys and values.
    pub fn open(page: B) -> Option<Self> {
        if page.len() < HEADER_BYTES || page[..8] != Self::signature() {
            return None;
        }
        let node = Self { page };
        (node.count() <= node.capacity()).then_some(node)
    }

    /// 0 for a leaf, else one more than its children's.
    pub fn level(&self) -> u16 {
        self.u16_at(8)
    }

    pub fn is_leaf(&self) -> bool {
        self.level() == 0
    }

    pub fn count(&self) -> usize {
        usize::from(self.u16_at(10))
    }

    pub fn capacity(&self) -> usize {
        Self::capacity_of(self.page.len(), self.level())
    }

    pub fn is_full(&self) -> bool {
        self.count() == self.capacity()
    }

    /// The next leaf, or the leftmost child.
    pub fn link(&self) -> u64 {
        u64::from_le_bytes(self.page[16..24].try_into().expect("8 bytes"))
    }

    pub fn keys(&self) -> &[[u8; K]] {
        let bytes = &self.page[HEADER_BYTES..HEADER_BYTES + self.count() * K];
        bytes.as_chunks().0
    }

    /// Where `key` is, or else where it belongs.
    pub fn search(&self, key: &[u8; K]) -> Result<usize, usize> {
        let keys = self.keys();
        let at = position(keys, |k| k < key);
        if keys.get(at) == Some(key) { Ok(at) } else { Err(at) }
    }

    /// The value of a leaf's key at `at`.
    pub fn value(&self, at: usize) -> &[u8; V] {
        self.payload(at).try_into().expect("a leaf's payload has V bytes")
    }

    /// The child of an inner page that holds `key`.
    pub fn child_of(&self, key: &[u8; K]) -> u64 {
        self.child(position(self.keys(), |k| k <= key))
    }

    /// The child at `at` of 0..=count, from the left.
    pub fn child(&self, at: usize) -> u64 {
        match at.checked_sub(1) {
            None => self.link(),
            Some(at) => u64::from_le_bytes(self.payload(at).try_into().expect("a child has 8 bytes")),
        }
    }

    pub fn bytes(&self) -> &[u8] {
        &self.page
    }

    fn payload(&self, at: usize) -> &[u8] {
        debug_assert!(at < self.count());
        let bytes = self.payload_bytes();
        &self.page[self.payload_offset(at)..][..bytes]
    }

    fn payload_offset(&self, at: usize) -> usize {
        HEADER_BYTES + self.capacity() * K + at * self.payload_bytes()
    }

    fn payload_bytes(&self) -> usize {
        payload_bytes::<V>(self.level())
    }

    fn u16_at(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.page[offset], self.page[offset + 1]])
    }
}

impl<B, const K: usize, const V: usize> Node<B, K, V> {
    /// Keys that fit on a page of that size at that level.
    pub fn capacity_of(page_bytes: usize, level: u16) -> usize {
        let fit = page_bytes.saturating_sub(HEADER_BYTES) / (K + payload_bytes::<V>(level));
        fit.min(usize::from(u16::MAX))
    }

    fn signature() -> [u8; 8] {
        let [[k0, k1], [v0, v1]] = [(K as u16).to_le_bytes(), (V as u16).to_le_bytes()];
        let [m0, m1, m2, m3] = MAGIC;
        [m0, m1, m2, m3, k0, k1, v0, v1]
    }
}

impl<B: DerefMut<Target = [u8]>, const K: usize, const V: usize> Node<B, K, V> {
    /// Makes the page an empty node.
    pub fn format(mut page: B, level: u16, link: u64) -> Self {
        page[..8].copy_from_slice(&Self::signature());
        page[8..10].copy_from_slice(&level.to_le_bytes());
        page[10..16].fill(0);
        let mut node = Self { page };
        node.set_link(link);
        node
    }

    /// Makes the page a copy of `other`.
    pub fn copy_of(mut page: B, other: &[u8]) -> Self {
        page.copy_from_slice(other);
        Self { page }
    }

    /// Makes the page, whose content was copied to `child`, an inner page with that child alone.
    pub fn format_as_parent_of(&mut self, child: u64) {
        let level = self.level() + 1;
        self.page[8..10].copy_from_slice(&level.to_le_bytes());
        self.set_count(0);
        self.set_link(child);
    }

    /// Overwrites the page with another node.
    pub fn copy_from(&mut self, other: &[u8]) {
        self.page.copy_from_slice(other);
    }

    pub fn set_link(&mut self, link: u64) {
        self.page[16..24].copy_from_slice(&link.to_le_bytes());
    }

    /// Puts a key and its payload at `at`; those from `at` on move up by one.
    ///
    /// # Panics
    /// If the page is full, or the payload is not of this level's size.
    pub fn insert(&mut self, at: usize, key: &[u8; K], payload: &[u8]) {
        assert!(!self.is_full(), "the caller splits a full page first");
        let count = self.count();
        let key_at = |i: usize| HEADER_BYTES + i * K;
        self.page.copy_within(key_at(at)..key_at(count), key_at(at + 1));
        self.page[key_at(at)..key_at(at + 1)].copy_from_slice(key);

        let [from, end, to] = [at, count, at + 1].map(|i| self.payload_offset(i));
        self.page.copy_within(from..end, to);
        self.page[from..to].copy_from_slice(payload);
        self.set_count(count + 1);
    }

    pub fn insert_child(&mut self, key: &[u8; K], child: u64) {
        let at = position(self.keys(), |k| k < key);
        self.insert(at, key, &child.to_le_bytes());
    }

    pub fn set_value(&mut self, at: usize, value: &[u8; V]) {
        let offset = self.payload_offset(at);
        self.page[offset..offset + V].copy_from_slice(value);
    }

    /// Takes the key at `at` and its payload out; those behind it move down by one.
    pub fn remove(&mut self, at: usize) {
        let count = self.count();
        let key_at = |i: usize| HEADER_BYTES + i * K;
        self.page.copy_within(key_at(at + 1)..key_at(count), key_at(at));
        let [to, from, end] = [at, at + 1, count].map(|i| self.payload_offset(i));
        self.page.copy_within(from..end, to);
        self.set_count(count - 1);
    }

    /// Moves the keys from `at` on to `right`, a new page with the number `right_number`. Returns the key
    /// that separates the two pages: all keys of `right` are equal to it or above.
    ///
    /// In an inner page the key at `at` itself is not moved to `right`, because it moves up to the parent.
    /// Its child becomes the leftmost child of `right`.
    pub fn split<R>(&mut self, at: usize, right: R, right_number: u64) -> ([u8; K], Node<R, K, V>)
    where
        R: DerefMut<Target = [u8]>,
    {
        let (count, level) = (self.count(), self.level());
        let separator = self.keys()[at];
        let (first, link) = if self.is_leaf() { (at, self.link()) } else { (at + 1, self.child(at + 1)) };
        let mut right = Node::<R, K, V>::format(right, level, link);

        let moved = count - first;
        right.page[HEADER_BYTES..HEADER_BYTES + moved * K]
            .copy_from_slice(&self.page[HEADER_BYTES + first * K..HEADER_BYTES + count * K]);
        let to = right.payload_offset(0);
        let [from, end] = [first, count].map(|i| self.payload_offset(i));
        right.page[to..to + (end - from)].copy_from_slice(&self.page[from..end]);
        right.set_count(moved);

        self.set_count(at);
        if level == 0 {
            self.set_link(right_number);
        }
        (separator, right)
    }

    fn set_count(&mut self, count: usize) {
        let count = u16::try_from(count).expect("capacity fits in 16 bits");
        self.page[10..12].copy_from_slice(&count.to_le_bytes());
    }
}

/// How many of the keys, which are ascending, `is_before` holds for.
///
/// A binary search waits for one cache line after the other, because each step depends on the one before.
/// Counting loads the lines of its keys at the same time. So the last [`COUNTED_KEYS`] keys are counted.
fn position<const K: usize>(keys: &[[u8; K]], is_before: impl Fn(&[u8; K]) -> bool) -> usize {
    let (mut first, mut rest) = (0, keys);
    while rest.len() > COUNTED_KEYS {
        let (low, high) = rest.split_at(rest.len() / 2);
        if is_before(&high[0]) {
            first += low.len();
            rest = high;
        } else {
            rest = low;
        }
    }
    first + rest.iter().filter(|key| is_before(key)).count()
}

const fn payload_bytes<const V: usize>(level: u16) -> usize {
    if level == 0 { V } else { CHILD_BYTES }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Leaf = Node<Vec<u8>, 2, 3>;

    #[test]
    fn a_position_is_the_partition_point() {
        for len in (0..100).chain([510, 511, 512]) {
            let keys: Vec<[u8; 2]> = (0..len).map(|i: u16| (2 * i + 1).to_be_bytes()).collect();
            for key in (0..=2 * len + 1).map(u16::to_be_bytes) {
                assert_eq!(position(&keys, |k| *k < key), keys.partition_point(|k| *k < key), "{key:?}");
                assert_eq!(position(&keys, |k| *k <= key), keys.partition_point(|k| *k <= key), "{key:?}");
            }
        }
    }

    fn leaf_with(keys: impl IntoIterator<Item = u16>) -> Leaf {
        let mut node = Leaf::format(vec![0; 128], 0, NO_PAGE);
        for key in keys {
            let at = node.search(&key.to_be_bytes()).unwrap_err();
            node.insert(at, &key.to_be_bytes(), &[key as u8; 3]);
        }
        node
    }

    fn entries(node: &Leaf) -> Vec<(u16, u8)> {
        let key = |i: usize| u16::from_be_bytes(node.keys()[i]);
        (0..node.count()).map(|i| (key(i), node.value(i)[2])).collect()
    }

    #[test]
    fn keeps_keys_sorted_and_values_beside_them() {
        let mut node = leaf_with([5, 1, 9, 3]);
        assert_eq!(entries(&node), [(1, 1), (3, 3), (5, 5), (9, 9)]);
        node.remove(1);
        node.set_value(0, &[7; 3]);
        assert_eq!(entries(&node), [(1, 7), (5, 5), (9, 9)]);
    }

    #[test]
    fn fills_to_its_capacity() {
        let node = leaf_with(0..20);
        assert_eq!(node.capacity(), 20, "(128 - 24) / (2 + 3)");
        assert!(node.is_full());
        assert_eq!(entries(&node).len(), 20);
    }

    #[test]
    fn splits_a_leaf_and_links_the_halves() {
        let mut left = leaf_with(0..20);
        let (separator, right) = left.split(10, vec![0; 128], 42);
        assert_eq!(u16::from_be_bytes(separator), 10);
        assert_eq!((left.link(), right.link()), (42, NO_PAGE));
        assert_eq!(entries(&left), (0..10).map(|i| (i, i as u8)).collect::<Vec<_>>());
        assert_eq!(entries(&right), (10..20).map(|i| (i, i as u8)).collect::<Vec<_>>());
    }

    #[test]
    fn splits_an_inner_page_by_moving_a_key_up() {
        let mut left = Leaf::format(vec![0; 128], 1, 100);
        for key in 1..=4_u16 {
            left.insert_child(&key.to_be_bytes(), u64::from(100 + key));
        }
        let (separator, right) = left.split(2, vec![0; 128], 7);
        assert_eq!(u16::from_be_bytes(separator), 3);
        assert_eq!((left.child(0), left.child(1), left.child(2)), (100, 101, 102));
        assert_eq!((right.child(0), right.child(1), right.count()), (103, 104, 1));
        assert_eq!(left.child_of(&2_u16.to_be_bytes()), 102, "a separator leads to its right");
    }

    #[test]
    fn refuses_pages_of_another_kind() {
        assert!(Leaf::open(vec![0; 128]).is_none());
        let other = Node::<Vec<u8>, 2, 4>::format(vec![0; 128], 0, NO_PAGE);
        assert!(Leaf::open(other.bytes().to_vec()).is_none());
        let mut bytes = leaf_with([1]).bytes().to_vec();
        bytes[10] = 200;
        assert!(Leaf::open(bytes).is_none(), "a count beyond the capacity");
    }
}
