//! Streams: who accesses what, as the pair of context and file.
//!
//! The bare context is too coarse, since one call site serves one file after another, and so is the bare
//! file. A stream has classes of its own, one per kind of page, once it has shown that it lives; until then
//! its accesses count for the tenant. So the many tiny streams cost 96 bytes each, and only while they are
//! among the latest.
//!
//! While a stream goes round ([`turns`](super::turns)), its pages are valued by the time until their turn,
//! whatever their kind. A page that is new to such a stream has no turn yet. It is a *stray* until it comes
//! back after a while: it is kept for a moment, because it may be used several times in a row, and then is
//! the first to go. So a page whose turn is known does not make room for one of which nothing is known. If
//! the loop has grown by the stray, its turn is known from its second use on.
//!
//! A stream is answerable for the pages it used last: where giving them up keeps being wrong, it loses its
//! classes' say for a while, and its pages lose value with age as under LRU; other streams keep theirs. The
//! shadow cache by value is not evidence enough: it finds the page worth least of a small sample, while the
//! cache has to look for one among many more, so the shadow may hit where the cache does not.
//!
//! That a page came back soon after it was given up is not yet a fault. In a loop all pages that are given up
//! come back, while others stay and are hit that LRU would not have kept. So where not every page is sampled,
//! the cache's own hits on sampled pages that LRU's shadow does not hold make up for mistakes.

use super::intervals::{CREATED, ClassId, Classes, KINDS, LONGEST, NEW, NONE, STRAY, UNLEARNED};
use super::turns::{RUN_MIN, Turns};
use crate::detect;
use crate::ids::{ContextId, FileId};
use crate::manager::automatic::tuning::Tuning;
use crate::slot_index::SlotIndex;

/// Streams remembered at once: the departed pages have 12 bits for one.
pub(crate) const STREAMS_MAX: usize = 1 << 12;
/// Accesses after which a stream gets classes of its own. Before, they would know less than the tenant's.
const ACCESSES_MIN: u64 = 16;
/// Streams looked at for one to recycle, or to take classes from.
const PROBES: usize = 64;
/// Overrules that a verdict on a stream rests on: the window of a whole tenant in LRU-SP.
const OVERRULES: u16 = 256;
/// Entries of the table of streams used lately, at most: 2 KiB stay in the first-level cache.
const LATELY_MAX: usize = 1 << 10;
/// The same at first.
const LATELY_MIN: usize = 1 << 4;
/// Uses in turn after which a loop's values are worked out anew, at the latest.
const TURNS_VALUED: u8 = 64;
/// Evidence on which a stream is labelled, in pages: as much as AMP asks for.
const LABEL_PAGES: f32 = 16.0;
/// The share of pages used again below which a stream is a one-shot scan.
const ONE_SHOT_SHARE: f32 = 1.0 / 16.0;
/// How much more a page must be worth at one age than at another for the order to have a name.
const LABEL_RATIO: f32 = 1.5;

/// One stream.
pub(crate) struct Stream {
    key: u64,
    pub hits: u64,
    pub misses: u64,
    /// Blocks whose last access was the stream's, or that of one which had its number before.
    pub frames: u32,
    /// Accesses when its label changed last.
    labelled: u64,
    /// When it was used last.
    used: u32,
    pub mistakes: u32,
    /// Overrules of the verdict that is being prepared, and those of them that were wrong.
    overrules: u16,
    pub wrong: u16,
    /// Hits that LRU would not have had, as the sample tells, less the mistakes that they made up for.
    gains: u32,
    /// Since when its classes have no say, if they have none.
    revoked_at: Option<u32>,
    pub label: detect::Class,
    classes: [ClassId; KINDS],
    turns: Turns,
    /// The class by which its pages are valued while it goes round, or [`NONE`].
    round: ClassId,
    /// The bucket of the period for which that was done, and uses in turn since then.
    round_bucket: u8,
    round_uses: u8,
}

impl Stream {
    const fn new(key: u64, now: u32) -> Self {
        Self {
            key,
            hits: 0,
            misses: 0,
            frames: 0,
            labelled: 0,
            used: now,
            mistakes: 0,
            overrules: 0,
            wrong: 0,
            gains: 0,
            revoked_at: None,
            label: detect::Class::Other,
            classes: [NONE; KINDS],
            turns: Turns::new(now),
            round: NONE,
            round_bucket: 0,
            round_uses: 0,
        }
    }

    pub fn context(&self) -> ContextId {
        ContextId((self.key >> 32) as u32)
    }

    pub fn file(&self) -> FileId {
        FileId(self.key as u32)
    }

