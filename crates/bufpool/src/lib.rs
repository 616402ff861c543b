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

mod access;
mod api;
pub mod docs;
mod engine;
mod error;
mod files;
mod handle;
mod hits;
mod io;
mod load;
#[cfg(all(test, bufpool_loom))]
mod loom_models;
mod memory;
mod owner;
mod page;
mod policy;
mod state;
mod sync;
mod sys;
mod thread;
mod write;

pub use access::futures::{OwnedReadGuard, OwnedWriteGuard, ReadFuture, WriteFuture};
pub use access::guard::{Pin, ReadGuard, WriteGuard};
pub use access::optimistic::{OptimisticWriteGuard, PageView};
pub use api::options::{FRAMES_MAX, FileOptions, PoolOptions};
pub use api::pool::Pool;
pub use api::report::Report;
pub use api::stats::{ContextStats, Stats, StreamStats, TenantStats};
pub use api::tenant::{At, TenantOptions};
pub use bufpool_policies::classic::PolicyKind as Policy;
pub use bufpool_policies::detect::Class as Pattern;
pub use bufpool_policies::{
    Access, Allocation, Block, ContextId, FileId, FrameId, Manager, ManagerKind, PageId, StreamReport,
    TenantId,
};
#[cfg(feature = "checksum")]
pub use engine::checksum::{Checksum, ChecksumStore};
pub use engine::hooks::{PageHooks, PageName};
pub use engine::log::Log;
pub use engine::recorder::{Event, Recorder};
pub use error::{Error, ErrorKind, Result};
pub use handle::file::{File, Page};
pub use handle::tenant::Tenant;
pub use io::options::{Direct, Io, IoBackend};
#[cfg(feature = "sim")]
pub use io::sim;
pub use io::{IoError, IoOperation, IoReport};
pub use memory::arena::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
pub use page::word::Version;
pub use thread::context::Context;
pub use thread::scope::Scope;
pub use thread::site::Site;
