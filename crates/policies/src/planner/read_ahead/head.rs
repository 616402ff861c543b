//! A position in a stream of accesses: which of them belong to it, and how far its window goes ahead.

use crate::planner::{Seen, Stretch};

/// The first window, in pages.
pub(super) const WINDOW_FIRST: u64 = 4;
/// The largest window, in transfers, while the reader never waits: one transfer being read, one on its way.
const TRANSFERS_UNHURRIED: u64 = 2;
/// The largest window of a stream that leaves pages out, whose transfers are single pages.
pub(super) const WINDOW_STRIDED: u64 = 32;
/// How often a distance must occur in a row before a position is believed: from a page to the next, and any
/// other distance, which chance repeats sooner.
const PATIENCE: u32 = 2;
const PATIENCE_STRIDED: u32 = 3;
/// Pages of a sequential position that the reader may leave out, or come back to.
const SKIP: u64 = 8;
/// One access, in the unit of [`Head::gap`].
const GAP_ONE: u64 = 16;
/// The latest gap is one part in this many of the mean.
const GAP_SHARE: u64 = 8;
/// One page, in the unit of credit, which is a quarter of a page.
pub(super) const CREDIT_PAGE: i64 = 4;

/// The kinds of positions, which have credits of their own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Pattern {
    /// From each page to a neighbour.
    Sequential,
    /// Leaving pages out.
    Strided,
}

impl Pattern {
    pub const ALL: [Self; 2] = [Self::Sequential, Self::Strided];

    pub fn of(step: i64) -> Self {
        if step.unsigned_abs() > 1 { Self::Strided } else { Self::Sequential }
    }

    /// The largest window, where those of sequential positions have up to `sequential` pages.
    pub fn window_max(self, sequential: u64) -> u64 {
        match self {
            Self::Sequential => sequential,
            Self::Strided => sequential.min(WINDOW_STRIDED),
        }
    }
}

/// What bounds the plans of a stream.
pub(super) struct Limits {
    /// How many pages the file has.
    pub pages: u64,
    /// The most pages of a transfer.
    pub run_pages: u64,
    pub window_max: u64,
    /// Pages of the tenant that may be ahead at a time.
    pub ahead_max: u64,
}

impl Limits {
    /// The credit of this number of largest windows, at least of one first window, in quarters of a page.
    pub fn credit(&self, pattern: Pattern, windows: u64) -> i64 {
        (pattern.window_max(self.window_max) * windows).max(WINDOW_FIRST) as i64 * CREDIT_PAGE
    }

    /// Pages that are planned at a time, so that transfers are as long as a window allows.
    #[inline]
    pub fn unit(&self, window: u64) -> u64 {
        self.run_pages.min((window / 2).max(1))
    }
}

/// A position in a stream.
#[derive(Clone, Copy, Default)]
pub(super) struct Head {
    /// When it last moved; 0 for none.
    pub moved: u64,
    /// The page up to which the reader has come.
    pub last: u64,
    /// A page farther ahead in the window that was accessed out of turn; `last` if there was none.
    far: u64,
    /// From `last` to the next page; 0 if unknown.
    pub step: i64,
    /// How often the step was repeated.
    pub repeats: u32,
    /// Pages to be ahead, once the step is believed; before, 0.
    pub window: u64,
    /// The first page not planned for.
    next: u64,
    pub planned: u64,
    /// Pages found ahead.
    pub used: u64,
    /// Accesses observed from one of its moves to the next, a mean of the last ones, in parts; see
    /// [`GAP_ONE`].
    gap: u64,
    /// Misses since a page was found ahead, or the position planned from its last page on.
    missed: u32,
    /// Since its window last grew, the reader has waited for a page on its way in, come to the end of what
    /// was planned, or accessed a page that a longer window would have had.
    pub is_late: bool,
    /// There was no credit for a plan when it last moved.
    pub is_on_trial: bool,
}

/// How an access fits a position, best first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fit {
    Next,
    Ahead,
    Behind,
}

impl Head {
    /// A position that is found at page `number`, at time `now`.
    pub fn new(now: u64, number: u64) -> Self {
        Self { moved: now, last: number, ..Self::default() }
    }

    /// Whether it is a position that is not believed yet.
    pub fn is_young(&self) -> bool {
        self.moved > 0 && self.window == 0
    }

    /// Notes that the position moves at time `now`, perhaps by an access to a page that it has passed.
    pub fn move_at(&mut self, now: u64) {
        let gap = (now - self.moved) * GAP_ONE;
        let mean = if self.gap == 0 { gap } else { (self.gap * (GAP_SHARE - 1) + gap) / GAP_SHARE };
        self.gap = mean.max(GAP_ONE);
        self.moved = now;
    }

