//! Goal: pages come back as they were written, through eviction, flush, close and a second opening.
//! Method: small pools on real files, every backend.

mod common;

use bufpool::{FileOptions, Pool};
use common::{PAGE_BYTES, deterministic, directory, new_file, on_each_backend, small, stamp, version};

const PAGES: u64 = 200;

#[test]
fn pages_survive_eviction_and_reopening() {
    on_each_backend(|io| {
        for options in [small(), deterministic()] {
            let directory = directory();
            let pool = options.io(io).open().unwrap();
            let file = new_file(&pool, directory.path(), "data", PAGES);
            let tenant = pool.default_tenant();
            for number in 0..PAGES {
                stamp(&mut tenant.create(file.page(number)).unwrap(), number, 1);
            }
            for number in 0..PAGES {
                assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), 1);
            }
            for number in (0..PAGES).step_by(3) {
                stamp(&mut tenant.write(file.page(number)).unwrap(), number, 2);
            }
            pool.check_invariants_when_idle();
            pool.close().unwrap();
            verify_from_disk(&directory.path().join("data"));
            let pool = small().io(io).open().unwrap();
            let file = pool.open_file(directory.path().join("data"), FileOptions::new()).unwrap();
            assert_eq!(file.pages(), PAGES);
            for number in 0..PAGES {
                let page = pool.default_tenant();
                let page = page.read(file.page(number)).unwrap();
                assert_eq!(version(&page, number), if number % 3 == 0 { 2 } else { 1 });
            }
        }
    });
}

fn verify_from_disk(path: &std::path::Path) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(bytes.len(), PAGES as usize * PAGE_BYTES);
    for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
        assert_eq!(version(page, number), if number % 3 == 0 { 2 } else { 1 });
    }
}

trait WhenIdle {
    fn check_invariants_when_idle(&self);
}

impl WhenIdle for Pool {
    /// Checks invariants after a checkpoint, since then the background writer has nothing to do.
    fn check_invariants_when_idle(&self) {
        self.checkpoint().unwrap();
        self.check_invariants();
    }
}

/// Pages that are overwritten as a whole are not read, and created pages do not count as misses.
#[test]
fn pages_are_overwritten_unread_and_creations_are_no_misses() {
    let directory = directory();
    let pool = small().open().unwrap();
    let file = new_file(&pool, directory.path(), "data", 8);
    let tenant = pool.default_tenant();
    let mut bytes = vec![0; PAGE_BYTES];
    for number in 0..4 {
        stamp(&mut bytes, number, 3);
        tenant.overwrite(file.page(number), &bytes).unwrap();
    }
    (4..8).for_each(|number| stamp(&mut tenant.create(file.page(number)).unwrap(), number, 3));
    let stats = pool.stats();
    assert_eq!((stats.reads, stats.misses, stats.creations, stats.dirty_frames), (0, 8, 8, 8));
    stamp(&mut bytes, 2, 4);
    tenant.overwrite(file.page(2), &bytes).unwrap();
    for short in [0, PAGE_BYTES - 1] {
        let error = tenant.overwrite(file.page(2), &bytes[..short]).unwrap_err();
        assert_eq!((error.kind(), error.page()), (bufpool::ErrorKind::PageSize, Some(2)), "{error}");
    }
    for number in 0..8 {
        let expected = if number == 2 { 4 } else { 3 };
        assert_eq!(version(&tenant.read(file.page(number)).unwrap(), number), expected);
    }
    let report = pool.report();
    let stats = report.stats();
    assert_eq!((stats.hits, stats.hit_ratio()), (9, 1.0));
    assert_eq!((stats.tenants[0].creations, stats.tenants[0].misses), (8, 8));
    assert_eq!(stats.contexts.iter().map(|context| context.creations).sum::<u64>(), 8);
    assert!(report.to_string().contains("misses 0  creations 8"), "{report}");
    file.flush().unwrap();
    file.discard(0..8).unwrap();
    assert_eq!(version(&tenant.read(file.page(2)).unwrap(), 2), 4);
    assert_eq!(pool.stats().hit_ratio(), 0.9);
}

#[test]
fn the_open_files_are_listed() {
    let directory = directory();
    let pool = small().open().unwrap();
    assert!(pool.files().is_empty());
    let (heap, index) =
        (new_file(&pool, directory.path(), "heap", 8), new_file(&pool, directory.path(), "index", 2));
    let tenant = pool.default_tenant();
    drop(tenant.write(heap.page(3)).unwrap());
    tenant.write(heap.page(5)).unwrap()[0] = 1;
    let kept = (heap.clone(), tenant.read_owned(index.page(1)).unwrap());
    let listed = pool.files();
    let names: Vec<_> = listed.iter().map(|file| file.name.rsplit('/').next().unwrap()).collect();
    assert_eq!(names, ["heap", "index"]);
    assert_eq!([listed[0].id, listed[1].id], [heap.id(), index.id()]);
    let counts =
        listed.iter().map(|file| (file.pages, file.handles, file.resident_frames, file.dirty_frames));
    assert_eq!(counts.collect::<Vec<_>>(), [(8, 2, 2, 1), (2, 1, 1, 0)]);
    heap.flush().unwrap();
    let flushed = &pool.files()[0];
    assert_eq!((flushed.dirty_frames, flushed.unsynced, flushed.poisoned), (0, false, false));
    let report = pool.report();
    assert_eq!(report.files()[0].name, flushed.name);
    let line = report.to_string().lines().find(|line| line.ends_with("/heap")).unwrap().to_owned();
    let columns: Vec<_> = line.split_whitespace().collect();
    assert_eq!((&columns[..2], &columns[3..6]), (&["8", "2"][..], &["0", "2", "durable"][..]), "{line}");
    // Without handles a file is still open in the pool; closed it is not.
    drop((heap, kept.0));
    assert_eq!(pool.files()[0].handles, 0);
    let guards = (tenant.read_owned(index.page(0)).unwrap(), kept.1);
    drop((index, guards.0));
    assert_eq!(pool.files()[1].handles, 1, "what a guard outlives counts as long as it");
    drop(guards.1);
    assert_eq!(pool.files()[1].handles, 0);
    pool.open_file(directory.path().join("index"), FileOptions::new()).unwrap().close().unwrap();
    assert_eq!(pool.files().len(), 1);
    pool.clone().close().unwrap();
    assert!(pool.files().is_empty());
}
