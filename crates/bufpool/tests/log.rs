//! Goal: the write-ahead rule. No page reaches its file before its log records are durable, the log is never
//! advanced inside a miss, and no change that is missing from the files was logged before `min_dirty_lsn`.
//! Method: pages carry the number of their last change; after each random step the simulated device's
//! contents are held against the log.

mod common;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use bufpool::engine::{Log, PageHooks, PageName};
use bufpool::sim::SimDevice;
use bufpool::{ErrorKind, File, FileOptions, Pool, PoolOptions, Program, Tenant};
use common::{PAGE_BYTES, deterministic, in_a_minute, new_file, small, stamp, version};
use proptest::prelude::*;

/// A log in memory. It is durable as far as `durable` says.
#[derive(Default)]
struct Records {
    last: AtomicU64,
    durable: AtomicU64,
    fails: AtomicBool,
    panics: AtomicBool,
    advances: AtomicU64,
    /// What happens while the log is advanced next.
    meanwhile: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

struct Handle(Arc<Records>);

thread_local! {
    /// The thread is in an access, which may miss.
    static IN_ACCESS: Cell<bool> = const { Cell::new(false) };
}

impl Log for Handle {
    fn end(&self) -> u64 {
        self.0.last.load(Ordering::SeqCst) + 1
    }

    fn durable(&self) -> u64 {
        self.0.durable.load(Ordering::SeqCst)
    }

    fn advance(&self, lsn: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        assert!(!IN_ACCESS.get(), "advanced inside a miss");
        assert!(lsn <= self.0.last.load(Ordering::SeqCst));
        self.0.advances.fetch_add(1, Ordering::SeqCst);
        assert!(!self.0.panics.load(Ordering::SeqCst), "as the test wants it");
        if self.0.fails.load(Ordering::SeqCst) {
            return Err("the log device is gone".into());
        }
        self.0.durable.fetch_max(lsn, Ordering::SeqCst);
        let meanwhile = self.0.meanwhile.lock().unwrap().take();
        meanwhile.into_iter().for_each(|happens| happens());
        Ok(())
    }
}

const PAGES: u64 = 80;

struct World {
    pool: Pool,
    file: File,
    tenant: Tenant,
    device: SimDevice,
    log: Arc<Records>,
    /// Log numbers of each page's changes, ascending.
    changes: Vec<Vec<u64>>,
}

fn access<T>(body: impl FnOnce() -> T) -> T {
    IN_ACCESS.set(true);
    let result = body();
    IN_ACCESS.set(false);
    result
}

impl World {
    fn new(options: PoolOptions) -> Self {
        let (device, log) = (SimDevice::new(1), Arc::new(Records::default()));
        let pool = options.log(Box::new(Handle(Arc::clone(&log)))).open_on(&device).unwrap();
        let file = new_file(&pool, Path::new(""), "data", PAGES);
        let tenant = pool.default_tenant();
        Self { pool, file, tenant, device, log, changes: vec![Vec::new(); PAGES as usize] }
    }

    /// Changes a page as engines do: the record is appended while the guard is held.
    fn change(&mut self, number: u64) -> bufpool::Result<()> {
        access(|| {
            let mut guard = self.tenant.write(self.file.page(number))?;
            let lsn = self.log.last.fetch_add(1, Ordering::SeqCst) + 1;
            stamp(&mut guard, number, lsn);
            guard.set_lsn(lsn);
            self.changes[number as usize].push(lsn);
            Ok(())
        })
    }

    fn read(&self, number: u64) -> bufpool::Result<()> {
        access(|| {
            let guard = self.tenant.read(self.file.page(number))?;
            let last = self.changes[number as usize].last().copied().unwrap_or(0);
            assert_eq!(found(&guard, number), last);
            Ok(())
        })
    }

