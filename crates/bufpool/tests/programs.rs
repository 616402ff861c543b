//! Goal: policy programs decide in the live pool as in the simulator, cost other tenants no hit whatever they
//! do, and can be loaded, sent numbers and unloaded at any time. Method: small pools in deterministic mode,
//! where every miss can be predicted, and on every backend; runaway and faulty programs, one for each event.

mod common;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bufpool::engine::{Event, Recorder};
use bufpool::manager::{Access, Allocation, ContextId, FrameId, PageId, TenantId};
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::stats::{Incident, ProgramStats};
use bufpool::{ErrorKind, File, FileOptions, IoOperation, Pool, PoolOptions, Program, Tenant};
use bufpool_policies::program::{ProgramManager, ProgramOptions, instruction_set};
use bufpool_policies::{Admission, Claims, Directory, DirectoryOptions, SplitMix64};
use common::{
    MRU, PAGE_BYTES, deterministic, directory, kind, new_file, on_each_backend, small, stamp, version,
};

/// Gives up the newest page while `newest` is 1, otherwise the pool's candidate; knows nothing of hits.
const SWITCH: &str = "policy switch {
  queue all
  int newest = 1
  const one = 1
  event initial     { ret }
  event fault(p)    { enqt all, p ; ret }
  event replace(c)  { ne t, newest, one ; jnz t, pool
                      peekt v, all ; isnil t, v ; jnz t, pool
                      ret v
                pool: ret c }
}";

fn program(text: &str) -> Program {
    Program::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn read(tenant: &Tenant, file: &File, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
}

fn misses(pool: &Pool, tenant: &Tenant) -> u64 {
    let stats = pool.stats();
    stats.tenants.iter().find(|stats| stats.id == tenant.id()).unwrap().misses
}

/// Forty pages of 32 frames read round and round: MRU keeps most of them, LRU none.
#[test]
fn a_program_decides_on_each_backend() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 40);
        let scan = pool.tenant("scan").program(&program(MRU)).open().unwrap();
        (0..4).for_each(|_| read(&scan, &file, 0..40));
        assert!(misses(&pool, &scan) < 100, "{}", pool.report());
        pool.check_invariants();
        pool.close().unwrap();
    });
}

#[test]
fn a_value_that_is_sent_changes_what_a_program_decides() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 40);
    let tenant = pool.tenant("scan").program(&program(SWITCH)).open().unwrap();
    read(&tenant, &file, 0..40);
    assert_eq!(misses(&pool, &tenant), 40);
    read(&tenant, &file, 0..31);
    assert_eq!(misses(&pool, &tenant), 40, "the newest went");
    tenant.send("newest", 0).unwrap();
    read(&tenant, &file, 31..39);
    read(&tenant, &file, 0..8);
    assert_eq!(misses(&pool, &tenant), 56, "the oldest went");
    for (slot, expected) in [("one", ErrorKind::UnknownSlot), ("all", ErrorKind::UnknownSlot)] {
        assert_eq!(kind(tenant.send(slot, 1)), expected);
    }
    let error = tenant.send("nwest", 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnknownSlot);
    assert!(error.to_string().contains("nwest") && error.to_string().contains("scan"), "{error}");
    tenant.clear_program().unwrap();
    assert_eq!(kind(tenant.send("newest", 1)), ErrorKind::NoProgram);
    assert_eq!(kind(pool.default_tenant().send("newest", 1)), ErrorKind::NoProgram);
    pool.check_invariants();
}

fn did(pool: &Pool, tenant: &Tenant) -> ProgramStats {
    let stats = pool.stats();
    stats.tenants.into_iter().find(|stats| stats.id == tenant.id()).unwrap().program.unwrap()
}

fn resident(pool: &Pool, tenant: &Tenant) -> u32 {
    pool.stats().tenants.iter().find(|stats| stats.id == tenant.id()).unwrap().resident_frames
}

/// The program hears of the pages in the order in which they would have gone, so its queue has that order.
#[test]
fn pages_keep_their_order_when_a_program_comes() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let tenant = pool.tenant("managed").manager(None).open().unwrap();
    read(&tenant, &file, 0..32);
    read(&tenant, &file, 0..8);
    tenant.set_program(&bad("", "", "peekh v, all ; isnil t, v ; jnz t, none ; ret v ; none:")).unwrap();
    assert_eq!(did(&pool, &tenant).calls.fault, 32);
    read(&tenant, &file, 32..56);
    assert_eq!(misses(&pool, &tenant), 56);
    read(&tenant, &file, 0..8);
    assert_eq!(misses(&pool, &tenant), 56, "pages 8 to 31 went");
    pool.check_invariants();
}

