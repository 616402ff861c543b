//! The directory: one deterministic state machine that holds residency, the allocation ledger, placeholders,
//! tenants, managers and statistics.
//!
//! It is driven by events and answers one question, [`Directory::admit`]: a page must come in, so which frame
//! does it get? The driver (the live pool, or the simulator) knows where pages are, moves the bytes, and says
//! what became of them. Methods are of four kinds:
//!
//! * *events*: [`hit`](Directory::hit), [`loaded`](Directory::loaded), [`failed`](Directory::failed),
//!   [`restore`](Directory::restore), [`discard`](Directory::discard), [`forget`](Directory::forget);
//! * *questions*, answered with a decision that the driver carries out: [`admit`](Directory::admit),
//!   [`admit_ahead`](Directory::admit_ahead), [`shrink`](Directory::shrink);
//! * *tenants*: opening, closing, floors, caps, managers and directives;
//! * *looking*, which changes nothing.
//!
//! Blocks are owned by tenants, and lie in *accounts*: an account is a list of the ledger with a manager, a
//! floor and a cap. A tenant has an account of its own, unless it is in the
//! [*commons*](Directory::join_commons). For other accounts the commons is one tenant with the sum of its
//! members' blocks; its members are not protected from each other.
//!
//! Nothing is allocated by events and questions, directives apart. A hit costs O(1), plus O(log accounts)
//! when the block was its account's next candidate; a miss the same, plus a step for each busy frame passed
//! and the manager's choice.

mod departures;
mod disclosed;
mod prices;
mod question;
mod tenants;

use std::{cmp::Reverse, collections::BinaryHeap, ops::RangeInclusive};

pub use crate::ids::FRAMES_MAX;
use departures::Departures;
pub use departures::PageWorth;
pub use disclosed::HintOptions;
pub use prices::NextFrame;
pub use question::{Admission, Claims, Decision, Eviction};

use crate::{
    allocation::{Allocate, Allocation, Arrival, Ledger, LevelOne},
    error::DirectoryError,
    frame_table::{FrameState, FrameTable, Origin},
    hints::{HintCounts, HintListId},
    ids::{Access, AccountId, ContextId, FileId, FrameId, PageId, TenantId},
    list::NIL,
    manager::{Control, Panicked, ProgramStats, StreamReport, Want, Wish, drop_control},
    tenant::{Account, Standing, Tenant, TenantStats},
};

/// The tenant that is always open: unmanaged until it gives a directive, no floor, no cap.
pub const DEFAULT_TENANT: TenantId = TenantId(0);

/// Pages that a manager is told of at once before they come or go.
const PREFETCHED_AT_ONCE: usize = 64;

/// What a directory is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryOptions {
    /// Frames to fill: 1 to [`FRAMES_MAX`].
    pub frames: u32,
    /// How frames are allocated to tenants.
    pub allocation: Allocation,
    /// Whether a manager that keeps being wrong loses its say.
    pub revocation: bool,
    /// Whether pages that another tenant uses are protected from the owner's manager. Costs 8 bytes a frame.
    pub shared_pages: bool,
}

/// What a miss is likely to change: advice for [`Directory::places_of_miss`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissHint {
    /// The frame that the next question looks at first, as far as it is known.
    pub victim: FrameId,
    /// The page in it.
    pub page: PageId,
    /// The one after it.
    pub next: FrameId,
    /// The number of the missing tenant's account.
    pub account: u32,
}

/// What a hit meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitOutcome {
    /// Whether the block stayed by an overrule that thereby turned out right.
    pub vindicated: bool,
    /// Whether this was the first access to a page that came in ahead.
    pub first: bool,
}

/// The state machine. See the [module](self).
///
/// Invariants, checked by [`check_invariants`](Self::check_invariants):
///
/// 1. Each frame is free, in flight, resident or in limbo (the driver's); those in flight or resident are in
///    exactly one ledger list, that of their owner's account, whose stamps increase from head to tail.
/// 2. A resident block of an account with priority pools is in exactly one of its levels; a block that came
///    in ahead and was not accessed yet is in none.
/// 3. The placeholder index and the frames' claims are inverse maps; no resident page has a placeholder.
/// 4. `all_heads` has the stamp of each account's ledger head; `open_heads` the same for accounts above their
///    floor.
pub struct Directory {
    /// Frames, accounts and tenants, and the order in which they give up frames.
    ledger: Ledger,
    /// Which of them does, and what their managers' overrules come to.
    level_one: LevelOne,
    /// Frames that pages may fill at a time; the table has the spare ones too.
    capacity: u32,
    /// The account that tenants have in common, from the first one that joins on.
    commons: Option<AccountId>,
    /// Pages that tenants share are protected.
    shared_pages: bool,
    /// Per frame, when a tenant of another account last referenced it; empty unless shared pages are
    /// protected and there is a second tenant.
    foreign: Vec<i64>,
    /// Accounts with open lists of disclosed reads.
    hinted: u32,
    /// Lists opened so far: the serial number of the latest.
    hint_lists: u64,
    /// Lists that ended because their tenants left the commons, as long as their readers have not closed
    /// them.
    ended_hints: Vec<(HintListId, HintCounts)>,
    /// Whether it matters who accesses a block: shared pages are protected, or there are open lists.
    watches_accessors: bool,
    /// Numbers for the next tenants, the lowest first: all slots that are vacant, and some that were. Has
    /// room for all tenants.
    vacant_tenants: BinaryHeap<Reverse<TenantId>>,
    /// The accounts that are vacant, the lowest first.
    vacant_accounts: BinaryHeap<Reverse<AccountId>>,
    /// Counts of tenants whose slots have been reused.
    departed: TenantStats,
    /// What pages that leave are worth; none unless a driver asks for it.
    departures: Option<Box<Departures>>,
}

