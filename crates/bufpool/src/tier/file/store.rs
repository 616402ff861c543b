//! Which page is where in the file of a tier.

use std::collections::HashMap;
use std::sync::Arc;

use bufpool_policies::{FileId, PageId};

use crate::engine::PageName;
use crate::error::Result;
use crate::tier::buffer::{Envelope, TierPage};
use crate::tier::copies::{Client, Copies, Copy, Kept, Lookup, Offer};
use crate::tier::{Demoted, Life, TierRange, Version};

/// The most transfers in flight. A page that would need one more is refused, or said to be absent. The file
/// has this many more places than pages, so that no place is given to another page while a transfer uses it.
const IN_FLIGHT_MAX: u32 = 128;
/// The most files that a tier can tell apart by their tags.
const TAGS_MAX: usize = 1 << (64 - PageId::NUMBER_BITS);

/// The copies in a file, and the places in it.
pub(super) struct Store {
    copies: Copies<Placed>,
    /// All places, also those beyond `limit` while transfers may use them.
    places: Vec<Place>,
    /// Places from this one on are not given to pages.
    limit: u32,
    free: Vec<u32>,
    in_flight: u32,
    /// File numbers by tag, if copies outlive the pool and its own file numbers.
    numbers: Option<HashMap<u64, FileId>>,
}

/// Where the bytes of a copy are.
#[derive(Clone)]
pub(super) struct Placed {
    pub place: u32,
    /// The bytes, while they are being written.
    pub bytes: Option<Arc<TierPage>>,
}

/// Room for a page in the file. It is free if no copy and no transfer uses it.
#[derive(Clone, Copy, Default)]
struct Place {
    /// A copy is there.
    is_taken: bool,
    in_flight: u32,
}

impl Store {
    /// A store with room for `pages` pages. If `by_tag`, files are known by their tags, and pages of files
    /// without a tag are not kept.
    ///
    /// # Errors
    ///
    /// As [`Copies::new`].
    pub fn new(to: Client, pages: u32, by_tag: bool) -> Result<Self> {
        let copies = Copies::new(to, pages.into())?;
        let numbers = by_tag.then(HashMap::new);
        let mut store =
            Self { copies, places: Vec::new(), limit: 0, free: Vec::new(), in_flight: 0, numbers };
        store.set_limit(Self::places_of(pages));
        Ok(store)
    }

    /// How many places a file with room for `pages` pages has.
    pub fn places_of(pages: u32) -> u32 {
        pages.saturating_add(IN_FLIGHT_MAX)
    }

    /// Whether files are known by their tags.
    pub fn is_by_tag(&self) -> bool {
        self.numbers.is_some()
    }

    /// How many pages there are.
    pub fn len(&self) -> u32 {
        self.copies.len()
    }

    /// The page's number as the copies know it. None if the page is not to be kept.
    pub fn id(&mut self, page: PageName) -> Option<PageId> {
        let file = self.number_of(page.file, page.file_tag)?;
        Some(PageId::in_file(file, page.number))
    }

    fn number_of(&mut self, file: FileId, tag: u64) -> Option<FileId> {
        let Some(numbers) = &mut self.numbers else { return Some(file) };
        if tag == 0 || (numbers.len() >= TAGS_MAX && !numbers.contains_key(&tag)) {
            return None;
        }
        let next = FileId(numbers.len() as u32);
        Some(*numbers.entry(tag).or_insert(next))
    }

    /// Admits a page that is offered. Returns the outcome, and the place where it is to be written, if it
    /// has to be.
    pub fn admit(&mut self, page: PageId, bytes: &Arc<TierPage>, offer: Offer) -> (Demoted, Option<u32>) {
        if self.copies.renew(page, bytes.envelope()) {
            return (Demoted::Present, None);
        }
        let place = (self.in_flight < IN_FLIGHT_MAX).then(|| self.free.pop()).flatten();
        let Some(place) = place else { return (Demoted::Refused, None) };
        let placed = Placed { place, bytes: Some(Arc::clone(bytes)) };
        let demoted = self.keep(page, Copy { envelope: bytes.envelope(), bytes: placed }, offer);
        if matches!(demoted, Demoted::Refused | Demoted::PassedUp) {
            return (demoted, None);
        }
        self.begin_transfer(place);
        (demoted, Some(place))
    }

