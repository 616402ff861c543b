//! AMP's access recency, exactly. For tests and small streams.

use std::collections::{BTreeMap, HashMap};

use super::{Class, Detector, Evidence};
use crate::PageId;

/// Mean recency below which a stream loops.
pub(super) const LOOP_BELOW: f64 = 0.4;
/// Mean recency above which a stream is temporally clustered.
pub(super) const TEMPORAL_ABOVE: f64 = 0.6;

/// The mean access recency of a stream.
///
/// Paper: Zhou, von Behren, Brewer, "AMP: Program Context Specific Buffer Caching", USENIX ATC '05. When a
/// block is accessed again, its recency is its position in the list of the stream's blocks by last access, 0
/// for the oldest and 1 for the newest (0.5 if there is one block only). A loop gives 0, uniform random 0.5,
/// extreme locality 1. The thresholds 0.4 and 0.6 were not checked against the paper's text; streams that are
/// neither lie within 0.05 of 0.5.
///
/// O(log n) an access: a Fenwick tree over access times counts the blocks last accessed earlier.
#[derive(Clone, Debug, Default)]
pub struct AmpExact {
    last_access: HashMap<PageId, usize>,
    /// Fenwick tree: 1 at each time that is some block's last access.
    tree: Vec<u32>,
    /// Time of the next access; times start at 1.
    now: usize,
    sum: f64,
    samples: u64,
}

impl AmpExact {
    /// A stream without accesses.
    pub fn new() -> Self {
        Self::default()
    }

    /// The mean recency of all re-accesses; none if there were none.
    pub fn recency(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.sum / self.samples as f64)
    }

    /// Blocks whose last access was before `time`.
    fn older_than(&self, time: usize) -> u32 {
        let (mut at, mut count) = (time - 1, 0);
        while at > 0 {
            count += self.tree[at];
            at &= at - 1;
        }
        count
    }

    fn add(&mut self, time: usize, step: i32) {
        let mut at = time;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add_signed(step);
            at += at & at.wrapping_neg();
        }
    }

    /// Makes room for more times, by numbering the last accesses anew.
    fn renumber(&mut self) {
        let order: BTreeMap<usize, PageId> =
            self.last_access.iter().map(|(page, time)| (*time, *page)).collect();
        self.tree = vec![0; (order.len() * 2).max(64) + 1];
        self.now = 0;
        for page in order.into_values() {
            self.now += 1;
            self.last_access.insert(page, self.now);
            self.add(self.now, 1);
        }
    }
}

impl Detector for AmpExact {
    fn access(&mut self, page: PageId) {
        if self.now + 1 >= self.tree.len() {
            self.renumber();
        }
        let blocks = self.last_access.len();
        if let Some(&before) = self.last_access.get(&page) {
            let older = self.older_than(before);
            self.sum += if blocks == 1 { 0.5 } else { f64::from(older) / (blocks - 1) as f64 };
            self.samples += 1;
            self.add(before, -1);
        }
        self.now += 1;
        self.last_access.insert(page, self.now);
        self.add(self.now, 1);
    }

    fn class(&self) -> Class {
        match self.recency() {
            None => Class::OneShot,
            Some(recency) if recency < LOOP_BELOW => Class::Looping,
            Some(recency) if recency > TEMPORAL_ABOVE => Class::Temporal,
            Some(_) => Class::Other,
        }
    }

    fn evidence(&self) -> Evidence {
        Evidence { samples: u32::try_from(self.samples).unwrap_or(u32::MAX), recency: self.recency() }
    }

    fn metadata_bytes(&self) -> usize {
        size_of::<Self>()
            + self.tree.capacity() * size_of::<u32>()
            + self.last_access.capacity() * size_of::<(PageId, usize)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix64;

    fn recency(blocks: &[u64]) -> Option<f64> {
        let mut amp = AmpExact::new();
        blocks.iter().for_each(|block| amp.access(PageId(*block)));
        amp.recency()
    }

    #[test]
    fn the_papers_examples() {
        assert_eq!(recency(&[1, 2, 3, 1, 2, 3]), Some(0.0));
        let mixed = recency(&[1, 2, 3, 4, 4, 3, 4, 5, 6, 5, 6]).unwrap();
        assert!((mixed - 0.787).abs() < 0.0005, "{mixed}");
        assert_eq!(recency(&[1, 2, 3]), None);
        assert_eq!(recency(&[7, 7, 7]), Some(0.5));
    }

    #[test]
    fn equals_a_list() {
        let mut random = SplitMix64::new(1);
        let mut amp = AmpExact::new();
        let mut list: Vec<u64> = Vec::new();
        let (mut sum, mut samples) = (0.0, 0u64);
        for _ in 0..3000 {
            let block = random.below(60);
            amp.access(PageId(block));
            if let Some(at) = list.iter().position(|other| *other == block) {
                sum += if list.len() == 1 { 0.5 } else { at as f64 / (list.len() - 1) as f64 };
                samples += 1;
                list.remove(at);
            }
            list.push(block);
        }
        assert!((amp.recency().unwrap() - sum / samples as f64).abs() < 1e-9);
    }
}
