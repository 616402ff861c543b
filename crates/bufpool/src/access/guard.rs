//! Granted access to a page, as values.
//!
//! A guard is a latch on the page and the address of its bytes; dropping it lets go. Guards borrow the tenant
//! and the file they came from and stay with their thread (they are not `Send`), because a latch is let go
//! where it was taken.
//!
//! ```compile_fail
//! fn send(guard: bufpool::ReadGuard<'_>) -> impl Send + '_ {
//!     guard
//! }
//! ```

use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::Duration;

use bufpool_policies::{FrameId, PageId};

use crate::access::hit::{Granted, TenantAccess, or_none};
use crate::error::{ErrorKind, Result};
use crate::files::shared::{FileShared, PanicWatch};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::PoolTag;
use crate::hits::filter::Marked;
use crate::hits::log;
use crate::memory::arena::PAGE_BYTES_MIN;
use crate::memory::frame::Frame;
use crate::page::latch::{Exclusive, Latch, Mode, Shared, SharedLatch};
use crate::page::word::PageWord;
use crate::state::shared::PoolShared;
use crate::state::waiting::{Limit, Purpose, Refused};
use crate::thread::holds::{HoldsSlot, count_apart};
use crate::thread::keys::SiteHash;
use crate::thread::site::{Origin, PageClass, SiteRef};

/// Shared access to a page; dereferences to its bytes.
///
/// Any number of threads may hold one on the same page. A thread should hold at most one: if a writer waits
/// between its two, it waits for itself, which ends with
/// [`ErrorKind::SelfDeadlock`] or [`ErrorKind::LatchTimeout`].
pub struct ReadGuard<'g> {
    /// The frame's bytes; valid as long as the latch is held.
    bytes: NonNull<[u8]>,
    // Both are dropped by the guard's own `drop`. Left to themselves, each would be dropped even if the drop
    // of the other panics, for which the guard would have to be in memory instead of registers.
    latch: ManuallyDrop<SharedLatch<'g>>,
    hold: ManuallyDrop<HoldCount<'g>>,
}

/// What keeps a page latched and counted that was [read in passing](crate::At::read_in_passing), and no more
/// than that, so that it can be put away and got back at little cost.
#[doc(hidden)]
pub struct PassingGuard<'g> {
    // Dropped by the guard's own `drop`, as in a read guard.
    latch: ManuallyDrop<SharedLatch<'g>>,
    /// Where the guard's thread counts it. Makes the guard stay with its thread.
    count: NonNull<Cell<i64>>,
}

/// Exclusive access to a page; dereferences to its bytes.
///
/// The page becomes dirty when its bytes are first borrowed mutably; a guard that was only read from leaves
/// it as it was.
pub struct WriteGuard<'g> {
    /// The frame's bytes; valid as long as the latch is held.
    bytes: NonNull<[u8]>,
    latch: Latch<&'g PageWord, Exclusive>,
    // Dropped after the latch: the page is let go of before the recorder hears of it.
    hold: HoldCount<'g>,
    /// Marked dirty through this guard.
    written: bool,
    /// Where the log ended when the guard was granted.
    granted_lsn: u64,
    // Dropped after the latch, which a panic keeps: only then is the page noted as half changed.
    watch: PanicWatch<&'g FileShared>,
}

/// Keeps a page in its frame without latching it, so that it can be latched again without I/O.
///
/// A pinned page is never evicted, and cannot be truncated, discarded or closed; so pins should be few and
/// short-lived.
pub struct Pin<'g> {
    word: &'g PageWord,
    frame: &'g Frame,
    /// Of the page, for accesses through the pin.
    class: PageClass,
    hold: HoldCount<'g>,
}

