//! Whether a stream goes round: it uses its pages again one after the other, in the order of last time, a
//! whole pass later.
//!
//! What such a stream uses next is known exactly: the page that follows, in order of last use, the one that
//! it used again last. So a page comes back when as much time has passed as between the latest uses of its
//! predecessor. This *period* is right at once when the time of a pass changes, as it does while a loop is
//! learned and begins to hit; intervals that were counted in earlier passes are not.
//!
//! A run of pages used again in order and after about the same time is evidence, as long as LRU would have
//! missed them: a loop that LRU keeps needs no care. Related: the access recency of AMP (Zhou, Behren,
//! Brewer, "Program Context Specific Buffer Caching", USENIX ATC '05), which is near 1 in a loop, but tells
//! no time.

/// The least run that is enough: as much evidence as AMP asks for.
pub(super) const RUN_MIN: u32 = 16;
/// What a page out of turn takes away from the run. One such page sets the run back up to four times: by
/// itself and by its successor, at once and again a pass later. So a loop may have one page out of turn in
/// some thirty.
const SETBACK: u32 = RUN_MIN / 2;
/// An interval may differ from the period by one part in this many.
const TOLERANCE_SHARE: u32 = 8;

/// How a stream's pages come back.
#[derive(Clone, Copy)]
pub(crate) struct Turns {
    /// How long the last page that was used again in turn had been unused before.
    period: u32,
    /// When the page that was used again last had been used before.
    previous: u32,
    /// Pages used again in turn, less setbacks; at most as many as are enough.
    run: u32,
    goes_round: bool,
}

impl Turns {
    /// Of a stream that begins at `now`.
    pub const fn new(now: u32) -> Self {
        Self { period: 0, previous: now, run: 0, goes_round: false }
    }

    /// Whether the stream goes round, and after what time its pages come back if it does.
    pub fn period(&self) -> Option<u32> {
        self.goes_round.then_some(self.period)
    }

    /// Whether nothing tells that the stream might go round: uses again of pages that LRU would have kept
    /// change nothing.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.run == 0 && !self.goes_round
    }

    /// A page is used again that LRU would have missed: it had been used at `last`. A run of `enough` pages
    /// is one of a stream that goes round.
    pub fn miss(&mut self, last: u32, now: u32, enough: u32) {
        let interval = now.wrapping_sub(last);
        let is_next = last.wrapping_sub(self.previous) as i32 >= 0;
        self.previous = last;
        if is_next && interval.abs_diff(self.period) <= self.period / TOLERANCE_SHARE {
            self.run = (self.run + 1).min(enough);
            self.period = interval;
        } else {
            self.run = self.run.saturating_sub(SETBACK);
            if self.run == 0 {
                self.period = interval;
            }
        }
        self.decide(enough);
    }

    /// A page is used again that LRU would have kept.
    pub fn hit(&mut self, enough: u32) {
        self.run = self.run.saturating_sub(SETBACK);
        self.decide(enough);
    }

    fn decide(&mut self, enough: u32) {
        self.goes_round = self.run >= if self.goes_round { enough / 2 } else { enough };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENOUGH: u32 = 100;

    /// Uses pages in this order, each at the given time since the one before; returns the period after each
    /// use again.
    fn follow(uses: impl Iterator<Item = (u32, u32)>) -> Vec<Option<u32>> {
        let (mut turns, mut now, mut last) = (Turns::new(0), 0, std::collections::HashMap::new());
        let mut found = Vec::new();
        for (page, time) in uses {
            now += time;
            if let Some(last) = last.insert(page, now) {
                turns.miss(last, now, ENOUGH);
                found.push(turns.period());
            }
        }
        found
    }

    #[test]
    fn a_loop_goes_round_once_a_quarter_of_the_cache_has_come_back() {
        let found = follow((0..1500).map(|use_| (use_ % 500, 8)));
        let first = found.iter().position(Option::is_some);
        assert_eq!(first, Some(ENOUGH as usize), "the first interval has none to compare with");
        assert!(found[first.unwrap()..].iter().all(|period| *period == Some(4000)));
    }

    #[test]
    fn the_period_follows_a_loop_that_begins_to_hit() {
        let found = follow((0..2500).map(|use_| (use_ % 500, if use_ < 1000 { 8 } else { 1 })));
        assert_eq!(found[450], Some(4000));
        assert_eq!(found[1499], Some(500));
        assert!(found[450..].iter().all(Option::is_some));
    }

    #[test]
    fn a_page_out_of_turn_now_and_then_changes_nothing() {
        let page = |use_: u32| if use_ % 50 == 49 { use_ * 37 % 500 } else { use_ % 500 };
        let found = follow((0..5000).map(|use_| (page(use_), 8)));
        assert!(found[1000..].iter().all(Option::is_some));
    }

    #[test]
    fn back_and_forth_is_not_round() {
        let turn = |use_: u32| if (use_ / 500).is_multiple_of(2) { use_ % 500 } else { 499 - use_ % 500 };
        assert!(follow((0..5000).map(|use_| (turn(use_), 8))).iter().all(Option::is_none));
    }

    #[test]
    fn pages_at_random_do_not_go_round() {
        let mut random = crate::random::SplitMix64::new(3);
        let found = follow((0..20_000).map(|_| (random.below(500) as u32, 8)));
        assert!(found.iter().all(Option::is_none));
    }

    #[test]
    fn the_end_of_a_loop_is_noticed_within_seven_pages() {
        let mut turns = Turns::new(0);
        (0..500).for_each(|use_| turns.miss(use_ * 8, use_ * 8 + 4000, ENOUGH));
        assert_eq!(turns.period(), Some(4000));
        (0..7).for_each(|use_| turns.miss(use_ * 8, 8000, ENOUGH));
        assert_eq!(turns.period(), None);
    }

    #[test]
    fn a_loop_that_lru_keeps_does_not_count() {
        let mut turns = Turns::new(0);
        (0..500).for_each(|use_| turns.miss(use_ * 8, use_ * 8 + 4000, ENOUGH));
        (0..7).for_each(|_| turns.hit(ENOUGH));
        assert_eq!(turns.period(), None);
    }
}
