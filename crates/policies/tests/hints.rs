//! Goal: with complete hints, misses are those of Belady's OPT. Wrong hints cost other tenants nothing. A
//! list may be opened, skipped and closed at any time.
//!
//! Method: a driver with a directory; misses against a search for the farthest next use; random steps with
//! `check_invariants` after each.

use std::collections::{HashMap, HashSet};

use bufpool_policies::classic::PolicyKind;
use bufpool_policies::hints::{HintListId, HintPolicy, ListState};
use bufpool_policies::{
    Access, Admission, Allocation, Block, Claims, ContextId, DEFAULT_TENANT, Directory, DirectoryOptions,
    FileId, FrameId, HintOptions, Manager, ManagerKind, NextFrame, PageId, SplitMix64, TenantId,
};

struct Busy<'a>(&'a HashSet<FrameId>);

impl Claims for Busy<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.0.contains(&frame)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !self.0.contains(&frame)
    }
}

struct Driver {
    directory: Directory,
    frames: HashMap<PageId, FrameId>,
    flying: Vec<PageId>,
    busy: HashSet<FrameId>,
    /// Pages that were evicted, each with the page that came in for it.
    evicted: Vec<(PageId, PageId)>,
    misses: u64,
}

fn access(tenant: TenantId, page: PageId) -> Access {
    Access { page, file: FileId(0), tenant, context: ContextId(1), creates: false }
}

const ALL: HintOptions = HintOptions { policy: HintPolicy::Horizon, depth_max: 32, in_flight_max: 8 };

impl Driver {
    fn new(frames: u32, revocation: bool) -> Self {
        Self::with(frames, Allocation::LruSp, revocation)
    }

    fn with(frames: u32, allocation: Allocation, revocation: bool) -> Self {
        let options = DirectoryOptions { frames, allocation, revocation, shared_pages: true };
        Self {
            directory: Directory::new(options).unwrap(),
            frames: HashMap::new(),
            flying: Vec::new(),
            busy: HashSet::new(),
            evicted: Vec::new(),
            misses: 0,
        }
    }

    fn admitted(&mut self, page: PageId, admission: Admission) -> Option<FrameId> {
        let frame = match admission {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page: victim, .. } => {
                self.frames.remove(&victim).unwrap();
                self.evicted.push((victim, page));
                frame
            }
            Admission::Exhausted { .. } => return None,
        };
        self.frames.insert(page, frame);
        Some(frame)
    }

    /// Makes the page, which is not in memory. Returns false if no frame can be had.
    fn create(&mut self, tenant: TenantId, page: PageId) -> bool {
        let made = Access { creates: true, ..access(tenant, page) };
        let admission = self.directory.admit(&made, &mut Busy(&self.busy));
        let Some(frame) = self.admitted(page, admission) else { return false };
        self.directory.loaded(frame);
        true
    }

    /// Accesses the page, which arrives first if it is on its way. Returns false if no frame can be had.
    fn access(&mut self, tenant: TenantId, page: PageId) -> bool {
        if self.flying.contains(&page) {
            self.land(page);
        }
        match self.frames.get(&page) {
            Some(&frame) => {
                self.directory.hit(frame, &access(tenant, page));
                true
            }
            None => {
                self.misses += 1;
                let admission = self.directory.admit(&access(tenant, page), &mut Busy(&self.busy));
                let Some(frame) = self.admitted(page, admission) else { return false };
                self.directory.loaded(frame);
                true
            }
        }
    }

    /// Begins to bring in the pages that the tenant's lists want. Returns them with their positions in the
    /// lists.
    fn prefetch(&mut self, tenant: TenantId, room: u32) -> Vec<(PageId, u64)> {
        let mut wants = Vec::new();
        let frames = &self.frames;
        self.directory.hint_wants(tenant, room, &mut |page| frames.contains_key(&page), &mut wants);
        let mut begun = Vec::new();
        for want in wants {
            if self.frames.contains_key(&want.page) {
                continue;
            }
            let admission = self.directory.admit_ahead(&access(tenant, want.page), &mut Busy(&self.busy));
            if self.admitted(want.page, admission).is_some() {
                self.flying.push(want.page);
                begun.push((want.page, want.position));
            }
        }
        begun
    }

    fn land(&mut self, page: PageId) {
        self.flying.retain(|flying| *flying != page);
        self.directory.loaded(self.frames[&page]);
    }

    fn disclose(&mut self, list: HintListId, page: PageId) -> Option<u64> {
        let resident = self.frames.get(&page).copied().filter(|_| !self.flying.contains(&page));
        self.directory.hint(list, page, resident)
    }
}

/// Misses of Belady's OPT, by linear search.
fn misses_of_opt(reads: &[PageId], frames: usize) -> u64 {
    let mut resident: Vec<PageId> = Vec::new();
    let mut misses = 0;
    for (at, page) in reads.iter().enumerate() {
        if resident.contains(page) {
            continue;
        }
        misses += 1;
        if resident.len() == frames {
            let next = |page: &PageId| reads[at..].iter().position(|read| read == page).unwrap_or(usize::MAX);
            let farthest = (0..frames).max_by_key(|slot| next(&resident[*slot])).unwrap();
            resident.swap_remove(farthest);
        }
        resident.push(*page);
    }
    misses
}

