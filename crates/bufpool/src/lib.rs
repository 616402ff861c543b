//! A buffer pool for storage engines.
//!
//! A pool keeps pages of files in a fixed number of page frames, reads and writes them with direct I/O, and
//! decides which of them stay in memory, for several users of the memory who need not trust each other.
//! It is not a storage engine: it has no log, no transactions, no lock manager and no page format.
//!
//! ```
//! use bufpool::{FileOptions, PoolOptions};
//!
//! # fn main() -> bufpool::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("orders.heap");
//! let pool = PoolOptions::new().memory_bytes(16 << 20).page_bytes(8192).open()?;
//! let orders = pool.open_file(&path, FileOptions::new().create(true))?;
//! let report = pool.tenant("report").floor_frames(64).open()?;
//!
//! // New pages are made, not read. A guard is a latch, and dropping it releases the latch.
//! for number in orders.extend(100)? {
//!     report.create(orders.page(number))?[..8].copy_from_slice(&number.to_le_bytes());
//! }
//! assert_eq!(report.read(orders.page(42))?[..8], 42_u64.to_le_bytes());
//!
//! // Everything written before this call is on the device when it returns.
//! pool.checkpoint()?;
//! println!("{}", pool.report());
//! pool.close()
//! # }
//! ```
//!
//! # Contents
//!
//! | to learn | read |
//! | --- | --- |
//! | the parts, in the order one meets them | [pool](#pool), [file](#file), [page and guard](#page-and-guard), [tenant](#tenant) |
//! | how to say what is known of accesses | [call site and context](#call-site-and-context), [manager and directives](#manager-and-directives) |
//! | what is on the device when | [durability](#durability), [`docs::guarantees`] |
//! | how not to wait | [async](#async), [optimistic reads](#optimistic-reads), [read-ahead and prefetch](#read-ahead-and-prefetch), [disclosed reads](#disclosed-reads) |
//! | how to repeat a run | [deterministic mode and recording](#deterministic-mode-and-recording) |
//! | how to write a replacement policy as text | [`docs::programs`] |
//! | what happens inside | [statistics](#statistics), [`docs::performance`] |
//! | which function to call | [what to call when](#what-to-call-when) |
//!
//! The root of the crate has the types that all users need. [`engine`] has what an engine implements for a
//! pool (log, page hooks, recorder), [`source`] what it implements to keep pages elsewhere than in local
//! files, [`manager`] what replacement managers are written with, and [`stats`] what a pool reports.
//!
//! # Pool
//!
//! A [`Pool`] is a number of equally large page frames, with an I/O backend and the threads that write pages
//! in the background. [`PoolOptions`] has every setting with its unit, range and default. A `Pool` is a
//! handle: clones are the same pool, and [`Pool::close`] ends it for all of them.
//!
//! ```
//! use bufpool::{Direct, PoolOptions};
//!
//! # fn main() -> bufpool::Result<()> {
//! let pool = PoolOptions::new().frames(1000).page_bytes(4096).direct(Direct::Prefer).open()?;
//! println!("{}", pool.io()); // the backend, and why it is not a better one
//! # pool.close()
//! # }
//! ```
//!
//! # File
//!
//! A [`File`] is a regular file or a block device, opened and locked by the pool. Its first page is page 0.
//! It grows by [`File::extend`]; a file of [bytes](FileOptions::bytes) grows by [`File::set_byte_len`] and
//! [`Tenant::write_at`], too. These allocate the space, so a full device is reported there and not when a
//! page is evicted. Dropping a `File` does not close it: its pages stay in memory until [`File::close`].
//!
//! ```no_run
//! use bufpool::FileOptions;
//!
//! # fn run(pool: &bufpool::Pool) -> bufpool::Result<()> {
//! let orders = pool.open_file("orders.heap", FileOptions::new().create(true))?;
//! let new = orders.extend(8)?; // the numbers of eight pages of zeros
//! assert_eq!(new.end, orders.pages());
//! # Ok(())
//! # }
//! ```
//!
//! # Page and guard
//!
//! A [`Page`] names a page by its file and number; making one costs nothing and checks nothing. Access to it
//! is by a *guard*, which dereferences to the page's bytes: a [`ReadGuard`] holds a shared latch, a
//! [`WriteGuard`] an exclusive one. A page becomes dirty when the bytes of a `WriteGuard` are first borrowed
//! mutably. A [`Pin`] keeps a page in its frame without latching it.
//!
//! Every wait for others has a limit. A latch is waited for `latch_wait_ms`, and a frame `frame_wait_ms` if
//! all are in use; after that the call fails. `try_` forms do not wait for others, and `_timeout` forms
//! bring their own limit. Both return `None` if they would have to wait longer. Every form waits for the
//! device if it has to read the page.
//!
//! ```no_run
//! # fn run(tenant: &bufpool::Tenant, file: &bufpool::File) -> bufpool::Result<()> {
//! let page = file.page(7);
//! let root = tenant.pin(page)?; // stays in memory while `root` lives
//! tenant.write(page)?[0] = 1; // latched for this statement
//! assert_eq!(root.read()?[0], 1);
//! if let Some(mut free) = tenant.try_write(file.page(8))? {
//!     free[0] = 2;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Tenant
//!
//! A [`Tenant`] is what the engine isolates: a table, a query, a thread, a customer. Every access is made by
//! a tenant, and a page belongs to the tenant that loaded it. LRU-SP decides which tenant gives up a frame,
//! so that a tenant which chooses its own victims badly pays for that itself. A *floor* is a number of
//! frames that others cannot take, a *cap* the most that the tenant may own. [`Pool::default_tenant`] serves
//! engines that need no isolation.
//!
//! ```
//! # fn run(pool: &bufpool::Pool) -> bufpool::Result<()> {
//! let orders = pool.tenant("orders").floor_frames(256).open()?;
//! let nightly = pool.tenant("nightly report").cap_frames(512).open()?;
//! # let _ = (orders, nightly);
//! # Ok(())
//! # }
//! ```
//!
//! # Call site and context
//!
//! The pool learns how pages are used from where they are accessed. The *call site* is the source line of
//! the call; access functions are `#[track_caller]`. An engine that fetches pages in one central function
//! names the site with [`site!`]. A *scope* ([`context!`]), such as a query or a node of its plan, says what
//! the accesses of a thread are for as long as the scope lives. Site and scopes together are the *context*
//! of an access: statistics, the automatic manager and read-ahead keep contexts apart.
//!
//! ```
//! use bufpool::{context, site};
//!
//! # fn run(tenant: &bufpool::Tenant, file: &bufpool::File) -> bufpool::Result<()> {
//! let _query = context!("Q6");
//! let _node = context!("plan node", 3);
//! tenant.at(site!("inner scan")).read(file.page(0))?; // in "Q6 > plan node 3 > inner scan"
//! # Ok(())
//! # }
//! ```
//!
//! [`Context`] carries scopes to other threads and tasks: [`Tenant::in_context`].
//!
//! # Manager and directives
//!
//! A tenant's *manager* decides which of its pages it gives up. The default, [`ManagerKind::Auto`], watches
//! each context's accesses to each file, and keeps the pages that it expects to be used soonest;
//! [`Automatic`](bufpool_policies::Automatic) explains how. An engine that knows better gives *directives*:
//! pages of the lowest priority go first, and each priority has a [`Policy`]. The first directive replaces
//! the tenant's manager. Advice that turns out wrong is charged to the tenant that gave it, and revoked for
//! a while if it keeps being wrong.
//!
//! ```
//! use bufpool::Policy;
//!
//! # fn run(tenant: &bufpool::Tenant, index: &bufpool::File, log: &bufpool::File) -> bufpool::Result<()> {
//! tenant.set_policy(0, Policy::Mru)?; // a loop that does not fit: keep its beginning
//! tenant.set_priority(index, 1)?; // the index outlives everything of priority 0
//! tenant.set_temporary_priority(log, 0..100, -1)?; // these pages are done with, until they are used again
//! # Ok(())
//! # }
//! ```
//!
//! Managers of the engine's own implement [`manager::Manager`]. A manager that need not be trusted, because
//! it comes from a user or a file, is written as text: a [`Program`], see [`docs::programs`].
//!
//! # Durability
//!
//! Dirty pages are written in the background, when their frames are needed, and by explicit calls.
//! [`File::flush`] and [`Pool::checkpoint`] return when everything that was dirty when they began is on the
//! device; writers go on meanwhile. The pool alone gives no atomicity beyond that: a crash between two
//! flushes leaves any subset of the changes made since the first. An engine with a write-ahead log hands the
//! pool an [`engine::Log`]; then no page is written before the log is durable up to the page's
//! [`set_lsn`](WriteGuard::set_lsn), and [`Pool::min_dirty_lsn`] says where redo has to begin.
//!
//! The first write or sync that fails *poisons* its file: the file can still be read, but takes no writes,
//! because it is no longer known what is on the device. [`File::reopen`] takes it into use again, and says
//! how many dirty pages are lost.
//!
//! ```no_run
//! use bufpool::ErrorKind;
//!
//! # fn run(file: &bufpool::File) -> bufpool::Result<()> {
//! if let Err(error) = file.flush() {
//!     eprintln!("{error}"); // names the operation, the file and the page
//!     if file.flush().is_err_and(|error| error.kind() == ErrorKind::FilePoisoned) {
//!         let lost = file.reopen()?;
//!         eprintln!("recovering {lost} pages from the log");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Async
//!
//! [`Tenant::read_async`] and [`Tenant::write_async`] return futures for any executor. The first poll begins
//! the read and returns; a future never blocks the thread that polls it, except in deterministic mode.
//! Dropping a future at any time leaves no latch, pin or frame behind. The guards are owned and `Send`;
//! [`ReadFuture`] says what may be held across an await.
//!
//! ```
//! # async fn run(tenant: &bufpool::Tenant, file: &bufpool::File) -> bufpool::Result<()> {
//! let (left, right) = (tenant.read_async(file.page(1)), tenant.read_async(file.page(2)));
//! let sum = left.await?[0] + right.await?[0];
//! # let _ = sum;
//! # Ok(())
//! # }
//! ```
//!
//! # Optimistic reads
//!
//! A latch writes to the page's word, so threads that read one hot page take turns at its cache line.
//! [`Tenant::optimistic`] reads without a latch: the closure sees the bytes as they are, perhaps while they
//! change, and its result counts only if nobody changed the page meanwhile; otherwise it is called again.
//! [`Tenant::still`] confirms later that a page has not changed since, as a descent through a tree needs.
//! Files opened with [`FileOptions::optimistic`] are written in words, through an [`OptimisticWriteGuard`].
//!
//! ```no_run
//! use bufpool::FileOptions;
//!
//! # fn run(pool: &bufpool::Pool, tenant: &bufpool::Tenant) -> bufpool::Result<()> {
//! let index = pool.open_file("index", FileOptions::new().optimistic(true))?;
//! let (child, version) = tenant.optimistic(index.page(0), |root| root.read_u64(8))?;
//! let (key, _) = tenant.optimistic(index.page(child), |node| node.read_u64(0))?;
//! let was_current = tenant.still(index.page(0), version);
//! # let _ = (key, was_current);
//! # Ok(())
//! # }
//! ```
//!
//! # Read-ahead and prefetch
//!
//! Sequential and strided reads of a context are recognised and read ahead, in transfers of up to 256 KiB. An
//! engine that knows its next pages says so: [`Tenant::prefetch`] begins reads and returns at once, and
//! [`Tenant::read_many`] reads the absent pages of a list together and waits for them. Pages that came in
//! ahead take at most [`prefetch_limit_percent`](PoolOptions::prefetch_limit_percent) of the frames a tenant
//! may own until they are used.
//!
//! ```
//! # fn run(tenant: &bufpool::Tenant, file: &bufpool::File, rows: &[u64]) -> bufpool::Result<()> {
//! let pages: Vec<_> = rows.iter().map(|row| file.page(row / 100)).collect();
//! tenant.prefetch(pages.iter().copied());
//! for answer in tenant.read_many(&pages) {
//!     match answer? {
//!         Some(page) => assert_eq!(page.len(), file.page_bytes()),
//!         None => {} // not to be had while the others are held: ask again once they are dropped
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Disclosed reads
//!
//! An engine often knows what it will read, and in which order: the tuple ids of an index leaf, a bitmap,
//! the log that it replays, the inner relation that it scans again. [`Tenant::hint`] takes that as an
//! iterator and returns a [`Hints`], whose [`next`](Hints::next) gives the pages in this order. The pool
//! fetches them far enough ahead that the reader does not wait, and neighbours in one transfer; it latches
//! only the page that it has handed out. Of the tenant's pages, the one that is needed last is evicted
//! first, so a list that goes round keeps as many pages as fit. Dropping the handle early, as for a LIMIT,
//! is the normal case.
//!
//! ```
//! use bufpool::{HintedPage, Tenant};
//!
//! # fn run(tenant: &Tenant, heap: &bufpool::File, tuples: Vec<(u64, u16)>) -> bufpool::Result<()> {
//! let file = heap.id();
//! let pages = tuples.clone().into_iter().map(move |(number, _)| HintedPage { file, number });
//! let mut hints = tenant.hint(pages)?;
//! for (number, slot) in tuples.into_iter().take(10) {
//!     let page = hints.next()?.expect("a page for each tuple");
//!     assert_eq!(page.page().number(), number);
//!     let _tuple = &page[usize::from(slot)..];
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The tenant's [`HintPolicy`] ([`TenantOptions::hints`]) says what is done with its hints. Fetched pages
//! take at most [`hint_limit_percent`](PoolOptions::hint_limit_percent) of the frames a tenant may own.
//! Hints that turn out wrong cost the tenant that gave them; [`Stats::hints`](stats::Stats::hints) counts
//! what became of them.
//!
//! # Deterministic mode and recording
//!
//! With [`PoolOptions::deterministic`] nothing runs in the background and random numbers come from a seed:
//! the same accesses by one thread give the same hits, misses and evictions each time. A
//! [`Recorder`](engine::Recorder) is told every event of such a run; the simulator of `bufpool-bench` replays
//! it with the same decisions, and with others.
//!
//! ```
//! use bufpool::PoolOptions;
//! use bufpool::engine::{Event, Recorder};
//!
//! struct Print;
//!
//! impl Recorder for Print {
//!     fn record(&mut self, event: Event<'_>) {
//!         println!("{event:?}");
//!     }
//! }
//!
//! # fn main() -> bufpool::Result<()> {
//! let pool = PoolOptions::new().frames(64).deterministic(42).recorder(Box::new(Print)).open()?;
//! # pool.close()
//! # }
//! ```
//!
//! # Statistics
//!
//! [`Pool::stats`] has the counts of the pool, each tenant, each context and each stream as data;
//! [`Pool::report`] has them as text, with the contexts that miss most on top. [`Pool::files`] lists the open
//! files. See [`stats`].
//!
//! # What to call when
//!
//! | you want to | call | it waits for |
//! | --- | --- | --- |
//! | read a page | [`Tenant::read`] | a writer of the page, the device |
//! | change a page | [`Tenant::write`] | all who hold the page, the device |
//! | make a page without reading it | [`File::extend`] once, [`Tenant::create`] | all who hold the page |
//! | do that without waiting for others | [`Tenant::try_read`], [`try_write`](Tenant::try_write), [`try_create`](Tenant::try_create) | the device |
//! | do that within a time | [`Tenant::read_timeout`], [`write_timeout`](Tenant::write_timeout), [`create_timeout`](Tenant::create_timeout) | as long as you say, and the device |
//! | keep a page in memory, unlatched | [`Tenant::pin`], or `pin` of any guard | as `read`; nothing |
//! | hold a page in another thread, or in a value of your own | [`Tenant::read_owned`], [`write_owned`](Tenant::write_owned), [`create_owned`](Tenant::create_owned), [`pin_owned`](Tenant::pin_owned), each with a `try_` and a `_timeout` form | as without `_owned` |
//! | read a list of pages together | [`Tenant::read_many`] | the device; for others only while it holds nothing |
//! | say which pages come next | [`Tenant::prefetch`] | nothing |
//! | read pages in an order that is known beforehand | [`Tenant::hint`], then [`Hints::next`] | as [`Tenant::read`] |
//! | access pages from tasks | [`Tenant::read_async`], [`write_async`](Tenant::write_async) | the task, not the thread |
//! | read a hot page on many cores | [`Tenant::optimistic`], [`Tenant::still`] | nothing, or as `read` |
//! | change a page of an optimistic file | [`Tenant::write_optimistic`], [`create_optimistic`](Tenant::create_optimistic) | as `write`, `create` |
//! | make one page durable | [`File::flush_page`] | its latch, the device |
//! | make a file durable | [`File::flush`] | latches one at a time, the device |
//! | make everything durable | [`Pool::checkpoint`] | the same |
//! | drop pages whose contents are of no use | [`File::discard`] | those who hold them |
//! | shorten a file | [`File::truncate`] | those who hold pages beyond, the device |
//! | end the use of a file | [`File::close`], or [`File::remove`] to delete it | those who hold its pages, the device |
//! | use a file again after a failed write | [`File::reopen`] | the same |
//! | give a tenant a policy program, or another one | [`Tenant::set_program`] | nothing |
//! | set a parameter of it | [`Tenant::send`] | nothing |
//! | end a tenant | [`Tenant::close`] | nothing |
//! | end the pool, and hear of failures | [`Pool::close`] | all who hold pages, the device |
//! | shorten the next checkpoint | [`Pool::set_dirty_limit_percent`] | nothing |
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | what it adds |
//! | --- | --- |
//! | `checksum` | CRC-32C of pages as [`PageHooks`](engine::PageHooks) |
//! | `zstd` | a tier in compressed memory, `tier::CompressedTier` |
//! | `sim` | `bufpool::sim`, a simulated device with faults and power cuts, for engines that test themselves |
//! | `deadlock-check` | a thread that would wait for a latch of its own is told in release builds, too |

