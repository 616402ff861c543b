//! Granted access to a page, as values.
//!
//! A guard is a latch on the page and the address of its bytes; dropping it lets go. Guards borrow the tenant and the
//! file they came from and stay with their thread (they are not `Send`), because a latch is let go where it was taken.
//!
//! ```compile_fail
//! fn send(guard: bufpool::ReadGuard<'_>) -> impl Send + '_ {
//!     guard
//! }
//! ```

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use crate::access::{Limit, Purpose};
use crate::call_site::SiteRef;
use crate::error::Result;
use crate::file::Page;
use crate::frame::Frame;
use crate::latch::Latch;
use crate::page_word::PageWord;
use crate::pool::PoolShared;
use crate::tenant::Tenant;

/// Shared access to a page; dereferences to its bytes.
///
/// Any number of threads may hold one on the same page. A thread should hold at most one: if a writer waits between its two, it
/// waits for itself, which ends with [`ErrorKind::SelfDeadlock`](crate::ErrorKind::SelfDeadlock) or
/// [`ErrorKind::LatchTimeout`](crate::ErrorKind::LatchTimeout).
pub struct ReadGuard<'g> {
    held: Held<'g>,
}

/// Exclusive access to a page; dereferences to its bytes.
///
/// The page becomes dirty when its bytes are first borrowed mutably; a guard that was only read from leaves it as it was.
pub struct WriteGuard<'g> {
    held: Held<'g>,
    /// Marked dirty through this guard.
    written: bool,
    /// Where the log ended when the guard was granted.
    granted_lsn: u64,
}

/// Keeps a page in its frame without latching it, so that it can be latched again without I/O.
///
/// A pinned page is never evicted, and cannot be truncated, discarded or closed; so pins should be few and short-lived.
pub struct Pin<'g> {
    page: Page<'g>,
    tenant: &'g Tenant,
    word: &'g PageWord,
    frame: &'g Frame,
    hold: Hold<'g>,
}

/// What both guards consist of.
struct Held<'g> {
    /// The frame's bytes; valid as long as the latch is held.
    bytes: NonNull<[u8]>,
    page: Page<'g>,
    tenant: &'g Tenant,
    latch: Latch<&'g PageWord>,
    // After the latch: a page is let go of before the recorder hears of it.
    _hold: Hold<'g>,
}

/// One guard or pin, counted for the thread that holds it and told to the recorder.
struct Hold<'g> {
    page: Page<'g>,
    pool: &'g PoolShared,
    /// Guards and pins stay with their thread.
    _not_send: std::marker::PhantomData<*const ()>,
}

impl<'g> Hold<'g> {
    #[inline]
    fn new(pool: &'g PoolShared, page: Page<'g>) -> Self {
        count_holds(pool.holds_slot, 1);
        if pool.is_recording {
            pool.policy.lock().hold(page.id());
        }
        Self { page, pool, _not_send: std::marker::PhantomData }
    }
}

impl Drop for Hold<'_> {
    #[inline]
    fn drop(&mut self) {
        count_holds(self.pool.holds_slot, -1);
        if self.pool.is_recording {
            self.pool.policy.lock().let_go(self.page.id());
        }
    }
}

/// Pools told apart by the counts of a thread; a power of two. Pools that share a slot are counted together.
pub(crate) const HOLDS_SLOTS: usize = 8;

thread_local! {
    static HOLDS: [Cell<i32>; HOLDS_SLOTS] = const { [const { Cell::new(0) }; HOLDS_SLOTS] };
}

#[inline]
fn count_holds(slot: usize, step: i32) {
    HOLDS.with(|holds| holds[slot].set(holds[slot].get() + step));
}

/// Guards and pins of the calling thread on pages of the pools with this slot.
pub(crate) fn own_holds(slot: usize) -> u32 {
    HOLDS.with(|holds| holds[slot].get().max(0) as u32)
}

impl<'g> Held<'g> {
    #[inline]
    fn new(tenant: &'g Tenant, page: Page<'g>, latch: Latch<&'g PageWord>) -> Self {
        let pool = &*page.file().pool;
        Self { bytes: pool.arena.frame(latch.frame()), page, tenant, latch, _hold: Hold::new(pool, page) }
    }