impl Directory {
    /// A directory of empty frames with the default tenant. Allocates for all frames.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::FramesOutOfRange`] for 0 frames or more than [`FRAMES_MAX`].
    pub fn new(options: DirectoryOptions) -> Result<Self, DirectoryError> {
        let DirectoryOptions { frames, allocation, revocation, shared_pages } = options;
        if !(1..=FRAMES_MAX).contains(&frames) {
            return Err(DirectoryError::FramesOutOfRange { frames });
        }
        let mut directory = Self {
            ledger: Ledger::new(frames),
            level_one: LevelOne::new(allocation, frames, revocation),
            capacity: frames,
            commons: None,
            shared_pages,
            foreign: Vec::new(),
            hinted: 0,
            hint_lists: 0,
            ended_hints: Vec::new(),
            watches_accessors: false,
            vacant_tenants: BinaryHeap::new(),
            vacant_accounts: BinaryHeap::new(),
            departed: TenantStats::default(),
            departures: None,
        };
        directory.add_tenant(0, frames);
        Ok(directory)
    }

    /// Adds frames that hold no page and are the driver's, for [`relocate`](Self::relocate). They follow
    /// those there are, and change nothing of how many pages fit.
    ///
    /// # Errors
    ///
    /// [`DirectoryError::FramesOutOfRange`] if that makes more than [`FRAMES_MAX`].
    pub fn add_spares(&mut self, spares: u32) -> Result<(), DirectoryError> {
        let frames = self.ledger.frames.len().saturating_add(spares);
        if frames > FRAMES_MAX {
            return Err(DirectoryError::FramesOutOfRange { frames });
        }
        self.ledger.frames.add(spares, FrameState::Limbo);
        if !self.foreign.is_empty() {
            self.foreign.reserve_exact(spares as usize);
            self.foreign.resize(frames as usize, i64::MIN);
        }
        Ok(())
    }

    /// `access` found its page in `frame`, which is resident.
    pub fn hit(&mut self, frame: FrameId, access: &Access) -> HitOutcome {
        debug_assert!(
            self.ledger.frames.is_present(frame) && self.ledger.frames[frame.0].page == access.page
        );
        let stats = &mut self.ledger.tenants[access.tenant.index()].stats;
        stats.accesses += 1;
        stats.hits += 1;
        // The first access to a page that came in ahead is the one that it came in for.
        if let Some(departures) = &mut self.departures
            && self.ledger.frames[frame.0].state != FrameState::Ahead
        {
            departures.accessed(frame);
        }
        self.reference(frame.0, access)
    }

    /// From here on [`worth_of_last`](Self::worth_of_last) is to be known. One bit a frame.
    pub fn watch_departures(&mut self) {
        self.departures.get_or_insert_with(|| Box::new(Departures::new()));
    }

    /// Whether the page that left last is likely to be missed. None unless departures are
    /// [watched](Self::watch_departures).
    pub fn worth_of_last(&self) -> Option<PageWorth> {
        self.departures.as_ref().map(|departures| departures.last())
    }

    /// References and loads between the last use of the page that left last and its leaving. None unless
    /// departures are [watched](Self::watch_departures).
    pub fn age_of_last(&self) -> Option<u64> {
        self.departures.as_ref().map(|departures| departures.last_age())
    }

    /// `hits` accesses of `tenant` found their pages and were not told one by one, as
    /// [`may_skip_hits`](Self::may_skip_hits) allows. They count, and move nothing.
    pub fn hits_skipped(&mut self, tenant: TenantId, hits: u64) {
        let state = &mut self.ledger.tenants[tenant.index()];
        state.stats.accesses += hits;
        state.stats.hits += hits;
        self.accessed(self.ledger.account(tenant), hits);
    }

    /// Whether a driver may leave out a hit on the page in `frame` that follows another one after a time that
    /// is short compared to the [`span`](Self::span) of the ledger. Such a hit would change only the order
    /// near the ledger's tail. False for blocks of a tenant with directives, with a manager that [asks for
    /// every hit](crate::Manager::needs_every_hit), or with a cap below half of the frames, and for pages
    /// that a list of disclosed reads names.
    pub fn may_skip_hits(&self, frame: FrameId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        let account = self.account(slot.owner);
        account.cap_frames >= self.frames() / 2
            && !account.control.needs_every_hit(slot.page)
            && !self.is_named_by_any(slot.page)
    }

    /// Whether an open list names the page, whoever owns it.
    fn is_named_by_any(&self, page: PageId) -> bool {
        let hints_of = |account: &AccountId| self.ledger.accounts[account.index()].hints.as_ref();
        self.hinted > 0 && self.ledger.hinting.iter().filter_map(hints_of).any(|hints| hints.is_named(page))
    }

