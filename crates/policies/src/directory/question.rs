//! The one question: a page must come in, so which frame does it get?
//!
//! The order is the paper's: a placeholder names the candidate, then a free frame is taken, then the ledger's first
//! eligible frame that is not busy is the candidate; its manager may overrule; what is to go is claimed; only then is
//! anything changed.

use std::cell::Cell;

use super::Directory;
use crate::{
    allocation::heads::NO_STAMP,
    frame_table::{LEDGER, NONE, State},
    ids::{Access, AccountId, FrameId, PageId, TenantId},
    manager::Panicked,
};

/// What the directory asks about frames while it looks for a victim. Neither call may wait.
pub trait Claims {
    /// Whether `frame` could not be taken now: pinned, latched, in I/O. Changes nothing.
    fn is_busy(&mut self, frame: FrameId) -> bool;

    /// Takes the frame's page away from its users, or says no. After a yes the directory evicts that page.
    fn claim(&mut self, frame: FrameId) -> bool;

    /// Whether the answer is no longer worth looking at another candidate. Never, unless the driver says so.
    fn gives_up(&self) -> bool {
        false
    }
}

/// What led to an answer, for statistics finer than the directory's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// The frame the ledger, or a placeholder, named.
    pub candidate: Option<FrameId>,
    /// How often a manager was asked.
    pub decisions: u32,
    /// Whether the owner's manager chose another block, and it went.
    pub overruled: bool,
    /// The frame that a placeholder of the missing page pointed to: an overrule of its owner was wrong.
    pub mistake: Option<FrameId>,
    /// A frame that was in use when the placeholder to it was looked up: the overrule counts as right.
    pub vindicated: Option<FrameId>,
    /// Frames looked at.
    pub frames_tried: u32,
}

/// The answer of [`Directory::admit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Load into a frame that held nothing.
    Free {
        /// The frame, now in flight.
        frame: FrameId,
        /// How it was chosen.
        decision: Decision,
    },
    /// Evict, then load into the frame.
    Evict {
        /// The frame, claimed, and now in flight.
        frame: FrameId,
        /// The page that goes.
        page: PageId,
        /// Whose page that was.
        tenant: TenantId,
        /// How it was chosen.
        decision: Decision,
    },
    /// Every frame the tenant may take is busy. Nothing has changed, except that a busy frame with a placeholder for
    /// the page counts as referenced.
    Exhausted {
        /// What was tried.
        decision: Decision,
    },
}

/// A page that must go though none comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// The frame, claimed; give it back with [`Directory::release`].
    pub frame: FrameId,
    /// The page that goes.
    pub page: PageId,
}

impl Directory {
    /// A page must come in for `access`: which frame does it get?
    ///
    /// The answer has been carried out here: the victim is gone, its frame is in flight for the page, at the ledger's
    /// tail, busy until [`loaded`](Self::loaded), [`failed`](Self::failed) or [`restore`](Self::restore).
    ///
    /// In the paper's order: a placeholder names the candidate even if a frame is free and whatever floors and caps
    /// say; then a free frame; then the ledger's first eligible frame that is not busy. The candidate's manager may
    /// overrule. A claim that fails makes its frame busy for this question.
    pub fn admit<C: Claims>(&mut self, access: &Access, claims: &mut C) -> Admission {
        self.admit_as(State::InFlight, access, claims)
    }

    /// As [`admit`](Self::admit), for a page that `access` is expected to need soon. It is no access and counts as none; the
    /// page's first [`hit`](Self::hit) is also its arrival at its owner's manager. Until then no manager can choose it, and
    /// when the ledger names it, it goes without a question.
    pub fn admit_ahead<C: Claims>(&mut self, access: &Access, claims: &mut C) -> Admission {
        self.admit_as(State::AheadInFlight, access, claims)
    }

    fn admit_as<C: Claims>(&mut self, state: State, access: &Access, claims: &mut C) -> Admission {
        let mut decision = Decision::default();
        let mut victim = None;
        let account = self.account(access.tenant);
        let mut heir = access.tenant;
        if let Some(candidate) = self.take_placeholder(access, claims, &mut decision) {
            victim = self.take(candidate, Some(access), claims, &mut decision);
            // Shared pages: a block that comes in through a placeholder belongs to the placeholder's owner, so that
            // no account's count changes.
            let owner = self.frames[candidate].owner;
            if victim.is_some() && !self.foreign.is_empty() && self.account(owner) != account {
                heir = owner;
            }
        } else if !self.accounts[account.index()].is_at_cap()
            && let Some(frame) = self.free.pop_head(&mut self.frames)
        {
            self.enter_for(frame, access, heir, state);
            return Admission::Free { frame: FrameId(frame), decision };
        }
        let victim = victim.or_else(|| self.take_from_ledger(account, Some(access), claims, &mut decision));
        let Some(victim) = victim else {
            return Admission::Exhausted { decision };
        };
        let (page, tenant) = (self.frames[victim].page, self.frames[victim].owner);
        self.evict(victim);
        self.enter_for(victim, access, heir, state);
        Admission::Evict { frame: FrameId(victim), page, tenant, decision }
    }

