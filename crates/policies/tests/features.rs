//! Goal: features of the directory do not disturb each other. Method: random steps that combine lists of
//! hints, managers that lie and panic, programs, directives, floors, caps, the commons, tenants that come and
//! go, spare frames and failed transfers, under each allocation; `check_invariants` and the sums of counts
//! after each step.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use bufpool_policies::classic::PolicyKind;
use bufpool_policies::hints::{HintCounts, HintListId, HintPolicy};
use bufpool_policies::program::{Program, ProgramManager, ProgramOptions};
use bufpool_policies::{
    Access, Admission, Allocation, Block, Claims, ContextId, DEFAULT_TENANT, Directory, DirectoryOptions,
    FileId, FrameId, HintOptions, Look, Manager, ManagerKind, PageId, SplitMix64, TenantId, Want, Wish,
};

const ALLOCATIONS: [Allocation; 6] = [
    Allocation::LruSp,
    Allocation::LruS,
    Allocation::AllocLru,
    Allocation::GlobalLru,
    Allocation::CostBenefit,
    Allocation::Fifo2Sp,
];
const TENANTS: usize = 5;
const SPARES: u32 = 3;

const PROGRAM: &str = "policy wishes {
    queue all  ghost left  int wish  const one = 1
    event initial { ret }
    event fault(p) { recall t, left, p ; setmeta p, t ; enqt all, p ; ret }
    event access(p) { enqt all, p ; ret }
    event gone(p) { remember left, p ; ret }
    event mistake(p) { enqh all, p ; ret }
    event replace(c) { peekt v, all
                 L:    isnil t, v ; jnz t, none
                       eq t, wish, one ; jz t, look ; flush v
                 look: lt t, one, wish ; jz t, held ; setmod v
                 held: pinned t, v ; jz t, take
                       prev v, v ; jmp L
                 take: ret v
                 none: ret c }
}";

/// A manager was told what is not so.
static BETRAYED: AtomicBool = AtomicBool::new(false);

/// Answers anything, and panics at times.
struct Liar {
    random: SplitMix64,
    pages: u64,
    frames: u64,
    panics_one_in: u64,
    knows_ahead: bool,
    judges_itself: bool,
    known: BTreeMap<FrameId, PageId>,
}

impl Liar {
    fn new(seed: u64, pages: u64, frames: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let panics_one_in = [0, 0, 40, 200][random.below(4) as usize];
        let (knows_ahead, judges_itself) = (random.below(2) == 0, random.below(2) == 0);
        Self { random, pages, frames, panics_one_in, knows_ahead, judges_itself, known: BTreeMap::new() }
    }

    /// A panic here would be caught by the directory, so it is told later.
    fn expect(&self, holds: bool, what: &str) {
        if !holds {
            println!("{what}: {:?} {}", self.known, std::backtrace::Backtrace::force_capture());
            BETRAYED.store(true, Ordering::Relaxed);
        }
    }

    fn perhaps_panic(&mut self) {
        let panics = self.panics_one_in > 0 && self.random.below(self.panics_one_in) == 0;
        if panics {
            std::panic::resume_unwind(Box::new("on purpose"));
        }
    }
}

impl Manager for Liar {
    fn new_block(&mut self, block: &Block) {
        self.known.insert(block.frame, block.page);
        self.perhaps_panic();
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.expect(self.known.get(&frame) == Some(&page), "what goes was told of");
        self.known.remove(&frame);
        self.perhaps_panic();
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.expect(self.known.get(&frame) == Some(&access.page), "what is accessed was told of");
        self.perhaps_panic();
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.expect(self.known.contains_key(&candidate), "the candidate is known");
        self.perhaps_panic();
        match self.random.below(4) {
            0 => candidate,
            1 => FrameId(self.random.below(self.frames + 8) as u32),
            2 => FrameId(u32::MAX),
            _ => self.known.keys().rev().copied().find(|frame| !busy(*frame)).unwrap_or(candidate),
        }
    }

    fn choose(&mut self, candidate: FrameId, missing: Option<&Access>, look: &mut dyn Look) -> FrameId {
        look.block(FrameId(self.random.below(self.frames + 8) as u32));
        self.replace_block(candidate, missing, &mut |frame| look.is_busy(frame))
    }

    fn answer_refused(&mut self) {
        self.perhaps_panic();
    }

    fn placeholder_used(&mut self, _: &Access, placeholder: FrameId) {
        self.expect(self.known.contains_key(&placeholder), "what stayed is known");
        self.perhaps_panic();
    }

