//! The one question: a page must come in, so which frame does it get?
//!
//! The order is that of the LRU-SP paper (Cao, Felten, Li, OSDI '94). A placeholder of the page names the
//! candidate. Without one that can be taken, a free frame is. Without that, the ledger's first eligible frame
//! that is not busy is the candidate. The candidate's manager may overrule. The victim is claimed, and only
//! then does anything change.

use super::Directory;
use crate::{
    allocation::{Allocate, Arrival},
    frame_table::{FrameState, FrameTable, Slot},
    ids::{Access, AccountId, FrameId, PageId, TenantId},
    list::NIL,
    manager::{Block, Look, Panicked, block_in},
    tenant::Tenant,
};

/// Frames from which on what is known of them has no room in a processor's second cache: there it pays to
/// fetch what a question looks at side by side.
const FRAMES_UNCACHED: u32 = 1 << 15;

/// A page for which a victim makes room.
#[derive(Clone, Copy)]
pub(super) struct Newcomer<'a> {
    pub access: &'a Access,
    pub arrival: Arrival,
}

/// What the directory asks about frames while it looks for a victim. Neither call may wait.
pub trait Claims {
    /// Whether `frame` could not be taken now: pinned, latched, in I/O. Changes nothing.
    fn is_busy(&mut self, frame: FrameId) -> bool;

    /// Whether the page in `frame` has changes that its file does not have. No, unless the driver says so.
    fn is_modified(&mut self, _frame: FrameId) -> bool {
        false
    }

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
    /// The frame that a placeholder of the missing page pointed to: an overrule of its owner was wrong. None
    /// if the page comes in ahead.
    pub mistake: Option<FrameId>,
    /// The frame that a placeholder of the missing page pointed to, if it was busy then: the overrule counts
    /// as right.
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
    /// Every frame that the tenant may take is busy, or the driver [gave up](Claims::gives_up). No page has
    /// left or come in. But a placeholder of the page, if there was one, has been settled: the `decision`
    /// tells whether its overrule was a mistake, or its frame was busy and counts as referenced.
    Exhausted {
        /// What was tried.
        decision: Decision,
    },
}

impl Admission {
    /// What led to it.
    pub fn decision(&self) -> &Decision {
        let (Self::Free { decision, .. } | Self::Evict { decision, .. } | Self::Exhausted { decision }) =
            self;
        decision
    }
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
    /// The answer has been carried out here: the victim is gone, its frame is in flight for the page, at the
    /// ledger's tail, busy until [`loaded`](Self::loaded), [`failed`](Self::failed) or
    /// [`restore`](Self::restore).
    ///
    /// In the paper's order: a placeholder names the candidate even if a frame is free and whatever floors
    /// and caps say; then a free frame; then the ledger's first eligible frame that is not busy. The
    /// candidate's manager may overrule. A claim that fails makes its frame busy for this question.
    pub fn admit<C: Claims>(&mut self, access: &Access, claims: &mut C) -> Admission {
        self.admit_as(Arrival::Missed, access, claims)
    }

    /// As [`admit`](Self::admit), for a page that `access` is expected to need soon. It is no access and
    /// counts as none; the page's first [`hit`](Self::hit) is also its arrival at its owner's manager. Until
    /// then no manager can choose it, and when the ledger names it, it goes without a question, unless the
    /// manager [knows](crate::Manager::knows_ahead) of it. A placeholder of the page names the candidate as
    /// it does for a miss, but nobody is judged by it: no process has needed the page yet.
    pub fn admit_ahead<C: Claims>(&mut self, access: &Access, claims: &mut C) -> Admission {
        self.admit_as(Arrival::Ahead, access, claims)
    }

    fn admit_as<C: Claims>(&mut self, arrival: Arrival, access: &Access, claims: &mut C) -> Admission {
        if self.capacity >= FRAMES_UNCACHED {
            self.touch_question(access.page);
        }
        let newcomer = Newcomer { access, arrival };
        let mut decision = Decision::default();
        let mut victim = None;
        let account = self.ledger.account(access.tenant);
        let mut heir = access.tenant;
        if let Some(candidate) = self.take_placeholder(arrival, access, claims, &mut decision) {
            victim = if self.level_one.asks_about_placeholders() {
                self.take(candidate, Some(newcomer), claims, &mut decision)
            } else {
                decision.candidate = Some(FrameId(candidate));
                claims.claim(FrameId(candidate)).then_some(candidate)
            };
            // Shared pages: a block that comes in through a placeholder belongs to the placeholder's owner,
            // so that no account's count changes.
            let owner = self.ledger.frames[candidate].owner;
            if victim.is_some() && !self.foreign.is_empty() && self.ledger.account(owner) != account {
                heir = owner;
            }
        }
        if victim.is_none()
            && !self.ledger.accounts[account.index()].is_at_cap()
            && let Some(frame) = self.ledger.frames.pop_free()
        {
            self.enter_for(frame, access, heir, arrival);
            return Admission::Free { frame: FrameId(frame), decision };
        }
        let victim = victim.or_else(|| self.take_from_ledger(account, Some(newcomer), claims, &mut decision));
        let Some(victim) = victim else {
            return Admission::Exhausted { decision };
        };
        let (page, tenant) = (self.ledger.frames[victim].page, self.ledger.frames[victim].owner);
        self.evict(victim);
        self.enter_for(victim, access, heir, arrival);
        Admission::Evict { frame: FrameId(victim), page, tenant, decision }
    }

