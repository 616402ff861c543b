//! From a page's name to a latch on it: the path of every access.
//!
//! A hit is one comparison with a constant and an address in the file's handle to find the page word, one
//! compare-and-swap to latch it, and one entry in the thread's access log, or where the filter skips it one
//! count in a line that only the thread writes. Everything else is in functions of their own. What the
//! compiler makes of it is in [`docs::performance`](crate::docs::performance).

use std::ptr::NonNull;

use bufpool_policies::FrameId;

use crate::access::guard::{PassingGuard, Pin, ReadGuard, WriteGuard};
use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::PoolTag;
use crate::hits::filter::Marked;
use crate::hits::log::{self, existing_ring};
use crate::load::miss::Miss;
use crate::load::page_load::{Charge, Load};
use crate::load::prefetch::Prefetch;
use crate::page::latch::{Acquired, Latch, Refusal, SharedLatch, acquire, acquire_resident};
use crate::page::table::NoWord;
use crate::page::word::PageWord;
use crate::state::shared::PoolShared;
use crate::state::waiting::{Limit, Purpose, Refused, Waits};
use crate::thread::context::ScopeId;
use crate::thread::holds::HoldsSlot;
use crate::thread::keys::{KeyPlace, SiteHash, TenantTag};
use crate::thread::ring::{Hit, HitRing, Level};
use crate::thread::site::{CallPlace, Origin, PageClass, SiteRef};

/// What an access comes to, unless it is refused.
pub(crate) type Granted<T> = std::result::Result<T, Refused>;

/// Turns a wait that was too long into `None`, for the `try_` and `_timeout` forms.
pub(crate) fn or_none<G>(granted: Granted<G>) -> Result<Option<G>> {
    match granted {
        Ok(guard) => Ok(Some(guard)),
        Err(Refused::Busy) => Ok(None),
        Err(Refused::Failed(error)) => Err(error),
    }
}

/// A tenant's access to pages.
#[derive(Clone, Copy)]
pub(crate) struct Access<'g> {
    pub tenant: &'g Tenant,
}

impl<'g> Access<'g> {
    /// Of this tenant.
    #[inline(always)]
    pub fn of(tenant: &'g Tenant) -> Self {
        Self { tenant }
    }

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

    /// The latch that `purpose` wants: at once on a resident page that is free, else after a wait or a load.
    #[inline]
    pub(crate) fn latch(
        self,
        page: Page<'g>,
        purpose: Purpose,
        origin: Origin,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord>> {
        let file = page.file();
        if let Some(pages) = file.hot.pages(self.tenant.open_in())
            && file.shared.takes_writes()
            && let Some(word) = pages.word_or_far(page.number(), &page.file().shared.table)
            && let Ok(latch) = Latch::try_new(word, purpose.want())
        {
            let creation = purpose.is_creation();
            self.note_hit(pages.tag, page, self.marked(latch.frame()), origin, creation);
            return Ok(latch);
        }
        self.latch_slowly(page, purpose, origin.site(), limit)
    }

    /// As [`latch_slowly`](Self::latch_slowly), shared. The result fits in registers, which keeps the guard
    /// out of memory; for the same reason the site comes in parts.
    #[cold]
    #[inline(never)]
    pub(super) fn latch_shared_slowly(
        self,
        page: Page<'g>,
        place: CallPlace,
        scope: ScopeId,
        class: PageClass,
        limit: Limit,
    ) -> Granted<SharedLatch<'g>> {
        let site = SiteRef { place, scope, class };
        self.latch_or_load(page, Purpose::Read, self.called(site), limit).map(SharedLatch::from)
    }

