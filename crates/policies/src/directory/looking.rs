//! Looking, which changes nothing.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{Directory, PageWorth};
use crate::{
    allocation::Allocate,
    frame_table::FrameState,
    ids::{AccountId, ContextId, FrameId, PageId, TenantId},
    list::NIL,
    tenant::{Account, TenantStats},
};

impl Directory {
    /// Whether the page that left last is likely to be missed. None unless departures are
    /// [watched](Self::watch_departures).
    pub fn worth_of_last(&self) -> Option<PageWorth> {
        self.departures.as_ref().map(|departures| departures.last())
    }

    /// References and loads between the last use of the page that left last and its leaving. None unless
    /// departures are [watched](Self::watch_departures).
    pub fn age_of_last(&self) -> Option<u64> {
        self.departures.as_ref().map(|departures| departures.last_age())
    }

    /// Whether a driver may leave out a hit on the page in `frame` that follows another one after a time that
    /// is short compared to the [`span`](Self::span) of the ledger. Such a hit would change only the order
    /// near the ledger's tail. False for blocks of a tenant with directives, with a manager that [asks for
    /// every hit](crate::Manager::needs_every_hit), or with a cap below half of the frames, and for pages
    /// that a list of disclosed reads names.
    pub fn may_skip_hits(&self, frame: FrameId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        let account = self.account(slot.owner);
        account.cap_frames >= self.frames() / 2
            && !account.control.needs_every_hit(slot.page)
            && !self.is_named_by_any(slot.page)
    }

    /// Whether an open list names the page, whoever owns it.
    fn is_named_by_any(&self, page: PageId) -> bool {
        let hints_of = |account: &AccountId| self.ledger.accounts[account.index()].hints.as_ref();
        self.hinted > 0 && self.ledger.hinting.iter().filter_map(hints_of).any(|hints| hints.is_named(page))
    }

    /// References and loads so far: the directory's time.
    pub fn now(&self) -> u64 {
        self.ledger.now as u64
    }

    /// How old pages get, in references and loads: the time since the last use of the candidate that last
    /// made room. All the time there has been, if none has yet.
    pub fn span(&self) -> u64 {
        (self.ledger.now - self.ledger.departed_stamp) as u64
    }

    /// Number of frames, without spare ones: how many pages fit.
    pub fn frames(&self) -> u32 {
        self.capacity
    }

    /// The resident page in `frame`.
    pub fn page(&self, frame: FrameId) -> Option<PageId> {
        self.ledger.frames.is_present(frame).then(|| self.ledger.frames[frame.0].page)
    }

    /// Whose block is in `frame`.
    pub fn owner(&self, frame: FrameId) -> Option<TenantId> {
        self.ledger.frames.is_present(frame).then(|| self.ledger.frames[frame.0].owner)
    }

    /// From where the block in `frame` was loaded.
    pub fn context(&self, frame: FrameId) -> ContextId {
        self.ledger.frames.origin(frame.0).context
    }

    /// Whether `frame` has `page`, brought in [ahead](Self::admit_ahead) and not accessed since.
    pub fn is_ahead(&self, frame: FrameId, page: PageId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        slot.page == page && slot.state == FrameState::Ahead
    }

    /// As [`is_ahead`](Self::is_ahead), for a page that is still on its way.
    pub fn is_ahead_in_flight(&self, frame: FrameId, page: PageId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        slot.page == page && slot.state == FrameState::AheadInFlight
    }

    /// Pages that came in so far, missed, created or ahead.
    pub fn arrivals(&self) -> u64 {
        self.ledger.arrivals
    }

    /// References and loads since the page in `frame` was referenced or loaded.
    pub fn age(&self, frame: FrameId) -> u64 {
        self.ledger.now as u64 - self.ledger.frames[frame.0].last_reference
    }

    /// Frames that `tenant` owns, those in flight included.
    pub fn resident(&self, tenant: TenantId) -> u32 {
        self.ledger.tenants[tenant.index()].frames
    }

    /// The frames that no other tenant can take from the tenant.
    pub fn floor_frames(&self, tenant: TenantId) -> u32 {
        self.account(tenant).floor_frames
    }

    /// The most frames that the tenant may have, at most all.
    pub fn cap_frames(&self, tenant: TenantId) -> u32 {
        self.account(tenant).cap_frames
    }

    /// All floors together.
    pub fn floors_frames(&self) -> u64 {
        self.ledger.floors_frames()
    }

    /// The account that the tenant has alone or in common with others.
    pub(super) fn account(&self, tenant: TenantId) -> &Account {
        &self.ledger.accounts[self.ledger.account(tenant).index()]
    }

    /// Whether the tenant has more frames than its cap, which was lowered while they were busy.
    pub fn is_above_cap(&self, tenant: TenantId) -> bool {
        let account = self.account(tenant);
        account.ledger.len() > account.cap_frames
    }

    /// Whether the tenant's blocks are in the [commons](Self::join_commons).
    pub fn is_in_commons(&self, tenant: TenantId) -> bool {
        self.commons == Some(self.ledger.account(tenant))
    }

    /// Counts of one tenant.
    pub fn tenant_stats(&self, tenant: TenantId) -> TenantStats {
        self.ledger.tenants[tenant.index()].stats
    }

    /// Counts of all tenants, past ones included.
    pub fn stats(&self) -> TenantStats {
        let mut sum = self.departed;
        self.ledger.tenants.iter().for_each(|tenant| sum.add(&tenant.stats));
        sum
    }

    /// Appends to `out` the `count` resident frames nearest the ledger's head, nearest first: the pages that
    /// plain LRU would evict next, or FIFO under [`Allocation::Fifo2Sp`](crate::Allocation::Fifo2Sp), whose
    /// ledger is in the order of arrival. Costs O((count + accounts) log accounts) and allocates.
    pub fn coldest(&self, count: usize, out: &mut Vec<FrameId>) {
        let heads =
            self.ledger.accounts.iter().map(|account| account.ledger.head()).filter(|head| *head != NIL);
        let mut next: BinaryHeap<_> =
            heads.map(|head| Reverse((self.ledger.frames[head].stamp, head))).collect();
        let wanted = out.len() + count;
        while out.len() < wanted {
            let Some(Reverse((_, frame))) = next.pop() else { break };
            if self.ledger.frames[frame].state == FrameState::Resident {
                out.push(FrameId(frame));
            }
            let after = self.ledger.frames.ledger_links.next(frame);
            if after != NIL {
                next.push(Reverse((self.ledger.frames[after].stamp, after)));
            }
        }
    }

    /// Bytes of memory held, managers included.
    pub fn metadata_bytes(&self) -> usize {
        let controls = self.ledger.accounts.iter().map(|account| account.control.metadata_bytes());
        // Managers may say anything.
        let controls = controls.fold(0, usize::saturating_add);
        let own = self.ledger.metadata_bytes()
            + self.level_one.metadata_bytes()
            + self.foreign.capacity() * size_of::<i64>()
            + self.departures.as_ref().map_or(0, |departures| departures.metadata_bytes())
            + self.vacant_tenants.capacity() * size_of::<TenantId>()
            + self.vacant_accounts.capacity() * size_of::<AccountId>()
            + self
                .ledger
                .accounts
                .iter()
                .filter_map(|account| account.hints.as_ref())
                .map(|hints| hints.metadata_bytes())
                .sum::<usize>();
        own.saturating_add(controls)
    }
}