    fn frame(&self) -> &'g Frame {
        self.page.file().pool.frames.get(self.latch.frame())
    }

    fn pin(&self) -> Pin<'g> {
        // The word behind the latch is the page's, whose chunk lives as long as the file that the guard borrows.
        let file = self.page.file();
        let word = file.shared.table.get(self.page.number()).expect("a latched page has a word");
        Pin::new(self.tenant, self.page, word, self.frame())
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: the latch keeps the page in the frame and writers away; a writer's own `&mut` borrows this value.
        unsafe { self.bytes.as_ref() }
    }
}

impl<'g> ReadGuard<'g> {
    #[inline]
    pub(crate) fn new(tenant: &'g Tenant, page: Page<'g>, latch: Latch<&'g PageWord>) -> Self {
        Self { held: Held::new(tenant, page, latch) }
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'g> {
        self.held.page
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        self.held.pin()
    }
}

impl Deref for ReadGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.bytes()
    }
}

impl fmt::Debug for ReadGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadGuard({:?})", self.page())
    }
}

impl<'g> WriteGuard<'g> {
    #[inline]
    pub(crate) fn new(tenant: &'g Tenant, page: Page<'g>, latch: Latch<&'g PageWord>) -> Self {
        let held = Held::new(tenant, page, latch);
        let pool = &*page.file().pool;
        let granted_lsn = if pool.log.is_some() { pool.note_grant(held.frame()) } else { 0 };
        Self { held, written: false, granted_lsn }
    }

    /// The page.
    #[inline]
    pub fn page(&self) -> Page<'g> {
        self.held.page
    }

    /// Notes the log sequence number of the last change. The page is not written to its file before the log is durable up
    /// to it. A number below an earlier one changes nothing.
    pub fn set_lsn(&mut self, lsn: u64) {
        self.mark_dirty();
        self.held.frame().raise_page_lsn(lsn);
    }

    /// A pin on the page, which outlives the guard. Not an access of its own.
    pub fn pin(&self) -> Pin<'g> {
        self.held.pin()
    }

    /// Turns exclusive into shared access without letting go.
    pub fn downgrade(self) -> ReadGuard<'g> {
        let Held { bytes, page, tenant, latch, _hold } = self.held;
        ReadGuard { held: Held { bytes, page, tenant, latch: latch.downgrade(), _hold } }
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
        self.held.latch.set_changed();
        self.held.page.file().pool.mark_dirty(self.held.frame(), self.granted_lsn);
    }
}

impl Deref for WriteGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.held.bytes()
    }
}

impl DerefMut for WriteGuard<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.mark_dirty();
        // SAFETY: the latch is exclusive and keeps the page in the frame; the guard is borrowed exclusively, so
        // nobody reads the bytes through it meanwhile.
        unsafe { self.held.bytes.as_mut() }
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
        Self { page, tenant, word, frame, hold: Hold::new(&page.file().pool, page) }
    }

    /// The page.
    pub fn page(&self) -> Page<'g> {
        self.page
    }

    /// Shared access to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::LatchTimeout`](crate::ErrorKind::LatchTimeout),
    /// [`ErrorKind::SelfDeadlock`](crate::ErrorKind::SelfDeadlock).
    #[track_caller]
    pub fn read(&self) -> Result<ReadGuard<'_>> {
        let latch = self.latch(Purpose::Read, SiteRef::caller())?;
        Ok(ReadGuard::new(self.tenant, self.page, latch))
    }

    /// Exclusive access to the pinned page; an access, always a hit.
    ///
    /// # Errors
    ///
    /// As [`Pin::read`]; [`ErrorKind::ReadOnly`](crate::ErrorKind::ReadOnly) and
    /// [`ErrorKind::FilePoisoned`](crate::ErrorKind::FilePoisoned) if the file takes no writes.
    #[track_caller]
    pub fn write(&self) -> Result<WriteGuard<'_>> {
        let latch = self.latch(Purpose::Write, SiteRef::caller())?;
        Ok(WriteGuard::new(self.tenant, self.page, latch))
    }

    fn latch(&self, purpose: Purpose, site: SiteRef) -> Result<Latch<&'g PageWord>> {
        let pool = &*self.page.file().pool;
        let latch = pool.latch_pinned(self.page, self.word, purpose, Limit::Default)?;
        pool.note_hit(self.page.id(), latch.frame(), self.tenant.tenant_id(), site, false);
        Ok(latch)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.frame.unpin();
        self.hold.pool.frame_may_be_free();
    }
}

impl fmt::Debug for Pin<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pin({:?})", self.page)
    }
}
