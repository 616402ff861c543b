//! What an account knows of its future from the lists of its tenants.

mod offers;

use std::collections::HashMap;

use super::{
    Depth, HintCounts, HintList, HintListId, HintPolicy, ListState, NEVER,
    blocks::{Blocks, Place},
    list::Passed,
    open_list::{OpenList, Room},
};
use crate::{
    frame_table::FrameTable,
    ids::{FrameId, PageId, TenantId},
    manager::Want,
};
pub(crate) use offers::Offer;

/// Pages that a reader may have reached before their accesses are told, at most.
const AWAITED_MAX: usize = 64;
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
    lists: Vec<OpenList>,
    blocks: Blocks,
}

impl AccountHints {
    /// Whether no list is open.
    pub fn is_empty(&self) -> bool {
        self.lists.is_empty()
    }

    /// Opens a list, which has a serial number of its own.
    pub fn open(&mut self, serial: u64, tenant: TenantId, policy: HintPolicy, depth: Depth, in_flight: u32) {
        self.lists.push(OpenList::new(serial, tenant, policy, depth, in_flight));
    }

    /// Whether the list is open.
    pub fn has(&self, serial: u64) -> bool {
        self.lists.iter().any(|list| list.serial == serial)
    }

    fn find(&mut self, serial: u64) -> Option<usize> {
        self.lists.iter().position(|list| list.serial == serial)
    }

