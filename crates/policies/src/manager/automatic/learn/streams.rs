//! Streams: who accesses what, as the pair of context and file.
//!
//! The bare context is too coarse, since one call site serves one file after another, and so is the bare
//! file. A stream has classes of its own, one per kind of page, once it has shown that it lives; until then
//! its accesses count for the tenant. So the many tiny streams cost 112 bytes each, and only while they are
//! among the latest.

use super::intervals::{ClassId, Classes, NONE, UNLEARNED};
use super::kind::Kind;
use super::stream::{Stream, StreamId};
use super::turns::RUN_MIN;
use super::verdict::Rules;
use crate::ids::{ContextId, FileId};
use crate::manager::automatic::tuning::Tuning;
use crate::slot_index::SlotIndex;

/// Streams remembered at once: the departed pages have 12 bits for one.
pub(crate) const STREAMS_MAX: usize = 1 << 12;
/// Accesses after which a stream gets classes of its own. Before, they would know less than the tenant's.
const ACCESSES_MIN: u64 = 16;
/// Streams looked at for one to recycle, or to take classes from.
const PROBES: usize = 64;
/// Entries of the table of streams used lately, at most: 2 KiB stay in the first-level cache.
const LATELY_MAX: usize = 1 << 10;
/// The same at first.
const LATELY_MIN: usize = 1 << 4;

/// The streams of a tenant, and what their classes have learned.
pub(crate) struct Streams {
    pub classes: Classes,
    streams: Vec<Stream>,
    index: SlotIndex,
    /// Slots of streams by hash, most of them right.
    lately: Vec<StreamId>,
    /// Where to look next for one to recycle.
    hand: usize,
    rules: Rules,
    run_share: f32,
    /// Sampled pages used again: by the stream that had used them last, and by another.
    own_uses: u32,
    other_uses: u32,
}

impl Streams {
    /// `revoked_time`: how long a stream that keeps being wrong is treated as under LRU; `gains_max`: how
    /// many mistakes its gains can make up for.
    pub fn new(classes: Classes, revoked_time: u32, gains_max: u32, tuning: &Tuning) -> Self {
        Self {
            classes,
            streams: Vec::new(),
            index: SlotIndex::default(),
            lately: vec![StreamId(0); LATELY_MIN],
            hand: 0,
            rules: Rules::new(revoked_time, gains_max, tuning),
            run_share: tuning.run_share,
            own_uses: 0,
            other_uses: 0,
        }
    }

    /// The stream of an access. Expected O(1).
    #[inline]
    pub fn find(&mut self, context: ContextId, file: FileId, now: u32) -> StreamId {
        let key = u64::from(context.0) << 32 | u64::from(file.0);
        // As many of the highest bits as number the places of `lately`.
        let shift = u64::BITS - self.lately.len().ilog2();
        let place = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        let slot = self.lately[place];
        if let Some(stream) = self.streams.get_mut(slot.index())
            && stream.key == key
        {
            stream.used = now;
            return slot;
        }
        self.find_cold(key, now, place)
    }

    /// The stream with `key`, which is not the one in its `place` of those used lately.
    #[cold]
    fn find_cold(&mut self, key: u64, now: u32, place: usize) -> StreamId {
        let known = self.index.find(key, |slot| self.streams[slot as usize].key);
        let slot = known.map_or_else(|| self.add(key, now), |slot| StreamId(slot as u16));
        self.streams[slot.index()].used = now;
        if self.streams.len() > self.lately.len() / 4 && self.lately.len() < LATELY_MAX {
            self.lately = vec![StreamId(0); self.lately.len() * 2];
        } else {
            self.lately[place] = slot;
        }
        slot
    }

    /// A stream with `key`, which none has, perhaps in the place of an old one.
    fn add(&mut self, key: u64, now: u32) -> StreamId {
        let slot = if self.streams.len() < STREAMS_MAX {
            self.streams.push(Stream::new(key, now));
            self.streams.len() - 1
        } else {
            let slot = self.oldest(now, |_, _| true).expect("there are as many as there may be");
            self.index.remove(self.streams[slot].key, |slot| self.streams[slot as usize].key);
            self.streams[slot].strip(&mut self.classes);
            let frames = self.streams[slot].frames;
            self.streams[slot] = Stream::new(key, now);
            self.streams[slot].frames = frames;
            slot
        };
        self.index.insert(key, slot as u32, |slot| self.streams[slot as usize].key);
        StreamId(slot as u16)
    }

    /// The one used longest ago of the next few streams for which `fits`.
    fn oldest(&mut self, now: u32, fits: impl Fn(&Stream, &Classes) -> bool) -> Option<usize> {
        let mut oldest = None;
        for _ in 0..PROBES.min(self.streams.len()) {
            self.hand = if self.hand + 1 < self.streams.len() { self.hand + 1 } else { 0 };
            let stream = &self.streams[self.hand];
            let age = now.wrapping_sub(stream.used);
            if fits(stream, &self.classes) && oldest.is_none_or(|(most, _)| age > most) {
                oldest = Some((age, self.hand));
            }
        }
        oldest.map(|(_, slot)| slot)
    }

