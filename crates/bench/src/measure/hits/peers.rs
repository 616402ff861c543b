//! Other programs that keep pages in memory: caches of whole pages behind `Arc`, and a database whose values
//! are pages.

use std::fs::File;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use parking_lot::Mutex;

use super::{Contender, PAGE_BYTES, PoolPages, contents, first_word};

/// A page on the heap.
type Page = Arc<[u8; PAGE_BYTES]>;

/// A cache of pages.
pub trait PageCache: Sync {
    /// Its name in tables.
    const NAME: &str;

    /// An empty cache for `pages` pages.
    fn new(pages: u32) -> Self;

    /// The page with this number, if the cache has it.
    fn get(&self, number: u32) -> Option<Page>;

    /// Puts a page into the cache, which may evict another.
    fn insert(&self, number: u32, page: Page);
}

/// A cache of the pages of a file. A miss reads the page from the file, through the system's page cache.
pub struct Cached<C> {
    cache: C,
    file: File,
}

impl<C: PageCache> Cached<C> {
    /// A cache for `capacity` pages, which holds the file's first ones.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub fn new(pages: &PoolPages, capacity: u32) -> Result<Self> {
        let file = File::open(pages.path()).context("open the pages")?;
        let cached = Self { cache: C::new(capacity), file };
        for number in 0..pages.pages().min(capacity) {
            cached.load(number)?;
        }
        Ok(cached)
    }

    #[cold]
    fn load(&self, number: u32) -> Result<Page> {
        let mut page = [0; PAGE_BYTES];
        self.file.read_exact_at(&mut page, u64::from(number) * PAGE_BYTES as u64)?;
        let page = Arc::new(page);
        self.cache.insert(number, Arc::clone(&page));
        Ok(page)
    }
}

impl<C: PageCache> Contender for Cached<C> {
    fn name(&self) -> String {
        C::NAME.into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for number in pages {
            let page = match self.cache.get(*number) {
                Some(page) => page,
                None => self.load(*number)?,
            };
            sum = sum.wrapping_add(first_word(&page[..]));
        }
        Ok(sum)
    }
}

/// quick_cache.
pub struct QuickCache(quick_cache::sync::Cache<u32, Page>);

impl PageCache for QuickCache {
    const NAME: &str = "quick_cache";

    fn new(pages: u32) -> Self {
        Self(quick_cache::sync::Cache::new(pages as usize))
    }

    #[inline]
    fn get(&self, number: u32) -> Option<Page> {
        self.0.get(&number)
    }

    fn insert(&self, number: u32, page: Page) {
        self.0.insert(number, page);
    }
}

/// moka.
pub struct Moka(moka::sync::Cache<u32, Page>);

impl PageCache for Moka {
    const NAME: &str = "moka";

    fn new(pages: u32) -> Self {
        Self(moka::sync::Cache::new(u64::from(pages)))
    }

    #[inline]
    fn get(&self, number: u32) -> Option<Page> {
        self.0.get(&number)
    }

    fn insert(&self, number: u32, page: Page) {
        self.0.insert(number, page);
    }
}

/// foyer's cache in memory.
pub struct Foyer(foyer::Cache<u32, Page>);

impl PageCache for Foyer {
    const NAME: &str = "foyer";

    fn new(pages: u32) -> Self {
        Self(foyer::CacheBuilder::new(pages as usize).build())
    }

    #[inline]
    fn get(&self, number: u32) -> Option<Page> {
        self.0.get(&number).map(|entry| Arc::clone(entry.value()))
    }

    fn insert(&self, number: u32, page: Page) {
        self.0.insert(number, page);
    }
}

/// The crate lru behind a mutex.
pub struct MutexLru(Mutex<lru::LruCache<u32, Page>>);

impl PageCache for MutexLru {
    const NAME: &str = "mutex-lru";

    fn new(pages: u32) -> Self {
        let capacity = NonZeroUsize::new(pages as usize).expect("room for a page");
        Self(Mutex::new(lru::LruCache::new(capacity)))
    }

    #[inline]
    fn get(&self, number: u32) -> Option<Page> {
        self.0.lock().get(&number).map(Arc::clone)
    }

    fn insert(&self, number: u32, page: Page) {
        self.0.lock().put(number, page);
    }
}

const TABLE: redb::TableDefinition<'_, u32, &[u8]> = redb::TableDefinition::new("pages");

/// A redb database with the pages as values. Each call of `visit` reads in one transaction.
pub struct PageDb(redb::Database);

impl PageDb {
    /// Writes `pages` pages into a database in `folder`, which keeps `cache_bytes` bytes in memory.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub fn new(folder: &Path, pages: u32, cache_bytes: usize) -> Result<Self> {
        let path = folder.join(format!("{cache_bytes}.redb"));
        let database = redb::Database::builder().set_cache_size(cache_bytes).create(path)?;
        for first in (0..pages).step_by(1 << 12) {
            let mut transaction = database.begin_write()?;
            transaction.set_durability(redb::Durability::None)?;
            {
                let mut table = transaction.open_table(TABLE)?;
                let mut page = [0; PAGE_BYTES];
                for number in first..pages.min(first + (1 << 12)) {
                    page[..8].copy_from_slice(&contents(number).to_le_bytes());
                    table.insert(number, &page[..])?;
                }
            }
            transaction.commit()?;
        }
        Ok(Self(database))
    }
}

impl Contender for PageDb {
    fn name(&self) -> String {
        "page-db".into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let table = redb::ReadableDatabase::begin_read(&self.0)?.open_table(TABLE)?;
        let mut sum = 0_u64;
        for number in pages {
            let page = table.get(*number)?.with_context(|| format!("page {number} is not there"))?;
            sum = sum.wrapping_add(first_word(page.value()));
        }
        Ok(sum)
    }
}
