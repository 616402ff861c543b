//! What an account knows of its future from the lists of its tenants.

mod lists;
mod offers;

use std::collections::HashMap;

use self::lists::Lists;
use super::{
    Depth, HintCounts, HintList, HintListId, HintPolicy, ListState,
    blocks::{Block, Blocks, Place},
    list::Passed,
    open_list::{OpenList, Room},
};
use crate::{
    frame_table::FrameTable,
    ids::{FrameId, PageId, TenantId},
    manager::Want,
};
pub(crate) use offers::Offer;

/// How far the reader of a list may be ahead of the position that it has told.
const LED_BY: u64 = 32;

/// The open lists of an account, and its blocks that they concern.
///
/// A page that came in for a list and is named no further is *spent*: it goes first, the one read longest ago
/// before the others. Pages that lists name go in the order of their next uses, the farthest first. A page
/// that was in memory before a list named it, and pages that no list names, are the business of the
/// account's manager.
#[derive(Default)]
pub(crate) struct AccountHints {
    lists: Lists,
    blocks: Blocks,
    /// Slots of the lists that an access concerns; empty between accesses.
    concerned: Vec<u32>,
}

impl AccountHints {
    /// Whether no list is open.
    pub fn is_empty(&self) -> bool {
        self.lists.len() == 0
    }

    /// Opens a list, which has a serial number of its own.
    pub fn open(&mut self, serial: u64, tenant: TenantId, policy: HintPolicy, depth: Depth, in_flight: u32) {
        self.lists.open(OpenList::new(serial, tenant, policy, depth, in_flight));
    }

    /// Whether the list is open.
    pub fn has(&self, serial: u64) -> bool {
        self.lists.find(serial).is_some()
    }

    /// Appends a read to a list. `present` is the frame of the page if a block of this account has it, and
    /// whether it was not accessed since it came in. Returns the position, `None` if the list is full.
    pub fn push(&mut self, serial: u64, page: PageId, present: Option<(u32, bool)>) -> Option<u64> {
        let slot = self.lists.find(serial)?;
        self.lists.clear_some();
        let (position, is_new) = self.lists.push(slot, page)?;
        if !is_new {
            return Some(position);
        }
        let place =
            present.map(|(frame, ahead)| if ahead { Place::Ahead(frame) } else { Place::Resident(frame) });
        if self.blocks.contains(page) {
            self.blocks.named(page);
        } else if let Some(place) = place {
            self.blocks.add(page, place, None);
        }
        if self.blocks.frame(page).is_some() {
            self.lists.change(slot, |list| list.note_present(page, position));
        }
        Some(position)
    }

    /// The reader of a list has come to `position`, at the directory's time `now`. From the first such call
    /// on only such calls move the list; accesses are not matched with it any more.
    pub fn consumed_to(&mut self, serial: u64, position: u64, now: u64) {
        let Some(slot) = self.lists.find(serial) else { return };
        let count = position.saturating_sub(self.lists.at(slot).list.position());
        let (behind, passed) = self.lists.pass(slot, count);
        self.lists.change(slot, |list| {
            list.led.get_or_insert_default();
            if behind > 0 {
                list.went_on(behind, now);
                list.judge_skips(behind, 0);
            }
        });
        passed.into_iter().for_each(|hint| self.passed(slot, hint, true));
    }

    /// As [`consumed_to`](Self::consumed_to), up to and with the next hint, whose access is told next or as
    /// soon as its page has come in.
    pub fn reached(&mut self, serial: u64, now: u64) {
        let Some(slot) = self.lists.find(serial) else { return };
        let position = self.lists.at(slot).list.position();
        if let Some(page) = self.lists.at(slot).list.page_at(position) {
            self.lists.await_access(slot, page);
            self.consumed_to(serial, position + 1, now);
        }
    }