#[test]
fn a_program_has_the_fuel_that_the_options_say() {
    assert_eq!(kind(deterministic().program_fuel(0).open()), ErrorKind::InvalidOptions);
    // 50 rounds of four steps.
    let rounds = "ldc n, 50 ; L: jz n, end ; sub n, n, one ; jmp L ; end:";
    for (fuel, out_of_fuel) in [(100, 8), (1000, 0)] {
        let directory = directory();
        let pool = deterministic().program_fuel(fuel).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 20);
        let tenant = pool.tenant("managed").program(&bad("fault", rounds, "")).open().unwrap();
        read(&tenant, &file, 0..20);
        assert_eq!(did(&pool, &tenant).out_of_fuel, out_of_fuel);
    }
}

// ---- as in the simulator

/// Accesses of a run: page, context, tenant.
#[derive(Clone, Default)]
struct Accesses(Arc<Mutex<Vec<(PageId, u32, u32)>>>);

impl Recorder for Accesses {
    fn record(&mut self, event: Event<'_>) {
        if let Event::Access { page, site, tenant, .. } = event {
            self.0.lock().unwrap().push((page, site, tenant));
        }
    }
}

/// No page is ever held.
struct NoneBusy;

impl Claims for NoneBusy {
    fn is_busy(&mut self, _: FrameId) -> bool {
        false
    }

    fn claim(&mut self, _: FrameId) -> bool {
        true
    }
}

/// A directory of 32 frames whose tenants 1 and up have programs, driven by the accesses alone. Returns each
/// tenant's misses and overrules.
fn simulate(accesses: &[(PageId, u32, u32)], programs: &[Program]) -> Vec<(u64, u64)> {
    let options =
        DirectoryOptions { frames: 32, allocation: Allocation::LruSp, revocation: true, shared_pages: true };
    let mut directory = Directory::new(options).unwrap();
    for program in programs {
        let tenant = directory.open_tenant(0, 32).unwrap();
        let options = ProgramOptions { pool_frames: 32, seed: 1, tenant, fuel_steps: None };
        let manager = ProgramManager::new(program, options).unwrap();
        directory.set_manager(tenant, Box::new(manager), false).unwrap();
    }
    let (mut frame_of, mut page_of) = (HashMap::new(), HashMap::new());
    for &(page, site, tenant) in accesses {
        let tenant = TenantId(tenant);
        let access = Access { page, file: page.file(), tenant, context: ContextId(site), creates: false };
        if let Some(frame) = frame_of.get(&page) {
            directory.hit(*frame, &access);
            continue;
        }
        let frame = match directory.admit(&access, &mut NoneBusy) {
            Admission::Free { frame, .. } => frame,
            Admission::Evict { frame, page, .. } => {
                assert_eq!(frame_of.remove(&page), Some(frame));
                frame
            }
            Admission::Exhausted { .. } => panic!("no frame is busy"),
        };
        directory.loaded(frame);
        frame_of.insert(page, frame);
        page_of.insert(frame, page);
    }
    let stats = (1..=programs.len() as u32).map(|tenant| directory.tenant_stats(TenantId(tenant)));
    stats.map(|stats| (stats.misses, stats.overrules)).collect()
}

/// Every program of the examples, beside another one.
#[test]
fn programs_decide_as_in_the_simulator() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs");
    let mut texts: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "policy"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    texts.sort();
    assert!(texts.len() >= 9);
    let mut overrules = 0;
    for at in 0..texts.len() {
        let programs = [&texts[at], &texts[(at + 1) % texts.len()]].map(|text| program(text));
        let accesses = Accesses::default();
        let pool = deterministic().recorder(Box::new(accesses.clone())).open_on(&SimDevice::new(1)).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
        file.extend(80).unwrap();
        let tenants = [0, 1].map(|n| pool.tenant("managed").program(&programs[n]).open().unwrap());
        let mut random = SplitMix64::new(at as u64);
        for step in 0..3000 {
            let tenant = &tenants[(random.next_u64() % 2) as usize];
            // Loops, a few pages that are read often, and some that both read.
            let number = match random.next_u64() % 4 {
                0 => random.next_u64() % 8,
                1 => 60 + random.next_u64() % 20,
                _ => 8 + step % 45,
            };
            if random.next_u64().is_multiple_of(3) {
                tenant.write(file.page(number)).unwrap()[0] = 1;
            } else {
                drop(tenant.read(file.page(number)).unwrap());
            }
        }
        pool.check_invariants();
        let stats = pool.stats();
        let live: Vec<_> =
            stats.tenants[1..].iter().map(|tenant| (tenant.misses, tenant.overrules)).collect();
        let accesses = accesses.0.lock().unwrap().clone();
        assert_eq!(live, simulate(&accesses, &programs), "{}", pool.report());
        overrules += live.iter().map(|(_, overrules)| overrules).sum::<u64>();
    }
    assert!(overrules > 100, "programs decide otherwise than the pool would");
}

