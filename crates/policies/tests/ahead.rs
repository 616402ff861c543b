//! Goal: pages that come in ahead of their first access change no decision. A run in which each is accessed
//! at once decides as a run without reading ahead. Pages that are not accessed yet are unknown to managers
//! that do not ask for them, leave in the ledger's order, and leave first once they are demoted.
//!
//! Method: random steps against a plain vector, and two directories side by side.

mod cache;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bufpool_policies::classic::PolicyKind;
use bufpool_policies::{
    Access, Admission, Allocation, Block, Claims, ContextId, DEFAULT_TENANT, Directory, DirectoryOptions,
    FileId, FrameId, Manager, NextFrame, PageId, SplitMix64, TenantId,
};
use cache::NothingBusy;

/// A directory, and the frames of its pages.
struct Driver {
    directory: Directory,
    frames: std::collections::HashMap<PageId, FrameId>,
    /// Pages that were evicted, in order.
    evicted: Vec<PageId>,
    /// Pages on their way in.
    flying: Vec<u64>,
}

fn access(page: u64) -> Access {
    Access {
        page: PageId(page),
        file: FileId(0),
        tenant: DEFAULT_TENANT,
        context: ContextId(1),
        creates: false,
    }
}

impl Driver {
    fn new(frames: u32) -> Self {
        let options =
            DirectoryOptions { frames, allocation: Allocation::LruSp, revocation: true, shared_pages: true };
        let directory = Directory::new(options).unwrap();
        Self { directory, frames: Default::default(), evicted: Vec::new(), flying: Vec::new() }
    }

    fn admitted(&mut self, page: u64, admission: Admission) -> FrameId {
        let frame = match admission {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                self.frames.remove(&page).unwrap();
                self.evicted.push(page);
                frame
            }
            Admission::Exhausted { .. } => panic!("nothing is busy"),
        };
        self.frames.insert(PageId(page), frame);
        frame
    }

    fn access(&mut self, page: u64) {
        match self.frames.get(&PageId(page)) {
            Some(&frame) => {
                self.directory.hit(frame, &access(page));
            }
            None => {
                let admission = self.directory.admit(&access(page), &mut NothingBusy);
                let frame = self.admitted(page, admission);
                self.directory.loaded(frame);
            }
        }
    }

    /// Finds frames for those of the pages that are absent, which are then on their way in.
    fn admit_together(&mut self, pages: std::ops::Range<u64>, ahead: bool) {
        for page in pages {
            if self.frames.contains_key(&PageId(page)) {
                continue;
            }
            let admission = match ahead {
                true => self.directory.admit_ahead(&access(page), &mut NothingBusy),
                false => self.directory.admit(&access(page), &mut NothingBusy),
            };
            self.admitted(page, admission);
            self.flying.push(page);
        }
    }

    /// All pages on their way in arrive.
    fn land(&mut self) {
        self.flying.drain(..).for_each(|page| self.directory.loaded(self.frames[&PageId(page)]));
    }

    fn bring_ahead(&mut self, page: u64, arrives: bool) {
        if self.frames.contains_key(&PageId(page)) {
            return;
        }
        let admission = self.directory.admit_ahead(&access(page), &mut NothingBusy);
        let frame = self.admitted(page, admission);
        assert!(self.directory.is_ahead_in_flight(frame, PageId(page)));
        if arrives {
            self.directory.loaded(frame);
        } else {
            self.directory.failed(frame, DEFAULT_TENANT);
            self.frames.remove(&PageId(page));
        }
    }
}

/// One LRU list, coldest first. Pages that came in ahead and were not accessed yet are marked.
#[derive(Default)]
struct Naive {
    pages: Vec<(u64, bool)>,
    used: u64,
    wasted: u64,
}

impl Naive {
    fn make_room(&mut self, frames: usize) {
        if self.pages.len() == frames {
            self.wasted += u64::from(self.pages.remove(0).1);
        }
    }
}

