//! Goal: the pages that a tenant's manager wants come in before their first access, within the tenant's
//! limit, and the manager is told of them; wrong wants are left out, and the manager's panics are caught.
//! Method: a manager that wants the pages that the test says, counts, and the calls that the manager got.

mod common;

use std::sync::{Arc, Mutex, OnceLock};

use bufpool::manager::{Access, Block, FileId, FrameId, Manager, PageId, WANTS_MAX, Want};
use bufpool::stats::Stats;
use bufpool::{ErrorKind, File, Pool, PoolOptions, Tenant};
use common::{CallsBack, deterministic, in_a_minute, open_on, small, stamped_device, version};

/// What the test and the manager tell each other.
#[derive(Default)]
struct Messages {
    wants: Vec<PageId>,
    frames_left: Option<u32>,
    questions: usize,
    panics: bool,
    ahead: Vec<PageId>,
    new: Vec<PageId>,
    gone: Vec<PageId>,
    /// Blocks that came in ahead are given up first.
    names_ahead: bool,
}

struct Wanting {
    shared: Arc<Mutex<Messages>>,
    ahead: Vec<(FrameId, PageId)>,
}

impl Manager for Wanting {
    fn new_block(&mut self, block: &Block) {
        self.ahead.retain(|(frame, _)| *frame != block.frame);
        self.shared.lock().unwrap().new.push(block.page);
    }

    fn block_gone(&mut self, frame: FrameId, page: PageId) {
        self.ahead.retain(|(held, _)| *held != frame);
        self.shared.lock().unwrap().gone.push(page);
    }

    fn block_accessed(&mut self, _: FrameId, _: &Access) {}

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let named = self.ahead.last().filter(|_| self.shared.lock().unwrap().names_ahead);
        named.map(|(frame, _)| *frame).filter(|frame| !busy(*frame)).unwrap_or(candidate)
    }

    fn placeholder_used(&mut self, _: &Access, _: FrameId) {}

    fn knows_ahead(&self) -> bool {
        true
    }

    fn block_ahead(&mut self, block: &Block) {
        self.ahead.push((block.frame, block.page));
        self.shared.lock().unwrap().ahead.push(block.page);
    }

    fn wants(&mut self, frames_left: u32, out: &mut Vec<Want>) {
        let mut shared = self.shared.lock().unwrap();
        shared.questions += 1;
        shared.frames_left = Some(frames_left);
        let wants = std::mem::take(&mut shared.wants);
        let panics = shared.panics;
        drop(shared);
        assert!(!panics, "the test wants a panic");
        out.extend((0..).zip(wants).map(|(position, page)| Want { page, position }));
    }
}

struct World {
    pool: Pool,
    file: File,
    tenant: Tenant,
    shared: Arc<Mutex<Messages>>,
}

/// 100 frames, of which 50 may be ahead, and a tenant with such a manager.
fn world() -> World {
    world_of(small().frames(100).manager(None).prefetch_limit_percent(50))
}

fn world_of(options: PoolOptions) -> World {
    let (pool, file) = open_on(options, &stamped_device(2000));
    let shared = Arc::new(Mutex::new(Messages::default()));
    let manager = Wanting { shared: Arc::clone(&shared), ahead: Vec::new() };
    let tenant = pool.tenant("wanting").custom_manager(Box::new(manager)).open().unwrap();
    World { pool, file, tenant, shared }
}

impl World {
    fn page(&self, number: u64) -> PageId {
        PageId::in_file(self.file.id(), number)
    }

    fn read(&self, number: u64) {
        assert_eq!(version(&self.tenant.read(self.file.page(number)).unwrap(), number), 1);
    }

    /// The manager wants `pages` when it is asked next, which a miss of page `number` makes happen.
    fn want(&self, pages: impl IntoIterator<Item = PageId>, number: u64) -> Stats {
        self.shared.lock().unwrap().wants = pages.into_iter().collect();
        self.read(number);
        self.settled()
    }

    /// Waits for what is on its way.
    fn settled(&self) -> Stats {
        self.pool.check_invariants();
        self.pool.stats()
    }

    fn pages(&self, numbers: std::ops::Range<u64>) -> Vec<PageId> {
        numbers.map(|number| self.page(number)).collect()
    }
}

#[test]
fn what_a_manager_wants_comes_in_and_is_counted() {
    let world = world();
    let stats = world.want(world.pages(10..18), 0);
    assert_eq!((stats.prefetch_issued, stats.prefetch_used, stats.misses), (8, 0, 1));
    assert_eq!(world.shared.lock().unwrap().ahead, world.pages(10..18));
    (10..14).for_each(|number| world.read(number));
    let stats = world.settled();
    assert_eq!((stats.prefetch_used, stats.misses, stats.hits), (4, 1, 4));
    assert_eq!(world.shared.lock().unwrap().new, [vec![world.page(0)], world.pages(10..14)].concat());
    world.file.discard(10..18).unwrap();
    let stats = world.settled();
    assert_eq!((stats.prefetch_issued, stats.prefetch_used, stats.prefetch_wasted), (8, 4, 4));
    let mut gone = world.shared.lock().unwrap().gone.clone();
    gone.sort();
    assert_eq!(gone, world.pages(10..18));
}

