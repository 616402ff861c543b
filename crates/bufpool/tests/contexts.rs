//! Goal: statistics tell accesses apart by call site and scopes, whichever thread makes them, and any number
//! of contexts is taken. Method: a small pool in the background mode, where accesses go through the threads'
//! logs.

mod common;

use std::collections::HashSet;

use bufpool::stats::{ContextStats, Pattern};
use bufpool::{Context, File, ManagerKind, Policy, Pool, Tenant, context, site};
use common::{deterministic, directory, new_file, small};

/// Accesses and misses of the contexts whose label begins like this.
fn counts(pool: &Pool, label: &str) -> (u64, u64) {
    let stats = pool.stats();
    let found: Vec<&ContextStats> =
        stats.contexts.iter().filter(|context| context.label().starts_with(label)).collect();
    (found.iter().map(|context| context.accesses).sum(), found.iter().map(|context| context.misses).sum())
}

fn scan(tenant: &Tenant, file: &File) {
    for number in 0..file.pages() {
        drop(tenant.at(site!("scan")).read(file.page(number)).unwrap());
    }
}

#[test]
fn scopes_make_one_site_many_contexts() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 10);
    let tenant = pool.tenant("t").open().unwrap();
    scan(&tenant, &file);
    {
        let _query = context!("Q6");
        scan(&tenant, &file);
        for node in 1..3 {
            let _node = context!("plan node", node);
            scan(&tenant, &file);
        }
        scan(&tenant, &file);
    }
    scan(&tenant, &file);
    assert_eq!(counts(&pool, "scan ("), (20, 10));
    assert_eq!(counts(&pool, "Q6 > scan ("), (20, 0));
    assert_eq!(counts(&pool, "Q6 > plan node 1 > scan ("), (10, 0));
    assert_eq!(counts(&pool, "Q6 > plan node 2 > scan ("), (10, 0));
    let report = pool.report().to_string();
    assert!(report.contains("Q6 > plan node 2 > scan (") && report.contains("contexts.rs:"), "{report}");
}

#[test]
fn a_context_is_taken_along_by_those_who_work_for_it() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.tenant("t").open().unwrap();
    let query = context!("Q7");
    let context = query.context();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Like a task that is polled by a thread with a scope of its own.
            let _other = context!("something else");
            drop(tenant.in_context(context).read(file.page(0)).unwrap());
            drop(tenant.at(site!("probe")).in_context(context).write(file.page(1)).unwrap());
            drop(tenant.in_context(Context::NONE).at(site!("bare")).read(file.page(2)).unwrap());
            let _entered = context.enter();
            scan(&tenant, &file);
        });
    });
    assert_eq!(counts(&pool, "something else"), (0, 0));
    assert_eq!(counts(&pool, "bare ("), (1, 1));
    assert_eq!(counts(&pool, "Q7 > probe ("), (1, 1));
    assert_eq!(counts(&pool, "Q7 > scan ("), (4, 1));
    assert_eq!(counts(&pool, "Q7 > "), (6, 3));
}

