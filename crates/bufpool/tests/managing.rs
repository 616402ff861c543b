//! Goal: what tenants, limits, programs, scopes and traces promise holds whatever is done in which order.
//! Method: small cases, and random steps under all allocations.

mod common;

use std::sync::{Arc, Barrier, Mutex};
use std::time::Duration;

use bufpool::Policy;
use bufpool::engine::{Event, Recorder};
use common::{deterministic, directory, new_file, open_on, small, stamped_device};

/// Totals keep the counts of closed tenants.
#[test]
fn totals_keep_unlisted_hits_of_closed_tenants() {
    let device = stamped_device(200);
    let (pool, file) = open_on(small(), &device);
    let a = pool.tenant("a").open().unwrap();
    drop(a.read(file.page(0)).unwrap());
    let (noted, counted) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        let (a, file, noted, counted) = (&a, &file, &noted, &counted);
        scope.spawn(move || {
            drop(a.read(file.page(0)).unwrap());
            noted.wait();
            counted.wait();
        });
        noted.wait();
        for number in 1..100 {
            drop(pool.default_tenant().read(file.page(number)).unwrap());
        }
        drop(pool.stats());
        counted.wait();
    });
    let before = pool.stats();
    assert_eq!((before.accesses, before.tenants[1].resident_frames), (101, 0));
    a.close().unwrap();
    let b = pool.tenant("b").open().unwrap();
    assert_eq!(b.id(), 1, "the number is used again");
    let after = pool.stats();
    assert_eq!((after.accesses, after.hits), (before.accesses, before.hits));
}

/// Floors, caps and sums under all allocations.
#[test]
fn floors_caps_and_sums_hold_under_all_allocations() {
    use bufpool::manager::Allocation;
    let all = [
        Allocation::LruSp,
        Allocation::LruS,
        Allocation::AllocLru,
        Allocation::GlobalLru,
        Allocation::Fifo2Sp,
        Allocation::CostBenefit,
    ];
    let mut failures = Vec::new();
    for allocation in all {
        for seed in 1..9_u64 {
            for shared in [true, false] {
                let mut random = common::Random(seed * 77);
                let directory = directory();
                let pool = deterministic()
                    .threads_max(1)
                    .allocation(allocation)
                    .shared_pages(shared)
                    .open()
                    .unwrap();
                let file = new_file(&pool, directory.path(), "data", 100);
                let text = "policy mru { queue all event initial { ret } event fault(p) { enqt all, p ; ret }
                event access(p) { enqt all, p ; ret }
                event replace(c) { peekt v, all ; isnil t, v ; jnz t, none ; ret v
                none: ret c } }";
                let program = bufpool::Program::parse(text).unwrap();
                let tenants = [
                    pool.default_tenant(),
                    pool.tenant("floor").floor_frames(6).open().unwrap(),
                    pool.tenant("cap").cap_frames(7).open().unwrap(),
                    pool.tenant("both").floor_frames(3).cap_frames(5).program(&program).open().unwrap(),
                    pool.tenant("granted").privileged(4).program(&program).open().unwrap(),
                    pool.tenant("directed").open().unwrap(),
                ];
                tenants[5].set_policy(0, Policy::Mru).unwrap();
                let limits = [(0, 32), (6, 32), (0, 7), (3, 5), (4, 4), (0, 32)];
                let frames = |stats: &bufpool::stats::Stats| -> Vec<u32> {
                    stats.tenants.iter().map(|t| t.resident_frames).collect()
                };
                let mut before = frames(&pool.stats());
                'steps: for step in 0..400 {
                    let who = random.below(6) as usize;
                    let page = random.below(60);
                    match random.below(8) {
                        0 => tenants[who].write(file.page(page)).unwrap()[0] = 1,
                        1 => drop(tenants[who].create(file.page(page)).unwrap()),
                        _ => drop(tenants[who].read(file.page(page)).unwrap()),
                    }
                    let stats = pool.stats();
                    let now = frames(&stats);
                    for at in 0..6 {
                        let (floor, cap) = limits[at];
                        let lost = at != who && now[at] < before[at] && before[at] <= floor;
                        // Where pages are not shared, placeholders come before floors and caps.
                        if shared && (lost || now[at] > cap) {
                            failures.push(format!("{allocation:?} shared {shared} seed {seed} step {step}: {who} read {page}, tenant {at}: {} -> {} of {:?}", before[at], now[at], limits[at]));
                            break 'steps;
                        }
                    }
                    before = now;
                    let sum = |of: fn(&bufpool::stats::TenantStats) -> u64| -> u64 {
                        stats.tenants.iter().map(of).sum()
                    };
                    assert_eq!(stats.accesses, stats.hits + stats.misses);
                    assert_eq!(
                        (stats.accesses, stats.misses, stats.creations),
                        (sum(|t| t.accesses), sum(|t| t.misses), sum(|t| t.creations))
                    );
                    for tenant in &stats.tenants {
                        let of = |count: fn(&bufpool::stats::ContextStats) -> u64| -> u64 {
                            stats.contexts.iter().filter(|c| c.tenant == tenant.id).map(count).sum()
                        };
                        assert_eq!(
                            (tenant.accesses, tenant.misses, tenant.creations),
                            (of(|c| c.accesses), of(|c| c.misses), of(|c| c.creations))
                        );
                    }
                    assert_eq!(stats.left_clean + stats.left_written, stats.evictions);
                }
                pool.check_invariants();
            }
        }
    }
    assert!(failures.is_empty(), "{failures:#?}");
}