    /// Keeps a copy whose place is free. Other copies make room.
    fn keep(&mut self, page: PageId, copy: Copy<Placed>, offer: Offer) -> Demoted {
        self.places[copy.bytes.place as usize].is_taken = true;
        let Kept { demoted, left } = self.copies.keep(page, copy, offer);
        left.iter().for_each(|left| self.vacate(left));
        demoted
    }

    /// Hears how long pages stay in the pool's memory.
    pub fn hear_life(&mut self, life: Life) {
        self.copies.hear_life(life);
    }

    /// The copy of that version, and whether its page is to leave the pool's memory first. If the copy's
    /// bytes are not in memory, a transfer from its place is counted as begun. None also if there are too
    /// many transfers.
    pub fn find(&mut self, page: PageId, version: Version) -> Option<(Copy<Placed>, bool)> {
        let is_here = self.copies.get_mut(page).is_some_and(|copy| copy.bytes.bytes.is_some());
        if !is_here && self.in_flight >= IN_FLIGHT_MAX {
            return None;
        }
        match self.copies.find(page, version) {
            Lookup::Nothing => None,
            Lookup::Stale(left) => {
                self.vacate(&left);
                None
            }
            Lookup::Right { copy, stays, stays_below } => {
                if copy.bytes.bytes.is_none() {
                    self.begin_transfer(copy.bytes.place);
                }
                if !stays {
                    self.vacate(&copy.bytes);
                }
                Some((copy, stays_below))
            }
        }
    }

    /// Removes those of the pages that are there.
    pub fn forget(&mut self, pages: &TierRange) {
        let Some(file) = self.number_of(pages.file, pages.file_tag) else { return };
        let pages = TierRange { file, ..pages.clone() };
        self.copies.pages_of(&pages).into_iter().for_each(|page| self.forget_page(page));
    }

    fn forget_page(&mut self, page: PageId) {
        if let Some(left) = self.copies.forget(page) {
            self.vacate(&left);
        }
    }

    /// A page cannot be read from its place.
    pub fn lose(&mut self, page: PageId, place: u32) {
        if self.copies.get_mut(page).is_some_and(|copy| copy.bytes.place == place) {
            self.forget_page(page);
        }
    }

    /// The write of a page to a place has ended.
    pub fn written(&mut self, page: PageId, place: u32, is_written: bool) {
        self.end_transfer(place);
        let Some(copy) = self.copies.get_mut(page).filter(|copy| copy.bytes.place == place) else { return };
        copy.bytes.bytes = None;
        if !is_written {
            self.forget_page(page);
        }
    }

    fn begin_transfer(&mut self, place: u32) {
        self.in_flight += 1;
        self.places[place as usize].in_flight += 1;
    }

    /// A transfer from or to a place has ended.
    pub fn end_transfer(&mut self, place: u32) {
        self.in_flight -= 1;
        self.places[place as usize].in_flight -= 1;
        self.free_if_unused(place);
    }

    /// A copy has left; its place becomes free if no transfer uses it.
    fn vacate(&mut self, left: &Placed) {
        self.places[left.place as usize].is_taken = false;
        self.free_if_unused(left.place);
    }

    fn free_if_unused(&mut self, place: u32) {
        let Place { is_taken, in_flight } = self.places[place as usize];
        if !is_taken && in_flight == 0 && place < self.limit {
            self.free.push(place);
        }
    }

    /// Changes the room to `pages` pages. With less room, pages that lie beyond the new end of the file
    /// leave first, and then those that are next to go.
    ///
    /// # Errors
    /// If a tier cannot have that many pages. Nothing has changed then.
    pub fn resize(&mut self, pages: u32) -> Result<()> {
        let limit = Self::places_of(pages);
        let mut beyond = Vec::new();
        self.copies.for_each(|page, copy| {
            if copy.bytes.place >= limit {
                beyond.push(page);
            }
        });
        // Pages lie beyond the end only if there is less room, and then the call below cannot fail.
        beyond.into_iter().for_each(|page| self.forget_page(page));
        let left = self.copies.resize(pages.into())?;
        left.iter().for_each(|left| self.vacate(left));
        self.set_limit(limit);
        Ok(())
    }