    /// Touches what the question about `missing` will look up by page, side by side: what lies scattered over
    /// memory is most of what a question takes in a large pool.
    fn touch_question(&self, missing: PageId) {
        let Some([first, _]) = self.ledger.next_two().filter(|_| self.free_frames() == 0) else { return };
        let frames = &self.ledger.frames;
        let mut touched = self.level_one.touch(missing);
        if frames[first].has_claim() {
            touched ^= self.level_one.touch(frames.claimant(first));
        }
        std::hint::black_box(touched);
        let account = self.ledger.account(frames[first].owner);
        self.ledger.accounts[account.index()].control.touch_question(missing);
    }

    /// Touches what changes if the page in `victim` goes, side by side.
    fn touch_departure(&self, victim: u32) {
        let frames = &self.ledger.frames;
        let Slot { page, owner, .. } = frames[victim];
        std::hint::black_box(frames.ledger_links.touch(victim) ^ self.level_one.touch(page));
        let account = self.ledger.account(owner);
        self.ledger.accounts[account.index()].control.touch_pages(&[page]);
    }

    /// The pages on their way into two frames change frames, and keep their places in the ledger: which frame
    /// a page gets is no decision. False, and nothing has changed, unless both are in flight alike, for
    /// tenants of one account.
    pub fn exchange(&mut self, a: FrameId, b: FrameId) -> bool {
        let (FrameId(a), FrameId(b)) = (a, b);
        let account = self.ledger.account(self.ledger.frames[a].owner);
        let state = self.ledger.frames[a].state;
        let alike = state == self.ledger.frames[b].state
            && account == self.ledger.account(self.ledger.frames[b].owner);
        if a == b || !alike || !matches!(state, FrameState::InFlight | FrameState::AheadInFlight) {
            return false;
        }
        self.ledger.swap(account, a, b);
        self.level_one.exchanged(a, b);
        self.ledger.frames.exchange_pages(a, b);
        if !self.foreign.is_empty() {
            self.foreign.swap(a as usize, b as usize);
        }
        true
    }

    /// The page in flight in `from` comes into the spare frame `to` instead, and `from` is spare. For a
    /// driver that still needs the victim's frame. Changes no order and no count.
    pub fn relocate(&mut self, from: FrameId, to: FrameId) {
        debug_assert!(matches!(
            self.ledger.frames[from.0].state,
            FrameState::InFlight | FrameState::AheadInFlight
        ));
        debug_assert_eq!(self.ledger.frames[to.0].state, FrameState::Limbo, "a spare frame");
        debug_assert!(!self.ledger.frames[from.0].has_claim(), "only resident pages are claimed");
        let account = self.ledger.account(self.ledger.frames[from.0].owner);
        self.ledger.frames[to.0] = self.ledger.frames[from.0].clone();
        self.ledger.frames.set_origin(to.0, self.ledger.frames.origin(from.0));
        self.ledger.accounts[account.index()].ledger.replace(
            &mut self.ledger.frames.ledger_links,
            from.0,
            to.0,
        );
        self.ledger.frames[from.0].state = FrameState::Limbo;
        self.level_one.exchanged(from.0, to.0);
        if !self.foreign.is_empty() {
            self.foreign[to.index()] = self.foreign[from.index()];
        }
    }

    /// The next page that must go for `tenant` to fit its cap; none if it fits, or all its frames are busy.
    pub fn shrink<C: Claims>(&mut self, tenant: TenantId, claims: &mut C) -> Option<Eviction> {
        let id = self.ledger.account(tenant);
        let account = &self.ledger.accounts[id.index()];
        if account.ledger.len() <= account.cap_frames {
            return None;
        }
        self.evict_for(id, claims)
    }

    /// The page that would make room for the next one of `tenant` goes now, and its frame is a
    /// [spare](Self::add_spares) one until it is [released](Self::release). None while a frame is free, if
    /// all are busy, if the tenant's account is at its floor, or if the tenant has a cap: it could then come
    /// below the cap, and would make up for it with frames of others.
    pub fn evict_next<C: Claims>(&mut self, tenant: TenantId, claims: &mut C) -> Option<Eviction> {
        let id = self.ledger.account(tenant);
        let account = &self.ledger.accounts[id.index()];
        // A miss replaces a page of its own account by another one. Here none comes in, so the account's own
        // floor counts too.
        let is_at_floor = account.floor_frames > 0 && !account.is_above_floor();
        if self.free_frames() > 0 || is_at_floor || account.cap_frames < self.capacity {
            return None;
        }
        self.evict_for(id, claims)
    }

