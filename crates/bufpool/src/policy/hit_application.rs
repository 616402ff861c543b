//! What becomes of the hits that threads note: they are counted, the directory hears of them, and from time
//! to time all pages' hits are noted anew.

use bufpool_policies::planner::Seen;
use bufpool_policies::{ContextId, FrameId};

use crate::hits::contexts::ContextSlot;
use crate::policy::state::{PolicyState, access};
use crate::sys::fetch_to_write;
use crate::thread::ring::{Hit, HitRing, Skipped};

impl PolicyState {
    /// Applies what a thread has noted.
    pub fn apply(&mut self, ring: &HitRing) {
        // Of several tenants' hits only those of one are fetched, since most threads serve one at a time.
        if let Some(tenant) = ring.tenants().next() {
            self.directory.places_of_hits(tenant, &mut ring.frames(), &mut |place| fetch_to_write(place));
        }
        // Touches what the directory knows of all frames before the first is used, so that the cache
        // misses overlap.
        self.directory.touch(ring.frames());
        let mut latest = None;
        ring.drain(|hit, key| {
            self.hits.count += 1;
            // Most hits come from where the one before came from.
            let found = match latest {
                Some((of, found)) if of == key => found,
                _ => self.context(hit.tenant, hit.site),
            };
            latest = Some((key, found));
            if self.hit_from(&hit, found) {
                let may_skip = self.directory.may_skip_hits(hit.frame);
                self.hits.filter.noted(hit.frame, hit.tenant, may_skip);
                self.hits.epochs.hit(1);
                self.end_epoch();
            }
        });
        self.count_skipped(ring);
        self.end_epoch();
    }

    /// Counts hits that were not noted one by one: first for the contexts of all tenants, then in the
    /// directory, so that cache misses of several tenants overlap.
    fn count_skipped(&mut self, ring: &HitRing) {
        for tenant in ring.tenants() {
            fetch_to_write(self.directory.place_of_tenant(tenant));
            if let Some(context) = self.contexts.latest(tenant) {
                fetch_to_write(context);
            }
        }
        let mut skipped = std::mem::take(&mut self.hits.skipped);
        ring.drain_skipped(|Skipped { hits, tenant, site }| {
            let context = self.context(tenant, site);
            self.contexts.counts(tenant, context).accesses += hits;
            skipped.push((tenant, hits));
        });
        for (tenant, hits) in skipped.drain(..) {
            self.directory.hits_skipped(tenant, hits);
            self.hits.epochs.hit(hits);
        }
        self.hits.skipped = skipped;
    }

    /// Counts a hit, and tells the directory unless the page has left the frame meanwhile. Returns whether it
    /// was told.
    pub fn hit(&mut self, hit: &Hit) -> bool {
        let found = self.context(hit.tenant, hit.site);
        self.hit_from(hit, found)
    }

    /// As [`hit`](Self::hit), for one in a context that was found.
    #[inline]
    fn hit_from(&mut self, hit: &Hit, found: ContextSlot) -> bool {
        self.contexts.counts(hit.tenant, found).accesses += 1;
        let listed = self.directory.page(hit.frame) == Some(hit.page);
        let context = self.context_of_hit(hit, listed, ContextId(found.id));
        self.record_access(hit.page, context, hit.tenant, hit.creates);
        self.note_accessor(hit.tenant);
        if let Some(pricing) = &mut self.pricing {
            pricing.found(hit.tenant);
        }
        if listed {
            let is_disclosed = self.directory.is_ahead(hit.frame, hit.page)
                && self.directory.discloses(hit.tenant, hit.page);
            let outcome = self.directory.hit(hit.frame, &access(hit.page, hit.tenant, context, hit.creates));
            if outcome.first && !is_disclosed {
                self.observe(hit.page, hit.tenant, context, Seen::FoundAhead);
            }
        } else {
            self.tenants[hit.tenant.index()].hits_unlisted += 1;
        }
        listed
    }

    /// The context that the manager is told for a hit that was counted for `found`: the context of the page's
    /// load if the stack was not sampled for this hit, so that the page stays in its stream.
    fn context_of_hit(&self, hit: &Hit, listed: bool, found: ContextId) -> ContextId {
        match self.tenants[hit.tenant.index()].stacks {
            Some(stacks) if listed && !stacks.samples(hit.page) => self.directory.context(hit.frame),
            _ => found,
        }
    }

    /// The next hit on the page in `frame` is noted.
    pub fn note_next_hit(&self, frame: FrameId) {
        self.hits.filter.reset(frame);
    }

    /// A page comes in.
    #[inline]
    pub(super) fn page_arrives(&mut self) {
        self.hits.epochs.arrived();
        self.end_epoch();
    }

    /// Begins the filter's next epoch if it is time.
    #[inline]
    fn end_epoch(&mut self) {
        if self.hits.epochs.are_over(self.directory.now(), self.directory.span()) {
            self.begin_epoch();
        }
    }

    /// From here on the next hit on each page is noted.
    pub fn begin_epoch(&mut self) {
        self.hits.epochs.begin(self.directory.now(), &self.hits.filter);
    }
}
