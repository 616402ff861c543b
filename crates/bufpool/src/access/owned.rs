//! Guards and pins that borrow nothing: they keep file and pool themselves, may go to other threads, and
//! count for none.
//!
//! A borrowed guard relies on the handles that it borrows. An owned one has a share of a handle that its
//! file's handle keeps for this ([`File::keeper`](crate::File::keeper)), which costs one count more than a
//! latch.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

use bufpool_policies::{FrameId, PageId};

use crate::access::guard::{HoldRecord, ReadGuard, WriteGuard};
use crate::access::hit::{Granted, TenantAccess, or_none};
use crate::error::Result;
use crate::files::shared::{FileShared, PanicWatch};
use crate::files::word::OwnedWord;
use crate::handle::file::Page;
use crate::handle::keeper::Keeper;
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::PoolTag;
use crate::memory::arena::PAGE_BYTES_MIN;
use crate::memory::frame::Frame;
use crate::page::latch::{Exclusive, Latch, Mode, Shared, SharedLatch};
use crate::page::word::PageWord;
use crate::state::waiting::{Limit, Purpose, Refused};
use crate::thread::holds::HoldsSlot;
use crate::thread::site::{Origin, PageClass, SiteRef};

/// Shared access to a page that borrows nothing and may move between threads; dereferences to its bytes.
///
/// It keeps the pool open. It counts for no thread: a thread that waits for what its own owned guards hold is
/// not told at once, but waits until `latch_wait_ms` or `frame_wait_ms` is over. While a thread has at most
/// one owned guard of a [`File`](crate::File) handle at a time, keeping the pool open costs it nothing.
/// Further guards of the handle change a counter that all threads share, so threads that hold many at a time
/// should have a clone of the handle each. While any guard or pin of the process outlives its handle, all
/// owned guards change such counters.
pub struct OwnedReadGuard {
    held: OwnedHeld<SharedLatch<'static>>,
}

/// Exclusive access to a page that borrows nothing and may move between threads; dereferences to its bytes.
/// What is said of [`OwnedReadGuard`] holds of it too.
///
/// The page becomes dirty when its bytes are first borrowed mutably.
pub struct OwnedWriteGuard {
    held: OwnedHeld<Latch<&'static PageWord, Exclusive>>,
    /// Marked dirty through this guard.
    written: bool,
    /// Where the log ended when the guard was granted.
    granted_lsn: u64,
    // Dropped after the latch, which a panic keeps: only then is the page noted as half changed.
    watch: PanicWatch<Arc<FileShared>>,
}

/// Keeps a page in its frame without latching it, borrows nothing, and may move between threads; see
/// [`Tenant::pin_owned`]. As with [`Pin`](crate::Pin), such pins should be few and short-lived.
pub struct OwnedPin {
    word: &'static PageWord,
    frame: FrameId,
    number: u64,
    /// Of the page, for accesses through the pin.
    class: PageClass,
    file: Keeper,
}

/// What both owned guards consist of.
struct OwnedHeld<L> {
    /// The frame's bytes; valid as long as the latch is held.
    bytes: NonNull<[u8]>,
    // Dropped by this value's own `drop`, as in a borrowed guard: the latch, then the file.
    latch: ManuallyDrop<L>,
    /// The page's number, with [`RECORDED`] if there is a recorder.
    number: u64,
    file: ManuallyDrop<Keeper>,
}

/// A bit above those of page numbers.
const RECORDED: u64 = 1 << 63;
const _: () = assert!(PageId::NUMBER_BITS < 63);

// SAFETY: the bytes are the latch's to lend, wherever that is, and latches may be let go of on any thread.
unsafe impl<L: Send> Send for OwnedHeld<L> {}
// SAFETY: a shared reference allows to read the bytes, which the latch keeps writers from.
unsafe impl<L: Sync> Sync for OwnedHeld<L> {}

/// The word, with its lifetime extended for a caller that keeps its file.
///
/// # Safety
///
/// It is a word of a file's table, and is not used once the caller has let go of the file.
#[inline(always)]
unsafe fn kept_word(word: &PageWord) -> &'static PageWord {
    // SAFETY: words stay where they are as long as their file's table, which lives as long as the file.
    unsafe { &*std::ptr::from_ref(word) }
}

/// Tells the recorder, if there is one, of a guard on a page. Takes and returns what the guard consists of,
/// which then need not be in memory.
#[cold]
#[inline(never)]
fn begin_record(file: Keeper, number: u64) -> (Keeper, u64) {
    if !file.pool.is_recording {
        return (file, number);
    }
    HoldRecord::of(&file.pool).record_hold(file.page(number).id(), true);
    (file, number | RECORDED)
}