#[test]
fn nonsense_is_left_out() {
    let world = world();
    world.read(3);
    let other = world.pool.tenant("other").open().unwrap();
    drop(other.read(world.file.page(4)).unwrap());
    let no_file = PageId(u64::MAX);
    let beyond = world.page(2000);
    let closed = PageId::in_file(FileId(77), 1);
    let mut wants = world.pages(3..8);
    wants.extend([no_file, beyond, closed, world.page(6), world.page(6), world.page(1999)]);
    let stats = world.want(wants, 0);
    assert_eq!(stats.prefetch_issued, 4, "pages 5, 6, 7 and 1999");
    assert_eq!((stats.prefetch_failed, stats.tenants[1].manager), (0, "custom"));
    // More wants than the pool looks at.
    let stats = world.want(vec![beyond; WANTS_MAX].into_iter().chain(world.pages(20..30)), 1);
    assert_eq!(stats.prefetch_issued, 4);
}

#[test]
fn wants_end_with_the_limit() {
    let world = world();
    let stats = world.want(world.pages(100..200), 0);
    assert_eq!((stats.prefetch_issued, world.shared.lock().unwrap().frames_left), (50, Some(50)));
    assert_eq!(world.shared.lock().unwrap().ahead, world.pages(100..150), "those needed first");
    // The limit is used up, so the manager is not asked.
    let questions = world.shared.lock().unwrap().questions;
    assert_eq!(world.want(world.pages(300..310), 1).prefetch_issued, 50);
    assert_eq!(world.shared.lock().unwrap().questions, questions);
}

#[test]
fn nobody_is_asked_where_nothing_is_prefetched() {
    for options in [small().frames(100).prefetch_limit_percent(0), deterministic().frames(100)] {
        let world = world_of(options);
        assert_eq!(world.want(world.pages(10..20), 0).prefetch_issued, 0);
        assert_eq!(world.shared.lock().unwrap().questions, 0);
    }
}

#[test]
fn a_manager_that_panics_is_dropped() {
    let world = world();
    world.want(world.pages(10..14), 0);
    world.shared.lock().unwrap().panics = true;
    let stats = world.want(world.pages(20..24), 1);
    assert_eq!((stats.tenants[1].manager, stats.prefetch_issued), ("none", 4));
    let report = world.pool.report().to_string();
    assert!(stats.tenants[1].manager_panics == 1 && report.contains("none (panicked)"), "{report}");
    world.shared.lock().unwrap().panics = false;
    assert_eq!(world.want(world.pages(20..24), 2).prefetch_issued, 4);
    world.read(10);
    assert_eq!(world.settled().prefetch_used, 1);
}

#[test]
fn blocks_ahead_may_be_named() {
    let world = world();
    world.want(world.pages(1000..1010), 0);
    world.shared.lock().unwrap().names_ahead = true;
    // 100 frames are full after 89 more; then the ledger names page 0, and the manager what came in last of
    // those ahead.
    (1..91).for_each(|number| world.read(number));
    let stats = world.settled();
    assert_eq!((stats.prefetch_wasted, stats.tenants[1].overrules), (1, 1));
    assert_eq!(world.shared.lock().unwrap().gone, [world.page(1009)]);
}

/// Calls that a manager makes of the pool that calls it. Returns their errors.
fn call_back((pool, tenant, file): &(Pool, Tenant, File)) -> Vec<ErrorKind> {
    let page = file.page(99);
    let refused = [
        tenant.read(page).map(drop),
        tenant.write_owned(page).map(drop),
        tenant.set_priority(file, 1).map(drop),
        pool.tenant("another").open().map(drop),
        pool.checkpoint(),
        file.flush(),
        file.discard(99..100),
        file.extend(1).map(drop),
        pool.clone().close(),
    ];
    assert_eq!(pool.stats().accesses, 0, "sizes only");
    assert_eq!(tenant.prefetch([page]), 0);
    refused.into_iter().map(|refused| refused.unwrap_err().kind()).collect()
}

#[test]
fn a_manager_that_calls_the_pool_back_is_refused() {
    // A call that is not refused would wait for ever for the policy lock, which its own thread holds.
    in_a_minute(|| {
        for options in [small(), deterministic()] {
            let device = stamped_device(100);
            let (pool, file) = open_on(options, &device);
            let handles = Arc::new(OnceLock::new());
            let errors = Arc::new(Mutex::new(Vec::new()));
            let (own, told) = (Arc::clone(&handles), Arc::clone(&errors));
            let manager = CallsBack(move || told.lock().unwrap().extend(call_back(own.get().unwrap())));
            let tenant = pool.tenant("calls back").custom_manager(Box::new(manager)).open().unwrap();
            handles.set((pool.clone(), tenant.clone(), file.clone())).ok().unwrap();
            for number in 0..60 {
                assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            }
            let errors = std::mem::take(&mut *errors.lock().unwrap());
            assert!(errors.len() >= 9, "it was asked");
            assert!(errors.iter().all(|kind| *kind == ErrorKind::SelfDeadlock), "{errors:?}");
            pool.close().unwrap();
        }
    });
}
