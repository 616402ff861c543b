//! What all handles of a file share: its pages' words, its gate, the backend's file, and what has failed.

use std::collections::BTreeSet;
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bufpool_policies::FileId;
use crossbeam::utils::CachePadded;
use parking_lot::{Mutex, MutexGuard, RwLock};

use crate::engine::hooks::PageName;
use crate::error::{Error, ErrorKind, Result};
use crate::files::bytes::ByteLength;
use crate::files::gate::Gate;
use crate::files::unsynced::Unsynced;
use crate::io::options::{Direct, FileLock};
use crate::io::{FileIdentity, IoError, NameError, Source, SourceRef};
use crate::memory::arena::FrameMap;
use crate::owner::Owner;
use crate::page::table::PageTable;
use crate::page::word::PageState;
use crate::sharded::{SHARDS, stripe};
use crate::sync::deadline_after;
use crate::tier::Version;

/// Bits that nobody can foresee, and that are not drawn twice.
fn random_bits() -> u64 {
    RandomState::new().hash_one(Instant::now())
}

/// What all handles of a file share. It does not own the pool, which owns it.
///
/// Aligned so that what accesses read is in other cache lines than the counts of the `Arc`, which each load
/// and eviction changes.
#[repr(align(128))]
pub(crate) struct FileShared {
    pub table: PageTable,
    /// The pool's.
    owner: Owner,
    pub gate: Gate,
    pub id: FileId,
    pub name: String,
    pub identity: FileIdentity,
    pub fixed_length: bool,
    /// Most pages of one transfer, as the source says.
    pub run_pages: usize,
    pub tag: u64,
    /// Direct I/O as it was asked for when the file was opened.
    pub direct: Option<Direct>,
    pub lock: FileLock,
    pub poison_on_panic: bool,
    /// Pages may be read without a latch, and are written in words.
    pub optimistic: bool,
    /// Of the [versions](Version) of its pages. It changes when a write or sync fails, and when the file is
    /// reopened, while all pages are held. A load that still finds the old one after a failure takes a copy
    /// of what was written before.
    epoch: AtomicU64,
    /// The engine says which epoch it is, and the file does not change.
    has_own_epoch: bool,
    io: OpenSource,
    /// The first failure of a write or sync.
    poison: Mutex<Option<Error>>,
    /// How often the file was reopened after a failure, and changes may have been lost.
    losses: AtomicU64,
    /// Pages whose writers have panicked, and whose latches are kept.
    half_changed: Mutex<BTreeSet<u64>>,
    /// There may be such pages; never cleared. Set when a page is in the list and still latched.
    has_half_changed: AtomicBool,
    /// What was written and may not be on the device. Also what was found when the file was opened or
    /// reopened, which may be as little durable. Changed with each write, so away from what each access
    /// reads.
    pub unsynced: CachePadded<Unsynced>,
    /// Of a file that may end within a page.
    pub byte_length: Option<ByteLength>,
    /// Held during a sync, so that a thread that finds nothing to sync has waited for syncs under way.
    sync: Mutex<()>,
    /// Held by what changes the file's length, closes it, or opens it again.
    length: Mutex<()>,
    /// Handles outside the pool.
    pub handles: AtomicUsize,
}

/// The source of a file, as long as that is open: a shard in each place. A thread locks its own place, and
/// counts its references there, so that threads that read at the same time share no cache line.
struct OpenSource([CachePadded<RwLock<Option<SourceRef>>>; SHARDS]);

impl OpenSource {
    fn new(source: &Arc<dyn Source>) -> Self {
        Self(std::array::from_fn(|_| CachePadded::new(RwLock::new(Some(SourceRef::new(Arc::clone(source)))))))
    }

    #[inline]
    fn get(&self) -> Option<SourceRef> {
        self.0[stripe() % SHARDS].read().clone()
    }

    /// From here on the file is closed.
    fn take(&self) -> Vec<SourceRef> {
        self.0.iter().filter_map(|place| place.write().take()).collect()
    }
}

/// How long [`FileShared::release_io`] sleeps before it looks again whether a transfer that is over still
/// keeps the file open.
const RELEASE_POLL: Duration = Duration::from_micros(100);

