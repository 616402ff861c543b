//! Whether a tier pays: the time waited for it against the time that its hits save. Pure; the caller passes
//! the times.

use std::fmt;

/// The length of a window. Sums are halved after each, so that they cover about the last half second.
const WINDOW_NS: u64 = 250_000_000;
/// Questions that are needed for a judgement.
const TAKES_MIN: u32 = 32;
/// Answers in time, in a row, after which a tier that did not answer is used again.
const ANSWERS_MIN: u32 = 8;
/// Questions in a row without an answer in time after which a tier is passed by.
const TIMEOUTS_MAX: u32 = 3;
/// Offers that are needed for a judgement.
const OFFERS_MIN: u32 = 256;
/// A tier is passed by at the end of a window if the wait for it is more than this part of what its hits
/// save. Before the end of a window it is passed by only if the wait is more than all of that: a few answers
/// that are late by chance are no reason.
const SPENT_SHARE: f64 = 0.5;
/// The wait that is allowed besides, as a part of the time that misses take at the source. It allows a tier
/// that is being filled its first misses.
const SPENT_FREE_SHARE: f64 = 1.0 / 128.0;
/// A tier is used again below this part. It is less than [`SPENT_SHARE`], so that the tier does not go on
/// and off.
const SPENT_SHARE_AGAIN: f64 = 0.4;
/// Questions to a tier in which nothing hits, which may be cold, before it is measured with only a few
/// pages. They are asked beside reads, and nobody waits for the answers.
const TRIAL_TAKES: u32 = 4096;
/// A tier is passed by after this many questions without a hit in a row, as a multiple of the pool's frames,
/// even if nobody waits for its answers, because demotions cost processor time. A loop through all pages of
/// the pool and of a tier fifteen times as large hits before that.
const MISSES_A_FRAME_MAX: u32 = 16;
/// The weight of a reading in the moving average of the source's latency.
const MEAN_SHARE: f64 = 1.0 / 16.0;

/// Why a tier is passed by.
#[derive(Clone, Copy, PartialEq, Debug)]
#[non_exhaustive]
pub enum PassedBy {
    /// The wait for it is more than half of what its hits save.
    DoesNotPay {
        /// The wait, as a part of what its hits saved.
        spent_share: f64,
    },
    /// It did not answer in time three times in a row.
    DoesNotAnswer,
    /// It refuses more than nine pages in ten.
    Refuses,
}

impl fmt::Display for PassedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DoesNotPay { spent_share } if spent_share.is_finite() => {
                write!(
                    f,
                    "waiting for it takes {spent_share:.2} of what its hits save, expected at most {SPENT_SHARE}"
                )
            }
            Self::DoesNotPay { .. } => f.write_str("nothing hits in it"),
            Self::DoesNotAnswer => f.write_str("it does not answer in time"),
            Self::Refuses => f.write_str("it refuses nearly all pages"),
        }
    }
}

/// How a question to the tier ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Took {
    Hit,
    No,
    TimedOut,
}

/// Counts of a sliding window, and the judgement on them.
#[derive(Default)]
pub(super) struct Gauge {
    /// Questions in a row without a hit after which the tier is passed by.
    misses_max: u32,
    misses_in_a_row: u32,
    window_begin_ns: u64,
    spent_ns: f64,
    hits: f64,
    takes: u32,
    source_reads: f64,
    /// Moving average.
    source_latency_ns: f64,
    timeouts_in_a_row: u32,
    answers_in_a_row: u32,
    offered: u32,
    refused: u32,
    passed_by: Option<PassedBy>,
    /// No question had hit lately when it was passed by.
    is_cold: bool,
    /// Questions to the tier since it was passed by or used again.
    tried: u32,
}

impl Gauge {
    /// The gauge of the tier of a pool with `frames` frames.
    pub fn new(frames: u32) -> Self {
        let misses_max = frames.saturating_mul(MISSES_A_FRAME_MAX).max(TRIAL_TAKES);
        Self { misses_max, ..Self::default() }
    }

    /// Why the tier is passed by, if it is.
    pub fn passed_by(&self) -> Option<PassedBy> {
        self.passed_by
    }

