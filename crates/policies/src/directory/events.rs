//! Events: what the driver says has happened to pages.

use std::ops::RangeInclusive;

use super::Directory;
use crate::{
    allocation::{Allocate, Arrival},
    frame_table::{FrameState, Origin},
    ids::{Access, AccountId, ContextId, FileId, FrameId, PageId, TenantId},
    tenant::Standing,
};

/// What a hit meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitOutcome {
    /// Whether the block stayed by an overrule that thereby turned out right.
    pub vindicated: bool,
    /// Whether this was the first access to a page that came in ahead.
    pub first: bool,
}

impl Directory {
    /// `access` found its page in `frame`, which is resident.
    pub fn hit(&mut self, frame: FrameId, access: &Access) -> HitOutcome {
        debug_assert!(
            self.ledger.frames.is_present(frame) && self.ledger.frames[frame.0].page == access.page
        );
        let stats = &mut self.ledger.tenants[access.tenant.index()].stats;
        stats.accesses += 1;
        stats.hits += 1;
        // The first access to a page that came in ahead is the one that it came in for.
        if let Some(departures) = &mut self.departures
            && self.ledger.frames[frame.0].state != FrameState::Ahead
        {
            departures.accessed(frame);
        }
        self.reference(frame.0, access)
    }

    /// `hits` accesses of `tenant` found their pages and were not told one by one, as
    /// [`may_skip_hits`](Self::may_skip_hits) allows. They count, and move nothing.
    pub fn hits_skipped(&mut self, tenant: TenantId, hits: u64) {
        let state = &mut self.ledger.tenants[tenant.index()];
        state.stats.accesses += hits;
        state.stats.hits += hits;
        self.accessed(self.ledger.account(tenant), hits);
    }

    /// The page admitted to `frame` has been read. A driver that keeps the page busy until it has been read
    /// may tell this at once; if the read then fails, it tells [`failed`](Self::failed) as well.
    pub fn loaded(&mut self, frame: FrameId) {
        let owner = self.ledger.frames[frame.0].owner;
        let page = self.ledger.frames[frame.0].page;
        if let Some(hints) = &mut self.ledger.account_of(owner).hints {
            hints.arrived(page, frame.0);
        }
        if self.ledger.frames[frame.0].state == FrameState::AheadInFlight {
            self.ledger.frames[frame.0].state = FrameState::Ahead;
            self.ledger.tenants[owner.index()].stats.prefetched += 1;
            if self.knows_ahead(owner) {
                self.tell(owner, |control, frames| control.block_ahead(frames, frame.0));
            }
            return;
        }
        debug_assert_eq!(self.ledger.frames[frame.0].state, FrameState::InFlight);
        self.ledger.frames[frame.0].state = FrameState::Resident;
        self.tell(owner, |control, frames| control.new_block(frames, frame.0));
    }

    /// The page admitted to `frame` for `tenant` could not be read: the frame is free, and no access is
    /// counted.
    pub fn failed(&mut self, frame: FrameId, tenant: TenantId) {
        self.withdraw(frame.0, tenant);
        self.ledger.frames.push_free(frame.0);
    }

    /// As [`failed`](Self::failed), but `frame` cannot be used yet: it is the driver's, like a spare one,
    /// until it [releases](Self::release) it.
    pub fn set_aside(&mut self, frame: FrameId, tenant: TenantId) {
        self.withdraw(frame.0, tenant);
    }

    /// The victim that [`admit`](Self::admit) named could not be written, so `frame` holds it again: `page`
    /// of `file`, owned by `owner` and referenced just now. The access by `tenant` is not counted. A closed
    /// owner whose last block this was has it again.
    pub fn restore(&mut self, frame: FrameId, page: PageId, file: FileId, owner: TenantId, tenant: TenantId) {
        if matches!(self.ledger.frames[frame.0].state, FrameState::InFlight | FrameState::AheadInFlight) {
            self.withdraw(frame.0, tenant);
        }
        debug_assert_eq!(self.ledger.frames[frame.0].state, FrameState::Limbo);
        let evictions = &mut self.ledger.tenants[owner.index()].stats.evictions;
        // The number may be another tenant's by now, which has not counted it.
        *evictions = evictions.saturating_sub(1);
        if let Some(claimed) = self.level_one.placeholder(&self.ledger, page) {
            self.level_one.placeholder_met(&mut self.ledger, claimed, Arrival::Restored);
        }
        let origin = Origin { file, context: ContextId(0), created: false };
        self.enter(frame.0, page, origin, owner, Arrival::Restored);
        self.loaded(frame);
    }

    /// The resident page in `frame` ends: truncated, discarded, its file removed. The frame is free.
    pub fn discard(&mut self, frame: FrameId) {
        debug_assert!(self.ledger.frames.is_present(frame));
        self.remove(frame.0, false);
        self.ledger.frames.push_free(frame.0);
    }

