//! A page that is not in memory: a frame is found, its victim leaves, the page comes in.
//!
//! The calling thread has won the right to load the page (its word says *loading*), and others wait for it.
//! Then:
//!
//! 1. *Under the policy lock*: the thread's own hits are applied, and the directory names a frame. If that
//!    holds a page, the page's word is now held exclusively; it is *departing*.
//! 2. The victim leaves ([`evict`](crate::write::evict)), without the lock. If it could not be written,
//!    another is looked for, and nothing is lost; the miss returns the error only if there is none.
//! 3. The page is read straight into the frame (unless it is created), and published with the latch that was
//!    asked for.
//!
//! No lock is held during I/O. A victim whose write by the background writer fails stays readable in its
//! frame, outside the directory and lost to the reserve, until its file is reopened or closed.

use std::sync::atomic::Ordering;
use std::time::Instant;

use bufpool_policies::PageId;

use crate::error::Result;
use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::load::frame_search::{FrameSearch, Seeker};
use crate::load::page_load::{Found, Load, Loads};
use crate::load::page_read::{Attempt, PageRead};
use crate::load::prefetch::Prefetch;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Latch, Mode};
use crate::page::word::PageWord;
use crate::policy::claims::{Admitted, Dirty};
use crate::state::shared::PoolShared;
use crate::state::waiting::{Purpose, Refused, Waits};
use crate::thread::site::SiteRef;
use crate::write::evict::Emptying;
use crate::write::wishes::Wishes;

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

    /// Brings the page in for `tenant` and latches it. Waits for a frame as long as `waits` allows, for a
    /// victim that has to be written, and for the read.
    pub(crate) fn bring_in<'g, M: Mode>(
        self,
        tenant: &Tenant,
        page: Page<'g>,
        load: Load<&'g PageWord>,
        purpose: Purpose,
        site: SiteRef,
        waits: &mut Waits,
    ) -> std::result::Result<Latch<&'g PageWord, M>, Refused> {
        let search = FrameSearch::new(tenant, page, purpose, site, Seeker::Thread);
        let mut found = match Self::find_frame(search, waits) {
            Ok(found) => found,
            Err(refused) => {
                load.give_up();
                return Err(refused);
            }
        };
        if purpose.creates() {
            self.pool.counters.creations.fetch_add(1, Ordering::Relaxed);
            Prefetch::of(self.pool).carry_out_plans_now();
        } else {
            let (lease, outcome) = self.read(page, found.lease, tenant, purpose.operation());
            found.lease = lease;
            if let Err(error) = outcome {
                Loads::of(self.pool).abandon(load, found.lease);
                return Err(error.into());
            }
        }
        Ok(Loads::of(self.pool).complete(load, found))
    }

    fn find_frame(mut search: FrameSearch<'_>, waits: &mut Waits) -> std::result::Result<Found, Refused> {
        loop {
            // The wait for a frame of the reserve counts against the caller's own limit.
            let reserve = waits.own_limit.then(|| waits.frame.deadline().unwrap_or_else(Instant::now));
            if let Some(found) = search.ask(Emptying::Waiting(reserve))? {
                return Ok(found);
            }
            search.wait(&mut waits.frame, waits.own_limit)?;
        }
    }

    /// Reads the page, then what is expected to be needed after it.
    fn read(
        self,
        page: Page<'_>,
        mut lease: FrameLease,
        tenant: &Tenant,
        operation: &'static str,
    ) -> (FrameLease, Result<()>) {
        let (file, number, tenant) = (&page.file().shared, page.number(), tenant.tenant_id());
        let (read, ahead) = (PageRead::of(self.pool), Prefetch::of(self.pool));
        if ahead.has_plans() {
            return read
                .read_meanwhile(file, number, lease, tenant, operation, || ahead.carry_out_plans_now());
        }
        let outcome = read.read(file, number, &mut lease, tenant, Attempt::First, operation);
        (lease, outcome)
    }

    /// Asks for a frame for each of `pages`, all to be read, under one hold of the policy lock. The answers
    /// are for the first pages of the list; the rest found every frame busy, or the tenant closed.
    pub(crate) fn admit_all(
        self,
        tenant: &Tenant,
        pages: impl ExactSizeIterator<Item = (PageId, SiteRef)> + Clone,
    ) -> Vec<Admitted> {
        let ids = pages.clone().map(|(page, _)| page.0);
        let has_neighbours = ids.clone().zip(ids.skip(1)).any(|(a, b)| b == a + 1);
        self.pool.free_aside();
        let rules = self.pool.claim_rules(Dirty::Written);
        let Ok(mut policy) = tenant.lock_policy(Purpose::Read.operation()) else { return Vec::new() };
        self.pool.drain_own_log_into(&mut policy);
        policy.touch_upcoming(pages.len(), &self.pool.frames);
        let admit = |(page, site)| policy.admit(page, tenant.tenant_id(), site, false, &rules);
        let mut admitted: Vec<Admitted> = pages.map_while(admit).collect();
        if has_neighbours {
            policy.line_up(&mut admitted);
        }
        self.pool.note_plans(&mut policy);
        let wishes = policy.take_wishes();
        drop(policy);
        Wishes::of(self.pool).carry_out(wishes, Emptying::AtOnce);
        admitted
    }
}
