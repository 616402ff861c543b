//! Which hits need not be noted: those on pages that were noted a short time ago.
//!
//! Noting a hit moves the page to the ledger's tail. Moving it there again soon afterwards changes little,
//! and what is soon depends on how old pages get. So time is cut into epochs as long as a part (one in
//! [`EPOCHS_A_SPAN`]) of the age at which pages leave now, counted in moves and loads, and of each page the
//! first hit in an epoch is noted. A page then leaves at most that part of a life earlier than its last use
//! entitles it to, however fast or slowly frames turn over.
//!
//! The order of pages matters only where one of them leaves. So while no page comes in, an epoch goes on
//! until every frame could have been hit [`QUIET_HITS_A_FRAME`] times, and ends with the first arrival after
//! the length above: where everything that is used is in memory, nearly nothing is noted. InnoDB has the same
//! idea (`buf_page_peek_if_young`: a page is not moved again until a number of others have been evicted),
//! with a length that is a fixed part of the frames; where most frames hold hot pages and few turn over, that
//! is longer than an unused page stays, and hot pages leave in its stead.
//!
//! What is always noted, because something else than the order of the ledger depends on it:
//!
//! * the first two hits after a load: managers tell pages never hit again from others, and once hit from
//!   often hit;
//! * the first hit in an epoch by each tenant, since shared pages are protected ([16 groups](TENANT_BITS) of
//!   tenants are told apart);
//! * pages of tenants whose manager [asks for every hit](bufpool_policies::Manager::needs_every_hit), of
//!   those with directives, where the newest page may be the next to go, and of those with a cap below half
//!   of the frames, whose list is short;
//! * the next hit on a page that stays because its manager overruled the ledger.
//!
//! Deterministic mode has no filter. What the filter costs in misses is checked, on recorded traces too, by
//! `hit_filter` in the tests of the bench crate: with plain LRU at most 1.01 of those without.

use std::sync::atomic::{AtomicU32, Ordering};

use bufpool_policies::{FrameId, TenantId};

use crate::memory::arena::FrameNumbers;
use crate::thread::keys::{EPOCHS, TENANT_BITS, Watched, bit};

/// Epochs in the age at which pages leave. By the test `hit_filter`, with plain LRU: 4 cost up to 1.2 % more
/// misses (sprite, a fifth of its pages in memory), 8 up to 0.8 %, 12 and 16 up to 0.3 %; each step notes a
/// tenth more of the hits.
const EPOCHS_A_SPAN: u64 = 12;
/// Hits a frame after which an epoch without arrivals ends, so that a working set that has changed is known
/// when pages begin to leave. At most one in this many hits is then noted.
const QUIET_HITS_A_FRAME: u64 = 256;
/// The lowest number of an epoch. Below are the numbers of hits noted since the load.
const EPOCH_MIN: u32 = 2;
/// One more than the highest number of an epoch. After the highest, numbers begin again at [`EPOCH_MIN`]; a
/// page that was last noted exactly one round ago is noted an epoch late.
const EPOCH_END: u32 = 1 << (u32::BITS - TENANT_BITS);

/// The filter of a pool. Written under the policy lock only, and read by everybody without it. Clones are the
/// same filter.
///
/// The number for all frames is the current epoch, shifted left by [`TENANT_BITS`]. A frame's number is its
/// *mark*. Above [`TENANT_BITS`] it has the epoch in which a hit was noted last, or how many hits were noted
/// since the load if fewer than two. Each of the bits below belongs to a group of tenants, and is set if no
/// hit of the group was noted in that epoch.
#[derive(Clone)]
pub(crate) struct HitFilter(FrameNumbers);

impl HitFilter {
    pub fn new(frames: u32) -> Self {
        let numbers = FrameNumbers::new(frames);
        numbers.of_all().store(EPOCH_MIN << TENANT_BITS, Ordering::Relaxed);
        Self(numbers)
    }

