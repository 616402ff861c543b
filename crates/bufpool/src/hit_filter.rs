//! Which hits need not be noted: those on pages that were noted a moment ago.
//!
//! Noting a hit moves the page to the ledger's tail. If it has been moved there a short time ago, moving it again changes little: it
//! is still far from the head. So time is cut into epochs of as many moves as a part (one in [`EPOCHS_A_POOL`]) of the
//! frames that tenants compete for, and of each page the first hit in an epoch is noted. A page is then at most one epoch further from the
//! tail than it would be, and what leaves at the head leaves at most that much too early.
//!
//! What is always noted, because something else than the order near the tail depends on it:
//!
//! * the first two hits after a load: managers tell pages never hit again from others, and once hit from often hit;
//! * hits by another tenant than made the last one noted, since shared pages are protected;
//! * pages of tenants whose manager [asks for every hit](bufpool_policies::Manager::needs_every_hit), of those with directives,
//!   where the newest page may be the next to go, and of those with a cap below half of the frames, whose list is short;
//! * the next hit on a page that stays because its manager overruled the ledger.
//!
//! Deterministic mode has no filter. What the filter costs in misses is checked, on recorded traces too, by `hit_filter` in the tests of the
//! bench crate: with plain LRU at most 1.01 of those without.

use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use bufpool_policies::{FrameId, TenantId};

/// Epochs in which as many pages move as there are frames.
/// By the test `hit_filter`, with plain LRU: two cost up to 1.6 % more misses (sprite, a fifth of its pages in memory), four 0.3 %, eight 0.05 %.
pub(crate) const EPOCHS_A_POOL: u32 = 4;
/// The lowest number of an epoch. Below are the numbers of hits noted since the load.
const EPOCH_MIN: u32 = 2;
/// One more than the highest; epochs of this distance are taken for each other, and a page that was last noted so long
/// ago is noted an epoch late.
const EPOCH_END: u32 = 256;

/// The filter of a pool. Written under the policy lock only, and read by everybody without it.
pub(crate) struct HitFilter {
    /// Per frame, whose hit was noted last, and when: an epoch, or how often since the load; and the lower 8 bits of the tenant's number.
    noted: Box<[AtomicU16]>,
    epoch: AtomicU32,
}

impl HitFilter {
    pub fn new(frames: u32) -> Self {
        Self { noted: (0..frames).map(|_| AtomicU16::new(0)).collect(), epoch: AtomicU32::new(EPOCH_MIN) }
    }

    /// A hit by `tenant` on the page in `frame`, which the caller has latched, need not be noted.
    #[inline(always)]
    pub fn skips(&self, frame: FrameId, tenant: TenantId) -> bool {
        // Relaxed: a value from a moment ago makes one hit more, or less, noted.
        let epoch = self.epoch.load(Ordering::Relaxed);
        self.noted[frame.index()].load(Ordering::Relaxed) == tag(epoch, tenant)
    }

    /// A hit was applied to the directory. `may_skip` says whether others like it need not be noted.
    #[inline]
    pub fn noted(&self, frame: FrameId, tenant: TenantId, may_skip: bool) {
        let noted = &self.noted[frame.index()];
        let hits = u32::from(noted.load(Ordering::Relaxed) >> 8);
        let next = match hits {
            _ if !may_skip => 0,
            0 => EPOCH_MIN - 1,
            _ => self.epoch.load(Ordering::Relaxed),
        };
        noted.store(tag(next, tenant), Ordering::Relaxed);
    }

    /// The next hit on the page in `frame`, and the one after it, are noted.
    pub fn reset(&self, frame: FrameId) {
        self.noted[frame.index()].store(0, Ordering::Relaxed);
    }

    /// The next hit on each page is noted.
    pub fn begin_epoch(&self) {
        let next = self.epoch.load(Ordering::Relaxed) + 1;
        self.epoch.store(if next == EPOCH_END { EPOCH_MIN } else { next }, Ordering::Relaxed);
    }

    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.noted)
    }
}

#[inline]
fn tag(epoch: u32, tenant: TenantId) -> u16 {
    (epoch << 8) as u16 | u16::from(tenant.0 as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: FrameId = FrameId(1);
    const TENANT: TenantId = TenantId(5);
    const OTHER: TenantId = TenantId(6);

    #[test]
    fn the_first_two_hits_are_noted_and_then_one_an_epoch() {
        let filter = HitFilter::new(2);
        for _ in 0..2 {
            assert!(!filter.skips(FRAME, TENANT));
            filter.noted(FRAME, TENANT, true);
        }
        assert!(filter.skips(FRAME, TENANT));
        assert!(!filter.skips(FrameId(0), TENANT));
        filter.begin_epoch();
        assert!(!filter.skips(FRAME, TENANT));
        filter.noted(FRAME, TENANT, true);
        assert!(filter.skips(FRAME, TENANT));
        filter.reset(FRAME);
        filter.noted(FRAME, TENANT, true);
        assert!(!filter.skips(FRAME, TENANT));
    }

    #[test]
    fn hits_of_another_tenant_and_those_that_matter_are_noted() {
        let filter = HitFilter::new(2);
        (0..2).for_each(|_| filter.noted(FRAME, TENANT, true));
        assert!(!filter.skips(FRAME, OTHER));
        filter.noted(FRAME, OTHER, true);
        assert!(filter.skips(FRAME, OTHER) && !filter.skips(FRAME, TENANT));
        filter.noted(FRAME, OTHER, false);
        assert!(!filter.skips(FRAME, OTHER));
    }

    /// No epoch has the number of a count of hits.
    #[test]
    fn epochs_come_round() {
        let filter = HitFilter::new(2);
        for _ in 0..3 * EPOCH_END {
            filter.reset(FRAME);
            assert!(!filter.skips(FRAME, TenantId(0)));
            (0..2).for_each(|_| filter.noted(FRAME, TenantId(0), true));
            assert!(filter.skips(FRAME, TenantId(0)));
            filter.begin_epoch();
            assert!(!filter.skips(FRAME, TenantId(0)));
        }
    }
}
