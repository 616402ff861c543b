//! How many frames each partition should have.
//!
//! Each partition remembers pages that it evicted, up to an eighth of the frames (at least 64). A miss on
//! one of these ghosts shows that the partition would have had a hit with as many more frames as it has
//! ghosts. So its target grows by one frame, and that of another, drawn in proportion to targets, shrinks.
//!
//! The default partition remembers the latest of its pages, which LRU would hold in more frames. A loop
//! remembers the oldest, which MRU would hold. So in both, a hit on ghosts counts what as many more frames
//! would be worth, and equal steps are fair. (The details were not checked against the paper's text. With
//! the latest ghosts in loops as well, the ghosts of a loop that does not nearly fit would never be hit.)

use crate::ghost::Ghosts;
use crate::ids::PageId;
use crate::list::NIL;
use crate::random::SplitMix64;

/// The partition of everything that has none of its own.
pub(super) const DEFAULT: usize = 0;
/// Partitions at once, the default one included. Further loops stay in the default partition until one ends.
pub(super) const PARTITIONS_MAX: usize = 16;
/// Frames that a target does not go below, unless there are too few for all partitions.
const TARGET_MIN: u32 = 8;
/// Fewest ghosts of a partition.
const GHOSTS_MIN: u32 = 64;

/// Targets, sizes and ghosts of the partitions. Targets sum up to the pool's frames; they are shares where
/// the tenant has fewer.
pub(super) struct Partitions {
    pool_frames: u32,
    targets: [f64; PARTITIONS_MAX],
    pub sizes: [u32; PARTITIONS_MAX],
    /// The slot of the stream that a partition belongs to, [`NIL`] for one that is not in use, and for the
    /// default one.
    owners: [u32; PARTITIONS_MAX],
    ghosts: Ghosts<PARTITIONS_MAX>,
    /// When a ghost was last hit, or the list was emptied.
    ghosts_alive: [u64; PARTITIONS_MAX],
}

impl Partitions {
    pub fn new(pool_frames: u32) -> Self {
        let mut targets = [0.0; PARTITIONS_MAX];
        targets[DEFAULT] = f64::from(pool_frames);
        Self {
            pool_frames,
            targets,
            sizes: [0; PARTITIONS_MAX],
            owners: [NIL; PARTITIONS_MAX],
            ghosts: Ghosts::with_capacity(0),
            ghosts_alive: [0; PARTITIONS_MAX],
        }
    }

    fn is_open(&self, partition: usize) -> bool {
        partition == DEFAULT || self.owners[partition] != NIL
    }

