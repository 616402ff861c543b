//! Disclosed reads: lists of what a tenant will access, and what the directory does with them.

use super::{Directory, question::Newcomer};
use crate::{
    allocation::{Arrival, LevelOne},
    error::DirectoryError,
    frame_table::FrameState,
    hints::{AccountHints, Depth, HintCounts, HintListId, HintPolicy, ListState, Offer, Room},
    ids::{Access, AccountId, FrameId, PageId, TenantId},
    manager::{WANTS_MAX, Want},
};

/// How a list is used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HintOptions {
    /// What is done with it.
    pub policy: HintPolicy,
    /// Hints to look ahead at most.
    pub depth_max: u32,
    /// Pages of the list on their way in at most, at least 1. [`HintPolicy::Aggressive`] goes by its batch.
    pub in_flight_max: u32,
}

impl Directory {
    /// Opens a list of reads that the tenant will make, in their order. Accesses of the tenant are matched
    /// with it: the next hint, or one within twice the prefetch horizon. Those before that are dropped when
    /// several accesses in a row have used later ones; see
    /// [`HintList::consume`](crate::hints::HintList::consume).
    ///
    /// # Errors
    ///
    /// [`DirectoryError::UnknownTenant`].
    pub fn open_hints(
        &mut self,
        tenant: TenantId,
        options: HintOptions,
    ) -> Result<HintListId, DirectoryError> {
        self.check_tenant_open(tenant)?;
        self.hint_lists += 1;
        let serial = self.hint_lists;
        let account = self.ledger.account_of(tenant);
        let is_first = account.hints.is_none();
        self.hinted += u32::from(is_first);
        let hints = account.hints.get_or_insert_with(Box::default);
        let depth = Depth::new(options.depth_max);
        hints.open(serial, tenant, options.policy, depth, options.in_flight_max);
        if is_first {
            let account = self.ledger.account(tenant);
            self.ledger.hinting.push(account);
        }
        self.accessors_changed();
        Ok(HintListId { tenant, serial })
    }

    /// Appends a read to a list. `frame` has the page if it is resident. Returns the position of the hint;
    /// `None` if [`HINTS_MAX`](crate::hints::HINTS_MAX) are ahead, or the list is closed.
    pub fn hint(&mut self, list: HintListId, page: PageId, frame: Option<FrameId>) -> Option<u64> {
        let account = self.ledger.account(list.tenant);
        let present = frame.filter(|frame| {
            let owner = self.owner(*frame);
            self.page(*frame) == Some(page)
                && owner.is_some_and(|owner| self.ledger.account(owner) == account)
        });
        let present = present.map(|frame| (frame.0, self.ledger.frames[frame.0].state == FrameState::Ahead));
        self.disclosed(list)?.push(list.serial, page, present)
    }

    /// The reader of a list passes over the next `count` hints.
    pub fn skip_hints(&mut self, list: HintListId, count: u64) {
        if let Some(hints) = self.disclosed(list) {
            hints.skip(list.serial, count);
        }
    }

    /// The reader of a list has come to `position`. From the first such call on only the reader moves the
    /// list, and accesses are not matched with it any more. Otherwise reads of the same pages for other
    /// purposes would move it past pages that the reader has not seen.
    pub fn hints_consumed(&mut self, list: HintListId, position: u64) {
        let now = self.now();
        if let Some(hints) = self.disclosed(list) {
            hints.consumed_to(list.serial, position, now);
        }
    }

    /// The reader of a list has reached its next hint, and makes the access: it is told next, by
    /// [`hit`](Self::hit) or [`admit`](Self::admit), or as soon as the page has come in.
    pub fn hint_reached(&mut self, list: HintListId) {
        let now = self.now();
        if let Some(hints) = self.disclosed(list) {
            hints.reached(list.serial, now);
        }
    }

    /// The reader of a list had to wait for a page on its way in that the list names.
    pub fn hint_waited(&mut self, list: HintListId) {
        if let Some(hints) = self.disclosed(list) {
            hints.waited(list.serial);
        }
    }

    /// Sets the horizon of a list: how many hints its reader consumes while a page is read. That is the time
    /// of a read over the time between two of the reader's accesses, without waits. Under
    /// [`HintPolicy::Auto`], a page that the list needs from beyond the horizon does not take the frame of a
    /// page that a list names again.
    pub fn set_hint_horizon(&mut self, list: HintListId, hints: u32) {
        if let Some(open) = self.disclosed(list) {
            open.set_horizon(list.serial, hints);
        }
    }