/// What a [`FileShared`] is made of.
pub(crate) struct FileParts {
    pub id: FileId,
    pub name: String,
    pub identity: FileIdentity,
    pub fixed_length: bool,
    pub run_pages: usize,
    pub read_only: bool,
    pub optimistic: bool,
    pub tag: u64,
    pub direct: Option<Direct>,
    pub lock: FileLock,
    pub poison_on_panic: bool,
    /// The engine's epoch, for a file that is open for reading only.
    pub epoch: Option<u64>,
    pub pages: u64,
    /// Of a file that may end within a page.
    pub byte_length: Option<u64>,
    pub io: Arc<dyn Source>,
    pub frames: FrameMap,
    pub owner: Owner,
}

impl FileShared {
    /// The page as hooks are told of it.
    pub fn page_name(&self, number: u64) -> PageName {
        PageName { file: self.id, file_tag: self.tag, number }
    }

    pub fn new(parts: FileParts) -> Self {
        Self {
            id: parts.id,
            name: parts.name,
            identity: parts.identity,
            fixed_length: parts.fixed_length,
            run_pages: parts.run_pages,
            tag: parts.tag,
            direct: parts.direct,
            lock: parts.lock,
            poison_on_panic: parts.poison_on_panic,
            half_changed: Mutex::default(),
            has_half_changed: AtomicBool::new(false),
            optimistic: parts.optimistic,
            epoch: AtomicU64::new(parts.epoch.unwrap_or_else(random_bits)),
            has_own_epoch: parts.epoch.is_some(),
            table: PageTable::new(parts.id, parts.frames),
            owner: parts.owner,
            byte_length: parts.byte_length.map(ByteLength::new),
            gate: Gate::new(parts.read_only, parts.pages),
            io: OpenSource::new(&parts.io),
            poison: Mutex::new(None),
            losses: AtomicU64::new(0),
            unsynced: CachePadded::new(Unsynced::new(!parts.read_only)),
            sync: Mutex::new(()),
            length: Mutex::new(()),
            handles: AtomicUsize::new(0),
        }
    }

    /// The version of the contents that the file has for a page whose word is in this state. For a page that
    /// is being brought in: now. For one that is held exclusively and about to leave: once it has left.
    pub fn version(&self, state: PageState) -> Version {
        let epoch = self.epoch.load(Ordering::Acquire);
        let count = match state {
            _ if self.is_read_only() => 0,
            leaving if leaving.is_exclusive() => leaving.version_departed(),
            coming => coming.version(),
        };
        Version { epoch, count: count.into() }
    }

    /// Whether copies of its pages in a tier stay valid after the file is closed.
    pub fn copies_last(&self) -> bool {
        self.has_own_epoch
    }

    /// Copies of its pages that are elsewhere are not to be believed any more.
    fn begin_epoch(&self) {
        if !self.has_own_epoch {
            self.epoch.store(random_bits(), Ordering::Release);
        }
    }

    /// The engine's epoch of a file that is open for reading only.
    pub fn own_epoch(&self) -> Option<u64> {
        self.has_own_epoch.then(|| self.epoch.load(Ordering::Acquire))
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

    /// For what closes the file, opens it again, or changes its length. None if another such operation lasts
    /// longer than `until`.
    pub fn try_lock_length(&self, until: Instant) -> Option<MutexGuard<'_, ()>> {
        self.length.try_lock_until(until)
    }