/// A loop and a scan through one function: the report says which is which, since when, and on what evidence.
#[test]
fn the_report_says_what_each_stream_looks_like() {
    let directory = directory();
    let pool = deterministic().frames(100).manager(Some(ManagerKind::Amp)).open().unwrap();
    let inner = new_file(&pool, directory.path(), "inner", 150);
    let log = new_file(&pool, directory.path(), "log", 6000);
    let tenant = pool.tenant("report").open().unwrap();
    let _query = context!("Q6");
    for step in 0..6000 {
        let file = if step % 2 == 0 { &inner } else { &log };
        drop(tenant.at(site!("fetch")).read(file.page(step / 2 % file.pages())).unwrap());
    }
    let stats = pool.stats();
    let stream = |file: &str| stats.streams.iter().find(|stream| stream.file.ends_with(file)).unwrap();
    let (joined, scanned) = (stream("inner").seen, stream("log").seen);
    assert_eq!((joined.class, scanned.class), (Pattern::Looping, Pattern::OneShot));
    assert_eq!(joined.context, scanned.context, "one context, two files");
    assert_eq!((joined.hits + joined.misses, scanned.hits + scanned.misses), (3000, 3000));
    assert!(joined.recency.unwrap() < 0.1 && scanned.recency.is_none());
    assert!(joined.unchanged > 1000 && joined.samples >= 16 && !joined.revoked);
    assert_eq!(joined.frames + scanned.frames, 100);
    assert!(joined.frames >= 90, "{stats:?}");
    assert_eq!((stats.tenants[1].manager, stats.tenants[1].revoked), ("amp", false));
    let report = pool.report().to_string();
    let is_stream = |line: &&str| line.contains("report: Q6 > fetch (") && line.ends_with("/inner");
    let line = report.lines().find(is_stream).unwrap_or_else(|| panic!("{report}"));
    assert!(line.contains(" loop ") && line.contains("R 0.0"), "{report}");
    tenant.set_policy(0, Policy::Mru).unwrap();
    let stats = pool.stats();
    assert_eq!(stats.tenants[1].manager, "directives");
    assert!(stats.streams.is_empty(), "directives replace the manager");
}

/// Created pages are not counted as misses of a site that reads several files.
#[test]
fn a_report_adds_up_to_its_tenants() {
    let directory = directory();
    let pool = deterministic().frames(100).open().unwrap();
    let files = ["one", "two"].map(|name| new_file(&pool, directory.path(), name, 400));
    let tenant = pool.tenant("t").manager(Some(ManagerKind::Auto)).open().unwrap();
    for number in 0..400 {
        for file in &files {
            let at = tenant.at(site!("both"));
            if number % 4 == 0 {
                drop(at.create(file.page(number)).unwrap());
            } else {
                drop(at.read(file.page(number)).unwrap());
            }
            if number % 4 == 1 {
                drop(at.read(file.page(number)).unwrap());
            }
        }
    }
    let report = pool.report();
    let own = report.stats().tenants.iter().find(|own| own.id == tenant.id()).unwrap();
    assert_eq!((own.accesses, own.creations, own.hits), (1000, 200, 200));
    assert!(report.stats().streams.len() >= 2, "{report}");
    let text = report.to_string();
    let lines = text.lines().filter(|line| line.contains(" t: both ("));
    let (counted, streams): (Vec<&str>, Vec<&str>) =
        lines.partition(|line| !line.starts_with("             "));
    let [counted] = counted[..] else { panic!("{report}") };
    let counts: Vec<&str> = counted.split_whitespace().take(3).collect();
    let expected = own.misses - own.creations;
    assert_eq!(counts[..2], [expected.to_string(), "1000".to_owned()], "{report}");
    assert_eq!(counts[2], format!("{:.6}", 200.0 / 800.0), "{report}");
    assert_eq!(streams.len(), 2, "{report}");
}

/// Contexts are recycled and never refused, and no count is lost.
#[test]
fn ten_thousand_contexts_pass() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 4);
    let tenant = pool.tenant("t").open().unwrap();
    for query in 0..10_000 {
        let _query = context!("query", query);
        if query < 2 {
            drop(tenant.create(file.page(query)).unwrap());
        } else {
            drop(tenant.read(file.page(query % 4)).unwrap());
        }
    }
    let stats = pool.stats();
    let own = &stats.tenants[tenant.id() as usize];
    assert_eq!((own.accesses, own.misses), (10_000, 4));
    let contexts: Vec<_> = stats.contexts.iter().filter(|context| context.tenant == tenant.id()).collect();
    assert!(contexts.len() <= 4096);
    assert_eq!(contexts.len() as u64 + own.contexts_recycled, 10_000);
    let live: u64 = contexts.iter().map(|context| context.accesses).sum();
    assert_eq!(live + own.recycled_accesses, 10_000);
    assert_eq!(own.recycled_misses + contexts.iter().map(|context| context.misses).sum::<u64>(), 4);
    let created: u64 = contexts.iter().map(|context| context.creations).sum();
    assert_eq!((own.recycled_creations + created, own.recycled_creations), (own.creations, 2));
    let recycled =
        format!("contexts of t that were recycled, with {} accesses, 2 read misses", own.recycled_accesses);
    let report = pool.report().to_string();
    assert!(report.contains(&recycled), "{report}");
    assert_eq!(counts(&pool, "query 9999 > "), (1, 0));
    pool.check_invariants();
}

