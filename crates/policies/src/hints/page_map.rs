//! Maps from pages.

use std::{
    collections::HashMap,
    hash::{BuildHasherDefault, Hasher},
};

use crate::{ids::PageId, random::mix64};

/// A map from pages. Its order of iteration is the same in every run with the same history.
pub(super) type PageMap<V> = HashMap<PageId, V, BuildHasherDefault<PageHasher>>;

/// Spreads the bits of a page's number.
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
        self.0 = mix64(self.0 ^ number);
    }
}
