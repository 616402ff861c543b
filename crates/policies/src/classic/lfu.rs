//! LFU: evicts the page referenced least often since it came in.
//!
//! **Idea.** What was used often will be used again. Pages with the same number of references share a list,
//! and these lists stand in order of that number, so that a reference moves a page to the next list.
//!
//! **Paper.** K. Shah, A. Mitra, D. Matani: "An O(1) algorithm for implementing the LFU cache eviction
//! scheme", 2010 (the data structure; the policy is older).
//!
//! **Departures.** None. Counts start at 1 when a page comes in and are lost when it leaves. Among pages with
//! the same count, the one that reached it first goes.
//!
//! **Refused proposal.** Changes nothing: a busy frame keeps its place.
//!
//! **Cost.** O(1) per access; `victim` also walks over the busy frames at the cold end. 12 bytes a frame, and
//! 32 for each distinct number of references, of which there are at most as many as pages: 44 a frame.

use super::policy::{Departure, OneLevel, first_free, grow};
use crate::list::{Links, List, NIL};
use crate::{FrameId, PageId};

/// Least frequently used. See the file's head.
///
/// Invariants: (1) `order` holds the buckets that are in use by strictly rising count; (2) each of them has
/// at least one frame; (3) each resident frame is in the bucket that `bucket_of` says.
pub struct Lfu {
    links: Links,
    /// Per frame: the bucket it is in.
    bucket_of: Vec<u32>,
    buckets: Vec<Bucket>,
    bucket_links: Links,
    /// The buckets in use, smallest count at the head, and those to be used again.
    order: List,
    free: List,
}

/// The frames whose pages have the same number of references.
struct Bucket {
    references: u64,
    /// The first to reach this count at the head.
    frames: List,
}

impl Lfu {
    /// An empty instance with room for `capacity` frames.
    pub fn new(capacity: u32) -> Self {
        Self {
            links: Links::with_capacity(capacity),
            bucket_of: Vec::with_capacity(capacity as usize),
            buckets: Vec::new(),
            bucket_links: Links::default(),
            order: List::new(),
            free: List::new(),
        }
    }

    /// The bucket for `references`, which belongs right before `place` in the order: that one if it counts
    /// the same, else a new one.
    fn bucket_at(&mut self, place: u32, references: u64) -> u32 {
        if place != NIL && self.buckets[place as usize].references == references {
            return place;
        }
        let bucket = self.free.pop_head(&mut self.bucket_links).unwrap_or_else(|| {
            let bucket = self.buckets.len() as u32;
            self.buckets.push(Bucket { references, frames: List::new() });
            self.bucket_links.grow_to(bucket);
            bucket
        });
        self.buckets[bucket as usize].references = references;
        self.order.insert_before(&mut self.bucket_links, place, bucket);
        bucket
    }

    fn link(&mut self, frame: FrameId, bucket: u32) {
        self.buckets[bucket as usize].frames.push_tail(&mut self.links, frame.0);
        self.bucket_of[frame.index()] = bucket;
    }

    /// Takes the frame out of its bucket, and the bucket out of use if that was its last.
    fn unlink(&mut self, frame: FrameId) {
        let bucket = self.bucket_of[frame.index()];
        let frames = &mut self.buckets[bucket as usize].frames;
        frames.remove(&mut self.links, frame.0);
        if frames.is_empty() {
            self.order.remove(&mut self.bucket_links, bucket);
            self.free.push_head(&mut self.bucket_links, bucket);
        }
    }
}

impl OneLevel for Lfu {
    fn name(&self) -> &'static str {
        "lfu"
    }

    fn resize(&mut self, _capacity: u32) {}

    fn hit(&mut self, frame: FrameId, _page: PageId) {
        let bucket = self.bucket_of[frame.index()];
        let references = self.buckets[bucket as usize].references;
        let next = self.bucket_at(self.bucket_links.next(bucket), references + 1);
        self.unlink(frame);
        self.link(frame, next);
    }

    fn insert(&mut self, frame: FrameId, _page: PageId) {
        self.links.grow_to(frame.0);
        grow(&mut self.bucket_of, frame);
        let bucket = self.bucket_at(self.order.head(), 1);
        self.link(frame, bucket);
    }

    fn victim(&mut self, _missing: PageId, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<FrameId> {
        let buckets = self.order.iter(&self.bucket_links);
        first_free(buckets.flat_map(|bucket| self.buckets[bucket as usize].frames.iter(&self.links)), busy)
    }

    fn remove(&mut self, frame: FrameId, _page: PageId, _why: Departure) {
        self.unlink(frame);
    }

    fn check_invariants(&self) {
        self.order.check_invariants(&self.bucket_links);
        self.free.check_invariants(&self.bucket_links);
        let mut below = 0;
        for bucket in self.order.iter(&self.bucket_links) {
            let Bucket { references, frames } = &self.buckets[bucket as usize];
            assert!(*references > below, "invariant 1: buckets are out of order");
            below = *references;
            frames.check_invariants(&self.links);
            assert!(!frames.is_empty(), "invariant 2: a bucket without frames is in use");
            let marked = frames.iter(&self.links).all(|frame| self.bucket_of[frame as usize] == bucket);
            assert!(marked, "invariant 3: a frame is in another bucket than its mark says");
        }
        let buckets = (self.order.len() + self.free.len()) as usize;
        assert_eq!(buckets, self.buckets.len(), "a bucket is neither used nor free");
    }

    fn metadata_bytes(&self) -> usize {
        self.links.memory_bytes()
            + self.bucket_of.capacity() * size_of::<u32>()
            + self.buckets.capacity() * size_of::<Bucket>()
            + self.bucket_links.memory_bytes()
    }
}