// ---- programs that do what they should not

/// A program that runs `body` in the event `at`. Otherwise it leaves the choice to the pool, except for
/// `answer`, which stands in `replace` before its `ret c`.
fn bad(at: &str, body: &str, answer: &str) -> Program {
    let body_of = |event| if event == at { body } else { "" };
    let [initial, fault, access, gone, mistake, replace] =
        ["initial", "fault", "access", "gone", "mistake", "replace"].map(body_of);
    program(&format!(
        "policy bad {{
           queue all
           int x
           const zero = 0
           const one = 1
           event initial {{ {initial} ret }}
           event fault(p) {{ enqt all, p ; {fault} ret }}
           event access(p) {{ {access} ret }}
           event gone(p) {{ {gone} ret }}
           event mistake(p) {{ {mistake} ret }}
           event replace(c) {{ {replace} {answer}
                        ret c }}
         }}"
    ))
}

/// `L: jz zero, L` is an endless loop.
const RUNAWAY: &str = "L: jz zero, L ;";
const DIVISION: &str = "div x, one, zero ;";
/// Gives up the newest page.
const NEWEST: &str = "peekt v, all ; isnil t, v ; jnz t, none ; ret v ; none:";

/// Runs a neighbour without a manager beside a tenant with `program`, or without a manager. Returns for each
/// access of the neighbour whether it was a miss, the counts of the program, and the report.
fn beside(program: Option<&Program>, seed: u64) -> (Vec<bool>, Option<ProgramStats>, String) {
    let options = deterministic().program_fuel(200).revocation(false);
    let pool = options.open_on(&SimDevice::new(1)).unwrap();
    let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
    file.extend(100).unwrap();
    let neighbour = pool.tenant("neighbour").manager(None).open().unwrap();
    let tenant = pool.tenant("managed");
    let tenant = match program {
        Some(program) => tenant.program(program),
        None => tenant.manager(None),
    };
    let tenant = tenant.open().unwrap();
    let mut random = SplitMix64::new(seed);
    let (mut missed, mut before) = (Vec::new(), 0);
    for step in 0..3000 {
        if random.next_u64().is_multiple_of(2) {
            let number = if random.next_u64().is_multiple_of(4) { step % 40 } else { random.next_u64() % 12 };
            drop(tenant.read(file.page(number)).unwrap());
            continue;
        }
        let number = if random.next_u64().is_multiple_of(2) { step % 14 } else { random.next_u64() % 40 };
        drop(neighbour.read(file.page(50 + number)).unwrap());
        let now = misses(&pool, &neighbour);
        missed.push(now > before);
        before = now;
    }
    pool.check_invariants();
    let did = program.map(|_| did(&pool, &tenant));
    (missed, did, pool.report().to_string())
}

/// With an event that loops for ever or divides by zero, the counts and the report say so, and the neighbour
/// has the misses that it has beside a tenant without a manager.
#[test]
fn programs_that_run_away_or_divide_by_zero_are_unloaded_and_disturb_nobody() {
    let (unmanaged, ..) = beside(None, 7);
    assert!(unmanaged.contains(&true) && unmanaged.contains(&false));
    let events = ["initial", "fault", "replace", "access", "gone"];
    for (body, phrase) in [(RUNAWAY, "ran out of fuel"), (DIVISION, "divided by zero")] {
        // An event `access` with a loop is refused when the text is read.
        for event in events.into_iter().filter(|event| *event != "access" || body == DIVISION) {
            let (missed, did, report) = beside(Some(&bad(event, body, "")), 7);
            assert_eq!(missed, unmanaged, "{event}: {body}");
            let did = did.unwrap();
            let incidents = if event == "initial" { 1 } else { 8 };
            let counts = if body == RUNAWAY { (incidents, 0) } else { (0, incidents) };
            assert_eq!(
                (did.out_of_fuel, did.faults, did.invalid_answers),
                (counts.0, counts.1, 0),
                "{event}"
            );
            if event == "initial" {
                // The event runs once, so there is one incident, which does not unload the program.
                assert_eq!(did.unloaded, None);
                continue;
            }
            let unloaded = did.unloaded.unwrap();
            assert_eq!(unloaded.event, event);
            let incident = if body == RUNAWAY { Incident::OutOfFuel } else { Incident::DivisionByZero };
            assert_eq!(unloaded.incident, incident);
            assert!(report.contains("program (unloaded)"), "{report}");
            assert!(report.contains(&format!(
                "unloaded: too many incidents, the last of them: event {event} {phrase}"
            )));
        }
    }
}

