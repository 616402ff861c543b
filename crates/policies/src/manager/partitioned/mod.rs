//! AMP's cache manager: a partition for each loop, and one for everything else; any detector can name the
//! loops.
//!
//! Idea: a loop larger than its share of the cache is best served by giving up the page it used last,
//! anything else by ARC. So the pages that a looping stream loads are in a partition of their own, under
//! MRU. All other pages are in the default partition, under ARC, except for those of one-shot streams: these
//! wait in a list that gives up its pages before all others, the one used last first. Of pages that do not
//! come again any may go; of a loop too long to be recognised, the page used last is the right one. Sizes
//! adapt by ghosts, and both eviction and adaptation draw partitions at random instead of searching the best
//! ([`partitions`]).
//!
//! Paper: Zhou, von Behren, Brewer, "AMP: Program Context Specific Buffer Caching", USENIX ATC '05. It runs
//! the other detectors under the same manager, as is done here. What the paper does not say, or was not
//! looked up, is ours: the initial size of a partition (the frames its stream holds), one-shot pages, the
//! ghosts of loops, and what happens to a stream whose class is wrong. An overrule counts for the stream
//! whose page went, and a placeholder that is used counts as that stream's mistake. A stream that is wrong
//! more often than not has no class for 16 pool sizes of accesses, while other streams keep theirs.
//!
//! A block belongs to the stream that loaded it. It stays in its partition when other streams hit it, except
//! that a looping stream takes its own blocks out of the default partition, and a one-shot block that is used
//! again goes there. A stream that stops looping hands its blocks back in order of use; the partition of a
//! loop that has not been seen for four pool sizes of accesses gives its blocks up first.
//!
//! Cost: O(1) an access besides the detector's, at most 16 steps to draw; a change of class costs a step a
//! frame of the pool, at most every 64 accesses of a stream. Memory: 32 bytes a frame, ARC's 31 to 35, up to
//! 26 for each of at most two ghosts a frame, 25 for overrules not yet settled, and the detectors'.
//! Deterministic under a seed.

mod gains;
mod partitions;
mod streams;

use super::{Block, Manager, StreamReport};
use crate::classic::{self, Departure, OneLevel, PolicyKind};
use crate::detect::{Class, DetectorKind};
use crate::history::History;
use crate::ids::{Access, FrameId, PageId, TenantId};
use crate::list::{Links, List, NIL};
use crate::random::SplitMix64;
use gains::GhostGain;
use partitions::{DEFAULT, PARTITIONS_MAX, Partitions};
use streams::{StreamId, Streams};

/// The place of blocks of one-shot streams; not a partition.
const PASSING: usize = PARTITIONS_MAX;
/// The place of a frame without a block of the tenant.
const NOWHERE: usize = PARTITIONS_MAX + 1;
/// Belongs to no stream.
const NO_STREAM: StreamId = StreamId { slot: NIL, serial: 0 };

/// What is known of a frame.
#[derive(Clone, Copy)]
struct Frame {
    page: PageId,
    /// The stream that loaded the page.
    loader: StreamId,
    /// Time of the last use, modulo 2^32.
    last: u32,
    /// Its partition, [`PASSING`] or [`NOWHERE`].
    place: u8,
}

/// The manager. The module's documentation tells how it decides.
pub struct Partitioned {
    pool_frames: u32,
    /// Accesses so far.
    now: u64,
    /// By frame number.
    frames: Vec<Frame>,
    /// ARC, or LRU where marginal gains decide.
    default: Box<dyn OneLevel>,
    /// The number of frames that `default` reckons with.
    default_capacity: u32,
    links: Links,
    /// Per loop's partition, and for passing blocks: least recently used at the head. The default partition's
    /// is not used.
    lists: [List; PARTITIONS_MAX + 1],
    partitions: Partitions,
    streams: Streams,
    /// Pages that went instead of candidates, and the serials and slots of the streams that loaded them.
    overruled: History,
    /// The answer to the last question, and its candidate, until a page comes in.
    asked: Option<(FrameId, FrameId)>,
    /// Whether streams that keep being wrong lose their class.
    falls_back: bool,
    /// Decides which partition gives up a frame; none where partitions are drawn at random.
    gain: Option<GhostGain>,
    random: SplitMix64,
}

impl Partitioned {
    /// A manager for a tenant of a pool of `pool_frames`, at least 1.
    pub fn new(kind: DetectorKind, pool_frames: u32, seed: u64) -> Self {
        let pool_frames = pool_frames.max(1);
        Self {
            pool_frames,
            now: 0,
            frames: Vec::new(),
            default: classic::build(PolicyKind::Arc, 0),
            default_capacity: 0,
            links: Links::default(),
            lists: [const { List::new() }; PARTITIONS_MAX + 1],
            partitions: Partitions::new(pool_frames),
            streams: Streams::new(kind, pool_frames),
            overruled: History::default(),
            asked: None,
            falls_back: true,
            gain: None,
            random: SplitMix64::new(seed),
        }
    }