#[test]
fn with_all_reads_disclosed_and_none_ahead_misses_are_those_of_opt() {
    for seed in 0..300 {
        let mut random = SplitMix64::new(seed);
        let (pages, frames) = (2 + random.below(30), 1 + random.below(12) as u32);
        let reads: Vec<PageId> = (0..400).map(|_| PageId(random.below(pages))).collect();
        let mut driver = Driver::new(frames, false);
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        for read in &reads {
            driver.disclose(list, *read).unwrap();
        }
        for read in &reads {
            assert!(driver.access(DEFAULT_TENANT, *read));
            driver.directory.check_invariants();
        }
        assert_eq!(driver.misses, misses_of_opt(&reads, frames as usize), "seed {seed}");
        let ListState { counts, position, .. } = driver.directory.hint_state(list).unwrap();
        assert_eq!((counts.given, counts.used, counts.skipped, position), (400, 400, 0, 400));
    }
}

/// A loop over 1.5 times as many pages as frames, disclosed three passes ahead, misses about as often as
/// under OPT. LRU would miss every read.
#[test]
fn a_disclosed_loop_above_memory_misses_what_it_must() {
    let mut driver = Driver::new(100, true);
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    let reads: Vec<PageId> = (0..150 * 20).map(|at| PageId(at % 150)).collect();
    for (at, read) in reads.iter().enumerate() {
        if at == 0 {
            for read in &reads[..450] {
                driver.disclose(list, *read).unwrap();
            }
        } else if let Some(next) = reads.get(at + 449) {
            driver.disclose(list, *next);
        }
        driver.access(DEFAULT_TENANT, *read);
    }
    driver.directory.check_invariants();
    let opt = misses_of_opt(&reads, 100);
    assert!(driver.misses * 100 <= opt * 102, "{} misses, OPT {opt}", driver.misses);
}

/// The misses of a disclosed loop are spread among its hits, and are about as many as those of OPT.
#[test]
fn what_a_loop_gives_up_lies_between_what_it_keeps() {
    let (length, frames, rounds) = (1200_u64, 800, 6);
    let mut driver = Driver::new(frames, true);
    let options = HintOptions { policy: HintPolicy::Auto, ..ALL };
    let list = driver.directory.open_hints(DEFAULT_TENANT, options).unwrap();
    let reads: Vec<PageId> = (0..length * rounds).map(|at| PageId(at % length)).collect();
    for read in &reads {
        driver.disclose(list, *read).unwrap();
    }
    let (mut longest, mut run) = (0, 0);
    for (at, read) in (0..).zip(&reads) {
        let before = driver.misses;
        driver.access(DEFAULT_TENANT, *read);
        run = if driver.misses > before { run + 1 } else { 0 };
        longest = if at < length { 0 } else { longest.max(run) };
    }
    driver.directory.check_invariants();
    let opt = misses_of_opt(&reads, frames as usize);
    assert!(driver.misses * 100 <= opt * 102, "{} misses, OPT {opt}", driver.misses);
    assert!(longest <= 64, "{longest} reads in a row, with 400 pages a round that have to be read");
}

/// A page that comes in ahead never replaces a page that is needed before it.
#[test]
fn a_prefetch_does_no_harm() {
    let mut prefetched = 0;
    for seed in 0..200 {
        let mut random = SplitMix64::new(seed);
        let (pages, frames) = (4 + random.below(40), 3 + random.below(12) as u32);
        let reads: Vec<PageId> = (0..300).map(|_| PageId(random.below(pages))).collect();
        let mut driver = Driver::new(frames, false);
        let policy = match seed % 3 {
            0 => HintPolicy::Horizon,
            1 => HintPolicy::Aggressive { batch: 16 },
            _ => HintPolicy::Auto,
        };
        let options = HintOptions { policy, ..ALL };
        let list = driver.directory.open_hints(DEFAULT_TENANT, options).unwrap();
        for read in &reads {
            driver.disclose(list, *read).unwrap();
        }
        for (at, read) in reads.iter().enumerate() {
            let before = driver.evicted.len();
            let begun = driver.prefetch(DEFAULT_TENANT, frames / 2);
            prefetched += begun.len();
            for (victim, comes_in) in &driver.evicted[before..] {
                let next = |page| reads[at..].iter().position(|read| *read == page).unwrap_or(usize::MAX);
                assert!(
                    next(*victim) > next(*comes_in),
                    "seed {seed}, read {at}: {victim:?} for {comes_in:?}"
                );
            }
            assert!(begun.iter().all(|(page, position)| reads[*position as usize] == *page));
            if random.below(2) == 0
                && let Some(page) = driver.flying.first().copied()
            {
                driver.land(page);
            }
            driver.access(DEFAULT_TENANT, *read);
            driver.directory.check_invariants();
        }
        let stats = driver.directory.tenant_stats(DEFAULT_TENANT);
        assert!(stats.mistakes <= driver.misses, "only a process's miss is a mistake");
    }
    assert!(prefetched > 10_000, "{prefetched} pages came in ahead");
}