    /// The pages on their way into two frames change frames, and keep their places in the ledger: which frame a page gets is no decision.
    /// False, and nothing has changed, unless both are in flight alike, for tenants of one account.
    pub fn exchange(&mut self, a: FrameId, b: FrameId) -> bool {
        let (FrameId(a), FrameId(b)) = (a, b);
        let account = self.account(self.frames[a].owner);
        let state = self.frames[a].state;
        let alike = state == self.frames[b].state && account == self.account(self.frames[b].owner);
        if a == b || !alike || !matches!(state, State::InFlight | State::AheadInFlight) {
            return false;
        }
        self.swap(account, a, b);
        self.frames.exchange_pages(a, b);
        if !self.foreign.is_empty() {
            self.foreign.swap(a as usize, b as usize);
        }
        true
    }

    /// The page in flight in `from` comes into the spare frame `to` instead, and `from` is spare. For a driver that still needs the
    /// victim's frame. Changes no order and no count.
    pub fn relocate(&mut self, from: FrameId, to: FrameId) {
        debug_assert!(matches!(self.frames[from.0].state, State::InFlight | State::AheadInFlight));
        debug_assert_eq!(self.frames[to.0].state, State::Limbo, "a spare frame");
        debug_assert!(!self.frames[from.0].has_claim(), "only resident pages are claimed");
        let account = self.account(self.frames[from.0].owner);
        self.frames[to.0] = self.frames[from.0].clone();
        self.frames.set_origin(to.0, self.frames.origin(from.0));
        self.accounts[account.index()].ledger.replace(&mut self.frames, from.0, to.0);
        self.frames[from.0].state = State::Limbo;
        if !self.foreign.is_empty() {
            self.foreign[to.index()] = self.foreign[from.index()];
        }
    }

    /// The next page that must go for `tenant` to fit its cap; none if it fits, or all its frames are busy.
    pub fn shrink<C: Claims>(&mut self, tenant: TenantId, claims: &mut C) -> Option<Eviction> {
        let id = self.account(tenant);
        let account = &self.accounts[id.index()];
        if account.ledger.len <= account.cap_frames {
            return None;
        }
        self.evict_for(id, claims)
    }

    /// The page that would make room for the next one of `tenant` goes now, and its frame is a [spare](Self::add_spares) one until it is
    /// [released](Self::release). None while a frame is free, if all are busy, if its account would fall below a floor, or if the
    /// tenant has a cap: it would come below that, and make up for it with frames of others.
    pub fn evict_next<C: Claims>(&mut self, tenant: TenantId, claims: &mut C) -> Option<Eviction> {
        let id = self.account(tenant);
        let account = &self.accounts[id.index()];
        // A miss replaces a page of its own account by another one. Here none comes in, so the account's own floor counts too.
        let is_at_floor = account.floor_frames > 0 && !account.is_above_floor();
        if self.free.len > 0 || is_at_floor || account.cap_frames < self.capacity {
            return None;
        }
        self.evict_for(id, claims)
    }

    fn evict_for<C: Claims>(&mut self, account: AccountId, claims: &mut C) -> Option<Eviction> {
        let victim = self.take_from_ledger(account, None, claims, &mut Decision::default())?;
        let page = self.frames[victim].page;
        self.evict(victim);
        Some(Eviction { frame: FrameId(victim), page })
    }

    /// Frees the frame of an [`Eviction`] that has been carried out.
    pub fn release(&mut self, frame: FrameId) {
        self.vacate(frame.0);
    }

    /// The candidate that a placeholder of the missing page names. A busy one is being referenced, so it counts as
    /// referenced, and the ordinary candidate is taken.
    fn take_placeholder<C: Claims>(
        &mut self,
        access: &Access,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let candidate = self.placeholders.get(&self.frames, access.page)?;
        decision.frames_tried += 1;
        if claims.is_busy(FrameId(candidate)) {
            let owner = self.frames[candidate].owner;
            let origin = self.frames.origin(candidate);
            let page = self.frames[candidate].page;
            self.reference(
                candidate,
                &Access { page, file: origin.file, tenant: owner, context: origin.context },
            );
            decision.vindicated = Some(FrameId(candidate));
            return None;
        }
        // The mistake stands even if the claim should fail in a race: the page that went was needed first.
        decision.mistake = Some(FrameId(candidate));
        self.settle_claim(candidate, true);
        self.tenants[self.frames[candidate].owner.index()].stats.mistakes += 1;
        self.tell(self.frames[candidate].owner, |control, _| control.placeholder_used(access, candidate));
        Some(candidate)
    }