    /// The reader passes over the next `count` hints.
    pub fn skip(&mut self, serial: u64, count: u64) {
        let Some(slot) = self.lists.find(serial) else { return };
        let (skipped, passed) = self.lists.pass(slot, count);
        // Where the list is judged, the call counts as one skipped hint, however many it leaves out: a
        // reader may leave out all the rest at once, as behind a LIMIT.
        let news = skipped.min(1);
        self.lists.change(slot, |list| {
            list.judge_skips(news, news);
            list.counts.skipped += skipped - news;
        });
        passed.into_iter().for_each(|hint| self.passed(slot, hint, false));
    }

    /// The reader of a list waits, or waited, for a page that the list named.
    pub fn waited(&mut self, serial: u64) {
        if let Some(slot) = self.lists.find(serial) {
            self.lists.change(slot, OpenList::waited);
        }
    }

    /// The reader of a list consumes `hints` hints in the time of one read.
    pub fn set_horizon(&mut self, serial: u64, hints: u32) {
        if let Some(slot) = self.lists.find(serial) {
            self.lists.change(slot, |list| list.horizon = hints.max(1));
        }
    }

    /// The state of a list.
    pub fn state(&self, serial: u64) -> Option<ListState> {
        let list = self.lists.get(serial)?;
        Some(ListState { counts: list.counts, depth: list.depth.get(), position: list.list.position() })
    }

    /// The lists of a tenant, by serial number.
    pub fn of_tenant(&self, tenant: TenantId) -> Vec<u64> {
        self.lists.of_tenant(tenant).iter().map(|slot| self.lists.at(*slot).serial).collect()
    }

    /// Withdraws what is left of a list. Pages that came in for it go over to another list that names them.
    /// `unread` is told of the frames of the others that nobody has read, in the order of their pages.
    /// Returns what became of its hints. Costs O(open lists + pages that it names and that are there + pages
    /// that came in for it).
    pub fn close(&mut self, serial: u64, mut unread: impl FnMut(u32)) -> Option<HintCounts> {
        self.lists.clear_some();
        let pages = self.lists.get(serial)?.pages_there();
        let list = self.lists.close(serial)?;
        let mut counts = list.counts;
        let mut gone = if self.is_empty() {
            std::mem::take(&mut self.blocks).iter().collect()
        } else {
            self.take_blocks_of(serial, pages, &mut counts)
        };
        // A page that came in ahead for another reason, and that the list named, is none of its prefetches.
        let came_for = Some(serial);
        gone.retain(|(_, block)| block.came_for() == came_for && matches!(block.place, Place::Ahead(_)));
        gone.sort_unstable_by_key(|(page, _)| *page);
        for (_, block) in gone {
            // A spent one was counted when it was passed, if it was passed unread.
            counts.wasted += u64::from(!block.is_spent() && !block.was_wasted());
            block.place.frame().into_iter().for_each(&mut unread);
        }
        Some(counts)
    }

    /// Takes out the blocks that were the business of a list alone, which has ended: of its `pages`. Those
    /// that came in for it and that another list names go over to that, with what is in `counts` of them.
    fn take_blocks_of(
        &mut self,
        serial: u64,
        pages: Vec<PageId>,
        counts: &mut HintCounts,
    ) -> Vec<(PageId, Block)> {
        let mut gone = Vec::new();
        for page in pages {
            let Some(block) = self.blocks.get(page) else { continue };
            let is_its = block.came_for() == Some(serial);
            let heir = self.lists.slots_naming(page).next();
            match heir {
                Some(heir) if is_its => self.go_over(page, heir, counts),
                None if is_its || block.came_for().is_none() => {
                    self.blocks.forget(page);
                    gone.push((page, block));
                }
                _ => {}
            }
        }
        gone
    }

    /// The block of a page is the business of the list in `heir` from now on, which names the page. `counts`
    /// are those of the list that it came in for, which ends.
    fn go_over(&mut self, page: PageId, heir: u32, counts: &mut HintCounts) {
        let serial = self.lists.at(heir).serial;
        let Some(block) = self.blocks.go_over_to(page, serial) else { return };
        self.note_brought(heir, page);
        self.lists.change(heir, |heir| {
            if block.place.is_ahead_in_flight() {
                heir.begun(page);
            } else if let (Place::Ahead(_), false) = (block.place, block.was_wasted()) {
                // What becomes of it is counted there, so it has come in for that.
                counts.prefetched -= 1;
                heir.counts.prefetched += 1;
            }
        });
    }