    /// Nothing in the file is ahead of the log, and nothing that is missing from it lies before the redo
    /// point.
    fn check(&self) {
        let redo = self.pool.min_dirty_lsn().unwrap_or(u64::MAX);
        let bytes = self.device.contents("data").unwrap();
        let durable = self.log.durable.load(Ordering::SeqCst);
        for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
            let in_file = found(page, number);
            assert!(in_file <= durable, "page {number} is in its file with {in_file}, durable is {durable}");
            let missing = self.changes[number as usize].iter().find(|&&lsn| lsn > in_file);
            if let Some(&missing) = missing {
                assert!(redo <= missing, "page {number} lacks {missing}, redo begins at {redo}");
            }
        }
    }
}

fn found(bytes: &[u8], number: u64) -> u64 {
    if bytes.iter().all(|&byte| byte == 0) { 0 } else { version(bytes, number) }
}

#[derive(Clone, Debug)]
enum Operation {
    Read(u64),
    Change(u64),
    FlushPage(u64),
    Flush,
    Checkpoint,
    /// The engine commits.
    Commit,
    /// The log fails, or works again.
    Fail(bool),
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = prop_oneof![
        10 => (0..PAGES).prop_map(Operation::Read),
        20 => (0..PAGES).prop_map(Operation::Change),
        2 => (0..PAGES).prop_map(Operation::FlushPage),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Checkpoint),
        3 => Just(Operation::Commit),
        1 => any::<bool>().prop_map(Operation::Fail),
    ];
    prop::collection::vec(operation, 1..200)
}

fn run(options: PoolOptions, operations: &[Operation]) {
    let mut world = World::new(options.frame_wait_ms(5));
    for operation in operations {
        let outcome = match *operation {
            Operation::Read(number) => world.read(number),
            Operation::Change(number) => world.change(number),
            Operation::FlushPage(number) => world.file.flush_page(number),
            Operation::Flush => world.file.flush(),
            Operation::Checkpoint => world.pool.checkpoint(),
            Operation::Commit => {
                let last = world.log.last.load(Ordering::SeqCst);
                world.log.durable.fetch_max(last, Ordering::SeqCst);
                Ok(())
            }
            Operation::Fail(fails) => {
                world.log.fails.store(fails, Ordering::SeqCst);
                Ok(())
            }
        };
        if let Err(error) = outcome {
            // Misses may find that nothing can be evicted, flushes that the log is gone, and a page may be
            // stuck on its way out.
            let expected = [ErrorKind::Exhausted, ErrorKind::Log, ErrorKind::LatchTimeout];
            assert!(expected.contains(&error.kind()), "{error}");
        }
        world.check();
    }
    world.log.fails.store(false, Ordering::SeqCst);
    world.pool.checkpoint().unwrap();
    world.check();
    assert_eq!(world.pool.min_dirty_lsn(), None);
    world.pool.check_invariants();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_rule_holds_in_deterministic_mode(operations in operations()) {
        run(deterministic(), &operations);
    }

    #[test]
    fn the_rule_holds_with_the_background_writer(operations in operations(), dirty_limit_percent in 1..60_u8) {
        run(small().dirty_limit_percent(dirty_limit_percent).latch_wait_ms(40), &operations);
    }
}

#[test]
fn a_log_that_fails_or_panics_leaves_pages_dirty() {
    for options in [deterministic(), small()] {
        let mut world = World::new(options);
        world.change(3).unwrap();
        world.log.fails.store(true, Ordering::SeqCst);
        let error = world.file.flush().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Log);
        assert!(error.to_string().contains("the log device is gone"), "{error}");
        world.log.panics.store(true, Ordering::SeqCst);
        let error = world.file.flush_page(3).unwrap_err();
        assert_eq!((error.kind(), error.page()), (ErrorKind::Log, Some(3)), "{error}");
        assert_eq!(error.file(), Some(world.file.name()));
        let stats = world.pool.stats();
        assert_eq!((stats.dirty_frames, stats.writes), (1, 0));
        assert!(stats.log_failures >= 2);
        world.log.fails.store(false, Ordering::SeqCst);
        world.log.panics.store(false, Ordering::SeqCst);
        // The file is not poisoned, because the log has failed and not the file.
        world.file.flush().unwrap();
        assert_eq!(world.pool.stats().dirty_frames, 0);
        world.check();
    }
}