mod access;
mod api;
pub mod docs;
pub mod engine;
mod error;
mod files;
mod handle;
mod hits;
mod io;
mod landing;
mod load;
#[cfg(all(test, bufpool_loom))]
mod loom_models;
mod memory;
mod owner;
mod page;
mod policy;
mod sharded;
mod state;
mod sync;
mod sys;
mod thread;
pub mod tier;
mod wakers;
mod write;

pub use access::futures::{ReadFuture, WriteFuture};
#[doc(hidden)]
pub use access::guard::PassingGuard;
pub use access::guard::{Pin, ReadGuard, WriteGuard};
pub use access::hints::{HintedPage, Hints, NextFuture};
pub use access::optimistic::{OptimisticWriteGuard, PageView};
pub use access::owned::{OwnedPin, OwnedReadGuard, OwnedWriteGuard};
pub use api::file::{Flush, FlushFuture};
pub use api::options::{FRAMES_MAX, FileOptions, PoolOptions};
pub use api::pool::Pool;
pub use api::tenant::At;
pub use api::tenant_options::TenantOptions;
pub use bufpool_policies::classic::PolicyKind as Policy;
pub use bufpool_policies::hints::HintPolicy;
pub use bufpool_policies::program::{EventSummary, Program, ProgramError, ProgramPlace};
pub use bufpool_policies::{ManagerKind, UnknownName};
pub use error::{Error, ErrorKind, Result};
pub use handle::file::{AnyPage, ClassedPage, File, Page};
pub use handle::tenant::Tenant;
pub use io::options::{Direct, FileLock, Io, IoBackend};
#[cfg(feature = "sim")]
pub use io::sim;
pub use io::{IoError, IoOperation};
pub use memory::arena::{PAGE_BYTES_MAX, PAGE_BYTES_MIN};
pub use page::word::Version;
pub use thread::context::Context;
pub use thread::scope::Scope;
pub use thread::site::Site;

