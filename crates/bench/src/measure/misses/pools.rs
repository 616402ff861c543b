//! Pools as contenders: one that all threads share, or two, each with half of the frames and of the threads.

use std::sync::Arc;

use anyhow::Result;
use bufpool::{File, FileOptions, Pool, PoolOptions, Tenant};

use super::source::{MemoryPages, Shared};
use super::{Contender, Counts, PAGE_BYTES, first_word};
use crate::workload::Scheme;

/// Threads that a pool is made for.
const THREADS_MAX: u32 = 64;

/// The end of the names of pairs of pools.
pub const TWO_POOLS: &str = "-two-pools";

/// Pools under a scheme.
pub struct Pools {
    name: String,
    pools: Vec<OnePool>,
}

struct OnePool {
    pool: Pool,
    file: File,
    tenant: Tenant,
}

impl Pools {
    /// One pool of `frames` frames.
    ///
    /// # Errors
    /// As the pool's.
    pub fn one(scheme: &Scheme, pages: &Arc<MemoryPages>, frames: u32) -> Result<Self> {
        Ok(Self { name: scheme.name.to_owned(), pools: vec![OnePool::new(scheme, pages, frames)?] })
    }

    /// Two pools of half as many frames each. Threads with even numbers use the first, the others the second.
    ///
    /// # Errors
    /// As the pool's.
    pub fn two(scheme: &Scheme, pages: &Arc<MemoryPages>, frames: u32) -> Result<Self> {
        let half = || OnePool::new(scheme, pages, frames / 2);
        Ok(Self { name: format!("{}{TWO_POOLS}", scheme.name), pools: vec![half()?, half()?] })
    }
}

impl OnePool {
    fn new(scheme: &Scheme, pages: &Arc<MemoryPages>, frames: u32) -> Result<Self> {
        let options = PoolOptions::new().page_bytes(PAGE_BYTES).frames(frames).threads_max(THREADS_MAX);
        let pool = options.allocation(scheme.allocation).manager(scheme.manager.kind()).open()?;
        let source = Arc::new(Shared(Arc::clone(pages)));
        let file = pool.open_source(source, FileOptions::new().read_only(true))?;
        let tenant = pool.default_tenant();
        Ok(Self { pool, file, tenant })
    }
}

impl Contender for Pools {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn visit(&self, thread: usize, pages: &[u32]) -> Result<(u64, u64)> {
        let OnePool { file, tenant, .. } = &self.pools[thread % self.pools.len()];
        let mut sum = 0_u64;
        for page in pages {
            let guard = tenant.read(file.page(u64::from(*page)))?;
            sum = sum.wrapping_add(first_word(&guard));
        }
        Ok((sum, 0))
    }

    fn counts(&self) -> Option<Counts> {
        let add = |sum: Counts, pool: &OnePool| {
            let stats = pool.pool.stats();
            Counts { misses: sum.misses + stats.misses, held_ns: sum.held_ns + stats.lock_held_ns }
        };
        Some(self.pools.iter().fold(Counts::default(), add))
    }
}
