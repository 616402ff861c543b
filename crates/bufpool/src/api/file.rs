//! Open files and names of pages.

use std::fmt;
use std::ops::{Deref, Range};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bufpool_policies::{FileId, PageId};
use crossbeam::utils::CachePadded;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::error::{Error, ErrorKind, Result};
use crate::files::gate::Gate;
use crate::handle::owner::Owner;
use crate::handle::pool::PoolHandle;
use crate::hits::fast_path::HotFile;
use crate::io::{Action, FileIdentity, FileOpen, IoError, IoFile};
use crate::memory::arena::FrameMap;
use crate::page::latch::{Latch, far_or_after};
use crate::page::table::PageTable;
use crate::page::word::PageWord;

/// An open file of a pool. Cloning gives another handle to the same file.
///
/// Dropping the last handle leaves the file open in the pool: its pages stay cached, dirty ones are still written by
/// [`Pool::checkpoint`](crate::Pool::checkpoint) and [`Pool::close`](crate::Pool::close), and opening the same path again
/// gives it back. [`File::close`] ends that.
///
/// # What others see of `close`, `remove`, `reopen` and `truncate`
///
/// Nothing before the outcome is decided, and nothing at all of one that fails. Meanwhile an access of another thread is served, or waits as for
/// a latch: `latch_wait_ms` at most, or its own limit; `try_` forms say `None` at once, futures are pending, prefetches are not begun. Then it
/// is served, from the reopened file if it was one, or gets [`ErrorKind::FileClosed`] or [`ErrorKind::PageBeyondEnd`]. The operation itself waits
/// for pages that others hold, `latch_wait_ms` in all. Now and then it lets everybody have the pages it has got hold of, so a
/// thread that holds one page and asks for another does not wait for an operation that waits for it. Operations on one file, and
/// [`File::extend`], take turns; one that waits for its turn longer than `latch_wait_ms` fails with [`ErrorKind::LatchTimeout`].
pub struct File {
    pub(crate) pool: PoolHandle,
    pub(crate) shared: Arc<FileShared>,
    /// What hits look at.
    pub(crate) hot: HotFile,
}

/// A page of a file: a handle and a number, free to copy.
#[derive(Clone, Copy)]
pub struct Page<'f> {
    file: &'f File,
    number: u64,
}

/// What all handles of a file share. It does not own the pool, which owns it.
///
/// Aligned so that what accesses read is in other cache lines than the counts of the `Arc`, which each load and eviction changes.
#[repr(align(128))]
pub(crate) struct FileShared {
    pub table: PageTable,
    /// The pool's.
    owner: Owner,
    pub gate: Gate,
    pub id: FileId,
    pub name: String,
    pub identity: FileIdentity,
    /// How to open it again; only a file that was opened by path has one.
    pub path: Option<(PathBuf, FileOpen)>,
    pub block_device: bool,
    pub tag: u64,
    /// Pages may be read without a latch, and are written in words.
    pub optimistic: bool,
    /// None once the file is closed. Like `unsynced` changed with each write, so away from what each access reads.
    io: CachePadded<RwLock<Option<Arc<IoFile>>>>,
    /// The first failure of a write or sync.
    poison: Mutex<Option<Error>>,
    /// Pages were written since the last sync; set before a written page is let go of. Also set when the file is opened or
    /// reopened, because what is found in it may be as little durable as what was written.
    unsynced: CachePadded<AtomicBool>,
    /// Held during a sync, so that whoever finds nothing to sync has waited for those who did.
    sync: Mutex<()>,
    /// Held by what changes the file's length, closes it, or opens it again.
    length: Mutex<()>,
    /// Handles outside the pool.
    handles: AtomicUsize,
}

/// A page word reached through its file, for pages that nobody's stack refers to.
#[derive(Clone)]
pub(crate) struct OwnedWord {
    file: Arc<FileShared>,
    number: u64,
}

impl OwnedWord {
    /// The word of a page, which was made.
    pub fn new(file: Arc<FileShared>, number: u64) -> Self {
        Self { file, number }
    }

    /// The page's file.
    pub fn file(&self) -> &Arc<FileShared> {
        &self.file
    }

    /// The page's number.
    pub fn number(&self) -> u64 {
        self.number
    }
}

impl Deref for OwnedWord {
    type Target = PageWord;

    fn deref(&self) -> &PageWord {
        self.file.table.get(self.number).expect("words stay as long as their file")
    }
}