/// Several tenants, lists that come and go, hints that are wrong, pages that end, caps, frames that are busy.
#[test]
fn random_steps_keep_the_invariants() {
    for seed in 0..150 {
        let mut random = SplitMix64::new(seed);
        let frames = 4 + random.below(20) as u32;
        let mut driver = Driver::new(frames, seed % 2 == 0);
        let other = driver.directory.open_tenant(0, frames).unwrap();
        let tenants = [DEFAULT_TENANT, other];
        let mut lists: Vec<(HintListId, TenantId)> = Vec::new();
        let lists_max = if seed % 3 == 0 { 20 } else { 4 };
        for _ in 0..600 {
            let tenant = tenants[random.below(2) as usize];
            let page = PageId(random.below(50));
            match random.below(12) {
                0 if lists.len() < lists_max => {
                    let policy = match random.below(4) {
                        0 => HintPolicy::Aggressive { batch: 4 },
                        1 => HintPolicy::Off,
                        2 => HintPolicy::CostBenefit,
                        _ => HintPolicy::Auto,
                    };
                    let options = HintOptions { policy, ..ALL };
                    lists.push((driver.directory.open_hints(tenant, options).unwrap(), tenant));
                }
                1 if !lists.is_empty() && random.below(4) == 0 => {
                    let (list, _) = lists.swap_remove(random.below(lists.len() as u64) as usize);
                    driver.directory.close_hints(list);
                    assert!(driver.directory.hint_state(list).is_none());
                }
                2..=4 if !lists.is_empty() => {
                    let (list, _) = lists[random.below(lists.len() as u64) as usize];
                    driver.disclose(list, page);
                }
                5 if !lists.is_empty() => {
                    let (list, _) = lists[random.below(lists.len() as u64) as usize];
                    match random.below(4) {
                        0 => driver.directory.skip_hints(list, random.below(4)),
                        1 => {
                            let position = driver.directory.hint_state(list).unwrap().position;
                            driver.directory.hints_consumed(list, position + random.below(3));
                        }
                        2 => driver.directory.hint_reached(list),
                        _ => driver.directory.hint_waited(list),
                    }
                }
                6 => drop(driver.prefetch(tenant, random.below(6) as u32)),
                7 if !driver.flying.is_empty() => {
                    let page = driver.flying[random.below(driver.flying.len() as u64) as usize];
                    if random.below(5) == 0 {
                        driver.flying.retain(|flying| *flying != page);
                        let frame = driver.frames.remove(&page).unwrap();
                        driver.directory.failed(frame, tenant);
                    } else {
                        driver.land(page);
                    }
                }
                8 if random.below(4) == 0 => {
                    let resident = driver.frames.get(&page).copied();
                    if let Some(frame) = resident.filter(|_| !driver.flying.contains(&page)) {
                        driver.directory.discard(frame);
                        driver.frames.remove(&page);
                        driver.busy.remove(&frame);
                    }
                }
                9 => {
                    driver.busy.clear();
                    let held = driver.frames.get(&page).copied();
                    driver.busy.extend(held.filter(|_| !driver.flying.contains(&page)));
                }
                _ => {
                    driver.access(tenant, page);
                }
            }
            driver.directory.check_invariants();
        }
        while let Some((list, _)) = lists.pop() {
            driver.directory.close_hints(list);
            driver.directory.check_invariants();
        }
    }
}

/// A page that read-ahead brought in, and that a list only named, is not wasted when the list is closed,
/// whether other lists are open or not.
#[test]
fn what_came_in_for_another_reason_is_not_wasted_by_a_list() {
    for others in [0, 1] {
        let mut driver = Driver::new(8, true);
        let page = PageId(5);
        let ahead = driver.directory.admit_ahead(&access(DEFAULT_TENANT, page), &mut Busy(&driver.busy));
        driver.admitted(page, ahead).unwrap();
        driver.land(page);
        (0..others).for_each(|_| _ = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap());
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        driver.disclose(list, page).unwrap();
        driver.directory.check_invariants();
        let counts = driver.directory.close_hints(list).unwrap();
        assert_eq!((counts.given, counts.prefetched, counts.wasted), (1, 0, 0), "{others} others");
    }
}

