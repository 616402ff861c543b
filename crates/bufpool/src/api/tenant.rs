//! Tenants: who accesses pages, and with which share of the frames.
//!
//! A tenant is what the engine wants to isolate: a table, a query, a thread or a customer.
//! `examples/tenants.rs` shows each of them.

use std::ops::Range;
use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bufpool_policies::classic::PolicyKind as Policy;
use bufpool_policies::program::{NeedsPrivilege, Program};
use bufpool_policies::{DirectiveError, DirectoryError, PageId, SendError};

use crate::access::futures::{ReadFuture, WriteFuture};
use crate::access::guard::{PassingGuard, Pin, ReadGuard, WriteGuard};
use crate::access::hints::{HintedPage, Hints};
use crate::access::hit::{TenantAccess, or_none};
use crate::access::optimistic::{OptimisticWriteGuard, PageView};
use crate::access::owned::{OwnedPin, OwnedReadGuard, OwnedWriteGuard};
use crate::api::bytes;
use crate::engine::recorder::Event;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::{AnyPage, File, Page};
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::PoolTag;
use crate::load::prefetch::TenantPrefetch;
use crate::page::word::Version;
use crate::policy::state::PolicyState;
use crate::state::waiting::{Limit, Refused};
use crate::thread::context::Context;
use crate::thread::site::{CallPlace, Origin, PageClass, Site};
use crate::write::cap::shrink_to_cap;
use crate::write::evict::Emptying;

/// A tenant whose accesses come from where the engine says; see [`Tenant::at`] and [`Tenant::in_context`].
#[derive(Clone, Copy)]
pub struct At<'t> {
    tenant: &'t Tenant,
    /// None: the caller's source line.
    site: Option<&'static Site>,
    /// None: that of the thread.
    context: Option<Context>,
}