    /// How many of its steps a distance is, rounded towards 0. Most positions go from neighbour to neighbour,
    /// which takes no division.
    #[inline]
    pub fn steps_in(&self, distance: i64) -> i64 {
        match self.step {
            1 => distance,
            -1 => distance.wrapping_neg(),
            step => distance / step,
        }
    }

    /// Whether an access to a page continues this believed position from neighbour to neighbour. If it is
    /// also the one that moved last, no other position fits the access better.
    #[inline]
    pub fn is_first_for(&self, number: u64) -> bool {
        self.window > 0 && self.step.unsigned_abs() == 1 && self.is_continued_by(number)
    }

    /// How an access fits a believed position.
    pub fn fit(&self, number: u64, seen: Seen) -> Option<Fit> {
        if self.window == 0 {
            return None;
        }
        let distance = number.wrapping_sub(self.last).cast_signed();
        let steps = self.steps_in(distance);
        if steps.wrapping_mul(self.step) != distance {
            return None;
        }
        let skip = if self.step.unsigned_abs() == 1 { SKIP } else { 0 };
        let behind = if seen == Seen::FoundAhead { self.window.max(skip) } else { skip };
        match steps {
            1 => Some(Fit::Next),
            steps if steps > 1 => (steps as u64 <= self.ahead().max(skip) + 1).then_some(Fit::Ahead),
            steps => (steps.unsigned_abs() <= behind).then_some(Fit::Behind),
        }
    }

    /// Moves a believed position to a page that fits it.
    pub fn advance(&mut self, number: u64) {
        let steps_from = |page: u64| self.steps_in(number.wrapping_sub(page).cast_signed());
        let near = 1..=SKIP as i64 + 1;
        if near.contains(&steps_from(self.last)) || near.contains(&steps_from(self.far)) {
            if steps_from(self.last) > 0 {
                (self.last, self.far) = (number, number);
            }
        } else if steps_from(self.last) > 0 {
            self.far = number;
        }
    }

    /// Notes whether the access to `last` found the page there. After two misses in a row among pages that
    /// were planned for, the pages from there on are planned again: those that are there cost nothing.
    pub fn note(&mut self, seen: Seen) {
        match seen {
            Seen::FoundAhead => (self.used, self.missed) = (self.used + 1, 0),
            Seen::Missed if self.missed == 0 => self.missed = 1,
            Seen::Missed => (self.next, self.missed) = (self.last.wrapping_add_signed(self.step), 0),
        }
    }

    /// Whether pages are among those planned for.
    pub fn has_planned(&self, pages: Stretch) -> bool {
        let beyond = self.steps_in(self.next.wrapping_sub(pages.end()).cast_signed());
        self.window > 0 && (0..=self.window as i64).contains(&beyond)
    }

    /// The pages of a plan were refused from page `refused` on, in ascending order.
    pub fn plan_again(&mut self, pages: Stretch, refused: u64) {
        // A backward stretch is read from its far end, so it is planned again from the near one.
        self.next = if pages.step > 0 { refused.max(pages.first) } else { pages.first };
        self.window = (self.window / 2).max(WINDOW_FIRST);
    }

    /// Pages planned for and not accessed yet, as far as the last access tells.
    fn ahead(&self) -> u64 {
        let distance = self.next.wrapping_sub(self.last).cast_signed();
        (self.steps_in(distance) - 1).max(0) as u64
    }

    pub fn is_continued_by(&self, number: u64) -> bool {
        self.step != 0 && self.last.wrapping_add_signed(self.step) == number
    }

    /// Moves a position that is not believed yet. True if it is now.
    pub fn follow(&mut self, number: u64) -> bool {
        let step = number.wrapping_sub(self.last).cast_signed();
        if step == 0 {
            return false;
        }
        self.repeats = if step == self.step { self.repeats + 1 } else { 1 };
        self.step = step;
        (self.last, self.far) = (number, number);
        let is_believed = self.repeats >= if step == 1 { PATIENCE } else { PATIENCE_STRIDED };
        if is_believed {
            self.window = WINDOW_FIRST;
            self.next = number.wrapping_add_signed(step);
        }
        is_believed
    }