/// What an engine needs to write a manager of its own.
///
/// A [`Manager`](manager::Manager) decides which of its tenant's pages goes
/// ([`TenantOptions::custom_manager`]). The pool tells it what happens to the tenant's blocks, and asks it
/// one question, [`replace_block`](manager::Manager::replace_block). It runs under the pool's policy lock,
/// so it should be quick, and it has no handle to the pool. The pool does not rely on it: an answer that
/// cannot be followed counts as the pool's own candidate, a wrong one costs its own tenant, and a panic
/// leaves the tenant unmanaged.
///
/// This manager gives up the page that came in last:
///
/// ```
/// use bufpool::PoolOptions;
/// use bufpool::manager::{Access, Block, FrameId, Manager, PageId};
///
/// #[derive(Default)]
/// struct Newest(Vec<FrameId>);
///
/// impl Manager for Newest {
///     fn new_block(&mut self, block: &Block) {
///         self.0.push(block.frame);
///     }
///     fn block_gone(&mut self, frame: FrameId, _: PageId) {
///         self.0.retain(|&other| other != frame);
///     }
///     fn block_accessed(&mut self, _: FrameId, _: &Access) {}
///     fn replace_block(
///         &mut self,
///         candidate: FrameId,
///         _: Option<&Access>,
///         busy: &mut dyn FnMut(FrameId) -> bool,
///     ) -> FrameId {
///         // Bounded, because the policy lock is held.
///         self.0.iter().rev().take(16).copied().find(|&frame| !busy(frame)).unwrap_or(candidate)
///     }
///     fn placeholder_used(&mut self, _: &Access, _: FrameId) {}
/// }
///
/// # fn main() -> bufpool::Result<()> {
/// let pool = PoolOptions::new().frames(64).open()?;
/// let tenant = pool.tenant("scan").custom_manager(Box::new(Newest::default())).open()?;
/// # drop(tenant);
/// # pool.close()
/// # }
/// ```
pub mod manager {
    pub use bufpool_policies::{
        Access, Allocation, Block, ContextId, FileId, FrameId, Manager, PageId, TenantId, WANTS_MAX, Want,
    };