/// Wrong overrules of the tenant make `mistake` run. The neighbour misses no page that it does not miss
/// beside a tenant without a manager, although the program decides until it is unloaded.
#[test]
fn a_program_that_fails_in_mistake_is_unloaded() {
    let (unmanaged, ..) = beside(None, 7);
    for body in [RUNAWAY, DIVISION] {
        let (missed, did, report) = beside(Some(&bad("mistake", body, NEWEST)), 7);
        assert_eq!(did.unwrap().unloaded.unwrap().event, "mistake", "{report}");
        assert!(missed.iter().zip(&unmanaged).all(|(missed, lru)| !missed || *lru));
    }
}

/// The worst answers that are allowed cost the neighbour no access that hits under LRU.
#[test]
fn bad_advice_costs_a_neighbour_no_hit() {
    let at_random = "rand r ; rem r, r, forty ; find v, r ; isnil t, v ; jnz t, none ; ret v ; none:";
    let at_random = at_random.replace("rem r", "ldc forty, 40 ; rem r");
    for answer in [NEWEST, &at_random] {
        for seed in 0..10 {
            let (unmanaged, ..) = beside(None, seed);
            let (missed, did, _) = beside(Some(&bad("", "", answer)), seed);
            assert!(missed.iter().zip(&unmanaged).all(|(missed, lru)| !missed || *lru), "seed {seed}");
            assert_eq!(did.unwrap().unloaded, None);
        }
    }
}

/// A page that is held may be named, and stays; a page that has left cannot be named, since slots forget it.
#[test]
fn answers_that_cannot_be_followed_are_counted_and_the_candidate_goes() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 80);
    let tenant = pool.tenant("managed").program(&bad("", "", NEWEST)).open().unwrap();
    read(&tenant, &file, 0..32);
    let pin = tenant.pin(file.page(31)).unwrap();
    read(&tenant, &file, 32..33);
    assert_eq!(did(&pool, &tenant).invalid_answers, 1);
    drop(pin);
    // Page 32 is the newest since, and leaves here.
    file.discard(32..33).unwrap();
    read(&tenant, &file, 33..35);
    assert_eq!(did(&pool, &tenant).invalid_answers, 1);
    let keeps = program_that_keeps_its_first_page();
    tenant.set_program(&keeps).unwrap();
    file.discard(0..80).unwrap();
    read(&tenant, &file, 0..40);
    let did = did(&pool, &tenant);
    assert_eq!((did.invalid_answers, did.unloaded), (0, None));
    pool.check_invariants();
}

fn program_that_keeps_its_first_page() -> Program {
    program(
        "policy first {
           page first
           event initial { ret }
           event fault(p) { isnil t, first ; jz t, known ; copy first, p
                     known: ret }
           event replace(c) { isnil t, first ; jnz t, none ; ret first
                        none: ret c }
         }",
    )
}

#[test]
fn a_program_that_names_held_pages_is_unloaded_for_it() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 80);
    let program = bad("", "", "peekh v, all ; isnil t, v ; jnz t, none ; ret v ; none:");
    let tenant = pool.tenant("managed").program(&program).open().unwrap();
    read(&tenant, &file, 0..32);
    let oldest = tenant.pin(file.page(0)).unwrap();
    read(&tenant, &file, 32..60);
    drop(oldest);
    let did = did(&pool, &tenant);
    assert_eq!(did.invalid_answers, 8);
    let report = pool.report().to_string();
    assert!(report.contains("event replace named a page that could not be taken"), "{report}");
    assert!(report.contains("The pages of managed go in LRU order until it is given a program."));
    tenant.set_program(&program).unwrap();
    assert!(!pool.report().to_string().contains("unloaded"));
    pool.check_invariants();
}

// ---- hits

