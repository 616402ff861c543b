//! LRU-SP: swapping and placeholders.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
//! The removal rules and the retarget rule follow from the shadow argument: give each resident frame a
//! *shadow block*, the absent block whose placeholder points to it, or its own. Until an overrule turns out
//! right, the ledger read through shadows is exactly the list that plain LRU of the same size would hold, so
//! every other tenant hits and misses as it would there.
//!
//! A placeholder X -> A dies when, and only when: X comes in, and if a process missed on it, the overrule was
//! a mistake; A is referenced (a vindication); A is evicted; A overrules again; X's identity ends, or A's
//! owner closes, and then A also moves to the ledger's head.

use super::allocate::{Allocate, Arrival};
use super::{ledger::Ledger, placeholders::Placeholders, revocation::Revocation};
use crate::{
    frame_table::Claim,
    ids::{AccountId, PageId},
    list::NIL,
};

pub(crate) struct LruSp {
    placeholders: Placeholders,
    /// Per account: what its manager's overrules came to.
    revocations: Vec<Revocation>,
    frames: u32,
    /// Whether managers that keep being wrong lose their say.
    revokes: bool,
}

impl LruSp {
    pub fn new(frames: u32, revokes: bool) -> Self {
        Self { placeholders: Placeholders::default(), revocations: Vec::new(), frames, revokes }
    }

    /// Deletes the placeholder that points to `frame`, if any, and returns its page. The overrule that made
    /// it is not judged.
    fn drop_placeholder(&mut self, ledger: &mut Ledger, frame: u32) -> Option<PageId> {
        if !ledger.frames[frame].has_claim() {
            return None;
        }
        let owner = ledger.frames[frame].owner;
        ledger.tenants[owner.index()].stats.outstanding -= 1;
        Some(self.placeholders.remove(&mut ledger.frames, frame))
    }

    /// Deletes the placeholder that points to `frame`, if any, as the overrule that made it has turned out
    /// wrong or not. Its maker is judged by that, if it still is the manager.
    fn settle_claim(&mut self, ledger: &mut Ledger, frame: u32, is_wrong: bool) {
        let is_judged = ledger.frames[frame].claim == Claim::Judged;
        if self.drop_placeholder(ledger, frame).is_some() && is_judged {
            let owner = ledger.frames[frame].owner;
            let account = ledger.account(owner);
            let is_revoked = self.revocations[account.index()].settle(is_wrong);
            ledger.accounts[account.index()].is_revoked |= is_revoked;
            ledger.tenants[owner.index()].stats.revocations += u64::from(is_revoked);
        }
    }
}

impl Allocate for LruSp {
    fn accessed_while_revoked(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        let revocation = &mut self.revocations[account.index()];
        revocation.accesses(accesses);
        ledger.accounts[account.index()].is_revoked = revocation.is_revoked();
    }

    #[inline]
    fn entered(&mut self, ledger: &mut Ledger, account: AccountId, _frame: u32, arrival: Arrival) {
        if arrival == Arrival::Missed && ledger.accounts[account.index()].is_revoked {
            self.accessed_while_revoked(ledger, account, 1);
        }
    }

    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32) {
        ledger.swap(account, candidate, victim);
        // The candidate's previous claim lapses; a new one is made.
        self.settle_claim(ledger, candidate, false);
        // Retarget: a page with a claim on the victim's frame has it on the candidate's from now on. Making a
        // placeholder for the victim instead broke the protection of others in a third of random runs.
        let passed_on = ledger.frames[victim].claim;
        let claim = if passed_on == Claim::None { Claim::Judged } else { passed_on };
        let absent = self.drop_placeholder(ledger, victim).unwrap_or(ledger.frames[victim].page);
        self.placeholders.insert(&mut ledger.frames, absent, candidate, claim);
        let owner = ledger.frames[candidate].owner;
        ledger.tenants[owner.index()].stats.outstanding += 1;
    }

    #[inline]
    fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        if !ledger.frames[frame].has_claim() {
            return;
        }
        if makes_room {
            self.settle_claim(ledger, frame, false);
        } else {
            self.drop_placeholder(ledger, frame);
        }
    }

    #[inline]
    fn placeholder(&self, ledger: &Ledger, absent: PageId) -> Option<u32> {
        self.placeholders.get(&ledger.frames, absent)
    }

    fn placeholder_met(&mut self, ledger: &mut Ledger, frame: u32, arrival: Arrival) -> bool {
        let is_mistake = arrival == Arrival::Missed;
        if is_mistake {
            self.settle_claim(ledger, frame, true);
        } else {
            self.drop_placeholder(ledger, frame);
        }
        is_mistake
    }

    fn vindicated(&mut self, ledger: &mut Ledger, frame: u32) {
        self.settle_claim(ledger, frame, false);
    }

    /// The frame is the next to go, as the absent page would have been under plain LRU.
    fn claim_ended(&mut self, ledger: &mut Ledger, frame: u32) {
        self.drop_placeholder(ledger, frame);
        ledger.move_to_head(frame);
    }

    fn account_opened(&mut self, account: AccountId) {
        let opened = Revocation::new(self.frames, self.revokes);
        match self.revocations.get_mut(account.index()) {
            Some(revocation) => *revocation = opened,
            None => self.revocations.push(opened),
        }
        debug_assert!(account.index() < self.revocations.len(), "accounts are opened in turn");
    }

    /// The new manager does not answer for the claims on the account's blocks.
    fn manager_changed(&mut self, ledger: &mut Ledger, account: AccountId, judges_itself: bool) {
        let mut at = ledger.accounts[account.index()].ledger.head();
        while at != NIL {
            let claim = &mut ledger.frames[at].claim;
            *claim = claim.inherited();
            at = ledger.frames.ledger_links.next(at);
        }
        self.revocations[account.index()].set_enabled(self.revokes && !judges_itself);
    }

    fn placeholders(&self) -> u32 {
        self.placeholders.len()
    }

    fn metadata_bytes(&self) -> usize {
        self.placeholders.metadata_bytes() + self.revocations.capacity() * size_of::<Revocation>()
    }

    fn check_invariants(&self, ledger: &Ledger) {
        self.placeholders.check_invariants(&ledger.frames);
        for (revocation, account) in self.revocations.iter().zip(&ledger.accounts) {
            revocation.check_invariants();
            assert_eq!(account.is_revoked, revocation.is_revoked(), "an account's say");
        }
    }
}