#[test]
fn agrees_with_a_plain_list() {
    for seed in 0..30 {
        let frames = 8;
        let mut random = SplitMix64::new(seed);
        let mut driver = Driver::new(frames);
        let mut naive = Naive::default();
        for _ in 0..2000 {
            let page = random.below(20);
            let at = naive.pages.iter().position(|(held, _)| *held == page);
            match random.below(6) {
                0..=2 => {
                    driver.access(page);
                    match at {
                        Some(at) => naive.used += u64::from(naive.pages.remove(at).1),
                        None => naive.make_room(frames as usize),
                    }
                    naive.pages.push((page, false));
                }
                3 | 4 => {
                    let arrives = random.below(8) > 0;
                    driver.bring_ahead(page, arrives);
                    if at.is_none() {
                        naive.make_room(frames as usize);
                        if arrives {
                            naive.pages.push((page, true));
                        }
                    }
                }
                _ => {
                    if let Some(&frame) = driver.frames.get(&PageId(page)) {
                        driver.directory.demote(frame);
                    }
                    if let Some(at) = at.filter(|at| naive.pages[*at].1) {
                        let entry = naive.pages.remove(at);
                        naive.pages.insert(0, entry);
                    }
                }
            }
            driver.directory.check_invariants();
            let mut order = Vec::new();
            driver.directory.coldest(frames as usize, &mut order);
            let order: Vec<_> = order.iter().map(|frame| driver.directory.page(*frame).unwrap().0).collect();
            let known = naive.pages.iter().filter(|(_, ahead)| !ahead).map(|(page, _)| *page);
            assert_eq!(order, known.collect::<Vec<_>>());
            assert_eq!(driver.frames.len(), naive.pages.len());
            let upcoming = driver.directory.upcoming().map(|frame| driver.directory.page(frame).unwrap().0);
            let is_full = naive.pages.len() == frames as usize;
            let next: Vec<u64> = naive.pages.iter().filter(|_| is_full).map(|(page, _)| *page).collect();
            assert_eq!(upcoming.collect::<Vec<_>>(), next);
            let miss = driver.directory.next_miss(DEFAULT_TENANT);
            let named = miss.map(|miss| [miss.victim, miss.next].map(|frame| driver.directory.page(frame)));
            let first_two = next.first().map(|first| [*first, *next.get(1).unwrap_or(first)]);
            assert_eq!(named, first_two.map(|pages| pages.map(|page| Some(PageId(page)))));
            for (page, ahead) in &naive.pages {
                assert_eq!(driver.directory.is_ahead(driver.frames[&PageId(*page)], PageId(*page)), *ahead);
            }
            let stats = driver.directory.stats();
            assert_eq!((stats.prefetch_used, stats.prefetch_wasted), (naive.used, naive.wasted));
        }
        assert!(naive.used > 50 && naive.wasted > 50, "the steps reach what they are about");
    }
}

/// Under several policies of the tenant, with overrules among which are mistakes and vindications.
#[test]
fn a_page_that_is_accessed_as_it_comes_in_changes_no_decision() {
    for policy in [PolicyKind::Lru, PolicyKind::Mru, PolicyKind::Arc] {
        let (mut plain, mut ahead) = (Driver::new(12), Driver::new(12));
        for driver in [&mut plain, &mut ahead] {
            driver.directory.set_policy(DEFAULT_TENANT, 0, policy).unwrap();
        }
        let mut random = SplitMix64::new(7);
        for step in 0..4000 {
            let page = if step % 3 == 0 { random.below(40) } else { step % 17 };
            plain.access(page);
            if random.below(2) == 0 {
                ahead.bring_ahead(page, true);
            }
            ahead.access(page);
            ahead.directory.check_invariants();
            assert_eq!(plain.evicted, ahead.evicted, "{policy:?}, step {step}");
        }
        let (plain, ahead) = (plain.directory.stats(), ahead.directory.stats());
        assert_eq!(plain.overrules, ahead.overrules);
        // If the absent page of a placeholder comes in ahead, that shows no mistake.
        assert!(ahead.mistakes <= plain.mistakes);
        let some = policy != PolicyKind::Lru;
        assert!(!some || plain.overrules > 100 && (1..plain.mistakes).contains(&ahead.mistakes));
        assert_eq!(ahead.accesses, plain.accesses);
        assert_eq!(ahead.misses + ahead.prefetch_used, plain.misses);
    }
}

/// MRU would give up the newest pages, which are those that are about to be needed.
#[test]
fn no_manager_gives_up_what_nobody_has_accessed_yet() {
    let mut driver = Driver::new(16);
    driver.directory.set_policy(DEFAULT_TENANT, 0, PolicyKind::Mru).unwrap();
    (0..16).for_each(|page| driver.access(page));
    for first in (100..200).step_by(4) {
        (first..first + 4).for_each(|page| driver.bring_ahead(page, true));
        (first..first + 4).for_each(|page| assert!(driver.frames.contains_key(&PageId(page)), "{page}"));
        (first..first + 4).for_each(|page| driver.access(page));
        driver.directory.check_invariants();
    }
    let stats = driver.directory.stats();
    assert_eq!((stats.prefetched, stats.prefetch_used, stats.prefetch_wasted), (100, 100, 0));
    assert!(stats.overrules > 50);
}

