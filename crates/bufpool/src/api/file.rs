//! What users do with open files: lengthen, shorten, flush, close, remove and reopen them.

use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bufpool_policies::PageId;

use crate::error::{Error, ErrorKind, Result};
use crate::files::bytes::ByteLength;
use crate::files::word::SeizedPages;
use crate::handle::file::File;
use crate::handle::pool::PoolHandle;
use crate::io::{Action, NameError};
use crate::landing::Landing;
use crate::thread::site::Origin;
use crate::write::checkpoint::Checkpoint;
use crate::write::closing::Closing;
use crate::write::drain::{Drain, Drained};
use crate::write::flush_thread;

/// A flush that was begun; see [`File::begin_flush`].
#[must_use = "whether it succeeded is known to those who wait for it"]
pub struct Flush {
    landing: Arc<Landing<Result<()>>>,
    /// Kept until the outcome is known.
    pool: PoolHandle,
}

/// A flush as a future; see [`File::flush_async`].
#[must_use = "futures do nothing unless polled"]
pub struct FlushFuture {
    file: File,
    begun: Option<Flush>,
    is_over: bool,
}

impl Flush {
    /// Waits until the flush is over.
    ///
    /// # Errors
    ///
    /// As [`File::flush`]; where a thread of the pool flushes, [`ErrorKind::LatchTimeout`] instead of
    /// [`ErrorKind::SelfDeadlock`]; [`ErrorKind::ForkedChild`] in the child of a fork.
    pub fn wait(self) -> Result<()> {
        self.pool.owner.check("flush file")?;
        self.landing.wait()
    }
}

impl Future for FlushFuture {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Err(error) = self.file.pool.owner.check("flush file") {
            return Poll::Ready(Err(error));
        }
        assert!(!self.is_over, "polled after it was ready");
        let file = self.file.clone();
        let begun = self.begun.get_or_insert_with(|| file.begin_flush());
        let outcome = begun.landing.poll(|| file.pool.waker_thread.adopt(context.waker()));
        self.is_over = outcome.is_some();
        outcome.map_or(Poll::Pending, Poll::Ready)
    }
}

impl Drop for Flush {
    fn drop(&mut self) {
        // A child of a fork has no thread that would let go of the outcome.
        if self.pool.owner.is_here() {
            self.landing.abandon();
        }
    }
}

impl fmt::Debug for Flush {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flush")
    }
}

impl fmt::Debug for FlushFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlushFuture({:?})", self.file)
    }
}

impl File {
    /// Adds `pages` pages of zeros at the end and returns their numbers. The space is really allocated, never
    /// a hole, so writing these pages later cannot fail for lack of space; the new length is durable after
    /// the next flush.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSpace`] if the device is full, and the file is as before; [`ErrorKind::ReadOnly`],
    /// [`ErrorKind::FilePoisoned`], [`ErrorKind::FileClosed`]; [`ErrorKind::FileLength`] beyond 2^40 pages;
    /// [`ErrorKind::Unsupported`] for a block device; [`ErrorKind::LatchTimeout`] if another thread is
    /// closing, reopening or resizing the file for longer than `latch_wait_ms`. Of a file that ends within a
    /// page, those of [`Tenant::write`](crate::Tenant::write) on that page, too: what is behind the end may
    /// have to be made zeros.
    #[track_caller]
    pub fn extend(&self, pages: u64) -> Result<Range<u64>> {
        const OPERATION: &str = "extend file";
        let origin = Origin::caller();
        let file = &*self.shared;
        file.check_resizable(OPERATION)?;
        let _length = self.lock_growing(&self.resizing_tenant(), origin, u64::MAX, OPERATION)?;
        // Another operation may have had the file meanwhile.
        file.check_resizable(OPERATION)?;
        let before = self.pages();
        let after = before.checked_add(pages).filter(|after| *after <= 1 << PageId::NUMBER_BITS);
        let Some(after) = after else {
            let message =
                format!("{before} pages and {pages} more, expected at most 2^{}", PageId::NUMBER_BITS);
            return Err(file.error(ErrorKind::FileLength, OPERATION, message));
        };
        if pages > 0 {
            self.lengthen(after, after * self.page_bytes() as u64, OPERATION)?;
        }
        Ok(before..after)
    }