/// The accesses to pages of a class: accesses and misses.
fn counts_in_class(pool: &Pool, class: u8) -> (u64, u64) {
    let stats = pool.stats();
    let found: Vec<&ContextStats> = stats.contexts.iter().filter(|context| context.class == class).collect();
    (found.iter().map(|context| context.accesses).sum(), found.iter().map(|context| context.misses).sum())
}

/// With each form of access, and each way in which a hit is counted: noted, skipped, and applied at once.
#[test]
fn a_class_makes_one_site_another_context() {
    let directory = directory();
    let modes = [("noted", small()), ("at once", deterministic()), ("siteless", small().call_sites(false))];
    for (mode, options) in modes {
        let pool = options.open().unwrap();
        let file = new_file(&pool, directory.path(), mode, 20);
        let tenant = pool.tenant("t").open().unwrap();
        let of = |class: u8, number| file.page(number).class(class);
        for round in 0..100 {
            drop(tenant.read(of(1, 0)).unwrap());
            drop(tenant.write(of(2, 1)).unwrap());
            drop(tenant.read_many(&[of(3, 2), of(4, 3), of(0, 4)]));
            drop(tenant.read_owned(of(5, 5)).unwrap());
            drop(common::block_on(tenant.read_async(of(6, 6))).unwrap());
            drop(tenant.create(of(7, 7)).unwrap());
            assert_eq!(pool.stats().accesses, 8 * (round + 1));
        }
        for class in 0..8 {
            assert_eq!(counts_in_class(&pool, class), (100, 1), "{mode}, class {class}");
        }
        let numbers: HashSet<u32> = pool.stats().contexts.iter().map(|context| context.id).collect();
        assert_eq!(numbers.len(), pool.stats().contexts.len());
        let report = pool.report().to_string();
        assert!(report.contains(", class 7"), "{report}");
        drop((tenant, file));
        pool.close().unwrap();
    }
}

#[test]
fn pins_keep_the_class() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 2);
    let tenant = pool.tenant("t").open().unwrap();
    let borrowed = tenant.pin(file.page(0).class(255)).unwrap();
    let owned = tenant.pin_owned(file.page(1).class(255)).unwrap();
    assert_eq!(counts_in_class(&pool, 255), (2, 2));
    drop(borrowed.read().unwrap());
    drop(borrowed.write().unwrap());
    drop(owned.read(&tenant).unwrap());
    drop(owned.write(&tenant).unwrap());
    assert_eq!(counts_in_class(&pool, 255), (6, 2));
    assert_eq!(counts_in_class(&pool, 0), (0, 0));
}

/// A scan of leaves with the inner pages above them through one function: by class they are two streams.
#[test]
fn a_class_is_a_stream() {
    let directory = directory();
    let pool = deterministic().frames(100).manager(Some(ManagerKind::Amp)).open().unwrap();
    let tree = new_file(&pool, directory.path(), "tree", 6150);
    let tenant = pool.tenant("t").open().unwrap();
    for step in 0..6000 {
        drop(tenant.at(site!("fetch")).read(tree.page(step % 150).class(1)).unwrap());
        drop(tenant.at(site!("fetch")).read(tree.page(150 + step).class(2)).unwrap());
    }
    let stats = pool.stats();
    let class_of = |id| stats.contexts.iter().find(|context| context.id == id).unwrap().class;
    let mut seen: Vec<(u8, Pattern)> =
        stats.streams.iter().map(|stream| (class_of(stream.seen.context.0), stream.seen.class)).collect();
    seen.sort_unstable_by_key(|(class, _)| *class);
    assert_eq!(seen, [(1, Pattern::Looping), (2, Pattern::OneShot)]);
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