/// Hints that are wrong are ignored after a while, and the neighbour misses no more than without them.
#[test]
fn wrong_hints_cost_nobody_else() {
    let run = |lies: bool| {
        let mut random = SplitMix64::new(7);
        let mut driver = Driver::new(64, true);
        let liar = driver.directory.open_tenant(0, 64).unwrap();
        let list = lies.then(|| driver.directory.open_hints(liar, ALL).unwrap());
        let mut neighbours_misses = 0;
        for at in 0..20_000_u64 {
            if let Some(list) = list {
                driver.disclose(list, PageId(1000 + at % 40));
            }
            driver.access(liar, PageId(1000 + random.below(40)));
            let before = driver.misses;
            driver.access(DEFAULT_TENANT, PageId(random.below(40)));
            neighbours_misses += driver.misses - before;
        }
        driver.directory.check_invariants();
        neighbours_misses
    };
    let (without, with) = (run(false), run(true));
    // Fewer where a wrong hint happens to be right.
    assert!(with <= without, "{with} misses of the neighbour, {without} without hints");
}

/// If half of the hints are never read, nothing more is fetched ahead for the list.
#[test]
fn a_reader_that_skips_loses_the_right_to_prefetch() {
    let mut driver = Driver::new(100, true);
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    for at in 0..1000_u64 {
        driver.disclose(list, PageId(2 * at));
        driver.disclose(list, PageId(2 * at + 1));
    }
    assert!(!driver.prefetch(DEFAULT_TENANT, 8).is_empty());
    for at in 0..400 {
        driver.access(DEFAULT_TENANT, PageId(2 * at));
    }
    assert_eq!(driver.prefetch(DEFAULT_TENANT, 8), []);
    let counts = driver.directory.hint_state(list).unwrap().counts;
    // A hint counts as skipped after several reads of later hints. The last three hints are not known to be
    // skipped yet.
    assert_eq!((counts.used, counts.skipped), (400, 396));
}

/// A reader that skips page after page by calls loses the right to prefetch too. One long skip does not cost
/// it.
#[test]
fn a_reader_that_leaves_page_after_page_out_loses_it_too() {
    let open = || {
        let mut driver = Driver::new(100, true);
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        for at in 0..1000_u64 {
            driver.disclose(list, PageId(at)).unwrap();
        }
        (driver, list)
    };
    let (mut driver, list) = open();
    driver.directory.skip_hints(list, 500);
    (500..700).for_each(|at| assert!(driver.access(DEFAULT_TENANT, PageId(at))));
    assert!(!driver.prefetch(DEFAULT_TENANT, 8).is_empty());
    let (mut driver, list) = open();
    (0..256).for_each(|_| driver.directory.skip_hints(list, 1));
    assert_eq!(driver.prefetch(DEFAULT_TENANT, 8), []);
    let counts = driver.directory.hint_state(list).unwrap().counts;
    assert_eq!((counts.used, counts.skipped), (0, 256));
}

/// A tenant that leaves the commons takes its blocks along, and lists of tenants that stay do not name them
/// any more.
#[test]
fn blocks_that_leave_the_commons_leave_its_lists() {
    let mut driver = Driver::new(10, true);
    let manager = || ManagerKind::Auto.build(10, 0, DEFAULT_TENANT);
    driver.directory.join_commons(DEFAULT_TENANT, manager).unwrap();
    let other = driver.directory.open_tenant(0, 10).unwrap();
    driver.directory.join_commons(other, manager).unwrap();
    (0..5).for_each(|page| assert!(driver.access(other, PageId(page))));
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    for page in 0..8 {
        driver.disclose(list, PageId(page)).unwrap();
    }
    driver.directory.check_invariants();
    driver.directory.set_floor(other, 2).unwrap();
    driver.directory.check_invariants();
    (0..40).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page % 20))));
    driver.directory.check_invariants();
}

/// Claims of a driver that gives up after a number of looks at frames.
struct FewLooks<'a> {
    busy: &'a HashSet<FrameId>,
    left: u32,
}

impl Claims for FewLooks<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.left = self.left.saturating_sub(1);
        self.busy.contains(&frame)
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !self.busy.contains(&frame)
    }

    fn gives_up(&self) -> bool {
        self.left == 0
    }
}

/// Where frames are taken by their prices, a busy frame is passed over in this decision, and the next one is
/// taken.
#[test]
fn a_busy_frame_is_passed_over_where_frames_have_prices() {
    let mut driver = Driver::with(8, Allocation::CostBenefit, true);
    (0..8).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    let oldest: HashSet<FrameId> = (0..3).map(|page| driver.frames[&PageId(page)]).collect();
    let mut claims = FewLooks { busy: &oldest, left: 8 };
    let missing = access(DEFAULT_TENANT, PageId(100));
    match driver.directory.admit(&missing, &mut claims) {
        Admission::Evict { page, .. } => assert_eq!(page, PageId(3)),
        other => panic!("{other:?}, expected page 3 to go"),
    }
    driver.directory.check_invariants();
}