    /// The state of an open list.
    pub fn hint_state(&self, list: HintListId) -> Option<ListState> {
        let account = self.ledger.tenants.get(list.tenant.index())?.account;
        self.ledger.accounts[account.index()].hints.as_ref()?.state(list.serial)
    }

    /// Counts of a list that its reader has not closed: of one that is open, or has ended because its tenant
    /// left the commons.
    pub fn hint_counts(&self, list: HintListId) -> Option<HintCounts> {
        self.hint_state(list).or_else(|| self.hints_ended(list)).map(|state| state.counts)
    }

    /// The last state of a list that has ended because its tenant left the commons, until its reader closes
    /// it.
    pub fn hints_ended(&self, list: HintListId) -> Option<ListState> {
        self.ended_hints.iter().find(|(ended, _)| *ended == list).map(|(_, state)| *state)
    }

    /// The tenant's open lists.
    pub fn open_lists(&self, tenant: TenantId) -> impl Iterator<Item = HintListId> + use<> {
        let hints = &self.account(tenant).hints;
        let serials = hints.as_ref().map(|hints| hints.of_tenant(tenant)).unwrap_or_default();
        serials.into_iter().map(move |serial| HintListId { tenant, serial })
    }

    /// Withdraws what is left of a list. Pages that it brought in and nobody has read are the next to go.
    /// Returns what became of its hints, unless it was closed before. One that ended because its tenant left
    /// the commons is closed by its reader as any other.
    pub fn close_hints(&mut self, list: HintListId) -> Option<HintCounts> {
        if let Some(at) = self.ended_hints.iter().position(|(ended, _)| *ended == list) {
            return Some(self.ended_hints.swap_remove(at).1.counts);
        }
        let mut unread = Vec::new();
        let hints = self.disclosed(list)?;
        let counts = hints.close(list.serial, |frame| unread.push(frame))?;
        let is_last = hints.is_empty();
        self.ledger.tenants[list.tenant.index()].stats.hints.add(&counts);
        unread.into_iter().for_each(|frame| self.demote(FrameId(frame)));
        if is_last {
            self.ledger.account_of(list.tenant).hints = None;
            let account = self.ledger.account(list.tenant);
            self.ledger.hinting.retain(|hinting| *hinting != account);
            self.hinted -= 1;
            self.accessors_changed();
        }
        Some(counts)
    }

    /// Closes the tenant's lists.
    pub(super) fn close_all_hints(&mut self, tenant: TenantId) {
        self.open_lists(tenant).for_each(|list| _ = self.close_hints(list));
        self.ended_hints.retain(|(list, _)| list.tenant != tenant);
    }

    /// The tenant gets another account, in which its lists do not go on.
    pub(super) fn end_all_hints(&mut self, tenant: TenantId) {
        for list in self.open_lists(tenant) {
            let state = self.hint_state(list);
            let counts = self.close_hints(list);
            let last = state.zip(counts).map(|(state, counts)| ListState { counts, ..state });
            self.ended_hints.extend(last.map(|last| (list, last)));
        }
    }

    pub(super) fn accessors_changed(&mut self) {
        self.watches_accessors = !self.foreign.is_empty() || self.hinted > 0;
    }

    fn disclosed(&mut self, list: HintListId) -> Option<&mut AccountHints> {
        let account = self.ledger.tenants.get(list.tenant.index())?.account;
        let hints = self.ledger.accounts[account.index()].hints.as_mut()?;
        hints.has(list.serial).then_some(hints)
    }

    /// Matches an access with the lists of the tenant that made it. Returns the list that named it. An access
    /// that makes its page is none of the reads that a list discloses.
    pub(super) fn accessed_by(&mut self, access: &Access) -> Option<u64> {
        if access.creates {
            return None;
        }
        let now = self.ledger.now as u64;
        self.ledger.account_of(access.tenant).hints.as_mut()?.accessed(access.tenant, access.page, now)
    }

    /// The page of `access` comes in for `heir`. Returns whether a list named the access.
    pub(super) fn disclosed_enters(&mut self, access: &Access, heir: TenantId, arrival: Arrival) -> bool {
        let is_missed = arrival == Arrival::Missed;
        let named = if is_missed { self.accessed_by(access) } else { None };
        let is_own = self.ledger.account(access.tenant) == self.ledger.account(heir);
        if let Some(hints) = &mut self.ledger.account_of(heir).hints {
            // A page of another account is no block of the list that named the access.
            hints.entering(access.page, !is_missed, named.filter(|_| is_own));
        }
        if let (Some(serial), Some(hints)) = (named, &mut self.ledger.account_of(access.tenant).hints) {
            hints.waited(serial);
        }
        named.is_some()
    }