    /// The identity of the absent pages among `pages` ends. Costs a step a frame.
    pub fn forget(&mut self, pages: &RangeInclusive<PageId>) {
        if self.level_one.placeholders() == 0 {
            return;
        }
        for frame in 0..self.ledger.frames.len() {
            if self.ledger.frames[frame].has_claim() && pages.contains(&self.ledger.frames.claimant(frame)) {
                self.level_one.claim_ended(&mut self.ledger, frame);
            }
        }
    }

    /// A page that came in ahead will not be needed after all: it is the next to go. Does nothing to other
    /// pages.
    pub fn demote(&mut self, frame: FrameId) {
        if self.ledger.frames[frame.0].state == FrameState::Ahead {
            self.level_one.demoted(&mut self.ledger, frame.0);
        }
    }

    /// The present page in `frame` is the next to go, because it can be had again cheaply; its manager may
    /// think otherwise.
    pub fn put_first(&mut self, frame: FrameId) {
        debug_assert!(self.ledger.frames.is_present(frame));
        self.level_one.demoted(&mut self.ledger, frame.0);
    }

    /// The HIT step of LRU-SP.
    #[inline]
    pub(super) fn reference(&mut self, frame: u32, access: &Access) -> HitOutcome {
        self.ledger.now += 1;
        let slot = &mut self.ledger.frames[frame];
        slot.last_reference = self.ledger.now as u64;
        let (owner, is_special) = (slot.owner, slot.has_claim() | (slot.state == FrameState::Ahead));
        let id = self.ledger.account(owner);
        let mut was_head = false;
        let orders_by_use = self.level_one.orders_by_use();
        if orders_by_use {
            was_head = self.ledger.renew(id, frame);
        }
        let account = &mut self.ledger.accounts[id.index()];
        if was_head | is_special | account.is_revoked | self.watches_accessors | !orders_by_use {
            return self.reference_special(frame, access, was_head);
        }
        if account.control.block_accessed(&mut self.ledger.frames, frame, access).is_err() {
            self.dismiss(owner);
        }
        HitOutcome { vindicated: false, first: false }
    }

    /// The rest of [`reference`](Self::reference) where more is to do than to tell the manager: the block was
    /// its account's next candidate, stayed because of an overrule, or came in ahead; it matters who accesses
    /// it; its owner's manager is revoked; or the allocation does not order by use.
    #[inline(never)]
    fn reference_special(&mut self, frame: u32, access: &Access, was_head: bool) -> HitOutcome {
        let slot = &self.ledger.frames[frame];
        let (owner, vindicated, first) = (slot.owner, slot.has_claim(), slot.state == FrameState::Ahead);
        let id = self.ledger.account(owner);
        self.accessed(id, 1);
        if was_head {
            self.ledger.ledger_changed(id);
        }
        if !self.foreign.is_empty() && self.ledger.account(access.tenant) != id {
            self.foreign[frame as usize] = self.ledger.now;
        }
        let is_named = self.hinted > 0 && self.accessed_by(access).is_some();
        if !self.level_one.orders_by_use() {
            self.level_one.referenced(&mut self.ledger, access.tenant, frame, is_named);
        }
        if vindicated {
            self.level_one.vindicated(&mut self.ledger, frame);
            self.ledger.tenants[owner.index()].stats.vindications += 1;
        }
        if first {
            self.first_access(frame, access);
        } else {
            self.tell(owner, |control, frames| control.block_accessed(frames, frame, access));
        }
        HitOutcome { vindicated, first }
    }

    /// `accesses` found blocks of the account.
    #[inline]
    fn accessed(&mut self, account: AccountId, accesses: u64) {
        self.level_one.accessed(&mut self.ledger, account, accesses);
    }

    /// A page that came in ahead is accessed for the first time. Its owner's manager is told only now that
    /// the page has come in, as if by this access. So reading ahead changes when a manager sees a page come
    /// in, and nothing else.
    #[cold]
    fn first_access(&mut self, frame: u32, access: &Access) {
        let owner = self.ledger.frames[frame].owner;
        self.ledger.frames[frame].state = FrameState::Resident;
        if let Some(hints) = &mut self.ledger.account_of(owner).hints {
            hints.read_first(access.page, frame);
        }
        self.ledger.frames.set_origin(frame, Origin::from(access));
        self.ledger.tenants[owner.index()].stats.prefetch_used += 1;
        self.tell(owner, |control, frames| control.new_block(frames, frame));
    }

