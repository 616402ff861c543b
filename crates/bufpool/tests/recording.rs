//! Goal: a recorded run, replayed on the bare directory, has the same misses, access by access. Method:
//! random work in deterministic mode with several tenants, directives in mid-stream, guards held across
//! misses and pins; then the events alone drive a directory of the same size, as the simulator does.

mod common;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use bufpool::engine::{Event, Recorder};
use bufpool::manager::{Allocation, PageId};
use bufpool::{FileOptions, ManagerKind, Policy, Tenant, context};
use bufpool_policies::{
    Access, Admission, Claims, ContextId, Directory, DirectoryOptions, FrameId, TenantId,
};
use common::{deterministic, directory, new_file};
use proptest::prelude::*;

/// An owned [`Event`].
#[derive(Clone, Debug)]
enum Step {
    Access {
        page: PageId,
        site: u32,
        tenant: u32,
        creates: bool,
    },
    Pin(PageId),
    Unpin(PageId),
    Policy {
        tenant: u32,
        priority: i32,
        policy: Policy,
    },
    Priority {
        tenant: u32,
        first: PageId,
        last: PageId,
        priority: i32,
    },
    TemporaryPriority {
        tenant: u32,
        first: PageId,
        last: PageId,
        priority: i32,
    },
    ManagerEnd {
        tenant: u32,
    },
    /// One that the tests do not know, or of another file than this one.
    Strange(String),
}

#[derive(Clone, Default)]
struct Log {
    steps: Arc<Mutex<Vec<Step>>>,
    names: Arc<Mutex<Vec<String>>>,
}

impl Recorder for Log {
    fn record(&mut self, event: Event<'_>) {
        let step = match event {
            Event::Access { page, site, tenant, creation } => {
                Step::Access { page, site, tenant, creates: creation }
            }
            Event::Pin(page) => Step::Pin(page),
            Event::Unpin(page) => Step::Unpin(page),
            Event::Policy { tenant, priority, policy } => Step::Policy { tenant, priority, policy },
            Event::Priority { tenant, first, last, priority } => {
                Step::Priority { tenant, first, last, priority }
            }
            Event::TemporaryPriority { tenant, first, last, priority } => {
                Step::TemporaryPriority { tenant, first, last, priority }
            }
            Event::ProgramEnd { tenant } => Step::ManagerEnd { tenant },
            Event::File { name, .. } => return self.names.lock().unwrap().push(name.to_owned()),
            Event::Site { file, .. } if file.ends_with("recording.rs") => return,
            // Not a panic, which the pool would catch.
            _ => Step::Strange(format!("{event:?}")),
        };
        self.steps.lock().unwrap().push(step);
    }
}

/// A small simulator: the directory, and the frame of each page.
struct Replay {
    directory: Directory,
    frame_of: HashMap<PageId, FrameId>,
    page_of: HashMap<FrameId, PageId>,
    pinned: HashSet<PageId>,
    misses: u64,
}

struct Pins<'a>(&'a HashMap<FrameId, PageId>, &'a HashSet<PageId>);

impl Claims for Pins<'_> {
    fn is_busy(&mut self, frame: FrameId) -> bool {
        self.1.contains(&self.0[&frame])
    }

    fn claim(&mut self, frame: FrameId) -> bool {
        !self.is_busy(frame)
    }
}

impl Replay {
    /// A directory with the default tenant only.
    fn new(frames: u32, allocation: Allocation) -> Self {
        let options = DirectoryOptions { frames, allocation, revocation: true, shared_pages: false };
        Self {
            directory: Directory::new(options).unwrap(),
            frame_of: HashMap::new(),
            page_of: HashMap::new(),
            pinned: HashSet::new(),
            misses: 0,
        }
    }