    /// References and loads so far: the directory's time.
    pub fn now(&self) -> u64 {
        self.ledger.now as u64
    }

    /// How old pages get, in references and loads: the time since the last use of the candidate that last
    /// made room. All the time there has been, if none has yet.
    pub fn span(&self) -> u64 {
        (self.ledger.now - self.ledger.departed_stamp) as u64
    }

    /// Touches what [`hit`](Self::hit) will touch of `frames`, so that it comes from memory side by side and
    /// not one after the other.
    pub fn prefetch(&self, frames: impl Iterator<Item = FrameId> + Clone) {
        let frames = frames.filter(|frame| frame.0 < self.ledger.frames.len());
        let (slots, links) = (&self.ledger.frames, &self.ledger.frames.ledger_links);
        // First what is known of the frames themselves, then of their neighbours in the ledger.
        let mut first_ahead = None;
        let mut touched = 0;
        for frame in frames.clone() {
            if slots[frame.0].state == FrameState::Ahead {
                first_ahead.get_or_insert(frame);
            }
            touched ^= links.next(frame.0);
        }
        for frame in frames.clone() {
            touched ^= links.touch(frame.0);
        }
        std::hint::black_box(touched);
        if let Some(first) = first_ahead {
            let is_ahead = |frame: &FrameId| slots[frame.0].state == FrameState::Ahead;
            self.prefetch_pages(first, frames.filter(is_ahead));
        }
    }

    /// The addresses of what a miss of `tenant` is likely to change, found without reading any of it. A
    /// driver can prefetch them all at once, which pays above all where another processor's cache has them.
    pub fn places_of_miss(&self, tenant: TenantId, hint: MissHint) -> [*const u8; 7] {
        let Ledger { frames, accounts, now, .. } = &self.ledger;
        let [slot, links] = frames.places_of(hint.victim.0);
        let tenant = self.place_of_tenant(tenant);
        let account = accounts.as_ptr().wrapping_add(hint.account as usize).cast();
        let [next, _] = frames.places_of(hint.next.0);
        [tenant, account, slot, links, next, std::ptr::from_ref(now).cast(), self.ledger.place_of_heads()]
    }

    /// Where the counts of `tenant` are, for a driver that is about to count accesses of several.
    pub fn place_of_tenant(&self, tenant: TenantId) -> *const u8 {
        std::ptr::from_ref(&self.ledger.tenants[tenant.index()]).cast()
    }

    /// What the next miss is likely to change, if it is one of `tenant`.
    pub fn miss_hint(&self, tenant: TenantId) -> Option<MissHint> {
        let [victim, next] = self.ledger.next_two().filter(|_| self.free_frames() == 0)?;
        Some(MissHint {
            victim: FrameId(victim),
            page: self.ledger.frames[victim].page,
            next: FrameId(next),
            account: self.ledger.account(tenant).0,
        })
    }

    /// Prefetches what the manager of the next page to go will look up by page, for that page and for the
    /// others that are likely to be among the next `count` to go.
    pub fn prefetch_upcoming(&self, count: usize) {
        if let Some(first) = self.upcoming().next() {
            self.prefetch_pages(first, self.upcoming().take(count));
        }
    }

    /// Touches what the manager of the first frame's block looks up by page when the pages in `frames` come
    /// or go.
    fn prefetch_pages(&self, first: FrameId, frames: impl Iterator<Item = FrameId>) {
        let account = self.ledger.account(self.ledger.frames[first.0].owner);
        let control = &self.ledger.accounts[account.index()].control;
        if !control.is_managed() {
            return;
        }
        let mut pages = frames.map(|frame| self.ledger.frames[frame.0].page).peekable();
        while pages.peek().is_some() {
            let mut some = [PageId(0); PREFETCHED_AT_ONCE];
            let count = some.iter_mut().zip(&mut pages).map(|(place, page)| *place = page).count();
            control.prefetch_pages(&some[..count]);
        }
    }

    /// As [`prefetch`](Self::prefetch), what the manager of the first frame's block will touch. Pays where
    /// there are more blocks than the processor's second cache has room for.
    pub fn prefetch_managed(&self, mut frames: impl Iterator<Item = FrameId> + Clone) {
        let Some(first) = frames.clone().next().filter(|frame| self.ledger.frames.is_present(*frame)) else {
            return;
        };
        let account = self.ledger.account(self.ledger.frames[first.0].owner);
        self.ledger.accounts[account.index()].control.prefetch(&mut frames);
    }

    /// The frames that questions look at next if no frame is free, as far as they lie in one account's list
    /// and no placeholder, cap or manager says otherwise: for drivers that have to fetch what they know of
    /// them.
    pub fn upcoming(&self) -> impl Iterator<Item = FrameId> {
        self.ledger.upcoming().take_while(|_| self.free_frames() == 0).map(FrameId)
    }