    /// As [`try_lock_length`](Self::try_lock_length), without waiting.
    pub fn lock_length_at_once(&self) -> Option<MutexGuard<'_, ()>> {
        self.length.try_lock()
    }

    /// Waits until no other operation has the file, or the time has come.
    pub fn wait_for_operation(&self, until: Instant) {
        drop(self.try_lock_length(until));
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

    /// For a thread that has just won the right to load page `number`: may it? False if that is not decided
    /// yet, and the right is to be given up until it is.
    pub fn check_loadable(&self, number: u64, operation: &'static str) -> Result<bool> {
        self.gate.fence_before_load();
        if self.gate.holds_off(number) {
            return Ok(false);
        }
        self.check_open(operation).map_err(|error| error.at_page(number))?;
        self.check_page(number, operation)?;
        Ok(true)
    }

    /// The file as the backend knows it.
    pub fn io(&self, operation: &'static str) -> Result<SourceRef> {
        self.io.get().ok_or_else(|| self.closed_error(operation))
    }

    /// The backend's file is given up, and with it lock and descriptor. No transfer is in flight, but one
    /// that has just ended may keep the file open for a moment, which is waited for: `limit` at most.
    pub fn release_io(&self, limit: Duration) {
        let references = self.io.take();
        let until = deadline_after(limit);
        while !references.iter().all(SourceRef::is_last) && Instant::now() < until {
            std::thread::sleep(RELEASE_POLL);
        }
    }

    /// The file as the backend knows it, for a write of page `number`; an error if it takes no more writes.
    pub fn io_for_write(&self, number: u64) -> Result<SourceRef> {
        const OPERATION: &str = "write page";
        if self.is_poisoned() {
            return Err(self.poisoned_error(OPERATION).at_page(number));
        }
        self.io(OPERATION).map_err(|error| error.at_page(number))
    }

    /// Makes durable what was written, if anything was since the last time.
    ///
    /// `since` is what [`losses`](Self::losses) was when the caller's operation began. If the file has been
    /// reopened after a failure since then, changes of before may be lost, and this fails.
    pub fn sync_with(
        &self,
        since: u64,
        operation: &'static str,
        sync: impl FnOnce() -> Result<()>,
    ) -> Result<()> {
        let _one_at_a_time = self.sync.lock();
        // Looked at with the lock held: the sync that this call has waited for may have failed, and it was to
        // cover this caller's writes too.
        if self.is_poisoned() {
            return Err(self.poisoned_error(operation));
        }
        if self.losses() != since {
            let message = "the file was reopened after a failure meanwhile; changes of before may be lost";
            return Err(self.error(ErrorKind::FilePoisoned, operation, message));
        }
        if !self.unsynced.begin_sync() {
            return Ok(());
        }
        sync().inspect(|()| self.unsynced.forget_synced())
    }

    /// Gives the file on the device its length in bytes.
    pub fn settle_length(&self, io: &dyn Source) -> io::Result<()> {
        let Some(length) = &self.byte_length else { return Ok(()) };
        let _held = length.hold();
        let (bytes, there) = (length.get(), io.len_bytes()?);
        if there < bytes {
            // Space for all of it was allocated.
            let message = format!("the file has {there} bytes, expected {bytes}: others have cut it short");
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        if there > bytes {
            io.set_len_bytes(bytes)?;
            length.set_allocated(bytes);
        }
        Ok(())
    }

    /// A write or sync has failed: no more of them until the file is reopened. Returns the error for the
    /// caller.
    pub fn poison(&self, error: Error) -> Error {
        let mut poison = self.poison.lock();
        if poison.is_none() {
            *poison = Some(error.duplicate());
            self.begin_epoch();
        }
        self.gate.set_poisoned(true);
        error
    }

    /// How often the file was reopened after a failure.
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Acquire)
    }

    /// No sync is under way until the value is dropped.
    pub fn hold_syncs(&self) -> MutexGuard<'_, ()> {
        self.sync.lock()
    }

    /// The file is what the device has, and takes writes. For a caller that [holds syncs](Self::hold_syncs),
    /// and all pages.
    pub fn heal(&self) {
        let mut poison = self.poison.lock();
        if poison.take().is_some() {
            self.losses.fetch_add(1, Ordering::AcqRel);
        }
        self.begin_epoch();
        self.unsynced.begin_anew(!self.is_read_only());
        self.gate.set_poisoned(false);
    }

    pub fn error(&self, kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Error {
        Error::new(kind, operation, message).in_file(&self.name)
    }

    pub fn io_error(&self, operation: &'static str, error: IoError) -> Error {
        let kind = match &error {
            error if error.is_no_space() => ErrorKind::NoSpace,
            error if error.is_end_of_file() => ErrorKind::UnexpectedEof,
            error if error.is_corrupt() => ErrorKind::Corrupt,
            _ => ErrorKind::Io,
        };
        let io_kind = error.kind();
        Error::with_source(kind, operation, error).with_io_kind(io_kind).in_file(&self.name)
    }

    /// The error of an operation on the file's name.
    pub fn name_error(&self, operation: &'static str, error: NameError) -> Error {
        let kind = match &error {
            NameError::Os { .. } => ErrorKind::Io,
            NameError::None => ErrorKind::Unsupported,
            NameError::Changed { .. } => ErrorKind::NameChanged,
        };
        Error::with_source(kind, operation, error).in_file(&self.name)
    }

    pub fn closed_error(&self, operation: &'static str) -> Error {
        self.error(ErrorKind::FileClosed, operation, "the file was closed or removed")
    }

    pub fn poisoned_error(&self, operation: &'static str) -> Error {
        let cause = self.poison.lock().as_ref().map_or_else(String::new, ToString::to_string);
        let message =
            format!("the file takes no writes until it is reopened, because of an earlier failure: {cause}");
        self.error(ErrorKind::FilePoisoned, operation, message)
    }

    /// For reports: that the file takes no writes, that writers of pages have panicked, and what helps.
    pub fn poison_notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if let Some(cause) = &*self.poison.lock() {
            notes.push(format!("file {} takes no writes until it is reopened: {cause}", self.name));
        }
        let pages = self.half_changed.lock();
        if let Some(first) = pages.first() {
            let pages = match pages.len() {
                1 => format!("page {first}"),
                many => format!("{many} pages, the first of them page {first},"),
            };
            let name = &self.name;
            notes.push(format!("{pages} of file {name}: a writer panicked; discard what it has changed"));
        }
        notes
    }

    /// A writer of page `number` has panicked, and its latch is kept.
    #[cold]
    pub fn leave_half_changed(&self, number: u64) {
        self.half_changed.lock().insert(number);
        self.has_half_changed.store(true, Ordering::Release);
    }

    /// The page is latched because its writer has panicked.
    #[inline]
    pub fn is_half_changed(&self, number: u64) -> bool {
        self.has_half_changed.load(Ordering::Acquire) && self.half_changed.lock().contains(&number)
    }

    /// Takes the page off the list of half-changed ones. True if it was there; the caller then regains its
    /// latch.
    pub fn take_half_changed(&self, number: u64) -> bool {
        self.has_half_changed.load(Ordering::Acquire) && self.half_changed.lock().remove(&number)
    }

    /// An error if a writer of the page has panicked.
    #[inline]
    pub fn check_whole(&self, number: u64, operation: &'static str) -> Result<()> {
        if !self.is_half_changed(number) {
            return Ok(());
        }
        let message = "a writer of the page panicked, expected the page to be discarded first";
        Err(self.error(ErrorKind::PagePoisoned, operation, message).at_page(number))
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
    pub fn check_resizable(&self, operation: &'static str) -> Result<()> {
        self.check_writable(operation)?;
        if self.fixed_length {
            return Err(self.error(
                ErrorKind::Unsupported,
                operation,
                "a block device has the length it has",
            ));
        }
        Ok(())
    }

    pub fn check_writable_or_poisoned(&self, operation: &'static str) -> Result<()> {
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

/// Says, when it is dropped by a panic, that a page is half changed. Dropped after the page's latch.
pub(crate) struct PanicWatch<F: Deref<Target = FileShared>>(Option<(F, u64)>);

impl<F: Deref<Target = FileShared>> PanicWatch<F> {
    /// Over no page yet.
    #[inline]
    pub fn new() -> Self {
        Self(None)
    }

    /// Over page `number` of the file from here on.
    pub fn begin(&mut self, file: F, number: u64) {
        self.0 = Some((file, number));
    }

    /// The change has ended.
    #[inline]
    pub fn end(&mut self) {
        self.0 = None;
    }
}

impl<F: Deref<Target = FileShared>> Drop for PanicWatch<F> {
    #[inline]
    fn drop(&mut self) {
        if let Some((file, number)) = &self.0
            && std::thread::panicking()
        {
            file.leave_half_changed(*number);
        }
    }
}