/// A guard that [`begin_record`] has told of is gone.
#[cold]
#[inline(never)]
fn end_record(file: Keeper, number: u64) {
    HoldRecord::of(&file.pool).record_hold(file.page(number & !RECORDED).id(), false);
    drop(file);
}

impl<'g> TenantAccess<'g> {
    #[inline(always)]
    pub(crate) fn guard_shared_owned(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<OwnedReadGuard> {
        let file = page.file();
        if let Some(pages) = file.hot.pages(self.tenant.open_in())
            && let Some((latch, frame, bytes)) = pages.try_shared(page.number(), &file.shared.table)
        {
            self.note_hit(pages.tag, page, frame, origin, false);
            return Ok(OwnedReadGuard::on_bytes(pages.tag, file.keeper(), page.number(), latch, bytes));
        }
        let latch = self.latch_shared_slowly(page, origin.place, origin.scope(), origin.class, limit)?;
        Ok(OwnedReadGuard::on_latch(file.keeper(), page.number(), latch))
    }

    #[inline]
    pub(crate) fn guard_exclusive_owned(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<OwnedWriteGuard> {
        page.check_optimistic(false, "write page")?;
        let latch = self.latch(page, Purpose::Write, origin, limit)?;
        Ok(OwnedWriteGuard::new(page.file().keeper(), page.number(), latch.detached()))
    }

    pub(crate) fn guard_created_owned(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<OwnedWriteGuard> {
        page.check_optimistic(false, "create page")?;
        let latch = self.latch(page, Purpose::Create, origin, limit)?;
        let mut guard = OwnedWriteGuard::new(page.file().keeper(), page.number(), latch.detached());
        // Of a page that was absent this overwrites what its frame held before; nobody else has seen it.
        guard.fill(0);
        Ok(guard)
    }

    pub(crate) fn pinned_owned(self, page: Page<'g>, origin: Origin, limit: Limit) -> Granted<OwnedPin> {
        Ok(self.guard_shared_owned(page, origin, limit)?.pin().in_class(origin.class))
    }
}

impl<L> OwnedHeld<L> {
    /// Of a latch on page `number` of `file`, whose frame has these bytes.
    #[inline(always)]
    fn new(tag: PoolTag, file: Keeper, number: u64, latch: L, bytes: NonNull<[u8]>) -> Self {
        let (file, number) = match tag.holds_slot() {
            HoldsSlot::APART => begin_record(file, number),
            _ => (file, number),
        };
        Self { bytes, latch: ManuallyDrop::new(latch), number, file: ManuallyDrop::new(file) }
    }

    fn page(&self) -> Page<'_> {
        self.file.page(self.number & !RECORDED)
    }

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the latch keeps the page in the frame, and others from writing; a writer through this value
        // borrows it exclusively.
        let bytes = unsafe { self.bytes.as_ref() };
        // SAFETY: no pool has smaller pages.
        unsafe { std::hint::assert_unchecked(bytes.len() >= PAGE_BYTES_MIN) };
        bytes
    }

    /// By the address of the bytes: in the child of a fork the word is wiped.
    fn frame(&self) -> FrameId {
        self.file.pool.arena.frame_at(self.bytes)
    }

    fn pin(&self, word: &'static PageWord) -> OwnedPin {
        OwnedPin::new(Keeper::clone(&self.file), self.page().number(), word, self.frame())
    }
}

impl<L> Drop for OwnedHeld<L> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the latch is not used again.
        let latch = unsafe { ManuallyDrop::take(&mut self.latch) };
        // SAFETY: the file is not used again.
        let file = unsafe { ManuallyDrop::take(&mut self.file) };
        drop(latch);
        if self.number & RECORDED == 0 {
            drop(file);
        } else {
            end_record(file, self.number);
        }
    }
}

impl OwnedReadGuard {
    /// From a latch on page `number` of `file`, whose frame has these bytes.
    #[inline(always)]
    fn on_bytes(
        tag: PoolTag,
        file: Keeper,
        number: u64,
        latch: SharedLatch<'_>,
        bytes: NonNull<[u8]>,
    ) -> Self {
        // SAFETY: the guard lets go of the latch before the file.
        let word = unsafe { kept_word(latch.word()) };
        Self { held: OwnedHeld::new(tag, file, number, latch.detached().through(word), bytes) }
    }

    /// From a latch on page `number` of `file`.
    pub(crate) fn on_latch(file: Keeper, number: u64, latch: SharedLatch<'_>) -> Self {
        let (tag, bytes) = (file.pool.hot.tag, file.pool.arena.frame(latch.frame()));
        Self::on_bytes(tag, file, number, latch, bytes)
    }

    /// As [`on_latch`](Self::on_latch), from one that was taken for a future.
    pub(crate) fn on_owned(file: Keeper, number: u64, latch: Latch<OwnedWord, Shared>) -> Self {
        // SAFETY: the guard lets go of the latch before the file.
        let word = unsafe { kept_word(latch.word()) };
        Self::on_latch(file, number, latch.through(word).into())
    }