    fn evict_for<C: Claims>(&mut self, account: AccountId, claims: &mut C) -> Option<Eviction> {
        let victim = self.take_from_ledger(account, None, claims, &mut Decision::default())?;
        let page = self.ledger.frames[victim].page;
        self.evict(victim);
        Some(Eviction { frame: FrameId(victim), page })
    }

    /// `page` of `tenant` in `frame` leaves because its manager [wishes](crate::Wish::Release) it. None if it
    /// is not there any more, not the tenant's, busy, or protected because another account used it more
    /// recently than the oldest page of the ledger.
    pub fn evict_page<C: Claims>(
        &mut self,
        tenant: TenantId,
        frame: FrameId,
        page: PageId,
        claims: &mut C,
    ) -> Option<Eviction> {
        let is_own = self.ledger.frames.is_resident(frame)
            && self.ledger.frames[frame.0].page == page
            && self.ledger.frames[frame.0].owner == tenant;
        let is_shared = self.foreign.get(frame.index()).is_some_and(|at| *at >= self.ledger.least_stamp());
        if !is_own || is_shared || !claims.claim(frame) {
            return None;
        }
        self.evict(frame.0);
        Some(Eviction { frame, page })
    }

    /// Frees the frame of an [`Eviction`] that has been carried out.
    pub fn release(&mut self, frame: FrameId) {
        self.ledger.frames.push_free(frame.0);
    }

    /// The candidate that a placeholder of the missing page names. If it is busy, it is being used: it counts
    /// as referenced, and the answer is none.
    fn take_placeholder<C: Claims>(
        &mut self,
        arrival: Arrival,
        access: &Access,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let candidate = self.level_one.placeholder(&self.ledger, access.page)?;
        decision.frames_tried += 1;
        if claims.is_busy(FrameId(candidate)) {
            let owner = self.ledger.frames[candidate].owner;
            let origin = self.ledger.frames.origin(candidate);
            let page = self.ledger.frames[candidate].page;
            self.reference(
                candidate,
                &Access { page, file: origin.file, tenant: owner, context: origin.context, creates: false },
            );
            decision.vindicated = Some(FrameId(candidate));
            return None;
        }
        // The mistake stands even if the claim should fail in a race: the page that went was needed first.
        if self.level_one.placeholder_met(&mut self.ledger, candidate, arrival) {
            let owner = self.ledger.frames[candidate].owner;
            decision.mistake = Some(FrameId(candidate));
            self.ledger.tenants[owner.index()].stats.mistakes += 1;
            // A list may have kept a block that the manager has not been told of.
            if self.is_known(candidate) {
                self.tell(owner, |control, _| control.placeholder_used(access, candidate));
            }
        }
        Some(candidate)
    }

    /// Takes the first frame of the ledger that `account` may have and that can be claimed, or what its
    /// manager prefers. Looks at each frame at most once as a candidate.
    fn take_from_ledger<C: Claims>(
        &mut self,
        account: AccountId,
        newcomer: Option<Newcomer<'_>>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let mut victim = None;
        let mut eligible = self.ledger.begin(account);
        while !claims.gives_up() {
            let candidate = self.level_one.cheapest(&mut self.ledger, &eligible);
            if candidate == NIL {
                if self.ledger.turn_to_own(&mut eligible) {
                    continue;
                }
                break;
            }
            decision.frames_tried += 1;
            if self.ledger.frames.is_present(FrameId(candidate)) && !claims.is_busy(FrameId(candidate)) {
                let stamp = self.ledger.frames[candidate].stamp;
                victim = self.take(candidate, newcomer, claims, decision);
                if victim.is_some() {
                    // A stamp that is not positive is of a frame that was moved to the head, and says nothing
                    // of the age of others.
                    if stamp > 0 {
                        self.ledger.departed_stamp = stamp;
                    }
                    break;
                }
            }
            self.level_one.passed_over(&mut self.ledger, &mut eligible, candidate);
        }
        self.ledger.end();
        victim
    }