    pub fn is_revoked(&self) -> bool {
        self.revoked_at.is_some()
    }

    /// Accesses since its label changed last.
    pub fn unchanged(&self) -> u64 {
        self.hits + self.misses - self.labelled
    }

    /// Whether a page of which nothing is remembered counts as a stray. It does while the stream goes round,
    /// unless a pass takes so long that pages of the loop may have been forgotten.
    fn has_strays(&self, classes: &Classes) -> bool {
        let period = self.turns.period().filter(|_| self.round != NONE && !self.is_revoked());
        period.is_some_and(|period| classes.kind(period) != LONGEST)
    }

    /// The classes it has, by kind.
    pub fn classes(&self) -> impl Iterator<Item = ClassId> {
        self.classes.into_iter().filter(|class| *class != NONE)
    }

    /// Sets by which class's values the pages of each of its classes are valued.
    fn set_values(&self, classes: &mut Classes) {
        for class in self.classes() {
            let valued_as = match self.round {
                _ if self.is_revoked() => UNLEARNED,
                NONE => class,
                round => round,
            };
            classes.set_valued_as(class, valued_as);
        }
    }

    /// A page that it used at `last` is used by it again; `lru_hits`: after a time for which LRU would have
    /// kept it.
    fn take_turn(&mut self, classes: &mut Classes, last: u32, now: u32, lru_hits: bool, enough: u32) {
        if !lru_hits {
            self.turns.miss(last, now, enough);
        } else if !classes.is_soon(now.wrapping_sub(last)) {
            self.turns.hit(enough);
        } else {
            return;
        }
        match self.turns.period() {
            Some(period) => self.enter_loop(classes, period),
            None => self.leave_round(classes),
        }
    }

    /// Values pages by the time until their turn, if nearly all come back then.
    fn enter_loop(&mut self, classes: &mut Classes, period: u32) {
        let bucket = classes.bucket(period) as u8;
        self.round_uses += 1;
        if self.round_bucket == bucket && self.round_uses < TURNS_VALUED {
            return;
        }
        (self.round_bucket, self.round_uses) = (bucket, 0);
        let Some(values) = classes.values_in_turn(self.classes(), period) else {
            self.leave_round(classes);
            return;
        };
        if self.round == NONE {
            let Some(added) = classes.add(NEW) else { return };
            self.round = added;
            self.set_values(classes);
        }
        classes.set_values(self.round, values);
    }

    /// No longer values pages by their turn.
    fn leave_round(&mut self, classes: &mut Classes) {
        let round = std::mem::replace(&mut self.round, NONE);
        if round != NONE {
            self.round_bucket = u8::MAX;
            self.set_values(classes);
            classes.give_up(round);
        }
    }
}

