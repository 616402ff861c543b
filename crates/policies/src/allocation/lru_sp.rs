//! LRU-SP's bookkeeping: swapping and placeholders.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94. The
//! removal rules and the retarget rule follow from the shadow argument: give each resident frame a *shadow block*,
//! the absent block whose placeholder points to it, or its own. Until an overrule turns out right, the ledger read
//! through shadows is exactly the list that plain LRU of the same size would hold, so every other tenant hits and
//! misses as it would there.
//!
//! A placeholder X -> A dies when, and only when: X misses and it is used; A is referenced (a vindication); A is
//! evicted; A overrules again; X's identity ends, and then A also moves to the ledger's head.

use crate::{
    allocation::Allocation,
    directory::Directory,
    frame_table::{Claim, LEDGER},
    ids::{AccountId, PageId},
};

impl Directory {
    /// `victim` goes instead of `candidate`, a block of the same account.
    pub(crate) fn overrule(&mut self, candidate: u32, victim: u32) {
        let owner = self.frames[candidate].owner;
        self.tenants[owner.index()].stats.overrules += 1;
        if self.allocation == Allocation::AllocLru {
            return;
        }
        self.swap(self.account(owner), candidate, victim);
        if self.allocation != Allocation::LruSp {
            return;
        }
        // The candidate's previous claim lapses; a new one is made.
        self.settle_claim(candidate, false);
        // Retarget: whoever has a claim on the victim's frame has it on the candidate's from now on. Making a
        // placeholder for the victim instead broke the protection of others in a third of random runs.
        let passed_on = self.frames[victim].claim;
        let claim = if passed_on == Claim::None { Claim::Judged } else { passed_on };
        let absent = self.drop_placeholder(victim).unwrap_or(self.frames[victim].page);
        self.make_placeholder(absent, candidate, claim);
    }

    /// Exchanges the ledger positions of two blocks of `account`.
    pub(crate) fn swap(&mut self, account: AccountId, a: u32, b: u32) {
        let ledger = &mut self.accounts[account.index()].ledger;
        let at_head = [a, b].contains(&ledger.head);
        ledger.swap(&mut self.frames, a, b);
        let stamp = self.frames[a].stamp;
        self.frames[a].stamp = self.frames[b].stamp;
        self.frames[b].stamp = stamp;
        self.list_changed(account, at_head);
    }

    fn make_placeholder(&mut self, absent: PageId, frame: u32, claim: Claim) {
        self.placeholders.insert(&mut self.frames, absent, frame, claim);
        self.tenants[self.frames[frame].owner.index()].stats.outstanding += 1;
    }

    /// Deletes the placeholder that points to `frame`, if any, and returns its page. The overrule that made it is
    /// not judged.
    pub(crate) fn drop_placeholder(&mut self, frame: u32) -> Option<PageId> {
        if !self.frames[frame].has_claim() {
            return None;
        }
        self.tenants[self.frames[frame].owner.index()].stats.outstanding -= 1;
        Some(self.placeholders.remove(&mut self.frames, frame))
    }

    /// Deletes the placeholder that points to `frame`, if any, as the overrule that made it has turned out wrong or
    /// not. Its maker is judged by that, if it still is the manager.
    pub(crate) fn settle_claim(&mut self, frame: u32, is_wrong: bool) {
        let is_judged = self.frames[frame].claim == Claim::Judged;
        if self.drop_placeholder(frame).is_some() && is_judged {
            let owner = self.frames[frame].owner;
            let revoked = self.account_of(owner).revocation.settle(is_wrong);
            self.tenants[owner.index()].stats.revocations += u64::from(revoked);
        }
    }

    /// The identity of the absent page whose placeholder points to `frame` has ended: the claim dies, and the frame
    /// is the next to go, as the absent page would have been under plain LRU.
    pub(crate) fn end_claim(&mut self, frame: u32) {
        if self.drop_placeholder(frame).is_none() {
            return;
        }
        self.move_to_head(frame);
    }

    /// The frame is the next to go.
    pub(crate) fn move_to_head(&mut self, frame: u32) {
        let account = self.account(self.frames[frame].owner);
        let ledger = &mut self.accounts[account.index()].ledger;
        ledger.unlink(&mut self.frames, frame);
        ledger.push_head(&mut self.frames, frame);
        self.head_stamp -= 1;
        self.frames[frame].stamp = self.head_stamp;
        self.ledger_changed(account);
        debug_assert_eq!(self.frames.previous::<LEDGER>(frame), crate::frame_table::NONE);
    }
}