/// The access functions, once for [`Tenant`] and once for [`At`].
macro_rules! access_functions {
    ([$($receiver:tt)*] [$($bound:tt)*] $tenant:expr, $site:expr) => {
        /// Shared access to `page`. Waits while the page is latched exclusively or being loaded, and reads it
        /// if it is not in memory. A hit allocates nothing. At most 123 guards share a page; the next one
        /// waits.
        ///
        /// # Errors
        ///
        /// Those of [all access functions](crate::Tenant#errors).
        #[track_caller]
        #[inline(always)]
        pub fn read<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<ReadGuard<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_shared(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// Exclusive access to `page`. Waits until nobody else has a latch on it, and reads it if it is not
        /// in memory. The page becomes dirty when the guard's bytes are first borrowed mutably.
        ///
        /// # Errors
        ///
        /// Those of [all access functions](crate::Tenant#errors); [`ErrorKind::ReadOnly`],
        /// [`ErrorKind::FilePoisoned`]; [`ErrorKind::Unsupported`] for an optimistic file.
        #[track_caller]
        #[inline]
        pub fn write<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<WriteGuard<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_exclusive(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// Exclusive access to `page`, filled with zeros, and dirty. A page that is not in memory is not
        /// read.
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write).
        #[track_caller]
        pub fn create<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<WriteGuard<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_created(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// Makes `bytes`, as many as a page has, the contents of `page`, which becomes dirty. A page that is
        /// not in memory is neither read nor zeroed; it counts as one that was [created](Self::create).
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write); [`ErrorKind::PageSize`] for another number of bytes, and nothing has
        /// changed.
        #[track_caller]
        pub fn overwrite<'g>($($receiver)*, page: impl AnyPage<'g>, bytes: &[u8]) -> Result<()> $($bound)* {
            let (page, origin) = accessed(page, $site);
            let written = TenantAccess::of($tenant).overwrite(page, bytes, origin, Limit::Default);
            written.map_err(Refused::into_error)
        }

        /// As [`read`](Self::read), but `None` instead of waiting for others' latches, loads or frames. A
        /// page that is not in memory is still read, and the call waits for the device.
        #[track_caller]
        pub fn try_read<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<ReadGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_shared(page, origin, Limit::Now))
        }

        /// As [`write`](Self::write), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_write<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<WriteGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_exclusive(page, origin, Limit::Now))
        }

        /// As [`create`](Self::create), but `None` instead of waiting for others' latches, loads or frames.
        #[track_caller]
        pub fn try_create<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<WriteGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_created(page, origin, Limit::Now))
        }

        /// As [`read`](Self::read), but `None` once it has waited for others until `limit` is over. The time
        /// of its own read of the page is not limited.
        #[track_caller]
        pub fn read_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<ReadGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_shared(page, origin, Limit::Within(limit)))
        }

        /// As [`write`](Self::write), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn write_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<WriteGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_exclusive(page, origin, Limit::Within(limit)))
        }

        /// As [`create`](Self::create), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn create_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<WriteGuard<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_created(page, origin, Limit::Within(limit)))
        }

        /// Shared access to many pages. Those that are not in memory are read together; pages that are
        /// neighbours in the list and in their file are one transfer of up to 256 KiB.
        ///
        /// The answers are in the order of `pages`: a guard, an error of [`read`](Self::read), or `None`.
        /// `None` means that the page could not be had without waiting for others while guards are held: it
        /// is latched exclusively, being loaded by another call, being written before it leaves, without a
        /// free frame, or beyond what one call may hold (all frames but two for each further thread of
        /// `threads_max`). Ask for those pages again once the guards are dropped. At least one page of a list
        /// is granted or fails, so asking again ends.
        ///
        /// Pages that read-ahead, hints or [`prefetch`](Self::prefetch) are bringing in already are waited
        /// for, at most for `latch_wait_ms`; later they are `None`, too.
        ///
        /// Each guard is one access; a page may be in the list more than once. While a call holds a guard it
        /// waits for the device only, so calls whose lists overlap cannot deadlock. A caller that already
        /// holds a latch waits as in [`read`](Self::read). In deterministic mode the pages are read one after
        /// the other.
        ///
        /// Each guard keeps writers of its page waiting, so the guards of a batch should be dropped soon.
        #[track_caller]
        pub fn read_many<'g>(
            $($receiver)*,
            pages: &[impl AnyPage<'g>],
        ) -> Vec<Result<Option<ReadGuard<'g>>>> $($bound)* {
            let pages: Vec<_> =
                pages.iter().map(|page| page.page().class(page.number_of_class())).collect();
            TenantAccess::of($tenant).guard_many(&pages, $site.site())
        }

        /// Begins to read pages that will be needed soon, and returns how many reads were begun. Takes the
        /// policy lock, and waits for neither latches nor I/O. Pages that are in memory, on their way, beyond
        /// their file's end, or of a file of another pool are passed over.
        ///
        /// Ends early when pages that nobody has accessed yet fill `prefetch_limit_percent` of the frames the
        /// tenant may own, when clean frames are scarce, and after 65,536 pages. A prefetch is no access. The
        /// first access to such a page is a hit, and is counted in
        /// [`prefetch_used`](crate::stats::Stats::prefetch_used) too. A read that fails is counted; the
        /// access that needs the page reads it again and gets the error. Does nothing in deterministic mode.
        ///
        /// # Panics
        ///
        /// If the iterator does. The pages that it named are read as far as they were begun: it is asked for
        /// at most 256 pages of one file before their reads begin. The others stay absent, and the pool is as
        /// before.
        ///
        /// ```
        /// # fn run(tenant: &bufpool::Tenant, file: &bufpool::File) {
        /// tenant.prefetch((10..20).map(|number| file.page(number)));
        /// tenant.prefetch([file.page(7), file.page(99)]);
        /// # }
        /// ```
        #[track_caller]
        pub fn prefetch<'g>($($receiver)*, pages: impl IntoIterator<Item = Page<'g>>) -> usize $($bound)* {
            TenantPrefetch::of($tenant).prefetch_all(pages, $site.site())
        }

        /// Shared access to `page`, as a future for any executor; nothing happens before its first poll. One
        /// access, from the place and in the context of this call.
        ///
        /// The guard may be held across awaits and moved between threads. What a future waits for, what may
        /// be held meanwhile, and what dropping it leaves behind is said at [`ReadFuture`].
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read), from the future: [`ErrorKind::LatchTimeout`] after `latch_wait_ms`,
        /// [`ErrorKind::Exhausted`] after `frame_wait_ms`.
        ///
        /// # Panics
        ///
        /// If a future is polled again after it was ready.
        #[track_caller]
        pub fn read_async<'g>($($receiver)*, page: impl AnyPage<'g>) -> ReadFuture $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).read_future(page, origin.site())
        }

        /// Exclusive access to `page`, as a future; see [`read_async`](Self::read_async).
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write), and as [`read_async`](Self::read_async); [`ErrorKind::Unsupported`] for
        /// an optimistic file.
        #[track_caller]
        pub fn write_async<'g>($($receiver)*, page: impl AnyPage<'g>) -> WriteFuture $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).write_future(page, origin.site())
        }

        /// Reads `page` of an optimistic file without a latch, and so without writing anything that threads
        /// share. Returns what `read` made of it, and the version of the page that it is of.
        ///
        /// `read` may be called several times. What it sees may be torn by a writer or belong to another
        /// page; then its result is thrown away. So it must take any bytes without panicking or looping for
        /// ever, change nothing outside, and not access pages itself. It should be short, because a frame
        /// whose page has left is used again only when nobody reads it any more. After a few failed tries,
        /// and where the page is not in memory, the page is read under a shared latch. A validated read is
        /// one access.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Unsupported`] if the file was not opened as optimistic; otherwise as `read`.
        #[track_caller]
        #[inline(always)]
        pub fn optimistic<'g, R>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            read: impl FnMut(PageView<'_>) -> R,
        ) -> Result<(R, Version)> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).read_optimistic(page, origin, read)
        }

        /// Exclusive access to `page` of an optimistic file.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Unsupported`] if the file was not opened as optimistic; otherwise as `write`.
        #[track_caller]
        pub fn write_optimistic<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
        ) -> Result<OptimisticWriteGuard<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_optimistic(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// Exclusive access to `page` of an optimistic file, filled with zeros. A page that is not resident
        /// is not read.
        ///
        /// # Errors
        ///
        /// As [`write_optimistic`](Self::write_optimistic).
        #[track_caller]
        pub fn create_optimistic<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
        ) -> Result<OptimisticWriteGuard<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_created_optimistic(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// Brings `page` in and keeps it in its frame, without a latch, as long as the pin lives. One
        /// access; waits as [`read`](Self::read).
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read).
        #[track_caller]
        pub fn pin<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Pin<'g>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).pinned(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// As [`pin`](Self::pin), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_pin<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<Pin<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).pinned(page, origin, Limit::Now))
        }

        /// As [`pin`](Self::pin), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn pin_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<Pin<'g>>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).pinned(page, origin, Limit::Within(limit)))
        }

        /// Copies the file's bytes from `offset` on to `into`, and returns how many there were: fewer than
        /// asked for only at the end of the file. Latches one page at a time; pages that are not in memory
        /// are read together where they are neighbours.
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read). Some of the bytes may have been copied then.
        #[track_caller]
        pub fn read_at<'g>($($receiver)*, file: &'g File, offset: u64, into: &mut [u8]) -> Result<usize> $($bound)* {
            let origin = $site;
            let prefetch = |pages: Range<u64>| {
                TenantPrefetch::of($tenant).prefetch_all(pages.map(|number| file.page(number)), origin.site());
            };
            bytes::read_at($tenant, file, offset, into, prefetch, |page| {
                TenantAccess::of($tenant).guard_shared(page, origin, Limit::Default).map_err(Refused::into_error)
            })
        }

        /// Writes bytes to the file from `offset` on. Latches one page at a time, so a reader may see some
        /// of the bytes before others. Pages that are overwritten as a whole are not read. A file that was
        /// opened with [`FileOptions::bytes`](crate::FileOptions::bytes) grows if the bytes end beyond its
        /// end; the bytes between its old end and `offset` are zeros then.
        ///
        /// # Errors
        ///
        /// [`ErrorKind::Range`] beyond the end of a file of pages; those of [`File::extend`]; those of
        /// [`write`](Self::write), after which some of the bytes may be written.
        #[track_caller]
        pub fn write_at<'g>($($receiver)*, file: &'g File, offset: u64, bytes: &[u8]) -> Result<()> $($bound)* {
            let origin = $site;
            bytes::write_at($tenant, file, origin, offset, bytes, |page, part, bytes| {
                let access = TenantAccess::of($tenant);
                if part.len() == file.page_bytes() {
                    return access.overwrite(page, bytes, origin, Limit::Default).map_err(Refused::into_error);
                }
                let guard = access.guard_exclusive(page, origin, Limit::Default);
                guard.map_err(Refused::into_error)?[part].copy_from_slice(bytes);
                Ok(())
            })
        }

        /// As [`read`](Self::read), with a guard that borrows nothing, may move between threads, and is not
        /// counted as held by any thread: see [`OwnedReadGuard`]. It costs one atomic count more than a
        /// borrowed guard, and keeps the pool open.
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read).
        #[track_caller]
        #[inline(always)]
        pub fn read_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<OwnedReadGuard> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_shared_owned(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// As [`write`](Self::write), with a guard that borrows nothing, may move between threads, and is
        /// not counted as held by any thread: see [`OwnedReadGuard`].
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write).
        #[track_caller]
        #[inline]
        pub fn write_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<OwnedWriteGuard> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_exclusive_owned(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// As [`create`](Self::create), with a guard that borrows nothing, may move between threads, and is
        /// not counted as held by any thread: see [`OwnedReadGuard`].
        ///
        /// # Errors
        ///
        /// As [`write`](Self::write).
        #[track_caller]
        pub fn create_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<OwnedWriteGuard> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).guard_created_owned(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// As [`pin`](Self::pin), with a pin that borrows nothing, may move between threads, and is not
        /// counted as held by any thread. [`OwnedPin::as_ptr`] says where the page lies.
        ///
        /// # Errors
        ///
        /// As [`read`](Self::read).
        #[track_caller]
        pub fn pin_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<OwnedPin> $($bound)* {
            let (page, origin) = accessed(page, $site);
            TenantAccess::of($tenant).pinned_owned(page, origin, Limit::Default).map_err(Refused::into_error)
        }

        /// As [`read_owned`](Self::read_owned), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_read_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<OwnedReadGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_shared_owned(page, origin, Limit::Now))
        }

        /// As [`read_owned`](Self::read_owned), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn read_owned_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<OwnedReadGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_shared_owned(page, origin, Limit::Within(limit)))
        }

        /// As [`write_owned`](Self::write_owned), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_write_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<OwnedWriteGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_exclusive_owned(page, origin, Limit::Now))
        }

        /// As [`write_owned`](Self::write_owned), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn write_owned_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<OwnedWriteGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_exclusive_owned(page, origin, Limit::Within(limit)))
        }

        /// As [`create_owned`](Self::create_owned), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_create_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<OwnedWriteGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_created_owned(page, origin, Limit::Now))
        }

        /// As [`create_owned`](Self::create_owned), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn create_owned_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<OwnedWriteGuard>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).guard_created_owned(page, origin, Limit::Within(limit)))
        }

        /// As [`pin_owned`](Self::pin_owned), but `None` where [`try_read`](Self::try_read) returns it.
        #[track_caller]
        pub fn try_pin_owned<'g>($($receiver)*, page: impl AnyPage<'g>) -> Result<Option<OwnedPin>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).pinned_owned(page, origin, Limit::Now))
        }

        /// As [`pin_owned`](Self::pin_owned), but `None` after waiting for `limit`.
        #[track_caller]
        pub fn pin_owned_timeout<'g>(
            $($receiver)*,
            page: impl AnyPage<'g>,
            limit: Duration,
        ) -> Result<Option<OwnedPin>> $($bound)* {
            let (page, origin) = accessed(page, $site);
            or_none(TenantAccess::of($tenant).pinned_owned(page, origin, Limit::Within(limit)))
        }
    };
}