    /// The page.
    pub fn page(&self) -> Page<'_> {
        self.held.page()
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> OwnedPin {
        self.held.pin(self.held.latch.word())
    }
}

impl Deref for OwnedReadGuard {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.held.bytes()
    }
}

impl OwnedWriteGuard {
    /// From an exclusive latch on page `number` of `file`, which is no thread's.
    pub(crate) fn new<W>(file: Keeper, number: u64, latch: Latch<W, Exclusive>) -> Self
    where
        W: Deref<Target = PageWord>,
    {
        let pool = &file.pool;
        let frame = latch.frame();
        let bytes = pool.arena.frame(frame);
        let granted_lsn = if pool.log.is_some() { pool.note_grant(pool.frames.get(frame)) } else { 0 };
        // SAFETY: the guard lets go of the latch before the file.
        let word = unsafe { kept_word(latch.word()) };
        let held = OwnedHeld::new(file.pool.hot.tag, file, number, latch.through(word), bytes);
        Self { held, written: false, granted_lsn, watch: PanicWatch::new() }
    }

    /// The page.
    pub fn page(&self) -> Page<'_> {
        self.held.page()
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> OwnedPin {
        self.held.pin(self.held.latch.word())
    }

    /// Notes the log sequence number of the last change; see
    /// [`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn).
    pub fn set_lsn(&mut self, lsn: u64) {
        self.mark_dirty();
        self.held.file.pool.frames.get(self.held.frame()).raise_page_lsn(lsn);
    }

    fn mark_dirty(&mut self) {
        if !std::mem::replace(&mut self.written, true) {
            self.held.latch.set_changed();
            let file = &self.held.file.shared;
            if file.poison_on_panic && !std::thread::panicking() {
                self.held.latch.keep_on_panic();
                self.watch.begin(Arc::clone(file), self.held.page().number());
            }
            let pool = &self.held.file.pool;
            pool.mark_dirty(pool.frames.get(self.held.frame()), self.granted_lsn);
        }
    }
}

impl Deref for OwnedWriteGuard {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.held.bytes()
    }
}

impl DerefMut for OwnedWriteGuard {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mark_dirty();
        // SAFETY: the latch is exclusive and keeps the page in the frame; the guard, the only way to the
        // bytes then, is borrowed exclusively.
        unsafe { self.held.bytes.as_mut() }
    }
}

impl OwnedPin {
    /// Pins page `number` of `file`, which the caller has latched in this frame.
    fn new(file: Keeper, number: u64, word: &'static PageWord, frame: FrameId) -> Self {
        file.pool.frames.get(frame).pin();
        let pin = Self { word, frame, number, class: PageClass::NONE, file };
        HoldRecord::of(&pin.file.pool).record_hold(pin.page().id(), true);
        pin
    }

    /// The same, of a page in this class.
    fn in_class(mut self, class: PageClass) -> Self {
        self.class = class;
        self
    }

