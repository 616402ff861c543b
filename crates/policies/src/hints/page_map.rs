//! Maps from pages.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use crate::{ids::PageId, random::mix64};

/// A map from pages. Its order of iteration is the same in every run with the same history.
pub(super) type PageMap<V> = HashMap<PageId, V, BuildHasherDefault<PageHasher>>;

/// Low bits of a page's number in a run of neighbouring pages, whose entries lie side by side.
const NEIGHBOURS_BITS: u32 = 4;

/// Spreads runs of neighbouring pages, and keeps the pages of a run together: the table takes an entry's
/// place from the low bits of its hash and tells entries apart by the high bits. Reads that are disclosed are
/// often in order, and then one cache line serves several of them.
#[derive(Default)]
pub(super) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        let (run, within) = (number >> NEIGHBOURS_BITS, number & ((1 << NEIGHBOURS_BITS) - 1));
        let place = mix64(self.0 ^ run) << NEIGHBOURS_BITS | within;
        self.0 = place ^ within << (u64::BITS - NEIGHBOURS_BITS);
    }
}