    fn set_limit(&mut self, limit: u32) {
        let before = std::mem::replace(&mut self.limit, limit);
        self.free.retain(|place| *place < limit);
        if limit as usize > self.places.len() {
            self.places.resize(limit as usize, Place::default());
        }
        // In this order, so that the lowest place is taken first.
        (before..limit).rev().for_each(|place| self.free_if_unused(place));
    }

    /// Whether a transfer uses a place beyond the end of the file.
    pub fn has_transfers_beyond(&self) -> bool {
        self.places.iter().skip(self.limit as usize).any(|place| place.in_flight > 0)
    }

    /// Calls `visit` with the envelope and the place of each copy that is in the file, next to go first.
    pub fn for_each_written(&self, mut visit: impl FnMut(Envelope, u32)) {
        self.copies.for_each(|_, copy| {
            if copy.bytes.bytes.is_none() {
                visit(copy.envelope, copy.bytes.place);
            }
        });
    }

    /// Restores a copy that was in the file before it was opened. It is left out if it cannot be where the
    /// directory says.
    pub fn restore(&mut self, envelope: Envelope, place: u32) {
        let number = envelope.number();
        let is_free = self.places.get(place as usize).is_some_and(|place| !place.is_taken);
        let file = self.number_of(FileId(0), envelope.file_tag()).filter(|_| self.numbers.is_some());
        if let (Some(file), true) = (file, is_free && place < self.limit && number < 1 << PageId::NUMBER_BITS)
        {
            self.keep(
                PageId::in_file(file, number),
                Copy { envelope, bytes: Placed { place, bytes: None } },
                Offer::Demotion,
            );
        }
    }

    /// Removes all pages.
    pub fn clear(&mut self) {
        let mut pages = Vec::new();
        self.copies.for_each(|page, _| pages.push(page));
        pages.into_iter().for_each(|page| self.forget_page(page));
    }

    /// To be called when all copies have been [restored](Self::restore).
    pub fn end_restoring(&mut self) {
        let places = &self.places;
        self.free = (0..self.limit).rev().filter(|place| !places[*place as usize].is_taken).collect();
    }

    pub fn metadata_bytes(&self) -> u64 {
        let numbers = self.numbers.as_ref().map_or(0, HashMap::capacity);
        let places = self.places.capacity() * size_of::<Place>() + self.free.capacity() * size_of::<u32>();
        self.copies.metadata_bytes() + (places + numbers * size_of::<(u64, FileId)>()) as u64
    }