    /// The page admitted to `frame` has been read. A driver that keeps the page busy until it has been read
    /// may tell this at once; if the read then fails, it tells [`failed`](Self::failed) as well.
    pub fn loaded(&mut self, frame: FrameId) {
        let owner = self.ledger.frames[frame.0].owner;
        let page = self.ledger.frames[frame.0].page;
        if let Some(hints) = &mut self.ledger.account_of(owner).hints {
            hints.arrived(page, frame.0);
        }
        if self.ledger.frames[frame.0].state == FrameState::AheadInFlight {
            self.ledger.frames[frame.0].state = FrameState::Ahead;
            self.ledger.tenants[owner.index()].stats.prefetched += 1;
            if self.knows_ahead(owner) {
                self.tell(owner, |control, frames| control.block_ahead(frames, frame.0));
            }
            return;
        }
        debug_assert_eq!(self.ledger.frames[frame.0].state, FrameState::InFlight);
        self.ledger.frames[frame.0].state = FrameState::Resident;
        self.tell(owner, |control, frames| control.new_block(frames, frame.0));
    }

    /// The page admitted to `frame` for `tenant` could not be read: the frame is free, and no access is
    /// counted.
    pub fn failed(&mut self, frame: FrameId, tenant: TenantId) {
        self.withdraw(frame.0, tenant);
        self.ledger.frames.push_free(frame.0);
    }

    /// As [`failed`](Self::failed), but `frame` cannot be used yet: it is the driver's, like a spare one,
    /// until it [releases](Self::release) it.
    pub fn set_aside(&mut self, frame: FrameId, tenant: TenantId) {
        self.withdraw(frame.0, tenant);
    }

    /// The victim that [`admit`](Self::admit) named could not be written, so `frame` holds it again: `page`
    /// of `file`, owned by `owner` and referenced just now. The access by `tenant` is not counted. A closed
    /// owner whose last block this was has it again.
    pub fn restore(&mut self, frame: FrameId, page: PageId, file: FileId, owner: TenantId, tenant: TenantId) {
        if matches!(self.ledger.frames[frame.0].state, FrameState::InFlight | FrameState::AheadInFlight) {
            self.withdraw(frame.0, tenant);
        }
        debug_assert_eq!(self.ledger.frames[frame.0].state, FrameState::Limbo);
        let evictions = &mut self.ledger.tenants[owner.index()].stats.evictions;
        // The number may be another tenant's by now, which has not counted it.
        *evictions = evictions.saturating_sub(1);
        if let Some(claimed) = self.level_one.placeholder(&self.ledger, page) {
            self.level_one.placeholder_met(&mut self.ledger, claimed, Arrival::Restored);
        }
        let origin = Origin { file, context: ContextId(0), created: false };
        self.enter(frame.0, page, origin, owner, Arrival::Restored);
        self.loaded(frame);
    }

    /// The resident page in `frame` ends: truncated, discarded, its file removed. The frame is free.
    pub fn discard(&mut self, frame: FrameId) {
        debug_assert!(self.ledger.frames.is_present(frame));
        self.remove(frame.0, false);
        self.ledger.frames.push_free(frame.0);
    }

    /// The identity of the absent pages among `pages` ends. Costs a step a frame.
    pub fn forget(&mut self, pages: &RangeInclusive<PageId>) {
        if self.level_one.placeholders() == 0 {
            return;
        }
        for frame in 0..self.ledger.frames.len() {
            if self.ledger.frames[frame].has_claim() && pages.contains(&self.ledger.frames.claimant(frame)) {
                self.level_one.claim_ended(&mut self.ledger, frame);
            }
        }
    }

    /// Number of frames, without spare ones: how many pages fit.
    pub fn frames(&self) -> u32 {
        self.capacity
    }

    /// The resident page in `frame`.
    pub fn page(&self, frame: FrameId) -> Option<PageId> {
        self.ledger.frames.is_present(frame).then(|| self.ledger.frames[frame.0].page)
    }

    /// Whose block is in `frame`.
    pub fn owner(&self, frame: FrameId) -> Option<TenantId> {
        self.ledger.frames.is_present(frame).then(|| self.ledger.frames[frame.0].owner)
    }

    /// From where the block in `frame` was loaded.
    pub fn context(&self, frame: FrameId) -> ContextId {
        self.ledger.frames.origin(frame.0).context
    }

    /// Whether `frame` has `page`, brought in [ahead](Self::admit_ahead) and not accessed since.
    pub fn is_ahead(&self, frame: FrameId, page: PageId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        slot.page == page && slot.state == FrameState::Ahead
    }

    /// As [`is_ahead`](Self::is_ahead), for a page that is still on its way.
    pub fn is_ahead_in_flight(&self, frame: FrameId, page: PageId) -> bool {
        let slot = &self.ledger.frames[frame.0];
        slot.page == page && slot.state == FrameState::AheadInFlight
    }

    /// Pages that came in so far, missed, created or ahead.
    pub fn arrivals(&self) -> u64 {
        self.ledger.arrivals
    }

    /// References and loads since the page in `frame` was referenced or loaded.
    pub fn age(&self, frame: FrameId) -> u64 {
        self.ledger.now as u64 - self.ledger.frames[frame.0].last_reference
    }

    /// A page that came in ahead will not be needed after all: it is the next to go. Does nothing to other
    /// pages.
    pub fn demote(&mut self, frame: FrameId) {
        if self.ledger.frames[frame.0].state == FrameState::Ahead {
            self.level_one.demoted(&mut self.ledger, frame.0);
        }
    }

