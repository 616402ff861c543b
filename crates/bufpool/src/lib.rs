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
mod access_log;
mod arena;
mod asynchronous;
mod borrowed;
mod call_site;
mod checkpoint;
#[cfg(feature = "checksum")]
mod checksum;
mod contexts;
pub mod docs;
mod drain;
mod error;
mod file;
mod flush;
mod frame;
mod gate;
mod guard;
mod hit_filter;
mod hooks;
mod hot_file;
mod hot_thread;
mod io;
mod landing;
mod latch;
mod log;
#[cfg(all(test, bufpool_loom))]
mod loom_models;
mod miss;
mod optimistic;
mod options;
mod owner;
mod page_out;
mod page_table;
mod page_word;
mod policy;
mod pool;
mod pool_handle;
mod prefetch;
mod read_ahead;
mod read_many;
mod readers;
mod recorder;
mod report;
mod reserve;
mod scope;
mod stats;
mod sync;
mod sys;
mod tenant;
mod timer;
mod write_back;
mod write_window;

pub use asynchronous::{OwnedReadGuard, OwnedWriteGuard, ReadFuture, WriteFuture};
pub use bufpool_policies::classic::PolicyKind as Policy;
pub use bufpool_policies::detect::Class as Pattern;
pub use bufpool_policies::{
    Access, Allocation, Block, ContextId, FileId, FrameId, Manager, ManagerKind, PageId, StreamReport,
    TenantId,
};
pub use call_site::Site;
#[cfg(feature = "checksum")]
pub use checksum::{Checksum, ChecksumStore};
pub use error::{Error, ErrorKind, Result};
pub use file::{File, Page};
pub use guard::{Pin, ReadGuard, WriteGuard};
pub use hooks::{PageHooks, PageName};
#[cfg(feature = "sim")]
pub use io::sim;
pub use io::{IoError, IoOperation, IoReport};
pub use log::Log;
pub use optimistic::{OptimisticWriteGuard, PageView};
pub use options::{
    Direct, FRAMES_MAX, FileOptions, Io, IoBackend, PAGE_BYTES_MAX, PAGE_BYTES_MIN, PoolOptions,
};
pub use page_word::Version;
pub use pool::Pool;
pub use recorder::{Event, Recorder};
pub use report::Report;
pub use scope::{Context, Scope};
pub use stats::{ContextStats, Stats, StreamStats, TenantStats};
pub use tenant::{At, Tenant, TenantOptions};