    /// The same manager, but it follows the detector however often that is wrong, as published.
    pub fn without_fallback(self) -> Self {
        Self { falls_back: false, ..self }
    }

    /// The same manager with the allocation of UBM and PCC in place of AMP's: the partition with the least
    /// marginal gain gives up a frame, and pages that are in no loop are under LRU. For a detector that
    /// knows [periods](crate::detect::Detector::period); a loop without one goes first.
    pub fn with_marginal_gains(self) -> Self {
        let gain = GhostGain::new(self.pool_frames, self.partitions.ghosts_max());
        Self { gain: Some(gain), default: classic::build(PolicyKind::Lru, 0), ..self }
    }

    /// Tells the stream of an access, which may change its class by that. Returns the stream's slot; `None`
    /// if the access belongs to no stream.
    fn hear(&mut self, access: &Access, is_hit: bool) -> Option<u32> {
        self.now += 1;
        let mut orphaned = None;
        let slot = self.streams.find(access, |stream| orphaned = stream.partition);
        if let Some(partition) = orphaned {
            self.dissolve(partition, PASSING);
        }
        if self.now.is_multiple_of(u64::from(self.pool_frames)) {
            self.end_dead_loops();
        }
        let slot = slot?;
        if let Some(class) = self.streams.at(slot).access(access, self.now, is_hit) {
            self.change_class(slot, class);
        }
        Some(slot)
    }

    #[cold]
    fn change_class(&mut self, slot: u32, class: Class) {
        if let Some(partition) = self.streams.at(slot).partition.take() {
            self.dissolve(partition, DEFAULT);
        }
        if class == Class::Looping && !self.open_partition(slot) {
            return;
        }
        self.streams.at(slot).change(class);
    }

    /// Gives the stream a partition with the blocks that it loaded. False if there are too many partitions.
    fn open_partition(&mut self, slot: u32) -> bool {
        let id = self.streams.at(slot).id;
        let is_own = |frame: &Frame| frame.loader == id && usize::from(frame.place) != NOWHERE;
        let mut own: Vec<u32> =
            (0..self.frames.len() as u32).filter(|at| is_own(&self.frames[*at as usize])).collect();
        let Some(partition) = self.partitions.add(slot, own.len() as u32, self.now) else { return false };
        self.streams.at(slot).partition = Some(partition);
        let now = self.now as u32;
        own.sort_by_key(|frame| std::cmp::Reverse(now.wrapping_sub(self.frames[*frame as usize].last)));
        own.into_iter().for_each(|frame| self.move_to(frame, partition));
        true
    }

    /// Ends a loop's partition and hands its blocks over, the least recently used first.
    fn dissolve(&mut self, partition: usize, to: usize) {
        while self.lists[partition].head() != NIL {
            self.move_to(self.lists[partition].head(), to);
        }
        self.partitions.remove(partition);
    }

    /// Ends the partitions of loops that have not been seen for long.
    fn end_dead_loops(&mut self) {
        let oldest = self.now.saturating_sub(4 * u64::from(self.pool_frames));
        for partition in 1..PARTITIONS_MAX {
            let owner = self.partitions.owner(partition);
            if owner != NIL && self.streams.at(owner).last_access < oldest {
                self.streams.at(owner).partition = None;
                self.streams.at(owner).change(Class::Other);
                self.dissolve(partition, PASSING);
            }
        }
    }

    fn move_to(&mut self, frame: u32, place: usize) {
        self.take_out(frame, Departure::Moved);
        self.put_in(frame, place);
    }

    fn put_in(&mut self, frame: u32, place: usize) {
        self.frames[frame as usize].place = place as u8;
        if place == DEFAULT {
            self.default_grows();
            self.default.insert(FrameId(frame), self.frames[frame as usize].page);
        } else {
            self.lists[place].push_tail(&mut self.links, frame);
        }
        if place < PARTITIONS_MAX {
            self.partitions.sizes[place] += 1;
        }
    }

    /// Raises the capacity of the default policy for one block more, if need be. It is lowered only at a
    /// question, so it stays the same while the partition takes in one block for each that it gives up.
    fn default_grows(&mut self) {
        let blocks = self.partitions.sizes[DEFAULT] + 1;
        if blocks > self.default_capacity {
            self.default_capacity = blocks;
            self.default.resize(blocks);
        }
    }

