//! The directory: one deterministic state machine that holds residency, the allocation ledger, placeholders,
//! tenants, managers and statistics.
//!
//! It is driven by events and answers one question, [`Directory::admit`]: a page must come in, so which frame does
//! it get? The driver (the live pool, or the simulator) knows where pages are, moves the bytes, and says what became
//! of them. Methods are of four kinds:
//!
//! * *events*: [`hit`](Directory::hit), [`loaded`](Directory::loaded), [`failed`](Directory::failed),
//!   [`restore`](Directory::restore), [`discard`](Directory::discard), [`forget`](Directory::forget);
//! * *questions*, answered with a decision that the driver carries out: [`admit`](Directory::admit),
//!   [`shrink`](Directory::shrink);
//! * *directives and settings* of tenants;
//! * *looking*, which changes nothing.
//!
//! Nothing is allocated by events and questions, directives apart. A hit costs O(1), plus O(log tenants) when the
//! block was its tenant's next candidate; a miss the same, plus a step for each busy frame passed and the manager's
//! choice.

use std::{collections::BinaryHeap, ops::RangeInclusive};

use crate::{
    allocation::{
        Allocation,
        heads::{Heads, NO_STAMP},
        placeholders::Placeholders,
        revocation::Revocation,
    },
    classic::PolicyKind,
    error::{DirectiveError, DirectoryError},
    frame_table::{FrameTable, LEDGER, List, NONE, Origin, State},
    ids::{Access, ContextId, FileId, FrameId, PageId, TenantId},
    manager::{
        Control, Manager, Panicked, PriorityPools, drop_control,
        priority_pools::{PRIORITIES, Resident},
    },
    tenant::{Standing, Tenant, TenantStats},
};

/// The tenant that is always open: unmanaged until it gives a directive, no floor, no cap.
pub const DEFAULT_TENANT: TenantId = TenantId(0);

/// Frames a directory can have: frame numbers have 24 bits in a page word, and one value means none.
pub const FRAMES_MAX: u32 = (1 << 24) - 1;

/// What a directory is built with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DirectoryOptions {
    /// Frames to fill: 1 to [`FRAMES_MAX`].
    pub frames: u32,
    /// What is made of managers' overrules.
    pub allocation: Allocation,
    /// Whether a manager that keeps being wrong loses its say.
    pub revocation: bool,
    /// Whether pages that another tenant uses are protected from the owner's manager. Costs 8 bytes a frame.
    pub shared_pages: bool,
}

/// What the directory asks about frames while it looks for a victim. Neither call may wait.
pub trait Claims {
    /// Whether `frame` could not be taken now: pinned, latched, in I/O. Changes nothing.
    fn is_busy(&mut self, frame: FrameId) -> bool;

    /// Takes the frame's page away from its users, or says no. After a yes the directory evicts that page.
    fn claim(&mut self, frame: FrameId) -> bool;
}

/// What led to an answer, for statistics finer than the directory's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Decision {
    /// The frame the ledger, or a placeholder, named.
    pub candidate: Option<FrameId>,
    /// How often a manager was asked.
    pub decisions: u32,
    /// Whether the owner's manager chose another block, and it went.
    pub overruled: bool,
    /// The frame that a placeholder of the missing page pointed to: an overrule of its owner was wrong.
    pub mistake: Option<FrameId>,
    /// A frame that was in use when the placeholder to it was looked up: the overrule counts as right.
    pub vindicated: Option<FrameId>,
    /// Frames looked at.
    pub frames_tried: u32,
}

/// The answer of [`Directory::admit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// Load into a frame that held nothing.
    Free {
        /// The frame, now in flight.
        frame: FrameId,
        /// How it was chosen.
        decision: Decision,
    },
    /// Evict, then load into the frame.
    Evict {
        /// The frame, claimed, and now in flight.
        frame: FrameId,
        /// The page that goes.
        page: PageId,
        /// Whose page that was.
        tenant: TenantId,
        /// How it was chosen.
        decision: Decision,
    },
    /// Every frame the tenant may take is busy. Nothing has changed, except that a busy frame with a placeholder for
    /// the page counts as referenced.
    Exhausted {
        /// What was tried.
        decision: Decision,
    },
}

/// A page that must go because its tenant's cap was lowered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Eviction {
    /// The frame, claimed; give it back with [`Directory::release`].
    pub frame: FrameId,
    /// The page that goes.
    pub page: PageId,
}

/// What a hit meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HitOutcome {
    /// Whether the block stayed by an overrule that thereby turned out right.
    pub vindicated: bool,
}