    /// Whether the tier is passed by and may be cold: pages are offered to it, and it is asked beside reads,
    /// as if it were used.
    pub fn is_on_trial(&self) -> bool {
        matches!(self.passed_by, Some(PassedBy::DoesNotPay { .. }))
            && self.is_cold
            && self.tried < TRIAL_TAKES
    }

    /// What a miss takes at the source, in nanoseconds: a moving average.
    pub fn source_latency_ns(&self) -> f64 {
        self.source_latency_ns
    }

    /// A page was read from its source.
    pub fn source_read(&mut self, ns: u64) {
        self.source_reads += 1.0;
        let mean = &mut self.source_latency_ns;
        *mean = if *mean == 0.0 { ns as f64 } else { *mean + (ns as f64 - *mean) * MEAN_SHARE };
    }

    /// A question ended at `now_ns`, after `ns` nanoseconds.
    pub fn took(&mut self, now_ns: u64, ns: u64, took: Took) {
        let is_end = self.is_window_over(now_ns);
        self.spent_ns += ns as f64;
        self.takes += 1;
        self.hits += f64::from(u8::from(took == Took::Hit));
        self.tried = self.tried.saturating_add(1);
        self.misses_in_a_row = if took == Took::Hit { 0 } else { self.misses_in_a_row.saturating_add(1) };
        if took == Took::TimedOut {
            self.timeouts_in_a_row = self.timeouts_in_a_row.saturating_add(1);
            self.answers_in_a_row = 0;
        } else {
            self.timeouts_in_a_row = 0;
            self.answers_in_a_row = self.answers_in_a_row.saturating_add(1);
        }
        match self.passed_by {
            None if self.timeouts_in_a_row >= TIMEOUTS_MAX => self.change(Some(PassedBy::DoesNotAnswer)),
            Some(PassedBy::DoesNotAnswer) if self.answers_in_a_row >= ANSWERS_MIN => self.change(None),
            None if self.takes >= TAKES_MIN && self.spends_too_much(is_end) => {
                let spent_share = self.spent_ns / self.saved_ns();
                self.change(Some(PassedBy::DoesNotPay { spent_share }));
            }
            Some(PassedBy::DoesNotPay { .. })
                if self.takes >= TAKES_MIN && self.spent_ns < self.saved_ns() * SPENT_SHARE_AGAIN =>
            {
                self.change(None);
            }
            _ => {}
        }
        if is_end {
            self.begin_window(now_ns);
        }
    }

    /// A page was offered.
    pub fn offered(&mut self, refused: bool) {
        self.offered += 1;
        self.refused += u32::from(refused);
        if self.offered < OFFERS_MIN && !(self.offered >= TAKES_MIN && self.passed_by.is_some()) {
            return;
        }
        let refuses = u64::from(self.refused) * 10 > u64::from(self.offered) * 9;
        match self.passed_by {
            None if refuses => self.change(Some(PassedBy::Refuses)),
            Some(PassedBy::Refuses) if !refuses => self.change(None),
            _ => (self.offered, self.refused) = (0, 0),
        }
    }

    fn spends_too_much(&self, is_window_end: bool) -> bool {
        let free = self.source_reads * self.source_latency_ns * SPENT_FREE_SHARE;
        let share = if is_window_end { SPENT_SHARE } else { 1.0 };
        let is_waited_for = self.spent_ns > self.saved_ns() * share + free;
        // Before the first read from the source it is unknown what a hit saves.
        self.source_latency_ns > 0.0 && (is_waited_for || self.misses_in_a_row >= self.misses_max)
    }

    fn saved_ns(&self) -> f64 {
        self.hits * self.source_latency_ns
    }

    /// Starts counting anew: what was seen before the change says nothing about the time after it.
    fn change(&mut self, to: Option<PassedBy>) {
        let &mut Self { misses_max, window_begin_ns, source_latency_ns, .. } = self;
        let is_cold = self.hits == 0.0 || self.misses_in_a_row >= misses_max;
        let passed_by = to;
        *self =
            Self { misses_max, window_begin_ns, source_latency_ns, passed_by, is_cold, ..Self::default() };
    }

