//! Goal: the calls above an access are part of its context if the tenant asks for it, the same for hits and
//! misses. A tenant that asks for it is refused where the calls cannot be found. Method: one fetch function
//! that is called from several places. The calls can be found only if this crate is compiled with frame
//! pointers. Otherwise each test says so and passes; with `BUFPOOL_FRAME_POINTERS=1` it fails:
//! `BUFPOOL_FRAME_POINTERS=1 RUSTFLAGS="-C force-frame-pointers=yes" cargo test -p bufpool --test
//! stack_contexts --target-dir target/frames`.

mod common;

use std::collections::HashSet;
use std::hint::black_box;

use bufpool::{ErrorKind, File, Pool, Tenant, site};
use common::{block_on, deterministic, directory, new_file, small};

/// The one function of an engine through which all accesses go.
#[inline(never)]
fn fetch(tenant: &Tenant, file: &File, number: u64) {
    black_box(tenant.at(site!("fetch")).read(file.page(number)).unwrap()[0]);
}

#[inline(never)]
fn scan(tenant: &Tenant, file: &File, numbers: std::ops::Range<u64>) {
    for number in numbers {
        fetch(tenant, file, number);
    }
    black_box(());
}

#[inline(never)]
fn look_up(tenant: &Tenant, file: &File, number: u64) {
    fetch(tenant, file, number);
    black_box(());
}

/// A tenant whose contexts have this number of calls; none, with a printed notice, without frame pointers.
fn tenant(pool: &Pool, depth: u8) -> Option<Tenant> {
    match pool.tenant("t").stack_contexts(depth).open() {
        Ok(tenant) => Some(tenant),
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
            let expected = ["-C force-frame-pointers=yes", "Linux on x86-64 or AArch64"];
            assert!(expected.iter().any(|expected| error.to_string().contains(expected)), "{error}");
            assert!(std::env::var_os("BUFPOOL_FRAME_POINTERS").is_none(), "they are there: {error}");
            println!("skipped: {error}");
            None
        }
    }
}

/// Accesses of each context of the site `fetch`, fewest first.
fn accesses(pool: &Pool) -> Vec<u64> {
    let stats = pool.stats();
    let fetches = stats.contexts.iter().filter(|context| context.name.as_deref() == Some("fetch"));
    let mut accesses: Vec<u64> = fetches.map(|context| context.accesses).collect();
    accesses.sort_unstable();
    accesses
}

#[test]
fn more_than_eight_calls_are_refused() {
    let pool = small().open().unwrap();
    let error = pool.tenant("t").stack_contexts(9).open().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidOptions);
    assert!(error.to_string().contains("stack_contexts = 9"), "{error}");
    assert_eq!(pool.stats().tenants.len(), 1);
    pool.tenant("t").stack_contexts(0).open().unwrap();
}

/// In the background mode and in deterministic mode, for hits as well as misses.
#[test]
fn two_ways_through_one_function_are_two_contexts() {
    let directory = directory();
    for (mode, options) in [("background", small()), ("at-once", deterministic())] {
        let pool = options.open().unwrap();
        let file = new_file(&pool, directory.path(), mode, 20);
        let Some(tenant) = tenant(&pool, 1) else { return };
        for _ in 0..3 {
            scan(&tenant, &file, 0..10);
        }
        for number in 10..20 {
            look_up(&tenant, &file, number);
        }
        assert_eq!(accesses(&pool), [10, 30], "{mode}");
        for _ in 0..3 {
            scan(&tenant, &file, 0..10);
        }
        assert_eq!(accesses(&pool), [10, 60], "{mode}");
        let label = |context: &bufpool::stats::ContextStats| context.label();
        let labels: Vec<String> = pool.stats().contexts.iter().map(label).collect();
        assert!(labels.iter().all(|label| label.starts_with("calls ")), "{labels:?}");
        drop((tenant, file));
        pool.close().unwrap();
    }
}

