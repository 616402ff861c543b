//! The open lists of an account, found by number, by tenant, and by the pages that they name.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    hash::BuildHasherDefault,
};

use crate::{
    hints::{
        HintList,
        list::{Consumed, Passed},
        open_list::{OpenList, Rest, Room},
        page_map::{PageHasher, PageMap},
    },
    ids::{PageId, TenantId},
};

/// Pages that a reader may have reached before their accesses are told, at most.
const AWAITED_MAX: usize = 64;

/// Hints of lists that have ended which one call takes out of the index.
const CLEARED_AT_ONCE: u64 = 64;

/// Serial numbers and tenants are spread as pages are.
type Map<K, V> = HashMap<K, V, BuildHasherDefault<PageHasher>>;

/// The open lists. Each has a slot, which it keeps until it is closed.
///
/// What is asked about a page costs a step for each list that names it, whatever number of lists is open.
/// What is asked of all lists costs a step for each open one, whatever number was open before. Holds 32 bytes
/// for each page that a list names, besides what the lists hold.
///
/// A list may end with many hints. What they name is taken out of the index a little at a time, by later
/// calls; until then the slot is not used again.
#[derive(Default)]
pub(super) struct Lists {
    slots: Vec<Option<OpenList>>,
    /// The slots of lists that are open, in ascending order.
    open: Vec<u32>,
    /// Slots that no list has, and that the index does not have.
    vacant: Vec<u32>,
    /// What is left of lists that have ended, with their slots.
    ended: VecDeque<(u32, HintList)>,
    by_serial: Map<u64, u32>,
    by_tenant: Map<TenantId, Vec<u32>>,
    /// The lists that name a page ahead, the one first that has named it for longest; and lists that have
    /// ended.
    naming: PageIndex,
    /// The lists whose readers have reached a page, and whose accesses to it are told next.
    awaiting: PageIndex,
    /// By slot.
    briefs: Vec<Brief>,
}

/// What is asked of all lists at once.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Brief {
    /// [`OpenList::farthest`]; less than any distance if there is none.
    farthest: f64,
    /// What it would say if it was asked what it wants.
    rest: Rest,
}

impl Brief {
    /// Of a slot without a list.
    const NONE: Self = Self { farthest: f64::NEG_INFINITY, rest: Rest::Idle };

    /// Of a list that has changed.
    fn of(list: &OpenList) -> Self {
        Self { farthest: list.farthest().unwrap_or(f64::NEG_INFINITY), rest: Rest::Unknown }
    }
}

impl Lists {
    /// How many lists are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// The list, if it is the only one.
    pub fn only(&self) -> Option<&OpenList> {
        if let [slot] = self.open[..] { Some(self.at(slot)) } else { None }
    }

    /// All, in the order of their slots.
    pub fn iter(&self) -> impl Iterator<Item = &OpenList> {
        self.open.iter().map(|slot| self.at(*slot))
    }

    /// All that need not be asked what they want with so much room; see [`ask_each`](Self::ask_each).
    pub fn resting(&self, room: Room) -> impl Iterator<Item = &OpenList> {
        let resting = self.open.iter().filter(move |slot| self.briefs[**slot as usize].rest.holds(room));
        resting.map(|slot| self.at(*slot))
    }

    /// The slot of a list, while it is open.
    pub fn find(&self, serial: u64) -> Option<u32> {
        self.by_serial.get(&serial).copied()
    }

    /// The list in a slot that [`find`](Self::find) or another search has given.
    pub fn at(&self, slot: u32) -> &OpenList {
        self.slots[slot as usize].as_ref().expect("the list is open")
    }

    /// A list, while it is open.
    pub fn get(&self, serial: u64) -> Option<&OpenList> {
        self.find(serial).map(|slot| self.at(slot))
    }

    /// The slots of a tenant's lists, in the order in which they were opened.
    pub fn of_tenant(&self, tenant: TenantId) -> &[u32] {
        self.by_tenant.get(&tenant).map_or(&[], Vec::as_slice)
    }

    /// The slots of the lists that name a page ahead.
    pub fn slots_naming(&self, page: PageId) -> impl Iterator<Item = u32> {
        let is_open = |slot: &u32| self.ended.is_empty() || self.slots[*slot as usize].is_some();
        self.naming.of(page).iter().copied().filter(is_open)
    }