    /// Makes the file `pages` pages and `bytes` bytes long, for a caller that has locked its length. `bytes`
    /// end within the last page.
    pub(super) fn lengthen(&self, pages: u64, bytes: u64, operation: &'static str) -> Result<()> {
        let file = &*self.shared;
        let _held = file.byte_length.as_ref().map(ByteLength::hold);
        let (before, page_bytes) = (self.pages(), self.page_bytes() as u64);
        if pages > 1 << PageId::NUMBER_BITS {
            let message = format!("{pages} pages, expected at most 2^{}", PageId::NUMBER_BITS);
            return Err(file.error(ErrorKind::FileLength, operation, message));
        }
        // A file of bytes may have less allocated than its pages take: a flush cuts off the rest of its last
        // page.
        let allocated = file.byte_length.as_ref().map_or(before * page_bytes, ByteLength::allocated);
        if pages * page_bytes > allocated {
            let offset = allocated / page_bytes * page_bytes;
            let bytes = pages * page_bytes - offset;
            let io = file.io(operation)?;
            let outcome = self.pool.backend.run(&io, Action::Allocate { offset, bytes });
            outcome.map_err(|error| file.io_error(operation, error))?;
        }
        file.unsynced.set();
        // Before the length in bytes: who has seen that finds its pages.
        file.gate.set_pages(pages);
        if let Some(length) = &file.byte_length {
            length.set(bytes);
            length.set_allocated(allocated.max(pages * page_bytes));
        }
        Ok(())
    }

    /// Shortens the file to `pages` pages. Dirty pages beyond are dropped unwritten.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Range`] if the file is shorter; [`ErrorKind::PageBusy`] if a page beyond is pinned,
    /// [`ErrorKind::LatchTimeout`] or [`ErrorKind::SelfDeadlock`] if one stays latched; those of
    /// [`File::extend`]. Nothing has changed then.
    pub fn truncate(&self, pages: u64) -> Result<()> {
        const OPERATION: &str = "truncate file";
        let file = &self.shared;
        file.check_resizable(OPERATION)?;
        let drained = Drain::of(&self.pool).drain(file, pages, OPERATION)?;
        file.check_resizable(OPERATION)?;
        let before = self.pages();
        if pages > before {
            let message = format!("to {pages} pages, expected at most the {before} it has");
            return Err(file.error(ErrorKind::Range, OPERATION, message));
        }
        self.shorten(drained, pages, pages * self.page_bytes() as u64, OPERATION)
    }

    /// Shortens a file, which is drained from page `pages` on, to `pages` pages and `bytes` bytes. `bytes`
    /// end within the last page that stays, or at its end.
    pub(super) fn shorten(
        &self,
        drained: Drained<'_>,
        pages: u64,
        bytes: u64,
        operation: &'static str,
    ) -> Result<()> {
        let (file, before) = (&self.shared, self.pages());
        let whole = pages * self.page_bytes() as u64;
        let io = file.io(operation)?;
        let held = file.byte_length.as_ref().map(ByteLength::hold);
        // A file that ends within a page may already be shorter than its pages.
        let is_longer = || Ok(io.len_bytes()? > whole);
        let shortened = is_longer().and_then(|longer| if longer { io.set_len_bytes(whole) } else { Ok(()) });
        shortened.map_err(|error| Error::from_io(operation, error).in_file(&file.name))?;
        if let Some(length) = &file.byte_length {
            length.set(length.get().min(bytes));
            length.set_allocated(length.allocated().min(whole));
        }
        drop(held);
        file.unsynced.set();
        file.gate.set_pages(pages);
        Closing::of(&self.pool).drop_pages(drained.seized);
        // Should the file grow again, these pages are zeros.
        file.table.words(pages, before).for_each(|(_, word)| word.renew_absent());
        Closing::of(&self.pool).forget(file, pages..before);
        Ok(())
    }

