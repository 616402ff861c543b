//! A victim leaves, and its frame is there for the page that comes in.
//!
//! A clean victim is simply gone. The frame of a dirty one is exchanged for one of the clean reserve, and the
//! background writer writes it from where it is; without one the thread that misses helps to empty the
//! reserve ([`victims`](super::victims)), and if that does not help, or in deterministic mode, where there is
//! no reserve, it writes the victim itself and waits. If that fails, the victim is put back, and its file is
//! poisoned.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bufpool_policies::TenantId;

use crate::error::Result;
use crate::files::word::OwnedWord;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Exclusive, Latch};
use crate::page::readers;
use crate::policy::claims::{Admitted, Dirty, Victim};
use crate::state::departing::{Departing, Reason};
use crate::state::shared::PoolShared;
use crate::thread::site::SiteRef;
use crate::write::page_out::PageOut;
use crate::write::victims::Victims;

/// How a victim may be made to leave.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Emptying {
    /// The caller writes it if it must, and waits for a frame of the reserve no longer than until the
    /// deadline, if there is one.
    Waiting(Option<Instant>),
    /// Only if it is clean, or there is a frame of the reserve to exchange its own for.
    AtOnce,
}

impl Emptying {
    /// Which dirty victims may be claimed.
    pub fn dirty(self) -> Dirty {
        match self {
            Self::Waiting(_) => Dirty::Written,
            Self::AtOnce => Dirty::Exchanged,
        }
    }
}

/// What came of emptying a frame.
pub(crate) enum Emptied {
    /// It is empty.
    Frame(FrameLease),
    /// Its page has left, but somebody may still read it without a latch.
    SetAside,
    /// The victim was put back: its log records are not durable yet, and the frame of the reserve that its
    /// own could have been exchanged for went to another thread.
    PutBack,
}

/// Makes victims leave.
#[derive(Clone, Copy)]
pub(crate) struct Eviction<'p> {
    pool: &'p PoolShared,
}

impl<'p> Eviction<'p> {
    /// Of this pool.
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Empties the frame that the directory named for an access (`creates`: it makes its page). If
    /// that gives no frame, the miss that was counted is taken back.
    ///
    /// A failed write poisons the victim's file, so the next question passes over that file's dirty pages.
    pub(crate) fn vacate(
        self,
        admitted: Admitted,
        tenant: TenantId,
        site: SiteRef,
        creates: bool,
        how: Emptying,
    ) -> Result<Emptied> {
        let vacated = self.empty(admitted, tenant, how);
        if !matches!(vacated, Ok(Emptied::Frame(_))) {
            self.pool.policy.lock().take_back_miss(tenant, site, creates);
        }
        vacated
    }

    /// As [`vacate`](Self::vacate), for a frame that no access asked for.
    pub(crate) fn empty(self, admitted: Admitted, tenant: TenantId, how: Emptying) -> Result<Emptied> {
        let lease = match admitted {
            Admitted::Free(lease) => lease,
            Admitted::Evict(Victim { latch, spare: None, .. }) if !self.is_dirty(&latch) => {
                self.evict_clean(latch)
            }
            Admitted::Evict(mut victim) => {
                if victim.spare.is_none() {
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

    /// Makes the victim leave. Returns its frame, or the one that it was exchanged for. None if the victim
    /// had to be put back: its log records are not durable yet, and the reserve frame that it could have been
    /// exchanged for went to another thread.
    fn evict(self, victim: Victim, tenant: TenantId) -> Result<Option<FrameLease>> {
        let Victim { latch, page, owner, spare } = victim;
        if let Some(spare) = spare {
            self.pool.write_back.enqueue(Departing::new(latch));
            return Ok(Some(spare));
        }
        if !self.is_dirty(&latch) {
            return Ok(Some(self.evict_clean(latch)));
        }
        let victim = Victim { latch, page, owner, spare: None };
        if self.pool.frames.get(victim.latch.frame()).page_lsn() > self.pool.log.durable() {
            self.put_back(victim, tenant);
            return Ok(None);
        }
        self.depart_by_write(victim, tenant).map(Some)
    }

    fn is_dirty(self, victim: &Latch<OwnedWord, Exclusive>) -> bool {
        self.pool.frames.get(victim.frame()).is_dirty()
    }

    /// Makes a clean victim leave. Returns its frame.
    fn evict_clean(self, victim: Latch<OwnedWord, Exclusive>) -> FrameLease {
        let (lease, _absence) = Departing::new(victim).finish(self.pool, Reason::Clean);
        lease
    }

    fn put_back(self, victim: Victim, tenant: TenantId) {
        let Victim { latch, page, owner, .. } = victim;
        self.pool.policy.lock().directory.restore(latch.frame(), page, page.file(), owner, tenant);
    }

    /// The calling thread writes the dirty victim and waits.
    fn depart_by_write(self, victim: Victim, tenant: TenantId) -> Result<FrameLease> {
        let Victim { latch, page, owner, .. } = victim;
        let file = Arc::clone(latch.word().file());
        let departing = Departing::new(latch);
        match PageOut::of(self.pool).write_page((&file, page.number(), departing.lease())) {
            Ok(()) => {
                self.pool.counters.miss_writes.fetch_add(1, Ordering::Relaxed);
                let (lease, _absence) = departing.finish(self.pool, Reason::Written);
                Ok(lease)
            }
            Err(error) => {
                let mut policy = self.pool.policy.lock();
                policy.directory.restore(departing.frame(), page, page.file(), owner, tenant);
                drop(policy);
                departing.restore();
                Err(error)
            }
        }
    }

    /// Makes a page leave for which none comes in; its frame is free then. False if it stays for now.
    pub(crate) fn release(self, mut victim: Victim, tenant: TenantId, how: Emptying) -> Result<bool> {
        if victim.spare.is_none() && self.is_dirty(&victim.latch) {
            let Emptying::Waiting(deadline) = how else {
                self.put_back(victim, tenant);
                return Ok(false);
            };
            victim.spare = Victims::of(self.pool).wait_for_reserve(None, deadline);
        }
        let Some(lease) = self.evict(victim, tenant)? else { return Ok(false) };
        let mut policy = self.pool.policy.lock();
        policy.directory.release(lease.frame());
        policy.free.put(lease);
        Ok(true)
    }
}
