//! Foolishness: how often a manager's overrules turn out wrong, and when it loses its say.
//!
//! The LRU-SP paper proposes to revoke control "when a certain percentage of decisions is wrong" and gives no
//! numbers. The measured ratio of mistakes to overrules is 0.74 to 0.80 for its foolish tenant and 0 for its smart
//! ones, so one half separates them with room on both sides.

/// Overrules that the ratio is taken over.
const WINDOW: u32 = 256;
/// Overrules needed before a verdict: half a window, so that a verdict has a standard error of at most 0.045.
const SAMPLES_MIN: u32 = WINDOW / 2;
/// Wrong overrules in a hundred above which control is revoked.
const REVOKE_PERCENT: u32 = 50;
/// The same on probation: during the first window after a restoration.
const PROBATION_PERCENT: u32 = 25;
/// Accesses to the tenant's blocks, in multiples of the number of frames, that the first revocation lasts.
const TERM_FRAMES: u64 = 16;
/// Doublings of the term at most: 16 C << 6 is about a thousand times the pool.
const DOUBLINGS_MAX: u32 = 6;

/// A sliding window over one tenant's overrules, and its sentence.
#[derive(Clone, Debug)]
pub(crate) struct Revocation {
    /// One bit an overrule of the window: it was a mistake. Overrule `n` has bit `n % WINDOW`.
    wrong: [u64; (WINDOW / 64) as usize],
    /// Number of the next overrule, modulo 2^32.
    next_overrule: u32,
    /// Overrules in the window, at most [`WINDOW`].
    filled: u32,
    /// Bits set in `wrong` among them.
    marked: u32,
    /// Overrules until probation ends; 0 when not on probation.
    probation_left: u32,
    /// Accesses to the tenant's blocks until control is restored; 0 when not revoked.
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
            next_overrule: 0,
            filled: 0,
            marked: 0,
            probation_left: 0,
            sentence_left: 0,
            revocations: 0,
            frames,
            enabled,
        }
    }

    /// Whether the manager is not to be asked.
    #[inline]
    pub fn is_revoked(&self) -> bool {
        self.sentence_left > 0
    }

    pub fn revocations(&self) -> u64 {
        self.revocations
    }

    /// An access to one of the tenant's blocks: serves the sentence.
    #[inline]
    pub fn access(&mut self) {
        if self.sentence_left > 0 {
            self.sentence_left -= 1;
            if self.sentence_left == 0 {
                self.restore();
            }
        }
    }

    /// An overrule takes a slot of the window; returns its number.
    pub fn overrule(&mut self) -> u32 {
        let number = self.next_overrule;
        self.next_overrule = number.wrapping_add(1);
        let (word, bit) = Self::bit(number);
        if self.filled == WINDOW {
            self.marked -= u32::from(self.wrong[word] & bit != 0);
        } else {
            self.filled += 1;
        }
        self.wrong[word] &= !bit;
        self.probation_left = self.probation_left.saturating_sub(1);
        self.judge();
        number
    }

    /// The overrule `number` turned out wrong. One that has left the window changes nothing.
    pub fn mistake(&mut self, number: u32) {
        let age = self.next_overrule.wrapping_sub(number);
        let (word, bit) = Self::bit(number);
        if age == 0 || age > self.filled || self.wrong[word] & bit != 0 {
            return;
        }
        self.wrong[word] |= bit;
        self.marked += 1;
        self.judge();
    }

    fn judge(&mut self) {
        if !self.enabled || self.is_revoked() || self.filled < SAMPLES_MIN {
            return;
        }
        let percent = if self.probation_left > 0 { PROBATION_PERCENT } else { REVOKE_PERCENT };
        if self.marked * 100 > self.filled * percent {
            let doublings = self.revocations.min(u64::from(DOUBLINGS_MAX)) as u32;
            self.sentence_left = (TERM_FRAMES * u64::from(self.frames)) << doublings;
            self.revocations += 1;
        }
    }

    fn restore(&mut self) {
        self.wrong = [0; 4];
        self.filled = 0;
        self.marked = 0;
        self.probation_left = WINDOW;
    }

    fn bit(number: u32) -> (usize, u64) {
        let position = number % WINDOW;
        ((position / 64) as usize, 1 << (position % 64))
    }

    /// Panics unless the counts agree with the window.
    pub fn check_invariants(&self) {
        assert!(self.filled <= WINDOW);
        let set = (1..=self.filled)
            .filter(|age| {
                let (word, bit) = Self::bit(self.next_overrule.wrapping_sub(*age));
                self.wrong[word] & bit != 0
            })
            .count();
        assert_eq!(set as u32, self.marked, "marked overrules");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrules(revocation: &mut Revocation, count: u32, wrong_every: u32) {
        for n in 0..count {
            let number = revocation.overrule();
            if wrong_every > 0 && n % wrong_every == wrong_every - 1 {
                revocation.mistake(number);
            }
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
            fool.access();
        }
        assert!(!fool.is_revoked());
        // A third wrong is too much on probation and would be tolerated later.
        overrules(&mut fool, SAMPLES_MIN, 3);
        assert!(fool.is_revoked());
        assert_eq!(fool.revocations(), 2);
        (0..319).for_each(|_| fool.access());
        assert!(fool.is_revoked(), "the second term is twice the first");
        fool.access();
        assert!(!fool.is_revoked());
        overrules(&mut fool, WINDOW, 5);
        overrules(&mut fool, WINDOW, 3);
        assert!(!fool.is_revoked(), "probation has ended");
    }

    /// A mistake found after its slot has slid out of the window, or found twice, must not mark another's slot.
    #[test]
    fn a_mistake_marks_only_its_own_slot() {
        let mut revocation = Revocation::new(10, true);
        let first = revocation.overrule();
        revocation.mistake(first);
        revocation.mistake(first);
        assert_eq!(revocation.marked, 1);
        overrules(&mut revocation, WINDOW, 0);
        assert_eq!(revocation.marked, 0);
        revocation.mistake(first);
        assert_eq!(revocation.marked, 0);
        revocation.check_invariants();
    }
}
