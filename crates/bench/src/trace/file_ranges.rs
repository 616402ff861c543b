//! The file that a block belongs to.

use std::collections::{BTreeMap, HashMap};

use bufpool_policies::FileId;

/// Ranges of blocks, each with its file. Blocks in no range belong to file 0, which stands for the whole
/// trace.
#[derive(Clone, Default, Debug)]
pub struct FileRanges {
    /// First block of each range -> its last block and file; ranges do not overlap.
    ranges: BTreeMap<u64, (u64, FileId)>,
    ids: HashMap<String, FileId>,
}

impl FileRanges {
    /// No ranges: every block is file 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes blocks `first..=last` belong to the file `name`, whichever file they belonged to before.
    ///
    /// O(log n) for each range that overlaps the new one, and for the new one. Files are numbered from 1 in
    /// the order in which they are first named.
    pub fn set(&mut self, first: u64, last: u64, name: &str) {
        let next = FileId(self.ids.len() as u32 + 1);
        let file = *self.ids.entry(name.to_owned()).or_insert(next);
        self.clear(first, last);
        self.ranges.insert(first, (last, file));
    }

    /// As [`set`](Self::set), but refuses blocks that belong to another file already.
    ///
    /// # Errors
    ///
    /// What was expected instead, if one of the blocks belongs to another file. Nothing is changed then.
    pub fn add(&mut self, first: u64, last: u64, name: &str) -> Result<(), String> {
        let own = self.ids.get(name);
        let mut covered = self.ranges.range(..=last).rev().take_while(|(_, (end, _))| *end >= first);
        if let Some((begin, (end, other))) = covered.find(|(_, (_, file))| Some(file) != own) {
            let other = self.ids.iter().find(|(_, file)| *file == other).map_or("", |(other, _)| other);
            return Err(format!(
                "blocks of no other file, found {first} to {last} of {name} where {begin} to {end} are of {other}"
            ));
        }
        self.set(first, last, name);
        Ok(())
    }

    /// The file of a block. O(log n).
    pub fn file(&self, block: u64) -> FileId {
        match self.ranges.range(..=block).next_back() {
            Some((_, &(last, file))) if block <= last => file,
            _ => FileId(0),
        }
    }

    /// Whether no range was ever given.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }

    /// Cuts `first..=last` out of all ranges.
    fn clear(&mut self, first: u64, last: u64) {
        let covered = self.ranges.range(..=last).rev();
        let touched: Vec<(u64, u64, FileId)> = covered
            .map(|(&begin, &(end, file))| (begin, end, file))
            .take_while(|&(_, end, _)| end >= first)
            .collect();
        for (begin, end, file) in touched {
            self.ranges.remove(&begin);
            if begin < first {
                self.ranges.insert(begin, (first - 1, file));
            }
            if end > last {
                self.ranges.insert(last + 1, (end, file));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_latest_range_wins(sets in prop::collection::vec((0_u64..40, 0_u64..10, 0_u8..4), 0..12)) {
            let mut ranges = FileRanges::new();
            let mut naive = [None; 64];
            for (first, length, name) in sets {
                let range = &naive[first as usize..=(first + length) as usize];
                let is_free = range.iter().all(|there| there.is_none_or(|there| there == name));
                prop_assert_eq!(ranges.clone().add(first, first + length, &name.to_string()).is_ok(), is_free);
                ranges.set(first, first + length, &name.to_string());
                naive[first as usize..=(first + length) as usize].fill(Some(name));
            }
            for (a, file_a) in naive.iter().enumerate() {
                prop_assert_eq!(ranges.file(a as u64) == FileId(0), file_a.is_none());
                for (b, file_b) in naive.iter().enumerate() {
                    prop_assert_eq!(ranges.file(a as u64) == ranges.file(b as u64), file_a == file_b);
                }
            }
        }
    }

    #[test]
    fn the_whole_block_space_can_be_one_file() {
        let mut ranges = FileRanges::new();
        ranges.set(0, u64::MAX, "all");
        ranges.set(u64::MAX, u64::MAX, "last");
        assert_eq!(ranges.file(0), FileId(1));
        assert_eq!(ranges.file(u64::MAX), FileId(2));
    }
}
