//! redb over bufpool: a [`StorageBackend`] whose bytes are pages of a pool.
//!
//! ```
//! use bufpool::PoolOptions;
//! use bufpool_redb::PoolBackend;
//! use redb::{Database, ReadableDatabase, TableDefinition};
//!
//! const ORDERS: TableDefinition<u64, &str> = TableDefinition::new("orders");
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("orders.redb");
//! let pool = PoolOptions::new().memory_bytes(16 << 20).page_bytes(4096).open()?;
//! let backend = PoolBackend::open(&pool, "orders", &path)?;
//! let database = Database::builder().set_cache_size(64 << 10).create_with_backend(backend)?;
//! let writing = database.begin_write()?;
//! writing.open_table(ORDERS)?.insert(7, "a pair of shoes")?;
//! writing.commit()?;
//! assert_eq!(database.begin_read()?.open_table(ORDERS)?.get(7)?.unwrap().value(), "a pair of shoes");
//! # Ok(())
//! # }
//! ```
//!
//! redb's own cache would keep the same pages a second time, so it should be small, but not 0. redb keeps the
//! pages that a transaction changes in half of it. With a cache of 0 bytes, redb writes each page to its
//! backend whenever it changes another one, and reads it again for the next row.
//!
//! redb writes the pages of a commit to places that are free, syncs, and writes one of two headers. So the
//! order in which the pool writes pages does not matter, and [`sync_data`](StorageBackend::sync_data) is a
//! flush of the file. The pool's lock keeps other processes out, as redb's own would.
#![forbid(unsafe_code)]

use std::io;
use std::path::Path;

use bufpool::{File, FileOptions, Pool, Result, Tenant};
use redb::StorageBackend;

/// A database's bytes in a file of a pool.
///
/// It is a tenant of its own, so that several databases share a pool fairly.
#[derive(Debug)]
pub struct PoolBackend {
    tenant: Tenant,
    file: File,
}

impl PoolBackend {
    /// Opens the file at `path`, or makes it, for a tenant of this name.
    ///
    /// # Errors
    ///
    /// As [`Pool::open_file`] and [`bufpool::TenantOptions::open`].
    pub fn open(pool: &Pool, name: &str, path: impl AsRef<Path>) -> Result<Self> {
        let file = pool.open_file(path, FileOptions::new().create(true).bytes(true))?;
        Ok(Self { tenant: pool.tenant(name).open()?, file })
    }
}

impl StorageBackend for PoolBackend {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.byte_len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let read = self.tenant.read_at(&self.file, offset, out)?;
        if read < out.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Ok(self.file.set_byte_len(len)?)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(self.file.flush()?)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Ok(self.tenant.write_at(&self.file, offset, data)?)
    }

    fn close(&self) -> io::Result<()> {
        // redb calls this once, whatever has failed.
        let closed = self.file.clone().close();
        Ok(closed.and(self.tenant.clone().close())?)
    }
}