/// A loop over as many pages as frames hits only while all frames are kept, so the next frame has a cost.
#[test]
fn the_next_frame_costs_what_its_account_loses() {
    let mut driver = Driver::with(8, Allocation::CostBenefit, true);
    for page in (0..4).flat_map(|_| 0..8) {
        driver.directory.note_gap(DEFAULT_TENANT, 1.0);
        assert!(driver.access(DEFAULT_TENANT, PageId(page)));
    }
    let next = driver.directory.next_frame(DEFAULT_TENANT);
    assert!(matches!(next, NextFrame::Taken { page: PageId(0), cost, .. } if cost > 0.0), "{next:?}");
    // Without a rate of accesses there is no loss for each second.
    driver.directory.forget_rate(DEFAULT_TENANT);
    let next = driver.directory.next_frame(DEFAULT_TENANT);
    assert!(matches!(next, NextFrame::Taken { page: PageId(0), cost: 0.0, .. }), "{next:?}");
}

/// An account has blocks that no list names. Such a candidate is expected to stay idle for as long as it has
/// been. The list's farthest block goes instead of the candidate if it is needed later than that.
#[test]
fn the_farthest_block_goes_if_it_is_needed_later_than_the_candidate() {
    let idle_for = |others: u64| {
        let mut driver = Driver::new(4, true);
        // The candidate, two other blocks, and the block that is needed last.
        for page in [10, 20, 21, 30] {
            assert!(driver.access(DEFAULT_TENANT, PageId(page)));
        }
        (0..others).for_each(|_| assert!(driver.access(DEFAULT_TENANT, PageId(20))));
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        for page in (40..50).chain([30]) {
            driver.disclose(list, PageId(page)).unwrap();
        }
        assert!(driver.access(DEFAULT_TENANT, PageId(60)));
        driver.directory.check_invariants();
        driver.evicted[0].0
    };
    assert_eq!(idle_for(0), PageId(30));
    assert_eq!(idle_for(100), PageId(10));
}

/// A manager that panics if it is asked, or told of a mistake, about a block that it was not told of.
#[derive(Default)]
struct KnowsItsBlocks(HashSet<FrameId>);

impl Manager for KnowsItsBlocks {
    fn new_block(&mut self, block: &Block) {
        self.0.insert(block.frame);
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        self.0.remove(&frame);
    }

    fn block_accessed(&mut self, _frame: FrameId, _access: &Access) {}

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        _busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        assert!(self.0.contains(&candidate), "{candidate:?} is known");
        candidate
    }

    fn placeholder_used(&mut self, _missing: &Access, placeholder: FrameId) {
        assert!(self.0.contains(&placeholder), "{placeholder:?} is known");
    }
}

/// The candidate is a page that came in ahead and was not accessed yet. A list may name another page; the
/// manager is not asked.
#[test]
fn a_manager_beside_a_list_is_asked_about_what_it_knows() {
    let mut driver = Driver::new(4, true);
    let manager = Box::new(KnowsItsBlocks::default());
    driver.directory.set_manager(DEFAULT_TENANT, manager, false).unwrap();
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    driver.disclose(list, PageId(40)).unwrap();
    let ahead = driver.directory.admit_ahead(&access(DEFAULT_TENANT, PageId(10)), &mut Busy(&driver.busy));
    driver.admitted(PageId(10), ahead).unwrap();
    driver.land(PageId(10));
    (20..25).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    let evicted: Vec<PageId> = driver.evicted.iter().map(|(page, _)| *page).collect();
    assert_eq!(evicted, [PageId(10), PageId(20)]);
    let stats = driver.directory.tenant_stats(DEFAULT_TENANT);
    assert_eq!((stats.decisions, stats.manager_panics), (2, 0));
}

/// The candidate is the same. The list gives up a page that it has read instead, which is missed soon.
#[test]
fn a_manager_hears_of_no_mistake_about_a_block_that_it_does_not_know() {
    let mut driver = Driver::new(4, true);
    let manager = Box::new(KnowsItsBlocks::default());
    driver.directory.set_manager(DEFAULT_TENANT, manager, false).unwrap();
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    driver.disclose(list, PageId(20)).unwrap();
    let ahead = driver.directory.admit_ahead(&access(DEFAULT_TENANT, PageId(10)), &mut Busy(&driver.busy));
    driver.admitted(PageId(10), ahead).unwrap();
    driver.land(PageId(10));
    (20..24).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    assert_eq!(driver.evicted, [(PageId(20), PageId(23))], "in place of page 10");
    assert!(driver.access(DEFAULT_TENANT, PageId(20)));
    let stats = driver.directory.tenant_stats(DEFAULT_TENANT);
    assert_eq!((stats.mistakes, stats.manager_panics), (1, 0));
}

/// A list discloses reads. Pages that are made, and read later, are still named when they have been made, and
/// go in the order of their reads.
#[test]
fn making_a_page_is_none_of_the_reads_that_a_list_names() {
    let mut driver = Driver::new(4, true);
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    (0..8).for_each(|page| assert!(driver.disclose(list, PageId(page)).is_some()));
    (0..8).for_each(|page| assert!(driver.create(DEFAULT_TENANT, PageId(page))));
    assert_eq!(driver.directory.hint_state(list).unwrap().position, 0, "nothing was read");
    let kept: HashSet<PageId> = driver.frames.keys().copied().collect();
    assert_eq!(kept, [0, 1, 2, 7].map(PageId).into(), "the page that was made last, and those read first");
    driver.directory.check_invariants();
}