    /// The lists that name a page ahead, each with the position of its next read.
    pub fn naming(&self, page: PageId) -> impl Iterator<Item = (&OpenList, u64)> {
        let lists = self.slots_naming(page).map(|slot| self.at(slot));
        lists.filter_map(move |list| Some((list, list.list.next_use(page)?)))
    }

    /// Whether a list names the page ahead.
    pub fn is_named(&self, page: PageId) -> bool {
        self.slots_naming(page).next().is_some()
    }

    /// The slots of the lists whose readers have reached the page; see [`await_access`](Self::await_access).
    pub fn slots_awaiting(&self, page: PageId) -> &[u32] {
        self.awaiting.of(page)
    }

    /// The lists with blocks, the one first that has the block needed last: that one, or the next one after
    /// `after`, by the distance of its block and its slot.
    pub fn next_farthest(&self, after: Option<(f64, u32)>) -> Option<(f64, u32)> {
        let is_next = |farthest: f64, slot| {
            let comes_after = |(last, at)| farthest < last || (farthest == last && slot > at);
            farthest.is_finite() && after.is_none_or(comes_after)
        };
        let mut found = None;
        let mut greatest = f64::NEG_INFINITY;
        for slot in &self.open {
            let Brief { farthest, .. } = self.briefs[*slot as usize];
            if farthest > greatest && is_next(farthest, *slot) {
                (found, greatest) = (Some((farthest, *slot)), farthest);
            }
        }
        found
    }

