//! Renumbers the frames of a policy that owns few frames of a large pool.
//!
//! Policies index flat arrays by frame number. A priority level owns some frames, whose numbers are spread
//! over the whole pool, and a pool has many levels; arrays up to the largest number in each of them would
//! need memory for levels times frames. Here, each frame that comes in gets a number that is free among the
//! level's own, and an index finds it again.
//!
//! Cost: one look-up in a hash table per event. 9 to 17 bytes per frame of the level's largest population,
//! which is what the policy's own arrays follow too.

use super::policy::{Departure, OneLevel};
use crate::slot_index::SlotIndex;
use crate::{FrameId, PageId};

/// A policy whose frames may have any numbers. See the file's head.
///
/// Invariant: a local number is either in `free`, or in `index` under the pool's number that `frames` has for
/// it.
pub(super) struct LocalFrames {
    policy: Box<dyn OneLevel>,
    /// Per local number in use: the pool's number of the frame.
    frames: Vec<FrameId>,
    index: SlotIndex,
    /// Local numbers not in use.
    free: Vec<u32>,
}

impl LocalFrames {
    pub(super) fn new(policy: Box<dyn OneLevel>) -> Self {
        Self { policy, frames: Vec::new(), index: SlotIndex::default(), free: Vec::new() }
    }

    fn local(&self, frame: FrameId) -> FrameId {
        let local = self.index.find(u64::from(frame.0), |local| key(&self.frames, local));
        FrameId(local.expect("the frame is one of the level's"))
    }
}

fn key(frames: &[FrameId], local: u32) -> u64 {
    u64::from(frames[local as usize].0)
}

impl OneLevel for LocalFrames {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn resize(&mut self, capacity: u32) {
        self.policy.resize(capacity);
    }

    fn hit(&mut self, frame: FrameId, page: PageId) {
        let local = self.local(frame);
        self.policy.hit(local, page);
    }

    fn insert(&mut self, frame: FrameId, page: PageId) {
        let local = self.free.pop().unwrap_or_else(|| {
            self.frames.push(frame);
            self.frames.len() as u32 - 1
        });
        self.frames[local as usize] = frame;
        self.index.insert(u64::from(frame.0), local, |local| key(&self.frames, local));
        self.policy.insert(FrameId(local), page);
    }

    fn victim(&mut self, missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let local = self.policy.victim(missing, &mut |local| busy(self.frames[local.index()]))?;
        Some(self.frames[local.index()])
    }

    fn remove(&mut self, frame: FrameId, page: PageId, why: Departure) {
        let local = self.index.remove(u64::from(frame.0), |local| key(&self.frames, local));
        let local = local.expect("the frame is one of the level's");
        self.policy.remove(FrameId(local), page, why);
        self.free.push(local);
    }

    fn check_invariants(&self) {
        self.policy.check_invariants();
        self.index.check_invariants(|local| key(&self.frames, local));
        assert_eq!(
            self.index.len() + self.free.len(),
            self.frames.len(),
            "a local number is used twice or lost"
        );
    }

    fn metadata_bytes(&self) -> usize {
        self.policy.metadata_bytes()
            + self.frames.capacity() * size_of::<FrameId>()
            + self.index.memory_bytes()
            + self.free.capacity() * size_of::<u32>()
    }
}
