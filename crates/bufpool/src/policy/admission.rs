//! Which frame a page comes into, and which page leaves: the directory's questions, and what becomes of its
//! answers.

use std::sync::Arc;

use bufpool_policies::planner::Seen;
use bufpool_policies::program::Program;
use bufpool_policies::{
    Admission, ContextId, Decision, FrameId, NextMiss, PageId, PageWorth, TenantId, WISHES_MAX, Wish,
};

use crate::files::word::OwnedWord;
use crate::hits::contexts::ContextSlot;
use crate::memory::frame::{Below, FrameTable};
use crate::memory::lease::FrameLease;
use crate::page::latch::{Exclusive, Latch};
use crate::policy::ahead::AheadCharge;
use crate::policy::claims::{Admitted, ClaimRules, Dirty, PoolClaims, Victim};
use crate::policy::programs::Wished;
use crate::policy::state::{PolicyState, access};
use crate::sys::fetch_to_write;
use crate::thread::site::SiteRef;
use crate::tier::Life;

impl PolicyState {
    /// Finds a frame for `page`. None if every frame that the tenant may take is busy.
    pub fn admit(
        &mut self,
        page: PageId,
        tenant: TenantId,
        site: SiteRef,
        creates: bool,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        let context = self.context(tenant, site);
        // Nothing has to be guessed of a stream whose reads are known.
        let is_disclosed = self.directory.discloses(tenant, page);
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let admission =
            self.directory.admit(&access(page, tenant, ContextId(context.id), creates), &mut claims);
        let admitted = self.carry_out(&admission, taken, rules)?;
        self.note_accessor(tenant);
        self.record_access(page, ContextId(context.id), tenant, creates);
        self.count_miss(tenant, context, admission.decision(), creates);
        match &mut self.pricing {
            Some(pricing) if creates => pricing.found(tenant),
            Some(pricing) => pricing.missed(&mut self.directory, tenant),
            None => {}
        }
        if !creates && !is_disclosed {
            self.observe(page, tenant, ContextId(context.id), Seen::Missed);
        }
        Some(admitted)
    }

    /// Finds a frame for a page that nobody has asked for yet: a free one, or one whose page is clean. None
    /// if there is none near the ledger's head.
    pub fn admit_ahead(
        &mut self,
        page: PageId,
        charge: AheadCharge,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        debug_assert_eq!(rules.dirty, Dirty::Left);
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let AheadCharge { tenant, context, .. } = charge;
        let access = access(page, tenant, context, false);
        let admission = self.directory.admit_ahead(&access, &mut claims);
        self.carry_out(&admission, taken, rules)
    }

    /// The directory's answer, with the lease or the claimed latch that goes with it.
    #[inline]
    fn carry_out(
        &mut self,
        admission: &Admission,
        taken: Option<Latch<OwnedWord, Exclusive>>,
        rules: &ClaimRules<'_>,
    ) -> Option<Admitted> {
        let admitted = match *admission {
            Admission::Exhausted { .. } => return None,
            Admission::Free { frame, .. } => {
                let lease = self.free.take_of(frame).expect("the directory hands out free frames only");
                Admitted::Free(lease)
            }
            Admission::Evict { frame, page, tenant: owner, .. } => {
                let latch = taken.expect("the directory evicts what it has claimed");
                assert_eq!(latch.frame(), frame, "the directory evicts the frame it claimed last");
                let spare = rules.spare_for(frame);
                if let Some(spare) = &spare {
                    self.directory.relocate(frame, spare.frame());
                }
                self.note_wishes(owner);
                self.note_worth(&latch, rules);
                Admitted::Evict(Victim { latch, page, owner, spare })
            }
        };
        self.hits.filter.reset(admitted.frame());
        let decision = admission.decision();
        if let Some(candidate) = decision.candidate.filter(|_| decision.overruled) {
            self.hits.filter.reset(candidate);
        }
        self.page_arrives();
        Some(admitted)
    }

    fn count_miss(&mut self, tenant: TenantId, context: ContextSlot, decision: &Decision, creates: bool) {
        if creates {
            self.tenants[tenant.index()].creations += 1;
        }
        let counts = self.contexts.counts(tenant, context);
        counts.accesses += 1;
        counts.misses += 1;
        counts.creations += u64::from(creates);
        counts.mistakes += u64::from(decision.mistake.is_some());
    }

    /// Takes a miss back from the counts of its context, because the page did not come in. Callers tell the
    /// directory.
    pub fn take_back_miss(&mut self, tenant: TenantId, site: SiteRef, creates: bool) {
        let entry = &mut self.tenants[tenant.index()];
        entry.creations = entry.creations.saturating_sub(creates.into());
        let context = self.context(tenant, site);
        self.contexts.take_back_miss(tenant, context, creates);
    }

    /// The page that was admitted to the frame of this lease for a tenant does not come in: the frame is
    /// free.
    pub fn give_up_frame(&mut self, lease: FrameLease, tenant: TenantId) {
        self.directory.failed(lease.frame(), tenant);
        self.free.put(lease);
    }

    /// A page that was admitted to one frame comes in another, because its victim needs the first for longer.
    pub fn relocate(&mut self, from: FrameId, to: FrameId) {
        self.directory.relocate(from, to);
        self.hits.filter.reset(to);
    }

