//! Which resident frame each absent page has a claim on.
//!
//! The claim itself is kept in the frame table; here is only the way from page to frame. Since
//! each frame has at most one claim, the number of placeholders is bounded by the number of frames.

use crate::{
    frame_table::{Claim, FrameTable},
    ids::PageId,
    slot_index::SlotIndex,
};

/// An index of frames by the page that claims them.
#[derive(Default)]
pub(crate) struct Placeholders {
    index: SlotIndex,
}

impl Placeholders {
    pub fn len(&self) -> u32 {
        self.index.len() as u32
    }

    /// The frame that the placeholder of `page` points to.
    #[inline]
    pub fn get(&self, frames: &FrameTable, page: PageId) -> Option<u32> {
        self.index.find(page.0, claimant(frames))
    }

    /// Reads where a look for `page` begins, so that it is in the processor's cache by then.
    #[inline]
    pub fn touch(&self, page: PageId) -> u32 {
        self.index.touch(page.0)
    }

    /// Makes the placeholder `page` -> `frame`, a `claim` of this kind. Neither has one.
    pub fn insert(&mut self, frames: &mut FrameTable, page: PageId, frame: u32, claim: Claim) {
        frames.set_claim(frame, page, claim);
        self.index.insert(page.0, frame, claimant(frames));
    }

    /// Deletes the placeholder that points to `frame`, which has one, and returns its page.
    pub fn remove(&mut self, frames: &mut FrameTable, frame: u32) -> PageId {
        debug_assert!(frames[frame].has_claim());
        let page = frames.claimant(frame);
        let removed = self.index.remove(page.0, claimant(frames));
        debug_assert_eq!(removed, Some(frame));
        frames[frame].claim = Claim::None;
        page
    }

    pub fn metadata_bytes(&self) -> usize {
        self.index.memory_bytes()
    }

    /// Panics unless the index holds exactly the claims of the slots.
    pub fn check_invariants(&self, frames: &FrameTable) {
        let mut claims = 0;
        for frame in (0..frames.len()).filter(|frame| frames[*frame].has_claim()) {
            claims += 1;
            assert_eq!(self.get(frames, frames.claimant(frame)), Some(frame), "placeholder of frame {frame}");
        }
        assert_eq!(claims, self.len(), "number of placeholders");
    }
}

fn claimant(frames: &FrameTable) -> impl Fn(u32) -> u64 + use<'_> {
    |frame| frames.claimant(frame).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;
    use std::collections::{HashMap, hash_map::Entry};

    #[test]
    fn equals_a_hash_map() {
        let mut random = SplitMix64::new(1);
        for frames_count in [1u32, 2, 3, 17, 100] {
            let mut frames = FrameTable::new(frames_count);
            let mut index = Placeholders::default();
            let mut model: HashMap<u64, u32> = HashMap::new();
            for _ in 0..3000 {
                let frame = random.below(u64::from(frames_count)) as u32;
                let page = PageId(random.below(3 * u64::from(frames_count)));
                if frames[frame].has_claim() {
                    let page = index.remove(&mut frames, frame);
                    assert_eq!(model.remove(&page.0), Some(frame));
                } else if let Entry::Vacant(entry) = model.entry(page.0) {
                    index.insert(&mut frames, page, frame, Claim::Judged);
                    entry.insert(frame);
                }
                index.check_invariants(&frames);
                assert_eq!(index.get(&frames, page), model.get(&page.0).copied());
            }
        }
    }
}