/// A driver that gives up after a number of frames gets the answer that there is none, and nothing has
/// changed.
#[test]
fn a_question_can_be_given_up() {
    struct Impatient(u32);
    impl Claims for Impatient {
        fn is_busy(&mut self, _: FrameId) -> bool {
            self.0 += 1;
            true
        }
        fn claim(&mut self, _: FrameId) -> bool {
            unreachable!("every frame is busy")
        }
        fn gives_up(&self) -> bool {
            self.0 == 5
        }
    }
    let mut driver = Driver::new(16);
    (0..16).for_each(|page| driver.access(page));
    let mut claims = Impatient(0);
    let answer = driver.directory.admit_ahead(&access(99), &mut claims);
    assert!(matches!(answer, Admission::Exhausted { decision } if decision.frames_tried == 5));
    driver.directory.check_invariants();
    let other = driver.directory.open_tenant(0, 16).unwrap();
    assert_eq!(other, TenantId(1));
    driver.access(99);
    assert_eq!(driver.evicted, [PageId(0)]);
}

/// The span follows from pages that leave because they are the oldest, not from pages that were moved to the
/// ledger's head.
#[test]
fn the_span_reaches_back_to_the_page_that_left_for_its_age() {
    let mut driver = Driver::new(3);
    (1..=3).for_each(|page| driver.access(page));
    assert_eq!((driver.directory.now(), driver.directory.span()), (3, 3), "nothing has left");
    driver.access(1);
    driver.access(4);
    // Page 2, loaded at 2, went at 5.
    assert_eq!((driver.directory.now(), driver.directory.span()), (5, 3));
    driver.access(4);
    assert_eq!(driver.directory.span(), 4, "it grows while nothing leaves");
    driver.bring_ahead(5, true);
    // Page 3, loaded at 3, went at 7.
    assert_eq!(driver.directory.span(), 4);
    driver.directory.demote(driver.frames[&PageId(5)]);
    driver.access(6);
    assert_eq!((driver.evicted.last(), driver.directory.span()), (Some(&PageId(5)), 5));
}

#[test]
fn a_page_that_left_had_not_been_used_since_its_last_access() {
    let mut driver = Driver::new(3);
    assert_eq!(driver.directory.age_of_last(), None, "departures are not watched");
    driver.directory.watch_departures();
    (1..=3).for_each(|page| driver.access(page));
    driver.access(1);
    driver.access(4);
    // Page 2, loaded at 2, went when 4 accesses were made.
    assert_eq!((driver.evicted.last(), driver.directory.age_of_last()), (Some(&PageId(2)), Some(2)));
    driver.access(3);
    driver.directory.discard(driver.frames[&PageId(3)]);
    assert_eq!(driver.directory.age_of_last(), Some(0), "it was the last access");
}

/// Pages on their way in may exchange frames, which changes no decision about pages.
#[test]
fn which_frame_a_page_comes_into_is_no_decision() {
    for policy in [PolicyKind::Lru, PolicyKind::Mru, PolicyKind::Arc] {
        let (mut plain, mut exchanging) = (Driver::new(12), Driver::new(12));
        for driver in [&mut plain, &mut exchanging] {
            driver.directory.set_policy(DEFAULT_TENANT, 0, policy).unwrap();
        }
        let mut random = SplitMix64::new(11);
        let mut exchanged = 0;
        for step in 0..3000 {
            let first = if step % 3 == 0 { random.below(40) } else { step * 4 % 20 };
            let count = 1 + random.below(4);
            let ahead = random.below(2) == 0;
            for driver in [&mut plain, &mut exchanging] {
                driver.admit_together(first..first + count, ahead);
            }
            let flying: Vec<u64> = exchanging.flying.clone();
            assert_eq!(plain.flying, flying);
            for pair in flying.windows(2).filter(|_| random.below(2) == 0) {
                let pages = [PageId(pair[0]), PageId(pair[1])];
                let [a, b] = pages.map(|page| exchanging.frames[&page]);
                assert!(exchanging.directory.exchange(a, b));
                exchanging.frames.extend([(pages[0], b), (pages[1], a)]);
                exchanging.directory.check_invariants();
                exchanged += 1;
            }
            for driver in [&mut plain, &mut exchanging] {
                driver.land();
                driver.access(first);
                driver.directory.check_invariants();
                for (page, frame) in &driver.frames {
                    assert_eq!(driver.directory.page(*frame), Some(*page));
                }
            }
            assert_eq!(plain.evicted, exchanging.evicted, "{policy:?}, step {step}");
        }
        assert_eq!(plain.directory.stats(), exchanging.directory.stats());
        assert!(exchanged > 500 && (policy == PolicyKind::Lru || plain.directory.stats().overrules > 100));
    }
}

