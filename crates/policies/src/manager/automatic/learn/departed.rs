//! Pages that left lately: when each was used last, by which stream, and of which kind it was.
//!
//! A page that returns is thereby told from one that is new, a wrong overrule is charged to the stream that
//! caused it, and ARC's ghosts need no lists. A table of lines of eight entries, 64 bytes each; the entry
//! used longest ago makes room. A page is recognised by 16 bits besides its line: one that never left is
//! taken for another once in 8,000.

use crate::ids::PageId;
use crate::random::mix64;

/// Entries a line.
const WAYS: usize = 8;

/// What is remembered of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Departed {
    /// When it was used last.
    pub last: u32,
    /// Who used it last.
    pub stream: u16,
    /// Its kind.
    pub kind: u8,
    /// Whether it had been used more than once.
    pub twice: bool,
}

/// One page: in order from the top, 32 bits of time, 12 of stream, 3 of kind, 1 whether used twice, 16 of
/// hash. An empty place is 0, which no page has: its hash has the lowest bit set.
#[derive(Clone, Copy)]
struct Entry(u64);

impl Entry {
    fn new(mark: u16, page: Departed) -> Self {
        let low = u64::from(page.stream) << 20 | u64::from(page.kind) << 17 | u64::from(page.twice) << 16;
        Self(u64::from(page.last) << 32 | low | u64::from(mark))
    }

    #[inline]
    fn mark(self) -> u16 {
        self.0 as u16
    }

    #[inline]
    fn last(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn page(self) -> Departed {
        Departed {
            last: self.last(),
            stream: (self.0 >> 20) as u16 & 0xfff,
            kind: (self.0 >> 17) as u8 & 7,
            twice: self.0 >> 16 & 1 == 1,
        }
    }
}

/// Pages remembered for each that the tenant holds.
const PAGES_PER_FRAME: u32 = 2;
/// Pages of the least table.
const PAGES_MIN: u32 = 64;

/// The table. 16 bytes a frame held, once a page has left.
pub(crate) struct DepartedPages {
    lines: Vec<[Entry; WAYS]>,
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
            self.lines = vec![[Entry(0); WAYS]; lines];
        }
    }

    /// The line of `page`, and its mark there, which no empty place has.
    #[inline]
    fn place(&self, page: PageId) -> (usize, u16) {
        let hash = mix64(page.0);
        let line = ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize;
        (line, hash as u16 | 1)
    }

    /// `page` leaves at `now` a tenant that held `frames` until then.
    pub fn insert(&mut self, page: PageId, departed: Departed, now: u32, frames: u32) {
        let known = self.lines.len() * WAYS;
        if known < frames.saturating_mul(PAGES_PER_FRAME).min(self.pages_max) as usize {
            self.grow(frames);
        }
        let (line, mark) = self.place(page);
        let line = &mut self.lines[line];
        let way = line.iter().position(|entry| entry.mark() == mark).unwrap_or_else(|| {
            let ages = line.each_ref().map(|entry| match entry.0 {
                0 => u32::MAX,
                _ => now.wrapping_sub(entry.last()),
            });
            (0..WAYS).max_by_key(|way| ages[*way]).expect("a line has entries")
        });
        line[way] = Entry::new(mark, departed);
    }

    /// `page` returns: what is remembered of it.
    pub fn take(&mut self, page: PageId) -> Option<Departed> {
        let (line, mark) = self.place(page);
        let entry = self.lines.get_mut(line)?.iter_mut().find(|entry| entry.mark() == mark)?;
        let departed = entry.page();
        *entry = Entry(0);
        Some(departed)
    }

    /// What is remembered of `page`.
    pub fn find(&self, page: PageId) -> Option<Departed> {
        let (line, mark) = self.place(page);
        let entry = self.lines.get(line)?.iter().find(|entry| entry.mark() == mark)?;
        Some(entry.page())
    }

    pub fn metadata_bytes(&self) -> usize {
        self.lines.capacity() * size_of::<[Entry; WAYS]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn departed(last: u32) -> Departed {
        Departed { last, stream: (last % 4096) as u16, kind: (last % 5) as u8, twice: last % 2 == 1 }
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
    fn the_one_used_longest_ago_makes_room() {
        let mut pages = DepartedPages::new(4);
        for page in 0..12 {
            pages.insert(PageId(page), departed(page as u32), 12, 4);
        }
        let known: Vec<u64> = (0..12).filter(|page| pages.find(PageId(*page)).is_some()).collect();
        assert_eq!(known, (4..12).collect::<Vec<_>>());
    }
}