    /// Epoch and marks.
    #[inline(always)]
    pub fn numbers(&self) -> &FrameNumbers {
        &self.0
    }

    /// A frame with its mark.
    #[inline]
    pub fn marked(&self, frame: FrameId) -> Marked<'_> {
        Marked { frame, mark: self.0.of(frame) }
    }

    /// A hit by `tenant` on the page in a frame, which the caller has latched, need not be noted.
    #[inline(always)]
    pub fn skips(&self, frame: Marked<'_>, tenant: Watched) -> bool {
        // Relaxed: a value from a moment ago makes one hit more, or less, noted.
        let noted = frame.mark.load(Ordering::Relaxed);
        let epoch = self.0.of_all().load(Ordering::Relaxed);
        (noted ^ epoch) & tenant.0 == 0
    }

    /// A hit was applied to the directory. `may_skip` says whether others like it need not be noted.
    #[inline]
    pub fn noted(&self, frame: FrameId, tenant: TenantId, may_skip: bool) {
        let noted = self.0.of(frame);
        let before = noted.load(Ordering::Relaxed);
        let epoch = self.0.of_all().load(Ordering::Relaxed);
        let next = match before & EPOCHS {
            _ if !may_skip => 0,
            0 => (EPOCH_MIN - 1) << TENANT_BITS,
            same if same == epoch => before & !bit(tenant),
            _ => epoch | !EPOCHS & !bit(tenant),
        };
        noted.store(next, Ordering::Relaxed);
    }

    /// The next hit on the page in `frame`, and the one after it, are noted.
    pub fn reset(&self, frame: FrameId) {
        let noted = self.0.of(frame);
        if noted.load(Ordering::Relaxed) != 0 {
            noted.store(0, Ordering::Relaxed);
        }
    }

    /// The next hit on each page is noted.
    fn begin_epoch(&self) {
        let next = (self.0.of_all().load(Ordering::Relaxed) >> TENANT_BITS) + 1;
        let next = if next == EPOCH_END { EPOCH_MIN } else { next };
        self.0.of_all().store(next << TENANT_BITS, Ordering::Relaxed);
    }

    pub fn metadata_bytes(&self) -> usize {
        self.0.metadata_bytes()
    }
}

/// A frame, and its mark in the filter.
#[derive(Clone, Copy)]
pub(crate) struct Marked<'f> {
    pub frame: FrameId,
    pub mark: &'f AtomicU32,
}

/// When the filter's epochs end. Kept under the policy lock.
pub(crate) struct Epochs {
    /// The directory's time when the epoch began.
    began: u64,
    /// A page has come in since.
    has_arrivals: bool,
    /// Hits since, noted or not, and after how many a quiet epoch ends.
    hits: u64,
    quiet_hits: u64,
}

impl Epochs {
    pub fn new(frames: u32) -> Self {
        let quiet_hits = u64::from(frames) * QUIET_HITS_A_FRAME;
        Self { began: 0, has_arrivals: false, hits: 0, quiet_hits }
    }

    /// A page has come in.
    pub fn arrived(&mut self) {
        if !self.has_arrivals {
            self.has_arrivals = true;
        }
    }

    /// This many hits were noted or skipped.
    pub fn hit(&mut self, hits: u64) {
        self.hits += hits;
    }

    /// Whether it is time for the next epoch: `now` is the directory's time, `span` the age at which pages
    /// leave.
    pub fn are_over(&self, now: u64, span: u64) -> bool {
        let length = (span / EPOCHS_A_SPAN).max(1);
        self.has_arrivals && now - self.began >= length || self.hits >= self.quiet_hits
    }

