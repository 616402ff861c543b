//! Tenants: opening and closing, shares, managers, directives.

use std::{cmp::Reverse, ops::RangeInclusive};

use super::{DEFAULT_TENANT, Directory};
use crate::{
    allocation::Allocate,
    classic::PolicyKind,
    error::{DirectiveError, DirectoryError},
    frame_table::{FrameState, FrameTable},
    ids::{AccountId, FrameId, PageId, TenantId},
    manager::{
        Control, Managed, Manager, PriorityPools, SendError, drop_control,
        priority_pools::{Resident, checked, checked_range},
    },
    tenant::{Account, Standing, Tenant},
};

impl Directory {
    /// Opens an unmanaged tenant. `floor_frames` cannot be taken by others; it may not exceed `cap_frames`. A
    /// cap above the number of frames counts as that number.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::FloorsTooLarge`] if all floors together would be more than there are frames;
    /// [`DirectoryError::CapBelowFloor`] if the cap is 0 or below the floor.
    pub fn open_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> Result<TenantId, DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        self.check_limits(0, floor_frames, cap_frames)?;
        Ok(self.add_tenant(floor_frames, cap_frames))
    }

    /// Opens a *privileged* tenant: `frames` are its floor and its cap. While it has fewer, it takes those of
    /// others before its own. No placeholder points to its frames, so nobody ever takes one, and its manager
    /// is not judged: what it costs it costs its own tenant.
    ///
    /// # Errors
    ///
    /// As [`open_tenant`](Self::open_tenant).
    pub fn open_privileged(&mut self, frames: u32) -> Result<TenantId, DirectoryError> {
        let tenant = self.open_tenant(frames, frames)?;
        self.ledger.account_of(tenant).is_granted = true;
        Ok(tenant)
    }

    /// Closes a tenant: its blocks become unmanaged and stay where they are, its placeholders die. In the
    /// commons, blocks stay managed as those of the other members. Costs a step for each frame of its
    /// account.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::DefaultTenant`] for the default tenant; [`DirectoryError::UnknownTenant`].
    pub fn close_tenant(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        if tenant == DEFAULT_TENANT {
            return Err(DirectoryError::DefaultTenant);
        }
        self.open(tenant)?;
        self.close_all_hints(tenant);
        self.set_floor(tenant, 0)?;
        self.ledger.tenants[tenant.index()].standing = Standing::Closed;
        if !self.is_in_commons(tenant) {
            let account = self.ledger.account_of(tenant);
            account.knows_ahead = false;
            let control = std::mem::take(&mut account.control);
            drop_control(control, &mut self.ledger.frames);
        }
        let mut claimed = self.blocks(tenant);
        claimed.retain(|frame| self.ledger.frames[*frame].has_claim());
        claimed.into_iter().for_each(|frame| self.level_one.claim_ended(&mut self.ledger, frame));
        self.vacate_tenant(tenant);
        Ok(())
    }

    /// The tenant joins the commons: one account for all who want nothing of their own, with one manager,
    /// which `manager` makes for the first of them. Members share its place in the ledger and are not
    /// protected from each other; what they own and what is counted stays each one's.
    ///
    /// A tenant leaves for good with its first manager, directive, floor or cap, and takes its blocks along.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::UnknownTenant`]; [`DirectoryError::NotCommon`] if it has blocks, a floor, a cap, a
    /// manager or an open list of disclosed reads.
    pub fn join_commons(
        &mut self,
        tenant: TenantId,
        manager: impl FnOnce() -> Box<dyn Manager>,
    ) -> Result<(), DirectoryError> {
        let blocks = self.open(tenant)?.frames;
        if self.is_in_commons(tenant) {
            return Ok(());
        }
        let own = self.account(tenant);
        let has_limits = own.floor_frames > 0 || own.cap_frames < self.frames();
        if blocks > 0 || has_limits || own.control.is_managed() || own.hints.is_some() {
            return Err(DirectoryError::NotCommon { tenant });
        }
        match self.commons {
            Some(commons) => {
                self.ledger.account_of(tenant).is_vacant = true;
                self.vacant_accounts.push(Reverse(self.ledger.account(tenant)));
                self.ledger.tenants[tenant.index()].account = commons;
            }
            None => {
                self.adopt(tenant, Control::by(manager(), true));
                self.commons = Some(self.ledger.account(tenant));
            }
        }
        Ok(())
    }

    /// Sets the number of frames that no other tenant can take. A change takes the tenant out of the commons.
    ///
    /// # Errors
    ///
    /// As [`open_tenant`](Self::open_tenant); [`DirectoryError::UnknownTenant`]. Nothing has changed then.
    pub fn set_floor(&mut self, tenant: TenantId, floor_frames: u32) -> Result<(), DirectoryError> {
        let account = self.open_account(tenant)?;
        let (before, cap_frames) = (account.floor_frames, account.cap_frames);
        self.check_limits(before, floor_frames, cap_frames)?;
        if floor_frames == before {
            return Ok(());
        }
        let account = self.leave_commons(tenant);
        self.ledger.accounts[account.index()].is_granted = false;
        self.ledger.set_floor(account, floor_frames);
        self.level_one.share_changed(&mut self.ledger, account);
        Ok(())
    }

    /// Sets the number of frames that the tenant may not exceed, at least 1. A lower cap takes effect through
    /// [`shrink`](Self::shrink). A change takes the tenant out of the commons.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::CapBelowFloor`] if it is 0 or below the floor; [`DirectoryError::UnknownTenant`].
    /// Nothing has changed then.
    pub fn set_cap(&mut self, tenant: TenantId, cap_frames: u32) -> Result<(), DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        let account = self.open_account(tenant)?;
        let (floor_frames, before) = (account.floor_frames, account.cap_frames);
        self.check_limits(floor_frames, floor_frames, cap_frames)?;
        if cap_frames != before {
            let id = self.leave_commons(tenant);
            let account = &mut self.ledger.accounts[id.index()];
            (account.cap_frames, account.is_granted) = (cap_frames, false);
            if let Control::Pools(pools) = &mut account.control {
                pools.set_cap(cap_frames);
            }
            self.level_one.share_changed(&mut self.ledger, id);
        }
        Ok(())
    }

    /// Gives the tenant a manager; an earlier one, or its directives, are dropped. The new manager is told of
    /// the tenant's blocks, a step for each. If it `yields_to_directives`, the tenant's first directive
    /// replaces it.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::UnknownTenant`].
    pub fn set_manager(
        &mut self,
        tenant: TenantId,
        manager: Box<dyn Manager>,
        yields_to_directives: bool,
    ) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::by(manager, yields_to_directives));
        Ok(())
    }

    /// Makes the tenant unmanaged.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::UnknownTenant`].
    pub fn clear_manager(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::None);
        Ok(())
    }

    /// Sets the `int` that the program of the tenant's manager calls `slot`.
    ///
    /// # Errors
    ///
    /// If the tenant is not open or runs no program, or the program has no such `int`. Nothing has changed
    /// then.
    pub fn send(&mut self, tenant: TenantId, slot: &str, value: i64) -> Result<(), SendError> {
        self.open(tenant).map_err(|_| SendError::NoProgram)?;
        let mut sent = Err(SendError::NoProgram);
        self.tell(tenant, |control, _| control.send(slot, value).map(|answer| sent = answer));
        sent
    }

    /// Which policy picks the victim among the tenant's blocks of `priority`.
    ///
    /// # Errors
    ///
    /// All directives: [`DirectiveError::UnknownTenant`]; [`DirectiveError::HasManager`] if the tenant has a
    /// manager that does not yield to directives; [`DirectiveError::PriorityOutOfRange`] if the priority is
    /// none of [`PRIORITIES`](crate::PRIORITIES). Nothing has changed then.
    pub fn set_policy(
        &mut self,
        tenant: TenantId,
        priority: i32,
        policy: PolicyKind,
    ) -> Result<(), DirectiveError> {
        self.direct(tenant, checked(priority), |pools, frames| pools.set_policy(frames, priority, policy))
    }

    /// The policy of a level; LRU where none was set.
    ///
    /// # Errors
    ///
    /// [`DirectiveError::PriorityOutOfRange`].
    pub fn policy(&self, tenant: TenantId, priority: i32) -> Result<PolicyKind, DirectiveError> {
        checked(priority)?;
        self.pools(tenant).map_or(Ok(PolicyKind::Lru), |pools| pools.policy(priority))
    }

    /// Gives `pages` a long-term priority for the tenant; the latest range over a page counts. Returns how
    /// many resident blocks moved. `frame_of` finds the frame of a resident page.
    ///
    /// # Errors
    ///
    /// As [`set_policy`](Self::set_policy); [`DirectiveError::InvertedRange`] for a range that is inverted;
    /// [`DirectiveError::TooManyRanges`].
    pub fn set_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, checked_range(&pages, priority), |pools, frames| {
            pools.set_priority(frames, &pages, priority, &mut Resident { tenant, frame_of: &mut frame_of })
        })
    }

    /// Ends all tenants' long-term priorities of `pages`, none of which is resident or will be: the file that
    /// they are all of is closed for good.
    pub fn end_priorities(&mut self, pages: &RangeInclusive<PageId>) {
        for account in &mut self.ledger.accounts {
            if let Control::Pools(pools) = &mut account.control {
                pools.end_priorities(pages);
            }
        }
    }

    /// The long-term priority of `page` for the tenant.
    pub fn priority(&self, tenant: TenantId, page: PageId) -> i32 {
        self.pools(tenant).map_or(0, |pools| pools.priority(page))
    }

    /// Gives those of `pages` that are resident and the tenant's own a priority until their next reference or
    /// replacement. Returns how many. `frame_of` finds the frame of a resident page.
    ///
    /// # Errors
    ///
    /// As [`set_policy`](Self::set_policy); [`DirectiveError::InvertedRange`] for a range that is inverted.
    pub fn set_temporary_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, checked_range(&pages, priority), |pools, frames| {
            let mut resident = Resident { tenant, frame_of: &mut frame_of };
            pools.set_temporary_priority(frames, &pages, priority, &mut resident)
        })
    }

    /// Fails unless the tenant is open.
    pub(super) fn check_tenant_open(&self, tenant: TenantId) -> Result<(), DirectoryError> {
        self.open(tenant).map(drop)
    }

    fn open(&self, tenant: TenantId) -> Result<&Tenant, DirectoryError> {
        match self.ledger.tenants.get(tenant.index()) {
            Some(state) if state.standing == Standing::Open => Ok(state),
            _ => Err(DirectoryError::UnknownTenant { tenant }),
        }
    }

    fn open_account(&self, tenant: TenantId) -> Result<&Account, DirectoryError> {
        Ok(&self.ledger.accounts[self.open(tenant)?.account.index()])
    }

    /// What the tenant's directives came to, if it gave any.
    fn pools(&self, tenant: TenantId) -> Option<&PriorityPools> {
        let account = self.ledger.tenants.get(tenant.index())?.account;
        match &self.ledger.accounts[account.index()].control {
            Control::Pools(pools) => Some(pools),
            Control::None | Control::Manager(_) => None,
        }
    }

    /// The tenant's frames, in ledger order. Costs a step for each frame of its account.
    fn blocks(&self, tenant: TenantId) -> Vec<u32> {
        let account = self.account(tenant).ledger.iter(&self.ledger.frames.ledger_links);
        account.filter(|frame| self.ledger.frames[*frame].owner == tenant).collect()
    }

    /// Whether a floor of `before` may become `floor_frames` under `cap_frames`.
    fn check_limits(&self, before: u32, floor_frames: u32, cap_frames: u32) -> Result<(), DirectoryError> {
        let floors_frames = self.ledger.floors_frames() - u64::from(before) + u64::from(floor_frames);
        if floors_frames > u64::from(self.frames()) {
            return Err(DirectoryError::FloorsTooLarge { floors_frames, limit_frames: self.frames() });
        }
        if cap_frames == 0 || floor_frames > cap_frames {
            return Err(DirectoryError::CapBelowFloor { floor_frames, cap_frames });
        }
        Ok(())
    }

    pub(super) fn add_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> TenantId {
        if self.shared_pages && !self.ledger.tenants.is_empty() && self.foreign.is_empty() {
            self.foreign = vec![i64::MIN; self.ledger.frames.len() as usize];
            self.accessors_changed();
        }
        let vacant = self.take_vacant();
        let tenant = vacant.unwrap_or(TenantId(self.ledger.tenants.len() as u32));
        let account = match vacant {
            // As new, but for its cap.
            Some(_) if !self.is_in_commons(tenant) => {
                self.ledger.account_of(tenant).cap_frames = cap_frames;
                self.ledger.account(tenant)
            }
            _ => self.add_account(cap_frames),
        };
        match vacant {
            Some(vacant) => {
                self.departed.add(&self.ledger.tenants[vacant.index()].stats);
                self.ledger.tenants[vacant.index()] = Tenant::new(account);
            }
            None => {
                self.ledger.tenants.push(Tenant::new(account));
                // Nothing is allocated when the last block of a closed tenant goes.
                self.vacant_tenants.reserve(self.ledger.tenants.len() - self.vacant_tenants.len());
            }
        }
        if floor_frames > 0 {
            self.set_floor(tenant, floor_frames).expect("checked by the caller");
        }
        tenant
    }

    /// The lowest number of a vacant slot.
    fn take_vacant(&mut self) -> Option<TenantId> {
        while let Some(Reverse(tenant)) = self.vacant_tenants.pop() {
            let state = &mut self.ledger.tenants[tenant.index()];
            state.is_in_vacant = false;
            // A slot in any other state has a block again, which an access under way brought in. It becomes
            // vacant again when that block goes.
            if state.standing == Standing::Vacant {
                return Some(tenant);
            }
        }
        None
    }

    /// An empty account without floor and manager.
    pub(super) fn add_account(&mut self, cap_frames: u32) -> AccountId {
        let new = Account::new(cap_frames);
        let vacant = self.vacant_accounts.pop().map(|Reverse(account)| account);
        let account = vacant.unwrap_or(AccountId(self.ledger.accounts.len() as u32));
        match vacant {
            Some(vacant) => self.ledger.accounts[vacant.index()] = new,
            None => self.ledger.accounts.push(new),
        }
        self.ledger.accounts_added();
        self.level_one.account_opened(account);
        account
    }

    /// The slot of a closed tenant is vacant once its last block has gone. Its place in the commons, or an
    /// account like that of a new tenant, stays with the slot: an access that was under way may still bring a
    /// block in.
    pub(super) fn vacate_tenant(&mut self, tenant: TenantId) {
        let state = &mut self.ledger.tenants[tenant.index()];
        if state.standing == Standing::Closed && state.frames == 0 {
            state.standing = Standing::Vacant;
            if !std::mem::replace(&mut state.is_in_vacant, true) {
                self.vacant_tenants.push(Reverse(tenant));
            }
            if !self.is_in_commons(tenant) {
                *self.ledger.account_of(tenant) = Account::new(self.frames());
                self.level_one.account_opened(self.ledger.account(tenant));
            }
        }
    }

    /// A tenant of the commons gets an account of its own, without a manager, and takes its blocks along:
    /// their order, and the claims on them, are those that they had. It does not answer for the claims, which
    /// the commons' manager made. Returns the tenant's account.
    fn leave_commons(&mut self, tenant: TenantId) -> AccountId {
        let commons = self.ledger.account(tenant);
        if self.commons != Some(commons) {
            return commons;
        }
        self.end_all_hints(tenant);
        let own = self.add_account(self.frames());
        let blocks = self.blocks(tenant);
        for frame in &blocks {
            if self.is_known(*frame) {
                self.tell(tenant, |control, frames| control.block_gone(frames, *frame, false));
            }
            if let Some(hints) = &mut self.ledger.accounts[commons.index()].hints {
                hints.left(self.ledger.frames[*frame].page);
            }
            self.ledger.accounts[commons.index()].ledger.remove(&mut self.ledger.frames.ledger_links, *frame);
            self.ledger.accounts[own.index()].ledger.push_tail(&mut self.ledger.frames.ledger_links, *frame);
        }
        self.ledger.tenants[tenant.index()].account = own;
        self.ledger.ledger_changed(commons);
        self.ledger.ledger_changed(own);
        self.level_one.manager_changed(&mut self.ledger, own, false);
        own
    }

    /// Hands the tenant's resident blocks to a new manager, in ledger order. It does not answer for the
    /// claims on them.
    fn adopt(&mut self, tenant: TenantId, mut control: Control) {
        let account = self.leave_commons(tenant);
        // Dropped before the new manager hears of the blocks: managers that learn together share what they
        // know of frames, and the old one withdraws its blocks when it is dropped.
        let earlier = std::mem::replace(&mut self.ledger.accounts[account.index()].control, Control::None);
        drop_control(earlier, &mut self.ledger.frames);
        let mut blocks = self.blocks(tenant);
        let knows_ahead = control.knows_ahead();
        blocks.retain(|frame| self.ledger.frames.is_present(FrameId(*frame)));
        let adopted = blocks.into_iter().try_for_each(|frame| match self.ledger.frames[frame].state {
            FrameState::Ahead if knows_ahead => control.block_ahead(&self.ledger.frames, frame),
            FrameState::Ahead => Ok(()),
            _ => control.new_block(&mut self.ledger.frames, frame),
        });
        let judges_itself = control.judges_itself();
        self.level_one.manager_changed(&mut self.ledger, account, judges_itself);
        let account = &mut self.ledger.accounts[account.index()];
        account.knows_ahead = knows_ahead;
        account.control = control;
        if adopted.is_err() {
            self.dismiss(tenant);
        }
    }

    /// Carries out a directive, unless what was `checked` of it is an error. The tenant is managed from its
    /// first one on.
    fn direct<R>(
        &mut self,
        tenant: TenantId,
        checked: Result<i8, DirectiveError>,
        directive: impl FnOnce(&mut PriorityPools, &mut FrameTable) -> Result<R, DirectiveError>,
    ) -> Result<R, DirectiveError> {
        let account = self.open_account(tenant).map_err(|_| DirectiveError::UnknownTenant { tenant })?;
        let has_pools = match account.control {
            Control::Pools(_) => true,
            Control::Manager(Managed { yields_to_directives: false, .. }) => {
                return Err(DirectiveError::HasManager { tenant });
            }
            Control::None | Control::Manager(_) => false,
        };
        checked?;
        if !has_pools {
            self.ledger.frames.add_pool_links();
            let cap_frames = self.ledger.account_of(tenant).cap_frames;
            self.adopt(tenant, Control::Pools(Box::new(PriorityPools::new(cap_frames))));
        }
        // From here on a directive can be refused only for one range too many. A first directive is not, so a
        // refused one never changes who manages.
        let account = self.ledger.account(tenant);
        let Control::Pools(pools) = &mut self.ledger.accounts[account.index()].control else {
            unreachable!("priority pools do not panic")
        };
        directive(pools, &mut self.ledger.frames)
    }
}