#[test]
fn only_pages_in_flight_alike_change_frames() {
    let mut driver = Driver::new(8);
    driver.access(1);
    driver.admit_together(2..4, false);
    driver.admit_together(4..5, true);
    let other = driver.directory.open_tenant(0, 8).unwrap();
    let theirs = Access { tenant: other, ..access(5) };
    let admission = driver.directory.admit(&theirs, &mut NothingBusy);
    driver.admitted(5, admission);
    let frame = |page| driver.frames[&PageId(page)];
    let (mine, resident, ahead, theirs) = (frame(2), frame(1), frame(4), frame(5));
    for refused in [mine, resident, ahead, theirs] {
        assert!(!driver.directory.exchange(mine, refused) && !driver.directory.exchange(refused, mine));
        driver.directory.check_invariants();
    }
    assert!(driver.directory.exchange(mine, frame(3)));
    assert_eq!(driver.directory.page(resident), Some(PageId(1)));
}

/// A manager that gives up the page that came in last. It counts its mistakes, and records the pages that it
/// is told are about to come or go.
#[derive(Default)]
struct NewestFirst {
    blocks: Vec<FrameId>,
    mistakes: Arc<AtomicU64>,
    announced: Arc<Mutex<Vec<u64>>>,
}

impl Manager for NewestFirst {
    fn new_block(&mut self, block: &Block) {
        self.blocks.push(block.frame);
    }

    fn block_gone(&mut self, frame: FrameId, _: PageId) {
        self.blocks.retain(|other| *other != frame);
    }

    fn block_accessed(&mut self, _: FrameId, _: &Access) {}

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        _: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.blocks.last().copied().unwrap_or(candidate)
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {
        self.mistakes.fetch_add(1, Ordering::Relaxed);
    }

    fn touch_pages(&self, pages: &[PageId]) {
        self.announced.lock().unwrap().extend(pages.iter().map(|page| page.0));
    }
}

/// A manager gave up page 4 instead of page 1, which the ledger named. If page 4 then comes in ahead, page 1
/// is the candidate, and the overrule is not judged. If a process misses on page 4, the overrule was a
/// mistake.
#[test]
fn a_placeholder_that_a_prefetch_uses_is_settled_unjudged() {
    for ahead in [true, false] {
        let manager = NewestFirst::default();
        let mistakes_told = manager.mistakes.clone();
        let mut driver = Driver::new(4);
        driver.directory.set_manager(DEFAULT_TENANT, Box::new(manager), false).unwrap();
        (1..=5).for_each(|page| driver.access(page));
        assert_eq!(driver.evicted, [PageId(4)]);
        assert_eq!(driver.directory.tenant_stats(DEFAULT_TENANT).outstanding, 1);
        let admission = match ahead {
            true => driver.directory.admit_ahead(&access(4), &mut NothingBusy),
            false => driver.directory.admit(&access(4), &mut NothingBusy),
        };
        let Admission::Evict { decision, .. } = admission else { panic!("no frame is free") };
        let frame_of_1 = driver.frames[&PageId(1)];
        assert_eq!(decision.candidate, Some(frame_of_1));
        assert_eq!(decision.mistake, (!ahead).then_some(frame_of_1));
        let frame = driver.admitted(4, admission);
        driver.directory.loaded(frame);
        let stats = driver.directory.tenant_stats(DEFAULT_TENANT);
        assert_eq!((stats.mistakes, stats.vindications), (u64::from(!ahead), 0), "ahead {ahead}");
        assert_eq!(mistakes_told.load(Ordering::Relaxed), stats.mistakes);
        driver.directory.check_invariants();
    }
}

/// Without prices the next frame costs nothing; and there is no next frame where no page may go.
#[test]
fn frames_cost_nothing_where_the_order_alone_decides() {
    let options =
        DirectoryOptions { frames: 2, allocation: Allocation::LruSp, revocation: true, shared_pages: false };
    let mut directory = Directory::new(options).unwrap();
    let guest = directory.open_tenant(0, 2).unwrap();
    assert_eq!(directory.next_frame(guest), NextFrame::Free);
    let mut driver =
        Driver { directory, frames: Default::default(), evicted: Vec::new(), flying: Vec::new() };
    (1..=2).for_each(|page| driver.access(page));
    assert!(matches!(driver.directory.next_frame(guest), NextFrame::Taken { cost: 0.0, .. }));
    driver.directory.set_floor(DEFAULT_TENANT, 2).unwrap();
    assert_eq!(driver.directory.next_frame(guest), NextFrame::None, "all are below a floor");
    let own = driver.directory.next_frame(DEFAULT_TENANT);
    assert!(matches!(own, NextFrame::Taken { cost: 0.0, .. }), "which is its own: {own:?}");
    driver.directory.check_invariants();
}

