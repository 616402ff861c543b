//! SQLite over bufpool: a VFS whose main databases are read and written through a pool.
//!
//! ```
//! use bufpool::PoolOptions;
//! use bufpool_sqlite::VfsOptions;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let pool = PoolOptions::new().memory_bytes(48 << 20).page_bytes(4096).open()?;
//! bufpool_sqlite::register(c"bufpool", &pool, VfsOptions::default())?;
//! // From here on `file:orders.db?vfs=bufpool` opens a database of the pool.
//! # Ok(())
//! # }
//! ```
//!
//! Journals, logs and temporary files are not in the pool. From the first transaction on a database until its
//! last connection is closed, other processes find the database locked (see [`Sharing`]). The README tells
//! what else differs from SQLite's unix VFS.
//!
//! | file | what it knows |
//! | --- | --- |
//! | `vfs.rs` | how SQLite calls a VFS |
//! | `sqlite.rs` | what the VFS calls of SQLite |
//! | `connection.rs` | a connection: a tenant, its locks, the statement it runs |
//! | `contexts.rs` | what a connection tells the pool of its accesses |
//! | `database.rs` | a file, shared by connections, taken into the pool and given back |
//! | `locks.rs` `wal_index.rs` | the locks between connections, in rollback and in WAL mode |
//! | `process_lock.rs` | the lock that keeps other processes out |
//! | `extension.rs` | what SQLite's `.load` calls |

use std::ffi::CStr;
use std::fmt;

use bufpool::Pool;

pub use contexts::Contexts;
pub use database::Sharing;
pub use vfs::VfsOptions;

mod connection;
mod contexts;
mod database;
mod extension;
mod failure;
mod locks;
mod process_lock;
mod sqlite;
mod statements;
mod vfs;
mod wal_index;

/// Registers a VFS over `pool` with the SQLite that the program is linked with, for the life of the process.
///
/// The pool's pages may be of any size. The best size is that of the databases' pages: SQLite reads smaller
/// ones in their frames too, but larger ones are copied to its cache. Once the pool is closed, connections
/// fail.
///
/// # Errors
///
/// If SQLite has no VFS `unix`, or cannot be initialised.
pub fn register(name: &'static CStr, pool: &Pool, options: VfsOptions) -> Result<(), NotRegistered> {
    let registered = vfs::register(sqlite::Sqlite::linked(), name, pool, options);
    registered.map_err(|failure| NotRegistered { code: failure.code })
}

/// SQLite did not take the VFS.
#[derive(Debug)]
pub struct NotRegistered {
    /// SQLite's result code.
    pub code: i32,
}

impl fmt::Display for NotRegistered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SQLite does not take the VFS: result code {}", self.code)
    }
}

impl std::error::Error for NotRegistered {}