    #[cold]
    #[inline(never)]
    fn latch_slowly(
        self,
        page: Page<'g>,
        purpose: Purpose,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord>> {
        self.latch_or_load(page, purpose, self.called(site), limit)
    }

    /// `site`, with the calls above it if the tenant wants them; see
    /// [`of_caller`](crate::thread::stack::StackContexts::of_caller), also for who may call this.
    #[inline(always)]
    pub(super) fn called(self, site: SiteRef) -> SiteRef {
        self.tenant.shared.stacks.map_or(site, |stacks| stacks.of_caller(site))
    }

    /// Waits, loads, or finds out what is wrong.
    pub(super) fn latch_or_load(
        self,
        page: Page<'g>,
        purpose: Purpose,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord>> {
        self.latch_or_load_within(page, purpose, site, Waits::begin(&self.tenant.pool, limit))
    }

    /// As [`latch_or_load`](Self::latch_or_load), with what is left of waits that may have begun before.
    pub(super) fn latch_or_load_within(
        self,
        page: Page<'g>,
        purpose: Purpose,
        site: SiteRef,
        mut waits: Waits,
    ) -> Granted<Latch<&'g PageWord>> {
        let operation = purpose.operation();
        let pool = &*self.tenant.pool;
        loop {
            let word = self.checked_word(page, purpose, operation)?;
            if word.state().is_loading()
                && let Some(ring) = existing_ring(pool.hot.serial)
            {
                // The load may be the caller's own read-ahead, which it has caught up with. The caller's hits
                // are applied now, so that more can be planned.
                HitLog::of(pool).drain_own_log(ring, Level::Half);
            }
            match acquire(word, purpose.want(), &mut waits.latch) {
                Err(refusal) => return Err(refused(pool, page, refusal, waits.own_limit, operation)),
                Ok((Acquired::Load(loading), _)) => {
                    let charge = Charge { tenant: self.tenant.tenant_id(), site };
                    match Load::begin(loading, page.id(), &page.file().shared, charge, operation)? {
                        Some(load) => {
                            let miss = Miss::of(pool);
                            return miss.bring_in(self.tenant, page, load, purpose, site, &mut waits);
                        }
                        None => wait_until_decided(page, &mut waits, operation)?,
                    }
                }
                Ok((Acquired::Latched(latch), waited)) => {
                    pool.count_waited(waited);
                    let creation = purpose.is_creation();
                    self.note_hit_at(pool.hot.tag, page, self.marked(latch.frame()), site, creation);
                    return Ok(latch);
                }
            }
        }
    }

    /// Latches a page that the caller has pinned.
    pub(crate) fn latch_pinned(
        self,
        page: Page<'g>,
        word: &'g PageWord,
        purpose: Purpose,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord>> {
        let operation = purpose.operation();
        if purpose != Purpose::Read {
            page.file().shared.check_writable(operation).map_err(|error| page.named_in(error))?;
        }
        page.file().shared.check_whole(page.number(), operation)?;
        let pool = &*self.tenant.pool;
        let mut waits = Waits::begin(pool, limit);
        match acquire_resident(word, purpose.want(), &mut waits.latch) {
            Ok(latch) => Ok(latch.expect("a pinned page stays resident")),
            Err(refusal) => Err(refused(pool, page, refusal, waits.own_limit, operation)),
        }
    }
}

/// Waits, as for a latch, until an operation that holds off the load of `page` is decided.
#[cold]
fn wait_until_decided(page: Page<'_>, waits: &mut Waits, operation: &'static str) -> Granted<()> {
    let gate = &page.file().shared.gate;
    match waits.latch.deadline() {
        Some(deadline) if gate.wait_until_decided(page.number(), deadline) => Ok(()),
        _ => Err(refused(&page.file().pool, page, Refusal::TimedOut, waits.own_limit, operation)),
    }
}

/// Why there is no latch on `page`. A caller with a limit of its own is told that the page is busy.
#[cold]
pub(crate) fn refused(
    pool: &PoolShared,
    page: Page<'_>,
    refusal: Refusal,
    own_limit: bool,
    operation: &'static str,
) -> Refused {
    let error = pool.latch_error(&page.file().shared, page.number(), refusal, operation);
    match error.kind() {
        ErrorKind::LatchTimeout if own_limit => Refused::Busy,
        _ => Refused::Failed(error),
    }
}

impl<'g> Access<'g> {
    /// Notes a hit on a page that the tenant still holds, or has read without a latch.
    #[inline(always)]
    pub(crate) fn note_hit(
        self,
        tag: PoolTag,
        page: Page<'_>,
        frame: Marked<'_>,
        origin: Origin,
        creation: bool,
    ) {
        if !tag.notes_hits() {
            return;
        }
        let tenant_tag = self.tenant.tag();
        if let Some(key) = log::last_keys().get(SiteHash::new(tenant_tag, origin.site()))
            && page.file().hot.filter.skips(frame, tenant_tag.watched)
        {
            if key.skip() {
                HitLog::of(&page.file().pool).drain_last_log();
            }
        } else {
            HitLog::of(&page.file().pool).note_slowly(
                page,
                frame.frame,
                self.tenant,
                origin.place,
                origin.scope,
                (origin.class, creation),
            );
        }
    }

    /// As [`note_hit`](Self::note_hit), for an access whose site has the calls above it already.
    pub(crate) fn note_hit_at(
        self,
        tag: PoolTag,
        page: Page<'_>,
        frame: Marked<'_>,
        site: SiteRef,
        creation: bool,
    ) {
        if tag.notes_hits() {
            HitLog::of(&page.file().pool).note(page, frame.frame, self.tenant, (site, site), creation);
        }
    }

    /// A frame of the tenant's pool, for [`note_hit`](Self::note_hit).
    #[inline]
    pub(crate) fn marked(self, frame: FrameId) -> Marked<'g> {
        self.tenant.pool.hot.filter.marked(frame)
    }

    /// The word of a page that the tenant may access like this.
    pub(crate) fn checked_word(
        self,
        page: Page<'g>,
        purpose: Purpose,
        operation: &'static str,
    ) -> Result<&'g PageWord> {
        self.check_access(page, purpose, operation).map_err(|error| page.named_in(error))?;
        let budget = &self.tenant.pool.page_table_budget;
        let word = page.file().shared.table.get_or_allocate(page.number(), budget);
        word.map_err(|why| HitLog::of(&self.tenant.pool).no_word(page, why, operation))
    }