    /// Adds a list.
    pub fn open(&mut self, list: OpenList) {
        let slot = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.briefs.push(Brief::NONE);
            // Nothing is allocated when the last hint of an ended list is cleared.
            self.vacant.reserve(self.slots.len());
            self.slots.len() as u32 - 1
        });
        let at = self.open.partition_point(|other| *other < slot);
        self.open.insert(at, slot);
        self.by_serial.insert(list.serial, slot);
        self.by_tenant.entry(list.tenant).or_default().push(slot);
        self.briefs[slot as usize] = Brief::of(&list);
        self.slots[slot as usize] = Some(list);
    }

    /// Takes a list out. Costs a step for each open list, whatever number of hints it has left.
    pub fn close(&mut self, serial: u64) -> Option<OpenList> {
        let slot = self.by_serial.remove(&serial)?;
        let mut list = self.slots[slot as usize].take()?;
        self.briefs[slot as usize] = Brief::NONE;
        self.open.retain(|other| *other != slot);
        list.awaited().into_iter().for_each(|page| self.awaiting.remove(page, slot));
        if let Some(slots) = self.by_tenant.get_mut(&list.tenant) {
            slots.retain(|other| *other != slot);
            if slots.is_empty() {
                self.by_tenant.remove(&list.tenant);
            }
        }
        self.ended.push_back((slot, std::mem::take(&mut list.list)));
        if self.len() == 0 {
            *self = Self::default();
        }
        Some(list)
    }

    /// Takes a few hints of lists that have ended out of the index.
    pub fn clear_some(&mut self) {
        let Some((slot, list)) = self.ended.front_mut() else { return };
        let (slot, naming) = (*slot, &mut self.naming);
        list.pass(CLEARED_AT_ONCE, |hint| {
            if hint.is_last() {
                naming.remove(hint.page, slot);
            }
        });
        if list.is_empty() {
            self.ended.pop_front();
            self.vacant.push(slot);
        }
    }

    /// Changes a list, but for the hints that it holds and for the pages that its reader has reached.
    pub fn change<R>(&mut self, slot: u32, change: impl FnOnce(&mut OpenList) -> R) -> R {
        let list = self.slots[slot as usize].as_mut().expect("the list is open");
        let result = change(list);
        self.briefs[slot as usize] = Brief::of(list);
        result
    }

    /// Changes each list that names a page, with the position of the page's next use.
    pub fn change_naming(&mut self, page: PageId, mut change: impl FnMut(&mut OpenList, u64)) {
        for slot in self.naming.of(page) {
            let Some(list) = &mut self.slots[*slot as usize] else { continue };
            if let Some(position) = list.list.next_use(page) {
                change(list, position);
                self.briefs[*slot as usize] = Brief::of(list);
            }
        }
    }

    /// Asks the lists of a tenant what they want, but for those of which that is known to be nothing. `ask`
    /// takes from the room, returns what is known of a list's next answer, and changes nothing that other
    /// searches depend on.
    pub fn ask_each(
        &mut self,
        tenant: TenantId,
        mut room: Room,
        mut ask: impl FnMut(&mut OpenList, &mut Room) -> Rest,
    ) {
        for slot in self.by_tenant.get(&tenant).into_iter().flatten() {
            if room.pages == 0 {
                break;
            }
            let brief = &mut self.briefs[*slot as usize];
            if !brief.rest.holds(room)
                && let Some(list) = &mut self.slots[*slot as usize]
            {
                brief.rest = ask(list, &mut room);
            }
        }
    }

    /// Appends a read to a list. Returns its position, and whether the list names the page anew; `None` if
    /// the list is full.
    pub fn push(&mut self, slot: u32, page: PageId) -> Option<(u64, bool)> {
        let (position, is_new) = self.change(slot, |list| {
            let is_new = list.list.next_use(page).is_none();
            let position = list.list.push(page)?;
            list.counts.given += 1;
            Some((position, is_new))
        })?;
        if is_new {
            self.naming.add(page, slot);
        }
        Some((position, is_new))
    }

    /// The reader of a list passes over its next `count` hints. Returns how many of them were not used
    /// before, and what is behind the reader now.
    pub fn pass(&mut self, slot: u32, count: u64) -> (u64, Vec<Passed>) {
        let mut passed = Vec::new();
        let unused = self.change(slot, |list| list.list.pass(count, |hint| passed.push(hint)));
        self.unname(slot, &passed);
        (unused, passed)
    }

    /// Matches an access with a list; see [`HintList::consume`](crate::hints::HintList::consume).
    pub fn consume(&mut self, slot: u32, page: PageId) -> Option<(Consumed, Vec<Passed>)> {
        let mut passed = Vec::new();
        let consumed = self.change(slot, |list| {
            let window = list.resync_window();
            list.list.consume(page, window, |hint| passed.push(hint))
        })?;
        self.unname(slot, &passed);
        Some((consumed, passed))
    }

    fn unname(&mut self, slot: u32, passed: &[Passed]) {
        let last = passed.iter().filter(|hint| hint.is_last());
        last.for_each(|hint| self.naming.remove(hint.page, slot));
    }

    /// The reader of a list has reached a page, the access to which is told next.
    pub fn await_access(&mut self, slot: u32, page: PageId) {
        let dropped = self.change(slot, |list| {
            let awaited = list.led.get_or_insert_default();
            let dropped = (awaited.len() == AWAITED_MAX).then(|| awaited.remove(0));
            awaited.push(page);
            dropped.filter(|dropped| !awaited.contains(dropped))
        });
        dropped.into_iter().for_each(|page| self.awaiting.remove(page, slot));
        self.awaiting.add(page, slot);
    }

    /// The access to a page that the reader of a list has reached is told.
    pub fn access_told(&mut self, slot: u32, page: PageId) {
        let is_over = self.change(slot, |list| {
            let awaited = list.led.get_or_insert_default();
            if let Some(at) = awaited.iter().position(|awaited| *awaited == page) {
                awaited.remove(at);
            }
            !awaited.contains(&page)
        });
        if is_over {
            self.awaiting.remove(page, slot);
        }
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        let vacant = self.slots.len() - self.len();
        self.iter().map(OpenList::metadata_bytes).sum::<usize>()
            + self.ended.iter().map(|(_, list)| list.metadata_bytes()).sum::<usize>()
            + self.ended.capacity() * size_of::<(u32, HintList)>()
            + vacant * size_of::<Option<OpenList>>()
            + (self.open.capacity() + self.vacant.capacity()) * size_of::<u32>()
            + self.by_serial.capacity() * size_of::<(u64, u32)>()
            + self.by_tenant.capacity() * size_of::<(TenantId, Vec<u32>)>()
            + self.len() * size_of::<u32>()
            + self.naming.metadata_bytes()
            + self.awaiting.metadata_bytes()
            + self.briefs.capacity() * size_of::<Brief>()
    }

    /// Panics if lists are not found as they should be. For tests: costs O(hints).
    pub fn check_invariants(&self) {
        let (mut naming, mut awaiting) = (0, 0);
        for (slot, list) in (0..).zip(&self.slots) {
            let brief = self.briefs[slot as usize];
            let changed = list.as_ref().map_or(Brief::NONE, Brief::of);
            assert_eq!(brief, Brief { rest: brief.rest, ..changed }, "what slot {slot} is asked");
            assert_eq!(self.open.binary_search(&slot).is_ok(), list.is_some(), "slot {slot} is open");
            let Some(list) = list else { continue };
            assert_eq!(self.find(list.serial), Some(slot), "list {}", list.serial);
            assert!(self.of_tenant(list.tenant).contains(&slot), "list {} of its tenant", list.serial);
            for page in list.list.pages() {
                assert!(self.naming.of(page).contains(&slot), "{page:?} in the index");
                naming += 1;
            }
            for page in list.awaited() {
                assert!(self.awaiting.of(page).contains(&slot), "{page:?} is awaited");
                awaiting += 1;
            }
        }
        for (slot, list) in &self.ended {
            assert!(self.slots[*slot as usize].is_none() && !self.vacant.contains(slot), "slot {slot}");
            for page in list.pages() {
                assert!(self.naming.of(page).contains(slot), "{page:?} is to be taken out of the index");
                naming += 1;
            }
        }
        assert_eq!(self.open.len() + self.vacant.len() + self.ended.len(), self.slots.len(), "slots");
        assert_eq!((self.naming.len, self.awaiting.len), (naming, awaiting), "entries of the indexes");
        assert_eq!(self.by_tenant.values().map(Vec::len).sum::<usize>(), self.len(), "lists of tenants");
    }
}