    /// A page comes in for a list.
    fn note_brought(&mut self, slot: u32, page: PageId) {
        let blocks = &self.blocks;
        self.lists.change(slot, |list| {
            let came_for = Some(list.serial);
            let is_its = |page| blocks.get(page).is_some_and(|block| block.came_for() == came_for);
            list.note_brought(page, is_its);
        });
    }

    /// `tenant` accessed `page`, at a time of the directory's. Returns the list that named it, if one did.
    pub fn accessed(&mut self, tenant: TenantId, page: PageId, now: u64) -> Option<u64> {
        let mut named = None;
        let mut concerned = std::mem::take(&mut self.concerned);
        self.lists.clear_some();
        let slots = self.lists.slots_awaiting(page).iter().copied().chain(self.lists.slots_naming(page));
        concerned.extend(slots.filter(|slot| self.lists.at(*slot).tenant == tenant));
        // A list that names a page again which its reader has reached is there twice.
        concerned.sort_unstable();
        concerned.dedup();
        for slot in concerned.drain(..) {
            let list = self.lists.at(slot);
            let (serial, position) = (list.serial, list.list.position());
            if self.lists.slots_awaiting(page).contains(&slot) {
                self.lists.access_told(slot, page);
                named = Some(serial);
            } else if list.led.is_some() {
                // The reader may be a few reads ahead of what it has said.
                let next = list.list.next_use(page).filter(|next| next - position < LED_BY);
                named = named.or_else(|| next.map(|_| serial));
            } else if let Some((consumed, passed)) = self.lists.consume(slot, page) {
                self.lists.change(slot, |list| {
                    list.went_on(1, now);
                    list.judge_skips(consumed.skipped + 1, consumed.skipped);
                });
                named = Some(serial);
                for hint in passed {
                    self.passed(slot, hint, hint.position == consumed.position);
                }
            }
        }
        self.concerned = concerned;
        if named.is_none() && self.blocks.is_spent(page) {
            // The page has other uses than those that lists name, so it does not go before the others.
            self.blocks.forget(page);
        }
        named
    }

    /// A hint is behind the reader of a list.
    fn passed(&mut self, slot: u32, hint: Passed, is_used: bool) {
        self.lists.change(slot, |list| {
            list.frontier = list.frontier.max(list.list.position());
            if list.note_absent(hint.page, hint.position) && !hint.is_last() {
                list.note_present(hint.page, hint.next);
            }
        });
        if !hint.is_last() {
            return;
        }
        let Some(block) = self.blocks.get(hint.page) else { return };
        if self.is_named(hint.page) {
            return;
        }
        match (block.came_for(), block.place) {
            // No list names it any more, and it was not brought in for one.
            (None, _) => self.blocks.forget(hint.page),
            (Some(serial), Place::Ahead(_)) if !is_used => {
                self.count_wasted(hint.page, serial);
                self.blocks.spend(hint.page);
            }
            (Some(_), place) if place.is_ahead_in_flight() => {
                let place = if is_used { Place::AheadInFlight } else { Place::PassedInFlight };
                self.blocks.set_place(hint.page, place);
            }
            (Some(_), Place::InFlight) => {}
            (Some(_), _) => self.blocks.spend(hint.page),
        }
    }

    /// Counts a page that came in for a list and is there, unread, when no list names it any more. It counts
    /// once, though a list may name it again.
    fn count_wasted(&mut self, page: PageId, serial: u64) {
        if self.blocks.waste(page)
            && let Some(slot) = self.lists.find(serial)
        {
            self.lists.change(slot, |list| {
                list.counts.wasted += 1;
                list.wasted += 1;
            });
        }
    }