    /// Whether so much of the window may have been used up that [`plan`](Self::plan) plans. `plan` may take
    /// a smaller window; a false answer holds for that, too, because a window that is smaller by one page
    /// has a unit that is smaller by one page at most.
    #[inline]
    pub fn may_plan(&self, limits: &Limits) -> bool {
        let ahead = self.ahead();
        ahead == 0 || self.window.saturating_sub(ahead) >= limits.unit(self.window)
    }

    /// What to bring in next, once a good part of the window has been used up.
    pub fn plan(&mut self, limits: &Limits, credit: u64) -> Option<Stretch> {
        let &Limits { pages, run_pages, window_max, ahead_max } = limits;
        let shared = match self.gap {
            GAP_ONE => ahead_max,
            gap => ahead_max.saturating_mul(GAP_ONE) / gap,
        };
        let shared = shared.max(WINDOW_FIRST);
        let window_max = Pattern::of(self.step).window_max(window_max).min(shared);
        let ahead = self.ahead();
        if ahead == 0 {
            // The reader has caught up with the plan, or overtaken it.
            self.is_late |= self.planned > 0;
            self.next = self.last.wrapping_add_signed(self.step);
        }
        let window = self.window.min(window_max).min(ahead + credit);
        let unit = limits.unit(window);
        let room = window.saturating_sub(ahead);
        if room < unit {
            return None;
        }
        let mut count = room / unit * unit;
        count = count.min(self.left_in_file(pages));
        if self.step == 1 && unit == run_pages && (self.next + count) / run_pages * run_pages > self.next {
            // Transfers begin and end at multiples of their length.
            count = (self.next + count) / run_pages * run_pages - self.next;
            if self.next + count + run_pages > pages {
                count = count.max(pages.saturating_sub(self.next).min(count + run_pages));
            }
        }
        if count == 0 {
            return None;
        }
        let stretch = Stretch { first: self.next, step: self.step, count };
        self.next = self.next.wrapping_add_signed(self.step.wrapping_mul(count as i64));
        self.planned += count;
        self.grow_window(run_pages, window_max);
        Some(stretch)
    }

    /// Doubles the window if at least as many pages were used. Beyond the largest window of a reader that
    /// never waits, it doubles only if the reader was late.
    fn grow_window(&mut self, run_pages: u64, window_max: u64) {
        let unhurried = run_pages.saturating_mul(TRANSFERS_UNHURRIED).max(WINDOW_STRIDED);
        let most = if self.is_late { window_max } else { window_max.min(unhurried) };
        if self.window < most && self.used >= self.window && !self.is_wasteful() {
            self.window = (self.window * 2).min(most);
            self.is_late = false;
        }
    }

    /// Pages from `next` on, a step apart, that the file has.
    fn left_in_file(&self, pages: u64) -> u64 {
        if self.next >= pages {
            // Beyond the end, or below page 0, which wraps around.
            return 0;
        }
        let distance = self.step.unsigned_abs();
        if self.step > 0 { (pages - 1 - self.next) / distance + 1 } else { self.next / distance + 1 }
    }

    /// Whether the reader has passed by more than a quarter of the pages.
    fn is_wasteful(&self) -> bool {
        self.planned.saturating_sub(self.used + self.ahead()) > self.planned / 4
    }

    /// What was planned for behind the last access.
    pub fn unused(&self) -> Option<Stretch> {
        if self.window == 0 {
            return None;
        }
        let first = self.last.wrapping_add_signed(self.step);
        let count = self.ahead().min(self.planned);
        (count > 0).then_some(Stretch { first, step: self.step, count })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn where_nothing_may_be_planned_nothing_is() {
        let mut random = SplitMix64::new(1);
        let mut draw = |end: u64| random.below(end);
        let mut left_out = 0;
        for _ in 0..20_000 {
            let limits = Limits {
                pages: 10_000,
                run_pages: 1 + draw(40),
                window_max: 2 + draw(300),
                ahead_max: draw(600),
            };
            let (last, step) = (4_000 + draw(10), [1, -1, 3][draw(3) as usize]);
            let head = Head {
                last,
                step,
                window: WINDOW_FIRST + draw(300),
                next: last.wrapping_add_signed(step * draw(320) as i64),
                planned: draw(2) * 500,
                gap: GAP_ONE * (1 + draw(2) * draw(40)),
                ..Head::default()
            };
            if !head.may_plan(&limits) {
                let mut planned = head;
                assert_eq!(planned.plan(&limits, WINDOW_FIRST + draw(1_000)), None);
                let state = |head: &Head| (head.next, head.window, head.planned, head.is_late);
                assert_eq!(state(&planned), state(&head));
                left_out += 1;
            }
        }
        assert!(left_out > 5_000);
    }
}