/// The page, and `origin` with the class that the caller gave the page.
#[inline(always)]
fn accessed<'g>(page: impl AnyPage<'g>, origin: Origin) -> (Page<'g>, Origin) {
    (page.page(), origin.in_class(page.number_of_class()))
}

/// The pages of a list, as [`Hints`] keeps them where it is not told of their type.
fn boxed<I>(pages: I) -> Box<dyn Iterator<Item = HintedPage> + Send>
where
    I: IntoIterator<Item = HintedPage>,
    I::IntoIter: Send + 'static,
{
    Box::new(pages.into_iter())
}

impl Tenant {
    access_functions!([&'g self] [] self, Origin::caller());

    /// This tenant at a call site named by the engine: `tenant.at(site!("inner scan")).read(page)`. For
    /// engines with one central fetch function, whose own source line would be the site of every access.
    #[inline]
    pub fn at(&self, site: &'static Site) -> At<'_> {
        At { tenant: self, site: Some(site), context: None }
    }

    /// This tenant in a context that was taken elsewhere, instead of the thread's own: for tasks that move
    /// between threads, and for threads that work for others.
    ///
    /// ```
    /// # fn run(tenant: &bufpool::Tenant, page: bufpool::Page<'_>) -> bufpool::Result<()> {
    /// let query = bufpool::context!("Q6").context();
    /// tenant.in_context(query).read(page)?;
    /// # Ok(())
    /// # }
    /// ```
    #[inline]
    pub fn in_context(&self, context: Context) -> At<'_> {
        At { tenant: self, site: None, context: Some(context) }
    }

    /// Discloses reads: the pages that this tenant will access, in this order. The pool fetches them ahead of
    /// the returned handle's [`next`](Hints::next), and keeps those that are named again.
    ///
    /// The pool asks `pages` for more as the reader comes near, but only within calls of the handle. So
    /// `pages` may be the iterator of a plan that is still running. Several lists may be open at a time. A
    /// list may name pages of several files, pages that other tenants own, and pages more than once. Pages
    /// of a list may be written or created before the reader comes to them; it sees their contents at that
    /// time. Nothing is read before the first call of the handle.
    ///
    /// [`prefetch`](Self::prefetch) is for pages without an order.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TenantClosed`], [`ErrorKind::PoolClosed`], [`ErrorKind::ForkedChild`].
    ///
    /// # Panics
    ///
    /// If the iterator does.
    #[track_caller]
    pub fn hint<I>(&self, pages: I) -> Result<Hints>
    where
        I: IntoIterator<Item = HintedPage>,
        I::IntoIter: Send + 'static,
    {
        self.hint_with(boxed(pages))
    }

    /// Checks that the file is one of the tenant's pool. A [`HintedPage`] does not say which pool it is of,
    /// and each pool numbers its own files.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongPool`].
    pub fn check_pool_of(&self, file: &File) -> Result<()> {
        self.check_file(file, "check pool")
    }

    /// As [`hint`](Self::hint), without a box, for iterators that borrow or stay on one thread.
    ///
    /// # Errors
    ///
    /// As [`hint`](Self::hint).
    ///
    /// # Panics
    ///
    /// As [`hint`](Self::hint).
    #[track_caller]
    pub fn hint_with<I>(&self, pages: I) -> Result<Hints<I::IntoIter>>
    where
        I: IntoIterator<Item = HintedPage>,
    {
        TenantAccess::of(self).open_hints(pages.into_iter(), Origin::caller().site(), None, false)
    }

    /// As [`hint_with`](Self::hint_with), for pages that are all read by [`next`](Hints::next): from the
    /// beginning no other access moves the list. For a caller that expects each page of its plan, while
    /// other threads may read some of them for the same tenant before its first call of `next`.
    ///
    /// # Errors
    ///
    /// As [`hint`](Self::hint).
    ///
    /// # Panics
    ///
    /// As [`hint`](Self::hint).
    #[track_caller]
    pub fn hint_to_read<I>(&self, pages: I) -> Result<Hints<I::IntoIter>>
    where
        I: IntoIterator<Item = HintedPage>,
    {
        TenantAccess::of(self).open_hints(pages.into_iter(), Origin::caller().site(), None, true)
    }

    /// Whether `page` has been in memory and unchanged since an optimistic read returned `version`. If so,
    /// what was read before this call was current at the call. Never waits.
    ///
    /// False also while a writer holds the page, even if it changes nothing.
    #[inline]
    pub fn still(&self, page: Page<'_>, version: Version) -> bool {
        page.file().shared.table.get(page.number()).is_some_and(|word| word.still(version))
    }

    /// Sets which of the pages of one priority goes first. The order of the pages stays the same:
    /// [`Policy::Mru`] takes the other end of the same list. From its first directive on, the tenant is
    /// managed by directives, with the pages that it owns then.
    ///
    /// # Errors
    ///
    /// All directives: [`ErrorKind::Directive`] for a priority outside −32..=31 and for a tenant with a
    /// manager of its own, [`ErrorKind::DirectiveLimit`] beyond a limit, [`ErrorKind::TenantClosed`]. Nothing
    /// has changed then.
    pub fn set_policy(&self, priority: i32, policy: Policy) -> Result<()> {
        const OPERATION: &str = "set policy";
        let id = self.tenant_id();
        self.directive(OPERATION, |state| {
            state.directory.set_policy(id, priority, policy)?;
            state.record(Event::Policy { tenant: id.0, priority, policy });
            Ok(())
        })
    }

    /// The policy of one priority; [`Policy::Lru`] where none was set.
    ///
    /// # Errors
    ///
    /// As [`Tenant::set_policy`].
    pub fn policy(&self, priority: i32) -> Result<Policy> {
        self.directive("get policy", |state| state.directory.policy(self.tenant_id(), priority))
    }

    /// Sets the long-term priority of a file's pages, now and later; pages of the lowest priority go first.
    /// Returns how many resident pages changed level.
    ///
    /// # Errors
    ///
    /// As [`Tenant::set_policy`]; [`ErrorKind::WrongPool`], [`ErrorKind::FileClosed`].
    pub fn set_priority(&self, file: &File, priority: i32) -> Result<usize> {
        const OPERATION: &str = "set priority";
        self.check_file(file, OPERATION)?;
        let id = self.tenant_id();
        let first = PageId::in_file(file.id(), 0);
        let last = PageId::in_file(file.id(), (1 << PageId::NUMBER_BITS) - 1);
        self.directive(OPERATION, |state| {
            // Under the lock, where the priorities of a file that closes end once and for all.
            if let Err(closed) = file.shared.check_open(OPERATION) {
                return Ok(Err(closed));
            }
            let PolicyState { directory, files, .. } = state;
            let moved = directory.set_priority(id, first..=last, priority, |page| files.frame_of(page))?;
            state.record(Event::Priority { tenant: id.0, first, last, priority });
            Ok(Ok(moved))
        })?
    }

    /// The long-term priority of a file's pages.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::WrongPool`], [`ErrorKind::TenantClosed`].
    pub fn priority(&self, file: &File) -> Result<i32> {
        const OPERATION: &str = "get priority";
        self.check_file(file, OPERATION)?;
        let page = PageId::in_file(file.id(), 0);
        self.directive(OPERATION, |state| Ok(state.directory.priority(self.tenant_id(), page)))
    }

    /// Gives the pages of a range that are resident now and owned by the tenant a priority, which lasts
    /// until their next reference or replacement. Returns how many pages these were. An empty range affects
    /// none.
    ///
    /// # Errors
    ///
    /// As [`Tenant::set_policy`]; [`ErrorKind::Range`] for an inverted range or one that ends beyond the
    /// file; [`ErrorKind::WrongPool`].
    pub fn set_temporary_priority(&self, file: &File, pages: Range<u64>, priority: i32) -> Result<usize> {
        const OPERATION: &str = "set temporary priority";
        self.check_file(file, OPERATION)?;
        file.shared.check_range(&pages, OPERATION)?;
        let id = self.tenant_id();
        if pages.is_empty() {
            // Checks the priority all the same.
            return self.directive(OPERATION, |state| state.directory.policy(id, priority)).map(|_| 0);
        }
        let first = PageId::in_file(file.id(), pages.start);
        let last = PageId::in_file(file.id(), pages.end - 1);
        self.directive(OPERATION, |state| {
            let PolicyState { directory, files, .. } = state;
            let moved =
                directory.set_temporary_priority(id, first..=last, priority, |page| files.frame_of(page))?;
            state.record(Event::TemporaryPriority { tenant: id.0, first, last, priority });
            Ok(moved)
        })
    }

    /// Gives the tenant a policy program as its manager, instead of the manager or the directives that it
    /// has; directives are refused from then on. The program is told of the tenant's pages by its event
    /// `fault`, in the order in which they would have been evicted. It inherits nothing from an earlier
    /// program. The events run under the policy lock, so other threads that need it wait meanwhile.
    ///
    /// ```
    /// # fn main() -> bufpool::Result<()> {
    /// # let pool = bufpool::PoolOptions::new().frames(64).open()?;
    /// let text = "policy mru {
    ///     queue all
    ///     event initial    { ret }
    ///     event fault(p)   { enqt all, p ; ret }
    ///     event access(p)  { enqt all, p ; ret }
    ///     event replace(c) { peekt v, all ; isnil t, v ; jnz t, none ; ret v
    ///                  none: ret c }
    /// }";
    /// let program = bufpool::Program::parse(text).expect("the text is right");
    /// let scan = pool.tenant("scan").open()?;
    /// scan.set_program(&program)?;
    /// # drop(scan);
    /// # pool.close()
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Privilege`] for a privileged program if the tenant is not
    /// [privileged](crate::TenantOptions::privileged); [`ErrorKind::TenantClosed`]. Nothing has changed then.
    pub fn set_program(&self, program: &Program) -> Result<()> {
        const OPERATION: &str = "set program";
        let id = self.tenant_id();
        let mut policy = self.lock_policy(OPERATION)?;
        // The program hears of pages in the order of references, so references that are still noted come
        // first.
        self.pool.drain_logs(&mut policy);
        policy.begin_epoch();
        let set = policy.manage_by_program(id, program);
        set.map_err(|why| privilege_error(OPERATION, self.name(), program, why))
    }

    /// Takes the tenant's program away, if it has one: its pages go in LRU order from then on, and it may
    /// give directives again.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::TenantClosed`].
    pub fn clear_program(&self) -> Result<()> {
        let mut policy = self.lock_policy("clear program")?;
        self.pool.drain_logs(&mut policy);
        policy.clear_program(self.tenant_id());
        Ok(())
    }

    /// Sets the `int` that the tenant's program calls `slot`: a parameter at run time. A program that was
    /// unloaded accepts it without effect.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoProgram`] if the tenant has no program; [`ErrorKind::UnknownSlot`] if the program has
    /// no `int` of that name, or a `const`; [`ErrorKind::TenantClosed`]. Nothing has changed then.
    pub fn send(&self, slot: &str, value: i64) -> Result<()> {
        const OPERATION: &str = "send";
        let mut policy = self.lock_policy(OPERATION)?;
        // Accesses before this call are seen by the program before the new value.
        self.pool.drain_logs(&mut policy);
        let id = self.tenant_id();
        let sent = policy.directory.send(id, slot, value);
        sent.map_err(|error| send_error(OPERATION, self.name(), slot, error))?;
        policy.record(Event::Send { tenant: id.0, slot, value });
        Ok(())
    }

    /// Changes the floor. A tenant of the commons leaves it, and has a manager of its own from then on.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Floor`] as in [`TenantOptions::open`](crate::TenantOptions::open);
    /// [`ErrorKind::Privilege`] for a privileged tenant; [`ErrorKind::TenantClosed`].
    pub fn set_floor_frames(&self, frames: u32) -> Result<()> {
        const OPERATION: &str = "set floor";
        let mut policy = self.lock_policy(OPERATION)?;
        // A tenant that leaves the commons takes its pages along in their order, and its lists go on from
        // where its accesses have come to. So hits that are noted and not yet applied come first.
        self.pool.drain_logs(&mut policy);
        self.check_limits_may_change(&policy, OPERATION)?;
        let before = policy.directory.floor_frames(self.tenant_id());
        self.pool.check_floors(&policy, before, frames, OPERATION)?;
        let set =
            policy.set_limit(self.tenant_id(), |directory| directory.set_floor(self.tenant_id(), frames));
        set.map_err(|error| tenant_error(OPERATION, self.name(), error))
    }

    /// Changes the cap. A tenant of the commons leaves it, and has a manager of its own from then on. Pages
    /// above the cap are evicted before the call returns, and dirty ones are written. Pages that are pinned
    /// or latched stay, and leave when the tenant next needs a frame.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Floor`] if the cap is 0 or below the floor; [`ErrorKind::Privilege`] for a privileged
    /// tenant; [`ErrorKind::TenantClosed`]; [`ErrorKind::Io`] if a dirty page could not be written, and it
    /// stays.
    pub fn set_cap_frames(&self, frames: u32) -> Result<()> {
        const OPERATION: &str = "set cap";
        {
            let mut policy = self.lock_policy(OPERATION)?;
            // As in `set_floor_frames`.
            self.pool.drain_logs(&mut policy);
            self.check_limits_may_change(&policy, OPERATION)?;
            let set =
                policy.set_limit(self.tenant_id(), |directory| directory.set_cap(self.tenant_id(), frames));
            set.map_err(|error| tenant_error(OPERATION, self.name(), error))?;
            // A tenant with a low cap notes every hit, so marks from before must not let any be skipped.
            policy.begin_epoch();
        }
        shrink_to_cap(&self.pool, self.tenant_id(), Emptying::Waiting(None))
    }

    /// Closes the tenant: its pages stay where they are, under the manager of the commons if it was there,
    /// otherwise without one. Other handles find it closed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] for the default tenant; [`ErrorKind::TenantClosed`] if it was closed
    /// already.
    pub fn close(self) -> Result<()> {
        const OPERATION: &str = "close tenant";
        let id = self.tenant_id();
        let mut policy = self.lock_policy(OPERATION)?;
        self.pool.drain_logs(&mut policy);
        policy.close_tenant(id).map_err(|error| tenant_error(OPERATION, self.name(), error))?;
        self.shared.open_in.store(PoolTag::CLOSED.as_ptr(), Ordering::Relaxed);
        Ok(())
    }

    /// A privileged tenant keeps its floor and cap.
    fn check_limits_may_change(&self, policy: &PolicyState, operation: &'static str) -> Result<()> {
        if !policy.tenants[self.tenant_id().index()].is_privileged {
            return Ok(());
        }
        let message =
            format!("tenant {} is privileged, expected one whose floor and cap may change", self.name());
        Err(Error::new(ErrorKind::Privilege, operation, message))
    }

    fn directive<R>(
        &self,
        operation: &'static str,
        give: impl FnOnce(&mut PolicyState) -> Result<R, DirectiveError>,
    ) -> Result<R> {
        let mut policy = self.lock_policy(operation)?;
        // A directive acts on the order of references, so hits that are noted and not yet applied come
        // first.
        self.pool.drain_logs(&mut policy);
        // Pages that the directive acts on may be hit next, and those hits must not be skipped.
        policy.begin_epoch();
        give(&mut policy).map_err(|error| directive_error(operation, self.name(), &error))
    }
}

impl<'t> At<'t> {
    access_functions!([&self] [where 't: 'g] self.tenant, self.origin());