    /// The kind of a page that `stream` uses `interval` after its last use, at which it was of the kind
    /// `before`.
    #[inline]
    pub fn kind(&self, stream: StreamId, interval: u32, before: Kind) -> Kind {
        let is_stray =
            before == Kind::STRAY && self.classes.is_soon(interval) && self[stream].has_strays(&self.classes);
        if is_stray { Kind::STRAY } else { before.used_again(self.classes.step(interval)) }
    }

    /// The kind of a page that `stream` uses, or `creates`, and of which nothing is known.
    pub fn kind_of_unknown(&self, stream: StreamId, creates: bool) -> Kind {
        match creates {
            true => Kind::CREATED,
            false if self[stream].has_strays(&self.classes) => Kind::STRAY,
            false => Kind::NEW,
        }
    }

    /// The class of pages of `kind` that a stream uses. Without one of its own it has the tenant's, unless it
    /// has no say.
    #[inline]
    pub fn class(&self, stream: StreamId, kind: Kind) -> ClassId {
        let stream = &self.streams[stream.index()];
        match stream.classes[kind.index()] {
            NONE if stream.is_revoked() => UNLEARNED,
            NONE => kind.class(),
            class => class,
        }
    }

    /// The class in which a sampled access of `stream` counts.
    #[inline]
    pub fn class_to_learn(&mut self, stream: StreamId, kind: Kind) -> ClassId {
        let Stream { hits, misses, ref classes, .. } = self[stream];
        if classes[kind.index()] != NONE || kind == Kind::STRAY || hits + misses < ACCESSES_MIN {
            return self.class(stream, kind);
        }
        self.add_class(stream.index(), kind)
    }

    #[cold]
    fn add_class(&mut self, slot: usize, kind: Kind) -> ClassId {
        let mut added = self.classes.add(kind);
        if added.is_none() {
            // One that was used longer ago has to do without, if that frees a class. Waiting pages keep
            // theirs.
            let now = self.streams[slot].used;
            let frees_one = |stream: &Stream, classes: &Classes| {
                stream.used != now && stream.classes().any(|class| classes.is_idle(class))
            };
            if let Some(from) = self.oldest(now, frees_one) {
                self.streams[from].strip(&mut self.classes);
                added = self.classes.add(kind);
            }
        }
        let Some(class) = added else { return kind.class() };
        self.streams[slot].classes[kind.index()] = class;
        self.streams[slot].set_values(&mut self.classes);
        class
    }

    /// A sampled page that `stream` had used at `last` is used by it again; `lru_hits` tells whether LRU
    /// would have kept it, among `capacity` sampled pages.
    #[inline]
    pub fn use_again(&mut self, stream: StreamId, last: u32, now: u32, lru_hits: bool, capacity: u32) {
        self.own_uses = self.own_uses.saturating_add(1);
        let stream = &mut self.streams[stream.index()];
        if !lru_hits || !stream.round.is_idle() {
            let enough = ((capacity as f32 * self.run_share) as u32).max(RUN_MIN);
            stream.take_turn(&mut self.classes, (last, now), lru_hits, enough);
        }
    }

    /// An access of `stream` misses. Once its time without say is over it has a say again, whoever leads.
    pub fn missed(&mut self, stream: StreamId, now: u32) {
        let stream = &mut self.streams[stream.index()];
        stream.misses += 1;
        if stream.verdict.is_over(now, self.rules) {
            stream.set_values(&mut self.classes);
        }
    }

    /// A page of `stream` is given up against the ledger's advice.
    pub fn overruled(&mut self, stream: StreamId, now: u32) {
        let stream = &mut self.streams[stream.index()];
        if stream.verdict.overruled(now, self.rules) {
            stream.set_values(&mut self.classes);
        }
    }

    /// A page of the sample that `stream` had used last is used again. It was kept by value, LRU would not
    /// have kept it, and it stands for `pages`.
    pub fn gained(&mut self, stream: StreamId, pages: u32) {
        self.streams[stream.index()].verdict.gained(pages, self.rules);
    }

    /// Giving up a page of `stream` against the ledger's advice was a mistake. If the stream `answers` for
    /// it, it counts as wrong unless a gain makes up for it.
    pub fn mistaken(&mut self, stream: StreamId, answers: bool) {
        let stream = &mut self.streams[stream.index()];
        stream.mistakes += 1;
        if answers {
            stream.verdict.mistaken();
        }
    }

    /// A sampled page is used again by another stream than the one that used it last.
    pub fn use_by_another(&mut self) {
        self.other_uses = self.other_uses.saturating_add(1);
    }

    /// Names a stream by what its classes have learned.
    #[cold]
    pub fn label(&mut self, stream: StreamId) {
        self.streams[stream.index()].name(&self.classes);
    }

    /// Whether at least two streams have classes of their own, so that values tell pages apart that others do
    /// not.
    pub fn are_told_apart(&self) -> bool {
        self.streams.iter().filter(|stream| stream.classes().next().is_some()).nth(1).is_some()
    }