    fn step(&mut self, step: &Step) {
        let frame_of = &self.frame_of;
        let find = |page: PageId| frame_of.get(&page).copied();
        match *step {
            Step::Pin(page) => assert!(self.pinned.insert(page)),
            Step::Unpin(page) => assert!(self.pinned.remove(&page)),
            Step::Policy { tenant, priority, policy } => {
                self.directory.set_policy(TenantId(tenant), priority, policy).unwrap();
            }
            Step::Priority { tenant, first, last, priority } => {
                self.directory.set_priority(TenantId(tenant), first..=last, priority, find).unwrap();
            }
            Step::TemporaryPriority { tenant, first, last, priority } => {
                self.directory
                    .set_temporary_priority(TenantId(tenant), first..=last, priority, find)
                    .unwrap();
            }
            Step::ManagerEnd { tenant } => self.directory.clear_manager(TenantId(tenant)).unwrap(),
            Step::Strange(ref event) => panic!("an event this test does not know: {event}"),
            Step::Access { page, site, tenant, creates } => {
                let access = Access {
                    page,
                    file: page.file(),
                    tenant: TenantId(tenant),
                    context: ContextId(site),
                    creates,
                };
                match find(page) {
                    Some(frame) => {
                        self.directory.hit(frame, &access);
                    }
                    None => self.miss(&access),
                }
            }
        }
    }

    fn miss(&mut self, access: &Access) {
        self.misses += 1;
        let frame = match self.directory.admit(access, &mut Pins(&self.page_of, &self.pinned)) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                assert_eq!(self.frame_of.remove(&page), Some(frame));
                frame
            }
            Admission::Exhausted { .. } => panic!("the live run found a frame"),
        };
        self.directory.loaded(frame);
        self.frame_of.insert(access.page, frame);
        self.page_of.insert(frame, access.page);
    }
}

/// An operation of the engine.
#[derive(Clone, Debug)]
enum Operation {
    Read {
        tenant: usize,
        file: usize,
        number: u64,
    },
    Write {
        tenant: usize,
        file: usize,
        number: u64,
    },
    Create {
        tenant: usize,
        file: usize,
        number: u64,
    },
    /// A page is held while a few others are accessed.
    Hold {
        tenant: usize,
        number: u64,
        others: Vec<u64>,
        pin: bool,
    },
    Policy {
        tenant: usize,
        priority: i32,
        policy: Policy,
    },
    Priority {
        tenant: usize,
        file: usize,
        priority: i32,
    },
    TemporaryPriority {
        tenant: usize,
        file: usize,
        first: u64,
        count: u64,
        priority: i32,
    },
    Flush,
}

