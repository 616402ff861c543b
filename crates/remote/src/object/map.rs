//! Which chunk has which page.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::chunk::Chunk;

/// Which chunk has which page of a file. Pages that no chunk has are zeros.
///
/// It has an entry for each run of pages that are neighbours in the file and in a chunk.
#[derive(Clone, Debug, Default)]
pub(super) struct PageMap(BTreeMap<u64, Extent>);

/// Pages of a chunk that are neighbours in the file.
#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub pages: u64,
    pub chunk: Arc<Chunk>,
    /// Place of the first in the chunk.
    pub at: u32,
}

/// Part of a range of pages.
#[derive(Clone, Debug)]
pub(super) struct Segment {
    pub pages: Range<u64>,
    /// The chunk, and the place of the first page in it. None for zeros.
    pub place: Option<(Arc<Chunk>, u32)>,
}

impl PageMap {
    /// Pages from `first` on are those of `chunk` from `at` on.
    pub fn insert(&mut self, first: u64, pages: u64, chunk: &Arc<Chunk>, at: u32) {
        self.remove(first..first + pages);
        if let Some((&before, extent)) = self.0.range_mut(..first).next_back() {
            let follows =
                before + extent.pages == first && u64::from(extent.at) + extent.pages == u64::from(at);
            if follows && Arc::ptr_eq(&extent.chunk, chunk) {
                extent.pages += pages;
                return;
            }
        }
        self.0.insert(first, Extent { pages, chunk: Arc::clone(chunk), at });
    }

    /// Makes pages zeros.
    pub fn remove(&mut self, pages: Range<u64>) {
        if let Some((&before, extent)) = self.0.range_mut(..pages.start).next_back() {
            let end = before + extent.pages;
            if end > pages.start {
                extent.pages = pages.start - before;
                let (chunk, at) = (Arc::clone(&extent.chunk), extent.at + (pages.start - before) as u32);
                self.0.insert(pages.start, Extent { pages: end - pages.start, chunk, at });
            }
        }
        let inside: Vec<u64> = self.0.range(pages.clone()).map(|(&first, _)| first).collect();
        for first in inside {
            let Some(extent) = self.0.remove(&first) else { continue };
            let end = first + extent.pages;
            if end > pages.end {
                let at = extent.at + (pages.end - first) as u32;
                self.0.insert(pages.end, Extent { pages: end - pages.end, at, ..extent });
            }
        }
    }

    /// The parts of a range, in order.
    pub fn find(&self, pages: Range<u64>) -> Vec<Segment> {
        let mut segments = Vec::new();
        let mut next = pages.start;
        let before = self.0.range(..=pages.start).next_back().map(|(&first, _)| first);
        for (&first, extent) in self.0.range(before.unwrap_or(pages.start)..pages.end) {
            let part = first.max(pages.start)..(first + extent.pages).min(pages.end);
            if part.is_empty() {
                continue;
            }
            if next < part.start {
                segments.push(Segment { pages: next..part.start, place: None });
            }
            next = part.end;
            let at = extent.at + (part.start - first) as u32;
            segments.push(Segment { pages: part, place: Some((Arc::clone(&extent.chunk), at)) });
        }
        if next < pages.end {
            segments.push(Segment { pages: next..pages.end, place: None });
        }
        segments
    }

    /// All runs, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u64, &Extent)> {
        self.0.iter().map(|(&first, extent)| (first, extent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against a map of single pages, with random ranges.
    #[test]
    fn the_map_equals_one_of_single_pages() {
        let chunks: Vec<_> = (0..4).map(|_| Arc::new(Chunk::new())).collect();
        let mut random = 1_u64;
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let mut map = PageMap::default();
        let mut naive: Vec<Option<(usize, u32)>> = vec![None; 80];
        for _ in 0..20_000 {
            let first = next(64);
            let pages = 1 + next(16);
            let range = first as usize..(first + pages) as usize;
            if next(4) == 0 {
                map.remove(first..first + pages);
                naive[range].fill(None);
            } else {
                let (chunk, at) = (next(4) as usize, next(100) as u32);
                map.insert(first, pages, &chunks[chunk], at);
                for (place, at) in naive[range].iter_mut().zip(at..) {
                    *place = Some((chunk, at));
                }
            }
            let from = next(80);
            let to = from + next(81 - from);
            let mut found = Vec::new();
            for Segment { pages, place } in map.find(from..to) {
                assert_eq!(pages.start, from + found.len() as u64);
                for offset in 0..(pages.end - pages.start) as u32 {
                    found.push(place.as_ref().map(|(chunk, at)| {
                        (chunks.iter().position(|other| Arc::ptr_eq(other, chunk)).unwrap(), at + offset)
                    }));
                }
            }
            assert_eq!(found, naive[from as usize..to as usize]);
        }
    }
}