    /// From here on the next hit on each page is noted.
    pub fn begin(&mut self, now: u64, filter: &HitFilter) {
        (self.began, self.has_arrivals, self.hits) = (now, false, 0);
        filter.begin_epoch();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: FrameId = FrameId(1);
    const TENANT: TenantId = TenantId(5);
    const OTHER: TenantId = TenantId(6);

    fn skips(filter: &HitFilter, frame: FrameId, tenant: Watched) -> bool {
        filter.skips(filter.marked(frame), tenant)
    }

    #[test]
    fn the_first_two_hits_are_noted_and_then_one_an_epoch() {
        let filter = HitFilter::new(2);
        for _ in 0..2 {
            assert!(!skips(&filter, FRAME, Watched::by(TENANT)));
            filter.noted(FRAME, TENANT, true);
        }
        assert!(skips(&filter, FRAME, Watched::by(TENANT)));
        assert!(!skips(&filter, FrameId(0), Watched::by(TENANT)));
        filter.begin_epoch();
        assert!(!skips(&filter, FRAME, Watched::by(TENANT)));
        filter.noted(FRAME, TENANT, true);
        assert!(skips(&filter, FRAME, Watched::by(TENANT)));
        filter.reset(FRAME);
        filter.noted(FRAME, TENANT, true);
        assert!(!skips(&filter, FRAME, Watched::by(TENANT)));
    }

    #[test]
    fn the_first_hit_of_another_tenant_and_those_that_matter_are_noted() {
        let filter = HitFilter::new(2);
        (0..2).for_each(|_| filter.noted(FRAME, TENANT, true));
        assert!(!skips(&filter, FRAME, Watched::by(OTHER)));
        filter.noted(FRAME, OTHER, true);
        assert!(skips(&filter, FRAME, Watched::by(OTHER)) && skips(&filter, FRAME, Watched::by(TENANT)));
        filter.begin_epoch();
        assert!(!skips(&filter, FRAME, Watched::by(OTHER)) && !skips(&filter, FRAME, Watched::by(TENANT)));
        filter.noted(FRAME, OTHER, true);
        assert!(skips(&filter, FRAME, Watched::by(OTHER)) && !skips(&filter, FRAME, Watched::by(TENANT)));
        filter.noted(FRAME, OTHER, false);
        assert!(!skips(&filter, FRAME, Watched::by(OTHER)));
    }

    /// No epoch has the number of a count of hits.
    #[test]
    fn epochs_come_round() {
        let filter = HitFilter::new(2);
        for _ in 0..3 * EPOCH_END {
            filter.reset(FRAME);
            assert!(!skips(&filter, FRAME, Watched::by(TenantId(0))));
            (0..2).for_each(|_| filter.noted(FRAME, TenantId(0), true));
            assert!(skips(&filter, FRAME, Watched::by(TenantId(0))));
            filter.begin_epoch();
            assert!(!skips(&filter, FRAME, Watched::by(TenantId(0))));
        }
    }

    #[test]
    fn an_epoch_lasts_a_part_of_the_age_at_which_pages_leave() {
        let filter = HitFilter::new(1);
        let mut epochs = Epochs::new(1000);
        epochs.begin(100, &filter);
        assert!(!epochs.are_over(1 << 40, 10), "nothing has come in");
        epochs.arrived();
        assert!(!epochs.are_over(100 + 9, 10 * EPOCHS_A_SPAN));
        assert!(epochs.are_over(100 + 10, 10 * EPOCHS_A_SPAN));
        assert!(epochs.are_over(100 + 9, 9 * EPOCHS_A_SPAN), "pages leave younger now");
        epochs.begin(110, &filter);
        assert!(!epochs.are_over(110 + 10, 10 * EPOCHS_A_SPAN), "nothing has come in since");
        epochs.arrived();
        assert!(!epochs.are_over(110, 0) && epochs.are_over(111, 0), "an epoch is never without length");
    }

    #[test]
    fn a_quiet_epoch_ends_in_the_end() {
        let filter = HitFilter::new(1);
        let mut epochs = Epochs::new(10);
        epochs.hit(10 * QUIET_HITS_A_FRAME - 1);
        assert!(!epochs.are_over(1, 1));
        epochs.hit(1);
        assert!(epochs.are_over(1, 1));
        epochs.begin(1, &filter);
        assert!(!epochs.are_over(1, 1));
    }
}
