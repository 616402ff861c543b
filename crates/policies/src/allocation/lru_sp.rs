//! LRU-SP: swapping and placeholders.
//!
//! Paper: Cao, Felten, Li, "Implementation and Performance of Application-Controlled File Caching", OSDI '94.
//! The removal rules and the retarget rule follow from the shadow argument: give each resident frame a
//! *shadow block*, the absent block whose placeholder points to it, or its own. Until an overrule turns out
//! right, the ledger read through shadows is exactly the list that plain LRU of the same size would hold, so
//! every other tenant hits and misses as it would there.
//!
//! A placeholder X -> A dies when, and only when:
//!
//! * X comes in; if a process missed on it, the overrule was a mistake;
//! * A is referenced, which is a vindication;
//! * A is evicted;
//! * A is the candidate of another overrule;
//! * A is the victim of an overrule, and X then has its claim on that candidate;
//! * X's identity ends or A's owner closes, and A then also moves to the ledger's head.
//!
//! A miss that creates X and reads nothing counts as any other miss: under plain LRU, X would still have been
//! there, and would have needed no frame.

use super::allocate::{Allocate, Arrival};
use super::{ledger::Ledger, overrules::Overrules};
use crate::ids::{AccountId, PageId};

pub(crate) struct LruSp {
    overrules: Overrules,
}

impl LruSp {
    pub fn new(frames: u32, revokes: bool) -> Self {
        Self { overrules: Overrules::new(frames, revokes) }
    }
}

impl Allocate for LruSp {
    #[inline]
    fn accessed(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        self.overrules.accessed(ledger, account, accesses);
    }

    #[inline]
    fn entered(&mut self, ledger: &mut Ledger, account: AccountId, _frame: u32, arrival: Arrival) {
        self.overrules.entered(ledger, account, arrival);
    }

    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32) {
        ledger.swap(account, candidate, victim);
        self.overrules.add(ledger, candidate, victim);
    }

    #[inline]
    fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        self.overrules.departed(ledger, frame, makes_room);
    }

    #[inline]
    fn placeholder(&self, ledger: &Ledger, absent: PageId) -> Option<u32> {
        self.overrules.placeholder(ledger, absent)
    }

    #[inline]
    fn touch(&self, absent: PageId) -> u32 {
        self.overrules.touch(absent)
    }

    fn placeholder_met(&mut self, ledger: &mut Ledger, frame: u32, arrival: Arrival) -> bool {
        self.overrules.met(ledger, frame, arrival)
    }

    fn vindicated(&mut self, ledger: &mut Ledger, frame: u32) {
        self.overrules.settle(ledger, frame, false);
    }

    /// The frame is the next to go, as the absent page would have been under plain LRU.
    fn claim_ended(&mut self, ledger: &mut Ledger, frame: u32) {
        self.overrules.drop_unjudged(ledger, frame);
        ledger.move_to_head(frame);
    }

    fn account_opened(&mut self, account: AccountId) {
        self.overrules.account_opened(account);
    }

    fn manager_changed(&mut self, ledger: &mut Ledger, account: AccountId, judges_itself: bool) {
        self.overrules.manager_changed(ledger, account, judges_itself);
    }

    fn placeholders(&self) -> u32 {
        self.overrules.placeholders()
    }

    fn metadata_bytes(&self) -> usize {
        self.overrules.metadata_bytes()
    }

    fn check_invariants(&self, ledger: &Ledger) {
        self.overrules.check_invariants(ledger);
    }
}
