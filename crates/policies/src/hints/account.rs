//! What an account knows of its future from the lists of its tenants.

use std::collections::{HashMap, VecDeque};

use super::{
    Depth, HintCounts, HintList, HintListId, HintPolicy, ListState, NEVER,
    aggressive::NextUse,
    list::Passed,
    open_list::{OpenList, Room},
    page_map::PageMap,
};
use crate::{
    frame_table::FrameTable,
    ids::{FrameId, PageId, TenantId},
    manager::Want,
};

/// Blocks that one question looks at for each list.
const OFFERS_TRIED: usize = 8;
/// Pages that a reader may have reached before their accesses are told, at most.
const AWAITED_MAX: usize = 64;
/// How far the reader of a list may be ahead of the position that it has told.
const LED_BY: u64 = 32;

/// The block that the lists give up.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Offer {
    pub frame: u32,
    /// In how many steps of the directory's time its page is needed again, as far as the lists tell; infinite
    /// if they name it no further.
    pub distance: f64,
}

/// The open lists of an account, and its blocks that they concern.
///
/// A page that came in for a list and is named no further is *spent*: it goes first, the one read longest ago
/// before the others. Pages that lists name go in the order of their next uses, the farthest first. A page
/// that was in memory before a list named it, and pages that no list names, are the business of the
/// account's manager.
#[derive(Default)]
pub(crate) struct AccountHints {
    lists: Vec<OpenList>,
    /// Blocks of the account, in flight or present, that a list names or brought in.
    blocks: PageMap<Block>,
    /// The number of the block that was spent last. Spent blocks are numbered in order.
    spent: u64,
    /// Spent blocks by number; those whose number has changed are left in until they reach the front.
    spent_order: VecDeque<(u64, PageId)>,
    /// Blocks that are spent.
    spent_len: u32,
}

#[derive(Clone, Copy, Debug)]
struct Block {
    place: Place,
    /// The serial number of the list that it was brought in for.
    came_for: Option<u64>,
    /// Of a spent block: its number.
    spent: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// A process waits for it.
    InFlight,
    /// It is brought in ahead.
    AheadInFlight,
    /// It is brought in ahead, and the reader has passed it over meanwhile.
    PassedInFlight,
    Ahead(u32),
    Resident(u32),
}

impl Place {
    fn frame(self) -> Option<u32> {
        match self {
            Self::Ahead(frame) | Self::Resident(frame) => Some(frame),
            Self::InFlight | Self::AheadInFlight | Self::PassedInFlight => None,
        }
    }

    /// Whether it is brought in ahead, and not there yet.
    fn is_ahead_in_flight(self) -> bool {
        matches!(self, Self::AheadInFlight | Self::PassedInFlight)
    }
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
        if let Some(block) = self.blocks.get_mut(&page) {
            self.spent_len -= u32::from(block.spent.take().is_some());
            if block.place.frame().is_some() {
                list.note_present(page, position);
            }
        } else if let Some(place) = place {
            self.blocks.insert(page, Block { place, came_for: None, spent: None });
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
        list.is_led = true;
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
            if list.awaited.len() == AWAITED_MAX {
                list.awaited.remove(0);
            }
            list.awaited.push(page);
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
        for (page, block) in &mut self.blocks {
            let heir = self.lists.iter_mut().find(|list| list.list.next_use(*page).is_some());
            let is_named = heir.is_some();
            if block.came_for == Some(serial) {
                block.came_for = heir.as_ref().map(|heir| heir.serial);
                match (block.place, heir) {
                    (Place::Ahead(frame), None) => {
                        // A spent one was counted when it was passed, if it was passed unread.
                        counts.wasted += u64::from(block.spent.is_none());
                        unread(frame);
                    }
                    (place, Some(heir)) if place.is_ahead_in_flight() => heir.begun(*page),
                    // What becomes of it is counted there, so it has come in for that.
                    (Place::Ahead(_), Some(heir)) => {
                        counts.prefetched -= 1;
                        heir.counts.prefetched += 1;
                    }
                    _ => {}
                }
            }
            if !is_named && block.came_for.is_none() {
                gone.push(*page);
            }
        }
        for page in gone {
            self.forget(page);
        }
        Some(counts)
    }

    fn forget(&mut self, page: PageId) {
        if let Some(block) = self.blocks.remove(&page) {
            self.spent_len -= u32::from(block.spent.is_some());
        }
    }