/// Which lists have to do with a page, by their slots. Each is there once.
#[derive(Default)]
struct PageIndex {
    by_page: PageMap<Slots>,
    /// How many lists there are for all pages.
    len: usize,
}

enum Slots {
    One(u32),
    Several(Vec<u32>),
}

impl Slots {
    fn as_slice(&self) -> &[u32] {
        match self {
            Self::One(slot) => std::slice::from_ref(slot),
            Self::Several(slots) => slots,
        }
    }
}

impl PageIndex {
    fn of(&self, page: PageId) -> &[u32] {
        self.by_page.get(&page).map_or(&[], Slots::as_slice)
    }

    /// Adds a list, unless it is there.
    fn add(&mut self, page: PageId, slot: u32) {
        match self.by_page.entry(page) {
            Entry::Vacant(entry) => _ = entry.insert(Slots::One(slot)),
            Entry::Occupied(entry) if entry.get().as_slice().contains(&slot) => return,
            Entry::Occupied(mut entry) => match entry.get_mut() {
                Slots::Several(slots) => slots.push(slot),
                Slots::One(other) => {
                    let slots = vec![*other, slot];
                    entry.insert(Slots::Several(slots));
                }
            },
        }
        self.len += 1;
    }

    /// Takes a list out, which is there.
    fn remove(&mut self, page: PageId, slot: u32) {
        self.len -= 1;
        if let Some(Slots::Several(slots)) = self.by_page.get_mut(&page)
            && slots.len() > 1
        {
            slots.retain(|other| *other != slot);
        } else {
            self.by_page.remove(&page);
        }
    }

    /// Bytes of memory held, about.
    fn metadata_bytes(&self) -> usize {
        let several = self.len - self.by_page.len();
        self.by_page.capacity() * size_of::<(PageId, Slots)>() + several * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::{Depth, HintPolicy};

    fn open(lists: &mut Lists, serial: u64) -> u32 {
        lists.open(OpenList::new(serial, TenantId(0), HintPolicy::Auto, Depth::new(8), 1));
        lists.find(serial).unwrap()
    }

    #[test]
    fn what_an_ended_list_named_is_cleared_a_little_at_a_time() {
        const HINTS: u64 = 10 * CLEARED_AT_ONCE;
        let mut lists = Lists::default();
        let (ended, other) = (open(&mut lists, 1), open(&mut lists, 2));
        (0..HINTS).for_each(|page| _ = lists.push(ended, PageId(page)));
        lists.push(other, PageId(5));
        lists.close(1);
        assert_eq!(lists.naming.len, HINTS as usize + 1, "nothing is cleared yet");
        assert!(lists.slots_naming(PageId(5)).eq([other]) && !lists.is_named(PageId(6)));
        assert_ne!(open(&mut lists, 3), ended, "its slot is still in the index");
        for left in (0..10).rev() {
            lists.clear_some();
            lists.check_invariants();
            assert_eq!(lists.naming.len, (left * CLEARED_AT_ONCE) as usize + 1);
        }
        assert_eq!(open(&mut lists, 4), ended);
        [2, 3, 4].into_iter().for_each(|serial| drop(lists.close(serial)));
        assert_eq!((lists.slots.len(), lists.naming.len), (0, 0));
        lists.check_invariants();
    }
}