    /// Drops the pages of a range from memory, dirty ones unwritten: the engine has no use for their
    /// contents. The file keeps its length, and reading such a page again gives whatever was last written to
    /// it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Range`] if the range is inverted or ends beyond the file; [`ErrorKind::PageBusy`],
    /// [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`] if a page stays in use;
    /// [`ErrorKind::FileClosed`]. Nothing has changed then.
    pub fn discard(&self, pages: Range<u64>) -> Result<()> {
        const OPERATION: &str = "discard pages";
        let file = &self.shared;
        file.check_open(OPERATION)?;
        file.check_range(&pages, OPERATION)?;
        let (seized, _length) = Drain::of(&self.pool).seize(file, pages.clone(), OPERATION)?;
        Closing::of(&self.pool).drop_pages(seized);
        self.pool.forget_in_tier(file, pages);
        Ok(())
    }

    /// Drops all pages unwritten and removes the file; other handles find it closed. A power cut does not
    /// bring it back.
    ///
    /// Removes the name that the file was opened by, from the folder that it was opened in. Neither the text
    /// of the path nor the working directory matters by now. Symbolic links were followed when the file was
    /// opened, and stay. The name is removed only if it still is this file's, but Linux cannot check and
    /// remove in one step: another file that somebody renames to the name in between is removed instead.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NameChanged`] if the name is gone, or belongs to another file;
    /// [`ErrorKind::Unsupported`] for a block device, for a file that was not opened by path, and for one
    /// whose path leads to no entry of a folder, as some paths in `/proc/self/fd` do;
    /// [`ErrorKind::PageBusy`], [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`] if a page stays in
    /// use; [`ErrorKind::ReadOnly`]. Nothing has changed then. [`ErrorKind::Io`] if the name cannot be
    /// removed, and nothing has changed, or if its folder cannot be synced: the error says so, and the file
    /// is removed, but may be there again after a power cut.
    pub fn remove(self) -> Result<()> {
        const OPERATION: &str = "remove file";
        let file = &self.shared;
        file.check_writable_or_poisoned(OPERATION)?;
        if file.fixed_length {
            let message = "the file is a block device, expected a regular file";
            return Err(file.error(ErrorKind::Unsupported, OPERATION, message));
        }
        if file.io(OPERATION)?.entry().is_none() {
            return Err(file.name_error(OPERATION, NameError::None));
        }
        let mut synced = Ok(());
        let last_step = |_: &SeizedPages| {
            // The descriptor is taken no earlier than here, because another thread that closes the file
            // waits until nobody has it.
            let io = file.io(OPERATION)?;
            let entry = io.entry().ok_or(NameError::None);
            let removed = entry.and_then(|entry| entry.remove().map(|()| entry));
            synced = removed.map_err(|error| file.name_error(OPERATION, error))?.sync_folder();
            Ok(())
        };
        let drained = Drain::of(&self.pool).drain(file, 0, OPERATION)?;
        Closing::of(&self.pool).shut(drained, last_step)?;
        synced.map_err(|error| {
            let message = format!("the file is removed, and may be there again after a power cut: {error}");
            file.error(ErrorKind::Io, OPERATION, message)
        })
    }

    /// Writes every page of the file that is dirty when the call begins, and makes the file durable. Waits
    /// for latches one at a time, holding nothing else; concurrent writers go on.
    ///
    /// # Errors
    ///
    /// The first failure: [`ErrorKind::Io`] or [`ErrorKind::NoSpace`], after which the file is poisoned,
    /// [`ErrorKind::FilePoisoned`] if it was, or was reopened after a failure during the call;
    /// [`ErrorKind::LatchTimeout`] or [`ErrorKind::SelfDeadlock`] if a dirty page stays latched. Pages not
    /// written stay dirty.
    pub fn flush(&self) -> Result<()> {
        self.shared.check_open("flush file")?;
        Checkpoint::of(&self.pool).flush_file(&self.shared, self.shared.losses())
    }

