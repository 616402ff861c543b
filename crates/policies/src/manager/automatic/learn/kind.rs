//! Kinds of pages: how long before its last use a page had been used, and how often it has come back.
//!
//! The last interval alone says little of the next one. Of two pages that were both used again after the same
//! time, one that has come back so several times will do so again more often. That is what policies by
//! frequency know, such as LFU and TinyLFU (Einziger, Friedman, Manes, ACM TOS 13, 2017).

use super::intervals::ClassId;

/// Intervals told apart, the shortest first.
pub(crate) const STEPS: u8 = 4;
/// The step of intervals after which a page would have stayed under any policy.
pub(crate) const SOON: u8 = 0;
/// The step of intervals after which a page has hardly ever stayed.
pub(crate) const LONGEST: u8 = STEPS - 1;
/// Numbers of returns told apart: one, two, and more.
const RANKS: u8 = 3;

/// The kind of a page, from its last use on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Kind(u8);

impl Kind {
    /// How many there are.
    pub const COUNT: usize = 3 + (STEPS * RANKS) as usize;
    /// Bits of its [number](Self::number).
    pub const BITS: u32 = 4;
    /// Of a page whose use before the last is not remembered.
    pub const NEW: Self = Self(0);
    /// Of a page that is new to a stream that goes round, until the page is used again after a while. The
    /// strays of all streams are in the tenant's class.
    pub const STRAY: Self = Self(1 + STEPS * RANKS);
    /// Of a page that was given new contents, until it is used again.
    pub const CREATED: Self = Self(2 + STEPS * RANKS);

    /// Of a page that came back for the first time, after an interval of this step.
    pub const fn once(step: u8) -> Self {
        Self(1 + step)
    }

    pub const fn from_number(number: u8) -> Self {
        Self(number)
    }

    /// Less than [`Kind::COUNT`].
    pub const fn number(self) -> u8 {
        self.0
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The tenant's class of such pages.
    pub fn class(self) -> ClassId {
        ClassId::from(self.0)
    }

    /// Of a page of this kind when it is used again after an interval of the step. A return that is soon does
    /// not count as one, since uses at about the same time are one. One that is late takes another back,
    /// since the page is used less than it was.
    #[inline]
    pub fn used_again(self, step: u8) -> Self {
        let rank = match (self.step_and_rank(), step) {
            (None, _) => 0,
            (Some((_, rank)), SOON) => rank,
            (Some((_, rank)), LONGEST) => rank.saturating_sub(1),
            (Some((_, rank)), _) => (rank + 1).min(RANKS - 1),
        };
        Self(1 + rank * STEPS + step)
    }

    /// The kind whose pages such pages are presumed to be like, if there is one: those that have come back
    /// less often, or otherwise after the next longer interval. Pages that came back after the longest are
    /// presumed to be like new ones, since both come back only after longer than any policy would have kept
    /// them.
    pub fn presumed_like(self) -> Option<Self> {
        match self.step_and_rank()? {
            (_, 1..) => Some(Self(self.0 - STEPS)),
            (SOON, _) => None,
            (LONGEST, _) => Some(Self::NEW),
            (step, _) => Some(Self::once(step + 1)),
        }
    }

    /// The step of the last interval, and how often the page has come back so besides the first time.
    #[inline]
    fn step_and_rank(self) -> Option<(u8, u8)> {
        let returned = self.0.wrapping_sub(Self::once(0).0);
        (returned < STEPS * RANKS).then_some((returned % STEPS, returned / STEPS))
    }
}

const _: () = assert!(Kind::COUNT <= 1 << Kind::BITS, "kinds fit their bits");

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> impl Iterator<Item = Kind> {
        (0..Kind::COUNT as u8).map(Kind::from_number)
    }

    #[test]
    fn returns_count_unless_they_are_soon_and_late_ones_take_back() {
        let after = |steps: &[u8]| steps.iter().fold(Kind::NEW, |kind, step| kind.used_again(*step));
        assert_eq!(after(&[1]), Kind::once(1));
        assert_eq!(after(&[1, 2]).step_and_rank(), Some((2, 1)));
        assert_eq!(after(&[1, 2, SOON, SOON]).step_and_rank(), Some((SOON, 1)));
        assert_eq!(after(&[1, 2, SOON, 1, LONGEST]).step_and_rank(), Some((LONGEST, 1)));
        assert_eq!(after(&[1, LONGEST, LONGEST]), Kind::once(LONGEST));
        assert_eq!(after(&[1; 9]).step_and_rank(), Some((1, RANKS - 1)));
        for kind in [Kind::NEW, Kind::STRAY, Kind::CREATED] {
            (0..STEPS).for_each(|step| assert_eq!(kind.used_again(step), Kind::once(step)));
        }
    }

    #[test]
    fn what_a_kind_is_presumed_to_be_like_ends() {
        for kind in all() {
            let chain = std::iter::successors(Some(kind), |kind| kind.presumed_like());
            let length = chain.take(Kind::COUNT + 1).count();
            assert!(length <= Kind::COUNT, "{kind:?}");
            assert_eq!(Kind::once(SOON).presumed_like(), None);
        }
        assert_eq!(Kind::once(LONGEST).presumed_like(), Some(Kind::NEW));
        assert_eq!(Kind::once(1).used_again(2).presumed_like(), Some(Kind::once(2)));
    }
}