    /// The present page in `frame` is the next to go, because it can be had again cheaply; its manager may
    /// think otherwise.
    pub fn put_first(&mut self, frame: FrameId) {
        debug_assert!(self.ledger.frames.is_present(frame));
        self.level_one.demoted(&mut self.ledger, frame.0);
    }

    /// Frames that `tenant` owns, those in flight included.
    pub fn resident(&self, tenant: TenantId) -> u32 {
        self.ledger.tenants[tenant.index()].frames
    }

    /// The frames that no other tenant can take from the tenant.
    pub fn floor_frames(&self, tenant: TenantId) -> u32 {
        self.account(tenant).floor_frames
    }

    /// The most frames that the tenant may have, at most all.
    pub fn cap_frames(&self, tenant: TenantId) -> u32 {
        self.account(tenant).cap_frames
    }

    /// All floors together.
    pub fn floors_frames(&self) -> u64 {
        self.ledger.floors_frames()
    }

    /// The account that the tenant has alone or in common with others.
    fn account(&self, tenant: TenantId) -> &Account {
        &self.ledger.accounts[self.ledger.account(tenant).index()]
    }

    /// Whether the tenant has more frames than its cap, which was lowered while they were busy.
    pub fn is_above_cap(&self, tenant: TenantId) -> bool {
        let account = self.account(tenant);
        account.ledger.len() > account.cap_frames
    }

    /// Whether the tenant's blocks are in the [commons](Self::join_commons).
    pub fn is_in_commons(&self, tenant: TenantId) -> bool {
        self.commons == Some(self.ledger.account(tenant))
    }

    /// Whether the tenant has a manager, revoked or not, of its own or in common with others.
    pub fn is_managed(&self, tenant: TenantId) -> bool {
        self.account(tenant).control.is_managed()
    }

    /// Whether the tenant is managed by directives.
    pub fn has_directives(&self, tenant: TenantId) -> bool {
        matches!(self.account(tenant).control, Control::Pools(_))
    }

    /// Whether the tenant's manager is not asked for now, because it was wrong too often.
    pub fn is_revoked(&self, tenant: TenantId) -> bool {
        self.account(tenant).is_revoked
    }

    /// Whether the tenant's manager knows of its blocks before their first access, and may
    /// [want](Self::wants) pages.
    pub fn knows_ahead(&self, tenant: TenantId) -> bool {
        self.account(tenant).knows_ahead
    }

    /// Appends the pages that the tenant's manager would have brought in ahead, at most
    /// [`WANTS_MAX`](crate::WANTS_MAX), for `frames_left` frames; none while the manager is revoked. They are
    /// the manager's word: the driver checks them.
    pub fn wants(&mut self, tenant: TenantId, frames_left: u32, out: &mut Vec<Want>) {
        if self.knows_ahead(tenant) && !self.is_revoked(tenant) {
            self.tell(tenant, |control, _| control.wants(frames_left, out));
        }
    }

    /// The oldest wish of the tenant's manager that was not taken yet; none while it is revoked. The driver
    /// asks after questions whose answer was the tenant's, until there is none.
    pub fn take_wish(&mut self, tenant: TenantId) -> Option<Wish> {
        if self.is_revoked(tenant) {
            return None;
        }
        let mut wish = None;
        self.tell(tenant, |control, _| control.take_wish().map(|taken| wish = taken));
        wish
    }

    /// What the program of the tenant's manager did, if it runs one.
    pub fn program_stats(&self, tenant: TenantId) -> Option<ProgramStats> {
        self.account(tenant).control.program_stats()
    }

    /// Counts of one tenant.
    pub fn tenant_stats(&self, tenant: TenantId) -> TenantStats {
        self.ledger.tenants[tenant.index()].stats
    }

    /// Shows what the tenant's manager knows of each stream; nothing in the commons. A manager that panics
    /// meanwhile shows no more, and stays.
    pub fn streams(&self, tenant: TenantId, show: &mut dyn FnMut(&StreamReport)) {
        self.streams_from(Some(tenant), 0, usize::MAX, show);
    }

    /// As [`streams`](Self::streams), for `count` streams from the one with number `first` on. Without a
    /// `tenant`, shows those of the manager of the commons. Returns whether there may be more. Costs
    /// O(`count`).
    pub fn streams_from(
        &self,
        tenant: Option<TenantId>,
        first: usize,
        count: usize,
        show: &mut dyn FnMut(&StreamReport),
    ) -> bool {
        let own = tenant.map(|tenant| self.ledger.account(tenant));
        let is_common = own.is_some() && own == self.commons;
        let Some(account) = own.or(self.commons).filter(|_| !is_common && count > 0) else { return false };
        let mut shown = 0;
        let _ = self.ledger.accounts[account.index()].control.streams(first, &mut |stream| {
            show(stream);
            shown += 1;
            shown < count
        });
        shown == count
    }

    /// Counts of all tenants, past ones included.
    pub fn stats(&self) -> TenantStats {
        let mut sum = self.departed;
        self.ledger.tenants.iter().for_each(|tenant| sum.add(&tenant.stats));
        sum
    }