    /// The page of `access` comes in, owned by `heir`: missed, or ahead.
    pub(super) fn enter_for(&mut self, frame: u32, access: &Access, heir: TenantId, arrival: Arrival) {
        self.enter(frame, access.page, Origin::from(access), heir, arrival);
        let is_named = self.hinted > 0 && self.disclosed_enters(access, heir, arrival);
        if arrival == Arrival::Missed {
            if !self.level_one.orders_by_use() {
                self.level_one.referenced(&mut self.ledger, access.tenant, frame, is_named);
            }
            let stats = &mut self.ledger.tenants[access.tenant.index()].stats;
            stats.accesses += 1;
            stats.misses += 1;
        }
        let is_own = self.ledger.account(access.tenant) == self.ledger.account(heir);
        if let Some(foreign) = self.foreign.get_mut(frame as usize) {
            *foreign = if is_own { i64::MIN } else { self.ledger.now };
        }
    }

    /// A page goes in flight in `frame`, at the ledger's tail.
    #[inline(always)]
    fn enter(&mut self, frame: u32, page: PageId, origin: Origin, owner: TenantId, arrival: Arrival) {
        self.ledger.now += 1;
        self.ledger.arrivals += 1;
        let slot = &mut self.ledger.frames[frame];
        debug_assert!(!slot.has_claim());
        slot.page = page;
        slot.owner = owner;
        slot.last_reference = self.ledger.now as u64;
        slot.state = if arrival == Arrival::Ahead { FrameState::AheadInFlight } else { FrameState::InFlight };
        self.ledger.frames.set_origin(frame, origin);
        let tenant = &mut self.ledger.tenants[owner.index()];
        tenant.frames += 1;
        if tenant.standing == Standing::Vacant {
            tenant.standing = Standing::Closed;
        }
        let account = tenant.account;
        self.ledger.append(account, frame);
        self.level_one.entered(&mut self.ledger, account, frame, arrival);
    }

    /// A resident page leaves to make room.
    pub(super) fn evict(&mut self, victim: u32) {
        self.ledger.tenants[self.ledger.frames[victim].owner.index()].stats.evictions += 1;
        self.remove(victim, true);
    }

    /// A resident page leaves; its frame is in limbo.
    fn remove(&mut self, frame: u32, evicted: bool) {
        let owner = self.ledger.frames[frame].owner;
        if self.ledger.frames[frame].state == FrameState::Ahead {
            self.ledger.tenants[owner.index()].stats.prefetch_wasted += 1;
        }
        let is_known = self.is_known(frame);
        if let Some(departures) = &mut self.departures {
            let age = self.ledger.now as u64 - self.ledger.frames[frame].last_reference;
            let account = self.ledger.account(owner);
            let control = &self.ledger.accounts[account.index()].control;
            departures.left(FrameId(frame), is_known && control.reads_once(FrameId(frame)), age);
        }
        if is_known {
            self.tell(owner, |control, frames| control.block_gone(frames, frame, evicted));
        }
        self.unlink(frame, evicted);
    }

    /// The page in flight, or [loaded](Self::loaded) too early, does not come in after all; its frame is in
    /// limbo.
    fn withdraw(&mut self, frame: u32, tenant: TenantId) {
        let state = self.ledger.frames[frame].state;
        if matches!(state, FrameState::InFlight | FrameState::Resident) {
            let stats = &mut self.ledger.tenants[tenant.index()].stats;
            // The number may be another tenant's by now, which has not counted them.
            stats.accesses = stats.accesses.saturating_sub(1);
            stats.misses = stats.misses.saturating_sub(1);
        }
        if state == FrameState::Resident {
            let owner = self.ledger.frames[frame].owner;
            self.tell(owner, |control, frames| control.block_gone(frames, frame, false));
        }
        self.unlink(frame, false);
    }

    fn unlink(&mut self, frame: u32, makes_room: bool) {
        self.level_one.departed(&mut self.ledger, frame, makes_room);
        let owner = self.ledger.frames[frame].owner;
        let page = self.ledger.frames[frame].page;
        if self.hinted > 0
            && let Some(hints) = &mut self.ledger.account_of(owner).hints
        {
            hints.left(page);
        }
        self.ledger.frames[frame].state = FrameState::Limbo;
        let tenant = &mut self.ledger.tenants[owner.index()];
        tenant.frames -= 1;
        let (account, is_closed) = (tenant.account, tenant.standing == Standing::Closed);
        self.ledger.unlink(account, frame);
        if is_closed {
            self.vacate_tenant(owner);
        }
    }

    /// Whether the manager of the account knows of the block in `frame`.
    #[inline]
    pub(super) fn is_known(&self, frame: u32) -> bool {
        let slot = &self.ledger.frames[frame];
        match slot.state {
            FrameState::Resident => true,
            FrameState::Ahead => self.knows_ahead(slot.owner),
            FrameState::Free | FrameState::InFlight | FrameState::AheadInFlight | FrameState::Limbo => false,
        }
    }
}