const PAGES: u64 = 60;

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let (tenant, file, number, priority) = (0..3_usize, 0..2_usize, 0..PAGES, -2..2_i32);
    let operation = prop_oneof![
        8 => (tenant.clone(), file.clone(), number.clone())
            .prop_map(|(tenant, file, number)| Operation::Read { tenant, file, number }),
        4 => (tenant.clone(), file.clone(), number.clone())
            .prop_map(|(tenant, file, number)| Operation::Write { tenant, file, number }),
        1 => (tenant.clone(), file.clone(), number.clone())
            .prop_map(|(tenant, file, number)| Operation::Create { tenant, file, number }),
        2 => (tenant.clone(), number.clone(), prop::collection::vec(0..PAGES, 1..6), any::<bool>())
            .prop_map(|(tenant, number, others, pin)| Operation::Hold { tenant, number, others, pin }),
        1 => (1..3_usize, priority.clone(), prop::sample::select(Policy::ALL.to_vec()))
            .prop_map(|(tenant, priority, policy)| Operation::Policy { tenant, priority, policy }),
        1 => (1..3_usize, file.clone(), priority.clone())
            .prop_map(|(tenant, file, priority)| Operation::Priority { tenant, file, priority }),
        1 => (1..3_usize, file, 0..PAGES, 0..20_u64, priority).prop_map(
            |(tenant, file, first, count, priority)| Operation::TemporaryPriority { tenant, file, first, count, priority }
        ),
        1 => Just(Operation::Flush),
    ];
    prop::collection::vec(operation, 1..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn a_replay_has_the_same_misses(
        operations in operations(),
        allocation in prop::sample::select(vec![
            Allocation::LruSp, Allocation::LruS, Allocation::AllocLru, Allocation::GlobalLru,
        ]),
        manager in prop::option::of(prop::sample::select(ManagerKind::ALL.to_vec())),
    ) {
        let directory = directory();
        let log = Log::default();
        let options = deterministic().threads_max(1).frames(20).allocation(allocation);
        let options = options.manager(manager).shared_pages(false);
        let pool = options.recorder(Box::new(log.clone())).open().unwrap();
        let files = ["one", "two"].map(|name| new_file(&pool, directory.path(), name, PAGES));
        let tenants = [
            pool.default_tenant(),
            pool.tenant("a").open().unwrap(),
            pool.tenant("b").open().unwrap(),
        ];
        for (at, operation) in operations.iter().enumerate() {
            let _scope = context!("operation", at as u64 % 3);
            match *operation {
                Operation::Read { tenant, file, number } => {
                    drop(tenants[tenant].read(files[file].page(number)).unwrap());
                }
                Operation::Write { tenant, file, number } => {
                    tenants[tenant].write(files[file].page(number)).unwrap()[0] = 1;
                }
                Operation::Create { tenant, file, number } => {
                    drop(tenants[tenant].create(files[file].page(number)).unwrap());
                }
                Operation::Hold { tenant, number, ref others, pin } => {
                    let guard = tenants[tenant].read(files[0].page(number)).unwrap();
                    let pin = pin.then(|| guard.pin());
                    let guard = if pin.is_some() { drop(guard); None } else { Some(guard) };
                    for &other in others {
                        drop(tenants[tenant].read(files[1].page(other)).unwrap());
                    }
                    drop((pin, guard));
                }
                Operation::Policy { tenant, priority, policy } => {
                    tenants[tenant].set_policy(priority, policy).unwrap();
                }
                Operation::Priority { tenant, file, priority } => {
                    tenants[tenant].set_priority(&files[file], priority).unwrap();
                }
                Operation::TemporaryPriority { tenant, file, first, count, priority } => {
                    let last = (first + count).min(PAGES);
                    tenants[tenant].set_temporary_priority(&files[file], first..last, priority).unwrap();
                }
                Operation::Flush => files[0].flush().unwrap(),
            }
            pool.check_invariants();
        }
        let stats = pool.stats();
        let mut replay = Replay::new(20, allocation);
        replay.directory.open_tenant(0, 20).unwrap();
        replay.directory.open_tenant(0, 20).unwrap();
        if let Some(kind) = manager {
            for tenant in (0..3).map(TenantId) {
                if kind == ManagerKind::Auto {
                    let common = || kind.build(20, 1, TenantId(0));
                    replay.directory.join_commons(tenant, common).unwrap();
                } else {
                    replay.directory.set_manager(tenant, kind.build(20, 1, tenant), true).unwrap();
                }
            }
        }
        for step in log.steps.lock().unwrap().iter() {
            replay.step(step);
        }
        prop_assert_eq!(replay.misses, stats.misses);
        for tenant in &stats.tenants {
            let replayed = replay.directory.tenant_stats(TenantId(tenant.id));
            prop_assert_eq!(
                (tenant.accesses, tenant.misses, tenant.overrules, tenant.mistakes, tenant.vindications),
                (replayed.accesses, replayed.misses, replayed.overrules, replayed.mistakes, replayed.vindications)
            );
        }
        prop_assert_eq!(log.names.lock().unwrap().len(), 2);
        pool.close().unwrap();
    }
}

/// Events as words, in their order.
#[derive(Clone, Default)]
struct Order(Arc<Mutex<Vec<String>>>);
impl Recorder for Order {
    fn record(&mut self, event: Event<'_>) {
        let word = match event {
            Event::File { id, .. } => format!("file {}", id.0),
            Event::Site { id, name, .. } => format!("site {id} {}", name.unwrap_or("-")),
            Event::Access { page, site, creation, .. } => {
                format!(
                    "access {}.{} from {site}{}",
                    page.file().0,
                    page.number(),
                    if creation { " new" } else { "" }
                )
            }
            Event::Pin(page) => format!("pin {}", page.number()),
            Event::Unpin(page) => format!("unpin {}", page.number()),
            Event::Program { tenant, .. } => format!("program {tenant}"),
            Event::ProgramEnd { tenant } => format!("program end {tenant}"),
            Event::Hint { first, last, .. } => format!("hint {}..={}", first.number(), last.number()),
            Event::HintsReplan { .. } => "replan".to_owned(),
            Event::HintsEnd { .. } => "hints end".to_owned(),
            _ => format!("{event:?}"),
        };
        self.0.lock().unwrap().push(word);
    }
}

