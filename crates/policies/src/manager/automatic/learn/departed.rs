//! Pages that left lately: when each was used last, by which stream, and of which kind it was.
//!
//! A page that returns is thereby told from one that is new, a wrong overrule is charged to the stream that
//! caused it, and ARC's ghosts need no lists. A table of lines of eight entries, 64 bytes each; the entry
//! used longest ago makes room. A page is recognised by 15 bits of its hash besides its line: where a line is
//! full, a page that never left is taken for one of its eight once in 4,096.

use super::kind::Kind;
use super::stream::StreamId;
use crate::ids::PageId;
use crate::random::mix64;

/// Entries a line.
const WAYS: usize = 8;
/// Marks a word.
const LANES: usize = 4;
/// A word with 1 in each.
const EACH_LANE: u64 = 0x0001_0001_0001_0001;

/// The bits of a page's kind that stand beside its stream.
const LOW_KIND_BITS: u8 = 7;
const _: () = assert!(Kind::BITS == LOW_KIND_BITS.count_ones() + 1, "one bit stands beside the time");

/// The last use of a page: 8 bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct LastUse {
    /// When it was.
    pub time: u32,
    /// Whose it was.
    pub stream: StreamId,
    /// The kind of the page since then.
    pub kind: Kind,
    /// Whether the page had been used before since it came, or came back while ARC remembered it.
    pub twice: bool,
}

/// Pages by places, in one line of the processor's cache.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Line {
    /// What tells a place's page from others of the line, 16 bits a place. 0 for an empty one: marks are odd.
    marks: [u64; WAYS / LANES],
    /// When the page was used last, up to an even time. The lowest bit is the highest of the page's kind.
    last: [u32; WAYS],
    /// In order from the top, 12 bits of stream, the other 3 of kind, 1 whether the page was used twice.
    rest: [u16; WAYS],
}

const _: () = assert!(size_of::<Line>() == 64, "a line of the processor's cache");

impl Line {
    const EMPTY: Self = Self { marks: [0; WAYS / LANES], last: [0; WAYS], rest: [0; WAYS] };

    /// The place with `mark`.
    #[inline]
    fn find(&self, mark: u16) -> Option<usize> {
        // Compares four marks at once. The borrow of a lane that is 0 may flag lanes above it by mistake, but
        // the lowest lane flagged is right.
        let found = self.marks.map(|marks| {
            let differing = marks ^ (u64::from(mark) * EACH_LANE);
            differing.wrapping_sub(EACH_LANE) & !differing & (EACH_LANE << (u16::BITS - 1))
        });
        let lane = |word: u64| (word.trailing_zeros() / u16::BITS) as usize;
        match found {
            [0, 0] => None,
            [0, high] => Some(LANES + lane(high)),
            [low, _] => Some(lane(low)),
        }
    }

    /// The place whose page was used longest before `now`.
    #[inline]
    fn oldest(&self, now: u32) -> usize {
        let age = |way: usize| u64::from(now.wrapping_sub(self.last[way] & !1)) << u8::BITS | way as u64;
        (1..WAYS).fold(age(0), |oldest, way| oldest.max(age(way))) as usize % WAYS
    }

    #[inline]
    fn set_mark(&mut self, way: usize, mark: u16) {
        let (word, shift) = (&mut self.marks[way / LANES], way % LANES * u16::BITS as usize);
        *word = *word & !(u64::from(u16::MAX) << shift) | u64::from(mark) << shift;
    }

    #[inline]
    fn page(&self, way: usize) -> LastUse {
        let (last, rest) = (self.last[way], self.rest[way]);
        let (high, low) = ((last & 1) as u8, (rest >> 1) as u8 & LOW_KIND_BITS);
        LastUse {
            time: last & !1,
            stream: StreamId(rest >> 4),
            kind: Kind::from_number(high << LOW_KIND_BITS.count_ones() | low),
            twice: rest & 1 == 1,
        }
    }

    #[inline]
    fn put(&mut self, way: usize, mark: u16, page: LastUse) {
        self.set_mark(way, mark);
        let kind = page.kind.number();
        self.last[way] = page.time & !1 | u32::from(kind >> LOW_KIND_BITS.count_ones());
        let low = u16::from(kind & LOW_KIND_BITS);
        self.rest[way] = page.stream.0 << 4 | low << 1 | u16::from(page.twice);
    }
}

/// Pages remembered for each that the tenant holds.
const PAGES_PER_FRAME: u32 = 2;
/// Pages of the least table.
const PAGES_MIN: u32 = 64;

/// The table. 16 bytes a frame held, once a page has left.
pub(crate) struct DepartedPages {
    lines: Vec<Line>,
    pages_max: u32,
}

impl DepartedPages {
    /// For a tenant of up to `frames` frames.
    pub fn new(frames: u32) -> Self {
        Self { lines: Vec::new(), pages_max: frames.saturating_mul(PAGES_PER_FRAME) }
    }