/// Without an event `access` most hits pass by the filter; with one, each is noted.
#[test]
fn a_program_without_an_event_access_leaves_hits_alone() {
    for (text, notes_all) in [(SWITCH, false), (MRU, true)] {
        let directory = directory();
        let pool = small().open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 8);
        let tenant = pool.tenant("managed").program(&program(text)).open().unwrap();
        (0..1000).for_each(|_| read(&tenant, &file, 0..8));
        let stats = pool.stats();
        assert_eq!(stats.hits, 8000 - 8);
        if notes_all {
            assert_eq!(stats.hits_noted, stats.hits);
            assert_eq!(did(&pool, &tenant).calls.access, stats.hits);
        } else {
            assert!(stats.hits_noted < stats.hits / 10, "{} of {}", stats.hits_noted, stats.hits);
            assert_eq!(did(&pool, &tenant).calls.access, 0);
        }
        assert!(did(&pool, &tenant).steps > 0);
        pool.close().unwrap();
    }
}

// ---- wishes

/// Pages that are read are to count as modified, and so are written when they leave.
#[test]
fn a_page_that_counts_as_modified_is_written() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).dirty_limit_percent(100).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 64);
        let program = bad("replace", "peekt v, all ; isnil t, v ; jnz t, L ; setmod v ; L:", "");
        let tenant = pool.tenant("managed").program(&program).open().unwrap();
        read(&tenant, &file, 0..40);
        assert!(pool.stats().dirty_frames + pool.stats().writes > 0);
        pool.close().unwrap();
    });
}

/// With a file that is open for reading only, and with one whose sync has failed.
#[test]
fn no_page_counts_as_modified_that_could_not_be_written() {
    let device = SimDevice::new(1);
    ["sound", "poisoned"].into_iter().for_each(|name| device.put(name, &vec![0; 64 * PAGE_BYTES]));
    let pool = deterministic().open_on(&device).unwrap();
    let read_only = pool.open_file("sound", FileOptions::new().read_only(true)).unwrap();
    let poisoned = pool.open_file("poisoned", FileOptions::new()).unwrap();
    pool.default_tenant().write(poisoned.page(0)).unwrap()[0] = 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth: 1, failure: SimFailure::Io });
    assert_eq!(poisoned.flush().unwrap_err().kind(), ErrorKind::Io);
    let before = pool.stats().dirty_frames;
    let program = bad("replace", "peekt v, all ; isnil t, v ; jnz t, L ; setmod v ; L:", "");
    let tenant = pool.tenant("managed").program(&program).open().unwrap();
    for file in [read_only, poisoned] {
        read(&tenant, &file, 10..60);
        assert_eq!(pool.stats().dirty_frames, before, "{}", file.name());
    }
    pool.check_invariants();
}

/// The newest page, which is dirty and stays, is written though nothing else asks for it.
#[test]
fn a_page_is_written_when_a_program_wishes_it() {
    let flush = "peekt v, all ; isnil t, v ; jnz t, L ; flush v ; L:";
    let run = |options: PoolOptions, body: &str| {
        let device = SimDevice::new(1);
        let pool = options.dirty_limit_percent(100).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
        file.extend(64).unwrap();
        let tenant = pool.tenant("managed").program(&bad("replace", body, "")).open().unwrap();
        read(&tenant, &file, 0..31);
        stamp(&mut tenant.write(file.page(31)).unwrap(), 31, 5);
        // Its victim is page 0, which is clean.
        read(&tenant, &file, 32..33);
        pool.check_invariants();
        let stats = pool.stats();
        assert_eq!(stats.evictions, 1);
        (stats.dirty_frames, stats.writes)
    };
    for options in [deterministic, small] {
        assert_eq!(run(options(), ""), (1, 0));
        assert_eq!(run(options(), flush), (0, 1));
    }
}

/// A program that looks at `mod` gives up pages that need not be written.
#[test]
fn a_program_sees_which_pages_are_modified() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let clean = "peekh v, all ; M: isnil t, v ; jnz t, none ; mod t, v ; jz t, take ; next v, v ; jmp M ;
                 take: ret v ; none:";
    let tenant = pool.tenant("managed").program(&bad("", "", clean)).open().unwrap();
    for number in 0..16 {
        stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
    }
    read(&tenant, &file, 16..40);
    assert_eq!((pool.stats().writes, pool.stats().evictions), (0, 8));
    let before = misses(&pool, &tenant);
    read(&tenant, &file, 0..16);
    assert_eq!(misses(&pool, &tenant), before);
}

// ---- privileged tenants

