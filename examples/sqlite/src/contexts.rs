//! What the contexts of a connection's accesses are made of.

use std::sync::atomic::{AtomicU8, Ordering};

use parking_lot::RwLock;

/// What the context of an access is made of. SQLite reads all pages by one function, so the call site tells
/// nothing apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contexts {
    /// The statement that a transaction began with.
    pub statements: bool,
    /// What a page of a B-tree was when it was read last, by its first byte: interior page or leaf, of a
    /// table or of an index. Only pages that SQLite reads in their frames (`PRAGMA mmap_size`) have a class,
    /// and the pool's pages must have the size of the database's. Takes one to two bytes of memory a page.
    pub page_classes: bool,
    /// How many return addresses above the call; see
    /// [`TenantOptions::stack_contexts`](bufpool::TenantOptions::stack_contexts). If more than 0, SQLite must
    /// be compiled with `-fno-omit-frame-pointer`, and Rust with `-C force-frame-pointers=yes`.
    pub stack_depth: u8,
}

impl Default for Contexts {
    /// Statements.
    fn default() -> Self {
        Self { statements: true, ..Self::NONE }
    }
}

impl Contexts {
    /// Nothing.
    pub const NONE: Self = Self { statements: false, page_classes: false, stack_depth: 0 };
}

/// The offset of the type in the first page of a database, which begins with the database's header.
const FIRST_PAGE_TYPE: usize = 100;

/// The classes of a database's pages, as they were seen last.
#[derive(Default)]
pub(crate) struct PageClasses {
    of: RwLock<Vec<AtomicU8>>,
}

impl PageClasses {
    /// The class of a page; 0 if it is not known, or no page of a B-tree.
    pub fn get(&self, number: u64) -> u8 {
        // Relaxed: a class is advice.
        self.of.read().get(number as usize).map_or(0, |class| class.load(Ordering::Relaxed))
    }

    /// Takes note of what a page is.
    pub fn see(&self, number: u64, page: &[u8]) {
        let first = if number == 0 { FIRST_PAGE_TYPE } else { 0 };
        let class = class_of(page.get(first).copied());
        if self.get(number) == class {
            return;
        }
        let at = number as usize;
        if self.of.read().len() <= at {
            let mut all = self.of.write();
            let len = (at + 1).next_power_of_two().max(all.len());
            all.resize_with(len, AtomicU8::default);
        }
        self.of.read()[at].store(class, Ordering::Relaxed);
    }
}

/// The class of a page with this type: section 1.6 of SQLite's file format.
fn class_of(page_type: Option<u8>) -> u8 {
    match page_type {
        Some(2) => 1,
        Some(5) => 2,
        Some(10) => 3,
        Some(13) => 4,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_the_class_that_was_seen_last() {
        let classes = PageClasses::default();
        let mut first = [0; 512];
        first[FIRST_PAGE_TYPE] = 5;
        classes.see(0, &first);
        for (number, page_type) in [(1, 2), (900, 10), (3, 13), (2, 7)] {
            classes.see(number, &[page_type; 512]);
        }
        let found = [0, 1, 2, 3, 4, 900, 1 << 40].map(|number| classes.get(number));
        assert_eq!(found, [2, 1, 0, 4, 0, 3, 0]);
        classes.see(900, &[0; 512]);
        assert_eq!(classes.get(900), 0);
    }
}