#[test]
fn sites_and_files_are_announced_before_their_first_use() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = pool.open_file(directory.path().join("data"), FileOptions::new().create(true)).unwrap();
    file.extend(3).unwrap();
    let tenant = pool.default_tenant();
    drop(tenant.create(file.page(0)).unwrap());
    let held = tenant.at(bufpool::site!("scan")).read(file.page(1)).unwrap();
    let again = tenant.read(file.page(1)).unwrap();
    drop(again);
    drop(tenant.at(bufpool::site!("scan")).read(file.page(2)).unwrap());
    drop(held);
    let expected = [
        "file 0",
        "site 1 -",
        "access 0.0 from 1 new",
        "site 2 scan",
        "access 0.1 from 2",
        "site 3 -",
        "pin 1",
        "access 0.1 from 3",
        "site 4 scan",
        "access 0.2 from 4",
        "unpin 1",
    ];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

#[test]
fn pages_held_by_owned_guards_are_told() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = pool.open_file(directory.path().join("data"), FileOptions::new().create(true)).unwrap();
    file.extend(3).unwrap();
    let tenant = pool.default_tenant();
    let first = tenant.read_owned(file.page(0)).unwrap();
    let second = tenant.read_owned(file.page(1)).unwrap();
    drop(tenant.read(file.page(2)).unwrap());
    drop(second);
    drop(first);
    drop(tenant.read_owned(file.page(2)).unwrap());
    drop(tenant.read(file.page(0)).unwrap());
    let words = order.0.lock().unwrap();
    let holds: Vec<&str> = words.iter().map(String::as_str).filter(|word| word.contains("pin")).collect();
    assert_eq!(holds, ["pin 0", "pin 1", "unpin 1", "unpin 0"]);
}

#[test]
fn a_closed_tenants_program_ends_in_the_trace() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let program = bufpool::Program::parse(common::MRU).unwrap();
    let a = pool.tenant("a").program(&program).open().unwrap();
    a.close().unwrap();
    let b = pool.tenant("b").manager(None).open().unwrap();
    drop(b.read(file.page(0)).unwrap());
    assert_eq!(b.id(), 1, "the number is used again");
    let expected = ["file 0", "program 1", "program end 1", "site 1 -", "access 0.0 from 1"];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

/// The pages of a closed tenant go in LRU order, which its directives do not change any more.
#[test]
fn a_closed_tenants_directives_end_in_the_trace() {
    let directory = directory();
    let log = Log::default();
    let options = deterministic().threads_max(1).frames(20).manager(None).shared_pages(false);
    let pool = options.recorder(Box::new(log.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", PAGES);
    let [a, b] = ["a", "b"].map(|name| pool.tenant(name).open().unwrap());
    let read = |tenant: &Tenant, pages: std::ops::Range<u64>| {
        pages.for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    };
    a.set_policy(0, Policy::Mru).unwrap();
    read(&a, 0..20);
    a.close().unwrap();
    // The first of these take the place of pages of the closed tenant, and the last find what is left of it.
    read(&b, 20..30);
    read(&b, 0..20);
    let stats = pool.stats();
    let mut replay = Replay::new(20, Allocation::LruSp);
    replay.directory.open_tenant(0, 20).unwrap();
    replay.directory.open_tenant(0, 20).unwrap();
    log.steps.lock().unwrap().iter().for_each(|step| replay.step(step));
    let b = stats.tenants.iter().find(|tenant| tenant.name == "b").unwrap();
    let replayed = replay.directory.tenant_stats(TenantId(b.id));
    assert_eq!((replayed.accesses, replayed.misses), (b.accesses, b.misses));
    assert_eq!(replay.misses, stats.misses);
}

#[test]
fn a_new_plan_is_told_before_its_pages() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let tenant = pool.tenant("a").open().unwrap();
    let pages = |numbers: std::ops::Range<u64>| -> Vec<_> {
        numbers.map(|number| bufpool::HintedPage::from(file.page(number))).collect()
    };
    let mut hints = tenant.hint(pages(0..8)).unwrap();
    hints.replan(pages(20..28)).unwrap();
    drop(hints);
    let expected = ["file 0", "site 1 -", "hint 0..=7", "replan", "hint 20..=27", "hints end"];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

/// Each part is told under a hold of the policy lock of its own, and others have the lock in between.
#[test]
fn a_long_list_is_told_in_parts() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 2_500);
    let pages = || (0..2_500).map(|number| bufpool::HintedPage::from(file.page(number)));
    let mut hints = pool.default_tenant().hint([]).unwrap();
    hints.extend(pages());
    hints.replan(pages()).unwrap();
    drop(hints);
    let parts = ["hint 0..=1023", "hint 1024..=2047", "hint 2048..=2499"];
    let expected = [&["file 0", "site 1 -"][..], &parts, &["replan"], &parts, &["hints end"]].concat();
    assert_eq!(*order.0.lock().unwrap(), expected);
}