/// Lets its oldest page go at once while it has all its frames, and answers with the newest.
const RELEASES: &str = "policy releases privileged {
  queue all
  const zero = 0
  const many = 1000
  event initial { ret }
  event fault(p) { arg m, missing ; lt t, m, zero ; jz t, asked
                   enqt all, p
                   request n, many ; jnz n, told
                   peekh v, all ; isnil t, v ; jnz t, told ; release v
                   # The page that came in is in the queue, so this ends at once.
             back: peekt v, all ; isnil t, v ; jnz t, back ; ret v
             told: ret p
            asked: peekt v, all ; isnil t, v ; jnz t, none ; ret v
             none: ret p }
  event replace(c) { ret c }
}";

/// Answers with the newest page, and releases none.
const OWN: &str = "policy own privileged {
  queue all
  const zero = 0
  event initial { ret }
  event fault(p) { arg m, missing ; lt t, m, zero ; jz t, asked
                   enqt all, p ; ret p
            asked: peekt v, all ; isnil t, v ; jnz t, none ; ret v
             none: ret p }
  event replace(c) { ret c }
}";

#[test]
fn a_privileged_tenant_keeps_its_frames_and_gives_up_none_but_its_own() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 200);
    let other = pool.tenant("other").manager(None).open().unwrap();
    read(&other, &file, 100..140);
    let own = pool.tenant("own").privileged(6).program(&program(OWN)).open().unwrap();
    read(&own, &file, 0..6);
    assert_eq!((resident(&pool, &own), resident(&pool, &other)), (6, 26));
    // Pages of the other tenant come and go.
    read(&other, &file, 100..200);
    read(&own, &file, 0..6);
    assert_eq!(misses(&pool, &own), 6);
    // The newest goes, so that the others are never missed; and nobody else loses a frame.
    read(&own, &file, 6..30);
    assert_eq!(misses(&pool, &own), 30);
    assert_eq!((resident(&pool, &own), resident(&pool, &other)), (6, 26));
    // When another tenant misses pages that the program gave up, they come into frames of that other tenant.
    read(&other, &file, (5..29).rev());
    assert_eq!((resident(&pool, &own), resident(&pool, &other)), (6, 26));
    read(&own, &file, 0..5);
    assert_eq!(misses(&pool, &own), 30);
    let stats = did(&pool, &own);
    assert_eq!((stats.calls.fault, stats.calls.replace), (30 + 24, 0));
    pool.check_invariants();
    own.close().unwrap();
    read(&other, &file, 100..200);
    pool.check_invariants();
    pool.close().unwrap();
}

/// Below its cap a privileged tenant gets others' frames though its own pages are older.
#[test]
fn a_privileged_tenant_grows_by_the_frames_of_others() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 200);
    let other = pool.tenant("other").manager(None).open().unwrap();
    let own = pool.tenant("own").privileged(8).open().unwrap();
    read(&own, &file, 0..4);
    read(&other, &file, 100..128);
    read(&own, &file, 4..8);
    read(&own, &file, 0..8);
    assert_eq!((misses(&pool, &own), resident(&pool, &own)), (8, 8));
    // Where all others are held it takes its own.
    own.clone().close().unwrap();
    let own = pool.tenant("own").privileged(8).manager(None).open().unwrap();
    read(&own, &file, 10..12);
    let pins: Vec<_> = (104..128).map(|number| other.pin(file.page(number)).unwrap()).collect();
    let held: Vec<_> = (4..8).map(|number| other.pin(file.page(number)).unwrap()).collect();
    read(&own, &file, 12..30);
    assert!(resident(&pool, &own) >= 2);
    drop((pins, held));
    pool.check_invariants();
}

#[test]
fn privileges_are_checked() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let ordinary = pool.tenant("ordinary").program(&program(MRU)).open().unwrap();
    read(&ordinary, &file, 0..40);
    let error = ordinary.set_program(&program(OWN)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Privilege);
    assert!(error.to_string().contains("program own for tenant ordinary"), "{error}");
    assert_eq!(did(&pool, &ordinary).name, "mru", "nothing has changed");
    let tenants = pool.stats().tenants.len();
    assert_eq!(kind(pool.tenant("no").program(&program(OWN)).open()), ErrorKind::Privilege);
    // 32 frames, less 2 for each of 8 threads and 8 more.
    assert_eq!(kind(pool.tenant("no").privileged(9).open()), ErrorKind::Floor);
    assert_eq!(kind(pool.tenant("no").privileged(0).open()), ErrorKind::Floor);
    assert_eq!(pool.stats().tenants.len(), tenants, "none was opened");
    let own = pool.tenant("own").privileged(8).open().unwrap();
    assert_eq!(kind(own.set_floor_frames(4)), ErrorKind::Privilege);
    assert_eq!(kind(own.set_cap_frames(20)), ErrorKind::Privilege);
    // It may have any program, or none.
    own.set_program(&program(OWN)).unwrap();
    own.set_program(&program(MRU)).unwrap();
    own.clear_program().unwrap();
    assert_eq!(kind(ordinary.set_policy(0, bufpool::Policy::Mru)), ErrorKind::Directive);
    ordinary.clear_program().unwrap();
    ordinary.set_policy(0, bufpool::Policy::Mru).unwrap();
    pool.check_invariants();
}

