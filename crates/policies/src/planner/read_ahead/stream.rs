//! A stream: its positions, and the credit of pages that it has for them.

use super::head::{CREDIT_PAGE, Head, Limits, Pattern, WINDOW_FIRST};
use super::positions::Positions;
use crate::planner::{Seen, StreamKey, Stretch};

/// What the first use of a page that was brought in earns, besides the page itself.
pub(super) const USE_EARNS: i64 = CREDIT_PAGE / 4;
/// The most credit of a kind of positions, in windows.
const CREDIT_WINDOWS: u64 = 4;

/// What an access at random looks at and changes is in the first three cache lines.
#[derive(Clone)]
#[repr(C, align(64))]
pub(super) struct Stream {
    pub key: Option<StreamKey>,
    /// By [`Pattern`], in quarters of a page; see [`CREDIT_PAGE`].
    pub credit: [i64; 2],
    pub positions: Positions,
}

impl Stream {
    /// No stream.
    pub fn vacant() -> Self {
        Self { key: None, credit: [0; 2], positions: Positions::new() }
    }

    /// A stream without positions, with a credit of one window of each kind.
    pub fn new(key: StreamKey, limits: &Limits) -> Self {
        let credit = Pattern::ALL.map(|pattern| limits.credit(pattern, 1));
        Self { key: Some(key), credit, positions: Positions::new() }
    }

    /// A page that was brought in is used, for the believed position at `at` or a sequential one that was
    /// given up.
    pub fn earn(&mut self, at: Option<usize>, limits: &Limits) {
        let pattern = at.map_or(Pattern::Sequential, |at| Pattern::of(self.positions.head(at).step));
        let credit = &mut self.credit[pattern as usize];
        *credit = (*credit + CREDIT_PAGE + USE_EARNS).min(limits.credit(pattern, CREDIT_WINDOWS));
    }

    /// Pages of a plan for a position of `pattern` were not brought in.
    pub fn give_back(&mut self, pattern: Pattern, pages: u64) {
        self.credit[pattern as usize] += pages as i64 * CREDIT_PAGE;
    }

    /// An access to a page is about to move a believed position. If that is on trial, the page would have
    /// been used, and those passed over wasted.
    pub fn judge_trial(&mut self, at: usize, number: u64, seen: Seen) {
        let head = self.positions.head(at);
        let steps = head.steps_in(number.wrapping_sub(head.last).cast_signed());
        if head.is_on_trial && seen == Seen::Missed && steps > 0 {
            let credit = &mut self.credit[Pattern::of(head.step) as usize];
            *credit += USE_EARNS;
            Self::charge(credit, steps as u64 - 1);
        }
    }

    /// A position was given up. If it was on trial, the first window from its last page on would have been
    /// wasted.
    pub fn end_trial(&mut self, left: &Head) {
        if left.is_on_trial {
            Self::charge(&mut self.credit[Pattern::of(left.step) as usize], WINDOW_FIRST);
        }
    }

    /// Takes pages that a trial would have wasted from a credit, but no more than there is: what was not read
    /// makes no debts.
    fn charge(credit: &mut i64, pages: u64) {
        *credit = (*credit - pages as i64 * CREDIT_PAGE).max(0.min(*credit));
    }

    /// Whether there is credit for the position that moved last, and perhaps something to plan. Without
    /// credit the position is on trial.
    #[inline]
    pub fn may_plan(&mut self, limits: &Limits) -> bool {
        let head = self.positions.latest_mut();
        head.is_on_trial = self.credit[Pattern::of(head.step) as usize] < WINDOW_FIRST as i64 * CREDIT_PAGE;
        !head.is_on_trial && head.may_plan(limits)
    }

    /// What to bring in for the position that moved last, which has credit, as far as that goes.
    #[inline(never)]
    pub fn plan(&mut self, limits: &Limits) -> Option<Stretch> {
        let head = self.positions.latest_mut();
        let credit = &mut self.credit[Pattern::of(head.step) as usize];
        let plan = head.plan(limits, (*credit / CREDIT_PAGE) as u64)?;
        *credit -= plan.count as i64 * CREDIT_PAGE;
        Some(plan)
    }
}