/// A flush advances the log first, and pages that it then finds changed once more wait until it has advanced
/// it again.
#[test]
fn what_changes_while_a_flush_advances_the_log_is_not_written_ahead_of_it() {
    // All pages stay in memory, and there are more of them than frames for their copies.
    for (options, fails) in [(deterministic(), false), (small(), false), (small(), true)] {
        let mut world = World::new(options.frames(128).dirty_limit_percent(100));
        (0..PAGES).for_each(|number| world.change(number).unwrap());
        let changes = {
            let (file, log) = (world.file.clone(), Arc::clone(&world.log));
            let tenant = world.tenant.clone();
            move || {
                for number in 0..PAGES {
                    let mut guard = tenant.write(file.page(number)).unwrap();
                    let lsn = log.last.fetch_add(1, Ordering::SeqCst) + 1;
                    stamp(&mut guard, number, lsn);
                    guard.set_lsn(lsn);
                }
                log.fails.store(fails, Ordering::SeqCst);
            }
        };
        *world.log.meanwhile.lock().unwrap() = Some(Box::new(changes));
        let outcome = world.file.flush();
        (0..PAGES).for_each(|number| world.changes[number as usize].push(PAGES + number + 1));
        world.check();
        assert!(world.log.meanwhile.lock().unwrap().is_none(), "the log was advanced");
        let left = if fails { PAGES } else { 0 };
        assert_eq!(world.pool.stats().dirty_frames, left);
        assert_eq!(outcome.map_err(|error| error.kind()), if fails { Err(ErrorKind::Log) } else { Ok(()) });
        world.log.fails.store(false, Ordering::SeqCst);
        world.file.flush().unwrap();
        assert_eq!(world.pool.stats().dirty_frames, 0);
        world.check();
        world.pool.check_invariants();
    }
}

#[test]
fn the_log_is_not_advanced_for_what_is_durable() {
    let mut world = World::new(deterministic());
    world.change(1).unwrap();
    world.log.durable.store(1, Ordering::SeqCst);
    world.file.flush().unwrap();
    assert_eq!(world.log.advances.load(Ordering::SeqCst), 0);
    world.change(1).unwrap();
    world.file.flush().unwrap();
    assert_eq!(world.log.advances.load(Ordering::SeqCst), 1);
}

#[test]
fn the_redo_point_moves_on_though_a_page_is_never_clean() {
    let mut world = World::new(deterministic());
    for round in 0..5 {
        world.change(1).unwrap();
        assert_eq!(world.pool.min_dirty_lsn(), Some(2 * round + 1));
        world.change(2).unwrap();
        assert_eq!(world.pool.min_dirty_lsn(), Some(2 * round + 1));
        world.pool.checkpoint().unwrap();
        assert_eq!(world.pool.min_dirty_lsn(), None);
    }
    // A guard that has not changed anything yet counts: its record may be in the log already.
    let guard = world.tenant.write(world.file.page(7)).unwrap();
    assert_eq!(world.pool.min_dirty_lsn(), Some(11));
    drop(guard);
    assert_eq!(world.pool.min_dirty_lsn(), None);
}

/// A program wishes that the newest page be written, which the log holds up at first. The log is not advanced
/// for it: that would be within a miss.
#[test]
fn no_page_is_written_ahead_of_the_log_because_a_program_wishes_it() {
    let text = "policy writes { queue all event initial { ret } event fault(p) { enqt all, p ; ret }
        event replace(c) { peekt v, all ; isnil t, v ; jnz t, none ; flush v ; none: ret c } }";
    let mut world = World::new(deterministic());
    let frames = u64::from(world.pool.frames());
    let program = Program::parse(text).unwrap();
    world.tenant = world.pool.tenant("managed").program(&program).open().unwrap();
    (0..frames - 1).for_each(|number| world.read(number).unwrap());
    world.change(frames - 1).unwrap();
    world.read(frames).unwrap();
    world.check();
    let stats = world.pool.stats();
    assert_eq!((stats.dirty_frames, stats.writes, stats.log_failures), (1, 0, 0));
    world.pool.check_invariants();
    world.change(frames).unwrap();
    world.log.durable.store(2, Ordering::SeqCst);
    world.read(frames + 1).unwrap();
    world.check();
    assert_eq!((world.pool.stats().dirty_frames, world.pool.stats().writes), (1, 1));
}