    /// Appends to `out` the `count` resident frames nearest the ledger's head, nearest first: the pages that
    /// plain LRU would evict next, or FIFO under [`Allocation::Fifo2Sp`], whose ledger is in the order of
    /// arrival. Costs O((count + accounts) log accounts) and allocates.
    pub fn coldest(&self, count: usize, out: &mut Vec<FrameId>) {
        use std::cmp::Reverse;
        let heads =
            self.ledger.accounts.iter().map(|account| account.ledger.head()).filter(|head| *head != NIL);
        let mut next: BinaryHeap<_> =
            heads.map(|head| Reverse((self.ledger.frames[head].stamp, head))).collect();
        let wanted = out.len() + count;
        while out.len() < wanted {
            let Some(Reverse((_, frame))) = next.pop() else { break };
            if self.ledger.frames[frame].state == FrameState::Resident {
                out.push(FrameId(frame));
            }
            let after = self.ledger.frames.ledger_links.next(frame);
            if after != NIL {
                next.push(Reverse((self.ledger.frames[after].stamp, after)));
            }
        }
    }

    /// Bytes of memory held, managers included.
    pub fn metadata_bytes(&self) -> usize {
        let controls = self.ledger.accounts.iter().map(|account| account.control.metadata_bytes());
        // Managers may say anything.
        let controls = controls.fold(0, usize::saturating_add);
        let own = self.ledger.metadata_bytes()
            + self.level_one.metadata_bytes()
            + self.foreign.capacity() * size_of::<i64>()
            + self.departures.as_ref().map_or(0, |departures| departures.metadata_bytes())
            + self.vacant_tenants.capacity() * size_of::<TenantId>()
            + self.vacant_accounts.capacity() * size_of::<AccountId>()
            + self
                .ledger
                .accounts
                .iter()
                .filter_map(|account| account.hints.as_ref())
                .map(|hints| hints.metadata_bytes())
                .sum::<usize>();
        own.saturating_add(controls)
    }

    /// Recounts everything and panics where it contradicts itself. For tests: costs a step for each frame and
    /// tenant, O(frames x tenants).
    pub fn check_invariants(&self) {
        let listed: usize = (0..self.ledger.accounts.len()).map(|number| self.check_account(number)).sum();
        for (number, tenant) in self.ledger.tenants.iter().enumerate() {
            self.check_tenant(TenantId(number as u32), tenant);
        }
        let all = self.ledger.frames.len();
        let in_state = |state| (0..all).filter(|frame| self.ledger.frames[*frame].state == state).count();
        self.ledger.frames.check_free();
        assert_eq!(listed + in_state(FrameState::Free) + in_state(FrameState::Limbo), all as usize, "frames");
        assert!(listed + in_state(FrameState::Free) <= self.frames() as usize, "more pages than fit");
        self.level_one.check_invariants(&self.ledger);
        for frame in (0..all).filter(|frame| self.ledger.frames.is_present(FrameId(*frame))) {
            let placeholder = self.level_one.placeholder(&self.ledger, self.ledger.frames[frame].page);
            assert_eq!(placeholder, None, "the resident page of frame {frame} has a placeholder");
        }
    }

    /// Returns how many frames the account has.
    fn check_account(&self, number: usize) -> usize {
        let (account, id) = (&self.ledger.accounts[number], AccountId(number as u32));
        self.ledger.check_account(id);
        let list: Vec<u32> = account.ledger.iter(&self.ledger.frames.ledger_links).collect();
        let states = |state| list.iter().filter(|frame| self.ledger.frames[**frame].state == state).count();
        let in_flight = states(FrameState::InFlight) + states(FrameState::AheadInFlight);
        let known = states(FrameState::Resident);
        assert_eq!(in_flight + known + states(FrameState::Ahead), list.len(), "states of account {number}");
        match &account.control {
            Control::Pools(pools) => pools.check_invariants(&self.ledger.frames, known),
            Control::Manager(managed) => managed.check_invariants(),
            Control::None => {}
        }
        if let Some(hints) = &account.hints {
            assert!(!hints.is_empty(), "no list is open");
            let is_own = |frame: u32| self.ledger.account(self.ledger.frames[frame].owner) == id;
            hints.check_invariants(&self.ledger.frames, is_own);
        }
        let members = self.ledger.tenants.iter().filter(|tenant| tenant.account == id);
        let expected = if self.commons == Some(id) { 0..=self.ledger.tenants.len() } else { 1..=1 };
        assert!(account.is_vacant || expected.contains(&members.count()), "members of account {number}");
        let is_known = self.vacant_accounts.iter().any(|vacant| vacant.0 == id);
        assert_eq!(account.is_vacant, is_known, "account {number} is known as vacant");
        assert!(
            !account.is_vacant || list.is_empty() && !account.control.is_managed(),
            "vacant account {number}"
        );
        list.len()
    }