    fn likely_choice(&self, candidate: FrameId) -> FrameId {
        if candidate.0.is_multiple_of(2) { FrameId(u32::MAX) } else { candidate }
    }

    fn judges_itself(&self) -> bool {
        self.judges_itself
    }

    fn knows_ahead(&self) -> bool {
        self.knows_ahead
    }

    fn block_ahead(&mut self, block: &Block) {
        self.known.insert(block.frame, block.page);
        self.perhaps_panic();
    }

    fn wants(&mut self, frames_left: u32, out: &mut Vec<Want>) {
        self.perhaps_panic();
        for position in 0..u64::from(frames_left) + 3 {
            out.push(Want { page: PageId(self.random.below(self.pages + 5)), position });
        }
    }

    fn take_wish(&mut self) -> Option<Wish> {
        self.perhaps_panic();
        let frame = FrameId(self.random.below(self.frames) as u32);
        let page = PageId(self.random.below(self.pages));
        (self.random.below(3) > 0).then_some(Wish::Release { frame, page })
    }
}

struct Busy<'a>(&'a BTreeSet<FrameId>, bool);

impl Claims for Busy<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.0.contains(&frame)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        // At times a page is taken between the question and the claim.
        !self.0.contains(&frame) && (!self.1 || !frame.0.is_multiple_of(3))
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum State {
    There,
    /// On its way for a tenant, whether that waits for it.
    Flying(TenantId, bool),
}

struct Driver {
    random: SplitMix64,
    directory: Directory,
    pages: u64,
    in_memory: BTreeMap<PageId, (FrameId, State)>,
    busy: BTreeSet<FrameId>,
    spares: Vec<FrameId>,
    lists: Vec<HintListId>,
    tenants: Vec<TenantId>,
    closed: Vec<TenantId>,
    program: Program,
}

fn access(tenant: TenantId, page: PageId) -> Access {
    Access { page, file: FileId(0), tenant, context: ContextId((page.0 % 3) as u32), creates: false }
}

impl Driver {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let frames = 3 + random.below(30) as u32;
        let pages = u64::from(frames) * (1 + random.below(3)) + random.below(10);
        let options = DirectoryOptions {
            frames,
            allocation: if random.below(2) == 0 {
                Allocation::LruSp
            } else {
                ALLOCATIONS[random.below(6) as usize]
            },
            revocation: random.below(2) == 0,
            shared_pages: random.below(2) == 0,
        };
        let mut directory = Directory::new(options).unwrap();
        directory.add_spares(SPARES).unwrap();
        if random.below(2) == 0 {
            directory.watch_departures();
        }
        if random.below(2) == 0 {
            let seed = random.next_u64();
            directory
                .join_commons(DEFAULT_TENANT, || ManagerKind::Auto.build(frames, seed, DEFAULT_TENANT))
                .unwrap();
        }
        Self {
            random,
            directory,
            pages,
            in_memory: BTreeMap::new(),
            busy: BTreeSet::new(),
            spares: (frames..frames + SPARES).map(FrameId).collect(),
            lists: Vec::new(),
            tenants: vec![DEFAULT_TENANT],
            closed: Vec::new(),
            program: Program::parse(PROGRAM).unwrap(),
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn page(&mut self) -> PageId {
        PageId(self.random.below(self.pages))
    }

    fn tenant(&mut self) -> TenantId {
        self.tenants[self.random.below(self.tenants.len() as u64) as usize]
    }

    fn list(&mut self) -> Option<HintListId> {
        let at = self.random.below(self.lists.len().max(1) as u64) as usize;
        self.lists.get(at).copied()
    }

    fn there(&self, page: PageId) -> Option<FrameId> {
        self.in_memory.get(&page).filter(|(_, state)| *state == State::There).map(|(frame, _)| *frame)
    }

    fn admit(&mut self, tenant: TenantId, page: PageId, is_ahead: bool, creates: bool) {
        let access = Access { creates, ..access(tenant, page) };
        let races = self.below(8) == 0;
        let flying = |(_, (frame, state)): (&PageId, &(FrameId, State))| {
            matches!(state, State::Flying(..)).then_some(*frame)
        };
        let mut busy = self.busy.clone();
        busy.extend(self.in_memory.iter().filter_map(flying));
        let mut claims = Busy(&busy, races);
        let admission = if is_ahead {
            self.directory.admit_ahead(&access, &mut claims)
        } else {
            self.directory.admit(&access, &mut claims)
        };
        let frame = match admission {
            Admission::Exhausted { .. } => return,
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page: victim, tenant: owner, .. } => {
                let (held, state) = self.in_memory.remove(&victim).expect("the victim is in memory");
                assert_eq!((held, state), (frame, State::There));
                assert!(!busy.contains(&frame));
                match self.below(8) {
                    0 => {
                        self.directory.restore(frame, victim, FileId(0), owner, tenant);
                        self.in_memory.insert(victim, (frame, State::There));
                        return;
                    }
                    1 if !self.spares.is_empty() => {
                        let spare = self.spares.remove(0);
                        self.directory.relocate(frame, spare);
                        self.spares.push(frame);
                        spare
                    }
                    _ => frame,
                }
            }
        };
        let waits = !is_ahead;
        self.in_memory.insert(page, (frame, State::Flying(tenant, waits)));
        let lands = if is_ahead { self.below(3) == 0 } else { self.below(4) > 0 };
        if lands {
            self.land(page);
        }
    }

