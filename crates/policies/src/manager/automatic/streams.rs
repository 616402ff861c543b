//! Streams: who accesses what, as the pair of context and file.
//!
//! The bare context is too coarse, since one call site serves one file after another, and so is the bare file. A stream
//! has classes of its own, one per number of hits since the page was loaded, once it has shown that it lives; until then
//! its accesses count for the file, and those of a new file for the whole tenant. So the many tiny streams cost 48 bytes
//! each, and only while they are among the latest.

use super::intervals::{Classes, NONE, ROOT};
use crate::ids::{ContextId, FileId};
use crate::list::{Links, List};
use crate::slot_index::SlotIndex;

/// Streams remembered at once; the least recently used is recycled.
pub(super) const STREAMS_MAX: u32 = 4096;
/// Classes a stream: not hit since loaded, hit once, hit more often. 2 to 5 give misses within 0.3 %.
pub(super) const HITS_CLASSES: usize = 3;
/// Accesses after which a stream gets classes of its own. Before, they would know less than their parent. Not tried with
/// other values.
const ACCESSES_MIN: u32 = 16;
/// Stands for the file itself, whatever the context. A context of this number shares the file's statistics.
const ANY_CONTEXT: u32 = u32::MAX;

struct Stream {
    key: u64,
    accesses: u32,
    classes: [u32; HITS_CLASSES],
}

/// The streams of a tenant.
pub(super) struct Streams {
    streams: Vec<Stream>,
    links: Links,
    /// Least recently used at the head.
    recency: List,
    index: SlotIndex,
    /// The classes of what is in no stream: per number of hits.
    tenant: [u32; HITS_CLASSES],
}

impl Streams {
    pub fn new(classes: &mut Classes) -> Self {
        Self {
            streams: Vec::new(),
            links: Links::default(),
            recency: List::new(),
            index: SlotIndex::default(),
            tenant: std::array::from_fn(|_| classes.add(ROOT)),
        }
    }

    /// The class of an access that finds a page with so many `hits` since its load. Expected O(1).
    #[inline]
    pub fn class(&mut self, classes: &mut Classes, context: ContextId, file: FileId, hits: u8) -> u32 {
        let hits = hits as usize;
        let slot = self.find(classes, context.0, file);
        let stream = &mut self.streams[slot as usize];
        stream.accesses = stream.accesses.saturating_add(1);
        if stream.classes[hits] != NONE {
            return stream.classes[hits];
        }
        if stream.accesses >= ACCESSES_MIN || context.0 == ANY_CONTEXT {
            return self.own_class(classes, slot, context, file, hits);
        }
        self.class(classes, ContextId(ANY_CONTEXT), file, hits as u8)
    }

    #[cold]
    fn own_class(
        &mut self,
        classes: &mut Classes,
        slot: u32,
        context: ContextId,
        file: FileId,
        hits: usize,
    ) -> u32 {
        let key = self.streams[slot as usize].key;
        let parent = match context.0 {
            ANY_CONTEXT => self.tenant[hits],
            _ => self.class(classes, ContextId(ANY_CONTEXT), file, hits as u8),
        };
        // Finding the parent may have recycled a stream, though never one just used.
        debug_assert_eq!(self.streams[slot as usize].key, key, "a stream just used is not recycled");
        let class = classes.add(parent);
        self.streams[slot as usize].classes[hits] = class;
        class
    }

    #[inline]
    fn find(&mut self, classes: &mut Classes, context: u32, file: FileId) -> u32 {
        let key = u64::from(context) << 32 | u64::from(file.0);
        let Some(slot) = self.index.find(key, |slot| self.streams[slot as usize].key) else {
            return self.add(classes, key);
        };
        self.recency.move_to_tail(&mut self.links, slot);
        slot
    }

    #[cold]
    fn add(&mut self, classes: &mut Classes, key: u64) -> u32 {
        let stream = Stream { key, accesses: 0, classes: [NONE; HITS_CLASSES] };
        let slot = if self.recency.len() == STREAMS_MAX {
            let slot = self.recency.pop_head(&mut self.links).expect("as many as there may be");
            self.index.remove(self.streams[slot as usize].key, |slot| self.streams[slot as usize].key);
            let old = std::mem::replace(&mut self.streams[slot as usize], stream);
            old.classes.into_iter().filter(|class| *class != NONE).for_each(|class| classes.release(class));
            slot
        } else {
            self.streams.push(stream);
            self.links.grow_to(self.streams.len() as u32 - 1);
            self.streams.len() as u32 - 1
        };
        self.recency.push_tail(&mut self.links, slot);
        self.index.insert(key, slot, |slot| self.streams[slot as usize].key);
        slot
    }

    /// The classes that streams use.
    pub fn classes(&self) -> impl Iterator<Item = u32> {
        let own = self.streams.iter().flat_map(|stream| stream.classes);
        own.filter(|class| *class != NONE).chain(self.tenant)
    }

    pub fn metadata_bytes(&self) -> usize {
        self.streams.capacity() * size_of::<Stream>() + self.links.memory_bytes() + self.index.memory_bytes()
    }

    /// Panics if list, index and table disagree.
    pub fn check_invariants(&self) {
        self.recency.check_invariants(&self.links);
        self.index.check_invariants(|slot| self.streams[slot as usize].key);
        assert_eq!(self.recency.len() as usize, self.streams.len(), "streams listed");
        assert!(self.streams.len() <= STREAMS_MAX as usize, "streams remembered");
    }
}
