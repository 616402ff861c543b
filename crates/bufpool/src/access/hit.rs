//! From a page's name to a latch on it: the path of every access.
//!
//! A hit is one comparison with a constant and an address in the file's handle to find the page word, one
//! compare-and-swap to latch it, and one entry in the thread's access log, or where the filter skips it one
//! count in a line that only the thread writes. Everything else is in functions of their own. What the
//! compiler makes of it is in [`docs::performance`](crate::docs::performance).

use bufpool_policies::FrameId;

use crate::access::hit_log::HitLog;
use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::hits::fast_path::PoolTag;
use crate::hits::filter::Marked;
use crate::hits::log;
use crate::load::miss::Miss;
use crate::load::page_load::{Charge, Load};
use crate::page::latch::{Acquired, Exclusive, Latch, Mode, Refusal, SharedLatch, acquire, acquire_resident};
use crate::page::table::NoWord;
use crate::page::word::PageWord;
use crate::state::shared::PoolShared;
use crate::state::waiting::{Limit, Purpose, Refused, Waits};
use crate::thread::context::ScopeId;
use crate::thread::keys::SiteHash;
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
pub(crate) struct TenantAccess<'g> {
    pub tenant: &'g Tenant,
}

impl<'g> TenantAccess<'g> {
    /// Of this tenant.
    #[inline(always)]
    pub fn of(tenant: &'g Tenant) -> Self {
        Self { tenant }
    }

    /// An exclusive latch: at once on a resident page that is free, else after a wait or a load.
    #[inline]
    pub(crate) fn latch(
        self,
        page: Page<'g>,
        purpose: Purpose,
        origin: Origin,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord, Exclusive>> {
        let file = page.file();
        if let Some(pages) = file.hot.pages(self.tenant.open_in())
            && file.shared.takes_writes()
            && let Some(word) = pages.word_or_far(page.number(), &page.file().shared.table)
            && let Ok(latch) = Latch::try_new(word)
        {
            let creates = purpose.creates();
            self.note_hit(pages.tag, page, self.marked(latch.frame()), origin, creates);
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
    ) -> Granted<Latch<&'g PageWord, Exclusive>> {
        self.latch_or_load(page, purpose, self.called(site), limit)
    }

    /// `site`, with the calls above it if the tenant wants them; see
    /// [`of_caller`](crate::thread::stack::StackContexts::of_caller), also for who may call this.
    #[inline(always)]
    pub(super) fn called(self, site: SiteRef) -> SiteRef {
        self.tenant.shared.stacks.map_or(site, |stacks| stacks.of_caller(site))
    }

    /// Waits, loads, or finds out what is wrong.
    pub(super) fn latch_or_load<M: Mode>(
        self,
        page: Page<'g>,
        purpose: Purpose,
        site: SiteRef,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord, M>> {
        self.latch_or_load_within(page, purpose, site, Waits::begin(&self.tenant.pool, limit))
    }

    /// As [`latch_or_load`](Self::latch_or_load), with what is left of waits that may have begun before.
    pub(super) fn latch_or_load_within<M: Mode>(
        self,
        page: Page<'g>,
        purpose: Purpose,
        site: SiteRef,
        mut waits: Waits,
    ) -> Granted<Latch<&'g PageWord, M>> {
        let operation = purpose.operation();
        let pool = &*self.tenant.pool;
        loop {
            let word = self.checked_word(page, purpose, operation)?;
            if word.state().is_loading() {
                // The load may be the caller's own read-ahead, which it has caught up with. The caller's hits
                // are applied now, so that more can be planned.
                HitLog::of(pool).drain_last_log();
            }
            match acquire(word, &mut waits.latch) {
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
                    let creates = purpose.creates();
                    self.note_hit_at(pool.hot.tag, page, self.marked(latch.frame()), site, creates);
                    return Ok(latch);
                }
            }
        }
    }

    /// Latches a page that the caller has pinned.
    pub(crate) fn latch_pinned<M: Mode>(
        self,
        page: Page<'g>,
        word: &'g PageWord,
        purpose: Purpose,
        limit: Limit,
    ) -> Granted<Latch<&'g PageWord, M>> {
        let operation = purpose.operation();
        if purpose != Purpose::Read {
            page.file().shared.check_writable(operation).map_err(|error| page.named_in(error))?;
        }
        page.file().shared.check_whole(page.number(), operation)?;
        let pool = &*self.tenant.pool;
        let mut waits = Waits::begin(pool, limit);
        match acquire_resident(word, &mut waits.latch) {
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

impl<'g> TenantAccess<'g> {
    /// Notes a hit on a page that the tenant still holds, or has read without a latch.
    #[inline(always)]
    pub(crate) fn note_hit(
        self,
        tag: PoolTag,
        page: Page<'_>,
        frame: Marked<'_>,
        origin: Origin,
        creates: bool,
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
                (origin.class, creates),
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
        creates: bool,
    ) {
        if tag.notes_hits() {
            HitLog::of(&page.file().pool).note(page, frame.frame, self.tenant, (site, site), creates);
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
        word.map_err(|why| no_word(&self.tenant.pool, page, why, operation))
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

/// Why `page` has no word.
#[cold]
fn no_word(pool: &PoolShared, page: Page<'_>, why: NoWord, operation: &'static str) -> Error {
    let budget = &pool.page_table_budget;
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