    fn land(&mut self, page: PageId) {
        let Some((frame, State::Flying(tenant, waits))) = self.in_memory.get(&page).copied() else { return };
        match self.below(10) {
            0 => {
                self.in_memory.remove(&page);
                self.directory.failed(frame, tenant);
            }
            1 if waits => {
                // As if it was there at once, and then it was not.
                self.directory.loaded(frame);
                self.in_memory.remove(&page);
                self.directory.failed(frame, tenant);
            }
            2 => {
                self.in_memory.remove(&page);
                self.directory.set_aside(frame, tenant);
                self.directory.check_invariants();
                self.directory.release(frame);
            }
            _ => {
                self.directory.loaded(frame);
                self.in_memory.insert(page, (frame, State::There));
            }
        }
    }

    fn access(&mut self, tenant: TenantId, page: PageId) {
        match self.in_memory.get(&page).copied() {
            Some((frame, State::There)) => drop(self.directory.hit(frame, &access(tenant, page))),
            Some(_) => {
                self.land(page);
                if let Some(frame) = self.there(page) {
                    self.directory.hit(frame, &access(tenant, page));
                }
            }
            None => {
                let creates = self.below(8) == 0;
                self.admit(tenant, page, false, creates);
            }
        }
    }

    fn prefetch(&mut self, tenant: TenantId) {
        let room = self.below(8) as u32;
        let mut wants = Vec::new();
        let (in_memory, pages) = (&self.in_memory, self.pages);
        let mut passed_over = |page: PageId| in_memory.contains_key(&page) || page.0 >= pages;
        self.directory.hint_wants(tenant, room, &mut passed_over, &mut wants);
        assert!(wants.len() <= room as usize);
        self.directory.wants(tenant, room, &mut wants);
        for want in wants {
            if !self.in_memory.contains_key(&want.page) && want.page.0 < self.pages {
                self.admit(tenant, want.page, true, false);
            }
        }
    }

    fn close_list(&mut self, list: HintListId) {
        if let Some(counts) = self.directory.close_hints(list) {
            check_counts(&counts);
        }
        assert_eq!(self.directory.close_hints(list), None);
    }

    fn open_tenant(&mut self) {
        if self.tenants.len() == TENANTS {
            return;
        }
        let frames = self.directory.frames();
        let (floor, cap) = if self.below(2) == 0 {
            (0, frames)
        } else {
            (self.below(u64::from(frames) / 3 + 1) as u32, 1 + self.below(u64::from(frames)) as u32)
        };
        let opened = match self.below(6) {
            0 => self.directory.open_privileged(floor.max(1)),
            _ => self.directory.open_tenant(floor, cap),
        };
        let Ok(tenant) = opened else { return };
        self.closed.retain(|closed| *closed != tenant);
        assert!(!self.tenants.contains(&tenant));
        self.tenants.push(tenant);
        match self.below(3) {
            0 => {
                let seed = self.random.next_u64();
                let make = || ManagerKind::Auto.build(frames, seed, DEFAULT_TENANT);
                self.directory.join_commons(tenant, make).ok();
            }
            1 => self.set_manager(tenant),
            _ => {}
        }
    }

    fn set_manager(&mut self, tenant: TenantId) {
        let frames = self.directory.frames();
        let seed = self.random.next_u64();
        match self.below(4) {
            0 => {
                let kind = ManagerKind::ALL[self.below(9) as usize];
                self.directory.set_manager(tenant, kind.build(frames, seed, tenant), true).unwrap();
            }
            1 => {
                let options = ProgramOptions { pool_frames: frames, seed, tenant, fuel_steps: None };
                let manager = ProgramManager::new(&self.program, options).unwrap();
                self.directory.set_manager(tenant, Box::new(manager), false).unwrap();
            }
            2 => self.directory.clear_manager(tenant).unwrap(),
            _ => {
                let liar = Liar::new(seed, self.pages, u64::from(frames));
                self.directory.set_manager(tenant, Box::new(liar), false).unwrap();
            }
        }
    }