/// A list that names pages which came in for another one has them from the other's end on: those that are on
/// their way, too. They go first once they are read.
#[test]
fn what_came_for_a_list_goes_over_to_the_list_that_takes_its_place() {
    let mut driver = Driver::new(6, true);
    let how = HintOptions { policy: HintPolicy::Aggressive { batch: 3 }, ..ALL };
    let first = driver.directory.open_hints(DEFAULT_TENANT, how).unwrap();
    // None is another's neighbour, with which it would wait to come in.
    [0, 2, 4, 6].into_iter().for_each(|page| assert!(driver.disclose(first, PageId(page)).is_some()));
    assert!(driver.create(DEFAULT_TENANT, PageId(0)));
    assert_eq!(driver.prefetch(DEFAULT_TENANT, 3).len(), 3);
    driver.land(PageId(2));
    let second = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    [4, 2, 0].into_iter().for_each(|page| assert!(driver.disclose(second, PageId(page)).is_some()));
    let counts = driver.directory.close_hints(first).unwrap();
    driver.directory.check_invariants();
    assert_eq!((counts.prefetched, counts.wasted), (0, 0));
    driver.land(PageId(6));
    [4, 2, 0].into_iter().for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    let counts = driver.directory.hint_state(second).unwrap().counts;
    assert_eq!((counts.prefetched, counts.used, counts.late), (2, 3, 0));
    (10..15).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    let gone: Vec<u64> = driver.evicted.iter().map(|(gone, _)| gone.0).collect();
    assert_eq!(gone, [4, 2, 0], "before page 6, which no list has brought in any more");
    driver.directory.check_invariants();
}

/// The page that comes in is needed now, also if the list names it next behind all others.
#[test]
fn a_page_that_is_missed_takes_the_frame_of_the_page_that_is_needed_last() {
    let mut driver = Driver::new(4, true);
    let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    (0..4).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    [2, 1, 0, 3, 9].into_iter().for_each(|page| assert!(driver.disclose(list, PageId(page)).is_some()));
    assert!(driver.create(DEFAULT_TENANT, PageId(9)));
    assert_eq!(driver.evicted, [(PageId(3), PageId(9))]);
    driver.directory.check_invariants();
}

/// Names no block but the newest, which it is told of last.
#[derive(Default)]
struct NamesTheNewest(Option<FrameId>);

impl Manager for NamesTheNewest {
    fn new_block(&mut self, block: &Block) {
        self.0 = Some(block.frame);
    }

    fn block_gone(&mut self, _frame: FrameId, _page: PageId) {}

    fn block_accessed(&mut self, _frame: FrameId, _access: &Access) {}

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        _busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        self.0.unwrap_or(candidate)
    }

    fn placeholder_used(&mut self, _missing: &Access, _placeholder: FrameId) {}
}

/// A list that concerns all blocks decides alone, and gives up what was read longest ago. If there is a block
/// that it knows nothing of, the manager is asked.
#[test]
fn a_list_that_concerns_all_blocks_does_not_ask_the_manager() {
    for concerns_all in [true, false] {
        let mut driver = Driver::new(4, true);
        let manager = Box::new(NamesTheNewest::default());
        driver.directory.set_manager(DEFAULT_TENANT, manager, false).unwrap();
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        let first = if concerns_all { 0 } else { 1 };
        for page in first..5 {
            driver.disclose(list, PageId(page)).unwrap();
        }
        (0..5).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
        let goes = if concerns_all { 0 } else { 3 };
        assert_eq!(driver.evicted, [(PageId(goes), PageId(4))]);
        driver.directory.check_invariants();
    }
}

/// A list belongs to its tenant. The pages that it names count as disclosed by that tenant alone, until it
/// reads them.
#[test]
fn what_is_disclosed_is_told_of_its_tenant() {
    let mut driver = Driver::new(10, true);
    let other = driver.directory.open_tenant(0, 10).unwrap();
    let told = |driver: &Driver, tenant| {
        let lists: Vec<_> = driver.directory.open_lists(tenant).collect();
        let disclosed: Vec<_> =
            (0..10).filter(|page| driver.directory.discloses(tenant, PageId(*page))).collect();
        (driver.directory.has_hints(tenant), lists, disclosed)
    };
    let nothing = (false, vec![], vec![]);
    assert_eq!(told(&driver, DEFAULT_TENANT), nothing);
    let open = |driver: &mut Driver| driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    let (first, second) = (open(&mut driver), open(&mut driver));
    assert_eq!(driver.disclose(first, PageId(3)), Some(0));
    assert_eq!(driver.disclose(first, PageId(5)), Some(1));
    assert_eq!(driver.disclose(second, PageId(7)), Some(0));
    assert_eq!(told(&driver, DEFAULT_TENANT), (true, vec![first, second], vec![3, 5, 7]));
    assert_eq!(told(&driver, other), nothing);
    assert!(driver.access(other, PageId(3)), "a read of another tenant moves no list");
    assert!(driver.access(DEFAULT_TENANT, PageId(3)));
    assert_eq!(told(&driver, DEFAULT_TENANT), (true, vec![first, second], vec![5, 7]));
    assert_eq!(driver.directory.close_hints(first).unwrap().used, 1);
    assert_eq!(driver.directory.close_hints(first), None);
    assert_eq!(driver.disclose(first, PageId(9)), None);
    assert_eq!(told(&driver, DEFAULT_TENANT), (true, vec![second], vec![7]));
    assert_eq!(driver.directory.close_hints(second).unwrap().used, 0);
    assert_eq!(told(&driver, DEFAULT_TENANT), nothing);
    driver.directory.check_invariants();
}