/// The streams of a tenant, and what their classes have learned.
pub(crate) struct Streams {
    pub classes: Classes,
    streams: Vec<Stream>,
    index: SlotIndex,
    /// Slots of streams by hash, most of them right.
    lately: Vec<u16>,
    /// Where to look next for one to recycle.
    hand: usize,
    /// How long a stream's classes are without say.
    revoked_time: u32,
    /// Gains that a stream has at most, so that an old one does not excuse mistakes without end.
    gains_max: u32,
    /// The least number of wrong overrules in a verdict that costs a stream its say.
    wrong_min: u32,
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
            lately: vec![0; LATELY_MIN],
            hand: 0,
            revoked_time,
            gains_max,
            wrong_min: (f32::from(OVERRULES) * (1.0 - tuning.right_share)) as u32 + 1,
            run_share: tuning.run_share,
            own_uses: 0,
            other_uses: 0,
        }
    }

    /// The stream of an access. Expected O(1).
    #[inline]
    pub fn find(&mut self, context: ContextId, file: FileId, now: u32) -> u16 {
        let key = u64::from(context.0) << 32 | u64::from(file.0);
        // As many of the highest bits as number the places of `lately`.
        let shift = u64::BITS - self.lately.len().ilog2();
        let place = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> shift) as usize;
        let slot = self.lately[place];
        if let Some(stream) = self.streams.get_mut(usize::from(slot))
            && stream.key == key
        {
            stream.used = now;
            return slot;
        }
        self.find_cold(key, now, place)
    }

    /// The stream with `key`, which is not the one in its `place` of those used lately.
    #[cold]
    fn find_cold(&mut self, key: u64, now: u32, place: usize) -> u16 {
        let known = self.index.find(key, |slot| self.streams[slot as usize].key);
        let slot = known.map_or_else(|| self.add(key, now), |slot| slot as u16);
        self.streams[usize::from(slot)].used = now;
        if self.streams.len() > self.lately.len() / 4 && self.lately.len() < LATELY_MAX {
            self.lately = vec![0; self.lately.len() * 2];
        } else {
            self.lately[place] = slot;
        }
        slot
    }

    /// A stream with `key`, which none has, perhaps in the place of an old one.
    fn add(&mut self, key: u64, now: u32) -> u16 {
        let slot = if self.streams.len() < STREAMS_MAX {
            self.streams.push(Stream::new(key, now));
            self.streams.len() - 1
        } else {
            let slot = self.oldest(now, |_, _| true).expect("there are as many as there may be");
            self.index.remove(self.streams[slot].key, |slot| self.streams[slot as usize].key);
            self.strip(slot);
            let frames = self.streams[slot].frames;
            self.streams[slot] = Stream { frames, ..Stream::new(key, now) };
            slot
        };
        self.index.insert(key, slot as u32, |slot| self.streams[slot as usize].key);
        slot as u16
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

    fn strip(&mut self, slot: usize) {
        self.streams[slot].leave_round(&mut self.classes);
        let before = std::mem::replace(&mut self.streams[slot].classes, [NONE; KINDS]);
        before.into_iter().filter(|class| *class != NONE).for_each(|class| self.classes.give_up(class));
    }

    /// The kind of a page that `stream` uses `interval` after its last use, at which it was of the kind
    /// `before`.
    #[inline]
    pub fn kind(&self, stream: u16, interval: u32, before: u8) -> u8 {
        if before == STRAY && self.classes.is_soon(interval) && self[stream].has_strays(&self.classes) {
            STRAY
        } else {
            self.classes.kind(interval)
        }
    }

    /// The kind of a page that `stream` uses, or `creates`, and of which nothing is known.
    pub fn kind_of_unknown(&self, stream: u16, creates: bool) -> u8 {
        match creates {
            true => CREATED,
            false if self[stream].has_strays(&self.classes) => STRAY,
            false => NEW,
        }
    }

    /// The class of pages of `kind` that a stream uses.
    #[inline]
    pub fn class(&self, stream: u16, kind: u8) -> ClassId {
        match self.streams[usize::from(stream)].classes[usize::from(kind)] {
            NONE => ClassId::from(kind),
            class => class,
        }
    }

    /// The class in which a sampled access of `stream` counts.
    #[inline]
    pub fn class_to_learn(&mut self, stream: u16, kind: u8) -> ClassId {
        let Stream { hits, misses, ref classes, .. } = self[stream];
        if classes[usize::from(kind)] != NONE || kind == STRAY || hits + misses < ACCESSES_MIN {
            return self.class(stream, kind);
        }
        self.add_class(usize::from(stream), kind)
    }

    #[cold]
    fn add_class(&mut self, slot: usize, kind: u8) -> ClassId {
        let mut added = self.classes.add(kind);
        if added.is_none() {
            // One that was used longer ago has to do without, if that frees a class. Waiting pages keep
            // theirs.
            let now = self.streams[slot].used;
            let frees_one = |stream: &Stream, classes: &Classes| {
                stream.used != now && stream.classes().any(|class| classes.is_idle(class))
            };
            if let Some(from) = self.oldest(now, frees_one) {
                self.strip(from);
                added = self.classes.add(kind);
            }
        }
        let Some(class) = added else { return ClassId::from(kind) };
        self.streams[slot].classes[usize::from(kind)] = class;
        self.streams[slot].set_values(&mut self.classes);
        class
    }

    /// A sampled page that `stream` had used at `last` is used by it again; `lru_hits` tells whether LRU
    /// would have kept it, among `capacity` sampled pages.
    #[inline]
    pub fn use_again(&mut self, stream: u16, last: u32, now: u32, lru_hits: bool, capacity: u32) {
        self.own_uses = self.own_uses.saturating_add(1);
        let stream = &mut self.streams[usize::from(stream)];
        if !lru_hits || !stream.turns.is_idle() {
            let enough = ((capacity as f32 * self.run_share) as u32).max(RUN_MIN);
            stream.take_turn(&mut self.classes, last, now, lru_hits, enough);
        }
    }

    /// An access of `stream` misses. Once its time without say is over it has a say again, whoever leads.
    pub fn missed(&mut self, stream: u16, now: u32) {
        let stream = &mut self.streams[usize::from(stream)];
        stream.misses += 1;
        if let Some(since) = stream.revoked_at
            && now.wrapping_sub(since) >= self.revoked_time
        {
            stream.revoked_at = None;
            stream.set_values(&mut self.classes);
        }
    }

    /// A page of `stream` is given up against the ledger's advice.
    pub fn overruled(&mut self, stream: u16, now: u32) {
        let stream = &mut self.streams[usize::from(stream)];
        if stream.is_revoked() {
            return;
        }
        stream.overrules += 1;
        if stream.overrules < OVERRULES {
            return;
        }
        if u32::from(stream.wrong) < self.wrong_min {
            // Half of the evidence is kept, so that a verdict never rests on the last few alone.
            (stream.overrules, stream.wrong) = (OVERRULES / 2, stream.wrong / 2);
        } else {
            (stream.overrules, stream.wrong) = (0, 0);
            stream.revoked_at = Some(now);
            stream.set_values(&mut self.classes);
        }
    }

    /// A page of the sample that `stream` had used last is used again. It was kept by value, LRU would not
    /// have kept it, and it stands for `pages`.
    pub fn gained(&mut self, stream: u16, pages: u32) {
        let stream = &mut self.streams[usize::from(stream)];
        stream.gains = (stream.gains + pages).min(self.gains_max);
    }

    /// Giving up a page of `stream` against the ledger's advice was a mistake. If the stream `answers` for
    /// it, it counts as wrong unless a gain makes up for it.
    pub fn mistaken(&mut self, stream: u16, answers: bool) {
        let stream = &mut self.streams[usize::from(stream)];
        stream.mistakes += 1;
        if answers {
            match stream.gains.checked_sub(1) {
                Some(left) => stream.gains = left,
                None => stream.wrong = (stream.wrong + 1).min(stream.overrules),
            }
        }
    }

    /// A sampled page is used again by another stream than the one that used it last.
    pub fn use_by_another(&mut self) {
        self.other_uses = self.other_uses.saturating_add(1);
    }

    /// Names a stream by what its classes have learned: for reports, and to keep pages of scans out of a
    /// tier. No victim depends on it.
    #[cold]
    pub fn label(&mut self, stream: u16) {
        let stream = &mut self.streams[usize::from(stream)];
        let evidence = self.classes.evidence(stream.classes());
        if evidence.pages < LABEL_PAGES {
            return;
        }
        let [young, old] = self.classes.young_and_old(stream.classes());
        let label = if evidence.reused < ONE_SHOT_SHARE * evidence.pages {
            detect::Class::OneShot
        } else if old > LABEL_RATIO * young {
            detect::Class::Looping
        } else if young > LABEL_RATIO * old {
            detect::Class::Temporal
        } else {
            detect::Class::Probabilistic
        };
        if label != stream.label {
            (stream.label, stream.labelled) = (label, stream.hits + stream.misses);
        }
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
        self.streams.iter().flat_map(|stream| {
            let round = Some(stream.round).filter(|class| *class != NONE);
            stream.classes().chain(round)
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Stream> {
        self.streams.iter()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.classes.metadata_bytes()
            + self.streams.capacity() * size_of::<Stream>()
            + self.lately.capacity() * size_of::<u16>()
            + self.index.memory_bytes()
    }

    /// Panics if index and table disagree.
    pub fn check_invariants(&self) {
        self.index.check_invariants(|slot| self.streams[slot as usize].key);
        assert_eq!(self.index.len(), self.streams.len(), "streams found");
        assert!(self.streams.len() <= STREAMS_MAX, "streams remembered");
        assert!(self.streams.iter().all(|stream| stream.wrong <= stream.overrules), "wrong overrules");
        assert!(self.streams.iter().all(|stream| stream.gains <= self.gains_max), "gains");
    }
}

impl std::ops::Index<u16> for Streams {
    type Output = Stream;

    #[inline]
    fn index(&self, stream: u16) -> &Stream {
        &self.streams[usize::from(stream)]
    }
}

impl std::ops::IndexMut<u16> for Streams {
    #[inline]
    fn index_mut(&mut self, stream: u16) -> &mut Stream {
        &mut self.streams[usize::from(stream)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let class = streams.class_to_learn(first, NEW);
        assert_eq!(streams[first].classes().next(), Some(class));
        streams.classes.begin(class);
        assert_eq!(streams.class_to_learn(second, NEW), ClassId::from(NEW), "there is none for it");
        assert_eq!(streams[first].classes().next(), Some(class));
        streams.classes.end(class, 0, 10, true);
        assert_eq!(streams.class_to_learn(second, NEW), class);
        assert_eq!(streams[first].classes().next(), None);
    }
}
