//! What is done with disclosed reads.

/// Pages of a batch where [`HintPolicy::Aggressive`] does not say.
pub const AGGRESSIVE_BATCH: u16 = 16;

/// How the pool uses the reads that a tenant discloses. Under all policies but `Off` the lists decide about
/// replacement, too.
///
/// Under every policy a list fetches only so far ahead as pages that came in have stayed until they were
/// read. So tenants whose lists do not fit the pool together share it, and fetch nothing while nobody reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum HintPolicy {
    /// As [`Horizon`](Self::Horizon), unless what is missing ahead cannot be read in time. Then pages are
    /// fetched farther ahead, but only into free frames and those of pages that no list names further.
    #[default]
    Auto,
    /// As far ahead as the benefit of a read is above the price of the frame it takes.
    CostBenefit,
    /// At the first opportunity that does no harm, in batches of this many pages.
    Aggressive {
        /// Pages of a batch, at least 1.
        batch: u16,
    },
    /// As far ahead as it takes that the reader does not wait, and no farther; see [`Depth`](super::Depth).
    Horizon,
    /// Nothing is fetched ahead, and nothing is replaced by the lists. Hints are counted.
    Off,
}

impl HintPolicy {
    /// Whether pages are brought in ahead of their reader.
    pub fn prefetches(self) -> bool {
        self != Self::Off
    }
}