    fn check_tenant(&self, id: TenantId, tenant: &Tenant) {
        let is_own = |frame: &u32| {
            let slot = &self.ledger.frames[*frame];
            slot.owner == id && !matches!(slot.state, FrameState::Free | FrameState::Limbo)
        };
        let own: Vec<u32> = (0..self.ledger.frames.len()).filter(is_own).collect();
        assert_eq!(own.len(), tenant.frames as usize, "frames of {id:?}");
        let is_empty = tenant.standing != Standing::Closed || tenant.frames > 0;
        assert!(
            is_empty && (tenant.standing != Standing::Vacant || tenant.frames == 0),
            "standing of {id:?}"
        );
        let known = self.vacant_tenants.iter().filter(|vacant| vacant.0 == id).count();
        assert_eq!(known, usize::from(tenant.is_in_vacant), "{id:?} is known as vacant");
        assert!(tenant.is_in_vacant || tenant.standing != Standing::Vacant, "{id:?} is known as vacant");
        let stats = &tenant.stats;
        let ahead = own.iter().filter(|frame| self.ledger.frames[**frame].state == FrameState::Ahead).count();
        let unused = stats.prefetched - stats.prefetch_used - stats.prefetch_wasted;
        assert_eq!(ahead as u64, unused, "unused prefetched pages of {id:?}");
        let claims = own.iter().filter(|frame| self.ledger.frames[**frame].has_claim()).count();
        assert_eq!(claims as u64, stats.outstanding, "outstanding overrules of {id:?}");
    }

    /// The HIT step of LRU-SP.
    #[inline]
    fn reference(&mut self, frame: u32, access: &Access) -> HitOutcome {
        self.ledger.now += 1;
        let slot = &mut self.ledger.frames[frame];
        slot.last_reference = self.ledger.now as u64;
        let (owner, is_special) = (slot.owner, slot.has_claim() | (slot.state == FrameState::Ahead));
        let id = self.ledger.account(owner);
        let mut was_head = false;
        let orders_by_use = self.level_one.orders_by_use();
        if orders_by_use {
            was_head = self.ledger.renew(id, frame);
        }
        let account = &mut self.ledger.accounts[id.index()];
        if was_head | is_special | account.is_revoked | self.watches_accessors | !orders_by_use {
            return self.reference_special(frame, access, was_head);
        }
        if account.control.block_accessed(&mut self.ledger.frames, frame, access).is_err() {
            self.dismiss(owner);
        }
        HitOutcome { vindicated: false, first: false }
    }

    /// The rest of [`reference`](Self::reference) where more is to do than to tell the manager: the block was
    /// its account's next candidate, stayed because of an overrule, or came in ahead; it matters who accesses
    /// it; its owner's manager is revoked; or the allocation does not order by use.
    #[inline(never)]
    fn reference_special(&mut self, frame: u32, access: &Access, was_head: bool) -> HitOutcome {
        let slot = &self.ledger.frames[frame];
        let (owner, vindicated, first) = (slot.owner, slot.has_claim(), slot.state == FrameState::Ahead);
        let id = self.ledger.account(owner);
        self.accessed(id, 1);
        if was_head {
            self.ledger.ledger_changed(id);
        }
        if !self.foreign.is_empty() && self.ledger.account(access.tenant) != id {
            self.foreign[frame as usize] = self.ledger.now;
        }
        let is_named = self.hinted > 0 && self.accessed_by(access).is_some();
        if !self.level_one.orders_by_use() {
            self.level_one.referenced(&mut self.ledger, access.tenant, frame, is_named);
        }
        if vindicated {
            self.level_one.vindicated(&mut self.ledger, frame);
            self.ledger.tenants[owner.index()].stats.vindications += 1;
        }
        if first {
            self.first_access(frame, access);
        } else {
            self.tell(owner, |control, frames| control.block_accessed(frames, frame, access));
        }
        HitOutcome { vindicated, first }
    }

    /// `accesses` found blocks of the account.
    #[inline]
    fn accessed(&mut self, account: AccountId, accesses: u64) {
        self.level_one.accessed(&mut self.ledger, account, accesses);
    }

    /// A page that came in ahead is accessed for the first time. Its owner's manager is told only now that
    /// the page has come in, as if by this access. So reading ahead changes when a manager sees a page come
    /// in, and nothing else.
    #[cold]
    fn first_access(&mut self, frame: u32, access: &Access) {
        let owner = self.ledger.frames[frame].owner;
        self.ledger.frames[frame].state = FrameState::Resident;
        if let Some(hints) = &mut self.ledger.account_of(owner).hints {
            hints.read_first(access.page, frame);
        }
        self.ledger.frames.set_origin(frame, Origin::from(access));
        self.ledger.tenants[owner.index()].stats.prefetch_used += 1;
        self.tell(owner, |control, frames| control.new_block(frames, frame));
    }

    /// The page of `access` comes in, owned by `heir`: missed, or ahead.
    fn enter_for(&mut self, frame: u32, access: &Access, heir: TenantId, arrival: Arrival) {
        self.enter(frame, access.page, Origin::from(access), heir, arrival);
        let is_named = self.hinted > 0 && self.disclosed_enters(access, heir, arrival);
        if arrival == Arrival::Missed {
            if !self.level_one.orders_by_use() {
                self.level_one.referenced(&mut self.ledger, access.tenant, frame, is_named);
            }
            let stats = &mut self.ledger.tenants[access.tenant.index()].stats;
            stats.accesses += 1;
            stats.misses += 1;
        }
        let is_own = self.ledger.account(access.tenant) == self.ledger.account(heir);
        if let Some(foreign) = self.foreign.get_mut(frame as usize) {
            *foreign = if is_own { i64::MIN } else { self.ledger.now };
        }
    }