    /// The page.
    pub fn page(&self) -> Page<'_> {
        self.file.page(self.number)
    }

    /// The address and length of the page's bytes. They stay there as long as the pin lives; only a latch
    /// protects their contents. This is for engines that have latches of their own on top of pages, and read
    /// a page without the pool's. The rules for who follows the pointer:
    ///
    /// * Reading is sound while no write guard of the page exists, of any kind, and no [`Tenant::create`] of
    ///   it runs. The pool itself writes to a pinned page only where a file of
    ///   [bytes](crate::FileOptions::bytes) becomes longer or shorter
    ///   ([`File::extend`](crate::File::extend), [`File::set_byte_len`](crate::File::set_byte_len),
    ///   [`Tenant::write_at`] behind the end): that is a write guard of its last page.
    ///   So the engine's own latch may be what keeps writers away.
    /// * Writing goes through write guards only, such as [`OwnedPin::write`] returns: the pool may be copying
    ///   the page to its file at any time under a shared latch, and a change without a guard does not make
    ///   the page dirty. An engine whose own latch keeps its readers and writers apart waits for such a guard
    ///   no longer than the pool takes to copy the page, or for its write where the page is not copied.
    /// * Pages of [optimistic](crate::FileOptions::optimistic) files change word by word under their guards,
    ///   so they may be read by atomic loads only.
    /// * In the child of a fork the bytes are zeros.
    /// * The 256 bytes behind the page can be read, by code in another language that reads words over the end
    ///   of a value. What they are says nothing: they may be another page's, and change at any time.
    pub fn as_ptr(&self) -> NonNull<[u8]> {
        self.file.pool.arena.frame(self.frame)
    }

    /// Shared access of `tenant` to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// As [`Pin::read`](crate::Pin::read); [`ErrorKind::WrongPool`](crate::ErrorKind::WrongPool),
    /// [`ErrorKind::TenantClosed`](crate::ErrorKind::TenantClosed).
    #[track_caller]
    pub fn read<'g>(&'g self, tenant: &'g Tenant) -> Result<ReadGuard<'g>> {
        self.guard_shared(tenant, SiteRef::caller(), Limit::Default).map_err(Refused::into_error)
    }

    /// Exclusive access of `tenant` to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// As [`Pin::write`](crate::Pin::write); [`ErrorKind::WrongPool`](crate::ErrorKind::WrongPool),
    /// [`ErrorKind::TenantClosed`](crate::ErrorKind::TenantClosed).
    #[track_caller]
    pub fn write<'g>(&'g self, tenant: &'g Tenant) -> Result<WriteGuard<'g>> {
        self.guard_exclusive(tenant, SiteRef::caller(), Limit::Default).map_err(Refused::into_error)
    }

    /// As [`read`](Self::read), but `None` instead of waiting for others' latches.
    ///
    /// # Errors
    ///
    /// As [`read`](Self::read), but for [`ErrorKind::LatchTimeout`](crate::ErrorKind::LatchTimeout).
    #[track_caller]
    pub fn try_read<'g>(&'g self, tenant: &'g Tenant) -> Result<Option<ReadGuard<'g>>> {
        or_none(self.guard_shared(tenant, SiteRef::caller(), Limit::Now))
    }

    /// As [`write`](Self::write), but `None` instead of waiting for others' latches.
    ///
    /// # Errors
    ///
    /// As [`write`](Self::write), but for [`ErrorKind::LatchTimeout`](crate::ErrorKind::LatchTimeout).
    #[track_caller]
    pub fn try_write<'g>(&'g self, tenant: &'g Tenant) -> Result<Option<WriteGuard<'g>>> {
        or_none(self.guard_exclusive(tenant, SiteRef::caller(), Limit::Now))
    }

    /// As [`read`](Self::read), but `None` after waiting for `limit`.
    ///
    /// # Errors
    ///
    /// As [`try_read`](Self::try_read).
    #[track_caller]
    pub fn read_timeout<'g>(&'g self, tenant: &'g Tenant, limit: Duration) -> Result<Option<ReadGuard<'g>>> {
        or_none(self.guard_shared(tenant, SiteRef::caller(), Limit::Within(limit)))
    }

    /// As [`write`](Self::write), but `None` after waiting for `limit`.
    ///
    /// # Errors
    ///
    /// As [`try_write`](Self::try_write).
    #[track_caller]
    pub fn write_timeout<'g>(
        &'g self,
        tenant: &'g Tenant,
        limit: Duration,
    ) -> Result<Option<WriteGuard<'g>>> {
        or_none(self.guard_exclusive(tenant, SiteRef::caller(), Limit::Within(limit)))
    }

    fn guard_shared<'g>(&'g self, tenant: &'g Tenant, site: SiteRef, limit: Limit) -> Granted<ReadGuard<'g>> {
        let latch = self.latch(tenant, Purpose::Read, site, limit)?;
        Ok(ReadGuard::new(tenant, self.page(), latch))
    }

    fn guard_exclusive<'g>(
        &'g self,
        tenant: &'g Tenant,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<WriteGuard<'g>> {
        self.page().check_optimistic(false, "write page")?;
        let latch = self.latch(tenant, Purpose::Write, site, limit)?;
        Ok(WriteGuard::new(tenant, self.page(), latch))
    }

    fn latch<'g, M: Mode>(
        &'g self,
        tenant: &'g Tenant,
        purpose: Purpose,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord, M>> {
        let (page, access, operation) = (self.page(), TenantAccess::of(tenant), purpose.operation());
        let checked = tenant.check_open(operation).and_then(|()| tenant.check_file(&self.file, operation));
        checked.map_err(|error| page.named_in(error))?;
        let latch = access.latch_pinned(page, self.word, purpose, limit)?;
        let site = site.in_class(self.class.0);
        access.note_hit(tenant.pool.hot.tag, page, access.marked(latch.frame()), site.into(), false);
        Ok(latch)
    }

    fn frame(&self) -> &Frame {
        self.file.pool.frames.get(self.frame)
    }
}

impl Drop for OwnedPin {
    fn drop(&mut self) {
        self.frame().unpin();
        self.file.pool.frame_may_be_free();
        HoldRecord::of(&self.file.pool).record_hold(self.page().id(), false);
    }
}

impl fmt::Debug for OwnedReadGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedReadGuard({:?})", self.page())
    }
}

impl fmt::Debug for OwnedWriteGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedWriteGuard({:?})", self.page())
    }
}

impl fmt::Debug for OwnedPin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OwnedPin({:?})", self.page())
    }
}