/// One guard or pin: on what and for whom; counted for the thread that has it, and told to the recorder.
struct HoldCount<'g> {
    page: Page<'g>,
    tenant: &'g Tenant,
    /// Of the page's pool, for the count.
    tag: PoolTag,
    /// Guards and pins stay with their thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl<'g> TenantAccess<'g> {
    #[inline(always)]
    pub(crate) fn guard_shared(self, page: Page<'g>, origin: Origin, limit: Limit) -> Granted<ReadGuard<'g>> {
        // A closed file has no resident pages.
        if let Some(pages) = page.file().hot.pages(self.tenant.open_in())
            && let Some((latch, frame, bytes)) = pages.try_shared(page.number(), &page.file().shared.table)
        {
            self.note_hit(pages.tag, page, frame, origin, false);
            return Ok(ReadGuard::on_bytes(self.tenant, pages.tag, page, latch, bytes));
        }
        let latch = self.latch_shared_slowly(page, origin.place, origin.scope(), origin.class, limit)?;
        Ok(ReadGuard::on_latch(self.tenant, page, latch))
    }

    /// A hit that needs no call of a function: the latch is free, and the hit need not be noted. `None` does
    /// not mean that the page is absent. For callers whose own functions then have nothing to keep across
    /// calls.
    #[inline(always)]
    pub(crate) fn guard_shared_in_passing(
        self,
        page: Page<'g>,
        origin: Origin,
    ) -> Option<(NonNull<[u8]>, PassingGuard<'g>)> {
        let hot = &page.file().hot;
        let pages = hot.pages(self.tenant.open_in())?;
        let tenant_tag = self.tenant.tag();
        let key = log::last_keys().get(SiteHash::new(tenant_tag, origin.site()))?;
        if !pages.tag.notes_hits() || pages.tag.holds_slot() == HoldsSlot::APART || key.is_drain_next() {
            return None;
        }
        let skips = |frame: Marked<'_>| hot.filter.skips(frame, tenant_tag.watched);
        let (latch, bytes) = pages.try_shared_once(page.number(), skips)?;
        key.skip();
        Some((bytes, PassingGuard::new(pages.tag.holds_slot(), latch)))
    }

    #[inline]
    pub(crate) fn guard_exclusive(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<WriteGuard<'g>> {
        page.check_optimistic(false, "write page")?;
        let latch = self.latch(page, Purpose::Write, origin, limit)?;
        Ok(WriteGuard::new(self.tenant, page, latch))
    }

    pub(crate) fn guard_created(
        self,
        page: Page<'g>,
        origin: Origin,
        limit: Limit,
    ) -> Granted<WriteGuard<'g>> {
        page.check_optimistic(false, "create page")?;
        let latch = self.latch(page, Purpose::Create, origin, limit)?;
        let mut guard = WriteGuard::new(self.tenant, page, latch);
        // Of a page that was absent this overwrites what its frame held before; nobody else has seen it.
        guard.fill(0);
        Ok(guard)
    }

    pub(crate) fn pinned(self, page: Page<'g>, origin: Origin, limit: Limit) -> Granted<Pin<'g>> {
        Ok(self.guard_shared(page, origin, limit)?.pin().in_class(origin.class))
    }

    pub(crate) fn overwrite(self, page: Page<'g>, bytes: &[u8], origin: Origin, limit: Limit) -> Granted<()> {
        const PURPOSE: Purpose = Purpose::Overwrite;
        let file = &page.file().shared;
        page.check_optimistic(false, PURPOSE.operation())?;
        let page_bytes = self.tenant.pool.page_bytes;
        if bytes.len() != page_bytes {
            let message = format!("{} bytes were given, expected page_bytes = {page_bytes}", bytes.len());
            return Err(file
                .error(ErrorKind::PageSize, PURPOSE.operation(), message)
                .at_page(page.number())
                .into());
        }
        let latch = self.latch(page, PURPOSE, origin, limit)?;
        // Of a page that was absent this overwrites what its frame held before; nobody else has seen it.
        WriteGuard::new(self.tenant, page, latch).copy_from_slice(bytes);
        Ok(())
    }
}

impl<'g> HoldCount<'g> {
    #[inline]
    fn new(tenant: &'g Tenant, page: Page<'g>) -> Self {
        let tag = page.file().pool.hot.tag;
        if !tag.holds_slot().count(1) {
            HoldRecord::of(&page.file().pool).note_hold(page.id(), true);
        }
        Self::counted(tenant, tag, page)
    }

    /// One that is counted and recorded already.
    #[inline(always)]
    fn counted(tenant: &'g Tenant, tag: PoolTag, page: Page<'g>) -> Self {
        Self { page, tenant, tag, _not_send: std::marker::PhantomData }
    }

    /// Ends the count. True if the pool is to be told.
    #[inline(always)]
    fn end(&self) -> bool {
        !self.tag.holds_slot().count(-1)
    }

    #[inline]
    fn pool(&self) -> &'g PoolShared {
        &self.page.file().pool
    }

    fn pin(&self, word: &'g PageWord, frame: FrameId) -> Pin<'g> {
        Pin::new(self.tenant, self.page, word, self.pool().frames.get(frame))
    }
}

impl Drop for HoldCount<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.end() {
            HoldRecord::of(self.pool()).note_hold(self.page.id(), false);
        }
    }
}