/// What happens while a page is on its way to its file.
type Meanwhile = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

struct WhileWritten(Meanwhile);

impl PageHooks for WhileWritten {
    fn on_read(&self, _: PageName, _: &mut [u8]) -> Result<(), String> {
        Ok(())
    }

    fn before_write(&self, _: PageName, _: &mut [u8]) {
        let happens = self.0.lock().unwrap().take();
        happens.into_iter().for_each(|happens| happens());
    }
}

/// A page that is changed while a copy of it is written stays dirty, and redo begins where the log ended when
/// the copy was made.
#[test]
fn a_change_during_a_write_keeps_its_place_in_the_log() {
    let meanwhile = Meanwhile::default();
    let mut world = World::new(small().hooks(Box::new(WhileWritten(Arc::clone(&meanwhile)))));
    world.change(1).unwrap();
    world.change(1).unwrap();
    let (file, tenant, log) = (world.file.clone(), world.tenant.clone(), Arc::clone(&world.log));
    let changes = move || {
        let mut guard = tenant.try_write(file.page(1)).unwrap().expect("the copy is written");
        let lsn = log.last.fetch_add(1, Ordering::SeqCst) + 1;
        stamp(&mut guard, 1, lsn);
        guard.set_lsn(lsn);
    };
    *meanwhile.lock().unwrap() = Some(Box::new(changes));
    world.file.flush().unwrap();
    assert!(meanwhile.lock().unwrap().is_none(), "it was changed");
    world.changes[1].push(3);
    assert_eq!(world.pool.stats().dirty_frames, 1);
    assert_eq!(world.pool.min_dirty_lsn(), Some(3));
    world.check();
    world.file.flush().unwrap();
    assert_eq!(world.pool.min_dirty_lsn(), None);
}

/// A write in flight marks the frame that it began from when it ends: until then the page keeps its frame,
/// also if its writer has panicked meanwhile.
#[test]
fn a_half_changed_page_is_not_dropped_while_it_is_written() {
    let meanwhile = Meanwhile::default();
    let hooks = Box::new(WhileWritten(Arc::clone(&meanwhile)));
    let world = World::new(small().latch_wait_ms(40).hooks(hooks));
    let options = FileOptions::new().create(true).poison_on_panic(true);
    let file = world.pool.open_file("half", options).unwrap();
    file.extend(1).unwrap();
    stamp(&mut world.tenant.write(file.page(0)).unwrap(), 0, 1);
    let refused = Arc::new(Mutex::new(None));
    let (tenant, half, told) = (world.tenant.clone(), file.clone(), Arc::clone(&refused));
    let panics = move || {
        let change = AssertUnwindSafe(|| {
            let mut guard = tenant.try_write(half.page(0)).unwrap().expect("the copy is written");
            stamp(&mut guard, 0, 2);
            panic!("in the middle of a change");
        });
        catch_unwind(change).unwrap_err();
        *told.lock().unwrap() = half.discard(0..1).err();
    };
    *meanwhile.lock().unwrap() = Some(Box::new(panics));
    file.flush().unwrap();
    let error = refused.lock().unwrap().take().expect("the page left while it was being written");
    assert_eq!((error.kind(), error.page()), (ErrorKind::PageBusy, Some(0)), "{error}");
    file.discard(0..1).unwrap();
    assert_eq!(version(&world.tenant.read(file.page(0)).unwrap(), 0), 1, "as it was copied");
    world.pool.check_invariants();
    world.pool.close().unwrap();
}

