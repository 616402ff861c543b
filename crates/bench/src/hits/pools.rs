//! Pools as contenders.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bufpool::{Direct, File, FileOptions, Pool, PoolOptions, Tenant};

use super::{Contender, PAGE_BYTES, contents, first_word};

/// A file of pages with their [`contents`], for pools to read. Removed in the end.
pub struct PoolPages {
    folder: tempfile::TempDir,
    pages: u32,
}

impl PoolPages {
    /// Writes `pages` pages into a file in `folder`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(folder: &std::path::Path, pages: u32) -> Result<Self> {
        let folder = tempfile::tempdir_in(folder).context("a folder for the pages")?;
        let made = Self { folder, pages };
        let pool = PoolOptions::new().page_bytes(PAGE_BYTES).direct(Direct::Prefer).open()?;
        let file = pool.open_file(made.path(), FileOptions::new().create(true))?;
        let tenant = pool.default_tenant();
        for number in file.extend(u64::from(pages))? {
            let mut page = tenant.create(file.page(number))?;
            page[..8].copy_from_slice(&contents(number as u32).to_le_bytes());
        }
        pool.close()?;
        Ok(made)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("pages")
    }
}

/// What a pool is asked to do beside handing out pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolKind {
    /// Everything: hits are noted, accesses told apart by call site, and drained into the tenant's default manager.
    Default,
    /// The same without call sites.
    Untagged,
    /// Hits are not noted.
    LogOff,
}

impl PoolKind {
    fn options(self) -> PoolOptions {
        match self {
            Self::Default => PoolOptions::new(),
            Self::Untagged => PoolOptions::new().call_sites(false),
            Self::LogOff => PoolOptions::new().note_hits(false),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "bufpool",
            Self::Untagged => "bufpool-untagged",
            Self::LogOff => "bufpool-log-off",
        }
    }
}

/// A pool with all pages in memory.
pub struct PoolContender {
    /// What the pool does.
    pub kind: PoolKind,
    file: File,
    tenant: Tenant,
    pool: Pool,
}

impl PoolContender {
    /// Opens a pool and brings the pages in.
    ///
    /// # Errors
    ///
    /// If the pool, the file or a page cannot be had.
    pub fn new(kind: PoolKind, pages: &PoolPages) -> Result<Self> {
        let pool =
            kind.options().page_bytes(PAGE_BYTES).frames(pages.pages + 64).direct(Direct::Prefer).open()?;
        let file = pool.open_file(pages.path(), FileOptions::new().read_only(true))?;
        let tenant = pool.default_tenant();
        for number in 0..u64::from(pages.pages) {
            tenant.read(file.page(number))?;
        }
        Ok(Self { kind, file, tenant, pool })
    }
}

impl PoolContender {
    /// Hits noted one by one, of all hits.
    pub fn share_noted(&self) -> f64 {
        let stats = self.pool.stats();
        stats.hits_noted as f64 / stats.hits.max(1) as f64
    }
}

impl Contender for PoolContender {
    fn name(&self) -> String {
        self.kind.name().into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let mut sum = 0_u64;
        for page in pages {
            let guard = self.tenant.read(self.file.page(u64::from(*page)))?;
            sum = sum.wrapping_add(first_word(&guard));
        }
        Ok(sum)
    }
}