    /// Lets neighbouring pages come into frames that are neighbours as far as possible, which makes one piece
    /// of memory of a transfer: the admitted pages, in their order, get their frames in ascending order. The
    /// answers are rearranged likewise.
    pub fn line_up(&mut self, admitted: &mut [Admitted]) {
        if admitted.is_sorted_by_key(Admitted::frame) {
            return;
        }
        let mut order: Vec<usize> = (0..admitted.len()).collect();
        order.sort_unstable_by_key(|at| admitted[*at].frame());
        for to in 0..admitted.len() {
            let mut from = order[to];
            // An earlier exchange has moved what was there; follow it.
            while from < to {
                from = order[from];
            }
            if self.directory.exchange(admitted[to].frame(), admitted[from].frame()) {
                admitted.swap(to, from);
            }
        }
    }

    /// A page that must go because its tenant's cap fell below what it has. None if the tenant is within its
    /// cap, or none of its pages can be had.
    pub fn shrink(&mut self, tenant: TenantId, rules: &ClaimRules<'_>) -> Option<Victim> {
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        let eviction = self.directory.shrink(tenant, &mut claims)?;
        let latch = taken.expect("the directory evicts what it has claimed");
        let spare = rules.spare_for(eviction.frame);
        self.note_wishes(tenant);
        self.note_worth(&latch, rules);
        Some(Victim { latch, page: eviction.page, owner: tenant, spare })
    }

    /// A page that its tenant's program wishes to leave; none if it has left, or cannot be had. `owner` is
    /// the tenant with its serial number.
    pub fn release_page(
        &mut self,
        owner: (TenantId, u64),
        frame: FrameId,
        page: PageId,
        rules: &ClaimRules<'_>,
    ) -> Option<Victim> {
        let (tenant, serial) = owner;
        if self.tenants[tenant.index()].serial != serial {
            return None;
        }
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        self.directory.evict_page(tenant, frame, page, &mut claims)?;
        let latch = taken.expect("the directory evicts what it has claimed");
        self.note_worth(&latch, rules);
        Some(Victim { latch, page, owner: tenant, spare: rules.spare_for(frame) })
    }

    /// The next page that would make room for one of the tenant, latched exclusively and out of the
    /// directory. Its frame is the reserve's.
    pub fn evict_next(
        &mut self,
        tenant: TenantId,
        rules: &ClaimRules<'_>,
    ) -> Option<Latch<OwnedWord, Exclusive>> {
        let mut taken = None;
        let mut claims = PoolClaims::new(rules, &self.files, &mut taken);
        self.directory.evict_next(tenant, &mut claims)?;
        taken.inspect(|latch| self.note_worth(latch, rules))
    }

    /// Notes in the victim's frame what the directory knows of it, if there is somebody to ask for it.
    fn note_worth(&self, victim: &Latch<OwnedWord, Exclusive>, rules: &ClaimRules<'_>) {
        let Some(worth) = self.directory.worth_of_last() else { return };
        let frame = rules.frames.get(victim.frame());
        frame.set_worth(worth);
        let Some(tier) = &self.promotes_from else { return };
        // A page that the tier kept has not been here for as long as others are, unless it was used again.
        let has_lived = frame.below() != Below::Page || worth == PageWorth::Again;
        if let Some(age) = self.directory.age_of_last().filter(|_| has_lived) {
            tier.left(Life { now: self.directory.now(), age });
        }
    }

    /// The tenant's manager was asked: notes what its program wishes, as long as there are no more than
    /// [`WISHES_MAX`] to be carried out.
    #[inline]
    pub(super) fn note_wishes(&mut self, tenant: TenantId) {
        if self.tenants[tenant.index()].program().is_some_and(Program::has_wishes) {
            self.note_wishes_of_program(tenant);
        }
    }

    #[cold]
    fn note_wishes_of_program(&mut self, tenant: TenantId) {
        while self.wishes.len() < WISHES_MAX
            && let Some(wish) = self.directory.take_wish(tenant)
        {
            let (Wish::Flush { page, .. } | Wish::SetModified { page, .. } | Wish::Release { page, .. }) =
                wish;
            if let Some(file) = self.file(page.file()) {
                let (file, serial) = (Arc::clone(file), self.tenants[tenant.index()].serial);
                self.wishes.push(Wished { tenant, serial, wish, file });
            }
        }
    }

    /// What programs wish, to be carried out without the policy lock.
    pub fn take_wishes(&mut self) -> Vec<Wished> {
        if self.wishes.is_empty() { Vec::new() } else { std::mem::take(&mut self.wishes) }
    }

    /// Touches the words of the pages that are likely to make room for the next `count`, and what managers
    /// know of them, so that the cache misses overlap.
    pub fn touch_upcoming(&self, count: usize, frames: &FrameTable) {
        self.directory.touch_upcoming(count);
        let word_of = |frame| {
            let page = frames.get(frame).page()?;
            self.file(page.file())?.table.get(page.number())
        };
        let words = self.directory.upcoming().take(count).filter_map(word_of);
        std::hint::black_box(words.filter(|word| word.state().is_unlatched()).count());
    }

    /// Fetches what a miss of a tenant is likely to change if `pages` come and go, so that the cache misses
    /// overlap: most of it is in the cache of the processor that had the lock last.
    #[inline]
    pub fn fetch_for_miss(&self, tenant: TenantId, next_miss: NextMiss, pages: &[PageId]) {
        self.directory.places_of_miss(tenant, next_miss).iter().for_each(|place| fetch_to_write(*place));
        fetch_to_write(self.hits.filter.marked(next_miss.victim).mark);
        if let Some(context) = self.contexts.latest(tenant) {
            fetch_to_write(context);
        }
        if let Some(planner) = &self.ahead.planner {
            planner.places().iter().for_each(|place| fetch_to_write(*place));
        }
        self.directory.places_in_manager(next_miss, pages, &mut |place| fetch_to_write(place));
    }
}