    /// Shared access to a page in memory, if that takes nothing but the latch and a count. None says nothing
    /// about the page. For bindings to other languages, whose functions cannot be inlined: a function that
    /// begins with this call, and otherwise ends by calling another function that calls
    /// [`read`](Self::read), needs to keep nothing on its stack. The bytes are for reading, as long as the
    /// guard lives.
    #[doc(hidden)]
    #[track_caller]
    #[inline(always)]
    pub fn read_in_passing<'g>(&self, page: impl AnyPage<'g>) -> Option<(NonNull<[u8]>, PassingGuard<'g>)>
    where
        't: 'g,
    {
        let (page, origin) = accessed(page, self.origin());
        TenantAccess::of(self.tenant).guard_shared_in_passing(page, origin)
    }

    /// As [`Tenant::hint`]; the reads of the list are made from here, wherever
    /// [`next`](crate::Hints::next) is called.
    ///
    /// # Errors
    ///
    /// As [`Tenant::hint`].
    ///
    /// # Panics
    ///
    /// As [`Tenant::hint`].
    #[track_caller]
    pub fn hint<I>(&self, pages: I) -> Result<Hints>
    where
        I: IntoIterator<Item = HintedPage>,
        I::IntoIter: Send + 'static,
    {
        self.hint_with(boxed(pages))
    }

    /// As [`Tenant::hint_with`]; the reads of the list are made from here, wherever
    /// [`next`](crate::Hints::next) is called.
    ///
    /// # Errors
    ///
    /// As [`Tenant::hint`].
    ///
    /// # Panics
    ///
    /// As [`Tenant::hint`].
    #[track_caller]
    pub fn hint_with<I>(&self, pages: I) -> Result<Hints<I::IntoIter>>
    where
        I: IntoIterator<Item = HintedPage>,
    {
        let site = self.origin().site();
        TenantAccess::of(self.tenant).open_hints(pages.into_iter(), site, Some(site), false)
    }

    /// The tenant.
    pub fn tenant(&self) -> &'t Tenant {
        self.tenant
    }

