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

use crate::load::frame::FrameSearch;
use crate::load::frame::Seeker;
use crate::load::load::Load;
use crate::load::load::Loads;
use crate::load::verify::Attempt;
use crate::state::waiting::Refused;
use crate::state::waiting::Waits;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bufpool_policies::{PageId, TenantId};

use crate::error::Result;
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::load::prefetch::Prefetch;
use crate::load::verify::PageRead;
use crate::memory::lease::FrameLease;
use crate::page::latch::Latch;
use crate::page::readers;
use crate::page::word::PageWord;
use crate::policy::lock::{Admitted, Victim};
use crate::state::departures::Departure;
use crate::state::shared::PoolShared;
use crate::state::waiting::Purpose;
use crate::thread::site::SiteRef;
use crate::write::page_out::PageOut;
use crate::write::writer::Victims;

/// How a victim may be made to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptying {
    /// The caller writes it if it must, and waits for a frame of the reserve no longer than until the deadline, if there is one.
    Waiting(Option<Instant>),
    /// Only if it is clean, or there is a frame of the reserve to exchange its own for.
    AtOnce,
}

/// What came of emptying a frame.
pub(crate) enum Emptied {
    /// It is empty.
    Frame(FrameLease),
    /// Its page has left, but somebody may still read it without a latch.
    SetAside,
    /// The victim was put back: its log records are not durable yet, and the frame of the reserve that its own could have been exchanged
    /// for went to somebody else.
    PutBack,
}

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

    /// Brings the page in for `tenant` and latches it. The wait for a frame ends as `waits` say.
    pub(crate) fn bring_in<'g>(
        self,
        tenant: &Tenant,
        page: Page<'g>,
        load: Load<&'g PageWord>,
        purpose: Purpose,
        site: SiteRef,
        waits: &mut Waits,
    ) -> std::result::Result<Latch<&'g PageWord>, Refused> {
        let mut search = FrameSearch::new(tenant, page, purpose, site, Seeker::Thread);
        let mut found = loop {
            // The wait for a frame of the reserve counts against the caller's own limit.
            let reserve = waits.own_limit.then(|| waits.frame.deadline().unwrap_or_else(Instant::now));
            if let Some(found) = search.ask(Emptying::Waiting(reserve))? {
                break found;
            }
            search.wait(&mut waits.frame, waits.own_limit)?;
        };
        Prefetch::of(self.pool).carry_out_plans_now();
        if purpose == Purpose::Create {
            self.pool.counters.creations.fetch_add(1, Ordering::Relaxed);
        } else {
            let (file, tenant) = (&page.file().shared, tenant.tenant_id());
            let read = PageRead::of(self.pool);
            let outcome =
                read.read(file, page.number(), &mut found.lease, tenant, Attempt::First, purpose.operation());
            if let Err(error) = outcome {
                Loads::of(self.pool).abandon(load, found.lease);
                return Err(error.into());
            }
        }
        Ok(Loads::of(self.pool).complete(load, found, purpose.want()))
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

    /// Empties the frame of an answer. Unless that gives a frame, no access is counted.
    ///
    /// After a failure, which is the affair of the victim's file, the next question passes that file's dirty pages over.
    pub(crate) fn vacate(
        self,
        admitted: Admitted,
        tenant: TenantId,
        site: SiteRef,
        how: Emptying,
    ) -> Result<Emptied> {
        let vacated = self.empty(admitted, tenant, how);
        if !matches!(vacated, Ok(Emptied::Frame(_))) {
            self.pool.policy.lock().take_back_miss(tenant, site);
        }
        vacated
    }

    /// As [`vacate`](Self::vacate), for a frame that no access asked for.
    pub(crate) fn empty(self, admitted: Admitted, tenant: TenantId, how: Emptying) -> Result<Emptied> {
        let lease = match admitted {
            Admitted::Free(lease) => lease,
            Admitted::Evict(mut victim) => {
                if victim.spare.is_none() && self.pool.frames.get(victim.latch.frame()).is_dirty() {
                    let Emptying::Waiting(deadline) = how else {
                        self.put_back(victim, tenant);
                        return Ok(Emptied::PutBack);
                    };
                    victim.spare = Victims::of(self.pool).wait_for_reserve(Some(tenant), deadline);
                    if let Some(spare) = &victim.spare {
                        self.pool.policy.lock().relocate(victim.latch.frame(), spare.frame());
                    }
                }
                match self.evict(victim, tenant)? {
                    Some(lease) => lease,
                    None => return Ok(Emptied::PutBack),
                }
            }
        };
        let frame = self.pool.frames.get(lease.frame());
        if frame.may_have_readers() {
            let mut reads = readers::going_on();
            if !reads.are_over() {
                self.pool.policy.lock().directory.set_aside(lease.frame(), tenant);
                self.pool.aside.add(lease, reads);
                return Ok(Emptied::SetAside);
            }
            frame.readers_left();
        }
        Ok(Emptied::Frame(lease))
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
}
