//! The hints of one process: those on its list, those that wait for room, and the first missing block.

use std::collections::VecDeque;

use bufpool_policies::hints::aggressive::Batches;
use bufpool_policies::hints::{HINTS_MAX, HintListId};
use bufpool_policies::{Directory, FrameId, PageId};

use super::process::Step;

/// The hints of one process.
pub struct Stream {
    /// The directory's list of hints.
    pub list: HintListId,
    /// Batches under way, one a disk.
    pub batches: Batches,
    /// Prefetches that have not ended.
    pub in_flight: u32,
    /// Hinted ranges of blocks, first and last, that are not on the list yet.
    ranges: VecDeque<(u64, u64)>,
    /// If all later accesses are hinted: the index of the first step that is not on the list yet.
    next_step: Option<usize>,
    /// Per lane: no hint before this position has a block that is missing on the lane's disks. A lane is one
    /// disk, or all of them.
    missing_from: Vec<u64>,
    disks: u64,
}

impl Stream {
    /// A stream without hints. It has a lane for each of the `disks` if `by_disk`, else one for all.
    pub fn new(list: HintListId, disks: u32, by_disk: bool, batch_reads: u32) -> Self {
        let lanes = if by_disk { disks as usize } else { 1 };
        Self {
            list,
            batches: Batches::new(lanes, batch_reads),
            in_flight: 0,
            ranges: VecDeque::new(),
            next_step: None,
            missing_from: vec![0; lanes],
            disks: u64::from(disks),
        }
    }

    /// Lanes in which the stream looks for missing blocks.
    pub fn lanes(&self) -> usize {
        self.missing_from.len()
    }

    /// The lane of a block.
    pub fn lane(&self, block: u64) -> usize {
        if self.missing_from.len() == 1 { 0 } else { (block % self.disks) as usize }
    }

    /// Adds hints for the blocks `first..=last` after all others.
    pub fn hint(&mut self, first: u64, last: u64) {
        self.ranges.push_back((first, last));
    }

    /// Adds hints for all accesses from step `step` on; no effect if all are hinted already.
    pub fn hint_all(&mut self, step: usize) {
        self.next_step.get_or_insert(step);
    }

    /// Fills the list as far as it has room. `steps` are those of the process, and `frame_of` finds resident
    /// blocks.
    pub fn feed(
        &mut self,
        directory: &mut Directory,
        steps: &[Step],
        frame_of: impl Fn(u64) -> Option<FrameId>,
    ) {
        let room = directory.hint_list(self.list).map_or(0, |list| HINTS_MAX - list.len());
        for _ in 0..room {
            let Some(block) = next_hint(&mut self.ranges, &mut self.next_step, steps) else { return };
            let position = directory.hint(self.list, PageId(block), frame_of(block));
            debug_assert!(position.is_some(), "as much as there was room for");
        }
    }

    /// `block` was evicted, so a hint may have a missing block again.
    pub fn evicted(&mut self, directory: &Directory, block: u64) {
        let next = directory.hint_list(self.list).and_then(|list| list.next_use(PageId(block)));
        if let Some(next) = next {
            let lane = self.lane(block);
            self.missing_from[lane] = self.missing_from[lane].min(next);
        }
    }

    /// The first hint of the lane whose block is missing: its position and its block. Each hint is looked at
    /// once, unless its block leaves.
    pub fn next_missing(
        &mut self,
        directory: &Directory,
        lane: usize,
        is_here: impl Fn(u64) -> bool,
    ) -> Option<(u64, u64)> {
        let list = directory.hint_list(self.list)?;
        let mut position = self.missing_from[lane].max(list.position());
        let missing = loop {
            let Some(PageId(block)) = list.page_at(position) else { break None };
            if self.lane(block) == lane && !is_here(block) {
                break Some((position, block));
            }
            position += 1;
        };
        self.missing_from[lane] = position;
        missing
    }
}

/// The next hint that is not in the list: explicit ranges come before accesses.
fn next_hint(
    ranges: &mut VecDeque<(u64, u64)>,
    next_step: &mut Option<usize>,
    steps: &[Step],
) -> Option<u64> {
    if let Some((first, last)) = ranges.front_mut() {
        let block = *first;
        if first == last {
            ranges.pop_front();
        } else {
            *first += 1;
        }
        return Some(block);
    }
    let step = next_step.as_mut()?;
    while *step < steps.len() {
        *step += 1;
        if let Step::Access(block) = steps[*step - 1] {
            return Some(block);
        }
    }
    None
}