    fn is_window_over(&self, now_ns: u64) -> bool {
        // While the tier is passed by, questions are few, and none is forgotten before there are enough for
        // a judgement.
        let has_enough = self.passed_by.is_none() || self.takes >= TAKES_MIN;
        has_enough && now_ns.saturating_sub(self.window_begin_ns) >= WINDOW_NS
    }

    fn begin_window(&mut self, now_ns: u64) {
        self.window_begin_ns = now_ns;
        self.spent_ns /= 2.0;
        self.hits /= 2.0;
        self.source_reads /= 2.0;
        self.takes /= 2;
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    const US: u64 = 1_000;
    const FRAMES: u32 = 1_000;

    /// Misses one after the other: a take of `take_us`, which hits every `hit_every` times, and a read of
    /// 100 us where it does not. Returns how many misses it takes until the tier is passed by.
    fn misses_until_passed_by(take_us: u64, hit_every: u64, misses: u64) -> Option<u64> {
        let (mut gauge, mut now) = (Gauge::new(FRAMES), 0);
        for miss in 0..misses {
            let hits = hit_every > 0 && miss % hit_every == 0;
            now += take_us * US;
            gauge.took(now, take_us * US, if hits { Took::Hit } else { Took::No });
            if !hits {
                now += 100 * US;
                gauge.source_read(100 * US);
            }
            if gauge.passed_by().is_some() {
                return Some(miss);
            }
        }
        None
    }

    #[test]
    fn a_tier_that_costs_more_than_half_of_what_it_saves_is_passed_by() {
        let at_the_first_end = |misses: Option<u64>, of_us: u64| {
            misses.is_some_and(|misses| misses.abs_diff(WINDOW_NS / US / of_us) <= 1)
        };
        let found = misses_until_passed_by(40, 2, 100_000);
        assert!(at_the_first_end(found, 40 + 50), "each no costs as much as a yes: {found:?}");
        assert_eq!(misses_until_passed_by(20, 2, 100_000), None);
        assert_eq!(misses_until_passed_by(100, 2, 100_000), Some(31), "as slow as the source");
        assert_eq!(misses_until_passed_by(40, 0, 100_000), Some(31), "never hit");
    }

    /// Its answers take no time, and pages that go down cost some.
    #[test]
    fn a_tier_that_costs_no_time_is_passed_by_when_nothing_hits_in_it() {
        let frames = u64::from(FRAMES);
        assert_eq!(misses_until_passed_by(0, 0, 100_000), Some(16 * frames - 1));
        assert_eq!(misses_until_passed_by(0, 15 * frames, 100_000), None);
    }

    #[test]
    fn a_few_late_answers_are_no_reason() {
        let (mut gauge, mut now) = (Gauge::new(FRAMES), 0);
        for miss in 0..100_000_u64 {
            // At first, one hit in ten takes eight times as long as one from the source is.
            let take_us = if miss < 300 && miss % 10 == 0 { 640 } else { 10 };
            gauge.source_read(100 * US);
            now += take_us * US;
            gauge.took(now, take_us * US, Took::Hit);
            assert_eq!(gauge.passed_by(), None, "miss {miss}");
        }
    }

    #[test]
    fn an_empty_tier_that_answers_fast_has_time_to_fill() {
        // A look into a table in memory: half a microsecond of a hundred.
        let (mut gauge, mut now) = (Gauge::new(FRAMES), 0);
        for _ in 0..15 * FRAMES {
            now += 100 * US;
            gauge.took(now, US / 2, Took::No);
            gauge.source_read(100 * US);
        }
        assert_eq!(gauge.passed_by(), None);
    }

    /// Its questions take a twentieth of a read of the source, too much for one that never hits.
    #[test]
    fn a_cold_tier_is_tried_beside_reads_until_it_hits() {
        for fills_after in [0, 3_000, u64::MAX] {
            let (mut gauge, mut now, mut waited, mut trial) = (Gauge::new(FRAMES), 0, 0, 0);
            for miss in 0..20_000 {
                waited += u64::from(gauge.passed_by().is_none());
                trial += u64::from(gauge.is_on_trial());
                // Once the trial is over it is asked for one page in 64.
                if gauge.passed_by().is_none() || gauge.is_on_trial() || miss % 64 == 0 {
                    let took = if miss < fills_after { Took::No } else { Took::Hit };
                    gauge.took(now, 5 * US, took);
                }
                gauge.source_read(100 * US);
                now += 100 * US;
            }
            assert_eq!(gauge.passed_by().is_none(), fills_after < u64::MAX, "filled after {fills_after}");
            match fills_after {
                0 => assert_eq!((waited, trial), (20_000, 0)),
                // The window forgets in a few halvings that it was empty.
                3_000 => assert!(waited > 10_000 && trial < u64::from(TRIAL_TAKES), "{waited}, {trial}"),
                _ => assert_eq!((waited, trial), (u64::from(TAKES_MIN), u64::from(TRIAL_TAKES))),
            }
        }
    }

    #[test]
    fn a_tier_that_has_every_page_is_used_before_the_source_is_known() {
        let mut gauge = Gauge::new(FRAMES);
        (0..1_000).for_each(|at| gauge.took(at * WINDOW_NS / 100, 50 * US, Took::Hit));
        assert_eq!(gauge.passed_by(), None);
        gauge.source_read(20 * US);
        gauge.took(11 * WINDOW_NS, 50 * US, Took::Hit);
        assert!(matches!(gauge.passed_by(), Some(PassedBy::DoesNotPay { .. })), "now it is");
    }

    #[test]
    fn a_tier_that_does_not_answer_is_passed_by_until_it_does() {
        let mut gauge = Gauge::new(FRAMES);
        gauge.took(0, 1, Took::TimedOut);
        gauge.took(0, 1, Took::TimedOut);
        gauge.took(0, 1, Took::No);
        assert_eq!(gauge.passed_by(), None, "two are no reason");
        (0..TIMEOUTS_MAX).for_each(|_| gauge.took(0, 1, Took::TimedOut));
        assert_eq!(gauge.passed_by(), Some(PassedBy::DoesNotAnswer));
        (1..ANSWERS_MIN).for_each(|_| gauge.took(0, 1, Took::Hit));
        gauge.took(0, 1, Took::TimedOut);
        assert_eq!(gauge.passed_by(), Some(PassedBy::DoesNotAnswer), "again, and from the beginning");
        (0..ANSWERS_MIN).for_each(|_| gauge.took(0, 1, Took::Hit));
        assert_eq!(gauge.passed_by(), None);
    }

    #[test]
    fn a_tier_that_pays_again_is_used_again() {
        let mut gauge = Gauge::new(FRAMES);
        gauge.source_read(100 * US);
        (0..TAKES_MIN).for_each(|_| gauge.took(0, 110 * US, Took::Hit));
        assert!(matches!(gauge.passed_by(), Some(PassedBy::DoesNotPay { spent_share }) if spent_share > 1.0));
        // Questions come seldom, and the window does not forget them.
        (0..TAKES_MIN as u64).for_each(|at| gauge.took(at * 10 * WINDOW_NS, 30 * US, Took::Hit));
        assert_eq!(gauge.passed_by(), None);
    }

    #[test]
    fn a_tier_that_refuses_all_is_passed_by_until_it_takes_some() {
        let mut gauge = Gauge::new(FRAMES);
        (0..OFFERS_MIN).for_each(|_| gauge.offered(true));
        assert_eq!(gauge.passed_by(), Some(PassedBy::Refuses));
        (0..TAKES_MIN).for_each(|_| gauge.offered(true));
        assert_eq!(gauge.passed_by(), Some(PassedBy::Refuses));
        (0..TAKES_MIN).for_each(|_| gauge.offered(false));
        assert_eq!(gauge.passed_by(), None);
        (0..10 * OFFERS_MIN).for_each(|at| gauge.offered(at % 2 == 0));
        assert_eq!(gauge.passed_by(), None, "half is no reason");
    }
}