    /// Recounts the places.
    #[cfg(test)]
    fn check_invariants(&self) {
        let mut free = vec![false; self.places.len()];
        self.free.iter().for_each(|place| {
            assert!(!std::mem::replace(&mut free[*place as usize], true), "place {place} is free twice");
        });
        let mut taken = vec![false; self.places.len()];
        self.copies.for_each(|page, copy| {
            let place = copy.bytes.place;
            assert!(place < self.limit, "{page:?} is beyond the end");
            assert!(!std::mem::replace(&mut taken[place as usize], true), "place {place} has two pages");
        });
        for (at, place) in self.places.iter().enumerate() {
            assert_eq!(place.is_taken, taken[at], "place {at}");
            let is_unused = !place.is_taken && place.in_flight == 0 && at < self.limit as usize;
            assert_eq!(is_unused, free[at], "place {at}: {}", place.in_flight);
        }
        assert_eq!(self.in_flight, self.places.iter().map(|place| place.in_flight).sum::<u32>());
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use bufpool_policies::SplitMix64;

    use super::*;
    use crate::tier::TierPolicy;
    use crate::tier::buffer::Buffers;

    fn name(tag: u64, number: u64) -> PageName {
        PageName { file: FileId(tag as u32), file_tag: tag, number }
    }

    fn client(policy: TierPolicy) -> Client {
        Client { policy, frames: 5, seed: 3 }
    }

    const VERSION: Version = Version { epoch: 1, count: 0 };

    /// Pages come, go, are written, read and resized over, in random order.
    #[test]
    fn a_place_has_one_page_or_transfers() {
        let policies = [TierPolicy::Demote, TierPolicy::Promote, TierPolicy::Inclusive];
        for (by_tag, policy) in
            [false, true].into_iter().flat_map(|by_tag| policies.map(|policy| (by_tag, policy)))
        {
            let mut random = SplitMix64::new(11);
            let mut store = Store::new(client(policy), 10, by_tag).unwrap();
            let buffers = Buffers::new(1000, 512);
            let mut transfers = Vec::new();
            for step in 0..30_000 {
                let page = store.id(name(1 + random.below(2), random.below(400))).unwrap();
                match random.below(8) {
                    0..3 => {
                        let Some(buffer) = buffers.take() else { continue };
                        let page_name = name(page.file().0.into(), page.number());
                        let bytes = Arc::new(TierPage::new(buffer, page_name, VERSION));
                        let offer = if random.below(2) == 0 { Offer::Demotion } else { Offer::Fill };
                        let (_, place) = store.admit(page, &bytes, offer);
                        transfers.extend(place.map(|place| (place, Some(page))));
                    }
                    3..5 => {
                        let copy = store.find(page, VERSION).map(|(copy, _)| copy);
                        let read = copy.filter(|copy| copy.bytes.bytes.is_none());
                        transfers.extend(read.map(|copy| (copy.bytes.place, None)));
                    }
                    5..7 if !transfers.is_empty() => {
                        let index = random.below(transfers.len() as u64) as usize;
                        match transfers.swap_remove(index) {
                            (place, Some(page)) => store.written(page, place, random.below(10) > 0),
                            (place, None) => store.end_transfer(place),
                        }
                    }
                    _ if step % 50 == 0 => store.resize(random.below(300) as u32).unwrap(),
                    _ => {}
                }
                store.check_invariants();
            }
        }
    }

    #[test]
    fn pages_that_are_forgotten_are_not_found_and_others_are() {
        for by_tag in [false, true] {
            let mut store = Store::new(client(TierPolicy::Demote), 10, by_tag).unwrap();
            let buffers = Buffers::new(6, 512);
            for number in 0..6 {
                let page = store.id(name(1, number)).unwrap();
                let bytes = Arc::new(TierPage::new(buffers.take().unwrap(), name(1, number), VERSION));
                let (_, place) = store.admit(page, &bytes, Offer::Demotion);
                store.written(page, place.expect("there is room"), true);
            }
            store.forget(&TierRange { file: FileId(1), file_tag: 1, pages: 2..5 });
            store.check_invariants();
            let mut has = |number: &u64| {
                let page = store.id(name(1, *number)).unwrap();
                store.find(page, VERSION).is_some()
            };
            assert_eq!((0..6).filter(&mut has).collect::<Vec<u64>>(), [0, 1, 5]);
        }
    }

    #[test]
    fn what_was_in_the_file_is_restored_as_far_as_it_has_room() {
        let mut store = Store::new(client(TierPolicy::Demote), 3, true).unwrap();
        let envelope = |tag, number| Envelope::of(name(tag, number), VERSION, &[1; 512]);
        let limit = Store::places_of(3);
        let entries = [
            (envelope(1, 1), 0),
            (envelope(0, 2), 1),
            (envelope(1, 3), 0),
            (envelope(1, 4), limit),
            (envelope(1, 1 << PageId::NUMBER_BITS), 5),
            (envelope(2, 1), 7),
            (envelope(2, 2), limit - 1),
            (envelope(2, 3), 9),
        ];
        entries.into_iter().for_each(|(envelope, place)| store.restore(envelope, place));
        store.end_restoring();
        store.check_invariants();
        let mut found = Vec::new();
        store.for_each_written(|envelope, place| found.push((envelope, place)));
        assert_eq!(found, [entries[5], entries[6], entries[7]], "the oldest made room, others cannot be");
        assert_eq!(store.id(name(0, 1)), None, "files without a tag cannot be told apart");
    }

    #[test]
    fn tags_that_are_kept_count_as_metadata() {
        let mut store = Store::new(client(TierPolicy::Demote), 3, true).unwrap();
        let before = store.metadata_bytes();
        let files = 100;
        (1..=files).for_each(|tag| assert!(store.id(name(tag, 1)).is_some()));
        let tags_bytes = files * size_of::<(u64, FileId)>() as u64;
        assert!(store.metadata_bytes() >= before + tags_bytes, "{} bytes", store.metadata_bytes());
    }
}