    fn check_access(self, page: Page<'_>, purpose: Purpose, operation: &'static str) -> Result<()> {
        let file = page.file();
        self.tenant.check_open(operation)?;
        self.tenant.check_file(file, operation)?;
        file.shared.check_open(operation)?;
        if purpose != Purpose::Read {
            file.shared.check_writable(operation)?;
        }
        file.shared.check_page(page.number(), operation)?;
        file.shared.check_whole(page.number(), operation)
    }
}

/// Notes hits, and drains the calling thread's log.
#[derive(Clone, Copy)]
pub(crate) struct HitLog<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> HitLog<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// A hit that gets an entry, or whose key or ring has yet to be found.
    #[inline(never)]
    fn note_slowly(
        self,
        page: Page<'_>,
        frame: FrameId,
        tenant: &Tenant,
        place: CallPlace,
        scope: Option<ScopeId>,
        (class, creation): (PageClass, bool),
    ) {
        // The origin comes in its parts, which are in registers, as the caller has them.
        let site = Origin::new(place, scope, class).site();
        let stacks = tenant.shared.stacks.filter(|stacks| stacks.samples(page.id()));
        let called = stacks.map_or(site, |stacks| stacks.of_caller(site));
        self.note(page, frame, tenant, (site, called), creation);
    }

    /// Notes a hit from the site `noted`, or counts it for the site `counted`, which leaves out the call
    /// stack, if it need not be noted. In deterministic mode the hit is applied at once.
    // Always inlined, so that the sites stay in registers.
    #[inline(always)]
    fn note(
        self,
        page: Page<'_>,
        frame: FrameId,
        tenant: &Tenant,
        (counted, noted): (SiteRef, SiteRef),
        creation: bool,
    ) {
        if self.pool.owner.is_called_back() {
            return;
        }
        let tenant_tag = tenant.tag();
        let hit = || Hit { page: page.id(), frame, tenant: tenant_tag.tenant, site: noted, creation };
        if self.pool.is_immediate {
            return self.apply_at_once(&hit());
        }
        let ring = existing_ring(self.pool.hot.serial).or_else(|| self.own_ring());
        let Some(ring) = ring else { return self.apply_at_once(&hit()) };
        if self.pool.hot.filter.skips(self.pool.hot.filter.marked(frame), tenant_tag.watched) {
            if ring.skip(self.find_key(ring, tenant_tag, counted)) {
                self.drain_own_log(ring, Level::Half);
            }
            return;
        }
        let level = ring.push(page.id(), frame, self.find_key(ring, tenant_tag, noted), creation);
        if level != Level::Low {
            self.drain_own_log(ring, level);
        }
    }

    /// The calling thread's ring; none if the thread is ending.
    #[cold]
    fn own_ring(self) -> Option<&'static HitRing> {
        self.pool.take_back_logs(&mut self.pool.policy.lock());
        log::ring(self.pool.hot.serial, |ring| self.pool.logs.lock().add(ring))
    }

    fn find_key(self, ring: &HitRing, tenant_tag: &TenantTag, site: SiteRef) -> KeyPlace {
        let who = SiteHash::new(tenant_tag, site);
        ring.find_key(who, tenant_tag.tenant, site).unwrap_or_else(|| {
            let mut policy = self.pool.policy.lock();
            policy.apply(ring);
            ring.clear_keys();
            drop(policy);
            ring.find_key(who, tenant_tag.tenant, site).expect("a table without keys has room")
        })
    }

    /// Drains the log of the calling thread, if the lock is free.
    #[cold]
    fn drain_last_log(self) {
        if let Some(ring) = existing_ring(self.pool.hot.serial) {
            self.drain_own_log(ring, Level::Half);
        }
    }

    #[cold]
    fn apply_at_once(self, hit: &Hit) {
        self.pool.policy.lock().hit(hit);
    }

    #[cold]
    fn drain_own_log(self, ring: &HitRing, level: Level) {
        let policy =
            if level == Level::Full { Some(self.pool.policy.lock()) } else { self.pool.policy.try_lock() };
        if let Some(mut policy) = policy {
            policy.apply(ring);
            self.pool.note_plans(&mut policy);
            drop(policy);
            Prefetch::of(self.pool).carry_out_plans();
        }
    }

    #[cold]
    fn no_word(self, page: Page<'_>, why: NoWord, operation: &'static str) -> Error {
        let budget = &self.pool.page_table_budget;
        let message = match why {
            NoWord::Closed => return page.named_in(page.file().shared.closed_error(operation)),
            NoWord::Budget => format!(
                "page tables take {} bytes, expected no more than page_tables_bytes_max = {}",
                budget.bytes(),
                budget.bytes_max()
            ),
            NoWord::Memory { bytes } => format!(
                "the page table needs {bytes} bytes more, expected the system to have them and a limit on the process's addresses \
                 (RLIMIT_AS) to leave a sixteenth of itself besides"
            ),
        };
        page.named_in(Error::new(ErrorKind::FileLength, operation, message))
    }
}
