//! The ways of choosing what goes, LRU, ARC and values; and sets of them, by whose shadow holds a page.

/// A way of choosing what goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expert {
    /// Least recently used first: what the ledger names.
    Lru,
    /// Adaptive between used once and used more often.
    Arc,
    /// By what was learned of reuse intervals.
    Value,
}

impl Expert {
    pub const ALL: [Self; 3] = [Self::Lru, Self::Arc, Self::Value];
}

/// A set of shadow caches, those that hold some page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shadows(u8);

impl Shadows {
    /// How many sets there are.
    pub const SETS: usize = 8;

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::SETS as u8).map(Self)
    }

    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Whether all shadows are in the set.
    #[inline]
    pub fn are_all(self) -> bool {
        self.index() == Self::SETS - 1
    }

    /// Whether some shadows are in the set and others are not.
    #[inline]
    pub fn are_divided(self) -> bool {
        self.index() != 0 && !self.are_all()
    }

    #[inline]
    pub fn has(self, expert: Expert) -> bool {
        self.0 >> expert as u8 & 1 == 1
    }

    pub fn set(&mut self, expert: Expert, holds: bool) {
        self.0 = self.0 & !(1 << expert as u8) | u8::from(holds) << expert as u8;
    }
}