/// Counts guards and pins for pools without a slot of their own, and tells the recorder of them.
#[derive(Clone, Copy)]
pub(crate) struct HoldRecord<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> HoldRecord<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    #[cold]
    #[inline(never)]
    fn note_hold(self, page: PageId, begins: bool) {
        count_apart(self.pool.hot.serial, begins);
        self.record_hold(page, begins);
    }

    #[cold]
    #[inline(never)]
    pub(super) fn record_hold(self, page: PageId, begins: bool) {
        if !self.pool.is_recording || !self.pool.owner.may_call() {
            return;
        }
        let mut policy = self.pool.policy.lock();
        if begins { policy.hold(page) } else { policy.let_go(page) }
    }

    /// The page with a latched word, for those who do not keep its number at hand.
    fn page_latched(self, word: &PageWord) -> PageId {
        let frame = word.state().resident_frame().expect("a latched page is resident");
        self.pool.frames.get(frame).page().expect("a latched page is in its frame")
    }

    #[cold]
    #[inline(never)]
    fn note_guard(self, word: &PageWord) {
        self.note_hold(self.page_latched(word), true);
    }

    /// Lets go, and then tells the recorder: a page is let go of before that hears of it.
    #[cold]
    #[inline(never)]
    fn end_noted_guard(self, latch: SharedLatch<'_>) {
        count_apart(self.pool.hot.serial, false);
        if !self.pool.is_recording || !self.pool.owner.is_here() {
            return;
        }
        let page = self.page_latched(latch.word());
        drop(latch);
        self.record_hold(page, false);
    }
}

impl<'g> ReadGuard<'g> {
    /// From a latch on the page.
    pub(crate) fn new(tenant: &'g Tenant, page: Page<'g>, latch: Latch<&'g PageWord, Shared>) -> Self {
        Self::on_latch(tenant, page, latch.into())
    }

    /// As [`new`](Self::new).
    pub(crate) fn on_latch(tenant: &'g Tenant, page: Page<'g>, latch: SharedLatch<'g>) -> Self {
        let pool = &*page.file().pool;
        let bytes = pool.arena.frame(latch.frame());
        Self::on_bytes(tenant, pool.hot.tag, page, latch, bytes)
    }

    /// From a latch on the page, whose frame has these bytes.
    #[inline(always)]
    pub(crate) fn on_bytes(
        tenant: &'g Tenant,
        tag: PoolTag,
        page: Page<'g>,
        latch: SharedLatch<'g>,
        bytes: NonNull<[u8]>,
    ) -> Self {
        if !tag.holds_slot().count(1) {
            HoldRecord::of(&page.file().pool).note_guard(latch.word());
        }
        let hold = ManuallyDrop::new(HoldCount::counted(tenant, tag, page));
        Self { bytes, latch: ManuallyDrop::new(latch), hold }
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'g> {
        self.hold.page
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        // By the address of the bytes: in the child of a fork the word is wiped.
        let frame = self.hold.pool().arena.frame_at(self.bytes);
        self.hold.pin(self.latch.word(), frame)
    }
}

impl Drop for ReadGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the latch is not used again.
        let latch = unsafe { ManuallyDrop::take(&mut self.latch) };
        // Does not look at the page's number, which then need not be kept.
        if self.hold.end() {
            HoldRecord::of(self.hold.pool()).end_noted_guard(latch);
        } else {
            drop(latch);
        }
    }
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the latch keeps the page in the frame, and writers away.
        let bytes = unsafe { self.bytes.as_ref() };
        // SAFETY: no pool has smaller pages.
        unsafe { std::hint::assert_unchecked(bytes.len() >= PAGE_BYTES_MIN) };
        bytes
    }
}

impl fmt::Debug for ReadGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadGuard({:?})", self.page())
    }
}

impl<'g> PassingGuard<'g> {
    /// From a latch on a page of the pool with this slot, which is a pool's own.
    #[inline(always)]
    pub(crate) fn new(slot: HoldsSlot, latch: SharedLatch<'g>) -> Self {
        slot.count(1);
        Self { latch: ManuallyDrop::new(latch), count: slot.place() }
    }
}

impl Drop for PassingGuard<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the guard stays with its thread, which has the count until it ends.
        let count = unsafe { self.count.as_ref() };
        count.set(count.get().wrapping_sub(1));
        // SAFETY: the latch is not used again.
        drop(unsafe { ManuallyDrop::take(&mut self.latch) });
    }
}