    /// Partitions in use.
    pub fn open(&self) -> impl Iterator<Item = usize> + use<'_> {
        (0..PARTITIONS_MAX).filter(|partition| self.is_open(*partition))
    }

    /// The slot of the stream that a loop's partition belongs to.
    pub fn owner(&self, partition: usize) -> u32 {
        self.owners[partition]
    }

    fn target_min(&self) -> f64 {
        f64::from(TARGET_MIN.min(self.pool_frames / PARTITIONS_MAX as u32))
    }

    /// Pages that a partition remembers, at most.
    pub fn ghosts_max(&self) -> u32 {
        GHOSTS_MIN.max(self.pool_frames / 8)
    }

    /// A partition for a loop that holds `frames` frames already, which it takes along from the default
    /// partition's target. None if all are in use.
    pub fn add(&mut self, owner: u32, frames: u32, now: u64) -> Option<usize> {
        let partition = (1..PARTITIONS_MAX).find(|partition| self.owners[*partition] == NIL)?;
        let spare = (self.targets[DEFAULT] - self.target_min()).max(0.0);
        let target = f64::from(frames).max(self.target_min()).min(spare);
        self.targets[DEFAULT] -= target;
        self.targets[partition] = target;
        self.owners[partition] = owner;
        self.ghosts_alive[partition] = now;
        Some(partition)
    }

    /// Ends a loop's partition, which is empty.
    pub fn remove(&mut self, partition: usize) {
        debug_assert!(partition != DEFAULT && self.sizes[partition] == 0);
        self.targets[DEFAULT] += std::mem::take(&mut self.targets[partition]);
        self.owners[partition] = NIL;
        self.forget_ghosts(partition);
    }

    fn forget_ghosts(&mut self, partition: usize) {
        while self.ghosts.pop_oldest(partition).is_some() {}
    }

    /// `page` leaves `partition` to make room.
    pub fn evicted(&mut self, partition: usize, page: PageId, now: u64) {
        self.ghosts.take(page);
        if self.ghosts.len(partition) < self.ghosts_max() {
            self.ghosts.push(partition, page);
        } else if partition == DEFAULT {
            self.ghosts.pop_oldest(partition);
            self.ghosts.push(partition, page);
        } else if now - self.ghosts_alive[partition] > 4 * u64::from(self.pool_frames) {
            // The loop has moved on: its oldest ghosts will not come again.
            self.forget_ghosts(partition);
            self.ghosts_alive[partition] = now;
            self.ghosts.push(partition, page);
        } else {
            self.ghosts.pop_newest(partition);
            self.ghosts.push(partition, page);
        }
    }

    /// `page` comes in. If a partition remembers it, the target of that partition grows. Returns the
    /// partition.
    pub fn loaded(&mut self, page: PageId, now: u64, random: &mut SplitMix64) -> Option<usize> {
        let partition = self.ghosts.take(page)?;
        self.ghosts_alive[partition] = now;
        let others = f64::from(self.pool_frames) - self.targets[partition];
        let mut at = random.unit() * others;
        for other in (0..PARTITIONS_MAX).filter(|other| *other != partition) {
            at -= self.targets[other];
            if at < 0.0 {
                let step = (self.targets[other] - self.target_min()).clamp(0.0, 1.0);
                self.targets[other] -= step;
                self.targets[partition] += step;
                break;
            }
        }
        Some(partition)
    }

    /// The partition to give up a frame: of two different ones drawn in proportion to their sizes, the one
    /// more above its target. At least one frame is in a partition. (Were the two drawn independently, a
    /// small partition would lose frames in proportion to the square of its size, whatever its target.)
    pub fn draw(&self, random: &mut SplitMix64) -> usize {
        let first = self.draw_one(None, random);
        if self.sizes[first] == self.frames() {
            return first;
        }
        let second = self.draw_one(Some(first), random);
        if self.excess(second) > self.excess(first) { second } else { first }
    }

    /// A partition drawn in proportion to sizes, other than `except`.
    fn draw_one(&self, except: Option<usize>, random: &mut SplitMix64) -> usize {
        let frames = self.frames() - except.map_or(0, |except| self.sizes[except]);
        let mut at = random.below(u64::from(frames)) as u32;
        let others = (0..PARTITIONS_MAX).filter(|partition| Some(*partition) != except);
        for partition in others {
            if at < self.sizes[partition] {
                return partition;
            }
            at -= self.sizes[partition];
        }
        unreachable!("sizes add up to {frames}")
    }

    /// Frames above the target, where the tenant's frames are divided as the pool's would be.
    fn excess(&self, partition: usize) -> f64 {
        let share = f64::from(self.frames()) / f64::from(self.pool_frames);
        f64::from(self.sizes[partition]) - self.targets[partition] * share
    }

    /// Frames in partitions.
    pub fn frames(&self) -> u32 {
        self.sizes.iter().sum()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.ghosts.memory_bytes()
    }

    /// Panics unless targets sum up to the pool's frames, and ghosts are within their bounds.
    pub fn check_invariants(&self) {
        let sum: f64 = self.targets.iter().sum();
        assert!((sum - f64::from(self.pool_frames)).abs() < 1e-6 * sum.max(1.0), "targets sum up to {sum}");
        self.ghosts.check_invariants();
        for partition in 0..PARTITIONS_MAX {
            assert!(self.targets[partition] >= 0.0, "target of partition {partition}");
            assert!(self.ghosts.len(partition) <= self.ghosts_max(), "ghosts of partition {partition}");
            if !self.is_open(partition) {
                assert_eq!(
                    (self.sizes[partition], self.ghosts.len(partition)),
                    (0, 0),
                    "partition {partition}"
                );
                assert_eq!(self.targets[partition], 0.0, "target of the closed partition {partition}");
            }
        }
    }

    pub fn has_ghost(&self, page: PageId) -> bool {
        self.ghosts.find(page).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_partition_gains_others_lose_in_proportion_to_their_targets() {
        let (mut partitions, mut random) = (Partitions::new(1600), SplitMix64::new(1));
        let [grows, other] = [1, 2].map(|owner| partitions.add(owner, 400, 0).expect("one of its own"));
        for page in (0..90).map(PageId) {
            partitions.evicted(grows, page, 0);
            assert_eq!(partitions.loaded(page, 0, &mut random), Some(grows));
        }
        let [gained, of_default, of_other] = [(grows, 400.0), (DEFAULT, 800.0), (other, 400.0)]
            .map(|(partition, before): (usize, f64)| (partitions.targets[partition] - before).abs());
        assert_eq!((gained, of_default + of_other), (90.0, 90.0));
        assert!((20.0..40.0).contains(&of_other), "{of_other} of 90 from the one with a third");
    }
}
