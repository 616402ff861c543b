//! A buffer pool for storage engines.
//!
//! ```no_run
//! use bufpool::{FileOptions, Policy, PoolOptions};
//!
//! # fn main() -> bufpool::Result<()> {
//! let pool = PoolOptions::new().memory_bytes(256 << 20).page_bytes(8192).open()?;
//! let orders = pool.open_file("orders.heap", FileOptions::new().create(true))?;
//! let report = pool.tenant("report").floor_frames(64).cap_frames(4096).open()?;
//!
//! let new = orders.extend(1)?;
//! report.create(orders.page(new.start))?[..5].copy_from_slice(b"hello");
//! assert_eq!(&report.read(orders.page(new.start))?[..5], b"hello");
//!
//! report.set_policy(0, Policy::Mru)?;
//! pool.checkpoint()?;
//! println!("{}", pool.report());
//! pool.close()
//! # }
//! ```

mod call_site;
mod error;
mod file;
mod guard;
#[allow(dead_code, unused_imports)]
mod io;
mod options;
mod pool;
mod recorder;
mod stats;
#[allow(dead_code)]
mod sys;
mod tenant;

pub use bufpool_policies::{FileId, PageId};
pub use call_site::Site;
pub use error::{Error, ErrorKind, Result};
pub use file::{File, Page};
pub use guard::{Pin, ReadGuard, WriteGuard};
#[cfg(feature = "sim")]
pub use io::sim;
pub use io::{IoError, IoOperation, IoReport};
pub use options::{
    Direct, FRAMES_MAX, FileOptions, Io, IoBackend, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PoolOptions,
};
pub use pool::Pool;
pub use recorder::{Event, Recorder};
pub use stats::{Report, SiteStats, Stats, TenantStats};
pub use tenant::{At, Tenant, TenantOptions};

/// How frames are divided between tenants; re-exported from the policies crate once it lands there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Allocation {
    /// One list for everybody.
    GlobalLru,
    /// Swapping and placeholders.
    LruSp,
    /// Neither swapping nor placeholders.
    AllocLru,
    /// Swapping without placeholders.
    LruS,
}

/// The policy of a priority level; re-exported from the policies crate once it lands there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// Least recently used.
    Lru,
    /// Most recently used.
    Mru,
}
