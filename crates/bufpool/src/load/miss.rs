//! A page that is not in memory: a frame is found, its victim leaves, the page comes in.
//!
//! The calling thread has won the right to load the page (its word says *loading*), and others wait for it. Then:
//!
//! 1. *Under the policy lock*: the thread's own hits are applied, and the directory names a frame. If that holds a
//!    page, the page's word is now held exclusively; it is *departing*.
//! 2. A clean victim is simply gone. The frame of a dirty one is exchanged for one of the clean reserve, where the page comes in; the
//!    victim stays where it is, its word stays held, and the background writer writes it from there; so the miss does not wait for a
//!    write, and nobody reads the victim from the file before it is there. Without a free reserve frame the thread waits for one in
//!    flight, or helps to empty the reserve ([`write_back`](crate::write::writer)), and if that does not help, and in deterministic mode,
//!    where there is no reserve, it writes the victim itself and waits. If that fails, the victim is put back, its file is poisoned, and
//!    another victim is looked for: nothing is lost. Only if there is none the miss returns the error.
//! 3. The page is read straight into the frame (unless it is created), and published with the latch that was asked for.
//!
//! No lock is held during I/O. A victim whose write by the background writer fails stays readable in its frame, outside the
//! directory and lost to the reserve, until its file is reopened or closed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bufpool_policies::{PageId, TenantId};

use crate::error::{Error, ErrorKind, Result};
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::load::prefetch::Prefetch;
use crate::load::verify::PageRead;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Latch, Loading};
use crate::page::readers::{self, Stuck};
use crate::page::word::PageWord;
use crate::policy::lock::{Admitted, PolicyState, Victim};
use crate::state::departures::Departure;
use crate::state::shared::PoolShared;
use crate::state::waiting::Purpose;
use crate::sync::deadline_after;
use crate::thread::site::SiteRef;
use crate::write::borrowed::Borrowing;
use crate::write::page_out::PageOut;
use crate::write::writer::Victims;

/// Looks for a frame while others may let one go; a signal ends the wait earlier.
const FRAME_POLL: Duration = Duration::from_millis(1);