/// The state machine. See the [module](self).
///
/// Invariants, checked by [`check_invariants`](Self::check_invariants):
///
/// 1. Each frame is free, in flight, resident or in limbo; those in flight or resident are in exactly one ledger list,
///    their owner's, whose stamps increase from head to tail.
/// 2. A resident block of a tenant with priority pools is in exactly one of its levels.
/// 3. The placeholder index and the frames' claims are inverse maps; no resident page has a placeholder.
/// 4. `all_heads` has the stamp of each tenant's ledger head; `open_heads` the same for tenants above their floor.
pub struct Directory {
    pub(crate) frames: FrameTable,
    pub(crate) tenants: Vec<Tenant>,
    pub(crate) placeholders: Placeholders,
    pub(crate) allocation: Allocation,
    /// Stamp of the last frame moved to the ledger's head; those at the tail get `now`.
    pub(crate) head_stamp: i64,
    /// References and loads so far.
    now: i64,
    free: Vec<u32>,
    all_heads: Heads,
    /// Kept only while some tenant has a floor.
    open_heads: Heads,
    floors_frames: u64,
    /// Per frame, when a tenant other than its owner last referenced it; empty unless shared pages are protected.
    foreign: Vec<i64>,
    revocation: bool,
    /// Tenants whose head was passed over during the question at hand, and where their list goes on.
    passed: Vec<(TenantId, u32)>,
    /// Counts of tenants whose slots have been reused.
    departed: TenantStats,
}

impl Directory {
    /// A directory of empty frames with the default tenant.
    pub fn new(options: DirectoryOptions) -> Result<Self, DirectoryError> {
        let DirectoryOptions { frames, allocation, revocation, shared_pages } = options;
        if !(1..=FRAMES_MAX).contains(&frames) {
            return Err(DirectoryError::FramesOutOfRange { frames });
        }
        let mut directory = Self {
            frames: FrameTable::new(frames),
            tenants: Vec::new(),
            placeholders: Placeholders::new(if allocation == Allocation::LruSp { frames } else { 0 }),
            allocation,
            head_stamp: 0,
            now: 0,
            free: (0..frames).rev().collect(),
            all_heads: Heads::default(),
            open_heads: Heads::default(),
            floors_frames: 0,
            foreign: if shared_pages { vec![i64::MIN; frames as usize] } else { Vec::new() },
            revocation,
            passed: Vec::new(),
            departed: TenantStats::default(),
        };
        directory.add_tenant(0, frames);
        Ok(directory)
    }

    // ---- events

    /// `access` found its page in `frame`, which is resident.
    pub fn hit(&mut self, frame: FrameId, access: &Access) -> HitOutcome {
        debug_assert!(self.frames.is_resident(frame) && self.frames[frame.0].page == access.page);
        let stats = &mut self.tenants[access.tenant.index()].stats;
        stats.accesses += 1;
        stats.hits += 1;
        HitOutcome { vindicated: self.reference(frame.0, access) }
    }

    /// The page admitted to `frame` has been read.
    pub fn loaded(&mut self, frame: FrameId) {
        debug_assert_eq!(self.frames[frame.0].state, State::InFlight);
        self.frames[frame.0].state = State::Resident;
        self.tell(self.frames[frame.0].owner, |control, frames| control.new_block(frames, frame.0));
    }

    /// The page admitted to `frame` for `tenant` could not be read: the frame is free, and the access was none.
    pub fn failed(&mut self, frame: FrameId, tenant: TenantId) {
        self.withdraw(frame.0, tenant);
        self.vacate(frame.0);
    }

    /// The victim that [`admit`](Self::admit) named could not be written, so `frame` holds it again: `page` of
    /// `file`, owned by `owner` and referenced just now. The access by `tenant` was none.
    pub fn restore(&mut self, frame: FrameId, page: PageId, file: FileId, owner: TenantId, tenant: TenantId) {
        if self.frames[frame.0].state == State::InFlight {
            self.withdraw(frame.0, tenant);
        }
        debug_assert_eq!(self.frames[frame.0].state, State::Limbo);
        if let Some(claimed) = self.placeholders.get(&self.frames, page) {
            self.drop_placeholder(claimed);
        }
        let origin = Origin { file, context: ContextId(0) };
        self.enter(frame.0, page, origin, owner);
        self.loaded(frame);
    }

    /// The resident page in `frame` ends: truncated, discarded, its file removed. The frame is free.
    pub fn discard(&mut self, frame: FrameId) {
        debug_assert!(self.frames.is_resident(frame));
        self.drop_placeholder(frame.0);
        self.remove(frame.0, false);
        self.vacate(frame.0);
    }

