//! What is to come in ahead: who is asked, how much may come, and what became of it.

use std::sync::Arc;

use bufpool_policies::planner::{Bounds, Plan, Seen, StreamCounts};
use bufpool_policies::{Access, ContextId, PageId, TenantId};

use crate::policy::ahead::{AheadCharge, Expectation, Wanted, Wants};
use crate::policy::claims::Admitted;
use crate::policy::state::{PolicyState, access};

/// Of pages that a manager or a list wants: no access has been made.
const NO_CONTEXT: ContextId = ContextId(0);

impl PolicyState {
    /// The latest access was the tenant's. Mostly the one before was, too, and nothing is written.
    #[inline]
    pub(super) fn note_accessor(&mut self, tenant: TenantId) {
        if self.ahead.last_accessor != tenant {
            self.ahead.last_accessor = tenant;
        }
    }

    /// What a tenant is charged with for pages that come in ahead from now on.
    pub fn charge_ahead(
        &self,
        tenant: TenantId,
        context: ContextId,
        expectation: Expectation,
    ) -> AheadCharge {
        AheadCharge { tenant, serial: self.tenants[tenant.index()].serial, context, expectation }
    }

    /// How many pages may come in ahead for a tenant now; none once it is closed.
    pub fn room_ahead(&mut self, charge: AheadCharge) -> usize {
        let AheadCharge { tenant, serial, expectation, .. } = charge;
        let entry = &self.tenants[tenant.index()];
        if entry.closed || entry.serial != serial {
            return 0;
        }
        let limit = self.limit_ahead(tenant, expectation);
        self.tenants[tenant.index()].ahead.room(&mut self.directory, limit)
    }

    /// The most pages of a tenant that may be unused since they came in ahead.
    pub fn limit_ahead(&self, tenant: TenantId, expectation: Expectation) -> usize {
        let frames = u64::from(self.directory.cap_frames(tenant));
        let percent = match expectation {
            Expectation::Guessed => self.ahead.limits.prefetch_percent,
            Expectation::Disclosed => self.ahead.limits.hint_percent,
        };
        (frames * u64::from(percent) / 100) as usize
    }

    /// Notes pages that come in ahead, with their frames.
    pub fn note_ahead(
        &mut self,
        tenant: TenantId,
        pages: impl Iterator<Item = PageId>,
        admitted: &[Admitted],
    ) {
        let (ahead, directory) = (&mut self.tenants[tenant.index()].ahead, &self.directory);
        pages.zip(admitted).for_each(|(page, admitted)| ahead.push(admitted.frame(), page, directory));
    }

    /// Tells the planner of a miss, or of the first access to a page that came in ahead, and demotes the
    /// pages ahead that the planner no longer expects.
    pub fn observe(&mut self, page: PageId, tenant: TenantId, context: ContextId, seen: Seen) {
        let limit = self.limit_ahead(tenant, Expectation::Guessed) as u64;
        let Some(planner) = &mut self.ahead.planner else { return };
        let Some(file) = self.files.get(page.file()) else { return };
        let access = access(page, tenant, context, false);
        let bounds = Bounds { pages: file.gate.pages(), limit };
        let Some(demote) = planner.observe(&access, seen, bounds) else { return };
        for number in demote.numbers() {
            if let Some(frame) = file.table.get(number).and_then(|word| word.state().resident_frame())
                && self.directory.is_ahead(frame, PageId::in_file(file.id, number))
            {
                self.directory.demote(frame);
            }
        }
    }

    /// A thread waits for a page that comes in ahead.
    pub fn ahead_is_awaited(&mut self, access: &Access) {
        if let Some(planner) = &mut self.ahead.planner {
            planner.awaited(access);
        }
    }

    /// Asks the manager and the lists of the tenant whose access came last what they want, unless their last
    /// answer still waits.
    pub fn ask_for_wants(&mut self) {
        let tenant = self.ahead.last_accessor;
        if self.directory.knows_ahead(tenant) {
            self.ask(tenant, Expectation::Guessed);
        }
        if self.directory.has_hints(tenant) {
            self.ask(tenant, Expectation::Disclosed);
        }
    }

    /// Asks the lists of a tenant.
    pub fn ask_for_disclosed(&mut self, tenant: TenantId) {
        self.ask(tenant, Expectation::Disclosed);
    }

    fn ask(&mut self, tenant: TenantId, expectation: Expectation) {
        if self.ahead.wanted.iter().any(|(of, kind, _)| (*of, *kind) == (tenant, expectation)) {
            return;
        }
        let charge = self.charge_ahead(tenant, NO_CONTEXT, expectation);
        let frames_left = self.room_ahead(charge) as u32;
        let mut wants = Vec::new();
        if frames_left == 0 {
            return;
        }
        match expectation {
            Expectation::Guessed => self.directory.wants(tenant, frames_left, &mut wants),
            Expectation::Disclosed => {
                let files = &self.files;
                let mut passed_over = |page: PageId| {
                    let Some(file) = files.get(page.file()) else { return true };
                    let is_absent =
                        |number| file.table.get(number).is_none_or(|word| word.state().is_absent());
                    page.number() >= file.gate.pages() || !is_absent(page.number())
                };
                self.directory.hint_wants(tenant, frames_left, &mut passed_over, &mut wants);
            }
        }
        if !wants.is_empty() {
            self.ahead.wanted.push((tenant, expectation, wants));
        }
    }

    /// Whether there is something to bring in ahead.
    pub fn has_wants(&self) -> bool {
        !self.ahead.wanted.is_empty()
            || self.ahead.planner.as_ref().is_some_and(|planner| planner.has_wants())
    }

    /// The planner's plans and the managers' wants, with their files. Wants of files that are not open are
    /// left out.
    pub fn take_wants(&mut self) -> Wants {
        let mut plans = Vec::new();
        if let Some(planner) = &mut self.ahead.planner {
            planner.wants(&mut plans);
        }
        let with_charge = |plan: Plan| {
            let charge = self.charge_ahead(plan.key.tenant, plan.key.context, Expectation::Guessed);
            (plan, charge, self.file(plan.key.file).cloned())
        };
        let plans = plans.into_iter().map(with_charge).collect();
        let answers = std::mem::take(&mut self.ahead.wanted).into_iter();
        let resolve = |page: PageId| Some((Arc::clone(self.file(page.file())?), page.number()));
        let wanted = answers.map(|(tenant, expectation, wants)| Wanted {
            charge: self.charge_ahead(tenant, NO_CONTEXT, expectation),
            pages: wants.into_iter().filter_map(|want| resolve(want.page)).collect(),
        });
        Wants { plans, wanted: wanted.collect() }
    }

    /// What became of a plan; see [`Planner::carried_out`](bufpool_policies::planner::Planner::carried_out).
    /// The planner has forgotten that of a tenant whose number is another's.
    pub fn plan_carried_out(
        &mut self,
        plan: &Plan,
        charge: AheadCharge,
        brought: usize,
        refused: Option<u64>,
    ) {
        if self.tenants[charge.tenant.index()].serial == charge.serial
            && let Some(planner) = &mut self.ahead.planner
        {
            planner.carried_out(plan, brought as u64, refused);
        }
    }

    pub fn stream_counts(&self) -> StreamCounts {
        self.ahead.planner.as_ref().map_or_else(StreamCounts::default, |planner| planner.counts())
    }
}