impl<'f> Page<'f> {
    /// The file the page belongs to.
    #[inline]
    pub fn file(self) -> &'f File {
        self.file
    }

    /// The page's number within its file, from 0.
    #[inline]
    pub fn number(self) -> u64 {
        self.number
    }

    /// The page's name in traces and policies.
    #[inline]
    pub fn id(self) -> PageId {
        PageId::in_file(self.file.id(), self.number)
    }
}

impl fmt::Debug for Page<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of {}", self.number, self.file.name())
    }
}

impl Clone for File {
    fn clone(&self) -> Self {
        Self::new(self.pool.clone(), Arc::clone(&self.shared))
    }
}

impl Drop for File {
    fn drop(&mut self) {
        self.shared.handles.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({}, {} pages)", self.name(), self.pages())
    }
}

impl File {
    pub(crate) fn new(pool: PoolHandle, shared: Arc<FileShared>) -> Self {
        shared.handles.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the file is one of this pool's, and its table lives as long as the handle has a share of it.
        let hot = unsafe { HotFile::new(&pool.hot, &shared.table, shared.optimistic) };
        Self { pool, shared, hot }
    }

    /// Names page `number`; nothing is checked or read yet.
    #[inline]
    pub fn page(&self, number: u64) -> Page<'_> {
        Page { file: self, number }
    }

    /// How many pages the file has.
    #[inline]
    pub fn pages(&self) -> u64 {
        self.shared.gate.pages()
    }

    /// Bytes of a page of the file's pool.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.pool.page_bytes
    }

    /// The file's number in this pool.
    #[inline]
    pub fn id(&self) -> FileId {
        self.shared.id
    }

    /// The path given at opening, or a name made from the descriptor.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Adds `pages` pages of zeros at the end and returns their numbers. The space is really allocated, never a hole,
    /// so writing these pages later cannot fail for lack of space; the new length is durable after the next flush.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NoSpace`] if the device is full, and the file is as before; [`ErrorKind::ReadOnly`],
    /// [`ErrorKind::FilePoisoned`], [`ErrorKind::FileClosed`]; [`ErrorKind::FileLength`] beyond 2^40 pages;
    /// [`ErrorKind::Unsupported`] for a block device; [`ErrorKind::LatchTimeout`] if another thread is closing, reopening or resizing the file
    /// for longer than `latch_wait_ms`.
    pub fn extend(&self, pages: u64) -> Result<Range<u64>> {
        const OPERATION: &str = "extend file";
        let file = &*self.shared;
        file.check_resizable(OPERATION)?;
        let _length = file.lock_length(self.pool.latch_wait, OPERATION)?;
        // Another operation may have had the file meanwhile.
        file.check_resizable(OPERATION)?;
        let before = self.pages();
        let after = before.checked_add(pages).filter(|&after| after <= 1 << PageId::NUMBER_BITS);
        let Some(after) = after else {
            let message =
                format!("{before} pages and {pages} more, expected at most 2^{}", PageId::NUMBER_BITS);
            return Err(file.error(ErrorKind::FileLength, OPERATION, message));
        };
        if pages > 0 {
            let page_bytes = self.page_bytes() as u64;
            let allocate = Action::Allocate { offset: before * page_bytes, bytes: pages * page_bytes };
            let io = file.io(OPERATION)?;
            self.pool.backend.run(&io, allocate).map_err(|error| file.io_error(OPERATION, error))?;
            file.set_unsynced();
            file.gate.set_pages(after);
        }
        Ok(before..after)
    }

    /// Shortens the file to `pages` pages. Dirty pages beyond are dropped unwritten.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Range`] if the file is shorter; [`ErrorKind::PageBusy`] if a page beyond is pinned,
    /// [`ErrorKind::LatchTimeout`] or [`ErrorKind::SelfDeadlock`] if one stays latched; those of [`File::extend`]. Nothing has changed then.
    pub fn truncate(&self, pages: u64) -> Result<()> {
        const OPERATION: &str = "truncate file";
        let file = &self.shared;
        file.check_resizable(OPERATION)?;
        let drained = self.pool.drain(file, pages, OPERATION)?;
        file.check_resizable(OPERATION)?;
        let before = self.pages();
        if pages > before {
            let message = format!("to {pages} pages, expected at most the {before} it has");
            return Err(file.error(ErrorKind::Range, OPERATION, message));
        }
        let bytes = pages * self.page_bytes() as u64;
        let truncated = file.io(OPERATION)?.truncate(bytes);
        truncated.map_err(|error| Error::from_io(OPERATION, error).in_file(&file.name))?;
        file.set_unsynced();
        file.gate.set_pages(pages);
        self.pool.drop_pages(drained.seized);
        self.pool.forget(file.id, pages..before);
        Ok(())
    }

    /// Drops the pages of a range from memory, dirty ones unwritten: the engine has no use for their contents. The file
    /// keeps its length, and reading such a page again gives whatever was last written to it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Range`] if the range is inverted or ends beyond the file; [`ErrorKind::PageBusy`],
    /// [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`] if a page stays in use; [`ErrorKind::FileClosed`]. Nothing has changed then.
    pub fn discard(&self, pages: Range<u64>) -> Result<()> {
        const OPERATION: &str = "discard pages";
        let file = &self.shared;
        file.check_open(OPERATION)?;
        file.check_range(&pages, OPERATION)?;
        let seized = self.pool.seize(file, pages, OPERATION)?;
        self.pool.drop_pages(seized);
        Ok(())
    }

    /// Drops all pages unwritten and removes the file; other handles find it closed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unsupported`] if the file was not opened by path; [`ErrorKind::PageBusy`],
    /// [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`] if a page stays in use; [`ErrorKind::Io`]. Nothing has changed then.
    pub fn remove(self) -> Result<()> {
        const OPERATION: &str = "remove file";
        let file = &self.shared;
        file.check_writable_or_poisoned(OPERATION)?;
        let Some((path, _)) = &file.path else {
            return Err(file.error(ErrorKind::Unsupported, OPERATION, "it was not opened by path"));
        };
        self.pool.shut(file, OPERATION, |_| {
            let removed = self.pool.backend.remove(path);
            removed.map_err(|error| Error::from_io(OPERATION, error).in_file(&file.name))
        })
    }

    /// Writes every page of the file that is dirty when the call begins, and makes the file durable. Waits for latches
    /// one at a time, holding nothing else; concurrent writers go on.
    ///
    /// # Errors
    ///
    /// The first failure: [`ErrorKind::Io`] or [`ErrorKind::NoSpace`], after which the file is poisoned,
    /// [`ErrorKind::FilePoisoned`] if it was, [`ErrorKind::LatchTimeout`] or [`ErrorKind::SelfDeadlock`] if a dirty page stays latched. Pages not
    /// written stay dirty.
    pub fn flush(&self) -> Result<()> {
        self.shared.check_open("flush file")?;
        self.pool.flush_file(&self.shared)
    }

    /// Writes one page, if it is dirty, and makes the file durable.
    ///
    /// # Errors
    ///
    /// As [`File::flush`], and [`ErrorKind::PageBeyondEnd`].
    pub fn flush_page(&self, number: u64) -> Result<()> {
        const OPERATION: &str = "flush page";
        self.shared.check_open(OPERATION)?;
        self.shared.check_page(number, OPERATION)?;
        self.pool.flush_page(&self.shared, number)
    }

    /// Flushes the file, drops its pages and gives up its lock; other handles find it closed.
    ///
    /// # Errors
    ///
    /// As [`File::flush`]; [`ErrorKind::PageBusy`] if a page is pinned. The file stays open then, except that a
    /// poisoned file is closed, its dirty pages are lost, and the error says why.
    pub fn close(self) -> Result<()> {
        self.shared.check_open("close file")?;
        self.pool.close_file(&self.shared)
    }

    /// Opens a poisoned file again: drops its cached pages, returns how many of them were dirty and are lost, and
    /// takes writes again. The file begins with what the device has, its length included; the engine recovers the lost changes
    /// from its log.
    ///
    /// A file that is not poisoned is flushed before, and loses nothing: of two threads that reopen it, the second finds it so.
    ///
    /// # Errors
    ///
    /// Those of that flush; [`ErrorKind::PageBusy`], [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`] if a page stays in use, and
    /// the file stays as it was; [`ErrorKind::Io`] or [`ErrorKind::FileLength`] if it cannot be opened as it is now: it is closed then, with
    /// its pages gone, and can be opened by [`Pool::open_file`](crate::Pool::open_file) once it is in order.
    pub fn reopen(&self) -> Result<u64> {
        self.shared.check_open("reopen file")?;
        self.pool.reopen_file(&self.shared)
    }
}