    fn take_out(&mut self, frame: u32, why: Departure) {
        let Frame { page, place, .. } = self.frames[frame as usize];
        let place = usize::from(place);
        self.frames[frame as usize].place = NOWHERE as u8;
        if place == DEFAULT {
            self.default.remove(FrameId(frame), page, why);
        } else {
            self.lists[place].remove(&mut self.links, frame);
        }
        if place < PARTITIONS_MAX {
            self.partitions.sizes[place] -= 1;
        }
    }

    /// Where a block that the stream loads belongs.
    fn place_for(&mut self, slot: Option<u32>) -> usize {
        let Some(slot) = slot else { return DEFAULT };
        let stream = self.streams.at(slot);
        match stream.class {
            Class::OneShot => PASSING,
            _ => stream.partition.unwrap_or(DEFAULT),
        }
    }

    /// The partition that is asked for a frame first. At least one partition must have a block.
    fn giving_partition(&mut self) -> usize {
        let Some(gain) = &self.gain else { return self.partitions.draw(&mut self.random) };
        let of_default = gain.at(self.now);
        let full = (0..PARTITIONS_MAX).filter(|partition| self.partitions.sizes[*partition] > 0);
        let gains = full.map(|partition| match partition {
            DEFAULT => (of_default, DEFAULT),
            _ => (self.streams.at(self.partitions.owner(partition)).gain(), partition),
        });
        let least = gains.min_by(|one, other| one.0.total_cmp(&other.0));
        least.expect("a partition has a block").1
    }

    /// The block that a partition gives up, unless all are busy.
    fn victim(
        &mut self,
        partition: usize,
        missing: PageId,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> Option<FrameId> {
        if partition == DEFAULT {
            let blocks = self.partitions.sizes[DEFAULT];
            if blocks != self.default_capacity {
                self.default_capacity = blocks;
                self.default.resize(blocks);
            }
            return self.default.victim(missing, busy);
        }
        let list = &self.lists[partition];
        list.iter_from_tail(&self.links).map(FrameId).find(|frame| !busy(*frame))
    }

    /// The block in `frame` went to make room. Its partition remembers it, and if it went instead of the
    /// candidate, the overrule counts for its stream.
    fn gave_up(&mut self, frame: FrameId, candidate: FrameId) {
        let Frame { page, loader, place, .. } = self.frames[frame.index()];
        if usize::from(place) < PARTITIONS_MAX {
            self.partitions.evicted(usize::from(place), page, self.now);
        }
        if frame == candidate {
            return;
        }
        if let Some(stream) = self.streams.get(loader) {
            stream.overruled();
            self.overruled.push(page, u64::from(loader.serial) << 32 | u64::from(loader.slot));
            // A placeholder points to a frame, so there are never more overrules that can turn out wrong.
            self.overruled.trim(self.pool_frames);
        }
    }
}

impl Manager for Partitioned {
    fn new_block(&mut self, block: &Block) {
        self.asked = None;
        let Block { frame, page, file, context, created } = *block;
        let access = Access { page, file, context, tenant: TenantId(0), creates: created };
        self.overruled.take(page);
        let remembered = self.partitions.loaded(page, self.now, &mut self.random);
        if let Some(gain) = self.gain.as_mut().filter(|_| remembered == Some(DEFAULT)) {
            gain.hit(self.now);
        }
        if frame.index() >= self.frames.len() {
            let vacant = Frame { page, loader: NO_STREAM, last: 0, place: NOWHERE as u8 };
            self.frames.resize(frame.index() + 1, vacant);
            self.links.grow_to(frame.0);
        }
        let slot = self.hear(&access, false);
        let place = self.place_for(slot);
        let loader = slot.map_or(NO_STREAM, |slot| {
            let stream = self.streams.at(slot);
            stream.frames += 1;
            stream.id
        });
        self.frames[frame.index()] = Frame { page, loader, last: self.now as u32, place: NOWHERE as u8 };
        self.put_in(frame.0, place);
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        let evicted = self.asked.take().filter(|(choice, candidate)| frame == *choice || frame == *candidate);
        if let Some((_, candidate)) = evicted {
            self.gave_up(frame, candidate);
        }
        self.take_out(frame.0, if evicted.is_some() { Departure::Evicted } else { Departure::Moved });
        if let Some(stream) = self.streams.get(self.frames[frame.index()].loader) {
            stream.frames -= 1;
        }
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        let slot = self.hear(access, true);
        let now = self.now as u32;
        let entry = &mut self.frames[frame.index()];
        entry.last = now;
        let Frame { page, loader, place, .. } = *entry;
        match usize::from(place) {
            DEFAULT => {
                let own = slot.map(|slot| self.streams.at(slot)).filter(|stream| stream.id == loader);
                match own.and_then(|stream| stream.partition) {
                    Some(partition) => self.move_to(frame.0, partition),
                    None => self.default.hit(frame, page),
                }
            }
            PASSING => self.move_to(frame.0, DEFAULT),
            partition => self.lists[partition].move_to_tail(&mut self.links, frame.0),
        }
    }

