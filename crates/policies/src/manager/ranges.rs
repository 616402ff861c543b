//! Long-term priorities of page ranges: the latest directive that covers a page wins.

use std::collections::BTreeMap;

use crate::ids::PageId;

/// Ranges that a tenant may have. The LRU-SP paper limits its file records to the same number.
pub(crate) const RANGES_MAX: usize = 4096;

/// Disjoint pieces, each the visible part of one directive's range: a later range hides earlier ones.
///
/// At most [`RANGES_MAX`] ranges are partly visible at a time and each new range cuts at most one old piece
/// in two, so there are at most `2 * RANGES_MAX` pieces.
#[derive(Default)]
pub(crate) struct PriorityRanges {
    /// First page of a piece -> the piece.
    pieces: BTreeMap<u64, Piece>,
    /// Number of the next range.
    next_range: u64,
    /// Visible pieces of each range that has any.
    visible: BTreeMap<u64, u32>,
}

#[derive(Clone, Copy)]
struct Piece {
    last: u64,
    priority: i8,
    range: u64,
}

impl PriorityRanges {
    /// The priority of `page`: that of the latest range over it, else 0.
    pub fn get(&self, page: PageId) -> i8 {
        match self.pieces.range(..=page.0).next_back() {
            Some((_, piece)) if piece.last >= page.0 => piece.priority,
            _ => 0,
        }
    }

    /// Gives `first..=last` the `priority`. False, and nothing changed, if that needs more than
    /// [`RANGES_MAX`] ranges. A range of default priority over pages without another priority needs no
    /// record.
    pub fn set(&mut self, first: PageId, last: PageId, priority: i8) -> bool {
        let (first, last) = (first.0, last.0);
        let covered = self.covered(first, last);
        if priority == 0 && covered.is_empty() {
            return true;
        }
        let hidden = covered.iter().fold(BTreeMap::<u64, u32>::new(), |mut hidden, (start, piece)| {
            if *start >= first && piece.last <= last {
                *hidden.entry(piece.range).or_default() += 1;
            }
            hidden
        });
        let freed = hidden.iter().filter(|(range, pieces)| self.visible[range] == **pieces).count();
        if self.visible.len() - freed >= RANGES_MAX {
            return false;
        }
        // A range of default priority that hides others entirely leaves nothing to remember.
        let cuts = covered.iter().any(|(start, piece)| *start < first || piece.last > last);
        covered.into_iter().for_each(|(start, piece)| self.cut(start, piece, first, last));
        if priority != 0 || cuts {
            self.add(first, Piece { last, priority, range: self.next_range });
            self.next_range += 1;
        }
        true
    }

    fn covered(&self, first: u64, last: u64) -> Vec<(u64, Piece)> {
        let before = self.pieces.range(..first).next_back().filter(|(_, piece)| piece.last >= first);
        before
            .into_iter()
            .chain(self.pieces.range(first..=last))
            .map(|(start, piece)| (*start, *piece))
            .collect()
    }

    /// Removes what `first..=last` hides of `piece`.
    fn cut(&mut self, start: u64, piece: Piece, first: u64, last: u64) {
        self.pieces.remove(&start);
        let left = self.visible.get_mut(&piece.range).expect("a piece's range is counted");
        *left -= 1;
        if *left == 0 {
            self.visible.remove(&piece.range);
        }
        if start < first {
            self.add(start, Piece { last: first - 1, ..piece });
        }
        if piece.last > last {
            self.add(last + 1, piece);
        }
    }

    fn add(&mut self, start: u64, piece: Piece) {
        *self.visible.entry(piece.range).or_default() += 1;
        self.pieces.insert(start, piece);
    }

    /// Panics unless the pieces are disjoint and counted.
    pub fn check_invariants(&self) {
        let mut counted = BTreeMap::<u64, u32>::new();
        let mut after = 0u128;
        for (start, piece) in &self.pieces {
            assert!(u128::from(*start) >= after && piece.last >= *start, "pieces overlap at {start}");
            after = u128::from(piece.last) + 1;
            *counted.entry(piece.range).or_default() += 1;
        }
        assert_eq!(counted, self.visible, "visible pieces of each range");
        assert!(self.visible.len() <= RANGES_MAX && self.pieces.len() <= 2 * RANGES_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    #[test]
    fn latest_match_wins_as_in_a_list_of_all_ranges() {
        let mut random = SplitMix64::new(3);
        for _ in 0..200 {
            let mut ranges = PriorityRanges::default();
            let mut all: Vec<(u64, u64, i8)> = Vec::new();
            for _ in 0..60 {
                let first = random.below(40);
                let last = if random.below(20) == 0 { u64::MAX } else { first + random.below(12) };
                let priority = random.below(5) as i8 - 2;
                assert!(ranges.set(PageId(first), PageId(last), priority));
                all.push((first, last, priority));
                ranges.check_invariants();
                for page in (0..60).chain([u64::MAX]) {
                    let latest = all.iter().rev().find(|(first, last, _)| (*first..=*last).contains(&page));
                    assert_eq!(ranges.get(PageId(page)), latest.map_or(0, |range| range.2));
                }
            }
        }
    }

    #[test]
    fn one_range_too_many_fails_and_changes_nothing() {
        let mut ranges = PriorityRanges::default();
        for n in 0..RANGES_MAX as u64 {
            assert!(ranges.set(PageId(2 * n), PageId(2 * n), 1));
        }
        assert!(!ranges.set(PageId(1 << 40), PageId(1 << 40), 1));
        assert_eq!(ranges.get(PageId(1 << 40)), 0);
        assert!(ranges.set(PageId(0), PageId(0), 2), "replacing a range needs no room");
        assert!(ranges.set(PageId(1 << 40), PageId(1 << 41), 0), "default pages need no record");
        assert!(ranges.set(PageId(0), PageId(1), 0));
        assert!(ranges.set(PageId(1 << 40), PageId(1 << 40), 1), "a range given up makes room");
        ranges.check_invariants();
    }
}