    /// `tenant` accessed `page`, at a time of the directory's. Returns the list that named it, if one did.
    pub fn accessed(&mut self, tenant: TenantId, page: PageId, now: u64) -> Option<u64> {
        let mut named = None;
        for at in 0..self.lists.len() {
            let list = &mut self.lists[at];
            if list.tenant != tenant {
                continue;
            }
            if let Some(awaited) = list.awaited.iter().position(|awaited| *awaited == page) {
                list.awaited.remove(awaited);
                named = Some(list.serial);
                continue;
            }
            if list.is_led {
                // The reader may be a few reads ahead of what it has said.
                let next = list.list.next_use(page).filter(|next| next - list.list.position() < LED_BY);
                named = named.or_else(|| next.map(|_| list.serial));
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
        if named.is_none() && self.blocks.get(&page).is_some_and(|block| block.spent.is_some()) {
            // The page has other uses than those that lists name, so it does not go before the others.
            self.forget(page);
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
        let Some(block) = self.blocks.get(&hint.page).copied() else { return };
        if self.is_named(hint.page) {
            return;
        }
        match (block.came_for, block.place) {
            // No list names it any more, and it was not brought in for one.
            (None, _) => self.forget(hint.page),
            (Some(serial), Place::Ahead(_)) if !is_used => {
                self.count_wasted(serial);
                self.spend(hint.page);
            }
            (Some(_), place) if place.is_ahead_in_flight() => {
                let place = if is_used { Place::AheadInFlight } else { Place::PassedInFlight };
                self.blocks.entry(hint.page).and_modify(|block| block.place = place);
            }
            (Some(_), Place::InFlight) => {}
            (Some(_), _) => self.spend(hint.page),
        }
    }

    /// Counts a page that came in for a list and is there, unread, when no list names it any more.
    fn count_wasted(&mut self, serial: u64) {
        if let Some(at) = self.find(serial) {
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

    /// The page goes before all that are named.
    fn spend(&mut self, page: PageId) {
        let Some(block) = self.blocks.get_mut(&page) else { return };
        if block.spent.is_none() {
            self.spent += 1;
            self.spent_len += 1;
            block.spent = Some(self.spent);
            self.spent_order.push_back((self.spent, page));
            // No more than half of the order is out of date.
            if self.spent_order.len() > 2 * self.spent_len as usize + 64 {
                let blocks = &self.blocks;
                self.spent_order.retain(|(number, page)| {
                    blocks.get(page).is_some_and(|block| block.spent == Some(*number))
                });
            }
        }
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
        self.blocks.insert(page, Block { place, came_for, spent: None });
        if let Some(list) = came_for.and_then(|serial| self.find(serial)).map(|at| &mut self.lists[at]) {
            list.depth.read_begun();
            if is_ahead {
                list.begun(page);
            } else if named.is_some() {
                list.waited();
            }
        }
    }

    /// A page of the account that was in flight is there.
    pub fn arrived(&mut self, page: PageId, frame: u32) {
        if !self.blocks.contains_key(&page) && self.is_named(page) {
            // The page is back because it could not be written.
            self.blocks.insert(page, Block { place: Place::InFlight, came_for: None, spent: None });
        }
        let Some(block) = self.blocks.get_mut(&page) else { return };
        let (was_ahead, was_passed) =
            (block.place.is_ahead_in_flight(), block.place == Place::PassedInFlight);
        block.place = if was_ahead { Place::Ahead(frame) } else { Place::Resident(frame) };
        let came_for = block.came_for;
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
                    if was_passed {
                        self.count_wasted(serial);
                    }
                    self.spend(page);
                }
                None => self.forget(page),
            }
        }
    }

    /// The page in `frame`, which came in ahead, was accessed.
    pub fn read_first(&mut self, page: PageId, frame: u32) {
        if let Some(block) = self.blocks.get_mut(&page) {
            block.place = Place::Resident(frame);
        }
    }

    /// A page in flight ahead is there, or does not come.
    fn landed(&mut self, page: PageId, came_for: Option<u64>) {
        if let Some(at) = came_for.and_then(|serial| self.find(serial)) {
            self.lists[at].landed(page);
        }
    }

    /// A page of the account has left, or did not come in after all.
    pub fn left(&mut self, page: PageId) {
        let Some(block) = self.blocks.get(&page).copied() else { return };
        self.forget(page);
        let was_in_flight = block.place.is_ahead_in_flight();
        if was_in_flight {
            self.landed(page, block.came_for);
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
        if let (Place::Ahead(_), true) = (block.place, is_named)
            && let Some(at) = block.came_for.and_then(|serial| self.find(serial))
        {
            self.lists[at].counts.lost += 1;
            self.lists[at].wasted += 1;
        }
    }

    /// How long until the page is needed, in steps of the directory's time, if the lists know: infinite for a
    /// spent page.
    pub fn distance(&self, page: PageId) -> Option<f64> {
        if self.blocks.get(&page).is_some_and(|block| block.spent.is_some()) {
            return Some(f64::INFINITY);
        }
        let lists = self.lists.iter().filter(|list| !list.has_strayed);
        let nearest = lists.filter_map(|list| Some(list.distance(list.list.next_use(page)?)));
        nearest.min_by(f64::total_cmp)
    }

    /// Whether a reader has [reached](Self::reached) the page, and the access is not told yet.
    pub fn is_awaited(&self, page: PageId) -> bool {
        self.lists.iter().any(|list| list.awaited.contains(&page))
    }

    /// How long until a page that comes in is needed, in steps of the directory's time: 0 if a reader waits
    /// for it, or if the lists do not know.
    pub fn needed_in(&self, page: PageId) -> f64 {
        if self.is_awaited(page) { 0.0 } else { self.distance(page).unwrap_or(0.0) }
    }

    /// The block that the lists would give up: a spent one, or that with the farthest next use. None if they
    /// concern no block that could be taken.
    pub fn offer(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        self.offer_spent(busy).or_else(|| self.offer_farthest(busy))
    }

    fn offer_spent(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let is_spent = |blocks: &PageMap<Block>, (number, page): (u64, PageId)| {
            blocks
                .get(&page)
                .filter(|block| block.spent == Some(number))
                .and_then(|block| block.place.frame())
        };
        while let Some(entry) = self.spent_order.front()
            && is_spent(&self.blocks, *entry).is_none()
        {
            self.spent_order.pop_front();
        }
        let spent = self.spent_order.iter().filter_map(|entry| is_spent(&self.blocks, *entry));
        let frame = spent.take(OFFERS_TRIED).find(|frame| !busy(FrameId(*frame)))?;
        Some(Offer { frame, distance: f64::INFINITY })
    }

    fn offer_farthest(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<Offer> {
        let mut best: Option<Offer> = None;
        for list in self.lists.iter().filter(|list| !list.has_strayed) {
            let offers = list.present_by_use().take(OFFERS_TRIED);
            for (_, page) in offers {
                let Some(distance) = self.distance(page) else { continue };
                let Some(frame) = self.blocks.get(&page).and_then(|block| block.place.frame()) else {
                    continue;
                };
                if best.is_some_and(|best| best.distance >= distance) {
                    break;
                }
                if !busy(FrameId(frame)) {
                    let frame = self.yielded(list, busy).unwrap_or(frame);
                    best = Some(Offer { frame, distance });
                    // With several lists, another one may name this page sooner, so that the next page of
                    // this list may be needed later.
                    if self.lists.len() == 1 {
                        break;
                    }
                }
            }
        }
        best
    }

    /// The block that goes instead of the one that the list needs last, at the same price. None with several
    /// lists.
    fn yielded(&self, list: &OpenList, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<u32> {
        if self.lists.len() > 1 {
            return None;
        }
        let pages = list.present_by_yield().take(OFFERS_TRIED);
        let mut frames =
            pages.filter_map(|page| self.blocks.get(&page).and_then(|block| block.place.frame()));
        frames.find(|frame| !busy(FrameId(*frame)))
    }

    /// A list, while it is open.
    pub fn list(&self, serial: u64) -> Option<&HintList> {
        self.lists.iter().find(|list| list.serial == serial).map(|list| &list.list)
    }

    /// For each list that names the page: whose list it is, and how many of the list's reads ahead the page
    /// is. The next read is 1 ahead.
    pub fn reads_until(&self, page: PageId) -> impl Iterator<Item = (TenantId, u64)> {
        self.lists.iter().filter_map(move |list| {
            let next = list.list.next_use(page)?;
            Some((list.tenant, next - list.list.position() + 1))
        })
    }

    /// The frame of the block that each list needs last, busy ones left out.
    pub fn last_of_each(&self, busy: &mut dyn FnMut(FrameId) -> bool) -> Vec<u32> {
        let frame_of = |page: PageId| self.blocks.get(&page).and_then(|block| block.place.frame());
        let lists = self.lists.iter();
        lists
            .filter_map(|list| {
                let mut frames = list.present_by_use().filter_map(|(_, page)| frame_of(page));
                frames.find(|frame| !busy(FrameId(*frame)))
            })
            .collect()
    }

    /// When the block that would go first is needed again, by the reads of the list that needs it first;
    /// `None` if the lists concern no block that could go.
    pub fn next_use_of_victim(&mut self, busy: &mut dyn FnMut(FrameId) -> bool) -> Option<NextUse> {
        if self.offer_spent(busy).is_some() {
            return Some(NextUse::Never);
        }
        let frame = self.offer_farthest(busy)?.frame;
        let here = |list: &OpenList| {
            let at = list
                .present_by_use()
                .find(|(_, page)| self.blocks.get(page).and_then(|block| block.place.frame()) == Some(frame));
            at.map(|(position, _)| position - list.list.position() + 1)
        };
        self.lists.iter().filter_map(here).min().map(NextUse::Ahead)
    }

    /// Whether the page of an offer is needed later than the page in `frame`. If the lists do not know when
    /// that is needed, it is expected to stay idle for as long as it has been.
    pub fn is_later(&self, offer: Offer, frames: &FrameTable, frame: u32, now: u64) -> bool {
        let idle = || now.saturating_sub(frames[frame].last_reference) as f64;
        offer.distance > self.distance(frames[frame].page).unwrap_or_else(idle)
    }

    /// Whether an offer decides alone: there is one list only, and it names each of the account's `owned`
    /// blocks, or the block came in for it.
    pub fn settles(&self, owned: u32) -> bool {
        let is_trusted = matches!(self.lists.as_slice(), [list] if !list.has_strayed);
        is_trusted && self.blocks() >= owned
    }

    /// Appends the pages that the tenant's lists would have brought in now, those of each list in its order.
    ///
    /// `present` tells whether a page that is no block of the account is in memory all the same.
    pub fn wants(
        &mut self,
        tenant: TenantId,
        room: Room,
        present: &mut dyn FnMut(PageId) -> bool,
        out: &mut Vec<Want>,
    ) {
        let mut room = Room { harmless: room.harmless + self.spent_len, ..room };
        for list in self.lists.iter_mut().filter(|list| list.tenant == tenant) {
            if list.policy.prefetches() && !list.has_strayed {
                let first = out.len();
                list.wants(|page| self.blocks.contains_key(&page), &mut room, present, out);
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
        self.blocks.len() as u32
    }

    /// Bytes of memory held.
    pub fn metadata_bytes(&self) -> usize {
        self.lists.iter().map(OpenList::metadata_bytes).sum::<usize>()
            + self.blocks.capacity() * size_of::<(PageId, Block)>()
            + self.spent_order.capacity() * size_of::<(u64, PageId)>()
    }

    /// Panics if the state contradicts itself or the frames, of which `is_own` tells those of the account.
    /// For tests.
    pub fn check_invariants(&self, frames: &FrameTable, is_own: impl Fn(u32) -> bool) {
        let mut in_flight: HashMap<u64, u32> = HashMap::new();
        for (page, block) in &self.blocks {
            if let Some(frame) = block.place.frame() {
                assert!(is_own(frame), "{page:?} in {frame} is another account's");
                assert!(
                    frames.is_present(FrameId(frame)) && frames[frame].page == *page,
                    "{page:?} in {frame}"
                );
            }
            if let (true, Some(serial)) = (block.place.is_ahead_in_flight(), block.came_for) {
                *in_flight.entry(serial).or_default() += 1;
            }
            assert!(block.spent.is_none() || !self.is_named(*page), "{page:?} is spent and named");
            assert!(block.came_for.is_some() || self.is_named(*page), "{page:?} concerns no list");
        }
        assert_eq!(
            self.blocks.values().filter(|block| block.spent.is_some()).count(),
            self.spent_len as usize
        );
        for list in &self.lists {
            list.check_invariants();
            assert_eq!(
                list.pages_in_flight(),
                in_flight.get(&list.serial).copied().unwrap_or(0),
                "pages in flight"
            );
            for (position, page) in list.present_by_use() {
                assert_eq!(list.list.next_use(page), Some(position), "next use of {page:?}");
                assert!(
                    self.blocks.get(&page).is_some_and(|block| block.place.frame().is_some()),
                    "{page:?}"
                );
            }
            let named = self.blocks.iter().filter(|(page, block)| {
                block.place.frame().is_some() && list.list.next_use(**page).is_some()
            });
            assert_eq!(named.count(), list.present_len(), "named blocks");
            assert_eq!(list.present_by_use().count(), list.present_len(), "positions of named blocks");
            let below =
                list.list.from(list.list.position()).take_while(|(position, _)| *position < list.frontier);
            for (position, page) in below {
                assert!(self.blocks.contains_key(&page), "{page:?} at {position} is missing");
            }
        }
    }
}