/// What a [`FileShared`] is made of.
pub(crate) struct FileParts {
    pub id: FileId,
    pub name: String,
    pub identity: FileIdentity,
    pub path: Option<(PathBuf, FileOpen)>,
    pub block_device: bool,
    pub read_only: bool,
    pub optimistic: bool,
    pub tag: u64,
    pub pages: u64,
    pub io: Arc<IoFile>,
    pub frames: FrameMap,
    pub owner: Owner,
}

impl FileShared {
    pub fn new(parts: FileParts) -> Self {
        Self {
            id: parts.id,
            name: parts.name,
            identity: parts.identity,
            path: parts.path,
            block_device: parts.block_device,
            tag: parts.tag,
            optimistic: parts.optimistic,
            table: PageTable::new(parts.frames),
            owner: parts.owner,
            gate: Gate::new(parts.read_only, parts.pages),
            io: CachePadded::new(RwLock::new(Some(parts.io))),
            poison: Mutex::new(None),
            unsynced: CachePadded::new(AtomicBool::new(!parts.read_only)),
            sync: Mutex::new(()),
            length: Mutex::new(()),
            handles: AtomicUsize::new(0),
        }
    }

    pub fn is_poisoned(&self) -> bool {
        self.gate.is_poisoned()
    }

    pub fn is_read_only(&self) -> bool {
        self.gate.is_read_only()
    }

