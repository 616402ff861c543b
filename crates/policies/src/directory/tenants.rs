//! Tenants: opening and closing, shares, managers, directives.

use std::ops::RangeInclusive;

use super::{DEFAULT_TENANT, Directory};
use crate::{
    allocation::revocation::Revocation,
    classic::PolicyKind,
    error::{DirectiveError, DirectoryError},
    frame_table::{FrameTable, LEDGER, List, State},
    ids::{FrameId, PageId, TenantId},
    manager::{
        Control, Manager, PriorityPools, drop_control,
        priority_pools::{PRIORITIES, Resident},
    },
    tenant::{Standing, Tenant},
};

impl Directory {
    /// Opens an unmanaged tenant. `floor_frames` cannot be taken by others; it may not exceed `cap_frames`.
    pub fn open_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> Result<TenantId, DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        self.check_share(0, floor_frames, cap_frames)?;
        Ok(self.add_tenant(floor_frames, cap_frames))
    }

    /// Closes a tenant: its blocks become unmanaged and stay where they are, its placeholders die.
    pub fn close_tenant(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        if tenant == DEFAULT_TENANT {
            return Err(DirectoryError::DefaultTenant);
        }
        self.open(tenant)?;
        self.set_floor(tenant, 0)?;
        let state = &mut self.tenants[tenant.index()];
        state.standing = Standing::Closed;
        state.account = None;
        drop_control(std::mem::take(&mut state.control));
        let claimed: Vec<u32> =
            state.ledger.iter(&self.frames).filter(|frame| self.frames[*frame].has_claim).collect();
        claimed.into_iter().for_each(|frame| self.end_claim(frame));
        for member in self.tenants.iter_mut().filter(|member| member.account == Some(tenant)) {
            member.account = None;
        }
        self.vacate_tenant(tenant);
        Ok(())
    }

    /// From now on the pages that `tenant` loads belong to `account`: they share its part of the ledger, its manager, its
    /// floor and its cap, and are not protected from each other. Accesses, hits and misses stay `tenant`'s. It ends with the
    /// first manager, directive, floor or cap of the tenant's own; what it loaded meanwhile stays with `account`.
    pub fn join(&mut self, tenant: TenantId, account: TenantId) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        let is_account = self.open(account)?.account.is_none() && tenant != account;
        let has_members = self.tenants.iter().any(|member| member.account == Some(tenant));
        if !is_account || has_members {
            return Err(DirectoryError::NoAccount { tenant: if has_members { tenant } else { account } });
        }
        self.tenants[tenant.index()].account = Some(account);
        Ok(())
    }

    /// Sets the frames that no other tenant can take.
    pub fn set_floor(&mut self, tenant: TenantId, floor_frames: u32) -> Result<(), DirectoryError> {
        let state = self.open(tenant)?;
        let (before, cap_frames) = (state.floor_frames, state.cap_frames);
        self.check_share(before, floor_frames, cap_frames)?;
        let had_floors = self.floors_frames > 0;
        self.floors_frames = self.floors_frames - u64::from(before) + u64::from(floor_frames);
        self.tenants[tenant.index()].floor_frames = floor_frames;
        self.tenants[tenant.index()].account = None;
        if !had_floors {
            (0..self.tenants.len()).for_each(|t| self.ledger_changed(TenantId(t as u32)));
        }
        self.ledger_changed(tenant);
        Ok(())
    }

    /// Sets the frames the tenant may not exceed, at least 1. Lowering it takes effect through
    /// [`shrink`](Self::shrink).
    pub fn set_cap(&mut self, tenant: TenantId, cap_frames: u32) -> Result<(), DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        let floor_frames = self.open(tenant)?.floor_frames;
        self.check_share(floor_frames, floor_frames, cap_frames)?;
        self.tenants[tenant.index()].cap_frames = cap_frames;
        self.tenants[tenant.index()].account = None;
        Ok(())
    }

    /// Gives the tenant a manager; an earlier one, or its directives, are dropped. If `yields_to_directives`, the
    /// tenant's first directive replaces it.
    pub fn set_manager(
        &mut self,
        tenant: TenantId,
        manager: Box<dyn Manager>,
        yields_to_directives: bool,
    ) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::Manager { manager, yields_to_directives });
        Ok(())
    }

    /// Makes the tenant unmanaged.
    pub fn clear_manager(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::None);
        Ok(())
    }

    /// Which policy picks the victim among the tenant's blocks of `priority`.
    pub fn set_policy(
        &mut self,
        tenant: TenantId,
        priority: i32,
        policy: PolicyKind,
    ) -> Result<(), DirectiveError> {
        self.direct(tenant, |pools, frames| pools.set_policy(frames, priority, policy))
    }

    /// The policy of a level; LRU where none was set.
    pub fn policy(&self, tenant: TenantId, priority: i32) -> Result<PolicyKind, DirectiveError> {
        match self.tenants.get(tenant.index()).map(|tenant| &tenant.control) {
            Some(Control::Pools(pools)) => pools.policy(priority),
            _ if PRIORITIES.contains(&priority) => Ok(PolicyKind::Lru),
            _ => Err(DirectiveError::PriorityOutOfRange { priority }),
        }
    }

    /// Gives `pages` a long-term priority for the tenant; the latest range over a page counts. Returns how many
    /// resident blocks moved. `frame_of` finds the frame of a resident page.
    pub fn set_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, |pools, frames| {
            pools.set_priority(frames, &pages, priority, &mut Resident { tenant, frame_of: &mut frame_of })
        })
    }

    /// The long-term priority of `page` for the tenant.
    pub fn priority(&self, tenant: TenantId, page: PageId) -> i32 {
        match self.tenants.get(tenant.index()).map(|tenant| &tenant.control) {
            Some(Control::Pools(pools)) => pools.priority(page),
            _ => 0,
        }
    }

    /// Gives those of `pages` that are resident and the tenant's own a priority until their next reference or
    /// replacement. Returns how many. `frame_of` finds the frame of a resident page.
    pub fn set_temporary_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, |pools, frames| {
            let mut resident = Resident { tenant, frame_of: &mut frame_of };
            pools.set_temporary_priority(frames, &pages, priority, &mut resident)
        })
    }

    fn open(&self, tenant: TenantId) -> Result<&Tenant, DirectoryError> {
        match self.tenants.get(tenant.index()) {
            Some(state) if state.standing == Standing::Open => Ok(state),
            _ => Err(DirectoryError::UnknownTenant { tenant }),
        }
    }

    /// Whether a floor of `before` may become `floor_frames` under `cap_frames`.
    fn check_share(&self, before: u32, floor_frames: u32, cap_frames: u32) -> Result<(), DirectoryError> {
        let floors_frames = self.floors_frames - u64::from(before) + u64::from(floor_frames);
        if floors_frames > u64::from(self.frames()) {
            return Err(DirectoryError::FloorsTooLarge { floors_frames, limit_frames: self.frames() });
        }
        if cap_frames == 0 || floor_frames > cap_frames {
            return Err(DirectoryError::CapBelowFloor { floor_frames, cap_frames });
        }
        Ok(())
    }

    pub(super) fn add_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> TenantId {
        let revocation = Revocation::new(self.frames(), self.revocation);
        let new = Tenant::new(0, cap_frames, revocation);
        let vacant = self.tenants.iter().position(|tenant| tenant.standing == Standing::Vacant);
        let tenant = TenantId(vacant.unwrap_or(self.tenants.len()) as u32);
        match vacant {
            Some(vacant) => {
                self.departed.add(&self.tenant_stats(tenant));
                self.tenants[vacant] = new;
            }
            None => self.tenants.push(new),
        }
        self.all_heads.grow(self.tenants.len());
        self.open_heads.grow(self.tenants.len());
        if floor_frames > 0 {
            self.set_floor(tenant, floor_frames).expect("checked by the caller");
        }
        tenant
    }

    /// A closed tenant's slot is vacant once its last block has gone.
    pub(super) fn vacate_tenant(&mut self, tenant: TenantId) {
        let state = &mut self.tenants[tenant.index()];
        if state.standing == Standing::Closed && state.ledger.len == 0 {
            state.standing = Standing::Vacant;
        }
    }

    /// Hands the tenant's resident blocks to a new manager, in ledger order.
    fn adopt(&mut self, tenant: TenantId, mut control: Control) {
        let ledger: List<LEDGER> = self.tenants[tenant.index()].ledger;
        let resident = |frames: &FrameTable, frame: &u32| frames[*frame].state == State::Resident;
        let blocks: Vec<u32> =
            ledger.iter(&self.frames).filter(|frame| resident(&self.frames, frame)).collect();
        let adopted = blocks.into_iter().try_for_each(|frame| control.new_block(&mut self.frames, frame));
        let judges_itself = control.judges_itself();
        let state = &mut self.tenants[tenant.index()];
        state.account = None;
        state.revocation.set_enabled(self.revocation && !judges_itself);
        drop_control(std::mem::replace(&mut state.control, control));
        if adopted.is_err() {
            self.dismiss(tenant);
        }
    }

    /// Carries out a directive. The tenant is managed from its first one that succeeds.
    fn direct<R>(
        &mut self,
        tenant: TenantId,
        directive: impl FnOnce(&mut PriorityPools, &mut FrameTable) -> Result<R, DirectiveError>,
    ) -> Result<R, DirectiveError> {
        self.open(tenant).map_err(|_| DirectiveError::UnknownTenant { tenant })?;
        let account = self.tenants[tenant.index()].account;
        let before = match &self.tenants[tenant.index()].control {
            Control::Pools(_) => None,
            Control::Manager { yields_to_directives: false, .. } => {
                return Err(DirectiveError::HasManager { tenant });
            }
            Control::None | Control::Manager { .. } => {
                let before = std::mem::take(&mut self.tenants[tenant.index()].control);
                self.frames.add_pool_links();
                self.adopt(tenant, Control::Pools(Box::new(PriorityPools::new())));
                Some(before)
            }
        };
        let Control::Pools(pools) = &mut self.tenants[tenant.index()].control else {
            unreachable!("priority pools do not panic")
        };
        let result = directive(pools, &mut self.frames);
        if let (Err(_), Some(before)) = (&result, before) {
            let state = &mut self.tenants[tenant.index()];
            state.revocation.set_enabled(self.revocation && !before.judges_itself());
            (state.control, state.account) = (before, account);
        }
        result
    }
}