impl<'g> WriteGuard<'g> {
    #[inline]
    pub(crate) fn new(tenant: &'g Tenant, page: Page<'g>, latch: Latch<&'g PageWord, Exclusive>) -> Self {
        let pool = &*tenant.pool;
        let bytes = pool.arena.frame(latch.frame());
        let hold = HoldCount::new(tenant, page);
        let granted_lsn =
            if pool.log.is_some() { pool.note_grant(pool.frames.get(latch.frame())) } else { 0 };
        Self { bytes, latch, hold, written: false, granted_lsn, watch: PanicWatch::new() }
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'g> {
        self.hold.page
    }

    fn frame(&self) -> &'g Frame {
        self.hold.pool().frames.get(self.latch.frame())
    }

    /// Notes the log sequence number of the last change, and marks the page dirty. The page is not written to
    /// its file before the log is durable up to this number. The number never falls: one below an earlier one
    /// is ignored.
    pub fn set_lsn(&mut self, lsn: u64) {
        self.mark_dirty();
        self.frame().raise_page_lsn(lsn);
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        self.hold.pin(self.latch.word(), self.latch.frame())
    }

    /// Turns exclusive into shared access without letting go of the page. Never waits, and lets waiting
    /// readers in.
    pub fn downgrade(self) -> ReadGuard<'g> {
        let Self { bytes, latch, hold, mut watch, .. } = self;
        // Not left half done, though a panic's unwinding may be what downgrades the guard.
        watch.end();
        let latch = ManuallyDrop::new(latch.downgrade().into());
        ReadGuard { bytes, latch, hold: ManuallyDrop::new(hold) }
    }

    /// The page's words, to be changed where others may be reading them.
    #[inline]
    pub(crate) fn words_mut(&mut self) -> &[AtomicU64] {
        self.mark_dirty();
        // A reader of something stored from here on sees that the page is latched; see `PageWord::still`.
        fence(Ordering::Release);
        // SAFETY: the latch keeps the page in the frame; pages of optimistic files, of which only such guards
        // call this, are written through words only.
        unsafe { self.page().file().shared.table.frames().words(self.latch.frame()) }
    }

    #[inline]
    fn mark_dirty(&mut self) {
        if !self.written {
            self.mark_dirty_first();
        }
    }

    #[cold]
    fn mark_dirty_first(&mut self) {
        self.written = true;
        self.latch.set_changed();
        let (file, number) = (&*self.hold.page.file().shared, self.hold.page.number());
        if file.poison_on_panic && !std::thread::panicking() {
            self.latch.keep_on_panic();
            self.watch.begin(file, number);
        }
        self.hold.pool().mark_dirty(self.frame(), self.granted_lsn);
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the latch keeps the page in the frame; a writer through this guard has borrowed it
        // exclusively.
        let bytes = unsafe { self.bytes.as_ref() };
        // SAFETY: no pool has smaller pages.
        unsafe { std::hint::assert_unchecked(bytes.len() >= PAGE_BYTES_MIN) };
        bytes
    }
}

impl DerefMut for WriteGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mark_dirty();
        // SAFETY: the latch is exclusive and keeps the page in the frame; the guard is borrowed exclusively,
        // so nobody reads the bytes through it meanwhile.
        unsafe { self.bytes.as_mut() }
    }
}

impl fmt::Debug for WriteGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WriteGuard({:?})", self.page())
    }
}

impl<'g> Pin<'g> {
    /// Pins a page that the caller has latched.
    pub(crate) fn new(tenant: &'g Tenant, page: Page<'g>, word: &'g PageWord, frame: &'g Frame) -> Self {
        frame.pin();
        Self { word, frame, class: PageClass::NONE, hold: HoldCount::new(tenant, page) }
    }

    /// The same, of a page in this class.
    pub(crate) fn in_class(mut self, class: PageClass) -> Self {
        self.class = class;
        self
    }