    /// Takes the first frame of the ledger that `account` may have and that can be claimed, or what its manager
    /// prefers. Looks at each frame at most once as a candidate.
    fn take_from_ledger<C: Claims>(
        &mut self,
        account: AccountId,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let mut victim = None;
        let mut own_next = self.accounts[account.index()].ledger.head;
        let only_own = self.accounts[account.index()].is_at_cap();
        if !only_own && self.floors_frames > 0 {
            // Its own floor does not protect an account from itself.
            self.open_heads.set(account, self.all_heads.stamp(account));
            self.passed.push((account, own_next));
        }
        loop {
            let candidate = if only_own { own_next } else { self.next_candidate() };
            if candidate == NONE || claims.gives_up() {
                break;
            }
            decision.frames_tried += 1;
            if self.frames.is_present(FrameId(candidate)) && !claims.is_busy(FrameId(candidate)) {
                let stamp = self.frames[candidate].stamp;
                victim = self.take(candidate, missing, claims, decision);
                if victim.is_some() {
                    // Those that were moved to the head say nothing of the others' age.
                    self.departed_stamp = if stamp > 0 { stamp } else { self.departed_stamp };
                    break;
                }
            }
            if only_own {
                own_next = self.frames.next::<LEDGER>(candidate);
            } else {
                self.pass(candidate);
            }
        }
        while let Some((account, _)) = self.passed.pop() {
            self.ledger_changed(account);
        }
        victim
    }

    /// The frame of least stamp among the eligible accounts, those passed over excluded.
    fn next_candidate(&self) -> u32 {
        let heads = if self.floors_frames > 0 { &self.open_heads } else { &self.all_heads };
        let Some(account) = heads.least() else { return NONE };
        match self.passed.iter().find(|(passed, _)| *passed == account) {
            Some((_, next)) => *next,
            None => self.accounts[account.index()].ledger.head,
        }
    }

    /// Goes on behind `frame` in its account's list, for the question at hand.
    fn pass(&mut self, frame: u32) {
        let account = self.account(self.frames[frame].owner);
        let next = self.frames.next::<LEDGER>(frame);
        match self.passed.iter_mut().find(|(passed, _)| *passed == account) {
            Some(entry) => entry.1 = next,
            None => self.passed.push((account, next)),
        }
        let stamp = if next == NONE { NO_STAMP } else { self.frames[next].stamp };
        let heads = if self.floors_frames > 0 { &mut self.open_heads } else { &mut self.all_heads };
        heads.set(account, stamp);
    }

    /// Lets the candidate's manager overrule, claims what is to go, and books the decision. None if neither the
    /// manager's choice nor the candidate could be claimed.
    fn take<C: Claims>(
        &mut self,
        candidate: u32,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let choice = self.ask(candidate, missing, claims, decision);
        let victim = if choice != candidate && claims.claim(FrameId(choice)) {
            choice
        } else if claims.claim(FrameId(candidate)) {
            candidate
        } else {
            return None;
        };
        decision.candidate = Some(FrameId(candidate));
        if victim != candidate {
            decision.overruled = true;
            self.overrule(candidate, victim);
        } else {
            self.settle_claim(candidate, false);
        }
        Some(victim)
    }

    /// What the candidate's manager wants to give up instead: a block of the same account that could be taken, or the
    /// candidate.
    fn ask<C: Claims>(
        &mut self,
        candidate: u32,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> u32 {
        let owner = self.frames[candidate].owner;
        let account = self.account(owner);
        if !self.allocation.asks_managers()
            || !self.accounts[account.index()].is_consulted()
            || self.frames[candidate].state == State::Ahead
        {
            return candidate;
        }
        decision.decisions += 1;
        self.tenants[owner.index()].stats.decisions += 1;
        let ledger_head = self.ledger_head_stamp();
        let (frames, foreign, tenants) = (&self.frames, &self.foreign, &self.tenants);
        let tried = &mut decision.frames_tried;
        // What was found free last, which need not be asked again: the claim decides.
        let free = Cell::new(None);
        let mut is_busy = |frame: FrameId| {
            *tried += 1;
            if !frames.is_resident(frame) || tenants[frames[frame.0].owner.index()].account != account {
                return true;
            }
            // Another account used it more recently than the oldest entitlement: the owner's manager may not take it
            // away. The candidate may always leave.
            let is_shared = foreign.get(frame.index()).is_some_and(|at| *at >= ledger_head);
            let is_busy = (is_shared && frame.0 != candidate) || claims.is_busy(frame);
            free.set((!is_busy).then_some(frame.0));
            is_busy
        };
        match self.accounts[account.index()].control.replace_block(frames, candidate, missing, &mut is_busy) {
            Ok(choice) if choice == candidate || free.get() == Some(choice) => choice,
            Ok(choice) if !is_busy(FrameId(choice)) => choice,
            Ok(_) => candidate,
            Err(Panicked) => {
                self.dismiss(owner);
                candidate
            }
        }
    }

    /// The least stamp of the ledger, eligible or not, while heads may be passed over.
    fn ledger_head_stamp(&self) -> i64 {
        if self.foreign.is_empty() {
            return NO_STAMP;
        }
        let passed = self.passed.iter().map(|(account, _)| self.head_of(*account));
        passed.chain([self.all_heads.least_stamp()]).min().unwrap_or(NO_STAMP)
    }
}