    /// Lets the candidate's manager overrule, claims what is to go, and books the decision. None if neither
    /// the manager's choice nor the candidate could be claimed.
    fn take<C: Claims>(
        &mut self,
        candidate: u32,
        newcomer: Option<Newcomer<'_>>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let choice = self.ask(candidate, newcomer, claims, decision);
        if choice != candidate && self.capacity >= FRAMES_UNCACHED {
            self.touch_departure(choice);
        }
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
            let owner = self.ledger.frames[candidate].owner;
            self.ledger.tenants[owner.index()].stats.overrules += 1;
            let account = self.ledger.account(owner);
            if !self.ledger.accounts[account.index()].is_granted {
                self.level_one.overruled(&mut self.ledger, account, candidate, victim);
            }
        }
        Some(victim)
    }

    /// The frame that the account of `candidate` gives up, by its lists of disclosed reads or its manager: a
    /// block of the account that is not busy, or the candidate.
    fn ask<C: Claims>(
        &mut self,
        candidate: u32,
        newcomer: Option<Newcomer<'_>>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> u32 {
        let owner = self.ledger.frames[candidate].owner;
        let account = self.ledger.account(owner);
        let asked = &self.ledger.accounts[account.index()];
        let (has_hints, is_known) = (asked.hints.is_some(), self.is_known(candidate));
        if !self.level_one.asks_managers() || !asked.is_consulted() || !(has_hints || is_known) {
            return candidate;
        }
        decision.decisions += 1;
        self.ledger.tenants[owner.index()].stats.decisions += 1;
        let asked = &self.ledger.accounts[account.index()];
        let asks_manager = is_known && asked.control.is_managed();
        let mut look = Onlooker {
            frames: &self.ledger.frames,
            tenants: &self.ledger.tenants,
            foreign: &self.foreign,
            account,
            candidate,
            ledger_head: if self.foreign.is_empty() { i64::MAX } else { self.ledger.least_stamp() },
            frames_left: asked.cap_frames.saturating_sub(asked.ledger.len()),
            knows_ahead: asked.knows_ahead,
            tried: &mut decision.frames_tried,
            free: None,
            claims,
        };
        let asked = &mut self.ledger.accounts[account.index()];
        let offer = match &mut asked.hints {
            Some(hints) => hints.offer(&mut |frame| look.is_taken(frame, true)),
            None => None,
        };
        if let Some(offer) = offer.filter(|offer| self.is_settled(account, offer, newcomer)) {
            return offer.frame;
        }
        let asked = &mut self.ledger.accounts[account.index()];
        let managed = if asks_manager {
            let missing = newcomer.map(|newcomer| newcomer.access);
            asked.control.replace_block(&self.ledger.frames, candidate, missing, &mut look)
        } else {
            Ok(candidate)
        };
        let checked = managed.and_then(|choice| {
            if choice == candidate || look.free == Some(choice) || !look.is_busy(FrameId(choice)) {
                return Ok(choice);
            }
            asked.control.answer_refused().map(|()| candidate)
        });
        let choice = checked.unwrap_or_else(|Panicked| {
            self.dismiss(owner);
            candidate
        });
        self.disclosed_choice(account, offer, choice, newcomer)
    }
}

/// What the manager of one account sees of frames during one question.
struct Onlooker<'a, C> {
    frames: &'a FrameTable,
    tenants: &'a [Tenant],
    foreign: &'a [i64],
    account: AccountId,
    candidate: u32,
    /// Where shared pages are protected: the least stamp of the ledger. A block that another account used
    /// since is protected.
    ledger_head: i64,
    frames_left: u32,
    knows_ahead: bool,
    tried: &'a mut u32,
    /// The frame found free last, which need not be asked again: the claim decides.
    free: Option<u32>,
    claims: &'a mut C,
}

impl<C: Claims> Onlooker<'_, C> {
    /// Whether the frame could not be taken for the account, as its block, or one that is known ahead of its
    /// first access if `names_ahead`.
    fn is_taken(&mut self, frame: FrameId, names_ahead: bool) -> bool {
        *self.tried += 1;
        let is_known = self.frames.is_resident(frame) || names_ahead && self.frames.is_present(frame);
        if !is_known || self.tenants[self.frames[frame.0].owner.index()].account != self.account {
            return true;
        }
        // Another account used it more recently than the oldest entitlement: the owner's manager may not take
        // it away. The candidate may always leave.
        let is_shared = self.foreign.get(frame.index()).is_some_and(|at| *at >= self.ledger_head);
        let is_busy = (is_shared && frame.0 != self.candidate) || self.claims.is_busy(frame);
        self.free = (!is_busy).then_some(frame.0);
        is_busy
    }
}

impl<C: Claims> Look for Onlooker<'_, C> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.is_taken(frame, self.knows_ahead)
    }

    fn is_modified(&mut self, frame: FrameId) -> bool {
        self.claims.is_modified(frame)
    }

    fn frames_left(&self) -> u32 {
        self.frames_left
    }

    fn block(&self, frame: FrameId) -> Option<Block> {
        let is_own = || self.tenants[self.frames[frame.0].owner.index()].account == self.account;
        (self.frames.is_resident(frame) && is_own()).then(|| block_in(self.frames, frame.0))
    }
}