/// After a reader has said by a call where it is, its accesses do not move its list any more.
#[test]
fn a_reader_that_says_where_it_is_moves_its_list_itself() {
    let state = |driver: &Driver, list| {
        let ListState { counts, position, .. } = driver.directory.hint_state(list).unwrap();
        (counts.used, counts.skipped, position)
    };
    let open = || {
        let mut driver = Driver::new(20, true);
        let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
        (0..10).for_each(|page| assert_eq!(driver.disclose(list, PageId(page)), Some(page)));
        (driver, list)
    };
    let (mut driver, list) = open();
    assert!(driver.access(DEFAULT_TENANT, PageId(0)));
    assert_eq!(state(&driver, list), (1, 0, 1));
    driver.directory.hints_consumed(list, 4);
    assert_eq!(state(&driver, list).2, 4);
    assert!(driver.access(DEFAULT_TENANT, PageId(4)));
    assert_eq!(state(&driver, list).2, 4);
    driver.directory.hint_reached(list);
    assert_eq!(state(&driver, list).2, 5);
    driver.directory.skip_hints(list, 3);
    let (_, skipped, position) = state(&driver, list);
    assert_eq!((skipped, position), (3, 8));
    let late = |driver: &Driver| driver.directory.hint_state(list).unwrap().counts.late;
    let before = late(&driver);
    driver.directory.hint_waited(list);
    assert_eq!(late(&driver), before + 1);
    driver.directory.check_invariants();
}

/// A list that lost what came in ahead fetches as far as its reader only, and one page farther for every
/// eight reads from then on.
#[test]
fn a_list_that_lost_its_pages_goes_farther_by_a_page_in_eight_reads() {
    let mut driver = Driver::new(200, true);
    let how = HintOptions { policy: HintPolicy::Aggressive { batch: 4 }, ..ALL };
    let list = driver.directory.open_hints(DEFAULT_TENANT, how).unwrap();
    // None is another's neighbour, with which it would wait to come in.
    (0..100).for_each(|read| assert!(driver.disclose(list, PageId(2 * read)).is_some()));
    for (page, _) in driver.prefetch(DEFAULT_TENANT, 4) {
        driver.flying.retain(|flying| *flying != page);
        driver.directory.failed(driver.frames.remove(&page).unwrap(), DEFAULT_TENANT);
    }
    let mut reached = 0;
    for read in 0..80 {
        for (page, position) in driver.prefetch(DEFAULT_TENANT, 200) {
            driver.land(page);
            reached = position + 1;
        }
        assert_eq!(reached.max(read), read + read / 8);
        assert!(driver.access(DEFAULT_TENANT, PageId(2 * read)));
    }
    driver.directory.check_invariants();
}

/// Each file has a batch of its own. No further page of the file is fetched while its batch is under way;
/// other files go on.
#[test]
fn batches_are_by_file() {
    let mut driver = Driver::new(64, true);
    let how = HintOptions { policy: HintPolicy::Aggressive { batch: 3 }, ..ALL };
    let list = driver.directory.open_hints(DEFAULT_TENANT, how).unwrap();
    let page = |file, number| PageId::in_file(FileId(file), number);
    for number in 0..8 {
        driver.disclose(list, page(0, number));
        driver.disclose(list, page(1, number));
    }
    let begun = |driver: &mut Driver| -> Vec<PageId> {
        driver.prefetch(DEFAULT_TENANT, 64).into_iter().map(|(page, _)| page).collect()
    };
    let first: Vec<PageId> = (0..3).flat_map(|number| [page(0, number), page(1, number)]).collect();
    assert_eq!(begun(&mut driver), first);
    driver.land(page(1, 0));
    driver.land(page(1, 1));
    assert_eq!(begun(&mut driver), []);
    driver.land(page(1, 2));
    assert_eq!(begun(&mut driver), [3, 4, 5].map(|number| page(1, number)));
    driver.directory.check_invariants();
}