    /// The identity of the absent pages among `pages` ends. Costs a step a frame.
    pub fn forget(&mut self, pages: &RangeInclusive<PageId>) {
        if self.placeholders.len() == 0 {
            return;
        }
        for frame in 0..self.frames.len() {
            if self.frames[frame].has_claim && pages.contains(&self.frames[frame].claimed_by) {
                self.end_claim(frame);
            }
        }
    }

    // ---- questions

    /// A page must come in for `access`: which frame does it get?
    ///
    /// The answer has been carried out here: the victim is gone, its frame is in flight for the page, at the ledger's
    /// tail, busy until [`loaded`](Self::loaded), [`failed`](Self::failed) or [`restore`](Self::restore).
    ///
    /// In the paper's order: a placeholder names the candidate even if a frame is free and whatever floors and caps
    /// say; then a free frame; then the ledger's first eligible frame that is not busy. The candidate's manager may
    /// overrule. A claim that fails makes its frame busy for this question.
    pub fn admit<C: Claims>(&mut self, access: &Access, claims: &mut C) -> Admission {
        let mut decision = Decision::default();
        let mut victim = None;
        let mut heir = access.tenant;
        if let Some(candidate) = self.take_placeholder(access, claims, &mut decision) {
            victim = self.take(candidate, Some(access), claims, &mut decision);
            // Shared pages: a block that comes in through a placeholder belongs to the placeholder's owner, so that
            // no tenant's count changes.
            if victim.is_some() && !self.foreign.is_empty() {
                heir = self.frames[candidate].owner;
            }
        } else if !self.tenants[access.tenant.index()].is_at_cap()
            && let Some(frame) = self.free.pop()
        {
            self.enter_for(frame, access, access.tenant);
            return Admission::Free { frame: FrameId(frame), decision };
        }
        let victim =
            victim.or_else(|| self.take_from_ledger(access.tenant, Some(access), claims, &mut decision));
        let Some(victim) = victim else {
            return Admission::Exhausted { decision };
        };
        let (page, tenant) = (self.frames[victim].page, self.frames[victim].owner);
        self.evict(victim);
        self.enter_for(victim, access, heir);
        Admission::Evict { frame: FrameId(victim), page, tenant, decision }
    }

    /// The next page that must go for `tenant` to fit its cap; none if it fits, or all its frames are busy.
    pub fn shrink<C: Claims>(&mut self, tenant: TenantId, claims: &mut C) -> Option<Eviction> {
        let state = &self.tenants[tenant.index()];
        if state.ledger.len <= state.cap_frames {
            return None;
        }
        let victim = self.take_from_ledger(tenant, None, claims, &mut Decision::default())?;
        let page = self.frames[victim].page;
        self.evict(victim);
        Some(Eviction { frame: FrameId(victim), page })
    }

    /// Frees the frame of an [`Eviction`] that has been carried out.
    pub fn release(&mut self, frame: FrameId) {
        self.vacate(frame.0);
    }

    // ---- directives and settings