    /// Appends a read to a list. `present` is the frame of the page if a block of this account has it, and
    /// whether it was not accessed since it came in. Returns the position, `None` if the list is full.
    pub fn push(&mut self, serial: u64, page: PageId, present: Option<(u32, bool)>) -> Option<u64> {
        let at = self.find(serial)?;
        let list = &mut self.lists[at];
        let is_new = list.list.next_use(page).is_none();
        let position = list.list.push(page)?;
        list.counts.given += 1;
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
            list.note_present(page, position);
        }
        Some(position)
    }

    /// The reader of a list has come to `position`, at the directory's time `now`. From the first such call
    /// on only such calls move the list; accesses are not matched with it any more.
    pub fn consumed_to(&mut self, serial: u64, position: u64, now: u64) {
        let Some(at) = self.find(serial) else { return };
        let mut passed = Vec::new();
        let list = &mut self.lists[at];
        list.led.get_or_insert_default();
        let behind = list.list.pass(position.saturating_sub(list.list.position()), |hint| passed.push(hint));
        if behind > 0 {
            list.went_on(behind, now);
            list.judge_skips(behind, 0);
        }
        passed.into_iter().for_each(|hint| self.passed(at, hint, true));
    }

    /// As [`consumed_to`](Self::consumed_to), up to and with the next hint, whose access is told next or as
    /// soon as its page has come in.
    pub fn reached(&mut self, serial: u64, now: u64) {
        let Some(at) = self.find(serial) else { return };
        let list = &mut self.lists[at];
        let position = list.list.position();
        if let Some(page) = list.list.page_at(position) {
            let awaited = list.led.get_or_insert_default();
            if awaited.len() == AWAITED_MAX {
                awaited.remove(0);
            }
            awaited.push(page);
            self.consumed_to(serial, position + 1, now);
        }
    }

    /// The reader passes over the next `count` hints.
    pub fn skip(&mut self, serial: u64, count: u64) {
        let Some(at) = self.find(serial) else { return };
        let mut passed = Vec::new();
        let skipped = self.lists[at].list.pass(count, |hint| passed.push(hint));
        // Where the list is judged, the call counts as one skipped hint, however many it leaves out: a
        // reader may leave out all the rest at once, as behind a LIMIT.
        let news = skipped.min(1);
        self.lists[at].judge_skips(news, news);
        self.lists[at].counts.skipped += skipped - news;
        passed.into_iter().for_each(|hint| self.passed(at, hint, false));
    }

    /// The reader of a list waits, or waited, for a page that the list named.
    pub fn waited(&mut self, serial: u64) {
        if let Some(at) = self.find(serial) {
            self.lists[at].waited();
        }
    }

    /// The reader of a list consumes `hints` hints in the time of one read.
    pub fn set_horizon(&mut self, serial: u64, hints: u32) {
        if let Some(at) = self.find(serial) {
            self.lists[at].horizon = hints.max(1);
        }
    }

    /// The state of a list.
    pub fn state(&self, serial: u64) -> Option<ListState> {
        let list = self.lists.iter().find(|list| list.serial == serial)?;
        Some(ListState { counts: list.counts, depth: list.depth.get(), position: list.list.position() })
    }

    /// The lists of a tenant, by serial number.
    pub fn of_tenant(&self, tenant: TenantId) -> Vec<u64> {
        self.lists.iter().filter(|list| list.tenant == tenant).map(|list| list.serial).collect()
    }

    /// Withdraws what is left of a list. Pages that came in for it go over to another list that names them.
    /// `unread` is told of the frames of the others that nobody has read. Returns what became of its hints.
    pub fn close(&mut self, serial: u64, mut unread: impl FnMut(u32)) -> Option<HintCounts> {
        let at = self.find(serial)?;
        let list = self.lists.swap_remove(at);
        let mut counts = list.counts;
        let mut gone = Vec::new();
        for (page, block) in self.blocks.iter_mut() {
            let heir = self.lists.iter_mut().find(|list| list.list.next_use(page).is_some());
            let is_its = block.came_for() == Some(serial);
            match heir {
                Some(heir) if is_its => {
                    block.go_over_to(heir.serial);
                    if block.place.is_ahead_in_flight() {
                        heir.begun(page);
                    } else if let (Place::Ahead(_), false) = (block.place, block.was_wasted()) {
                        // What becomes of it is counted there, so it has come in for that.
                        counts.prefetched -= 1;
                        heir.counts.prefetched += 1;
                    }
                }
                None if is_its => {
                    if let Place::Ahead(frame) = block.place {
                        // A spent one was counted when it was passed, if it was passed unread.
                        counts.wasted += u64::from(!block.is_spent() && !block.was_wasted());
                        unread(frame);
                    }
                    gone.push(page);
                }
                None if block.came_for().is_none() => gone.push(page),
                _ => {}
            }
        }
        gone.into_iter().for_each(|page| self.blocks.forget(page));
        Some(counts)
    }

    /// `tenant` accessed `page`, at a time of the directory's. Returns the list that named it, if one did.
    pub fn accessed(&mut self, tenant: TenantId, page: PageId, now: u64) -> Option<u64> {
        let mut named = None;
        for at in 0..self.lists.len() {
            let list = &mut self.lists[at];
            if list.tenant != tenant {
                continue;
            }
            if let Some(awaited) = &mut list.led {
                if let Some(at) = awaited.iter().position(|awaited| *awaited == page) {
                    awaited.remove(at);
                    named = Some(list.serial);
                } else {
                    // The reader may be a few reads ahead of what it has said.
                    let next = list.list.next_use(page).filter(|next| next - list.list.position() < LED_BY);
                    named = named.or_else(|| next.map(|_| list.serial));
                }
                continue;
            }
            let mut passed = Vec::new();
            let Some(consumed) = list.list.consume(page, list.resync_window(), |hint| passed.push(hint))
            else {
                continue;
            };
            list.went_on(1, now);
            list.judge_skips(consumed.skipped + 1, consumed.skipped);
            named = Some(list.serial);
            for hint in passed {
                self.passed(at, hint, hint.position == consumed.position);
            }
        }
        if named.is_none() && self.blocks.is_spent(page) {
            // The page has other uses than those that lists name, so it does not go before the others.
            self.blocks.forget(page);
        }
        named
    }

    /// A hint is behind the reader of a list.
    fn passed(&mut self, at: usize, hint: Passed, is_used: bool) {
        let list = &mut self.lists[at];
        list.frontier = list.frontier.max(list.list.position());
        let was_present = list.note_absent(hint.page, hint.position);
        if hint.next != NEVER {
            if was_present {
                list.note_present(hint.page, hint.next);
            }
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
            && let Some(at) = self.find(serial)
        {
            self.lists[at].counts.wasted += 1;
            self.lists[at].wasted += 1;
        }
    }

    /// Whether a list of the tenant names the page, for an access that is about to be told.
    pub fn discloses(&self, tenant: TenantId, page: PageId) -> bool {
        let mut lists = self.lists.iter().filter(|list| list.tenant == tenant);
        lists.any(|list| list.list.next_use(page).is_some())
    }

    /// Whether a list names the page.
    pub fn is_named(&self, page: PageId) -> bool {
        self.lists.iter().any(|list| list.list.next_use(page).is_some())
    }

    /// A page of the account comes in, missed by a process or ahead. `named` is the list that the access to
    /// it used, if one did.
    pub fn entering(&mut self, page: PageId, is_ahead: bool, named: Option<u64>) {
        let by = self.lists.iter().position(|list| list.list.next_use(page).is_some());
        let came_for = named.or_else(|| by.map(|at| self.lists[at].serial));
        if came_for.is_none() {
            return;
        }
        let place = if is_ahead { Place::AheadInFlight } else { Place::InFlight };
        self.blocks.add(page, place, came_for);
        if let Some(list) = came_for.and_then(|serial| self.find(serial)).map(|at| &mut self.lists[at]) {
            list.depth.read_begun();
            if is_ahead {
                list.begun(page);
            }
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
            if let Some(at) = came_for.and_then(|serial| self.find(serial)) {
                self.lists[at].counts.prefetched += 1;
                self.lists[at].fetched += 1;
                self.lists[at].judge_waste();
            }
        }
        let mut is_named = false;
        for list in &mut self.lists {
            if let Some(position) = list.list.next_use(page) {
                list.note_present(page, position);
                is_named = true;
            }
        }
        if !is_named {
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
        if let Some(at) = came_for.and_then(|serial| self.find(serial)) {
            self.lists[at].landed(page);
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
        let mut is_named = false;
        for list in &mut self.lists {
            if let Some(position) = list.list.next_use(page) {
                list.note_absent(page, position);
                list.frontier = list.frontier.min(position);
                if was_in_flight || matches!(block.place, Place::Ahead(_)) {
                    list.did_not_stay(position);
                }
                is_named = true;
            }
        }
        if let (Place::Ahead(_), true, false) = (block.place, is_named, block.was_wasted())
            && let Some(at) = block.came_for().and_then(|serial| self.find(serial))
        {
            self.lists[at].counts.lost += 1;
            self.lists[at].wasted += 1;
        }
    }

    /// A list, while it is open.
    pub fn list(&self, serial: u64) -> Option<&HintList> {
        self.lists.iter().find(|list| list.serial == serial).map(|list| &list.list)
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
        let mut room = Room { harmless: room.harmless + self.blocks.spent(), ..room };
        for list in self.lists.iter_mut().filter(|list| list.tenant == tenant) {
            if list.policy.prefetches() && !list.has_strayed {
                let first = out.len();
                list.wants(|page| self.blocks.contains(page), &mut room, passed_over, out);
                list.note_runs(&out[first..]);
            }
        }
    }

    /// The list that would have the page brought in for its use at `position`, if the list goes by prices.
    pub fn priced_list(&self, page: PageId, position: u64) -> Option<HintListId> {
        let mut lists = self.lists.iter().filter(|list| list.policy == HintPolicy::CostBenefit);
        let list = lists.find(|list| list.list.next_use(page) == Some(position))?;
        Some(HintListId { tenant: list.tenant, serial: list.serial })
    }

    /// Blocks of the account that lists concern.
    pub fn blocks(&self) -> u32 {
        self.blocks.len()
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.lists.iter().map(OpenList::metadata_bytes).sum::<usize>() + self.blocks.metadata_bytes()
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
            assert!(
                block.came_for().is_none_or(|serial| self.has(serial)),
                "{page:?} came for another's list"
            );
        }
        self.blocks.check_invariants();
        for list in &self.lists {
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
}
