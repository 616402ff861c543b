//! Pools as contenders.

use std::path::PathBuf;

use anyhow::{Context, Result};
use bufpool::{Direct, File, FileOptions, Page, Pool, PoolOptions, Tenant};
use bufpool_policies::program::Program;
use tempfile::TempDir;

use super::{Contender, contents, first_word};
use crate::machine::temporary::Temporary;

/// Pages that are brought in by one call.
const READ_TOGETHER: usize = 256;

/// A file of pages with their [`contents`], for pools to read. The file is removed when this is dropped.
pub struct PoolPages {
    folder: Temporary<TempDir>,
    pages: u32,
    page_bytes: usize,
}

impl PoolPages {
    /// Writes `pages` pages of `page_bytes` into a file in `folder`.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(folder: &std::path::Path, pages: u32, page_bytes: usize) -> Result<Self> {
        let folder = Temporary::new(|| tempfile::tempdir_in(folder)).context("a folder for the pages")?;
        let made = Self { folder, pages, page_bytes };
        let pool = PoolOptions::new().page_bytes(page_bytes).direct(Direct::Prefer).open()?;
        let file = pool.open_file(made.path(), FileOptions::new().create(true))?;
        let tenant = pool.default_tenant();
        for number in file.extend(u64::from(pages))? {
            let mut page = tenant.create(file.page(number))?;
            page[..8].copy_from_slice(&contents(number as u32).to_le_bytes());
        }
        pool.close()?;
        Ok(made)
    }

    /// The number of pages.
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// The file's path.
    pub fn path(&self) -> PathBuf {
        self.folder.path().join("pages")
    }
}

/// What a pool does at a hit beside handing out the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PoolKind {
    /// The default: hits are noted with their call site and passed on to the automatic manager.
    Default,
    /// As `Default`, without call sites.
    Untagged,
    /// Hits are noted with their call site; no manager.
    Unmanaged,
    /// As `Unmanaged`, but the tenant's manager is a program without an `access` event.
    Program,
    /// Hits are noted without call sites; no manager.
    Plain,
    /// Hits are not noted; no manager.
    LogOff,
}

impl PoolKind {
    fn options(self) -> PoolOptions {
        match self {
            Self::Default => PoolOptions::new(),
            Self::Untagged => PoolOptions::new().call_sites(false),
            Self::Unmanaged | Self::Program => PoolOptions::new().manager(None),
            Self::Plain => PoolOptions::new().manager(None).call_sites(false),
            Self::LogOff => PoolOptions::new().manager(None).note_hits(false),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Default => "bufpool",
            Self::Untagged => "bufpool-untagged",
            Self::Unmanaged => "bufpool-unmanaged",
            Self::Program => "bufpool-program",
            Self::Plain => "bufpool-plain",
            Self::LogOff => "bufpool-log-off",
        }
    }
}

fn fifo2() -> Result<Program> {
    let text = include_str!("../../../../../examples/programs/fifo2.policy");
    Program::parse(text).context("fifo2.policy")
}

/// A pool over the pages, without read-ahead.
pub struct OpenPool {
    kind: PoolKind,
    file: File,
    tenant: Tenant,
    pool: Pool,
}

impl OpenPool {
    /// Opens a pool of `frames` frames and brings in the first pages, as many as fit.
    ///
    /// # Errors
    ///
    /// If the pool, the file or a page cannot be had.
    pub fn new(kind: PoolKind, pages: &PoolPages, frames: u32) -> Result<Self> {
        let options = kind.options().page_bytes(pages.page_bytes).frames(frames).direct(Direct::Prefer);
        let pool = options.read_ahead(false).open()?;
        let file = pool.open_file(pages.path(), FileOptions::new().read_only(true).optimistic(true))?;
        let tenant = match kind {
            PoolKind::Program => pool.tenant("program").program(&fifo2()?).open()?,
            _ => pool.default_tenant(),
        };
        let numbers: Vec<u64> = (0..u64::from(pages.pages.min(frames))).collect();
        for together in numbers.chunks(READ_TOGETHER) {
            let together: Vec<Page<'_>> = together.iter().map(|number| file.page(*number)).collect();
            tenant.read_many(&together).into_iter().try_for_each(|guard| guard.map(drop))?;
        }
        Ok(Self { kind, file, tenant, pool })
    }

    /// The share of hits that were noted one by one, from 0 to 1.
    pub fn share_noted(&self) -> f64 {
        let stats = self.pool.stats();
        stats.hits_noted as f64 / stats.hits.max(1) as f64
    }

    /// Bytes of metadata as a share of the bytes of all frames.
    pub fn share_metadata(&self) -> f64 {
        let stats = self.pool.stats();
        let frames = u64::from(stats.frames + stats.reserve_frames);
        stats.metadata_bytes as f64 / (frames * stats.page_bytes as u64) as f64
    }
}

/// Visits through shared latches.
pub struct Latched<'p>(pub &'p OpenPool);

impl Contender for Latched<'_> {
    fn name(&self) -> String {
        self.0.kind.name().into()
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let OpenPool { file, tenant, .. } = self.0;
        let mut sum = 0_u64;
        for page in pages {
            let guard = tenant.read(file.page(u64::from(*page)))?;
            sum = sum.wrapping_add(first_word(&guard));
        }
        Ok(sum)
    }
}

/// Visits through owned guards, which borrow nothing.
pub struct Owned<'p>(pub &'p OpenPool);

impl Contender for Owned<'_> {
    fn name(&self) -> String {
        self.0.kind.name().replacen("bufpool", "bufpool-owned", 1)
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let OpenPool { file, tenant, .. } = self.0;
        let mut sum = 0_u64;
        for page in pages {
            let guard = tenant.read_owned(file.page(u64::from(*page)))?;
            sum = sum.wrapping_add(first_word(&guard));
        }
        Ok(sum)
    }
}

/// Visits by optimistic reads, without latches.
pub struct Optimistic<'p>(pub &'p OpenPool);

impl Contender for Optimistic<'_> {
    fn name(&self) -> String {
        self.0.kind.name().replacen("bufpool", "bufpool-optimistic", 1)
    }

    fn visit(&self, pages: &[u32]) -> Result<u64> {
        let OpenPool { file, tenant, .. } = self.0;
        let mut sum = 0_u64;
        for page in pages {
            let (word, _) = tenant.optimistic(file.page(u64::from(*page)), |page| page.read_u64(0))?;
            sum = sum.wrapping_add(word);
        }
        Ok(sum)
    }
}