/// Brings absent pages in.
#[derive(Clone, Copy)]
pub(crate) struct Miss<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Miss<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Brings `page`, which [may be loaded](crate::files::shared::FileShared::check_loadable), in for `tenant` and latches it. A wait for a frame ends at the deadline, if there is one, with an error that the
    /// caller turns into "none".
    pub(crate) fn bring_in<'g>(
        self,
        tenant: &Tenant,
        page: Page<'g>,
        loading: Loading<&'g PageWord>,
        purpose: Purpose,
        site: SiteRef,
        frame_deadline: Option<Instant>,
    ) -> Result<Latch<&'g PageWord>> {
        let operation = purpose.operation();
        let file = &page.file().shared;
        let Found { mut lease, is_loaded } = self.find_frame(tenant, page, purpose, site, frame_deadline)?;
        Prefetch::of(self.pool).carry_out_plans_now();
        if purpose != Purpose::Create {
            let read = PageRead::of(self.pool).read_verified(
                file,
                page.number(),
                &mut lease,
                tenant.tenant_id(),
                operation,
            );
            if let Err(error) = read {
                self.give_up_frame(lease, tenant.tenant_id(), site);
                return Err(error);
            }
        } else {
            self.pool.counters.creations.fetch_add(1, Ordering::Relaxed);
        }
        self.pool.frames.get(lease.frame()).occupy(page.id());
        if !is_loaded {
            self.pool.policy.lock().directory.loaded(lease.frame());
        }
        Ok(loading.publish(lease, purpose.want()))
    }

    /// Asks for a frame for each of `pages`, all to be read, under one hold of the policy lock. The answers are for the
    /// first pages of the list; the rest found every frame busy, or the tenant closed.
    pub(crate) fn admit_all(
        self,
        tenant: &Tenant,
        pages: impl ExactSizeIterator<Item = PageId> + Clone,
        site: SiteRef,
    ) -> Vec<Admitted> {
        let has_neighbours = pages.clone().zip(pages.clone().skip(1)).any(|(a, b)| b.0 == a.0 + 1);
        let rules = self.pool.claim_rules();
        let Ok(mut policy) = tenant.lock_policy(Purpose::Read.operation()) else { return Vec::new() };
        self.pool.drain_own_log_into(&mut policy);
        policy.touch_upcoming(pages.len(), &self.pool.frames);
        let admit = |page| policy.admit(page, tenant.tenant_id(), site, false, &rules);
        let mut admitted: Vec<Admitted> = pages.map_while(admit).collect();
        if has_neighbours {
            policy.line_up(&mut admitted);
        }
        Prefetch::of(self.pool).note_plans(&policy);
        admitted
    }

    /// Empties the frame of an answer. If that is not possible, without waiting for the log (none) or at all, the access was none. The wait
    /// for a frame of the reserve ends at the deadline, if there is one.
    ///
    /// After a failure, which is the affair of the victim's file, the next question passes that file's dirty pages over.
    pub(crate) fn vacate(
        self,
        admitted: Admitted,
        tenant: TenantId,
        site: SiteRef,
        deadline: Option<Instant>,
    ) -> Result<Option<FrameLease>> {
        let vacated = self.empty(admitted, tenant, deadline);
        if !matches!(vacated, Ok(Some(_))) {
            self.pool.policy.lock().take_back_miss(tenant, site);
        }
        vacated
    }

    /// As [`vacate`](Self::vacate), for a frame that no access asked for.
    pub(crate) fn empty(
        self,
        admitted: Admitted,
        tenant: TenantId,
        deadline: Option<Instant>,
    ) -> Result<Option<FrameLease>> {
        let lease = match admitted {
            Admitted::Free(lease) => lease,
            Admitted::Evict(mut victim) => {
                if victim.spare.is_none() && self.pool.frames.get(victim.latch.frame()).is_dirty() {
                    victim.spare = Victims::of(self.pool).wait_for_reserve(Some(tenant), deadline);
                    if let Some(spare) = &victim.spare {
                        self.pool.policy.lock().relocate(victim.latch.frame(), spare.frame());
                    }
                }
                match self.evict(victim, tenant)? {
                    Some(lease) => lease,
                    None => return Ok(None),
                }
            }
        };
        if self.pool.frames.get(lease.frame()).may_have_readers() {
            return self.wait_for_readers(lease, tenant).map(Some);
        }
        Ok(Some(lease))
    }

    /// Waits until nobody reads without a latch what the frame held; if that takes too long the frame is free, for later.
    #[cold]
    fn wait_for_readers(self, lease: FrameLease, tenant: TenantId) -> Result<FrameLease> {
        let stuck = match readers::wait_for_all(self.pool.latch_wait) {
            Ok(()) => {
                self.pool.frames.get(lease.frame()).readers_left();
                return Ok(lease);
            }
            Err(stuck) => stuck,
        };
        let mut policy = self.pool.policy.lock();
        policy.directory.failed(lease.frame(), tenant);
        policy.free.put(lease);
        drop(policy);
        self.pool.frame_may_be_free();
        let operation = "bring page in";
        Err(match stuck {
            Stuck::Own => Error::new(
                ErrorKind::SelfDeadlock,
                operation,
                "the frame was read by optimistic reads of which the calling thread is within one, and would wait for itself",
            ),
            Stuck::TimedOut => Error::new(
                ErrorKind::LatchTimeout,
                operation,
                format!(
                    "an optimistic read of another thread, whose page has left, lasted for longer than latch_wait_ms = {}",
                    self.pool.latch_wait.as_millis()
                ),
            ),
        })
    }

    /// The page does not come in: its frame is free.
    pub(crate) fn give_up_frame(self, lease: FrameLease, tenant: TenantId, site: SiteRef) {
        let mut policy = self.pool.policy.lock();
        policy.take_back_miss(tenant, site);
        policy.directory.failed(lease.frame(), tenant);
        policy.free.put(lease);
        drop(policy);
        self.pool.frame_may_be_free();
    }

    /// An empty frame for `page`, which the directory takes to be on its way, or there already.
    fn find_frame(
        self,
        tenant: &Tenant,
        page: Page<'_>,
        purpose: Purpose,
        site: SiteRef,
        deadline: Option<Instant>,
    ) -> Result<Found> {
        let mut wait = FrameWait { deadline, until: None, is_hopeless: false };
        // Why a victim could not be written: that is its file's affair, unless no other frame can be had.
        let mut failure = None;
        loop {
            let rules = self.pool.claim_rules();
            let (admitted, is_loaded) = {
                let mut policy = tenant.lock_policy(purpose.operation())?;
                self.pool.drain_own_log_into(&mut policy);
                let creation = purpose == Purpose::Create;
                let admitted = policy.admit(page.id(), tenant.tenant_id(), site, creation, &rules);
                Prefetch::of(self.pool).note_plans(&policy);
                // Nothing is read, and nothing can go wrong from here on: the page is as good as there. Nobody takes it away before it is,
                // because its word says that it is loading.
                let settled =
                    admitted.as_ref().filter(|admitted| creation && admitted.is_settled(&self.pool.frames));
                settled.inspect(|admitted| policy.directory.loaded(admitted.frame()));
                let is_loaded = settled.is_some();
                (admitted, is_loaded)
            };
            match admitted.map(|admitted| self.vacate(admitted, tenant.tenant_id(), site, deadline)) {
                Some(Ok(Some(lease))) => return Ok(Found { lease, is_loaded }),
                // Readers in the way are nobody's failure, and another frame may have them too.
                Some(Err(error))
                    if matches!(error.kind(), ErrorKind::SelfDeadlock | ErrorKind::LatchTimeout) =>
                {
                    return Err(error.in_file(page.file().name()).at_page(page.number()));
                }
                Some(Err(error)) => {
                    failure.get_or_insert(error);
                    continue;
                }
                Some(Ok(None)) | None => {}
            }
            let waited = self.wait_for_frame(page, &mut wait, purpose.operation());
            waited.map_err(|error| failure.take().unwrap_or(error))?;
        }
    }

    /// Makes the victim leave: its frame, or the one that it was exchanged for. None if the victim had to be put back: its log records are
    /// not durable yet, and the reserve frame that it could have been exchanged for went to somebody else.
    fn evict(self, victim: Victim, tenant: TenantId) -> Result<Option<FrameLease>> {
        let Victim { latch, page, owner, spare } = victim;
        if let Some(spare) = spare {
            let (departing, lease) = latch.depart();
            self.pool.write_back.enqueue(Departure { departing, lease });
            return Ok(Some(spare));
        }
        let victim = Victim { latch, page, owner, spare: None };
        let frame = self.pool.frames.get(victim.latch.frame());
        if !frame.is_dirty() {
            frame.vacate(victim.latch.word().file().optimistic);
            let (departing, lease) = victim.latch.depart();
            departing.finish();
            return Ok(Some(lease));
        }
        if frame.page_lsn() > self.pool.log.durable() {
            self.put_back(victim, tenant);
            return Ok(None);
        }
        self.depart_by_write(victim, tenant).map(Some)
    }

    /// As [`vacate`](Self::vacate), without waiting for a write: for a victim that is clean, or exchanged. None, and the access was none, if
    /// the frame of the reserve that it could have been exchanged for went to somebody else meanwhile.
    pub(crate) fn vacate_by_exchange(
        self,
        admitted: Admitted,
        tenant: TenantId,
        site: SiteRef,
    ) -> Option<FrameLease> {
        match admitted {
            Admitted::Evict(victim)
                if victim.spare.is_none() && self.pool.frames.get(victim.latch.frame()).is_dirty() =>
            {
                self.put_back(victim, tenant);
                self.pool.policy.lock().take_back_miss(tenant, site);
                None
            }
            // Nothing to write, so nothing can fail.
            settled => self.vacate(settled, tenant, site, None).ok().flatten(),
        }
    }

    /// The error of an access that has waited for a frame long enough.
    pub(crate) fn frames_exhausted(self, page: Page<'_>, operation: &'static str) -> Error {
        let durable_lsn = self.pool.log.durable();
        let mut census = Census::take(self.pool, &self.pool.policy.lock(), durable_lsn);
        // The thread that asks is not the one that holds.
        census.others_may_let_go = true;
        let error = Error::new(ErrorKind::Exhausted, operation, census.message(self.pool.frame_wait));
        error.in_file(page.file().name()).at_page(page.number())
    }

    fn put_back(self, victim: Victim, tenant: TenantId) {
        let Victim { latch, page, owner, .. } = victim;
        self.pool.policy.lock().directory.restore(latch.frame(), page, page.file(), owner, tenant);
    }

    /// The calling thread writes the dirty victim and waits.
    fn depart_by_write(self, victim: Victim, tenant: TenantId) -> Result<FrameLease> {
        let Victim { latch, page, owner, .. } = victim;
        let file = Arc::clone(latch.word().file());
        let frame = self.pool.frames.get(latch.frame());
        let (departing, lease) = latch.depart();
        match PageOut::of(self.pool).write_page((&file, page.number(), &lease)) {
            Ok(()) => {
                self.pool.counters.miss_writes.fetch_add(1, Ordering::Relaxed);
                self.pool.mark_clean(frame, frame.mark());
                frame.vacate(file.optimistic);
                departing.finish();
                Ok(lease)
            }
            Err(error) => {
                self.pool.policy.lock().directory.restore(lease.frame(), page, page.file(), owner, tenant);
                departing.restore(lease);
                Err(error)
            }
        }
    }

    /// Evicts what a tenant has above its cap.
    pub(crate) fn shrink_to_cap(self, tenant: TenantId) -> Result<()> {
        loop {
            let rules = self.pool.claim_rules();
            let victim = {
                let mut policy = self.pool.policy.lock();
                self.pool.drain_logs(&mut policy);
                policy.shrink(tenant, &rules)
            };
            let Some(mut victim) = victim else { return Ok(()) };
            if victim.spare.is_none() && self.pool.frames.get(victim.latch.frame()).is_dirty() {
                victim.spare = Victims::of(self.pool).wait_for_reserve(None, None);
            }
            // A page that cannot be written yet stays for now.
            let Some(lease) = self.evict(victim, tenant)? else { return Ok(()) };
            let mut policy = self.pool.policy.lock();
            policy.directory.release(lease.frame());
            policy.free.put(lease);
        }
    }

    /// Every frame that the tenant may take is busy: waits until that may have changed.
    #[cold]
    fn wait_for_frame(self, page: Page<'_>, wait: &mut FrameWait, operation: &'static str) -> Result<()> {
        let now = Instant::now();
        let is_first = wait.until.is_none();
        let default = || deadline_after(self.pool.frame_wait);
        let until = *wait.until.get_or_insert_with(|| wait.deadline.unwrap_or_else(default));
        // However often others take what was repaid, the wait ends.
        let may_retry = is_first || now < until;
        if may_retry && self.pool.reserve.borrowed() > 0 && Borrowing::of(self.pool).repay_frames(0) {
            return Ok(());
        }
        // Pages may wait for nothing but the log.
        self.pool.write_back.kick();
        // Counting takes a look at each frame, so not every time.
        if is_first || wait.is_hopeless || now >= until {
            let durable_lsn = self.pool.log.durable();
            let census = Census::take(self.pool, &self.pool.policy.lock(), durable_lsn);
            let error = |kind, message| {
                Err(Error::new(kind, operation, message).in_file(page.file().name()).at_page(page.number()))
            };
            match census.others_may_let_go {
                false if !std::mem::replace(&mut wait.is_hopeless, true) => return Ok(()),
                false => return error(ErrorKind::Exhausted, census.message(self.pool.frame_wait)),
                true if now < until => wait.is_hopeless = false,
                // Never seen: the caller turns it into "none".
                true if wait.deadline.is_some() => return error(ErrorKind::LatchTimeout, String::new()),
                true => return error(ErrorKind::Exhausted, census.message(self.pool.frame_wait)),
            }
        }
        let mut guard = self.pool.frame_lock.lock();
        self.pool.frame_waiters.fetch_add(1, Ordering::Relaxed);
        self.pool.frame_freed.wait_until(&mut guard, until.min(now + FRAME_POLL));
        self.pool.frame_waiters.fetch_sub(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A frame for a page that comes in.
struct Found {
    lease: FrameLease,
    /// The directory takes the page to be there already.
    is_loaded: bool,
}

/// A miss that waits for a frame.
struct FrameWait {
    /// The caller's own limit.
    deadline: Option<Instant>,
    /// When it ends; known from the first wait on.
    until: Option<Instant>,
    /// The last count found nobody to wait for. A frame that was busy when it was asked for, as while it is written, may have come
    /// free before the count, so one more question decides.
    is_hopeless: bool,
}

/// Who holds the frames, counted when there is none left.
struct Census {
    /// Guards and pins on pages of each tenant that has any.
    holds: Vec<(String, u32)>,
    /// Frames on their way in or out.
    in_flight: u32,
    /// Dirty pages of poisoned files.
    poisoned: u32,
    /// Dirty pages whose log records are not durable.
    unlogged: u32,
    /// Somebody other than the caller holds a frame, so waiting may help.
    others_may_let_go: bool,
}

impl Census {
    fn take(pool: &PoolShared, policy: &PolicyState, durable_lsn: u64) -> Self {
        let mut by_tenant = vec![0_u32; policy.tenants.len()];
        let mut census =
            Self { holds: Vec::new(), in_flight: 0, poisoned: 0, unlogged: 0, others_may_let_go: false };
        // Of the frames that policies fill, those that are neither free nor hold a page are on their way.
        census.in_flight = policy.directory.frames();
        if !pool.write_back.is_leaving() {
            // What is free of the borrowed ones was repaid before the count, or is by the next look; the others are stuck with pages
            // that cannot be written.
            census.in_flight -= pool.reserve.borrowed() as u32;
        }
        for (frame, entry) in pool.frames.iter() {
            let is_free = policy.free.has(frame);
            let (page, owner) = (entry.page(), policy.directory.owner(frame));
            census.in_flight -= u32::from(is_free || page.is_some() && owner.is_some());
            let (Some(page), Some(owner)) = (page, owner) else { continue };
            let Some(file) = policy.file(page.file()) else { continue };
            let holders = file.table.get(page.number()).map_or(0, |word| word.state().holders());
            by_tenant[owner.index()] += holders + entry.pins();
            census.in_flight += u32::from(entry.is_writing());
            census.poisoned += u32::from(entry.is_dirty() && file.is_poisoned());
            census.unlogged += u32::from(entry.is_dirty() && entry.page_lsn() > durable_lsn);
        }
        let holds: u32 = by_tenant.iter().sum();
        // Without holds and poisoned pages there is nobody to wait for, and no reason not to look again.
        census.others_may_let_go = census.in_flight > 0
            || census.unlogged > 0
            || holds > pool.hot.tag.holds_slot().own_holds()
            || holds == 0 && census.poisoned == 0;
        let named = policy.tenants.iter().map(|entry| entry.name.to_string()).zip(by_tenant);
        census.holds = named.filter(|(_, holds)| *holds > 0).collect();
        census
    }

    fn message(&self, frame_wait: Duration) -> String {
        let mut message = String::from("every frame that could be taken is in use: ");
        for (tenant, holds) in &self.holds {
            message += &format!("{holds} guards and pins on pages of tenant {tenant}, ");
        }
        message += &format!(
            "{} frames in flight, {} dirty pages of poisoned files, {} dirty pages ahead of the durable log; ",
            self.in_flight, self.poisoned, self.unlogged
        );
        message += &match (self.others_may_let_go, self.poisoned) {
            (true, _) => format!("none came free within frame_wait_ms = {}", frame_wait.as_millis()),
            (false, 0) => "the calling thread holds them all itself, so waiting would not help".into(),
            (false, _) => "nobody but the calling thread holds any, so waiting would not help: reopen the poisoned files".into(),
        };
        message
    }
}
