//! What managers' overrules came to: the claims of absent pages on frames, and who loses its say by them.
//!
//! LRU-SP and FIFO2-SP have these rules in common, and differ in the order that a claim is about.

use super::{allocate::Arrival, ledger::Ledger, placeholders::Placeholders, revocation::Revocation};
use crate::{
    frame_table::Claim,
    ids::{AccountId, PageId},
    list::NIL,
};

/// Placeholders, and for each account how often they proved its manager wrong.
pub(crate) struct Overrules {
    placeholders: Placeholders,
    /// Per account: what its manager's overrules came to.
    revocations: Vec<Revocation>,
    /// Sentences that are being served: where there are none, no account need be looked at.
    sentences: u32,
    frames: u32,
    /// Whether managers that keep being wrong lose their say.
    revokes: bool,
}

impl Overrules {
    /// None yet, in a pool of `frames`.
    pub fn new(frames: u32, revokes: bool) -> Self {
        Self { placeholders: Placeholders::default(), revocations: Vec::new(), sentences: 0, frames, revokes }
    }

    /// `victim` goes instead of `candidate`: the candidate's previous claim lapses, and a new one is made.
    ///
    /// Retarget: a page with a claim on the victim's frame has it on the candidate's from now on. Making a
    /// placeholder for the victim instead broke the protection of others in a third of random runs.
    pub fn add(&mut self, ledger: &mut Ledger, candidate: u32, victim: u32) {
        self.settle(ledger, candidate, false);
        let passed_on = ledger.frames[victim].claim;
        let claim = if passed_on == Claim::None { Claim::Judged } else { passed_on };
        let absent = self.drop_unjudged(ledger, victim).unwrap_or(ledger.frames[victim].page);
        self.placeholders.insert(&mut ledger.frames, absent, candidate, claim);
        let owner = ledger.frames[candidate].owner;
        ledger.tenants[owner.index()].stats.outstanding += 1;
    }

    /// Deletes the placeholder that points to `frame`, if any, and returns its page. The overrule that made
    /// it is not judged.
    pub fn drop_unjudged(&mut self, ledger: &mut Ledger, frame: u32) -> Option<PageId> {
        if !ledger.frames[frame].has_claim() {
            return None;
        }
        let owner = ledger.frames[frame].owner;
        ledger.tenants[owner.index()].stats.outstanding -= 1;
        Some(self.placeholders.remove(&mut ledger.frames, frame))
    }

    /// Deletes the placeholder that points to `frame`, if any, as the overrule that made it has turned out
    /// wrong or not. Its maker is judged by that, if it still is the manager.
    pub fn settle(&mut self, ledger: &mut Ledger, frame: u32, is_wrong: bool) {
        let is_judged = ledger.frames[frame].claim == Claim::Judged;
        if self.drop_unjudged(ledger, frame).is_some() && is_judged {
            let owner = ledger.frames[frame].owner;
            let account = ledger.account(owner);
            let is_revoked = self.revocations[account.index()].settle(is_wrong);
            ledger.accounts[account.index()].is_revoked |= is_revoked;
            self.sentences += u32::from(is_revoked);
            ledger.tenants[owner.index()].stats.revocations += u64::from(is_revoked);
        }
    }

    /// The page in `frame` leaves, to make room or since it ends: a claim on the frame dies with it.
    #[inline]
    pub fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        if !ledger.frames[frame].has_claim() {
            return;
        }
        if makes_room {
            self.settle(ledger, frame, false);
        } else {
            self.drop_unjudged(ledger, frame);
        }
    }

    /// The frame that the placeholder of an absent page points to.
    #[inline]
    pub fn placeholder(&self, ledger: &Ledger, absent: PageId) -> Option<u32> {
        self.placeholders.get(&ledger.frames, absent)
    }

    /// Reads where a look for the placeholder of an absent page begins.
    #[inline]
    pub fn touch(&self, absent: PageId) -> u32 {
        self.placeholders.touch(absent)
    }

    /// The page whose placeholder points to `frame` comes in. Returns whether that shows a mistake.
    pub fn met(&mut self, ledger: &mut Ledger, frame: u32, arrival: Arrival) -> bool {
        let is_mistake = arrival == Arrival::Missed;
        if is_mistake {
            self.settle(ledger, frame, true);
        } else {
            self.drop_unjudged(ledger, frame);
        }
        is_mistake
    }

    /// A page of `account` is in flight: a miss serves the sentence.
    #[inline]
    pub fn entered(&mut self, ledger: &mut Ledger, account: AccountId, arrival: Arrival) {
        if arrival == Arrival::Missed {
            self.accessed(ledger, account, 1);
        }
    }

    /// `accesses` serve the sentence of `account`, if there is one.
    #[inline]
    pub fn accessed(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        if self.sentences > 0 && ledger.accounts[account.index()].is_revoked {
            self.serve(ledger, account, accesses);
        }
    }

    #[cold]
    fn serve(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        let revocation = &mut self.revocations[account.index()];
        let served = u32::from(revocation.is_revoked());
        revocation.accesses(accesses);
        ledger.accounts[account.index()].is_revoked = revocation.is_revoked();
        self.sentences -= served - u32::from(revocation.is_revoked());
    }

    /// The account is as new.
    pub fn account_opened(&mut self, account: AccountId) {
        let opened = Revocation::new(self.frames, self.revokes);
        match self.revocations.get_mut(account.index()) {
            Some(revocation) => {
                self.sentences -= u32::from(revocation.is_revoked());
                *revocation = opened;
            }
            None => self.revocations.push(opened),
        }
        debug_assert!(account.index() < self.revocations.len(), "accounts are opened in turn");
    }

    /// The account has another manager, which does not answer for the claims on its blocks. One that
    /// `judges_itself` cannot lose its say from here on. Costs a step for each block.
    pub fn manager_changed(&mut self, ledger: &mut Ledger, account: AccountId, judges_itself: bool) {
        let mut at = ledger.accounts[account.index()].ledger.head();
        while at != NIL {
            let claim = &mut ledger.frames[at].claim;
            *claim = claim.inherited();
            at = ledger.frames.ledger_links.next(at);
        }
        self.revocations[account.index()].set_enabled(self.revokes && !judges_itself);
    }

    /// Absent pages with a claim on a frame.
    pub fn placeholders(&self) -> u32 {
        self.placeholders.len()
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.placeholders.metadata_bytes() + self.revocations.capacity() * size_of::<Revocation>()
    }

    /// Panics unless placeholders, claims and sentences agree.
    pub fn check_invariants(&self, ledger: &Ledger) {
        self.placeholders.check_invariants(&ledger.frames);
        for (revocation, account) in self.revocations.iter().zip(&ledger.accounts) {
            revocation.check_invariants();
            assert_eq!(account.is_revoked, revocation.is_revoked(), "an account's say");
        }
        let serving = self.revocations.iter().filter(|revocation| revocation.is_revoked()).count();
        assert_eq!(self.sentences as usize, serving, "sentences that are being served");
    }
}
