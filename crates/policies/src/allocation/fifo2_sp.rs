//! FIFO2-SP: FIFO2 over all tenants, with swapping and placeholders, which its paper calls holders.
//!
//! Frames are in an active and an inactive queue with a reference bit each ([`Fifo2Queues`]), and not in
//! the order of use. The candidate is the first inactive frame that was not referenced. If its manager
//! chooses another block, the two exchange places, across both queues, and the absent page has a claim on
//! the candidate while that is not referenced: a reference deletes the placeholder. A miss on the absent
//! page then takes the candidate's frame, whatever its manager says, and the overrule was a mistake.
//! Since references count only as bits, what LRU-SP promises other tenants is not exact here.
//!
//! An account whose floor is its cap is *privileged*: its frames are in neither queue and have no
//! placeholders, nobody takes them away, and it gives them up for its own misses alone: the manager's choice,
//! or the oldest.
//!
//! A hit sets a bit. A candidate costs O(1) amortised, and a step for each frame before it that is busy or
//! may not be taken because of a floor or a cap.
//!
//! Paper: Lee, Chen, Chang, "In-Kernel Policy Interpretation for Application-Specific Memory Caching
//! Management" (HiPEC).

use super::allocate::{Allocate, Arrival};
use super::ledger::{Eligible, Ledger};
use super::overrules::Overrules;
use crate::{
    classic::fifo2_queues::Fifo2Queues,
    frame_table::FrameState,
    ids::{AccountId, PageId, TenantId},
    list::NIL,
};

pub(crate) struct Fifo2Sp {
    /// Every frame that is in the ledger, except those of privileged accounts.
    queues: Fifo2Queues,
    overrules: Overrules,
}

impl Fifo2Sp {
    /// For a pool of `frames`; `revokes` says whether a manager that keeps being wrong loses its say.
    pub fn new(frames: u32, revokes: bool) -> Self {
        let mut queues = Fifo2Queues::with_capacity(frames);
        queues.lengthen_to(frames);
        Self { queues, overrules: Overrules::new(frames, revokes) }
    }

    /// The first frame behind `behind` of the queues, then of the asking account's own list if that is
    /// privileged.
    fn next_to_go(&mut self, ledger: &Ledger, eligible: &Eligible, behind: u32) -> u32 {
        let account = &ledger.accounts[eligible.account().index()];
        let is_in_own_list = behind != NIL && !self.queues.has(behind);
        let has_only_own_list = account.is_privileged() && account.is_at_cap();
        if !is_in_own_list && !has_only_own_list {
            let next = self.queues.next_to_go(behind, |frame| ledger.is_eligible(eligible, frame));
            if next != NIL || !account.is_privileged() {
                return next;
            }
        }
        if is_in_own_list { ledger.frames.ledger_links.next(behind) } else { account.ledger.head() }
    }
}

impl Allocate for Fifo2Sp {
    fn cheapest(&mut self, ledger: &mut Ledger, eligible: &Eligible) -> u32 {
        self.next_to_go(ledger, eligible, eligible.last_passed())
    }

    fn passed_over(&mut self, _ledger: &mut Ledger, eligible: &mut Eligible, candidate: u32) {
        eligible.go_on_behind(candidate);
    }

    fn orders_by_use(&self) -> bool {
        false
    }

    /// The access that a page comes in for does not count.
    fn referenced(&mut self, ledger: &mut Ledger, _tenant: TenantId, frame: u32, _is_named: bool) {
        if ledger.frames[frame].state != FrameState::InFlight {
            self.queues.reference(frame);
        }
    }

    #[inline]
    fn accessed(&mut self, ledger: &mut Ledger, account: AccountId, accesses: u64) {
        self.overrules.accessed(ledger, account, accesses);
    }

    fn entered(&mut self, ledger: &mut Ledger, account: AccountId, frame: u32, arrival: Arrival) {
        self.queues.lengthen_to(ledger.frames.len());
        if !ledger.accounts[account.index()].is_privileged() {
            self.queues.insert(frame);
        }
        self.overrules.entered(ledger, account, arrival);
    }

    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32) {
        if !ledger.accounts[account.index()].is_privileged() {
            self.queues.exchange_places(candidate, victim);
            self.overrules.add(ledger, candidate, victim);
        }
    }

    fn departed(&mut self, ledger: &mut Ledger, frame: u32, makes_room: bool) {
        self.queues.remove(frame);
        self.overrules.departed(ledger, frame, makes_room);
    }

    fn demoted(&mut self, ledger: &mut Ledger, frame: u32) {
        self.queues.move_to_head(frame);
        ledger.move_to_head(frame);
    }

    fn exchanged(&mut self, a: u32, b: u32) {
        self.queues.lengthen_to(1 + a.max(b));
        self.queues.exchange_places(a, b);
    }

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

    fn asks_about_placeholders(&self) -> bool {
        false
    }

    fn vindicated(&mut self, ledger: &mut Ledger, frame: u32) {
        self.overrules.settle(ledger, frame, false);
    }

    /// The frame is the next to go, as the absent page would have been.
    fn claim_ended(&mut self, ledger: &mut Ledger, frame: u32) {
        self.overrules.drop_unjudged(ledger, frame);
        self.demoted(ledger, frame);
    }

    fn account_opened(&mut self, account: AccountId) {
        self.overrules.account_opened(account);
    }

    fn manager_changed(&mut self, ledger: &mut Ledger, account: AccountId, judges_itself: bool) {
        self.overrules.manager_changed(ledger, account, judges_itself);
    }

    /// The frames of an account that becomes privileged leave the queues, and their placeholders die
    /// unjudged. The frames of an account that is no longer privileged enter the queues, the oldest first.
    fn share_changed(&mut self, ledger: &mut Ledger, account: AccountId) {
        let is_privileged = ledger.accounts[account.index()].is_privileged();
        let mut at = ledger.accounts[account.index()].ledger.head();
        while at != NIL {
            if is_privileged {
                self.queues.remove(at);
                self.overrules.drop_unjudged(ledger, at);
            } else if !self.queues.has(at) {
                self.queues.insert(at);
            }
            at = ledger.frames.ledger_links.next(at);
        }
    }

    fn placeholders(&self) -> u32 {
        self.overrules.placeholders()
    }

    fn metadata_bytes(&self) -> usize {
        self.queues.metadata_bytes() + self.overrules.metadata_bytes()
    }

    fn check_invariants(&self, ledger: &Ledger) {
        self.queues.check_invariants();
        self.overrules.check_invariants(ledger);
        for frame in 0..ledger.frames.len() {
            let slot = &ledger.frames[frame];
            let is_empty = matches!(slot.state, FrameState::Free | FrameState::Limbo);
            let is_privileged =
                !is_empty && ledger.accounts[ledger.account(slot.owner).index()].is_privileged();
            assert_eq!(
                self.queues.has(frame),
                !is_empty && !is_privileged,
                "frame {frame}, {:?}",
                slot.state
            );
            assert!(
                !is_privileged || !slot.has_claim(),
                "a placeholder of a privileged account's frame {frame}"
            );
        }
    }
}
