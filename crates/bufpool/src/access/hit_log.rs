//! Hits are noted in the log of their thread ([`hits::log`](crate::hits::log)), and the logs are drained.

use bufpool_policies::FrameId;

use crate::handle::file::Page;
use crate::handle::tenant::Tenant;
use crate::hits::log::{self, existing_ring};
use crate::load::prefetch::Prefetch;
use crate::state::shared::PoolShared;
use crate::thread::context::ScopeId;
use crate::thread::keys::{KeyPlace, SiteHash, TenantTag};
use crate::thread::ring::{Hit, HitRing, Level};
use crate::thread::site::{CallPlace, Origin, PageClass, SiteRef};

/// Notes hits, and drains the calling thread's log.
#[derive(Clone, Copy)]
pub(crate) struct HitLog<'p> {
    pool: &'p PoolShared,
}

impl<'p> HitLog<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// A hit that gets an entry, or whose key or ring has yet to be found.
    #[inline(never)]
    pub(super) fn note_slowly(
        self,
        page: Page<'_>,
        frame: FrameId,
        tenant: &Tenant,
        place: CallPlace,
        scope: Option<ScopeId>,
        (class, creates): (PageClass, bool),
    ) {
        // The origin comes in its parts, which are in registers, as the caller has them.
        let site = Origin::new(place, scope, class).site();
        let stacks = tenant.shared.stacks.filter(|stacks| stacks.samples(page.id()));
        let called = stacks.map_or(site, |stacks| stacks.of_caller(site));
        self.note(page, frame, tenant, (site, called), creates);
    }

    /// Notes a hit from the site `noted`, or counts it for the site `counted`, which leaves out the call
    /// stack, if it need not be noted. In deterministic mode the hit is applied at once.
    // Always inlined, so that the sites stay in registers.
    #[inline(always)]
    pub(super) fn note(
        self,
        page: Page<'_>,
        frame: FrameId,
        tenant: &Tenant,
        (counted, noted): (SiteRef, SiteRef),
        creates: bool,
    ) {
        if self.pool.owner.is_called_back() {
            return;
        }
        let tenant_tag = tenant.tag();
        let hit = || Hit { page: page.id(), frame, tenant: tenant_tag.tenant, site: noted, creates };
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
        let level = ring.push(page.id(), frame, self.find_key(ring, tenant_tag, noted), creates);
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
    pub(super) fn drain_last_log(self) {
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
}