/// "Pages that are pinned or latched stay, and leave when the tenant next needs a frame."
#[test]
fn pinned_pages_above_a_lowered_cap_leave_later() {
    for options in [deterministic(), small()] {
        let directory = directory();
        let pool = options.open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 100);
        let tenant = pool.tenant("capped").cap_frames(10).open().unwrap();
        let pins: Vec<_> = (0..6).map(|number| tenant.pin(file.page(number)).unwrap()).collect();
        tenant.set_cap_frames(2).unwrap();
        let resident = || pool.stats().tenants[1].resident_frames;
        assert_eq!(resident(), 6);
        drop(pins);
        (10..60).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
        assert_eq!(resident(), 2);
    }
}

#[test]
fn a_cap_is_reported_as_it_holds() {
    let directory = directory();
    let pool = deterministic().open().unwrap();
    let _file = new_file(&pool, directory.path(), "data", 64);
    let _a = pool.tenant("a").cap_frames(u32::MAX).open().unwrap();
    assert_eq!(pool.stats().tenants[1].cap_frames, 32);
}

/// What is evicted has left.
#[test]
fn a_victim_that_could_not_be_written_was_not_evicted() {
    let device = common::stamped_device(100);
    let (pool, file) = common::open_on(deterministic(), &device);
    let other = {
        device.put("other", &vec![0; 4096 * 4]);
        pool.open_file("other", bufpool::FileOptions::new()).unwrap()
    };
    let tenant = pool.default_tenant();
    tenant.write(other.page(0)).unwrap()[0] = 1;
    (0..31).for_each(|number| drop(tenant.read(file.page(number)).unwrap()));
    device.fail(bufpool::sim::SimFault {
        operation: bufpool::IoOperation::Write,
        nth: device.calls(bufpool::IoOperation::Write) + 1,
        failure: bufpool::sim::SimFailure::Io,
    });
    drop(tenant.read(file.page(50)).unwrap());
    let stats = pool.stats();
    assert_eq!((stats.write_failures, stats.accesses), (1, 33));
    assert_eq!(stats.left_clean + stats.left_written, 1);
    assert_eq!(stats.evictions, 1);
}

#[test]
fn a_dirty_limit_of_one_per_cent_acts_in_a_pool_of_64_frames() {
    let directory = directory();
    let pool = small().frames(64).dirty_limit_percent(1).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 128);
    for number in 0..50 {
        pool.default_tenant().write(file.page(number)).unwrap()[0] = 1;
    }
    std::thread::sleep(Duration::from_secs(1));
    assert!(pool.stats().dirty_frames <= 1, "{} dirty frames", pool.stats().dirty_frames);
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

#[test]
fn a_scope_that_outlives_its_outer_one_ends_nothing_else() {
    let current = || bufpool::Context::current().to_string();
    let a = bufpool::context!("a");
    let b = bufpool::context!("b");
    drop(a);
    assert_eq!(current(), "");
    let c = bufpool::context!("c");
    let d = bufpool::context!("d");
    drop(b);
    assert_eq!(current(), "c > d");
    drop(d);
    drop(c);
    assert_eq!(current(), "");
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Recorder for Log {
    fn record(&mut self, event: Event<'_>) {
        let line = match event {
            Event::Access { page, tenant, .. } => format!("access {} by {tenant}", page.number()),
            Event::Program { tenant, .. } => format!("program {tenant}"),
            Event::ProgramEnd { tenant } => format!("program end {tenant}"),
            Event::Hint { first, last, .. } => format!("hint {}..={}", first.number(), last.number()),
            Event::HintsReplan { .. } => "replan".to_owned(),
            Event::HintsEnd { .. } => "hints end".to_owned(),
            _ => return,
        };
        self.0.lock().unwrap().push(line);
    }
}

#[test]
fn a_closed_tenants_program_ends_in_the_trace() {
    let directory = directory();
    let log = Log::default();
    let pool = deterministic().recorder(Box::new(log.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let text = "policy mru { queue all
        event initial { ret }
        event fault(p) { enqt all, p ; ret }
        event access(p) { enqt all, p ; ret }
        event replace(c) { peekt v, all ; isnil t, v ; jnz t, none ; ret v
            none: ret c } }";
    let program = bufpool::Program::parse(text).unwrap();
    let a = pool.tenant("a").program(&program).open().unwrap();
    a.close().unwrap();
    let b = pool.tenant("b").manager(None).open().unwrap();
    drop(b.read(file.page(0)).unwrap());
    let lines = log.0.lock().unwrap().clone();
    assert_eq!(b.id(), 1);
    assert_eq!(lines, ["program 1", "program end 1", "access 0 by 1"]);
}

#[test]
fn a_new_plan_is_recorded_after_the_end_of_the_old_one() {
    let directory = directory();
    let log = Log::default();
    let pool = deterministic().recorder(Box::new(log.clone())).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 64);
    let tenant = pool.tenant("a").open().unwrap();
    let pages = |numbers: std::ops::Range<u64>| -> Vec<_> {
        numbers.map(|number| bufpool::HintedPage::from(file.page(number))).collect()
    };
    let mut hints = tenant.hint(pages(0..8)).unwrap();
    hints.replan(pages(20..28)).unwrap();
    let lines = log.0.lock().unwrap().clone();
    assert!(lines.last().is_some_and(|last| last.starts_with("hint ")), "{lines:?}");
}

#[test]
fn a_name_cannot_forge_a_line_of_the_report() {
    let pool = deterministic().open().unwrap();
    let lines = || pool.report().to_string().lines().count();
    let before = lines();
    let _a = pool.tenant("a\nforged             none                     32 100.0%").open().unwrap();
    assert_eq!(lines(), before + 1, "{}", pool.report());
}