    /// Looks at 16 partitions at most, and at busy blocks in the way.
    fn replace_block(
        &mut self,
        candidate: FrameId,
        missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let missing = missing.map_or(PageId(u64::MAX), |access| access.page);
        let passing =
            self.lists[PASSING].iter_from_tail(&self.links).map(FrameId).find(|frame| !busy(*frame));
        let mut choice = passing;
        if choice.is_none() && self.partitions.frames() > 0 {
            let drawn = self.giving_partition();
            choice = self.victim(drawn, missing, busy);
            // The candidate is not busy, so some partition has a block to give.
            for partition in (0..PARTITIONS_MAX).filter(|partition| *partition != drawn) {
                if choice.is_none() && self.partitions.sizes[partition] > 0 {
                    choice = self.victim(partition, missing, busy);
                }
            }
        }
        let choice = choice.unwrap_or(candidate);
        self.asked = Some((choice, candidate));
        choice
    }

    fn placeholder_used(&mut self, missing: &Access, _placeholder: FrameId) {
        let Some(stamp) = self.overruled.take(missing.page) else { return };
        let id = StreamId { slot: stamp as u32, serial: (stamp >> 32) as u32 };
        let (now, pool_frames) = (self.now, self.pool_frames);
        let falls_back = self.falls_back;
        let is_revoked =
            self.streams.get(id).is_some_and(|stream| stream.mistaken(now, pool_frames, falls_back));
        if is_revoked {
            self.change_class(id.slot, Class::Other);
        }
    }

    fn reads_once(&self, frame: FrameId) -> bool {
        self.frames.get(frame.index()).is_some_and(|frame| usize::from(frame.place) == PASSING)
    }

    fn streams(&self, first: usize, show: &mut dyn FnMut(&StreamReport) -> bool) {
        for stream in self.streams.iter().skip(first) {
            let evidence = stream.detector().evidence();
            let goes_on = show(&StreamReport {
                context: stream.access.context,
                file: stream.access.file,
                class: stream.class,
                samples: evidence.samples,
                recency: evidence.recency.map(|recency| recency as f32),
                mean_interval: None,
                frames: stream.frames,
                hits: stream.hits,
                misses: stream.accesses - stream.hits,
                mistakes: stream.mistakes,
                revoked: stream.is_revoked(self.now),
                unchanged: stream.accesses - stream.changed,
            });
            if !goes_on {
                return;
            }
        }
    }

    fn metadata_bytes(&self) -> usize {
        self.frames.capacity() * size_of::<Frame>()
            + self.default.metadata_bytes()
            + self.links.memory_bytes()
            + self.partitions.metadata_bytes()
            + self.streams.metadata_bytes()
            + self.overruled.memory_bytes()
    }

    fn check_invariants(&self) {
        self.default.check_invariants();
        self.partitions.check_invariants();
        self.streams.check_invariants();
        self.overruled.check_invariants();
        assert!(self.overruled.len() <= self.pool_frames);
        for (place, list) in self.lists.iter().enumerate() {
            list.check_invariants(&self.links);
            assert!(
                list.iter(&self.links).all(|frame| usize::from(self.frames[frame as usize].place) == place)
            );
            if place != DEFAULT && place < PARTITIONS_MAX {
                assert_eq!(list.len(), self.partitions.sizes[place], "size of partition {place}");
            }
        }
        for stream in self.streams.iter() {
            let is_own = |frame: &&Frame| frame.loader == stream.id && usize::from(frame.place) != NOWHERE;
            assert_eq!(
                self.frames.iter().filter(is_own).count(),
                stream.frames as usize,
                "frames of a stream"
            );
        }
        let places =
            |place: usize| self.frames.iter().filter(|frame| usize::from(frame.place) == place).count();
        assert_eq!(places(DEFAULT), self.partitions.sizes[DEFAULT] as usize, "size of the default partition");
        assert_eq!(places(PASSING), self.lists[PASSING].len() as usize, "passing blocks");
        for frame in self.frames.iter().filter(|frame| usize::from(frame.place) != NOWHERE) {
            assert!(!self.partitions.has_ghost(frame.page), "{:?} is resident and a ghost", frame.page);
        }
        for partition in self.partitions.open().filter(|partition| *partition != DEFAULT) {
            let owner = self.streams.iter().nth(self.partitions.owner(partition) as usize);
            assert_eq!(owner.and_then(|stream| stream.partition), Some(partition), "owner of a partition");
        }
        let owners = self.streams.iter().filter(|stream| stream.partition.is_some()).count();
        assert_eq!(owners + 1, self.partitions.open().count(), "partitions in use");
    }
}
