//! Managers of tenants: how they are told of events, and what they say besides which page goes.

use super::Directory;
use crate::{
    frame_table::FrameTable,
    ids::TenantId,
    manager::{Control, Panicked, ProgramStats, StreamReport, Want, Wish, drop_control},
};

impl Directory {
    /// Whether the tenant has a manager, revoked or not, of its own or in common with others.
    pub fn is_managed(&self, tenant: TenantId) -> bool {
        self.account(tenant).control.is_managed()
    }

    /// Whether the tenant is managed by directives.
    pub fn has_directives(&self, tenant: TenantId) -> bool {
        matches!(self.account(tenant).control, Control::Pools(_))
    }

    /// Whether the tenant's manager is not asked for now, because it was wrong too often.
    pub fn is_revoked(&self, tenant: TenantId) -> bool {
        self.account(tenant).is_revoked
    }

    /// Whether the tenant's manager knows of its blocks before their first access, and may
    /// [want](Self::wants) pages.
    pub fn knows_ahead(&self, tenant: TenantId) -> bool {
        self.account(tenant).knows_ahead
    }

    /// Appends the pages that the tenant's manager would have brought in ahead, at most
    /// [`WANTS_MAX`](crate::WANTS_MAX), for `frames_left` frames; none while the manager is revoked. They are
    /// the manager's word: the driver checks them.
    pub fn wants(&mut self, tenant: TenantId, frames_left: u32, out: &mut Vec<Want>) {
        if self.knows_ahead(tenant) && !self.is_revoked(tenant) {
            self.tell(tenant, |control, _| control.wants(frames_left, out));
        }
    }

    /// The oldest wish of the tenant's manager that was not taken yet; none while it is revoked. The driver
    /// asks after questions whose answer was the tenant's, until there is none.
    pub fn take_wish(&mut self, tenant: TenantId) -> Option<Wish> {
        if self.is_revoked(tenant) {
            return None;
        }
        let mut wish = None;
        self.tell(tenant, |control, _| control.take_wish().map(|taken| wish = taken));
        wish
    }

    /// What the program of the tenant's manager did, if it runs one.
    pub fn program_stats(&self, tenant: TenantId) -> Option<ProgramStats> {
        self.account(tenant).control.program_stats()
    }

    /// Shows what the tenant's manager knows of each stream; nothing in the commons. A manager that panics
    /// meanwhile shows no more, and stays.
    pub fn streams(&self, tenant: TenantId, show: &mut dyn FnMut(&StreamReport)) {
        self.streams_from(Some(tenant), 0, usize::MAX, show);
    }

    /// As [`streams`](Self::streams), for `count` streams from the one with number `first` on. Without a
    /// `tenant`, shows those of the manager of the commons. Returns whether there may be more. Costs
    /// O(`count`).
    pub fn streams_from(
        &self,
        tenant: Option<TenantId>,
        first: usize,
        count: usize,
        show: &mut dyn FnMut(&StreamReport),
    ) -> bool {
        let own = tenant.map(|tenant| self.ledger.account(tenant));
        let is_common = own.is_some() && own == self.commons;
        let Some(account) = own.or(self.commons).filter(|_| !is_common && count > 0) else { return false };
        let mut shown = 0;
        let _ = self.ledger.accounts[account.index()].control.streams(first, &mut |stream| {
            show(stream);
            shown += 1;
            shown < count
        });
        shown == count
    }

    /// Tells the tenant's manager of an event; one that panics is dismissed.
    #[inline]
    pub(super) fn tell(
        &mut self,
        tenant: TenantId,
        event: impl FnOnce(&mut Control, &mut FrameTable) -> Result<(), Panicked>,
    ) {
        let account = self.ledger.account(tenant);
        let control = &mut self.ledger.accounts[account.index()].control;
        if control.is_managed() && event(control, &mut self.ledger.frames).is_err() {
            self.dismiss(tenant);
        }
    }

    /// The tenant's manager panicked: the account is unmanaged from now on.
    #[cold]
    pub(super) fn dismiss(&mut self, tenant: TenantId) {
        self.ledger.tenants[tenant.index()].stats.manager_panics += 1;
        let account = self.ledger.account_of(tenant);
        account.knows_ahead = false;
        let control = std::mem::take(&mut account.control);
        drop_control(control, &mut self.ledger.frames);
    }
}