    /// As [`flush`](Self::flush), without waiting: a thread of the pool flushes the file, and
    /// [`Flush::wait`] waits for the outcome. Flushes of a file that are begun while another one of it is
    /// under way become one, so that many committers cost few syncs. In deterministic mode, and if no thread
    /// can be started, the file is flushed before this returns.
    ///
    /// The file is flushed even if the [`Flush`] is dropped. A failure then shows as that of a background
    /// write does: the file is poisoned. [`Pool::close`](crate::Pool::close) and the drop of the pool's last
    /// handle wait for flushes that were begun. A `Flush` is a handle of the pool, as a `File` is.
    ///
    /// The caller may hold latches meanwhile; a dirty page that it keeps latched exclusively fails the flush
    /// with [`ErrorKind::LatchTimeout`], not [`ErrorKind::SelfDeadlock`].
    ///
    /// ```
    /// # fn run(tenant: &bufpool::Tenant, file: &bufpool::File) -> bufpool::Result<()> {
    /// let flush = file.begin_flush();
    /// // What is done here is done meanwhile.
    /// flush.wait()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn begin_flush(&self) -> Flush {
        Flush { landing: flush_thread::begin(self.pool.shared(), &self.shared), pool: self.pool.clone() }
    }

    /// As [`begin_flush`](Self::begin_flush), as a future for any executor; it begins at its first poll.
    ///
    /// # Errors
    ///
    /// As [`File::flush`], from the future; [`ErrorKind::LatchTimeout`] instead of
    /// [`ErrorKind::SelfDeadlock`].
    ///
    /// # Panics
    ///
    /// If the future is polled again after it was ready.
    pub fn flush_async(&self) -> FlushFuture {
        FlushFuture { file: self.clone(), begun: None, is_over: false }
    }

    /// Writes one page, if it is dirty, and makes the file durable. The log is made durable only up to the
    /// log sequence number of that page.
    ///
    /// # Errors
    ///
    /// As [`File::flush`], and [`ErrorKind::PageBeyondEnd`].
    pub fn flush_page(&self, number: u64) -> Result<()> {
        const OPERATION: &str = "flush page";
        self.shared.check_open(OPERATION)?;
        self.shared.check_page(number, OPERATION)?;
        Checkpoint::of(&self.pool).flush_page(&self.shared, number)
    }

    /// Flushes the file, drops its pages and gives up its lock; other handles find it closed.
    ///
    /// # Errors
    ///
    /// As [`File::flush`]; [`ErrorKind::PageBusy`] if a page is pinned. The file stays open then, except that
    /// a poisoned file is closed, its dirty pages are lost, and the error says why.
    pub fn close(self) -> Result<()> {
        self.shared.check_open("close file")?;
        Closing::of(&self.pool).close_file(&self.shared)
    }

    /// Takes a poisoned file into use again: drops its cached pages, returns how many of them were dirty and
    /// are lost, and takes writes again. The file begins with what the device has, its length included; the
    /// engine recovers the lost changes from its log.
    ///
    /// Pages that were written before a sync failed are clean, and the device may have lost them as well. So
    /// 0 does not say that nothing is lost. Where redo begins is said by
    /// [`Pool::min_dirty_lsn`](crate::Pool::min_dirty_lsn) before the file is reopened.
    ///
    /// The pool goes on with the file that was opened, by the descriptor that it keeps together with the
    /// lock; it looks at no path. So a file that was renamed, replaced by another one, or unlinked meanwhile
    /// is reopened as itself, and so is one that was handed over by [`Pool::open_fd`](crate::Pool::open_fd).
    /// No file is created. An unlinked file has its space until it is closed. A file that has taken its
    /// place, or a device that was gone and came back, is opened by
    /// [`Pool::open_file`](crate::Pool::open_file) after this one is closed.
    ///
    /// A file that is not poisoned is flushed first, and loses nothing. So if two threads reopen a file, the
    /// second one loses nothing.
    ///
    /// # Errors
    ///
    /// Those of that flush; [`ErrorKind::PageBusy`], [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`]
    /// if a page stays in use, and the file stays as it was; [`ErrorKind::Io`] or [`ErrorKind::FileLength`]
    /// if it cannot be used as it is now: it is closed then, with its pages gone, and can be opened by
    /// [`Pool::open_file`](crate::Pool::open_file) once it is in order.
    pub fn reopen(&self) -> Result<u64> {
        self.shared.check_open("reopen file")?;
        Closing::of(&self.pool).reopen_file(&self.shared)
    }
}