    /// The page.
    pub fn page(&self) -> Page<'g> {
        self.hold.page
    }

    /// Shared access to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LatchTimeout`], [`ErrorKind::SelfDeadlock`], [`ErrorKind::ForkedChild`].
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_>> {
        self.guard_shared(SiteRef::caller(), Limit::Default).map_err(Refused::into_error)
    }

    /// Exclusive access to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// As [`Pin::read`]; [`ErrorKind::ReadOnly`] and [`ErrorKind::FilePoisoned`] if the file takes no writes.
    #[track_caller]
    pub fn write(&self) -> Result<WriteGuard<'_>> {
        self.guard_exclusive(SiteRef::caller(), Limit::Default).map_err(Refused::into_error)
    }

    /// As [`Pin::read`], but `None` instead of waiting for others' latches.
    ///
    /// # Errors
    ///
    /// As [`Pin::read`], but for [`ErrorKind::LatchTimeout`].
    #[track_caller]
    pub fn try_read(&self) -> Result<Option<ReadGuard<'_>>> {
        or_none(self.guard_shared(SiteRef::caller(), Limit::Now))
    }

    /// As [`Pin::write`], but `None` instead of waiting for others' latches.
    ///
    /// # Errors
    ///
    /// As [`Pin::write`], but for [`ErrorKind::LatchTimeout`].
    #[track_caller]
    pub fn try_write(&self) -> Result<Option<WriteGuard<'_>>> {
        or_none(self.guard_exclusive(SiteRef::caller(), Limit::Now))
    }

    /// As [`Pin::read`], but `None` after waiting for `limit`.
    ///
    /// # Errors
    ///
    /// As [`Pin::try_read`].
    #[track_caller]
    pub fn read_timeout(&self, limit: Duration) -> Result<Option<ReadGuard<'_>>> {
        or_none(self.guard_shared(SiteRef::caller(), Limit::Within(limit)))
    }

    /// As [`Pin::write`], but `None` after waiting for `limit`.
    ///
    /// # Errors
    ///
    /// As [`Pin::try_write`].
    #[track_caller]
    pub fn write_timeout(&self, limit: Duration) -> Result<Option<WriteGuard<'_>>> {
        or_none(self.guard_exclusive(SiteRef::caller(), Limit::Within(limit)))
    }

    fn guard_shared(&self, site: SiteRef, limit: Limit) -> Granted<ReadGuard<'_>> {
        let latch = self.latch(Purpose::Read, site, limit)?;
        Ok(ReadGuard::new(self.hold.tenant, self.page(), latch))
    }

    fn guard_exclusive(&self, site: SiteRef, limit: Limit) -> Granted<WriteGuard<'_>> {
        self.page().check_optimistic(false, "write page")?;
        let latch = self.latch(Purpose::Write, site, limit)?;
        Ok(WriteGuard::new(self.hold.tenant, self.page(), latch))
    }

    fn latch<M: Mode>(
        &self,
        purpose: Purpose,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord, M>> {
        let (pool, page, tenant) = (self.hold.pool(), self.page(), self.hold.tenant);
        pool.owner.check(purpose.operation()).map_err(|error| page.named_in(error))?;
        let latch = TenantAccess::of(tenant).latch_pinned(page, self.word, purpose, limit)?;
        TenantAccess::of(tenant).note_hit(
            pool.hot.tag,
            page,
            TenantAccess::of(tenant).marked(latch.frame()),
            site.in_class(self.class.0).into(),
            false,
        );
        Ok(latch)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.frame.unpin();
        self.hold.pool().frame_may_be_free();
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.page())
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use crate::io::sim::SimDevice;
    use crate::{FileOptions, PoolOptions, site};

    /// Each guard and pin counts for its thread once, until it ends.
    #[test]
    fn what_a_thread_holds_is_counted() {
        let device = SimDevice::new(1);
        device.put("data", &[0; 4096 * 4]);
        let options = PoolOptions::new().page_bytes(4096).frames(64);
        let pool = options.open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new()).unwrap();
        let (tenant, page) = (pool.default_tenant(), file.page(0));
        let holds = || {
            let hot = &file.pool.hot;
            hot.tag.holds_slot().own_holds(hot.serial)
        };
        let pin = tenant.pin(page).unwrap();
        assert_eq!(holds(), 1);
        let of_pin = (pin.read().unwrap(), pin.read().unwrap());
        assert_eq!(holds(), 3);
        let of_guard = of_pin.0.pin();
        assert_eq!(holds(), 4);
        drop(of_pin);
        assert_eq!(holds(), 2);
        drop(of_guard);
        drop(pin);
        assert_eq!(holds(), 0);
        let guard = tenant.write(page).unwrap();
        assert_eq!(holds(), 1);
        drop(guard);
        assert_eq!(holds(), 0);
        let (site, mut passings) = (site!("here"), 0);
        for _ in 0..100 {
            let passing = tenant.at(site).read_in_passing(page);
            passings += u64::from(passing.is_some());
            assert_eq!(holds(), u64::from(passing.is_some()));
            drop(passing);
            drop(tenant.at(site).read(page).unwrap());
            assert_eq!(holds(), 0);
        }
        assert!(passings > 0);
    }
}