    #[doc(no_inline)]
    pub use crate::stats::{Pattern, StreamReport};
}

/// What an engine implements to keep the pages of a file elsewhere than in a local file
/// ([`Pool::open_source`]).
///
/// The trait is [`Source`](source::Source), safe to implement. Local files and the simulated device
/// implement it too, and one suite of tests runs over all of them.
pub mod source {
    pub use crate::io::{Alignment, Capabilities, Done, FileIdentity, ReadRequest, Source, WriteRequest};
}

/// What a pool says about itself: counts as data ([`Pool::stats`]), as text ([`Pool::report`]), and how it
/// does I/O ([`Pool::io`]).
///
/// ```
/// # fn main() -> bufpool::Result<()> {
/// # let pool = bufpool::PoolOptions::new().frames(64).open()?;
/// let stats = pool.stats();
/// println!("{} of {} accesses hit", stats.hits, stats.accesses);
/// for context in stats.contexts.iter().take(3) {
///     println!("{}: {} misses", context.label(), context.misses);
/// }
/// # pool.close()
/// # }
/// ```
pub mod stats {
    pub use bufpool_policies::detect::Class as Pattern;
    pub use bufpool_policies::hints::HintCounts;
    pub use bufpool_policies::{EventCalls, Incident, StreamReport, Unloaded};

    pub use crate::api::file_stats::FileStats;
    pub use crate::api::report::Report;
    pub use crate::api::stats::{ContextStats, HintStats, ProgramStats, Stats, StreamStats, TenantStats};
    pub use crate::io::IoReport;
}
