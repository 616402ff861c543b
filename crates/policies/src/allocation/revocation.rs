//! Foolishness: how often a manager's overrules turn out wrong, and when it loses its say.
//!
//! The LRU-SP paper proposes to revoke control "when a certain percentage of decisions is wrong" and gives no
//! numbers. The measured ratio of mistakes to overrules is 0.74 to 0.80 for its foolish tenant and 0 for its
//! smart ones, so one half separates them with room on both sides.
//!
//! An overrule is judged when it is *settled*, which is when its placeholder dies. It was wrong if the block
//! that went was needed before the one that stayed. It was not wrong if the block that stayed was needed
//! first, was evicted without a use, or stayed once more by another overrule. Two kinds of overrules are
//! never judged: those that make no placeholder of their own, because they pass on that of an earlier one,
//! and those whose blocks cease to exist.
//!
//! Judging the last overrules instead, settled or not, would hardly ever find the paper's foolish tenant:
//! some 300 of its overrules lie between an overrule and its mistake.

/// Settled overrules that the ratio is taken over.
const WINDOW: u32 = 256;
/// Settled overrules needed before a verdict: half a window, so that a verdict has a standard error of at
/// most 0.045.
const SAMPLES_MIN: u32 = WINDOW / 2;
/// Wrong overrules in a hundred above which control is revoked.
const REVOKE_PERCENT: u32 = 50;
/// The same on probation: during the first window after a restoration.
const PROBATION_PERCENT: u32 = 25;
/// Accesses to the account's blocks, in multiples of the number of frames, that the first revocation lasts.
const TERM_FRAMES: u64 = 16;
/// Doublings of the term at most: 16 C << 6 is about a thousand times the pool.
const DOUBLINGS_MAX: u32 = 6;

/// A sliding window over one account's settled overrules, and its sentence.
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    /// One bit a settled overrule of the window: it was wrong.
    wrong: [u64; (WINDOW / 64) as usize],
    /// Where in the window the next one goes.
    next: u32,
    /// Settled overrules in the window, at most [`WINDOW`].
    filled: u32,
    /// Bits set in `wrong` among them.
    marked: u32,
    /// Settled overrules until probation ends; 0 when not on probation.
    probation_left: u32,
    /// Accesses to the account's blocks until control is restored; 0 when not revoked.
    sentence_left: u64,
    /// How often control was revoked.
    revocations: u64,
    frames: u32,
    enabled: bool,
}

impl Revocation {
    pub fn new(frames: u32, enabled: bool) -> Self {
        Self {
            wrong: [0; 4],
            next: 0,
            filled: 0,
            marked: 0,
            probation_left: 0,
            sentence_left: 0,
            revocations: 0,
            frames,
            enabled,
        }
    }

    /// Whether overrules are judged from now on. A sentence that is being served goes on.
    pub fn set_enabled(&mut self, enabled: bool) {
        self.enabled = enabled;
    }