/// Dirty pages are written before they leave, clean ones just leave; a page that is held stays.
#[test]
fn a_page_that_a_program_releases_leaves() {
    let run = |options: PoolOptions, is_alone: bool| {
        let device = SimDevice::new(1);
        let pool = options.dirty_limit_percent(100).open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
        file.extend(64).unwrap();
        let own = pool.tenant("own").privileged(4).program(&program(RELEASES)).open().unwrap();
        for number in 0..4 {
            stamp(&mut own.write(file.page(number)).unwrap(), number, 3);
        }
        // The fourth page made the program release the first, which leaves after the next question.
        assert_eq!(resident(&pool, &own), 4);
        read(&own, &file, 4..5);
        pool.check_invariants();
        // A page that the pool's writer has stays, and the program asks again with the next page.
        let mut others = 5..64;
        while !is_alone && resident(&pool, &own) > 3 {
            read(&own, &file, [others.next().expect("the writer lets go of it")]);
        }
        assert_eq!(resident(&pool, &own), 3, "{}", pool.report());
        let before = misses(&pool, &own);
        for number in 0..4 {
            assert_eq!(version(&own.read(file.page(number)).unwrap(), number), 3);
        }
        assert!(misses(&pool, &own) > before);
        for round in 0..200 {
            let number = round * 7 % 40;
            let held = own.read(file.page(number)).unwrap();
            read(&own, &file, [(number + 1) % 40]);
            drop(held);
            own.write(file.page(number)).unwrap()[8] = 1;
            assert!(resident(&pool, &own) <= 4);
        }
        pool.check_invariants();
        assert!(pool.stats().left_written > 1);
        pool.checkpoint().unwrap();
        pool.close().unwrap();
    };
    run(deterministic(), true);
    run(small(), false);
}

// ---- at any time

#[test]
fn programs_are_swapped_while_pages_are_read_and_written() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 100);
        let busy = bad("replace", "peekt v, all ; isnil t, v ; jnz t, L ; flush v ; setmod v ; L:", NEWEST);
        let endless = bad("fault", RUNAWAY, "");
        let programs = [program(MRU), program(SWITCH), busy, endless];
        let tenants = [
            pool.tenant("one").program(&programs[0]).open().unwrap(),
            pool.tenant("two").open().unwrap(),
            pool.tenant("own").privileged(4).program(&program(RELEASES)).open().unwrap(),
        ];
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4_u64)
                .map(|worker| {
                    let (tenants, file) = (&tenants, &file);
                    scope.spawn(move || {
                        let mut random = SplitMix64::new(worker);
                        for _ in 0..1000 {
                            let tenant = &tenants[(random.next_u64() % 3) as usize];
                            let number = random.next_u64() % 100;
                            if random.next_u64().is_multiple_of(4) {
                                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 1);
                            } else {
                                let page = tenant.read(file.page(number)).unwrap();
                                assert!(version(&page, number * u64::from(page[8] > 0)) <= 1);
                            }
                        }
                    })
                })
                .collect();
            scope.spawn(|| {
                let mut random = SplitMix64::new(99);
                while !done.load(Ordering::Relaxed) {
                    let at = (random.next_u64() % 3) as usize;
                    let tenant = &tenants[at];
                    match random.next_u64() % 6 {
                        0 => tenant.clear_program().unwrap(),
                        1 => {
                            let sent = tenant.send("newest", 0);
                            assert!(sent.map_or_else(
                                |error| matches!(error.kind(), ErrorKind::NoProgram | ErrorKind::UnknownSlot),
                                |()| true
                            ));
                        }
                        2 if at == 2 => tenant.set_program(&program(RELEASES)).unwrap(),
                        which => tenant.set_program(&programs[which as usize % 4]).unwrap(),
                    }
                }
            });
            workers.into_iter().for_each(|worker| worker.join().unwrap());
            done.store(true, Ordering::Relaxed);
        });
        pool.check_invariants();
        for number in 0..100 {
            let page = tenants[0].read(file.page(number)).unwrap();
            assert!(version(&page, number * u64::from(page[8] > 0)) <= 1);
        }
        pool.close().unwrap();
    });
}

