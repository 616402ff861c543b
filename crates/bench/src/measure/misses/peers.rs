//! Other caches, which copy a page from memory on a miss.

use std::sync::Arc;

use anyhow::Result;

use super::source::MemoryPages;
use super::{Contender, Counts, PAGE_BYTES, first_word};
use crate::measure::hits::PageCache;

/// A cache of pages on the heap.
pub struct CachedMemory<C> {
    cache: C,
    pages: Arc<MemoryPages>,
}

impl<C: PageCache> CachedMemory<C> {
    /// An empty cache for `capacity` pages, in front of `pages`.
    pub fn new(pages: &Arc<MemoryPages>, capacity: u32) -> Self {
        Self { cache: C::new(capacity), pages: Arc::clone(pages) }
    }
}

impl<C: PageCache> Contender for CachedMemory<C> {
    fn name(&self) -> String {
        C::NAME.into()
    }

    fn visit(&self, _thread: usize, pages: &[u32]) -> Result<(u64, u64)> {
        let (mut sum, mut misses) = (0_u64, 0);
        for number in pages {
            let page = self.cache.get(*number).unwrap_or_else(|| {
                misses += 1;
                let mut page = Arc::new([0; PAGE_BYTES]);
                self.pages.copy(*number, &mut Arc::get_mut(&mut page).expect("it is new")[..]);
                self.cache.insert(*number, Arc::clone(&page));
                page
            });
            sum = sum.wrapping_add(first_word(&page[..]));
        }
        Ok((sum, misses))
    }

    fn counts(&self) -> Option<Counts> {
        None
    }
}
