//! Whether what is learned of a stream has a say.
//!
//! A stream is answerable for the pages it used last: where giving them up keeps being wrong, it loses its
//! classes' say for a while, and its pages lose value with age as under LRU; other streams keep theirs. The
//! shadow cache by value is not evidence enough: it finds the page worth least of a small sample, while the
//! cache has to look for one among many more, so the shadow may hit where the cache does not.
//!
//! That a page came back soon after it was given up is not yet a fault. In a loop all pages that are given up
//! come back, while others stay and are hit that LRU would not have kept. So the cache's own hits on sampled
//! pages that LRU's shadow does not hold make up for mistakes.

use crate::manager::automatic::tuning::Tuning;

/// Overrules that a verdict on a stream rests on: the window of a whole tenant in LRU-SP.
pub(super) const OVERRULES: u16 = 256;

/// What verdicts go by.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    /// How long a stream's classes are without say.
    revoked_time: u32,
    /// Gains that a stream has at most, so that an old one does not excuse mistakes without end.
    gains_max: u32,
    /// The least number of wrong overrules in a verdict that costs a stream its say.
    wrong_min: u32,
}

impl Rules {
    pub fn new(revoked_time: u32, gains_max: u32, tuning: &Tuning) -> Self {
        let wrong_min = (f32::from(OVERRULES) * (1.0 - tuning.right_share)) as u32 + 1;
        Self { revoked_time, gains_max, wrong_min }
    }
}

/// The verdict on a stream: the last one, and what the next one will rest on.
#[derive(Default)]
pub(crate) struct Verdict {
    /// Overrules, and those of them that were wrong.
    overrules: u16,
    pub wrong: u16,
    /// Hits that LRU would not have had, as the sample tells, less the mistakes that they made up for.
    gains: u32,
    /// Since when the stream has no say, if it has none.
    revoked_at: Option<u32>,
}

impl Verdict {
    pub fn is_revoked(&self) -> bool {
        self.revoked_at.is_some()
    }

    /// A page is given up against the ledger's advice. Returns whether the stream loses its say now.
    pub fn overruled(&mut self, now: u32, rules: Rules) -> bool {
        if self.is_revoked() {
            return false;
        }
        self.overrules += 1;
        if self.overrules < OVERRULES {
            return false;
        }
        if u32::from(self.wrong) < rules.wrong_min {
            // Half of the evidence is kept, so that a verdict never rests on the last few alone.
            (self.overrules, self.wrong) = (OVERRULES / 2, self.wrong / 2);
        } else {
            (self.overrules, self.wrong) = (0, 0);
            self.revoked_at = Some(now);
        }
        self.is_revoked()
    }

    /// A page that stands for `pages` is used again, and LRU would not have kept it.
    pub fn gained(&mut self, pages: u32, rules: Rules) {
        self.gains = (self.gains + pages).min(rules.gains_max);
    }

    /// An overrule that the stream answers for was wrong. It counts unless a gain makes up for it.
    pub fn mistaken(&mut self) {
        match self.gains.checked_sub(1) {
            Some(left) => self.gains = left,
            None => self.wrong = (self.wrong + 1).min(self.overrules),
        }
    }

    /// Returns whether the time without say ends now.
    pub fn is_over(&mut self, now: u32, rules: Rules) -> bool {
        let is_over = self.revoked_at.is_some_and(|since| now.wrapping_sub(since) >= rules.revoked_time);
        if is_over {
            self.revoked_at = None;
        }
        is_over
    }

    /// Panics if there are more gains, or wrong overrules, than there can be.
    pub fn check_invariants(&self, rules: Rules) {
        assert!(self.wrong <= self.overrules, "wrong overrules");
        assert!(self.gains <= rules.gains_max, "gains");
    }
}