    /// Whether pages are mostly used again by another stream than the one that used them last: what is
    /// learned of a stream that comes once comes too late.
    pub fn leave_pages_to_others(&self) -> bool {
        self.other_uses > self.own_uses
    }

    /// The classes that streams hold.
    pub fn held(&self) -> impl Iterator<Item = ClassId> {
        self.streams.iter().flat_map(|stream| stream.classes().chain(stream.round.class()))
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.classes.metadata_bytes()
            + self.streams.capacity() * size_of::<Stream>()
            + self.lately.capacity() * size_of::<StreamId>()
            + self.index.memory_bytes()
    }

    /// Panics if index and table disagree.
    pub fn check_invariants(&self) {
        self.index.check_invariants(|slot| self.streams[slot as usize].key);
        assert_eq!(self.index.len(), self.streams.len(), "streams found");
        assert!(self.streams.len() <= STREAMS_MAX, "streams remembered");
        self.streams.iter().for_each(|stream| stream.verdict.check_invariants(self.rules));
    }
}

impl std::ops::Index<StreamId> for Streams {
    type Output = Stream;

    #[inline]
    fn index(&self, stream: StreamId) -> &Stream {
        &self.streams[stream.index()]
    }
}

impl std::ops::IndexMut<StreamId> for Streams {
    #[inline]
    fn index_mut(&mut self, stream: StreamId) -> &mut Stream {
        &mut self.streams[stream.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manager::automatic::learn::verdict::OVERRULES;

    /// None, of which one that keeps being wrong has no say for a time of 1000.
    fn streams(gains_max: u32) -> Streams {
        let tuning = Tuning::default();
        Streams::new(Classes::new(800.0, 100.0, 100, &tuning), 1000, gains_max, &tuning)
    }

    #[test]
    fn a_stream_that_is_always_wrong_loses_its_say() {
        let mut streams = streams(100);
        let slot = streams.find(ContextId(0), FileId(0), 0);
        for now in 0..u32::from(OVERRULES) {
            assert!(!streams[slot].is_revoked());
            streams.overruled(slot, now);
            streams.mistaken(slot, true);
        }
        assert!(streams[slot].is_revoked());
    }

    #[test]
    fn a_stream_answers_for_its_own_mistakes_alone() {
        let mut streams = streams(100);
        let slots = [1, 2].map(|context| streams.find(ContextId(context), FileId(0), 0));
        for now in 0..u32::from(OVERRULES) {
            slots.iter().for_each(|slot| streams.overruled(*slot, now));
            streams.mistaken(slots[1], true);
        }
        assert_eq!(slots.map(|slot| streams[slot].is_revoked()), [false, true]);
        assert_eq!(slots.map(|slot| streams[slot].mistakes), [0, 256]);
    }

    /// As many mistakes as there were gains do not count, up to the most that there can be.
    #[test]
    fn gains_make_up_for_as_many_mistakes() {
        const GAINS_MAX: u32 = 2 * OVERRULES as u32;
        let mut streams = streams(GAINS_MAX);
        let slot = streams.find(ContextId(0), FileId(0), 0);
        (0..OVERRULES).for_each(|_| streams.gained(slot, 8));
        let mut mistakes = 0;
        while !streams[slot].is_revoked() {
            streams.overruled(slot, mistakes);
            streams.mistaken(slot, true);
            mistakes += 1;
        }
        let counted = mistakes - GAINS_MAX;
        assert!((200..=2 * u32::from(OVERRULES)).contains(&counted), "{counted} mistakes counted");
    }

    /// It has its say again when its time is over, though nobody asks values any more.
    #[test]
    fn a_stream_has_its_say_again_with_a_miss() {
        for (misses_at, has_its_say) in [(11, false), (1009, false), (1010, true), ((1 << 31) + 2000, true)] {
            let mut streams = streams(100);
            let slot = streams.find(ContextId(0), FileId(0), 0);
            for _ in 0..OVERRULES {
                streams.overruled(slot, 10);
                streams.mistaken(slot, true);
            }
            streams.overruled(slot, 10);
            streams.missed(slot, misses_at);
            assert_eq!(!streams[slot].is_revoked(), has_its_say, "at {misses_at}");
        }
    }

    /// Its classes would not be free: pages wait in them.
    #[test]
    fn a_stream_whose_pages_wait_keeps_its_classes() {
        let tuning = Tuning::default();
        let mut streams = Streams::new(Classes::new(800.0, 100.0, 1, &tuning), 1000, 100, &tuning);
        let [first, second] = [1, 2].map(|context| {
            let stream = streams.find(ContextId(context), FileId(0), context);
            streams[stream].hits = u64::from(u32::MAX);
            stream
        });
        let class = streams.class_to_learn(first, Kind::NEW);
        assert_eq!(streams[first].classes().next(), Some(class));
        streams.classes.begin(class);
        assert_eq!(streams.class_to_learn(second, Kind::NEW), Kind::NEW.class(), "there is none for it");
        assert_eq!(streams[first].classes().next(), Some(class));
        streams.classes.end(class, 0, 10, true);
        assert_eq!(streams.class_to_learn(second, Kind::NEW), class);
        assert_eq!(streams[first].classes().next(), None);
    }
}