    /// Opens an unmanaged tenant. `floor_frames` cannot be taken by others; it may not exceed `cap_frames`.
    pub fn open_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> Result<TenantId, DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        self.check_share(0, floor_frames, cap_frames)?;
        Ok(self.add_tenant(floor_frames, cap_frames))
    }

    /// Closes a tenant: its blocks become unmanaged and stay where they are, its placeholders die.
    pub fn close_tenant(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        if tenant == DEFAULT_TENANT {
            return Err(DirectoryError::DefaultTenant);
        }
        self.open(tenant)?;
        self.set_floor(tenant, 0)?;
        let state = &mut self.tenants[tenant.index()];
        state.standing = Standing::Closed;
        drop_control(std::mem::take(&mut state.control));
        let claimed: Vec<u32> =
            state.ledger.iter(&self.frames).filter(|frame| self.frames[*frame].has_claim).collect();
        claimed.into_iter().for_each(|frame| self.end_claim(frame));
        self.vacate_tenant(tenant);
        Ok(())
    }

    /// Sets the frames that no other tenant can take.
    pub fn set_floor(&mut self, tenant: TenantId, floor_frames: u32) -> Result<(), DirectoryError> {
        let state = self.open(tenant)?;
        let (before, cap_frames) = (state.floor_frames, state.cap_frames);
        self.check_share(before, floor_frames, cap_frames)?;
        let had_floors = self.floors_frames > 0;
        self.floors_frames = self.floors_frames - u64::from(before) + u64::from(floor_frames);
        self.tenants[tenant.index()].floor_frames = floor_frames;
        if !had_floors {
            (0..self.tenants.len()).for_each(|t| self.ledger_changed(TenantId(t as u32)));
        }
        self.ledger_changed(tenant);
        Ok(())
    }

    /// Sets the frames the tenant may not exceed, at least 1. Lowering it takes effect through
    /// [`shrink`](Self::shrink).
    pub fn set_cap(&mut self, tenant: TenantId, cap_frames: u32) -> Result<(), DirectoryError> {
        let cap_frames = cap_frames.min(self.frames());
        let floor_frames = self.open(tenant)?.floor_frames;
        self.check_share(floor_frames, floor_frames, cap_frames)?;
        self.tenants[tenant.index()].cap_frames = cap_frames;
        Ok(())
    }

    /// Gives the tenant a manager; an earlier one, or its directives, are dropped. If `yields_to_directives`, the
    /// tenant's first directive replaces it.
    pub fn set_manager(
        &mut self,
        tenant: TenantId,
        manager: Box<dyn Manager>,
        yields_to_directives: bool,
    ) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::Manager { manager, yields_to_directives });
        Ok(())
    }

    /// Makes the tenant unmanaged.
    pub fn clear_manager(&mut self, tenant: TenantId) -> Result<(), DirectoryError> {
        self.open(tenant)?;
        self.adopt(tenant, Control::None);
        Ok(())
    }

    /// Which policy picks the victim among the tenant's blocks of `priority`.
    pub fn set_policy(
        &mut self,
        tenant: TenantId,
        priority: i32,
        policy: PolicyKind,
    ) -> Result<(), DirectiveError> {
        self.direct(tenant, |pools, frames| pools.set_policy(frames, priority, policy))
    }

    /// The policy of a level; LRU where none was set.
    pub fn policy(&self, tenant: TenantId, priority: i32) -> Result<PolicyKind, DirectiveError> {
        match self.tenants.get(tenant.index()).map(|tenant| &tenant.control) {
            Some(Control::Pools(pools)) => pools.policy(priority),
            _ if PRIORITIES.contains(&priority) => Ok(PolicyKind::Lru),
            _ => Err(DirectiveError::PriorityOutOfRange { priority }),
        }
    }

    /// Gives `pages` a long-term priority for the tenant; the latest range over a page counts. Returns how many
    /// resident blocks moved. `frame_of` finds the frame of a resident page.
    pub fn set_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, |pools, frames| {
            pools.set_priority(frames, &pages, priority, &mut Resident { tenant, frame_of: &mut frame_of })
        })
    }

    /// The long-term priority of `page` for the tenant.
    pub fn priority(&self, tenant: TenantId, page: PageId) -> i32 {
        match self.tenants.get(tenant.index()).map(|tenant| &tenant.control) {
            Some(Control::Pools(pools)) => pools.priority(page),
            _ => 0,
        }
    }

    /// Gives those of `pages` that are resident and the tenant's own a priority until their next reference or
    /// replacement. Returns how many. `frame_of` finds the frame of a resident page.
    pub fn set_temporary_priority(
        &mut self,
        tenant: TenantId,
        pages: RangeInclusive<PageId>,
        priority: i32,
        mut frame_of: impl FnMut(PageId) -> Option<FrameId>,
    ) -> Result<usize, DirectiveError> {
        self.direct(tenant, |pools, frames| {
            let mut resident = Resident { tenant, frame_of: &mut frame_of };
            pools.set_temporary_priority(frames, &pages, priority, &mut resident)
        })
    }

    // ---- looking

    /// Number of frames.
    pub fn frames(&self) -> u32 {
        self.frames.len()
    }

    /// The resident page in `frame`.
    pub fn page(&self, frame: FrameId) -> Option<PageId> {
        self.frames.is_resident(frame).then(|| self.frames[frame.0].page)
    }

    /// Whose block is in `frame`.
    pub fn owner(&self, frame: FrameId) -> Option<TenantId> {
        self.frames.is_resident(frame).then(|| self.frames[frame.0].owner)
    }

    /// Frames that `tenant` owns, those in flight included.
    pub fn resident(&self, tenant: TenantId) -> u32 {
        self.tenants[tenant.index()].ledger.len
    }

    /// Whether the tenant has a manager, revoked or not.
    pub fn is_managed(&self, tenant: TenantId) -> bool {
        self.tenants[tenant.index()].control.is_managed()
    }

    /// Counts of one tenant.
    pub fn tenant_stats(&self, tenant: TenantId) -> TenantStats {
        let state = &self.tenants[tenant.index()];
        TenantStats { revocations: state.revocation.revocations(), ..state.stats }
    }

    /// Counts of all tenants, past ones included.
    pub fn stats(&self) -> TenantStats {
        let mut sum = self.departed;
        (0..self.tenants.len()).for_each(|tenant| sum.add(&self.tenant_stats(TenantId(tenant as u32))));
        sum
    }

    /// Appends to `out` the `count` resident frames nearest the ledger's head, nearest first: the pages that plain
    /// LRU would evict next. Costs O((count + tenants) log tenants) and allocates.
    pub fn coldest(&self, count: usize, out: &mut Vec<FrameId>) {
        use std::cmp::Reverse;
        let heads = self.tenants.iter().map(|tenant| tenant.ledger.head).filter(|head| *head != NONE);
        let mut next: BinaryHeap<_> = heads.map(|head| Reverse((self.frames[head].stamp, head))).collect();
        let wanted = out.len() + count;
        while out.len() < wanted {
            let Some(Reverse((_, frame))) = next.pop() else { break };
            if self.frames[frame].state == State::Resident {
                out.push(FrameId(frame));
            }
            let after = self.frames.next::<LEDGER>(frame);
            if after != NONE {
                next.push(Reverse((self.frames[after].stamp, after)));
            }
        }
    }

    /// Bytes of memory held, managers included.
    pub fn metadata_bytes(&self) -> usize {
        let controls = self.tenants.iter().map(|tenant| tenant.control.metadata_bytes()).sum::<usize>();
        self.frames.metadata_bytes()
            + self.placeholders.metadata_bytes()
            + self.free.capacity() * size_of::<u32>()
            + self.foreign.capacity() * size_of::<i64>()
            + self.tenants.capacity() * size_of::<Tenant>()
            + controls
    }

    /// Recounts everything and panics where it contradicts itself. For tests: costs O(frames log frames).
    pub fn check_invariants(&self) {
        let mut listed = 0;
        for (number, tenant) in self.tenants.iter().enumerate() {
            let owner = TenantId(number as u32);
            tenant.ledger.check_invariants(&self.frames);
            tenant.revocation.check_invariants();
            let list: Vec<u32> = tenant.ledger.iter(&self.frames).collect();
            assert!(list.iter().all(|frame| self.frames[*frame].owner == owner), "owner {number}");
            assert!(
                list.windows(2).all(|pair| self.frames[pair[0]].stamp < self.frames[pair[1]].stamp),
                "stamps of tenant {number} do not increase"
            );
            let states = |state| list.iter().filter(|frame| self.frames[**frame].state == state).count();
            assert_eq!(
                states(State::InFlight) + states(State::Resident),
                list.len(),
                "states of tenant {number}"
            );
            let claims = list.iter().filter(|frame| self.frames[**frame].has_claim).count();
            assert_eq!(claims as u64, tenant.stats.outstanding, "outstanding overrules of tenant {number}");
            match &tenant.control {
                Control::Pools(pools) => pools.check_invariants(&self.frames, states(State::Resident)),
                Control::Manager { manager, .. } => manager.check_invariants(),
                Control::None => {}
            }
            assert_eq!(self.all_heads.stamp(owner), self.head_of(owner), "head of tenant {number}");
            if self.floors_frames > 0 {
                let expected = if tenant.is_above_floor() { self.head_of(owner) } else { NO_STAMP };
                assert_eq!(self.open_heads.stamp(owner), expected, "open head of tenant {number}");
            }
            listed += list.len();
        }
        let in_state = |state| (0..self.frames()).filter(|frame| self.frames[*frame].state == state).count();
        assert_eq!(in_state(State::Free), self.free.len(), "free frames");
        assert_eq!(listed + in_state(State::Free) + in_state(State::Limbo), self.frames() as usize, "frames");
        self.placeholders.check_invariants(&self.frames);
        for frame in (0..self.frames()).filter(|frame| self.frames[*frame].state == State::Resident) {
            let placeholder = self.placeholders.get(&self.frames, self.frames[frame].page);
            assert_eq!(placeholder, None, "the resident page of frame {frame} has a placeholder");
        }
        assert!(self.passed.is_empty());
    }

    // ---- the steps of a question

    /// The candidate that a placeholder of the missing page names. A busy one is being referenced, so it counts as
    /// referenced, and the ordinary candidate is taken.
    fn take_placeholder<C: Claims>(
        &mut self,
        access: &Access,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let candidate = self.placeholders.get(&self.frames, access.page)?;
        decision.frames_tried += 1;
        if claims.is_busy(FrameId(candidate)) {
            let owner = self.frames[candidate].owner;
            let origin = self.frames.origin(candidate);
            let page = self.frames[candidate].page;
            self.reference(
                candidate,
                &Access { page, file: origin.file, tenant: owner, context: origin.context },
            );
            decision.vindicated = Some(FrameId(candidate));
            return None;
        }
        // The mistake stands even if the claim should fail in a race: the page that went was needed first.
        decision.mistake = Some(FrameId(candidate));
        self.use_placeholder(candidate);
        self.tell(self.frames[candidate].owner, |control, _| control.placeholder_used(access, candidate));
        Some(candidate)
    }

    /// Takes the first frame of the ledger that `tenant` may have and that can be claimed, or what its manager
    /// prefers. Looks at each frame at most once as a candidate.
    fn take_from_ledger<C: Claims>(
        &mut self,
        tenant: TenantId,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let mut victim = None;
        let only_own = self.tenants[tenant.index()].is_at_cap();
        if !only_own && self.floors_frames > 0 {
            // Its own floor does not protect a tenant from itself.
            self.open_heads.set(tenant, self.all_heads.stamp(tenant));
            self.passed.push((tenant, self.tenants[tenant.index()].ledger.head));
        }
        let mut own_next = self.tenants[tenant.index()].ledger.head;
        loop {
            let candidate = if only_own { own_next } else { self.next_candidate() };
            if candidate == NONE {
                break;
            }
            decision.frames_tried += 1;
            if self.frames[candidate].state == State::Resident && !claims.is_busy(FrameId(candidate)) {
                victim = self.take(candidate, missing, claims, decision);
                if victim.is_some() {
                    break;
                }
            }
            if only_own {
                own_next = self.frames.next::<LEDGER>(candidate);
            } else {
                self.pass(candidate);
            }
        }
        while let Some((tenant, _)) = self.passed.pop() {
            self.ledger_changed(tenant);
        }
        victim
    }

    /// The frame of least stamp among the eligible tenants, those passed over excluded.
    fn next_candidate(&self) -> u32 {
        let heads = if self.floors_frames > 0 { &self.open_heads } else { &self.all_heads };
        let Some(tenant) = heads.least() else { return NONE };
        match self.passed.iter().find(|(passed, _)| *passed == tenant) {
            Some((_, next)) => *next,
            None => self.tenants[tenant.index()].ledger.head,
        }
    }

    /// Goes on behind `frame` in its owner's list, for the question at hand.
    fn pass(&mut self, frame: u32) {
        let owner = self.frames[frame].owner;
        let next = self.frames.next::<LEDGER>(frame);
        match self.passed.iter_mut().find(|(passed, _)| *passed == owner) {
            Some(entry) => entry.1 = next,
            None => self.passed.push((owner, next)),
        }
        let stamp = if next == NONE { NO_STAMP } else { self.frames[next].stamp };
        let heads = if self.floors_frames > 0 { &mut self.open_heads } else { &mut self.all_heads };
        heads.set(owner, stamp);
    }

    /// Lets the candidate's manager overrule, claims what is to go, and books the decision. None if neither the
    /// manager's choice nor the candidate could be claimed.
    fn take<C: Claims>(
        &mut self,
        candidate: u32,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> Option<u32> {
        let choice = self.ask(candidate, missing, claims, decision);
        let victim = if choice != candidate && claims.claim(FrameId(choice)) {
            choice
        } else if claims.claim(FrameId(candidate)) {
            candidate
        } else {
            return None;
        };
        decision.candidate = Some(FrameId(candidate));
        if victim != candidate {
            decision.overruled = true;
            self.overrule(candidate, victim);
        } else {
            self.drop_placeholder(candidate);
        }
        Some(victim)
    }

    /// What the candidate's manager wants to give up instead: a block of the same tenant that could be taken, or the
    /// candidate.
    fn ask<C: Claims>(
        &mut self,
        candidate: u32,
        missing: Option<&Access>,
        claims: &mut C,
        decision: &mut Decision,
    ) -> u32 {
        let owner = self.frames[candidate].owner;
        if !self.allocation.asks_managers() || !self.tenants[owner.index()].is_consulted() {
            return candidate;
        }
        decision.decisions += 1;
        let ledger_head = self.ledger_head_stamp();
        let (frames, foreign) = (&self.frames, &self.foreign);
        let tried = &mut decision.frames_tried;
        let mut is_busy = |frame: FrameId| {
            *tried += 1;
            if !frames.is_resident(frame) || frames[frame.0].owner != owner {
                return true;
            }
            // Another tenant used it more recently than the oldest entitlement: the owner's manager may not take it
            // away. The candidate may always leave.
            let is_shared = foreign.get(frame.index()).is_some_and(|at| *at >= ledger_head);
            (is_shared && frame.0 != candidate) || claims.is_busy(frame)
        };
        let tenant = &mut self.tenants[owner.index()];
        tenant.stats.decisions += 1;
        match tenant.control.replace_block(frames, candidate, missing, &mut is_busy) {
            Ok(choice) if choice != candidate && !is_busy(FrameId(choice)) => choice,
            Ok(_) => candidate,
            Err(Panicked) => {
                self.dismiss(owner);
                candidate
            }
        }
    }

    /// The least stamp of the ledger, eligible or not, while heads may be passed over.
    fn ledger_head_stamp(&self) -> i64 {
        if self.foreign.is_empty() {
            return NO_STAMP;
        }
        let passed = self.passed.iter().map(|(tenant, _)| self.head_of(*tenant));
        passed.chain([self.all_heads.least_stamp()]).min().unwrap_or(NO_STAMP)
    }

    // ---- steps shared by events and questions

    /// The HIT step of LRU-SP. Returns whether an overrule was vindicated.
    #[inline]
    fn reference(&mut self, frame: u32, access: &Access) -> bool {
        let owner = self.frames[frame].owner;
        self.now += 1;
        let slot = &mut self.frames[frame];
        slot.last_reference = self.now as u64;
        slot.stamp = self.now;
        let tenant = &mut self.tenants[owner.index()];
        let was_head = tenant.ledger.head == frame;
        tenant.ledger.move_to_tail(&mut self.frames, frame);
        tenant.revocation.access();
        if was_head {
            self.ledger_changed(owner);
        }
        if !self.foreign.is_empty() && access.tenant != owner {
            self.foreign[frame as usize] = self.now;
        }
        let vindicated = self.drop_placeholder(frame).is_some();
        self.tenants[owner.index()].stats.vindications += u64::from(vindicated);
        self.tell(owner, |control, frames| control.block_accessed(frames, frame, access));
        vindicated
    }

    /// The page of `access` comes in, owned by `heir`.
    fn enter_for(&mut self, frame: u32, access: &Access, heir: TenantId) {
        let stats = &mut self.tenants[access.tenant.index()].stats;
        stats.accesses += 1;
        stats.misses += 1;
        self.enter(frame, access.page, Origin { file: access.file, context: access.context }, heir);
        self.tenants[heir.index()].revocation.access();
        if let Some(foreign) = self.foreign.get_mut(frame as usize) {
            *foreign = if access.tenant == heir { i64::MIN } else { self.now };
        }
    }

    /// A page goes in flight in `frame`, at the ledger's tail.
    fn enter(&mut self, frame: u32, page: PageId, origin: Origin, owner: TenantId) {
        self.now += 1;
        let slot = &mut self.frames[frame];
        debug_assert!(!slot.has_claim);
        slot.page = page;
        slot.owner = owner;
        slot.stamp = self.now;
        slot.last_reference = self.now as u64;
        slot.state = State::InFlight;
        self.frames.set_origin(frame, origin);
        self.tenants[owner.index()].ledger.push_tail(&mut self.frames, frame);
        self.ledger_changed(owner);
    }

    /// A resident page leaves to make room.
    fn evict(&mut self, victim: u32) {
        self.tenants[self.frames[victim].owner.index()].stats.evictions += 1;
        self.remove(victim, true);
    }

    /// A resident page leaves; its frame is in limbo.
    fn remove(&mut self, frame: u32, evicted: bool) {
        let owner = self.frames[frame].owner;
        self.tell(owner, |control, frames| control.block_gone(frames, frame, evicted));
        self.unlink(frame);
    }

    /// The page in flight does not come in after all; its frame is in limbo.
    fn withdraw(&mut self, frame: u32, tenant: TenantId) {
        debug_assert_eq!(self.frames[frame].state, State::InFlight);
        let stats = &mut self.tenants[tenant.index()].stats;
        stats.accesses -= 1;
        stats.misses -= 1;
        self.unlink(frame);
    }

    fn unlink(&mut self, frame: u32) {
        let owner = self.frames[frame].owner;
        self.frames[frame].state = State::Limbo;
        self.tenants[owner.index()].ledger.unlink(&mut self.frames, frame);
        self.ledger_changed(owner);
        self.vacate_tenant(owner);
    }

    fn vacate(&mut self, frame: u32) {
        debug_assert_eq!(self.frames[frame].state, State::Limbo);
        self.frames[frame].state = State::Free;
        self.free.push(frame);
    }

    /// Brings the heads up to date after a change of the tenant's list, floor or size.
    #[inline]
    pub(crate) fn ledger_changed(&mut self, tenant: TenantId) {
        let stamp = self.head_of(tenant);
        self.all_heads.set(tenant, stamp);
        if self.floors_frames > 0 {
            let open = self.tenants[tenant.index()].is_above_floor();
            self.open_heads.set(tenant, if open { stamp } else { NO_STAMP });
        }
    }

    fn head_of(&self, tenant: TenantId) -> i64 {
        match self.tenants[tenant.index()].ledger.head {
            NONE => NO_STAMP,
            head => self.frames[head].stamp,
        }
    }

    /// Tells the tenant's manager of an event; one that panics is dismissed.
    #[inline]
    fn tell(
        &mut self,
        tenant: TenantId,
        event: impl FnOnce(&mut Control, &mut FrameTable) -> Result<(), Panicked>,
    ) {
        let state = &mut self.tenants[tenant.index()];
        if state.control.is_managed() && event(&mut state.control, &mut self.frames).is_err() {
            self.dismiss(tenant);
        }
    }

    /// The tenant's manager panicked: the tenant is unmanaged from now on.
    #[cold]
    fn dismiss(&mut self, tenant: TenantId) {
        let state = &mut self.tenants[tenant.index()];
        state.stats.manager_panics += 1;
        drop_control(std::mem::take(&mut state.control));
    }

    // ---- tenants

    fn open(&self, tenant: TenantId) -> Result<&Tenant, DirectoryError> {
        match self.tenants.get(tenant.index()) {
            Some(state) if state.standing == Standing::Open => Ok(state),
            _ => Err(DirectoryError::UnknownTenant { tenant }),
        }
    }

    /// Whether a floor of `before` may become `floor_frames` under `cap_frames`.
    fn check_share(&self, before: u32, floor_frames: u32, cap_frames: u32) -> Result<(), DirectoryError> {
        if cap_frames == 0 || floor_frames > cap_frames {
            return Err(DirectoryError::CapBelowFloor { floor_frames, cap_frames });
        }
        let floors_frames = self.floors_frames - u64::from(before) + u64::from(floor_frames);
        if floors_frames > u64::from(self.frames()) {
            return Err(DirectoryError::FloorsTooLarge { floors_frames, limit_frames: self.frames() });
        }
        Ok(())
    }

    fn add_tenant(&mut self, floor_frames: u32, cap_frames: u32) -> TenantId {
        let revocation = Revocation::new(self.frames(), self.revocation);
        let new = Tenant::new(0, cap_frames, revocation);
        let vacant = self.tenants.iter().position(|tenant| tenant.standing == Standing::Vacant);
        let tenant = TenantId(vacant.unwrap_or(self.tenants.len()) as u32);
        match vacant {
            Some(vacant) => {
                self.departed.add(&self.tenant_stats(tenant));
                self.tenants[vacant] = new;
            }
            None => self.tenants.push(new),
        }
        self.all_heads.grow(self.tenants.len());
        self.open_heads.grow(self.tenants.len());
        if floor_frames > 0 {
            self.set_floor(tenant, floor_frames).expect("checked by the caller");
        }
        tenant
    }

    /// A closed tenant's slot is vacant once its last block has gone.
    fn vacate_tenant(&mut self, tenant: TenantId) {
        let state = &mut self.tenants[tenant.index()];
        if state.standing == Standing::Closed && state.ledger.len == 0 {
            state.standing = Standing::Vacant;
        }
    }

    /// Hands the tenant's resident blocks to a new manager, in ledger order.
    fn adopt(&mut self, tenant: TenantId, mut control: Control) {
        let ledger: List<LEDGER> = self.tenants[tenant.index()].ledger;
        let resident = |frames: &FrameTable, frame: &u32| frames[*frame].state == State::Resident;
        let blocks: Vec<u32> =
            ledger.iter(&self.frames).filter(|frame| resident(&self.frames, frame)).collect();
        let adopted = blocks.into_iter().try_for_each(|frame| control.new_block(&mut self.frames, frame));
        drop_control(std::mem::replace(&mut self.tenants[tenant.index()].control, control));
        if adopted.is_err() {
            self.dismiss(tenant);
        }
    }

    /// Carries out a directive. The tenant is managed from its first one that succeeds.
    fn direct<R>(
        &mut self,
        tenant: TenantId,
        directive: impl FnOnce(&mut PriorityPools, &mut FrameTable) -> Result<R, DirectiveError>,
    ) -> Result<R, DirectiveError> {
        self.open(tenant).map_err(|_| DirectiveError::UnknownTenant { tenant })?;
        let before = match &self.tenants[tenant.index()].control {
            Control::Pools(_) => None,
            Control::Manager { yields_to_directives: false, .. } => {
                return Err(DirectiveError::HasManager { tenant });
            }
            Control::None | Control::Manager { .. } => {
                let before = std::mem::take(&mut self.tenants[tenant.index()].control);
                self.adopt(tenant, Control::Pools(Box::new(PriorityPools::new())));
                Some(before)
            }
        };
        let Control::Pools(pools) = &mut self.tenants[tenant.index()].control else {
            unreachable!("priority pools do not panic")
        };
        let result = directive(pools, &mut self.frames);
        if let (Err(_), Some(before)) = (&result, before) {
            self.tenants[tenant.index()].control = before;
        }
        result
    }
}