/// `depth` calls between a caller and the fetch function.
#[inline(never)]
fn nested(tenant: &Tenant, file: &File, depth: u8) {
    if depth == 0 {
        fetch(tenant, file, 0);
    } else {
        nested(tenant, file, depth - 1);
    }
    black_box(());
}

/// Calls beyond the depth do not change the context.
#[test]
fn the_depth_is_what_was_asked_for() {
    let directory = directory();
    for depth in 1..=8 {
        // Each depth has a pool of its own. A hit that is not noted has no context, and in a shared pool many
        // hits would not be noted, because an earlier tenant with the same number has just noted the page.
        let pool = small().open().unwrap();
        let file = new_file(&pool, directory.path(), &format!("data{depth}"), 20);
        let Some(tenant) = tenant(&pool, depth) else { return };
        for below in 0..12 {
            nested(&tenant, &file, below);
        }
        // The calls above an access are that of `fetch`, up to `depth - 1` of `nested` by itself, all from
        // one place, and the call in this loop. So there is one context for each depth of nesting below
        // `depth`.
        assert_eq!(accesses(&pool).len(), usize::from(depth));
    }
}

#[test]
fn nobody_else_has_the_calls_in_its_contexts() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 20);
    let plain = pool.tenant("plain").open().unwrap();
    scan(&plain, &file, 0..10);
    look_up(&plain, &file, 10);
    assert_eq!(accesses(&pool), [11]);
    let Some(tenant) = tenant(&pool, 4) else { return };
    scan(&tenant, &file, 0..10);
    look_up(&plain, &file, 10);
    assert_eq!(accesses(&pool), [10, 12]);
}

/// With each form of access, an access whose stack is walked is counted once.
#[test]
fn every_access_is_counted_once() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 20);
    let Some(tenant) = tenant(&pool, 8) else { return };
    for round in 0..100 {
        drop(tenant.read(file.page(0)).unwrap());
        drop(tenant.write(file.page(1)).unwrap());
        drop(tenant.create(file.page(2)).unwrap());
        drop(tenant.read_many(&[file.page(3), file.page(4)]));
        drop(tenant.read_owned(file.page(5)).unwrap());
        drop(block_on(tenant.read_async(file.page(6))).unwrap());
        drop(tenant.pin(file.page(7)).unwrap().read().unwrap());
        let stats = pool.stats();
        let counted: u64 = stats.contexts.iter().map(|context| context.accesses).sum();
        assert_eq!((stats.accesses, counted, stats.misses), (9 * (round + 1), 9 * (round + 1), 8));
    }
    let contexts = pool.stats().contexts;
    let labels: HashSet<String> = contexts.iter().map(bufpool::stats::ContextStats::label).collect();
    assert_eq!(labels.len(), contexts.len());
    assert!(contexts.len() <= 24, "{labels:?}");
}

/// In a large pool the stack is walked on few hits. After the others, the page keeps the context of its load.
#[test]
fn a_hit_without_a_look_leaves_the_stream_as_it_is() {
    let directory = directory();
    let pool = deterministic().frames(8200).open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 1000);
    let Some(tenant) = tenant(&pool, 1) else { return };
    scan(&tenant, &file, 0..1000);
    for number in 0..1000 {
        look_up(&tenant, &file, number);
    }
    let accesses = accesses(&pool);
    let [sampled, unsampled, scanned] = accesses[..] else { panic!("{accesses:?}") };
    assert_eq!((sampled + unsampled, scanned), (1000, 1000));
    assert!((90..160).contains(&sampled), "{accesses:?}");
}

/// Threads with small stacks, where the chain of frame pointers is short.
#[test]
fn threads_with_small_stacks_are_served() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 20);
    let Some(tenant) = tenant(&pool, 8) else { return };
    std::thread::scope(|scope| {
        for kilobytes in [64, 128] {
            let thread = std::thread::Builder::new().stack_size(kilobytes << 10);
            thread.spawn_scoped(scope, || scan(&tenant, &file, 0..20)).unwrap();
        }
    });
    assert_eq!(accesses(&pool).iter().sum::<u64>(), 40);
}