    /// Whether the account gives up what its lists offer, whatever its manager would choose: they concern all
    /// of its blocks, and the page that comes in is needed before the one that is offered.
    pub(super) fn is_settled(
        &self,
        account: AccountId,
        offer: &Offer,
        newcomer: Option<Newcomer<'_>>,
    ) -> bool {
        let asked = &self.ledger.accounts[account.index()];
        let concerns_all = |hints: &&AccountHints| hints.settles(asked.ledger.len());
        asked
            .hints
            .as_deref()
            .filter(concerns_all)
            .is_some_and(|hints| offer.distance > newcomer.map_or(0.0, |newcomer| needed_in(hints, newcomer)))
    }

    /// What goes of the account's blocks: `choice`, or what its lists offer, if that is needed later, and
    /// later than the page that comes in.
    #[inline]
    pub(super) fn disclosed_choice(
        &mut self,
        account: AccountId,
        offer: Option<Offer>,
        choice: u32,
        newcomer: Option<Newcomer<'_>>,
    ) -> u32 {
        let Some(offer) = offer else { return choice };
        let now = self.ledger.now as u64;
        let hints = self.ledger.accounts[account.index()].hints.as_ref();
        let is_later = hints.is_some_and(|hints| {
            let comes_in = newcomer.map_or(0.0, |newcomer| needed_in(hints, newcomer));
            (offer.distance > comes_in || offer.distance.is_infinite())
                && hints.is_later(offer, &self.ledger.frames, choice, now)
        });
        if is_later { offer.frame } else { choice }
    }

    /// Whether lists of the tenant's account are open.
    pub fn has_hints(&self, tenant: TenantId) -> bool {
        self.account(tenant).hints.is_some()
    }

    /// Whether the tenant has disclosed that it will access the page; to be asked before the access is told.
    #[inline]
    pub fn discloses(&self, tenant: TenantId, page: PageId) -> bool {
        if self.hinted == 0 {
            return false;
        }
        let hints = &self.account(tenant).hints;
        hints.as_ref().is_some_and(|hints| hints.discloses(tenant, page))
    }

    /// Appends the pages that the tenant's lists would have brought in now, those of each list in its order,
    /// at most [`WANTS_MAX`] in all, for `frames_left` frames; none while its account's manager is revoked.
    /// `passed_over` tells whether a page is in memory, on its way, or cannot be had.
    pub fn hint_wants(
        &mut self,
        tenant: TenantId,
        frames_left: u32,
        passed_over: &mut dyn FnMut(PageId) -> bool,
        out: &mut Vec<Want>,
    ) {
        if self.is_revoked(tenant) {
            return;
        }
        let free = self.free_frames();
        let account = self.ledger.account_of(tenant);
        let own = account.ledger.len();
        let is_at_cap = account.is_at_cap();
        if let Some(hints) = &mut account.hints {
            let others = own.saturating_sub(hints.blocks());
            let harmless = others + if is_at_cap { 0 } else { free };
            let pages = frames_left.min(WANTS_MAX as u32);
            let first = out.len();
            hints.wants(tenant, Room { pages, harmless }, passed_over, out);
            self.drop_what_does_not_pay(tenant, first, out);
        }
    }

    /// Leaves out the wants from `first` on that are not worth their frames, where frames have prices and a
    /// list goes by them.
    fn drop_what_does_not_pay(&mut self, tenant: TenantId, first: usize, out: &mut Vec<Want>) {
        if !matches!(self.level_one, LevelOne::CostBenefit(_)) {
            return;
        }
        let wants = out.split_off(first);
        for want in wants {
            let account = self.ledger.account(tenant);
            let hints = self.ledger.accounts[account.index()].hints.as_deref();
            let priced = hints.and_then(|hints| hints.priced_list(want.page, want.position));
            if priced.is_none_or(|list| self.is_worth_fetching(list, want.position)) {
                out.push(want);
            }
        }
    }
}

/// How long until a page that comes in is needed, in steps of the directory's time: a page that a process has
/// missed is needed now, whenever lists name it next.
fn needed_in(hints: &AccountHints, newcomer: Newcomer<'_>) -> f64 {
    if newcomer.arrival == Arrival::Ahead { hints.needed_in(newcomer.access.page) } else { 0.0 }
}