    /// Whether a list of the tenant names the page, for an access that is about to be told.
    pub fn discloses(&self, tenant: TenantId, page: PageId) -> bool {
        self.lists.naming(page).any(|(list, _)| list.tenant == tenant)
    }

    /// Whether a list names the page.
    pub fn is_named(&self, page: PageId) -> bool {
        self.lists.is_named(page)
    }

    /// A page of the account comes in, missed by a process or ahead. `named` is the list that the access to
    /// it used, if one did.
    pub fn entering(&mut self, page: PageId, is_ahead: bool, named: Option<u64>) {
        let by = || self.lists.slots_naming(page).next().map(|slot| self.lists.at(slot).serial);
        let Some(serial) = named.or_else(by) else { return };
        let place = if is_ahead { Place::AheadInFlight } else { Place::InFlight };
        self.blocks.add(page, place, Some(serial));
        if let Some(slot) = self.lists.find(serial) {
            self.note_brought(slot, page);
            self.lists.change(slot, |list| {
                list.depth.read_begun();
                if is_ahead {
                    list.begun(page);
                }
            });
        }
    }

    /// A page of the account that was in flight is there.
    pub fn arrived(&mut self, page: PageId, frame: u32) {
        if !self.blocks.contains(page) && self.is_named(page) {
            // The page is back because it could not be written.
            self.blocks.add(page, Place::InFlight, None);
        }
        let Some(block) = self.blocks.get(page) else { return };
        let (came_for, was_ahead) = (block.came_for(), block.place.is_ahead_in_flight());
        self.blocks.set_place(page, if was_ahead { Place::Ahead(frame) } else { Place::Resident(frame) });
        if was_ahead {
            self.landed(page, came_for);
            if let Some(slot) = came_for.and_then(|serial| self.lists.find(serial)) {
                self.lists.change(slot, |list| {
                    list.counts.prefetched += 1;
                    list.fetched += 1;
                    list.judge_waste();
                });
            }
        }
        self.lists.change_naming(page, |list, position| list.note_present(page, position));
        if !self.is_named(page) {
            match came_for.filter(|serial| self.has(*serial)) {
                Some(serial) => {
                    if block.place == Place::PassedInFlight {
                        self.count_wasted(page, serial);
                    }
                    self.blocks.spend(page);
                }
                None => self.blocks.forget(page),
            }
        }
    }

    /// The page in `frame`, which came in ahead, was accessed.
    pub fn read_first(&mut self, page: PageId, frame: u32) {
        self.blocks.set_place(page, Place::Resident(frame));
    }

    /// A page in flight ahead is there, or does not come.
    fn landed(&mut self, page: PageId, came_for: Option<u64>) {
        if let Some(slot) = came_for.and_then(|serial| self.lists.find(serial)) {
            self.lists.change(slot, |list| list.landed(page));
        }
    }

    /// A page of the account has left, or did not come in after all.
    pub fn left(&mut self, page: PageId) {
        let Some(block) = self.blocks.get(page) else { return };
        self.blocks.forget(page);
        let was_in_flight = block.place.is_ahead_in_flight();
        if was_in_flight {
            self.landed(page, block.came_for());
        }
        let did_not_stay = was_in_flight || matches!(block.place, Place::Ahead(_));
        self.lists.change_naming(page, |list, position| {
            list.note_absent(page, position);
            list.frontier = list.frontier.min(position);
            if did_not_stay {
                list.did_not_stay(position);
            }
        });
        if let (Place::Ahead(_), true, false) = (block.place, self.is_named(page), block.was_wasted())
            && let Some(slot) = block.came_for().and_then(|serial| self.lists.find(serial))
        {
            self.lists.change(slot, |list| {
                list.counts.lost += 1;
                list.wasted += 1;
            });
        }
    }

    /// A list, while it is open.
    pub fn list(&self, serial: u64) -> Option<&HintList> {
        self.lists.get(serial).map(|list| &list.list)
    }