    /// Remembers about as many pages as it has to for a tenant that holds `frames`. What it remembered of
    /// fewer is forgotten.
    #[cold]
    fn grow(&mut self, frames: u32) {
        let pages = frames.saturating_mul(2 * PAGES_PER_FRAME).max(PAGES_MIN).min(self.pages_max);
        let lines = (pages as usize).div_ceil(WAYS).max(1);
        if lines > self.lines.len() {
            self.lines = vec![Line::EMPTY; lines];
        }
    }

    /// The line of `page`, and its mark there.
    #[inline]
    fn place(&self, page: PageId) -> (usize, u16) {
        let hash = mix64(page.0);
        let line = ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize;
        (line, hash as u16 | 1)
    }

    /// `page` leaves at `now` a tenant that held `frames` until then.
    pub fn insert(&mut self, page: PageId, departed: LastUse, now: u32, frames: u32) {
        let known = self.lines.len() * WAYS;
        if known < frames.saturating_mul(PAGES_PER_FRAME).min(self.pages_max) as usize {
            self.grow(frames);
        }
        let (line, mark) = self.place(page);
        let line = &mut self.lines[line];
        let way = line.find(mark).or_else(|| line.find(0)).unwrap_or_else(|| line.oldest(now));
        line.put(way, mark, departed);
    }

    /// `page` returns: what is remembered of it.
    #[inline]
    pub fn take(&mut self, page: PageId) -> Option<LastUse> {
        let (line, mark) = self.place(page);
        let line = self.lines.get_mut(line)?;
        let way = line.find(mark)?;
        line.set_mark(way, 0);
        Some(line.page(way))
    }

    /// What is remembered of `page`.
    #[inline]
    pub fn find(&self, page: PageId) -> Option<LastUse> {
        let (line, mark) = self.place(page);
        let line = self.lines.get(line)?;
        line.find(mark).map(|way| line.page(way))
    }

    /// Reads of the line of `page`, so that it is in the processor's cache by the time of
    /// [`insert`](Self::insert) or [`take`](Self::take).
    #[inline]
    pub fn touch(&self, page: PageId) -> u32 {
        let (line, _) = self.place(page);
        self.lines.get(line).map_or(0, |line| line.last[0])
    }

    /// The address of the line of `page`, to be fetched; any if nothing is remembered.
    #[inline]
    pub fn place_of(&self, page: PageId) -> *const u8 {
        self.lines.as_ptr().wrapping_add(self.place(page).0).cast()
    }

    pub fn metadata_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<Line>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departed(last: u32) -> LastUse {
        LastUse {
            time: last & !1,
            stream: StreamId((last % 4096) as u16),
            kind: Kind::from_number((last % Kind::COUNT as u32) as u8),
            twice: last % 2 == 1,
        }
    }

    /// Against a list of marks, among them such that differ in one bit.
    #[test]
    fn a_place_is_found_by_its_mark_and_the_oldest_by_its_age() {
        let mut random = crate::random::SplitMix64::new(9);
        let marks = [0, 1, 3, 0x101, 0x7fff, 0x8001, 0xffff, 0xfffd];
        let (mut line, mut naive) = (Line::EMPTY, [(0, 0); WAYS]);
        for now in (2..40_000).step_by(2) {
            let (way, mark) = (random.below(8) as usize, marks[random.below(8) as usize]);
            line.put(way, mark, departed(now));
            naive[way] = (mark, now);
            assert_eq!(line.page(way), departed(now));
            for mark in marks {
                assert_eq!(line.find(mark), naive.iter().position(|(other, _)| *other == mark), "{naive:?}");
            }
            let oldest = (0..WAYS).min_by_key(|way| naive[*way].1).unwrap();
            assert_eq!(naive[line.oldest(now)].1, naive[oldest].1);
        }
    }

    #[test]
    fn what_left_lately_is_remembered_as_it_was() {
        let mut pages = DepartedPages::new(512);
        for page in 0..512 {
            pages.insert(PageId(page), departed(page as u32 * 7), 4000, 512);
        }
        let known = (0..512).filter(|page| pages.find(PageId(*page)) == Some(departed(*page as u32 * 7)));
        assert!(known.count() >= 500, "few lines overflow while half of the places are free");
        assert_eq!(pages.take(PageId(5)), Some(departed(35)));
        assert_eq!(pages.take(PageId(5)), None);
    }

    #[test]
    fn a_page_that_leaves_again_is_remembered_once() {
        let mut pages = DepartedPages::new(4);
        pages.insert(PageId(1), departed(3), 4, 4);
        pages.insert(PageId(1), departed(7), 8, 4);
        assert_eq!(pages.take(PageId(1)), Some(departed(7)));
        assert_eq!(pages.take(PageId(1)), None);
    }

    #[test]
    fn the_one_used_longest_ago_makes_room() {
        let mut pages = DepartedPages::new(4);
        for page in 0..12 {
            pages.insert(PageId(page), departed(page as u32), 12, 4);
        }
        let known: Vec<u64> = (0..12).filter(|page| pages.find(PageId(*page)).is_some()).collect();
        assert_eq!(known, (4..12).collect::<Vec<_>>());
    }
}