/// A manager that records what it is told, and gives up pages that came in ahead before all others.
struct Knowing {
    told: Arc<Mutex<Vec<(&'static str, u64)>>>,
    ahead: Vec<FrameId>,
}

impl Knowing {
    fn note(&self, what: &'static str, page: PageId) {
        self.told.lock().unwrap().push((what, page.0));
    }
}

impl Manager for Knowing {
    fn new_block(&mut self, block: &Block) {
        self.ahead.retain(|frame| *frame != block.frame);
        self.note("new", block.page);
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.ahead.retain(|held| *held != frame);
        self.note("gone", page);
    }

    fn block_accessed(&mut self, _: FrameId, access: &Access) {
        self.note("accessed", access.page);
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.ahead.last().copied().filter(|frame| !busy(*frame)).unwrap_or(candidate)
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {}

    fn knows_ahead(&self) -> bool {
        true
    }

    fn block_ahead(&mut self, block: &Block) {
        self.ahead.push(block.frame);
        self.note("ahead", block.page);
    }
}

#[test]
fn a_manager_that_knows_ahead_is_told_and_asked() {
    let mut driver = Driver::new(4);
    driver.bring_ahead(10, true);
    driver.access(0);
    let told = Arc::new(Mutex::new(Vec::new()));
    let manager = Knowing { told: Arc::clone(&told), ahead: Vec::new() };
    driver.directory.set_manager(DEFAULT_TENANT, Box::new(manager), false).unwrap();
    driver.bring_ahead(11, true);
    driver.bring_ahead(12, true);
    driver.access(11);
    // The ledger's candidate is page 10, which came in ahead; the manager names page 12, which came in ahead
    // last.
    driver.access(1);
    driver.directory.check_invariants();
    assert_eq!(driver.evicted, [PageId(12)]);
    // The overrule was a mistake: its placeholder makes page 10 the candidate, which the manager then gives
    // up.
    driver.access(12);
    driver.directory.check_invariants();
    assert_eq!(driver.evicted, [PageId(12), PageId(10)]);
    let expected = [
        ("ahead", 10),
        ("new", 0),
        ("ahead", 11),
        ("ahead", 12),
        ("new", 11),
        ("gone", 12),
        ("new", 1),
        ("gone", 10),
        ("new", 12),
    ];
    assert_eq!(*told.lock().unwrap(), expected);
    let stats = driver.directory.tenant_stats(DEFAULT_TENANT);
    assert_eq!((stats.overrules, stats.mistakes, stats.prefetch_wasted, stats.manager_panics), (1, 1, 2, 0));
}

/// The manager is told of hits that are first accesses of pages that came in ahead, and of the pages that go
/// next, in the ledger's order.
#[test]
fn a_manager_is_told_what_is_about_to_come_and_go() {
    let mut driver = Driver::new(100);
    let manager = NewestFirst::default();
    let announced = Arc::clone(&manager.announced);
    driver.directory.set_manager(DEFAULT_TENANT, Box::new(manager), false).unwrap();
    let taken = || std::mem::take(&mut *announced.lock().unwrap());
    (0..20).for_each(|page| driver.access(page));
    driver.admit_together(20..100, true);
    let all: Vec<FrameId> = (0..100).map(|page| driver.frames[&PageId(page)]).collect();
    driver.directory.touch(all.iter().copied());
    assert_eq!(taken(), [0; 0], "what is on its way is not accessed yet");
    driver.land();
    driver.directory.touch(all[..20].iter().copied());
    assert_eq!(taken(), [0; 0], "the manager knows them already");
    driver.directory.touch(all.iter().copied());
    assert_eq!(taken(), (20..100).collect::<Vec<u64>>());
    driver.directory.touch(all[20..].iter().copied());
    assert_eq!(taken(), (20..100).collect::<Vec<u64>>());
    driver.directory.touch_upcoming(70);
    assert_eq!(taken(), (0..70).collect::<Vec<u64>>());
    driver.directory.discard(all[5]);
    driver.directory.touch_upcoming(70);
    assert_eq!(taken(), [0; 0], "nothing goes while a frame is free");
}