    fn step(&mut self) {
        let (tenant, page) = (self.tenant(), self.page());
        match self.below(40) {
            0 | 1 if self.lists.len() < 8 => {
                let policy = match self.below(5) {
                    0 => HintPolicy::Aggressive { batch: self.below(6) as u16 },
                    1 => HintPolicy::Off,
                    2 => HintPolicy::CostBenefit,
                    3 => HintPolicy::Horizon,
                    _ => HintPolicy::Auto,
                };
                let options = HintOptions {
                    policy,
                    depth_max: self.below(40) as u32,
                    in_flight_max: self.below(10) as u32,
                };
                self.lists.push(self.directory.open_hints(tenant, options).unwrap());
            }
            2 if !self.lists.is_empty() => {
                let at = self.below(self.lists.len() as u64) as usize;
                let list = self.lists.swap_remove(at);
                self.close_list(list);
            }
            3..=9 => {
                if let Some(list) = self.list() {
                    let many = if self.below(20) == 0 { 200 } else { 1 + self.below(12) };
                    for step in 0..many {
                        let page = PageId((page.0 + step) % (self.pages + 2));
                        self.directory.hint(list, page, self.there(page));
                    }
                }
            }
            10 | 11 => {
                if let Some(list) = self.list() {
                    match self.below(5) {
                        0 => self.directory.skip_hints(list, self.random.below(8)),
                        1 => {
                            if let Some(state) = self.directory.hint_state(list) {
                                self.directory.hints_consumed(list, state.position + self.random.below(5));
                            }
                        }
                        2 => self.directory.hint_reached(list),
                        3 => self.directory.set_hint_horizon(list, self.random.below(40) as u32),
                        _ => self.directory.hint_waited(list),
                    }
                }
            }
            12..=14 => self.prefetch(tenant),
            15 => self.admit_random(tenant, page),
            16 | 17 => {
                let flying = self.in_memory.iter().find(|(_, (_, state))| *state != State::There);
                if let Some((page, _)) = flying {
                    let page = *page;
                    self.land(page);
                }
            }
            18 => {
                if let Some(frame) = self.there(page) {
                    self.directory.discard(frame);
                    self.busy.remove(&frame);
                    self.in_memory.remove(&page);
                } else {
                    self.directory.forget(&(page..=page));
                }
            }
            19 => {
                if let Some(frame) = self.there(page) {
                    match self.below(3) {
                        0 => self.directory.put_first(frame),
                        _ => self.directory.demote(frame),
                    }
                }
            }
            20 => {
                self.busy.clear();
                let held = 1 + self.below(3);
                for _ in 0..held {
                    let page = self.page();
                    let frame = self.there(page);
                    self.busy.extend(frame);
                }
            }
            21 => {
                let frames = self.below(u64::from(self.directory.frames()) + 2) as u32;
                self.directory.set_floor(tenant, frames).ok();
            }
            22 => {
                let frames = self.below(u64::from(self.directory.frames()) + 2) as u32;
                if self.directory.set_cap(tenant, frames).is_ok() {
                    self.shrink(tenant);
                }
            }
            23 if self.below(3) == 0 => {
                if tenant == DEFAULT_TENANT {
                    self.directory.close_tenant(tenant).unwrap_err();
                } else {
                    self.directory.close_tenant(tenant).unwrap();
                    self.tenants.retain(|open| *open != tenant);
                    self.closed.push(tenant);
                }
            }
            24 | 25 => self.open_tenant(),
            26 if self.below(2) == 0 => self.set_manager(tenant),
            27 => self.direct(tenant, page),
            28 => {
                let busy = self.not_there();
                if let Some(eviction) = self.directory.evict_next(tenant, &mut Busy(&busy, false)) {
                    self.in_memory.remove(&eviction.page).unwrap();
                    self.directory.check_invariants();
                    self.directory.release(eviction.frame);
                }
            }
            29 => self.wish(tenant),
            30 => {
                let flying: Vec<_> = self
                    .in_memory
                    .iter()
                    .filter(|(_, (_, state))| *state != State::There)
                    .map(|(page, (frame, _))| (*page, *frame))
                    .collect();
                if let [(one, a), (other, b), ..] = flying[..]
                    && self.directory.exchange(a, b)
                {
                    self.in_memory.get_mut(&one).unwrap().0 = b;
                    self.in_memory.get_mut(&other).unwrap().0 = a;
                }
            }
            31 => {
                // A hit of a tenant that is closed meanwhile.
                if let (Some(closed), Some(frame)) = (self.closed.first().copied(), self.there(page)) {
                    self.directory.hit(frame, &access(closed, page));
                } else if let Some(closed) = self.closed.first().copied()
                    && !self.in_memory.contains_key(&page)
                {
                    self.admit(closed, page, false, false);
                }
            }
            32 => self.look(tenant),
            _ => self.access(tenant, page),
        }
    }