    /// Whether the manager is not to be asked.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.sentence_left > 0
    }

    /// `accesses` were made to the account's blocks: they serve the sentence.
    pub fn accesses(&mut self, accesses: u64) {
        if self.sentence_left > 0 {
            self.sentence_left = self.sentence_left.saturating_sub(accesses);
            if self.sentence_left == 0 {
                self.restore();
            }
        }
    }

    /// An overrule has turned out wrong or not. Returns whether it has cost the manager its say, as only a
    /// wrong one can.
    pub fn settle(&mut self, is_wrong: bool) -> bool {
        let (word, bit) = Self::bit(self.next);
        self.next = (self.next + 1) % WINDOW;
        if self.filled == WINDOW {
            self.marked -= u32::from(self.wrong[word] & bit != 0);
        } else {
            self.filled += 1;
        }
        self.wrong[word] &= !bit;
        self.probation_left = self.probation_left.saturating_sub(1);
        if is_wrong {
            self.wrong[word] |= bit;
            self.marked += 1;
        }
        is_wrong && self.judge()
    }

    fn judge(&mut self) -> bool {
        if !self.enabled || self.is_revoked() || self.filled < SAMPLES_MIN {
            return false;
        }
        let percent = if self.probation_left > 0 { PROBATION_PERCENT } else { REVOKE_PERCENT };
        let is_fool = self.marked * 100 > self.filled * percent;
        if is_fool {
            let doublings = self.revocations.min(u64::from(DOUBLINGS_MAX)) as u32;
            self.sentence_left = (TERM_FRAMES * u64::from(self.frames)) << doublings;
            self.revocations += 1;
        }
        is_fool
    }

    fn restore(&mut self) {
        self.wrong = [0; 4];
        self.next = 0;
        self.filled = 0;
        self.marked = 0;
        self.probation_left = WINDOW;
    }

    fn bit(position: u32) -> (usize, u64) {
        ((position / 64) as usize, 1 << (position % 64))
    }

    /// Panics unless the counts agree with the window.
    pub fn check_invariants(&self) {
        assert!(
            self.filled <= WINDOW && self.next < WINDOW,
            "the window has {} settled overrules",
            self.filled
        );
        let set: u32 = self.wrong.iter().map(|word| word.count_ones()).sum();
        assert_eq!(set, self.marked, "marked overrules");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrules(revocation: &mut Revocation, count: u32, wrong_every: u32) {
        for n in 0..count {
            revocation.settle(wrong_every > 0 && n % wrong_every == wrong_every - 1);
            revocation.check_invariants();
        }
    }

    #[test]
    fn half_wrong_keeps_control_and_more_loses_it() {
        let mut fair = Revocation::new(10, true);
        overrules(&mut fair, 2000, 2);
        assert!(!fair.is_revoked());
        let mut fool = Revocation::new(10, true);
        overrules(&mut fool, SAMPLES_MIN - 1, 1);
        assert!(!fool.is_revoked(), "too few samples for a verdict");
        overrules(&mut fool, 1, 1);
        assert!(fool.is_revoked());
        let mut tolerated = Revocation::new(10, false);
        overrules(&mut tolerated, 2000, 1);
        assert!(!tolerated.is_revoked(), "revocation switched off");
    }

    #[test]
    fn sentence_is_served_then_probation_then_the_term_doubles() {
        let mut fool = Revocation::new(10, true);
        overrules(&mut fool, SAMPLES_MIN, 1);
        for left in (0..160).rev() {
            assert!(fool.is_revoked(), "{left} accesses left");
            fool.accesses(1);
        }
        assert!(!fool.is_revoked());
        // A third wrong is too much on probation and would be tolerated later.
        overrules(&mut fool, SAMPLES_MIN + 1, 3);
        assert!(fool.is_revoked());
        assert_eq!(fool.revocations, 2);
        (0..319).for_each(|_| fool.accesses(1));
        assert!(fool.is_revoked(), "the second term is twice the first");
        fool.accesses(1);
        assert!(!fool.is_revoked());
        overrules(&mut fool, WINDOW, 5);
        overrules(&mut fool, WINDOW, 3);
        assert!(!fool.is_revoked(), "probation has ended");
    }

    /// Mistakes slide out of the window, and being right is never what costs the manager its say.
    #[test]
    fn only_recent_mistakes_count() {
        let mut reformed = Revocation::new(10, true);
        overrules(&mut reformed, SAMPLES_MIN - 1, 1);
        overrules(&mut reformed, SAMPLES_MIN - 1, 0);
        assert!(!reformed.is_revoked(), "half and half");
        overrules(&mut reformed, WINDOW, 0);
        assert_eq!(reformed.marked, 0);
        overrules(&mut reformed, SAMPLES_MIN, 1);
        assert!(!reformed.is_revoked(), "half of the window");
        overrules(&mut reformed, 1, 1);
        assert!(reformed.is_revoked());
    }

    /// Against a plain list of the last verdicts, over random ones and random terms.
    #[test]
    fn equals_a_list_of_the_last_verdicts() {
        use crate::random::SplitMix64;
        let mut random = SplitMix64::new(7);
        let mut revocation = Revocation::new(3, true);
        let (mut window, mut sentence, mut since_restored, mut revocations) = (Vec::new(), 0, None, 0_u64);
        for step in 0..200_000_u32 {
            let wrong_percent = [10, 30, 55, 90][(step / 3000 % 4) as usize];
            if random.below(4) == 0 {
                revocation.accesses(1);
                if sentence > 0 {
                    sentence -= 1;
                    if sentence == 0 {
                        window.clear();
                        since_restored = Some(0);
                    }
                }
            } else {
                let is_wrong = random.below(100) < wrong_percent;
                revocation.settle(is_wrong);
                window.push(is_wrong);
                since_restored = since_restored.map(|settled| settled + 1);
                let last = &window[window.len().saturating_sub(256)..];
                let wrong = last.iter().filter(|wrong| **wrong).count();
                let limit = if since_restored.is_some_and(|settled| settled < 256) { 25 } else { 50 };
                if is_wrong && sentence == 0 && last.len() >= 128 && 100 * wrong > limit * last.len() {
                    sentence = 16 * 3 * (1_u64 << revocations.min(6));
                    revocations += 1;
                }
            }
            revocation.check_invariants();
            assert_eq!(revocation.is_revoked(), sentence > 0, "step {step}");
            assert_eq!(revocation.revocations, revocations, "step {step}");
        }
        assert!(revocations > 10);
    }
}