#[test]
fn a_flush_of_one_page_waits_for_its_own_records() {
    let mut world = World::new(deterministic());
    [3, 4, 5].into_iter().for_each(|number| world.change(number).unwrap());
    world.file.flush_page(4).unwrap();
    assert_eq!((world.log.durable.load(Ordering::SeqCst), world.pool.stats().dirty_frames), (2, 2));
    world.check();
}

/// A log whose first advance fails.
#[derive(Default)]
struct FailsOnce(AtomicU64);

impl Log for FailsOnce {
    fn end(&self) -> u64 {
        2
    }

    fn durable(&self) -> u64 {
        u64::from(self.0.load(Ordering::SeqCst) > 1)
    }

    fn advance(&self, _: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let is_first = self.0.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Err("the log device is busy".into()) } else { Ok(()) }
    }
}

/// The log fails once, at the beginning of the close, and would not fail a moment later.
#[test]
fn a_pool_whose_log_fails_while_it_closes_stays_open() {
    let log = Box::new(FailsOnce::default());
    let pool = deterministic().log(log).open_on(&SimDevice::new(1)).unwrap();
    let file = new_file(&pool, Path::new(""), "data", PAGES);
    let tenant = pool.default_tenant();
    let mut guard = tenant.write(file.page(3)).unwrap();
    stamp(&mut guard, 3, 1);
    guard.set_lsn(1);
    drop(guard);
    assert_eq!(pool.clone().close().unwrap_err().kind(), ErrorKind::Log);
    assert_eq!(version(&tenant.read(file.page(3)).unwrap(), 3), 1);
    pool.close().unwrap();
}

/// A log whose every answer waits for a thread that needs the policy lock.
struct Asking(Arc<Mutex<Option<Pool>>>);

impl Log for Asking {
    fn end(&self) -> u64 {
        1
    }

    fn durable(&self) -> u64 {
        let pool = self.0.lock().unwrap().clone();
        // Statistics of a pool ask its log for nothing.
        pool.into_iter().for_each(|pool| drop(std::thread::spawn(move || pool.stats()).join().unwrap()));
        1
    }

    fn advance(&self, _: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(())
    }
}

/// Engines append to their logs and miss pages in either order.
#[test]
fn the_log_is_not_asked_under_the_policy_lock() {
    in_a_minute(|| {
        let asked = Arc::default();
        let log = Box::new(Asking(Arc::clone(&asked)));
        let pool = small().frame_wait_ms(1).log(log).open_on(&SimDevice::new(1)).unwrap();
        let file = new_file(&pool, Path::new(""), "data", PAGES);
        let tenant = pool.default_tenant();
        (0..PAGES).for_each(|number| stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1));
        *asked.lock().unwrap() = Some(pool.clone());
        let pins: Vec<_> = (0..PAGES).map_while(|number| tenant.pin(file.page(number)).ok()).collect();
        assert!(pins.len() < PAGES as usize, "there was a frame for each page");
        drop(pins);
        file.flush().unwrap();
        pool.checkpoint().unwrap();
        *asked.lock().unwrap() = None;
        pool.close().unwrap();
    });
}

/// The number does not include clean pages, nor changed pages without a log record.
#[test]
fn a_miss_that_finds_no_frame_says_how_many_pages_wait_for_the_log() {
    let mut world = World::new(deterministic().dirty_limit_percent(100).frame_wait_ms(20));
    world.log.fails.store(true, Ordering::SeqCst);
    (0..29).for_each(|number| world.change(number).unwrap());
    let page = |number| world.file.page(number);
    let _clean = [29, 30].map(|number| world.tenant.read(page(number)).unwrap());
    let mut unlogged = world.tenant.write(page(31)).unwrap();
    stamp(&mut unlogged, 31, 0);
    let error = access(|| world.tenant.read(page(40)).map(drop)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Exhausted, "{error}");
    assert!(error.to_string().contains(", 29 dirty pages ahead of the durable log"), "{error}");
}
