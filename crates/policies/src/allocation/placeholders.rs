//! Which resident frame each absent page has a claim on.
//!
//! The claim itself is kept in the frame's slot (`claimed_by`); here is only the way from page to frame. Since
//! each frame has at most one claim, the number of placeholders is bounded by the number of frames.

use crate::{
    frame_table::{FrameTable, NONE},
    ids::PageId,
    random::mix64,
};

/// An open-addressing index of frames by the page that claims them: linear probing, deletion by shifting back,
/// at most half full.
pub(crate) struct Placeholders {
    /// A frame, or [`NONE`].
    buckets: Vec<u32>,
    len: u32,
}

impl Placeholders {
    pub fn new(frames: u32) -> Self {
        Self { buckets: vec![NONE; (frames.max(1) as usize * 2).next_power_of_two()], len: 0 }
    }

    pub fn len(&self) -> u32 {
        self.len
    }

    /// The frame that the placeholder of `page` points to.
    #[inline]
    pub fn get(&self, frames: &FrameTable, page: PageId) -> Option<u32> {
        if self.len == 0 {
            return None;
        }
        self.find(frames, page).map(|bucket| self.buckets[bucket])
    }

    /// Makes the placeholder `page` -> `frame`. Neither has one.
    pub fn insert(&mut self, frames: &mut FrameTable, page: PageId, frame: u32, overrule: u32) {
        debug_assert!(!frames[frame].has_claim && self.find(frames, page).is_none());
        let slot = &mut frames[frame];
        slot.claimed_by = page;
        slot.overrule = overrule;
        slot.has_claim = true;
        let mut bucket = self.home(page);
        while self.buckets[bucket] != NONE {
            bucket = self.after(bucket);
        }
        self.buckets[bucket] = frame;
        self.len += 1;
    }

    /// Deletes the placeholder that points to `frame`, which has one, and returns its page and overrule.
    pub fn remove(&mut self, frames: &mut FrameTable, frame: u32) -> (PageId, u32) {
        debug_assert!(frames[frame].has_claim);
        let page = frames[frame].claimed_by;
        let mut hole = self.find(frames, page).expect("a frame's claim is in the index");
        let mut bucket = hole;
        loop {
            bucket = self.after(bucket);
            let moved = self.buckets[bucket];
            if moved == NONE {
                break;
            }
            // An entry may move back to the hole only if its home is not behind the hole.
            let home = self.home(frames[moved].claimed_by);
            let mask = self.buckets.len() - 1;
            if bucket.wrapping_sub(home) & mask >= bucket.wrapping_sub(hole) & mask {
                self.buckets[hole] = moved;
                hole = bucket;
            }
        }
        self.buckets[hole] = NONE;
        self.len -= 1;
        frames[frame].has_claim = false;
        (page, frames[frame].overrule)
    }

    pub fn metadata_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<u32>()
    }

    /// Panics unless the index holds exactly the claims of the slots.
    pub fn check_invariants(&self, frames: &FrameTable) {
        let mut claims = 0;
        for frame in (0..frames.len()).filter(|frame| frames[*frame].has_claim) {
            claims += 1;
            assert_eq!(
                self.get(frames, frames[frame].claimed_by),
                Some(frame),
                "placeholder of frame {frame}"
            );
        }
        assert_eq!(claims, self.len, "number of placeholders");
        assert!(self.len <= frames.len(), "more placeholders than frames");
    }

    fn find(&self, frames: &FrameTable, page: PageId) -> Option<usize> {
        let mut bucket = self.home(page);
        loop {
            match self.buckets[bucket] {
                NONE => return None,
                frame if frames[frame].claimed_by == page => return Some(bucket),
                _ => bucket = self.after(bucket),
            }
        }
    }

    fn home(&self, page: PageId) -> usize {
        mix64(page.0) as usize & (self.buckets.len() - 1)
    }

    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }
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
            let mut index = Placeholders::new(frames_count);
            let mut model: HashMap<u64, u32> = HashMap::new();
            for _ in 0..3000 {
                let frame = random.below(u64::from(frames_count)) as u32;
                let page = PageId(random.below(3 * u64::from(frames_count)));
                if frames[frame].has_claim {
                    let (page, overrule) = index.remove(&mut frames, frame);
                    assert_eq!(model.remove(&page.0), Some(frame));
                    assert_eq!(overrule, frame + 9);
                } else if let Entry::Vacant(entry) = model.entry(page.0) {
                    index.insert(&mut frames, page, frame, frame + 9);
                    entry.insert(frame);
                }
                index.check_invariants(&frames);
                assert_eq!(index.get(&frames, page), model.get(&page.0).copied());
            }
        }
    }
}
