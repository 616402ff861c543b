//! The invariants of a [`Directory`].

use super::Directory;
use crate::{
    allocation::Allocate,
    frame_table::FrameState,
    ids::{AccountId, FrameId, TenantId},
    manager::Control,
    tenant::{Standing, Tenant},
};

impl Directory {
    /// Recounts everything and panics where it contradicts itself. For tests: costs a step for each frame and
    /// tenant, O(frames x tenants).
    pub fn check_invariants(&self) {
        let listed: usize = (0..self.ledger.accounts.len()).map(|number| self.check_account(number)).sum();
        for (number, tenant) in self.ledger.tenants.iter().enumerate() {
            self.check_tenant(TenantId(number as u32), tenant);
        }
        let all = self.ledger.frames.len();
        let in_state = |state| (0..all).filter(|frame| self.ledger.frames[*frame].state == state).count();
        self.ledger.frames.check_free();
        assert_eq!(listed + in_state(FrameState::Free) + in_state(FrameState::Limbo), all as usize, "frames");
        assert!(listed + in_state(FrameState::Free) <= self.frames() as usize, "more pages than fit");
        self.level_one.check_invariants(&self.ledger);
        for frame in (0..all).filter(|frame| self.ledger.frames.is_present(FrameId(*frame))) {
            let placeholder = self.level_one.placeholder(&self.ledger, self.ledger.frames[frame].page);
            assert_eq!(placeholder, None, "the resident page of frame {frame} has a placeholder");
        }
    }

    /// Returns how many frames the account has.
    fn check_account(&self, number: usize) -> usize {
        let (account, id) = (&self.ledger.accounts[number], AccountId(number as u32));
        self.ledger.check_account(id);
        let list: Vec<u32> = account.ledger.iter(&self.ledger.frames.ledger_links).collect();
        let states = |state| list.iter().filter(|frame| self.ledger.frames[**frame].state == state).count();
        let in_flight = states(FrameState::InFlight) + states(FrameState::AheadInFlight);
        let known = states(FrameState::Resident);
        assert_eq!(in_flight + known + states(FrameState::Ahead), list.len(), "states of account {number}");
        match &account.control {
            Control::Pools(pools) => pools.check_invariants(&self.ledger.frames, known),
            Control::Manager(managed) => managed.check_invariants(),
            Control::None => {}
        }
        if let Some(hints) = &account.hints {
            assert!(!hints.is_empty(), "no list is open");
            let is_own = |frame: u32| self.ledger.account(self.ledger.frames[frame].owner) == id;
            hints.check_invariants(&self.ledger.frames, is_own);
        }
        let members = self.ledger.tenants.iter().filter(|tenant| tenant.account == id);
        let expected = if self.commons == Some(id) { 0..=self.ledger.tenants.len() } else { 1..=1 };
        assert!(account.is_vacant || expected.contains(&members.count()), "members of account {number}");
        let is_known = self.vacant_accounts.iter().any(|vacant| vacant.0 == id);
        assert_eq!(account.is_vacant, is_known, "account {number} is known as vacant");
        assert!(
            !account.is_vacant || list.is_empty() && !account.control.is_managed(),
            "vacant account {number}"
        );
        list.len()
    }

    fn check_tenant(&self, id: TenantId, tenant: &Tenant) {
        let is_own = |frame: &u32| {
            let slot = &self.ledger.frames[*frame];
            slot.owner == id && !matches!(slot.state, FrameState::Free | FrameState::Limbo)
        };
        let own: Vec<u32> = (0..self.ledger.frames.len()).filter(is_own).collect();
        assert_eq!(own.len(), tenant.frames as usize, "frames of {id:?}");
        let is_empty = tenant.standing != Standing::Closed || tenant.frames > 0;
        assert!(
            is_empty && (tenant.standing != Standing::Vacant || tenant.frames == 0),
            "standing of {id:?}"
        );
        let known = self.vacant_tenants.iter().filter(|vacant| vacant.0 == id).count();
        assert_eq!(known, usize::from(tenant.is_in_vacant), "{id:?} is known as vacant");
        assert!(tenant.is_in_vacant || tenant.standing != Standing::Vacant, "{id:?} is known as vacant");
        let stats = &tenant.stats;
        let ahead = own.iter().filter(|frame| self.ledger.frames[**frame].state == FrameState::Ahead).count();
        let unused = stats.prefetched - stats.prefetch_used - stats.prefetch_wasted;
        assert_eq!(ahead as u64, unused, "unused prefetched pages of {id:?}");
        let claims = own.iter().filter(|frame| self.ledger.frames[**frame].has_claim()).count();
        assert_eq!(claims as u64, stats.outstanding, "outstanding overrules of {id:?}");
    }
}
