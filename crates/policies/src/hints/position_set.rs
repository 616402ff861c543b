//! Sets of positions of a list.

use super::HINTS_MAX;

const WORD_BITS: usize = u64::BITS as usize;
const WORDS: usize = HINTS_MAX / WORD_BITS;

/// A set of positions, of which no two are [`HINTS_MAX`] or more apart.
///
/// There is a bit for each position that a list can hold, and a summary bit for each word of these bits.
/// Every call costs O(1). A step of [`descending`](Self::descending) looks at up to 16 words of the summary,
/// and at none if the set is empty.
/// Holds 8 KiB.
#[derive(Clone)]
pub(super) struct PositionSet {
    words: Box<[u64]>,
    /// One bit for each word, which is set while the word is not 0.
    summary: [u64; WORDS / WORD_BITS],
    len: usize,
    /// One more than the greatest position that was ever inserted.
    end: u64,
}

impl PositionSet {
    /// The empty set.
    pub fn new() -> Self {
        Self { words: vec![0; WORDS].into(), summary: [0; WORDS / WORD_BITS], len: 0, end: 0 }
    }

    /// How many positions there are.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn contains(&self, position: u64) -> bool {
        let (word, bit) = place(position);
        self.words[word] & bit != 0
    }

    /// Adds a position.
    pub fn insert(&mut self, position: u64) {
        let (word, bit) = place(position);
        self.len += usize::from(self.words[word] & bit == 0);
        self.words[word] |= bit;
        self.summary[word / WORD_BITS] |= 1 << (word % WORD_BITS);
        self.end = self.end.max(position + 1);
    }

    /// Takes a position out. Returns whether it was there.
    pub fn remove(&mut self, position: u64) -> bool {
        let (word, bit) = place(position);
        let was_there = self.words[word] & bit != 0;
        self.words[word] &= !bit;
        if self.words[word] == 0 {
            self.summary[word / WORD_BITS] &= !(1 << (word % WORD_BITS));
        }
        self.len -= usize::from(was_there);
        was_there
    }

    /// The positions, the greatest first.
    pub fn descending(&self) -> impl Iterator<Item = u64> + '_ {
        let border = self.end as usize % HINTS_MAX;
        // The place of a position is the position modulo `HINTS_MAX`. Places from `border` on hold positions
        // of the round before; if `border` is 0, all places do. Nothing is looked at in an empty set.
        let (mut low, mut below) = match border {
            _ if self.len == 0 => (border, border),
            0 => (0, HINTS_MAX),
            _ => (0, border),
        };
        std::iter::from_fn(move || {
            loop {
                if let Some(found) = self.greatest(low, below) {
                    below = found;
                    let behind = (border + HINTS_MAX - found - 1) % HINTS_MAX;
                    return Some(self.end - 1 - behind as u64);
                }
                if low == border {
                    return None;
                }
                (low, below) = (border, HINTS_MAX);
            }
        })
    }

    /// The greatest place with its bit set, from `low` on and below `below`.
    fn greatest(&self, low: usize, below: usize) -> Option<usize> {
        let last = below.checked_sub(1).filter(|last| *last >= low)?;
        let up_to = |bit: usize| u64::MAX >> (WORD_BITS - 1 - bit);
        let within = |word: usize, bits: u64| {
            let place = word * WORD_BITS + bits.checked_ilog2()? as usize;
            (place >= low).then_some(place)
        };
        let word = last / WORD_BITS;
        let here = self.words[word] & up_to(last % WORD_BITS);
        if here != 0 {
            return within(word, here);
        }
        let group = word / WORD_BITS;
        let in_group = |group: usize, words: u64| Some(group * WORD_BITS + words.checked_ilog2()? as usize);
        let earlier = self.summary[group] & (up_to(word % WORD_BITS) >> 1);
        let word = in_group(group, earlier)
            .or_else(|| (0..group).rev().find_map(|group| in_group(group, self.summary[group])))?;
        within(word, self.words[word])
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        size_of_val(&*self.words)
    }
}

/// The word of a position, and its bit there.
fn place(position: u64) -> (usize, u64) {
    let place = position as usize % HINTS_MAX;
    (place / WORD_BITS, 1 << (place % WORD_BITS))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::random::SplitMix64;

    /// A list of as many hints as there may be ends at the last place.
    #[test]
    fn the_greatest_may_be_at_the_last_place() {
        let mut set = PositionSet::new();
        let last = HINTS_MAX as u64 - 1;
        [0, 70, last].into_iter().for_each(|position| set.insert(position));
        assert!(set.descending().eq([last, 70, 0]));
        [0, 70].into_iter().for_each(|position| assert!(set.remove(position)));
        set.insert(HINTS_MAX as u64);
        assert!(set.descending().eq([last + 1, last]));
    }

    /// The same as an ordered set, also where positions come round to places that were used before.
    #[test]
    fn agrees_with_an_ordered_set() {
        for spread in [3, 70, 5000, HINTS_MAX as u64] {
            let mut random = SplitMix64::new(spread);
            let (mut set, mut naive) = (PositionSet::new(), BTreeSet::new());
            let mut first = 0;
            for _ in 0..2000 {
                let position = first + random.next_u64() % spread;
                match random.next_u64() % 4 {
                    0 => assert_eq!(set.remove(position), naive.remove(&position)),
                    1 => {
                        first += random.next_u64() % (spread / 2 + 1);
                        while let Some(passed) = naive.first().copied().filter(|least| *least < first) {
                            naive.remove(&passed);
                            assert!(set.remove(passed));
                        }
                    }
                    _ => {
                        set.insert(position);
                        naive.insert(position);
                    }
                }
                assert_eq!(set.contains(position), naive.contains(&position));
                assert_eq!(set.len(), naive.len());
                assert!(set.descending().take(40).eq(naive.iter().rev().copied().take(40)));
            }
            assert!(set.descending().eq(naive.iter().rev().copied()));
        }
    }
}