/// Lists that lack frames are not looked at again before they change, or a frame can be had that no list
/// needs.
#[test]
fn lists_that_lack_frames_are_not_asked_again_and_again() {
    let mut driver = Driver::new(4, true);
    (0..4).for_each(|page| assert!(driver.access(DEFAULT_TENANT, PageId(page))));
    let near = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
    (0..4).for_each(|page| assert!(driver.disclose(near, PageId(page)).is_some()));
    let lacking: Vec<HintListId> = (0..5)
        .map(|at| {
            let list = driver.directory.open_hints(DEFAULT_TENANT, ALL).unwrap();
            driver.disclose(list, PageId(100 + 2 * at)).unwrap();
            list
        })
        .collect();
    let asked = |driver: &mut Driver, wants: &[u64]| {
        let (mut looked_at, mut found) = (0, Vec::new());
        let mut passed_over = |_| {
            looked_at += 1;
            false
        };
        driver.directory.hint_wants(DEFAULT_TENANT, 4, &mut passed_over, &mut found);
        assert!(found.iter().map(|want| want.page.0).eq(wants.iter().copied()), "{found:?}");
        driver.directory.check_invariants();
        looked_at
    };
    assert_eq!(asked(&mut driver, &[]), 5);
    assert_eq!(asked(&mut driver, &[]), 0);
    driver.disclose(lacking[3], PageId(300)).unwrap();
    assert_eq!(asked(&mut driver, &[]), 1, "the list that has changed");
    driver.directory.discard(driver.frames.remove(&PageId(3)).unwrap());
    assert_eq!(asked(&mut driver, &[100]), 1, "the others lack a frame still");
}

/// A list belongs to the tenant's own account, and would be lost with it.
#[test]
fn a_tenant_with_a_list_does_not_join_the_commons() {
    let manager = || ManagerKind::Auto.build(8, 1, DEFAULT_TENANT);
    let mut driver = Driver::new(8, true);
    driver.directory.join_commons(DEFAULT_TENANT, manager).unwrap();
    let other = driver.directory.open_tenant(0, 8).unwrap();
    let list = driver.directory.open_hints(other, ALL).unwrap();
    driver.directory.join_commons(other, manager).unwrap_err();
    driver.disclose(list, PageId(1)).unwrap();
    assert!(driver.directory.hint_state(list).is_some());
    driver.directory.close_hints(list).unwrap();
    driver.directory.join_commons(other, manager).unwrap();
    driver.directory.check_invariants();
}

/// Tenants of the commons have an account together. What a list would have brought in is asked for its own
/// tenant, whose frames the pages take.
#[test]
fn a_tenant_is_not_asked_to_fetch_for_the_lists_of_another() {
    let manager = || ManagerKind::Auto.build(64, 1, DEFAULT_TENANT);
    let mut driver = Driver::new(64, true);
    let how = HintOptions { policy: HintPolicy::Aggressive { batch: 8 }, ..ALL };
    let tenants = [0, 100].map(|first| {
        let tenant = driver.directory.open_tenant(0, 64).unwrap();
        driver.directory.join_commons(tenant, manager).unwrap();
        let list = driver.directory.open_hints(tenant, how).unwrap();
        (0..3).for_each(|read| assert!(driver.disclose(list, PageId(first + 2 * read)).is_some()));
        tenant
    });
    for (tenant, first) in tenants.into_iter().zip([0, 100]) {
        let wanted: Vec<u64> = driver.prefetch(tenant, 64).into_iter().map(|(page, _)| page.0).collect();
        assert_eq!(wanted, [first, first + 2, first + 4]);
    }
    driver.directory.check_invariants();
}

/// A page that comes in through a placeholder belongs to the placeholder's owner, whoever missed it. The read
/// is counted by the list that disclosed it; the page is that of the owner's list.
#[test]
fn a_list_knows_nothing_of_pages_that_come_in_for_another_account() {
    let mut driver = Driver::new(4, false);
    let [owner, reader] = [0, 1].map(|_| driver.directory.open_tenant(0, 4).unwrap());
    driver.directory.set_policy(owner, 0, PolicyKind::Mru).unwrap();
    (1..=5).for_each(|page| assert!(driver.access(owner, PageId(page))));
    assert_eq!(driver.evicted, [(PageId(4), PageId(5))], "MRU overrules, and page 4 has a placeholder");
    let [of_owner, other] = [0, 1].map(|_| driver.directory.open_hints(owner, ALL).unwrap());
    let of_reader = driver.directory.open_hints(reader, ALL).unwrap();
    driver.disclose(of_owner, PageId(4));
    driver.disclose(other, PageId(9));
    driver.disclose(of_reader, PageId(4));
    assert!(driver.access(reader, PageId(4)));
    driver.directory.check_invariants();
    assert_eq!(driver.directory.owner(driver.frames[&PageId(4)]), Some(owner));
    let late = |list| driver.directory.hint_counts(list).unwrap().late;
    assert_eq!([of_owner, other, of_reader].map(late), [0, 0, 1]);
    driver.directory.close_hints(of_owner);
    driver.directory.check_invariants();
}