/// Pages that no file can have are recorded as the last possible page, which has no next one.
#[test]
fn hints_of_impossible_pages_are_recorded() {
    let directory = directory();
    let order = Order::default();
    let pool = deterministic().recorder(Box::new(order.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1);
    let impossible = bufpool::HintedPage { file: bufpool_policies::FileId(u32::MAX), number: u64::MAX };
    let pages = [impossible, bufpool::HintedPage::from(file.page(0)), impossible];
    let hints = pool.default_tenant().hint(pages).unwrap();
    drop(hints);
    let last = (1_u64 << PageId::NUMBER_BITS) - 1;
    let hint = |number| format!("hint {number}..={number}");
    let hints = [hint(last), hint(0), hint(last)];
    let expected = ["file 0", "site 1 -", &hints[0], &hints[1], &hints[2], "hints end"];
    assert_eq!(*order.0.lock().unwrap(), expected);
}

/// Panics at one event, and counts what it hears afterwards.
struct Breaks {
    left: u32,
    heard_afterwards: Arc<AtomicU32>,
}

impl Recorder for Breaks {
    fn record(&mut self, _: Event<'_>) {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None if self.heard_afterwards.fetch_add(1, Ordering::Relaxed) == 0 => panic!("on purpose"),
            None => {}
        }
    }
}

impl Drop for Breaks {
    fn drop(&mut self) {
        panic!("on purpose, at the end");
    }
}

/// Whichever event it is at, and though it panics once more when it is dropped.
#[test]
fn a_recorder_that_panics_hears_no_more_and_changes_nothing() {
    let directory = directory();
    let run = |left, name: &str| {
        let heard_afterwards = Arc::default();
        let recorder = Breaks { left, heard_afterwards: Arc::clone(&heard_afterwards) };
        let pool = deterministic().recorder(Box::new(recorder)).open().unwrap();
        let file = new_file(&pool, directory.path(), name, 200);
        let tenant = pool.tenant("a").open().unwrap();
        let held = tenant.read(file.page(7)).unwrap();
        let pin = tenant.pin(file.page(8)).unwrap();
        tenant.set_policy(0, Policy::Mru).unwrap();
        for number in 0..200 {
            drop(tenant.read_owned(file.page(number)).unwrap());
            tenant.write(file.page(100 + number / 2)).unwrap()[0] = 1;
        }
        drop((held, pin));
        pool.check_invariants();
        let (misses, frames) = (pool.stats().misses, pool.stats().dirty_frames);
        drop((tenant, file));
        pool.close().unwrap();
        (misses, frames, heard_afterwards.load(Ordering::Relaxed))
    };
    let (misses, frames, _) = run(u32::MAX, "undisturbed");
    assert!(misses > 200, "pages leave");
    for left in 0..30 {
        assert_eq!(run(left, &left.to_string()), (misses, frames, 1), "at event {left}");
    }
}