    pub fn is_closed(&self) -> bool {
        self.gate.is_closed()
    }

    /// Neither read-only, poisoned nor closed.
    #[inline]
    pub fn takes_writes(&self) -> bool {
        self.gate.takes_writes()
    }

    /// For what changes the file's length and does not drain it.
    pub fn lock_length(&self, latch_wait: Duration, operation: &'static str) -> Result<MutexGuard<'_, ()>> {
        let locked = self.try_lock_length(far_or_after(latch_wait));
        locked.ok_or_else(|| self.busy_error(operation, latch_wait))
    }

    /// For what closes the file, opens it again, or changes its length. None if another such operation lasts longer than `until`.
    pub fn try_lock_length(&self, until: Instant) -> Option<MutexGuard<'_, ()>> {
        self.length.try_lock_until(until)
    }

    /// Waits until no other operation has the file, or the time has come.
    pub fn wait_for_operation(&self, until: Instant) {
        drop(self.try_lock_length(until));
    }

    /// No sync of the file begins as long as the lock is held.
    pub fn lock_sync(&self) -> MutexGuard<'_, ()> {
        self.sync.lock()
    }

    /// The error of an operation for which another one has left no room.
    pub fn busy_error(&self, operation: &'static str, latch_wait: Duration) -> Error {
        let limit = latch_wait.as_millis();
        let message = format!(
            "another thread was closing, reopening or resizing the file for longer than latch_wait_ms = {limit}"
        );
        self.error(ErrorKind::LatchTimeout, operation, message)
    }

    pub fn has_handles(&self) -> bool {
        self.handles.load(Ordering::Acquire) != 0
    }

    /// For a thread that has just won the right to load page `number`: may it? False if that is not decided yet, and the right is to be given
    /// up until it is.
    pub fn check_loadable(&self, number: u64, operation: &'static str) -> Result<bool> {
        self.gate.fence_before_load();
        if self.gate.holds_off(number) {
            return Ok(false);
        }
        self.check_open(operation)?;
        self.check_page(number, operation)?;
        Ok(true)
    }

    /// The file as the backend knows it.
    pub fn io(&self, operation: &'static str) -> Result<Arc<IoFile>> {
        self.io.read().clone().ok_or_else(|| self.closed_error(operation))
    }

    /// The backend's file is given up: once nothing is in flight, lock and descriptor go.
    pub fn take_io(&self) -> Option<Arc<IoFile>> {
        self.io.write().take()
    }

    pub fn set_io(&self, io: Arc<IoFile>) {
        *self.io.write() = Some(io);
    }

    pub fn set_unsynced(&self) {
        self.unsynced.store(true, Ordering::Release);
    }

    /// The file as the backend knows it, for a write of page `number`; an error if it takes no more writes.
    pub fn io_for_write(&self, number: u64) -> Result<Arc<IoFile>> {
        const OPERATION: &str = crate::write::page_out::OPERATION;
        if self.is_poisoned() {
            return Err(self.poisoned_error(OPERATION).at_page(number));
        }
        self.io(OPERATION)
    }

    /// Makes durable what was written, if anything was since the last time.
    pub fn sync_with(&self, operation: &'static str, sync: impl FnOnce() -> Result<()>) -> Result<()> {
        let _one_at_a_time = self.sync.lock();
        // Looked at with the lock held: the sync that this call has waited for may have failed, and it was to cover this caller's
        // writes too.
        if self.is_poisoned() {
            return Err(self.poisoned_error(operation));
        }
        if self.unsynced.swap(false, Ordering::AcqRel) { sync() } else { Ok(()) }
    }

    /// A write or sync has failed: no more of them until the file is reopened. Returns the error for the caller.
    pub fn poison(&self, error: Error) -> Error {
        let mut poison = self.poison.lock();
        if poison.is_none() {
            *poison = Some(error.duplicate());
        }
        self.gate.set_poisoned(true);
        error
    }

    pub fn heal(&self) {
        *self.poison.lock() = None;
        self.unsynced.store(true, Ordering::Release);
        self.gate.set_poisoned(false);
    }

    pub fn error(&self, kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Error {
        Error::new(kind, operation, message).in_file(&self.name)
    }

    pub fn io_error(&self, operation: &'static str, error: IoError) -> Error {
        let kind = match error {
            error if error.is_no_space() => ErrorKind::NoSpace,
            error if error.is_end_of_file() => ErrorKind::UnexpectedEof,
            _ => ErrorKind::Io,
        };
        Error::with_source(kind, operation, error).in_file(&self.name)
    }

    fn closed_error(&self, operation: &'static str) -> Error {
        self.error(ErrorKind::FileClosed, operation, "the file was closed or removed")
    }

    pub fn poisoned_error(&self, operation: &'static str) -> Error {
        let cause = self.poison.lock().as_ref().map_or_else(String::new, ToString::to_string);
        let message =
            format!("the file takes no writes until it is reopened, because of an earlier failure: {cause}");
        self.error(ErrorKind::FilePoisoned, operation, message)
    }

    pub fn check_open(&self, operation: &'static str) -> Result<()> {
        self.owner.check(operation).map_err(|error| error.in_file(&self.name))?;
        if self.is_closed() { Err(self.closed_error(operation)) } else { Ok(()) }
    }

    pub fn check_writable(&self, operation: &'static str) -> Result<()> {
        self.check_writable_or_poisoned(operation)?;
        if self.is_poisoned() { Err(self.poisoned_error(operation)) } else { Ok(()) }
    }

    /// Writable, and of a length that can be changed.
    fn check_resizable(&self, operation: &'static str) -> Result<()> {
        self.check_writable(operation)?;
        if self.block_device {
            return Err(self.error(
                ErrorKind::Unsupported,
                operation,
                "a block device has the length it has",
            ));
        }
        Ok(())
    }

    fn check_writable_or_poisoned(&self, operation: &'static str) -> Result<()> {
        self.check_open(operation)?;
        if self.is_read_only() {
            return Err(self.error(ErrorKind::ReadOnly, operation, "the file was opened for reading only"));
        }
        Ok(())
    }

    /// Whether the file is optimistic, as the operation takes it to be.
    pub fn check_optimistic(&self, expected: bool, operation: &'static str) -> Result<()> {
        if self.optimistic == expected {
            return Ok(());
        }
        let message = if expected {
            "the file was not opened with FileOptions::optimistic(true), without which pages are read under latches only"
        } else {
            "the file was opened as optimistic, so its pages are written with write_optimistic and create_optimistic"
        };
        Err(self.error(ErrorKind::Unsupported, operation, message))
    }

    pub fn check_page(&self, number: u64, operation: &'static str) -> Result<()> {
        let pages = self.gate.pages();
        if number < pages {
            return Ok(());
        }
        let message = format!("expected a page below the file's {pages} pages");
        Err(self.error(ErrorKind::PageBeyondEnd, operation, message).at_page(number))
    }

    pub fn check_range(&self, pages: &Range<u64>, operation: &'static str) -> Result<()> {
        let length = self.gate.pages();
        if pages.start <= pages.end && pages.end <= length {
            return Ok(());
        }
        let message = format!(
            "pages {}..{}, expected a range within the file's {length} pages",
            pages.start, pages.end
        );
        Err(self.error(ErrorKind::Range, operation, message))
    }
}

/// A page that its holder is about to drop or write: number and exclusive latch.
pub(crate) struct Seized {
    pub number: u64,
    pub latch: Latch<OwnedWord>,
}
