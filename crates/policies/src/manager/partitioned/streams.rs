//! The streams of a tenant: what a detector calls each of them, and how often following it was wrong.

use crate::detect::{Class, Detector, DetectorKind};
use crate::ids::Access;
use crate::list::{Links, List};
use crate::slot_index::SlotIndex;

/// Streams remembered at once; the least recently used is recycled.
pub(super) const STREAMS_MAX: usize = 4096;
/// Accesses of a stream between two looks at what its detector says. Two looks in a row have to agree before
/// the stream changes class, so that a detector that wavers moves no pages.
const LOOK_EVERY: u64 = 64;
/// Overrules on which a stream is judged, and the share of mistakes above which its class is not followed any
/// more.
const JUDGED_OVERRULES: u32 = 128;
const MISTAKES_SHARE_MAX: f64 = 0.5;
/// Overrules at which both counts are halved, so that the past ages.
const OVERRULES_MAX: u32 = 2 * JUDGED_OVERRULES;
/// The weight of the latest distance between two accesses of a stream in their moving mean.
const SPACING_WEIGHT: f64 = 1.0 / 64.0;
/// For how long the class of a stream is not followed after too many mistakes, in pool sizes of accesses.
const REVOKED_POOLS: u64 = 16;

/// A stream, told apart from those that had its slot before and after it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StreamId {
    pub slot: u32,
    pub serial: u32,
}

pub(super) struct Stream {
    pub id: StreamId,
    /// Its first access, which says its context and file.
    pub access: Access,
    key: u64,
    detector: Box<dyn Detector + Send>,
    /// The class that is acted on.
    pub class: Class,
    /// What the last look saw.
    seen: Class,
    /// Its partition, if it has one.
    pub partition: Option<usize>,
    pub accesses: u64,
    pub hits: u64,
    /// Blocks that it loaded.
    pub frames: u32,
    /// Accesses when the class changed last.
    pub changed: u64,
    /// Time of the last access.
    pub last_access: u64,
    /// Accesses of the tenant from one of the stream to the next, a moving mean.
    spacing: f64,
    /// Mistakes of all time.
    pub mistakes: u64,
    /// Overrules and mistakes, ageing.
    recent_overrules: u32,
    recent_mistakes: u32,
    /// Its detector is not followed before this time.
    revoked_until: u64,
}

impl Stream {
    pub fn detector(&self) -> &dyn Detector {
        &*self.detector
    }

    pub fn is_revoked(&self, now: u64) -> bool {
        now < self.revoked_until
    }

    /// Hears of an access. Returns the class that the stream should have now, if that is another.
    #[inline]
    pub fn access(&mut self, access: &Access, now: u64, is_hit: bool) -> Option<Class> {
        self.detector.access(access.page);
        self.accesses += 1;
        self.hits += u64::from(is_hit);
        if self.last_access > 0 {
            self.spacing += ((now - self.last_access) as f64 - self.spacing) * SPACING_WEIGHT;
        }
        self.last_access = now;
        if self.accesses.is_multiple_of(LOOK_EVERY) { self.look(now) } else { None }
    }

    /// Hits that a frame of the stream, which loops, brings an access of the tenant; 0 if its period is not
    /// known.
    pub fn gain(&self) -> f64 {
        self.detector.period().map_or(0.0, |period| 1.0 / (period * self.spacing))
    }

    fn look(&mut self, now: u64) -> Option<Class> {
        let sees = if self.is_revoked(now) { Class::Other } else { self.detector.class() };
        let agrees = std::mem::replace(&mut self.seen, sees) == sees;
        (agrees && sees != self.class).then_some(sees)
    }

    pub fn change(&mut self, class: Class) {
        self.class = class;
        self.changed = self.accesses;
    }

    /// The manager gave up a page of the stream instead of the candidate.
    pub fn overruled(&mut self) {
        self.recent_overrules += 1;
        if self.recent_overrules > OVERRULES_MAX {
            self.recent_overrules /= 2;
            self.recent_mistakes /= 2;
        }
    }