    fn not_there(&self) -> BTreeSet<FrameId> {
        let mut busy = self.busy.clone();
        let flying = self.in_memory.values().filter(|(_, state)| *state != State::There);
        busy.extend(flying.map(|(frame, _)| *frame));
        busy
    }

    fn admit_random(&mut self, tenant: TenantId, page: PageId) {
        if !self.in_memory.contains_key(&page) {
            self.admit(tenant, page, true, false);
        }
    }

    fn shrink(&mut self, tenant: TenantId) {
        let busy = self.not_there();
        while let Some(eviction) = self.directory.shrink(tenant, &mut Busy(&busy, false)) {
            self.in_memory.remove(&eviction.page).unwrap();
            self.directory.check_invariants();
            self.directory.release(eviction.frame);
        }
    }

    fn direct(&mut self, tenant: TenantId, page: PageId) {
        let range = page..=PageId(page.0 + self.random.below(6));
        let priority = self.random.below(4) as i32 - 1;
        let in_memory = &self.in_memory;
        let frame_of =
            |page| in_memory.get(&page).filter(|(_, state)| *state == State::There).map(|(frame, _)| *frame);
        match self.random.below(3) {
            0 => drop(self.directory.set_policy(tenant, priority, PolicyKind::Mru)),
            1 => drop(self.directory.set_priority(tenant, range, priority, frame_of)),
            _ => drop(self.directory.set_temporary_priority(tenant, range, priority, frame_of)),
        }
    }

    fn wish(&mut self, tenant: TenantId) {
        let busy = self.not_there();
        for _ in 0..8 {
            let Some(Wish::Release { frame, page }) = self.directory.take_wish(tenant) else { break };
            if let Some(gone) = self.directory.evict_page(tenant, frame, page, &mut Busy(&busy, false)) {
                self.in_memory.remove(&gone.page).unwrap();
                self.directory.release(gone.frame);
            }
        }
    }

    fn look(&mut self, tenant: TenantId) {
        let (page, all) = (self.page(), self.directory.frames() + SPARES);
        self.directory.touch((0..all + 5).map(FrameId));
        if let Some(next) = self.directory.next_miss(tenant) {
            self.directory.places_of_miss(tenant, next);
            self.directory.places_in_manager(next, &[page], &mut |_| {});
        }
        self.directory.next_frame(tenant);
        self.directory.next_use_of_victim(tenant);
        self.directory.touch_upcoming(5);
        self.directory.note_gap(tenant, self.random.below(1000) as f64);
        let mut coldest = Vec::new();
        self.directory.coldest(5, &mut coldest);
        self.directory.hits_skipped(tenant, self.random.below(3));
        self.directory.metadata_bytes();
    }

    fn check(&self) {
        assert!(!BETRAYED.load(Ordering::Relaxed));
        self.directory.check_invariants();
        for (page, (frame, state)) in &self.in_memory {
            if *state == State::There {
                assert_eq!(self.directory.page(*frame), Some(*page));
            }
        }
        let frames = self.directory.frames();
        assert_eq!(self.in_memory.len() as u32 + self.directory.free_frames(), frames, "frames are lost");
        for list in &self.lists {
            if let Some(counts) = self.directory.hint_counts(*list) {
                check_counts(&counts);
            }
        }
        for tenant in self.tenants.iter().chain(&self.closed) {
            check_counts(&self.directory.tenant_stats(*tenant).hints);
        }
    }
}

#[track_caller]
fn check_counts(counts: &HintCounts) {
    assert!(counts.used + counts.skipped <= counts.given, "{counts:?}");
    assert!(counts.lost + counts.wasted <= counts.prefetched, "{counts:?}");
}

#[test]
fn features_in_random_steps() {
    for seed in 0..150 {
        let mut driver = Driver::new(seed);
        println!("seed {seed}");
        for _ in 0..700 {
            driver.step();
            driver.check();
        }
    }
}
