//! What became of hints.

/// Counts of hints: those of one list, or of all lists of a tenant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HintCounts {
    /// Reads disclosed.
    pub given: u64,
    /// Of the reads disclosed, those that were made.
    pub used: u64,
    /// Of the reads disclosed, those that were passed over: the reader went on behind them, or skipped them.
    pub skipped: u64,
    /// Reads for which the reader waited though they were disclosed.
    pub late: u64,
    /// Pages brought in for a list.
    pub prefetched: u64,
    /// Of the pages brought in, those that left unread, before the read that they were brought in for.
    pub lost: u64,
    /// Of the pages brought in, those that no list named any more while they were still unread. Each counts
    /// once and is not lost, also if a list names it again.
    pub wasted: u64,
    /// Lists opened.
    pub lists: u64,
}

impl HintCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.given += other.given;
        self.used += other.used;
        self.skipped += other.skipped;
        self.late += other.late;
        self.prefetched += other.prefetched;
        self.lost += other.lost;
        self.wasted += other.wasted;
        self.lists += other.lists;
    }
}

/// What is known of an open list.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ListState {
    /// What became of its hints.
    pub counts: HintCounts,
    /// How many hints beyond the reader the list looks ahead.
    pub depth: u32,
    /// Hints that its reader has consumed or skipped.
    pub position: u64,
}
