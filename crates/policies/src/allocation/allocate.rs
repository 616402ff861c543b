//! What a way of allocating frames to tenants decides.

use super::ledger::{Eligible, Ledger};
use crate::ids::{AccountId, PageId, TenantId};

/// Why a page comes in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// A process misses on it.
    Missed,
    /// It is expected to be needed soon.
    Ahead,
    /// It was to leave, could not be written, and is back.
    Restored,
}

/// A way of allocating frames to tenants: who gives one up, what that costs, and what an overrule, a
/// placeholder and a departure mean.
///
/// Calls come in the order of events, with the ledger as it is at that moment. The defaults are those of an
/// allocation by time of last use, with neither placeholders nor prices. Frames have their numbers for names;
/// a frame in flight counts as entered.
pub(crate) trait Allocate {
    /// Whether managers may choose another block than the candidate.
    fn asks_managers(&self) -> bool {
        true
    }

    /// The candidate: of the frames that are `eligible` the one that costs least to give up,
    /// [`NIL`](crate::list::NIL) if none is left. It may be busy, or its page still in flight.
    #[inline]
    fn cheapest(&mut self, ledger: &mut Ledger, eligible: &Eligible) -> u32 {
        ledger.oldest(eligible)
    }

    /// The candidate cannot be taken: it is not eligible for the rest of the question.
    #[inline]
    fn passed_over(&mut self, ledger: &mut Ledger, eligible: &mut Eligible, candidate: u32) {
        ledger.pass(eligible, candidate);
    }

    /// What the candidate's account loses with the frame, in seconds a second: 0 where the order
    /// alone decides.
    fn cost_to_give(&self, _ledger: &Ledger, _candidate: u32) -> f64 {
        0.0
    }

    /// Whether a use of a page moves its frame to the tail of its account's list. If not, the frame keeps its
    /// place, and [`referenced`](Self::referenced) is called. Asked for each hit, so it should be a constant.
    #[inline(always)]
    fn orders_by_use(&self) -> bool {
        true
    }

    /// The page in `frame` was used by `tenant`, or is in flight for it, and a list of disclosed reads named
    /// the access or not. Called where [`orders_by_use`](Self::orders_by_use) is false.
    fn referenced(&mut self, _ledger: &mut Ledger, _tenant: TenantId, _frame: u32, _is_named: bool) {}

    /// `accesses` were made to blocks of `account`. Hits that the driver did not tell one by one are
    /// included.
    #[inline]
    fn accessed(&mut self, _ledger: &mut Ledger, _account: AccountId, _accesses: u64) {}

    /// A page of `account` is in flight to `frame`, at the tail of the account's list.
    fn entered(&mut self, _ledger: &mut Ledger, _account: AccountId, _frame: u32, _arrival: Arrival) {}

    /// `victim` goes instead of `candidate`; both are blocks of `account`.
    fn overruled(&mut self, ledger: &mut Ledger, account: AccountId, candidate: u32, victim: u32);

    /// The page in `frame` leaves: to make room, or because it ends or never came. The frame is still in the
    /// ledger.
    fn departed(&mut self, _ledger: &mut Ledger, _frame: u32, _makes_room: bool) {}

    /// The page in `frame` is the next to go, because it came in ahead and will not be needed, or because it
    /// can be had again cheaply.
    fn demoted(&mut self, ledger: &mut Ledger, frame: u32) {
        ledger.move_to_head(frame);
    }

    /// The pages in flight to two frames change places, or the one in flight to `a` moves to `b`, which had
    /// none.
    fn exchanged(&mut self, _a: u32, _b: u32) {}

    /// The frame that the placeholder of an absent page points to.
    #[inline]
    fn placeholder(&self, _ledger: &Ledger, _absent: PageId) -> Option<u32> {
        None
    }

    /// Reads where a look for the placeholder of a page begins, so that it is in the processor's cache by
    /// then.
    #[inline]
    fn touch(&self, _absent: PageId) -> u32 {
        0
    }

    /// The absent page whose placeholder points to `frame` comes in. The placeholder is deleted. Returns
    /// whether the overrule that made it was a mistake, which only a process's own miss can show.
    fn placeholder_met(&mut self, _ledger: &mut Ledger, _frame: u32, _arrival: Arrival) -> bool {
        false
    }

    /// Whether the manager is asked about a candidate that a placeholder names. If not, that page goes.
    fn asks_about_placeholders(&self) -> bool {
        true
    }

    /// The page in `frame`, which has a claim, was used before the absent page: the overrule was right.
    fn vindicated(&mut self, _ledger: &mut Ledger, _frame: u32) {}

    /// The identity of the absent page that has a claim on `frame` has ended, or the frame's owner has.
    fn claim_ended(&mut self, _ledger: &mut Ledger, _frame: u32) {}

    /// The account starts as new: it was added, or its closed tenant has no block left.
    fn account_opened(&mut self, _account: AccountId) {}

    /// The account has another manager, or none.
    fn manager_changed(&mut self, _ledger: &mut Ledger, _account: AccountId, _judges_itself: bool) {}

    /// The account has another floor or cap.
    fn share_changed(&mut self, _ledger: &mut Ledger, _account: AccountId) {}

    /// Absent pages with a claim on a frame.
    fn placeholders(&self) -> u32 {
        0
    }

    /// Bytes of memory held.
    fn metadata_bytes(&self) -> usize {
        0
    }

    /// Panics if the state contradicts itself or the ledger. For tests.
    fn check_invariants(&self, _ledger: &Ledger) {}
}