    /// Appends the pages that the tenant's lists would have brought in now, those of each list in its order.
    ///
    /// `passed_over` tells whether a page that is no block of the account is in memory all the same, or
    /// cannot be had.
    pub fn wants(
        &mut self,
        tenant: TenantId,
        room: Room,
        passed_over: &mut dyn FnMut(PageId) -> bool,
        out: &mut Vec<Want>,
    ) {
        let room = Room { harmless: room.harmless + self.blocks.spent(), ..room };
        let blocks = &self.blocks;
        self.lists.ask_each(tenant, room, |list, room| {
            let first = out.len();
            let rest = list.wants(|page| blocks.contains(page), room, passed_over, out);
            list.note_runs(&out[first..]);
            rest
        });
    }

    /// The list that would have the page brought in for its use at `position`, if the list goes by prices.
    pub fn priced_list(&self, page: PageId, position: u64) -> Option<HintListId> {
        let goes_by_prices =
            |(list, next): &(&OpenList, u64)| list.policy == HintPolicy::CostBenefit && *next == position;
        let (list, _) = self.lists.naming(page).find(goes_by_prices)?;
        Some(HintListId { tenant: list.tenant, serial: list.serial })
    }

    /// Blocks of the account that lists concern.
    pub fn blocks(&self) -> u32 {
        self.blocks.len()
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.lists.metadata_bytes() + self.blocks.metadata_bytes()
    }

    /// Panics if the state contradicts itself or the frames, of which `is_own` tells those of the account.
    /// For tests.
    pub fn check_invariants(&self, frames: &FrameTable, is_own: impl Fn(u32) -> bool) {
        let mut in_flight: HashMap<u64, u32> = HashMap::new();
        for (page, block) in self.blocks.iter() {
            if let Some(frame) = block.place.frame() {
                assert!(is_own(frame), "{page:?} in {frame} is another account's");
                assert!(
                    frames.is_present(FrameId(frame)) && frames[frame].page == page,
                    "{page:?} in {frame}"
                );
            }
            if let (true, Some(serial)) = (block.place.is_ahead_in_flight(), block.came_for()) {
                *in_flight.entry(serial).or_default() += 1;
            }
            assert!(!block.is_spent() || !self.is_named(page), "{page:?} is spent and named");
            assert!(block.came_for().is_some() || self.is_named(page), "{page:?} concerns no list");
            let knows = |serial| self.lists.get(serial).is_some_and(|list| list.has_noted(page));
            assert!(block.came_for().is_none_or(knows), "{page:?} came for a list that does not know it");
        }
        self.blocks.check_invariants();
        self.lists.check_invariants();
        for harmless in [0, u32::MAX] {
            let room = Room { pages: u32::MAX, harmless };
            self.lists.resting(room).for_each(|list| self.check_resting(list, room));
        }
        for list in self.lists.iter() {
            list.check_invariants();
            assert_eq!(
                list.pages_in_flight(),
                in_flight.get(&list.serial).copied().unwrap_or(0),
                "pages in flight"
            );
            for (position, page) in list.present_by_use() {
                assert_eq!(list.list.next_use(page), Some(position), "next use of {page:?}");
                assert!(self.blocks.frame(page).is_some(), "{page:?}");
            }
            let named = self
                .blocks
                .iter()
                .filter(|(page, block)| block.place.frame().is_some() && list.list.next_use(*page).is_some());
            assert_eq!(named.count(), list.present_len(), "named blocks");
            assert_eq!(list.present_by_use().count(), list.present_len(), "positions of named blocks");
            let below =
                list.list.from(list.list.position()).take_while(|(position, _)| *position < list.frontier);
            for (position, page) in below {
                assert!(self.blocks.contains(page), "{page:?} at {position} is missing");
            }
        }
    }

    /// Panics if the list, of which the opposite is known, wants a page.
    fn check_resting(&self, list: &OpenList, mut room: Room) {
        let mut wants = Vec::new();
        let is_block = |page| self.blocks.contains(page);
        list.clone().wants(is_block, &mut room, &mut |_| false, &mut wants);
        assert_eq!(wants, [], "list {} rests", list.serial);
    }
}