    /// The same at another call site.
    #[inline]
    pub fn at(self, site: &'static Site) -> Self {
        Self { site: Some(site), ..self }
    }

    /// The same in another context.
    #[inline]
    pub fn in_context(self, context: Context) -> Self {
        Self { context: Some(context), ..self }
    }

    #[track_caller]
    #[inline]
    fn origin(&self) -> Origin {
        let place = self.site.map_or(CallPlace::caller(), CallPlace::Named);
        Origin::new(place, self.context.map(Context::scope), PageClass::NONE)
    }
}

fn directive_error(operation: &'static str, tenant: &str, error: &DirectiveError) -> Error {
    let kind = match error {
        DirectiveError::UnknownTenant { .. } => ErrorKind::TenantClosed,
        DirectiveError::TooManyRanges { .. } => ErrorKind::DirectiveLimit,
        DirectiveError::InvertedRange { .. } => ErrorKind::Range,
        _ => ErrorKind::Directive,
    };
    let message = match error {
        // The directory knows the tenant by its number.
        DirectiveError::HasManager { .. } => {
            format!("tenant {tenant} has a manager of its own, expected one that takes directives")
        }
        _ => format!("tenant {tenant}: {error}"),
    };
    Error::new(kind, operation, message)
}

pub(super) fn tenant_error(operation: &'static str, tenant: &str, error: DirectoryError) -> Error {
    let kind = match error {
        DirectoryError::UnknownTenant { .. } => ErrorKind::TenantClosed,
        DirectoryError::DefaultTenant => ErrorKind::Unsupported,
        _ => ErrorKind::Floor,
    };
    Error::new(kind, operation, format!("tenant {tenant}: {error}"))
}

pub(super) fn privilege_error(
    operation: &'static str,
    tenant: &str,
    program: &Program,
    why: NeedsPrivilege,
) -> Error {
    let message = format!("program {} for tenant {tenant}: {why}", program.name());
    Error::new(ErrorKind::Privilege, operation, message)
}

fn send_error(operation: &'static str, tenant: &str, slot: &str, error: SendError) -> Error {
    let kind = match error {
        SendError::NoProgram => ErrorKind::NoProgram,
        SendError::UnknownSlot => ErrorKind::UnknownSlot,
    };
    Error::new(kind, operation, format!("slot {slot} of tenant {tenant}: {error}"))
}