    /// A page goes in flight in `frame`, at the ledger's tail.
    #[inline(always)]
    fn enter(&mut self, frame: u32, page: PageId, origin: Origin, owner: TenantId, arrival: Arrival) {
        self.ledger.now += 1;
        self.ledger.arrivals += 1;
        let slot = &mut self.ledger.frames[frame];
        debug_assert!(!slot.has_claim());
        slot.page = page;
        slot.owner = owner;
        slot.last_reference = self.ledger.now as u64;
        slot.state = if arrival == Arrival::Ahead { FrameState::AheadInFlight } else { FrameState::InFlight };
        self.ledger.frames.set_origin(frame, origin);
        let tenant = &mut self.ledger.tenants[owner.index()];
        tenant.frames += 1;
        if tenant.standing == Standing::Vacant {
            tenant.standing = Standing::Closed;
        }
        let account = tenant.account;
        self.ledger.append(account, frame);
        self.level_one.entered(&mut self.ledger, account, frame, arrival);
    }

    /// A resident page leaves to make room.
    fn evict(&mut self, victim: u32) {
        self.ledger.tenants[self.ledger.frames[victim].owner.index()].stats.evictions += 1;
        self.remove(victim, true);
    }

    /// A resident page leaves; its frame is in limbo.
    fn remove(&mut self, frame: u32, evicted: bool) {
        let owner = self.ledger.frames[frame].owner;
        if self.ledger.frames[frame].state == FrameState::Ahead {
            self.ledger.tenants[owner.index()].stats.prefetch_wasted += 1;
        }
        let is_known = self.is_known(frame);
        if let Some(departures) = &mut self.departures {
            let age = self.ledger.now as u64 - self.ledger.frames[frame].last_reference;
            let account = self.ledger.account(owner);
            let control = &self.ledger.accounts[account.index()].control;
            departures.left(FrameId(frame), is_known && control.reads_once(FrameId(frame)), age);
        }
        if is_known {
            self.tell(owner, |control, frames| control.block_gone(frames, frame, evicted));
        }
        self.unlink(frame, evicted);
    }

    /// The page in flight, or [loaded](Self::loaded) too early, does not come in after all; its frame is in
    /// limbo.
    fn withdraw(&mut self, frame: u32, tenant: TenantId) {
        let state = self.ledger.frames[frame].state;
        if matches!(state, FrameState::InFlight | FrameState::Resident) {
            let stats = &mut self.ledger.tenants[tenant.index()].stats;
            // The number may be another tenant's by now, which has not counted them.
            stats.accesses = stats.accesses.saturating_sub(1);
            stats.misses = stats.misses.saturating_sub(1);
        }
        if state == FrameState::Resident {
            let owner = self.ledger.frames[frame].owner;
            self.tell(owner, |control, frames| control.block_gone(frames, frame, false));
        }
        self.unlink(frame, false);
    }

    fn unlink(&mut self, frame: u32, makes_room: bool) {
        self.level_one.departed(&mut self.ledger, frame, makes_room);
        let owner = self.ledger.frames[frame].owner;
        let page = self.ledger.frames[frame].page;
        if self.hinted > 0
            && let Some(hints) = &mut self.ledger.account_of(owner).hints
        {
            hints.left(page);
        }
        self.ledger.frames[frame].state = FrameState::Limbo;
        let tenant = &mut self.ledger.tenants[owner.index()];
        tenant.frames -= 1;
        let (account, is_closed) = (tenant.account, tenant.standing == Standing::Closed);
        self.ledger.unlink(account, frame);
        if is_closed {
            self.vacate_tenant(owner);
        }
    }

    /// Whether the manager of the account knows of the block in `frame`.
    #[inline]
    fn is_known(&self, frame: u32) -> bool {
        let slot = &self.ledger.frames[frame];
        match slot.state {
            FrameState::Resident => true,
            FrameState::Ahead => self.knows_ahead(slot.owner),
            FrameState::Free | FrameState::InFlight | FrameState::AheadInFlight | FrameState::Limbo => false,
        }
    }

    /// Tells the tenant's manager of an event; one that panics is dismissed.
    #[inline]
    fn tell(
        &mut self,
        tenant: TenantId,
        event: impl FnOnce(&mut Control, &mut FrameTable) -> Result<(), Panicked>,
    ) {
        let account = self.ledger.account(tenant);
        let control = &mut self.ledger.accounts[account.index()].control;
        if control.is_managed() && event(control, &mut self.ledger.frames).is_err() {
            self.dismiss(tenant);
        }
    }

    /// The tenant's manager panicked: the account is unmanaged from now on.
    #[cold]
    fn dismiss(&mut self, tenant: TenantId) {
        self.ledger.tenants[tenant.index()].stats.manager_panics += 1;
        let account = self.ledger.account_of(tenant);
        account.knows_ahead = false;
        let control = std::mem::take(&mut account.control);
        drop_control(control, &mut self.ledger.frames);
    }
}