/// Writes fail while a program wishes pages to be written and to leave. The file is poisoned, no page that is
/// in memory or in the file is lost, and after a reopening the file can be used again.
#[test]
fn wishes_end_with_a_poisoned_file_a_closed_tenant_and_a_closed_pool() {
    for options in [deterministic, small] {
        let device = SimDevice::new(1);
        let pool = options().open_on(&device).unwrap();
        let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
        file.extend(64).unwrap();
        let own = pool.tenant("own").privileged(4).program(&program(RELEASES)).open().unwrap();
        let busy = bad("replace", "peekt v, all ; isnil t, v ; jnz t, L ; setmod v ; flush v ; L:", NEWEST);
        let other = pool.tenant("other").program(&busy).open().unwrap();
        let nth = device.calls(IoOperation::Write) + 3;
        device.fail(SimFault { operation: IoOperation::Write, nth, failure: SimFailure::Io });
        for number in (0..64).chain(0..64) {
            for tenant in [&own, &other] {
                // Once the file is poisoned, frames may be had or not.
                let _ = tenant.write(file.page(number)).map(|mut page| stamp(&mut page, number, 1));
                let _ = tenant.read(file.page(number));
            }
        }
        assert!(pool.stats().write_failures > 0);
        file.reopen().unwrap();
        read(&own, &file, 0..10);
        read(&other, &file, 0..40);
        pool.check_invariants();
        own.clone().close().unwrap();
        assert_eq!(kind(own.set_program(&program(OWN))), ErrorKind::TenantClosed);
        assert_eq!(kind(own.send("x", 1)), ErrorKind::TenantClosed);
        assert_eq!(kind(own.clear_program()), ErrorKind::TenantClosed);
        read(&other, &file, 0..40);
        pool.check_invariants();
        pool.clone().close().unwrap();
        assert_eq!(kind(other.set_program(&program(MRU))), ErrorKind::PoolClosed);
        assert_eq!(kind(other.send("x", 1)), ErrorKind::PoolClosed);
    }
}

// ---- documentation

/// The table of instructions names each of them once, in the form that is written, with its fuel.
#[test]
fn the_table_of_instructions_is_that_of_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/docs/programs.rs");
    let text = std::fs::read_to_string(path).unwrap();
    let (_, table) = text.split_once("//! | instructions | fuel |").unwrap();
    let mut documented = Vec::new();
    for row in table.lines().skip(2).map_while(|line| line.strip_prefix("//! | ")) {
        let [instructions, fuel] = row.splitn(3, " | ").take(2).collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let fuel: u32 = fuel.parse().unwrap();
        documented.extend(instructions.split('`').skip(1).step_by(2).map(|form| (form.to_owned(), fuel)));
    }
    let mut expected: Vec<_> = instruction_set().map(|form| (form.to_string(), form.fuel_steps)).collect();
    documented.sort();
    expected.sort();
    assert_eq!(documented, expected);
}

/// "Wishes are carried out after the tenant's next question."
#[test]
fn wishes_are_carried_out_after_questions_of_read_many_too() {
    let text = "policy p { queue all page first
        event initial { ret }
        event fault(p) { isnil t, first ; jz t, more ; copy first, p ; ret
            more: enqt all, p ; ret }
        event replace(c) { isnil t, first ; jnz t, next ; flush first
            next: peekh v, all ; isnil t, v ; jnz t, none ; ret v
            none: ret c } }";
    let program = bufpool::Program::parse(text).unwrap();
    for many in [false, true] {
        let directory = directory();
        let pool = small().open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 200);
        let tenant = pool.tenant("t").program(&program).open().unwrap();
        tenant.write(file.page(0)).unwrap()[0] = 1;
        for number in (1..100).step_by(3) {
            let pages: Vec<_> = (number..number + 3).map(|number| file.page(number)).collect();
            if many {
                assert!(tenant.read_many(&pages).into_iter().all(|page| page.unwrap().is_some()));
            } else {
                pages.into_iter().for_each(|page| drop(tenant.read(page).unwrap()));
            }
        }
        std::thread::sleep(Duration::from_millis(500));
        let stats = pool.stats();
        assert_eq!((stats.dirty_frames, stats.writes), (0, 1), "read_many: {many}");
    }
}