    /// An overrule of the stream was a mistake. Returns whether its class is not to be followed from now on,
    /// which needs `falls_back`.
    pub fn mistaken(&mut self, now: u64, pool_frames: u32, falls_back: bool) -> bool {
        self.mistakes += 1;
        self.recent_mistakes += 1;
        let limit = MISTAKES_SHARE_MAX * f64::from(self.recent_overrules);
        let is_judged = falls_back && self.recent_overrules >= JUDGED_OVERRULES;
        if !is_judged || f64::from(self.recent_mistakes) <= limit {
            return false;
        }
        self.revoked_until = now + REVOKED_POOLS * u64::from(pool_frames);
        (self.recent_overrules, self.recent_mistakes) = (0, 0);
        self.seen = Class::Other;
        true
    }
}

/// The streams of a tenant.
pub(super) struct Streams {
    kind: DetectorKind,
    pool_frames: u32,
    streams: Vec<Stream>,
    links: Links,
    /// Least recently used at the head.
    recency: List,
    index: SlotIndex,
    last_serial: u32,
}

impl Streams {
    pub fn new(kind: DetectorKind, pool_frames: u32) -> Self {
        Self {
            kind,
            pool_frames,
            streams: Vec::new(),
            links: Links::default(),
            recency: List::new(),
            index: SlotIndex::default(),
            last_serial: 0,
        }
    }

    /// The slot of the stream of an access; `None` if the access belongs to none. `recycle` is told of a
    /// stream that goes to make room.
    #[inline]
    pub fn find(&mut self, access: &Access, recycle: impl FnOnce(&Stream)) -> Option<u32> {
        let key = self.kind.stream(access)?;
        let slot = match self.index.find(key, |slot| self.streams[slot as usize].key) {
            Some(slot) => slot,
            None => self.add(key, access, recycle),
        };
        self.recency.move_to_tail(&mut self.links, slot);
        Some(slot)
    }

    #[cold]
    fn add(&mut self, key: u64, access: &Access, recycle: impl FnOnce(&Stream)) -> u32 {
        self.last_serial = self.last_serial.wrapping_add(1);
        let is_full = self.streams.len() == STREAMS_MAX;
        let slot = if is_full { self.recency.head() } else { self.streams.len() as u32 };
        let stream = Stream {
            id: StreamId { slot, serial: self.last_serial },
            access: *access,
            key,
            detector: self.kind.build(self.pool_frames),
            class: Class::Other,
            seen: Class::Other,
            partition: None,
            accesses: 0,
            hits: 0,
            frames: 0,
            changed: 0,
            last_access: 0,
            spacing: 1.0,
            mistakes: 0,
            recent_overrules: 0,
            recent_mistakes: 0,
            revoked_until: 0,
        };
        if is_full {
            recycle(&self.streams[slot as usize]);
            self.index.remove(self.streams[slot as usize].key, |slot| self.streams[slot as usize].key);
            self.streams[slot as usize] = stream;
        } else {
            self.streams.push(stream);
            self.links.grow_to(slot);
            self.recency.push_tail(&mut self.links, slot);
        }
        self.index.insert(key, slot, |slot| self.streams[slot as usize].key);
        slot
    }

    pub fn at(&mut self, slot: u32) -> &mut Stream {
        &mut self.streams[slot as usize]
    }

    /// The stream, unless it was recycled.
    pub fn get(&mut self, id: StreamId) -> Option<&mut Stream> {
        self.streams.get_mut(id.slot as usize).filter(|stream| stream.id == id)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    pub fn metadata_bytes(&self) -> usize {
        let detectors: usize = self.streams.iter().map(|stream| stream.detector.metadata_bytes()).sum();
        self.streams.capacity() * size_of::<Stream>()
            + detectors
            + self.links.memory_bytes()
            + self.index.memory_bytes()
    }

    /// Panics if list, index and table disagree.
    pub fn check_invariants(&self) {
        self.recency.check_invariants(&self.links);
        self.index.check_invariants(|slot| self.streams[slot as usize].key);
        assert_eq!(self.recency.len() as usize, self.streams.len(), "streams listed");
        assert!(self.streams.len() <= STREAMS_MAX, "streams remembered");
        for (slot, stream) in self.streams.iter().enumerate() {
            assert_eq!(stream.id.slot as usize, slot);
            assert!(stream.recent_overrules <= OVERRULES_MAX && stream.hits <= stream.accesses);
            assert!(stream.partition.is_none() || stream.class == Class::Looping);
        }
    }
}
