//! Goal: a file on an object store is a file of a pool like any other, and what its store does wrong is a
//! typed error or is not noticed at all. Method: pools on files in memory and in a folder, behind a store
//! that loses calls and answers, delays, damages and stops.

mod common;

use std::ops::Range;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bufpool::source::Source;
use bufpool::{ErrorKind, FileOptions, PoolOptions};
use bufpool_remote::object::object_store::local::LocalFileSystem;
use bufpool_remote::object::object_store::memory::InMemory;
use bufpool_remote::object::object_store::path::Path;
use bufpool_remote::object::object_store::throttle::{ThrottleConfig, ThrottledStore};
use bufpool_remote::object::object_store::{ObjectStore, ObjectStoreExt};
use bufpool_remote::object::{ObjectError, ObjectOptions, ObjectSource, Worker, import};
use common::{
    Faults, Faulty, PAGE_BYTES, PLACE, block, bytes_of, cause, create, objects, open, open_read_only, opened,
    options, put, stamp, version,
};

const PAGES: u64 = 300;

fn memory() -> Arc<dyn ObjectStore> {
    Arc::new(InMemory::new())
}

/// Runs a test in memory and in a folder.
fn on_each_store(test: impl Fn(&Arc<dyn ObjectStore>)) {
    test(&memory());
    let folder = tempfile::tempdir().unwrap();
    test(&(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()) as _));
    test(&(Arc::new(ThrottledStore::new(InMemory::new(), ThrottleConfig::default())) as _));
}

/// A file of `PAGES` pages of version 1, committed.
fn written(store: &Arc<dyn ObjectStore>) -> common::Opened {
    let file = create(store);
    file.file.extend(PAGES).unwrap();
    file.write_all(0..PAGES, 1);
    file.file.flush().unwrap();
    file
}

#[test]
fn a_file_is_written_changed_and_opened_again() {
    on_each_store(|store| {
        let file = written(store);
        file.expect_all(0..PAGES, 1);
        (0..PAGES).step_by(7).for_each(|number| file.write(number, 2));
        file.file.truncate(PAGES - 10).unwrap();
        file.file.extend(40).unwrap();
        file.write(PAGES + 20, 3);
        file.pool.close().unwrap();
        let again = open(store);
        assert_eq!(again.file.pages(), PAGES + 30);
        for number in 0..PAGES + 30 {
            let expected = match number {
                number if number == PAGES + 20 => 3,
                number if number >= PAGES - 10 => 0,
                number if number % 7 == 0 => 2,
                _ => 1,
            };
            assert_eq!(again.read(number).unwrap(), expected, "page {number}");
        }
        assert_eq!(again.source.report().manifest, 3);
        // Nothing has changed, so nothing is committed.
        again.file.flush().unwrap();
        again.pool.close().unwrap();
        assert_eq!(objects(store, "manifest").len(), 3);
    });
}

/// What is not flushed is seen, evicted and read again by its writer, and by nobody else.
#[test]
fn changes_are_seen_by_others_after_a_flush_only() {
    on_each_store(|store| {
        let file = written(store);
        let reader = open_read_only(store);
        file.write_all(0..PAGES, 2);
        file.expect_all(0..PAGES, 2);
        reader.expect_all(0..PAGES, 1);
        file.file.flush().unwrap();
        assert_eq!(reader.file.reopen().unwrap(), 0);
        reader.expect_all(0..PAGES, 2);
    });
}

#[test]
fn a_local_file_is_imported() {
    on_each_store(|store| {
        for pages in [0, 1, 63, 64, 200] {
            let local = tempfile::NamedTempFile::new().unwrap();
            let mut bytes = vec![0; pages * PAGE_BYTES];
            (0..).zip(bytes.chunks_mut(PAGE_BYTES)).for_each(|(number, page)| stamp(page, number, 5));
            std::fs::write(local.path(), &bytes).unwrap();
            let place = format!("imported/{pages}");
            let brought = import(Arc::clone(store), &place, local.path(), &options()).unwrap();
            assert_eq!(brought, pages as u64);
            let source = ObjectSource::open_read_only(Arc::clone(store), &place, options()).unwrap();
            let file = opened(source);
            assert_eq!(file.file.pages(), pages as u64);
            file.expect_all(0..pages as u64, 5);
            let again = import(Arc::clone(store), &place, local.path(), &options());
            assert!(matches!(again, Err(ObjectError::FileExists { .. })));
        }
        let odd = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(odd.path(), [0; 100]).unwrap();
        let refused = import(Arc::clone(store), "odd", odd.path(), &options()).unwrap_err();
        assert!(matches!(refused, ObjectError::Options { .. }), "{refused}");
        let missing = import(Arc::clone(store), "odd", std::path::Path::new("/no/file"), &options());
        assert!(matches!(missing, Err(ObjectError::Local { .. })));
    });
}

#[test]
fn bad_options_and_places_are_refused() {
    let store = memory();
    let refuse = |options: ObjectOptions, place: &str| {
        let refused = ObjectSource::create(store.clone(), place, options).unwrap_err();
        assert!(matches!(refused, ObjectError::Options { .. }), "{refused}");
    };
    refuse(options().page_bytes(1000), PLACE);
    refuse(options().page_bytes(256), PLACE);
    refuse(options().chunk_pages(63), PLACE);
    refuse(options().chunk_pages(257), PLACE);
    refuse(options().requests_in_flight(0), PLACE);
    refuse(options().timeout_ms(0), PLACE);
    refuse(options(), "a//b");
    let missing = ObjectSource::open(store.clone(), PLACE, options()).unwrap_err();
    assert!(matches!(missing, ObjectError::NoFile { .. }), "{missing}");
    create(&store).pool.close().unwrap();
    let exists = ObjectSource::create(store.clone(), PLACE, options()).unwrap_err();
    assert!(matches!(exists, ObjectError::FileExists { .. }), "{exists}");
    let pool = common::pool();
    let source = ObjectSource::open(store, PLACE, options()).unwrap();
    let first = pool.open_source(source.clone(), Default::default()).unwrap();
    let second = pool.open_source(source, Default::default()).unwrap_err();
    assert_eq!(second.kind(), ErrorKind::FileAlreadyOpen);
    drop(first);
}

/// A pool's pages may be several of the file's, and not a part of one.
#[test]
fn a_pool_of_other_pages_is_refused_or_served() {
    let store = memory();
    written(&store).pool.close().unwrap();
    let large = bufpool::PoolOptions::new().frames(64).page_bytes(2 * PAGE_BYTES).open().unwrap();
    let source = ObjectSource::open(store.clone(), PLACE, options()).unwrap();
    let file = large.open_source(source, Default::default()).unwrap();
    let tenant = large.default_tenant();
    assert_eq!(file.pages(), PAGES / 2);
    for number in 0..PAGES / 2 {
        let mut page = tenant.write(file.page(number)).unwrap();
        for (half, page) in (2 * number..).zip(page.chunks_mut(PAGE_BYTES)) {
            assert_eq!(common::version(page, half), 1);
            stamp(page, half, 2);
        }
    }
    large.close().unwrap();
    open(&store).expect_all(0..PAGES, 2);
    let wide = options().page_bytes(2 * PAGE_BYTES as u32);
    let source = ObjectSource::create(store, "wide", wide).unwrap();
    let refused = common::pool().open_source(source, Default::default()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Alignment);
}

/// Four files in one pool, on one thread for stores.
#[test]
fn files_share_a_thread() {
    let store = memory();
    let worker = Worker::start().unwrap();
    let pool = common::pool();
    let files: Vec<_> = (0..4_u64)
        .map(|number| {
            let options = options().worker(worker.clone());
            let source = ObjectSource::create(store.clone(), &format!("file/{number}"), options).unwrap();
            let file = pool.open_source(source, Default::default()).unwrap();
            file.extend(100).unwrap();
            file
        })
        .collect();
    std::thread::scope(|scope| {
        for (version, file) in (1..).zip(&files) {
            let tenant = pool.default_tenant();
            scope.spawn(move || {
                for number in 0..100 {
                    stamp(&mut tenant.write(file.page(number)).unwrap(), number, version);
                }
                file.flush().unwrap();
                for number in 0..100 {
                    let page = tenant.read(file.page(number)).unwrap();
                    assert_eq!(common::version(&page, number), version);
                }
            });
        }
    });
    drop(files);
    pool.close().unwrap();
    assert_eq!(Arc::strong_count(&worker), 1);
}

/// A chunk that is damaged, cut short, another one, or gone, is an error that names it and the page.
#[test]
fn damage_names_object_and_page() {
    on_each_store(|store| {
        written(store).pool.close().unwrap();
        let chunks = objects(&**store, "chunk");
        let originals: Vec<_> = chunks.iter().map(|chunk| bytes_of(&**store, &chunk.location)).collect();
        let framed = PAGE_BYTES + 16;
        // The page that is the third of the first chunk.
        let number = u64::from_le_bytes(originals[0][2 * framed..][..8].try_into().unwrap());
        let at = chunks[0].location.clone();
        let mut torn = originals[0].clone();
        torn[2 * framed + 16 + PAGE_BYTES / 2..3 * framed].fill(0xee);
        let cut = originals[0][..2 * framed + 100].to_vec();
        let cut_before = originals[0][..framed].to_vec();
        let mut moved = originals[0].clone();
        moved.copy_within(5 * framed..6 * framed, 2 * framed);
        for (what, bytes) in [
            ("torn", torn),
            ("cut", cut),
            ("cut before", cut_before),
            ("empty", Vec::new()),
            ("another chunk", originals[1].clone()),
            ("another page", moved),
        ] {
            put(&**store, &at, bytes);
            let file = open_read_only(store);
            let error = file.read(number).unwrap_err();
            assert_eq!((error.kind(), error.page()), (ErrorKind::Corrupt, Some(number)), "{what}: {error}");
            let ObjectError::Corrupt { object, page, .. } = cause(&error) else { panic!("{what}: {error}") };
            assert_eq!((&*object, page), (at.as_ref(), Some(number)), "{what}");
        }
        block(store.delete(&at)).unwrap();
        let error = open_read_only(store).read(number).unwrap_err();
        let ObjectError::ChunkGone { object, page, manifest, newest } = cause(&error) else {
            panic!("{error}")
        };
        assert_eq!((&*object, page, manifest, newest), (at.as_ref(), number, 2, 2));
        put(&**store, &at, originals[0].clone());
        open_read_only(store).expect_all(0..PAGES, 1);
        let manifest = Path::from(format!("{PLACE}/manifest/{:016x}", 2));
        put(&**store, &manifest, bytes_of(&**store, &manifest)[1..].to_vec());
        let error = ObjectSource::open(Arc::clone(store), PLACE, options()).unwrap_err();
        assert!(matches!(&error, ObjectError::Corrupt { object, .. } if *object == manifest.to_string()));
    });
}

/// A folder whose place is known from a first read is read without the store's client, which still says what
/// is wrong.
#[test]
fn a_folder_is_read_directly() {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap());
    written(&store).pool.close().unwrap();
    let chunks = objects(&*store, "chunk");
    let bytes = bytes_of(&*store, &chunks[0].location);
    let framed = PAGE_BYTES + 16;
    let number_at = |at: usize| u64::from_le_bytes(bytes[at * framed..][..8].try_into().unwrap());
    let place = folder.path().join(chunks[0].location.as_ref());
    let file = open_read_only(&store);
    file.read(number_at(0)).unwrap();
    let calls = file.source.report().gets;
    file.read(number_at(1)).unwrap();
    assert_eq!(file.source.report().gets, calls + 1);

    let mut torn = bytes.clone();
    torn[2 * framed + 100] ^= 1;
    for (what, damaged) in [("torn", torn), ("cut", bytes[..2 * framed + 100].to_vec())] {
        std::fs::write(&place, damaged).unwrap();
        let error = file.read(number_at(2)).unwrap_err();
        assert_eq!((error.kind(), error.page()), (ErrorKind::Corrupt, Some(number_at(2))), "{what}: {error}");
        assert!(matches!(cause(&error), ObjectError::Corrupt { page, .. } if page == Some(number_at(2))));
    }
    std::fs::remove_file(&place).unwrap();
    let error = file.read(number_at(2)).unwrap_err();
    assert!(matches!(cause(&error), ObjectError::ChunkGone { .. }), "{error}");
    std::fs::write(&place, &bytes).unwrap();
    file.expect_all(0..PAGES, 1);
}

/// Calls and answers are lost and overtake one another; nobody notices.
#[test]
fn lost_calls_and_answers_are_not_noticed() {
    let inner = memory();
    for seed in 1..6 {
        let faulty = Faulty::new(Arc::clone(&inner), seed);
        let store: Arc<dyn ObjectStore> = faulty.clone();
        faulty.set(Faults { fail: 60, drop_answer: 60, delay: 200 });
        let file = if seed == 1 { create(&store) } else { open(&store) };
        if seed == 1 {
            file.file.extend(PAGES).unwrap();
        } else {
            file.expect_all(0..PAGES, seed - 1);
        }
        for round in 0..5 {
            file.write_all(0..PAGES, 100 * seed + round);
            file.file.flush().unwrap();
        }
        file.write_all(0..PAGES, seed);
        file.pool.close().unwrap();
        assert!(file.source.report().repeated > 0);
    }
}

/// No answer to a commit comes back, and the writer knows its own again.
#[test]
fn a_commit_whose_answer_is_lost_is_known_again() {
    let faulty = Faulty::new(memory(), 9);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let file = written(&store);
    for version in 2..60 {
        file.write(3, version);
        faulty.set(Faults { drop_answer: 300, ..Faults::default() });
        let flushed = file.file.flush();
        faulty.set(Faults::default());
        flushed.unwrap();
        assert_eq!(file.source.report().manifest, version + 1);
    }
    assert!(file.source.report().repeated > 10);
}

/// Of two writers that commit at the same time one wins, and both go on with what it has committed.
#[test]
fn of_two_writers_one_wins_each_time() {
    const ROUNDS: u64 = 1000;
    let faulty = Faulty::new(memory(), 77);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let writers = [written(&store), open(&store)];
    faulty.set(Faults { fail: 20, drop_answer: 100, delay: 300 });
    let mut wins = [0_u64; 2];
    for round in 0..ROUNDS {
        let marks = [2 * round + 10, 2 * round + 11];
        let flushed: Vec<_> = std::thread::scope(|scope| {
            let flushes: Vec<_> = (writers.iter().zip(marks))
                .map(|(writer, mark)| {
                    scope.spawn(move || {
                        writer.write(round % PAGES, mark);
                        writer.write((round * 7 + 1) % PAGES, mark);
                        writer.file.flush()
                    })
                })
                .collect();
            flushes.into_iter().map(|flush| flush.join().unwrap()).collect()
        });
        let winner = flushed.iter().position(Result::is_ok).expect("one wins");
        let loser = 1 - winner;
        let error = flushed[loser].as_ref().expect_err("one loses");
        let ObjectError::Superseded { manifest, writer } = cause(error) else { panic!("{error}") };
        assert!(manifest.ends_with(&format!("{:016x}", round + 3)) && writer.is_some(), "{error}");
        wins[winner] += 1;
        writers[loser].file.reopen().unwrap();
        for writer in &writers {
            for number in [round % PAGES, (round * 7 + 1) % PAGES] {
                assert_eq!(writer.read(number).unwrap(), marks[winner], "round {round}");
            }
        }
    }
    println!("{ROUNDS} rounds, won {} and {}", wins[0], wins[1]);
    faulty.set(Faults::default());
    assert_eq!(objects(&*store, "manifest").len() as u64, ROUNDS + 2);
}

/// The writer stops after each number of calls. What was committed last is there, all of it.
#[test]
fn a_crash_anywhere_leaves_the_last_commit() {
    const VERSIONS: u64 = 4;
    let mut stops = 0;
    for calls in 0.. {
        let inner = memory();
        let faulty = Faulty::new(Arc::clone(&inner), 5);
        let store: Arc<dyn ObjectStore> = faulty.clone();
        let file = written(&store);
        faulty.stop_after(calls);
        let mut committed = 1;
        let mut failed = false;
        for version in 2..=VERSIONS {
            let tenant = file.pool.default_tenant();
            let changed = (0..PAGES).try_for_each(|number| {
                stamp(&mut tenant.write(file.file.page(number))?, number, version);
                Ok::<_, bufpool::Error>(())
            });
            match changed.and_then(|()| file.file.flush()) {
                Ok(()) => committed = version,
                Err(_) => {
                    failed = true;
                    break;
                }
            }
        }
        drop(file);
        let after = open(&inner);
        let found = after.read(0).unwrap();
        // A commit may have been made whose answer was not heard.
        assert!(found == committed || (failed && found == committed + 1), "{found}, {committed}");
        after.expect_all(0..PAGES, found);
        after.write_all(0..PAGES, 9);
        after.file.flush().unwrap();
        after.source.collect_garbage().unwrap();
        after.pool.close().unwrap();
        open(&inner).expect_all(0..PAGES, 9);
        stops += u64::from(failed);
        if !failed {
            break;
        }
    }
    assert!(stops > 3 * VERSIONS, "{stops}");
}

/// A writer sleeps before its commit until others have committed and its chunks are collected.
#[test]
fn a_writer_that_slept_past_a_collection_cannot_commit() {
    let inner = memory();
    let faulty = Faulty::new(Arc::clone(&inner), 5);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let sleeper = written(&store);
    sleeper.write_all(0..PAGES, 2);
    faulty.hold_commits(true);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| sleeper.file.flush());
        faulty.wait_for_commit();
        let other = open(&inner);
        other.write_all(0..PAGES, 3);
        other.file.flush().unwrap();
        let collected = other.source.collect_garbage().unwrap();
        assert!(collected.chunks >= 2 * PAGES / 64, "those of version 1 and of the sleeper: {collected:?}");
        faulty.hold_commits(false);
        let error = flush.join().unwrap().unwrap_err();
        assert!(matches!(cause(&error), ObjectError::Superseded { .. }), "{error}");
        other.expect_all(0..PAGES, 3);
    });
    // Its number is taken for ever, also when its place is long past.
    assert_eq!(sleeper.file.reopen().unwrap(), 0);
    sleeper.expect_all(0..PAGES, 3);
    sleeper.write_all(0..PAGES, 4);
    sleeper.file.flush().unwrap();
    open(&inner).expect_all(0..PAGES, 4);
}

/// Pages of the pool have 32 of the file, and chunks have 65. A write that waits for room has none of its
/// pages in the commit of another flush.
#[test]
fn a_commit_has_whole_pages_of_the_pool() {
    const POOL_PAGES: u64 = 64;
    let faulty = Faulty::new(memory(), 7);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let options = ObjectOptions::new().page_bytes(512).chunk_pages(65).grace_secs(0);
    let open_pool = || {
        let options = PoolOptions::new().frames(128).page_bytes(32 * 512).threads_max(8);
        options.dirty_limit_percent(100).open().unwrap()
    };
    let source = ObjectSource::create(Arc::clone(&store), "f", options.clone()).unwrap();
    let pool = open_pool();
    let file = pool.open_source(source, FileOptions::new()).unwrap();
    file.extend(POOL_PAGES).unwrap();
    let write_all = |pages: Range<u64>, version| {
        for number in pages {
            stamp(&mut pool.default_tenant().create(file.page(number)).unwrap(), number, version);
        }
    };
    write_all(0..POOL_PAGES, 1);
    file.flush().unwrap();
    faulty.hold_chunks(true);
    write_all(0..40, 2);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| file.flush());
        std::thread::sleep(Duration::from_millis(300));
        let other = scope.spawn(|| file.flush_page(50));
        std::thread::sleep(Duration::from_millis(300));
        faulty.hold_commits(true);
        faulty.hold_chunks(false);
        faulty.wait_for_commit();
        faulty.let_one_commit_pass();
        other.join().unwrap().unwrap();
        let reader = ObjectSource::open_read_only(Arc::clone(&store), "f", options.clone()).unwrap();
        let pool = open_pool();
        let there = pool.open_source(reader, FileOptions::new().read_only(true)).unwrap();
        for number in 0..POOL_PAGES {
            let tenant = pool.default_tenant();
            let page = tenant.read(there.page(number)).unwrap();
            assert!([1, 2].contains(&version(&page, number)), "page {number}");
        }
        faulty.hold_commits(false);
        flush.join().unwrap().unwrap();
    });
}

/// What a commit under way makes durable is there when it has ended, if the cache is dropped meanwhile.
#[test]
fn a_commit_is_not_lost_where_the_cache_is_dropped_meanwhile() {
    let faulty = Faulty::new(memory(), 3);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let file = written(&store);
    faulty.hold_commits(true);
    file.write(7, 2);
    std::thread::scope(|scope| {
        let flush = scope.spawn(|| file.file.flush());
        faulty.wait_for_commit();
        let (sender, dropped) = mpsc::channel();
        let source = Arc::clone(&file.source);
        scope.spawn(move || sender.send(source.drop_cache()));
        // A call that does not wait for the commit has its turn before it.
        let early = dropped.recv_timeout(Duration::from_millis(300));
        faulty.hold_commits(false);
        flush.join().unwrap().unwrap();
        early.or_else(|_| dropped.recv()).unwrap().unwrap();
    });
    file.write(8, 3);
    file.file.flush().unwrap();
    let reader = open_read_only(&store);
    assert_eq!([7, 8].map(|number| reader.read(number).unwrap()), [2, 3]);
}

/// Even without any grace.
#[test]
fn a_collection_leaves_the_chunks_of_a_running_writer() {
    on_each_store(|store| {
        let writer = written(store);
        writer.write_all(0..PAGES, 2);
        // Written from the pool and uploaded, but for the last few; committed by nobody.
        let other = open(store);
        let before = objects(store, "chunk").len();
        let collected = other.source.collect_garbage().unwrap();
        assert_eq!((collected.chunks, collected.manifests), (0, 1), "the empty first manifest");
        assert!(objects(store, "chunk").len() >= before);
        writer.file.flush().unwrap();
        writer.source.collect_garbage().unwrap();
        other.file.reopen().unwrap();
        other.expect_all(0..PAGES, 2);
        open(store).expect_all(0..PAGES, 2);
    });
}

/// Objects of other names among those of a file: of files whose places lie within its own, and of nobody.
#[test]
fn a_collection_leaves_what_is_not_the_files_own() {
    on_each_store(|store| {
        let file = written(store);
        let inner = ["chunk", "manifest"].map(|folder| {
            let place = format!("{PLACE}/{folder}");
            let inner = opened(ObjectSource::create(Arc::clone(store), &place, options()).unwrap());
            inner.file.extend(PAGES).unwrap();
            inner.write_all(0..PAGES, 7);
            inner.file.flush().unwrap();
            inner
        });
        let strays = ["manifest/2", "manifest/+3", "manifest/ffff", "manifest/000000000000000002"];
        let strays = strays.map(|stray| Path::from(format!("{PLACE}/{stray}")));
        strays.iter().for_each(|stray| put(&**store, stray, b"a note".to_vec()));
        file.write_all(0..PAGES, 2);
        file.file.flush().unwrap();
        let collected = file.source.collect_garbage().unwrap();
        assert_eq!(collected.manifests, 2, "{collected:?}");
        open_read_only(store).expect_all(0..PAGES, 2);
        for inner in inner {
            inner.file.reopen().unwrap();
            inner.expect_all(0..PAGES, 7);
        }
        strays.iter().for_each(|stray| assert_eq!(bytes_of(&**store, stray), b"a note", "{stray}"));
    });
}

/// Old manifests are readable until they are collected, emptied and not removed, and never written anew.
#[test]
fn a_reader_of_an_old_manifest_is_told() {
    on_each_store(|store| {
        let writer = written(store);
        let reader = open_read_only(store);
        for version in 2..6 {
            writer.write_all(0..PAGES, version);
            writer.file.flush().unwrap();
        }
        let kept = ObjectSource::open(Arc::clone(store), PLACE, options().grace_secs(3600)).unwrap();
        assert_eq!(kept.collect_garbage().unwrap(), Default::default(), "all are within the grace period");
        assert_eq!(reader.read(0).unwrap(), 1);
        let collected = writer.source.collect_garbage().unwrap();
        assert_eq!(collected.manifests, 5);
        assert!(collected.chunks >= 4 * PAGES / 64);
        assert_eq!(writer.source.collect_garbage().unwrap(), Default::default());
        let error = (0..PAGES).find_map(|number| reader.read(number).err()).unwrap();
        let ObjectError::ChunkGone { manifest, newest, .. } = cause(&error) else { panic!("{error}") };
        assert_eq!((manifest, newest), (2, 6));
        reader.file.reopen().unwrap();
        reader.expect_all(0..PAGES, 5);
        let manifests = objects(store, "manifest");
        assert_eq!(
            manifests.iter().map(|meta| meta.size > 0).collect::<Vec<_>>(),
            [false, false, false, false, false, true]
        );
        open(store).expect_all(0..PAGES, 5);
    });
}

#[test]
fn a_store_that_does_not_keep_its_word_is_read_only() {
    let inner = memory();
    written(&inner).pool.close().unwrap();
    let lax = Faulty::new(Arc::clone(&inner), 1);
    lax.set_lax();
    let unconditional = Faulty::new(Arc::clone(&inner), 1);
    unconditional.set_unconditional();
    let lax_and_late = Faulty::new(Arc::clone(&inner), 1);
    lax_and_late.set_lax();
    lax_and_late.lose_puts(8);
    for (store, expected) in [
        (lax, "of 8 conditional puts"),
        (unconditional, "conditional puts are refused"),
        (lax_and_late, "has overwritten an object"),
    ] {
        let store: Arc<dyn ObjectStore> = store;
        let source = ObjectSource::open(store.clone(), PLACE, options()).unwrap();
        let why = source.report().read_only.unwrap();
        assert!(why.contains(expected), "{why}");
        let refused = common::pool().open_source(source.clone(), Default::default()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ReadOnly);
        let file = opened(source);
        assert!(file.pool.io().to_string().contains(&why));
        file.expect_all(0..PAGES, 1);
        let refused = ObjectSource::create(store, "other", options()).unwrap_err();
        assert!(matches!(refused, ObjectError::ReadOnly { .. }), "{refused}");
    }
    assert_eq!(objects(&*inner, "probe").len(), 0);
    assert!(ObjectSource::open(inner, PLACE, options()).unwrap().report().read_only.is_none());
}

/// A store that does not answer when it is tried is not one that does not keep its word.
#[test]
fn a_store_that_is_out_of_reach_is_not_read_only() {
    let faulty = Faulty::new(memory(), 4);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    written(&store).pool.close().unwrap();
    faulty.set_stuck_probes(true);
    let soon = options().timeout_ms(100);
    for error in [
        ObjectSource::open(store.clone(), PLACE, soon.clone()).unwrap_err(),
        ObjectSource::create(store.clone(), "other", soon.clone()).unwrap_err(),
    ] {
        assert!(matches!(error, ObjectError::TimedOut { .. }), "{error}");
    }
    faulty.set_stuck_probes(false);
    assert_eq!(ObjectSource::open(store, PLACE, soon).unwrap().report().read_only, None);
    assert_eq!(objects(&*faulty, "probe").len(), 0);
}

/// A store that answers nothing is an error of those who ask, and closing the pool ends.
#[test]
fn a_stuck_store_is_waited_for_only_so_long() {
    let faulty = Faulty::new(memory(), 3);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    written(&store).pool.close().unwrap();
    let file = opened(ObjectSource::open(store, PLACE, options().timeout_ms(1000)).unwrap());
    assert_eq!(file.read(0).unwrap(), 1);
    file.write(0, 2);
    faulty.set_stuck(true);
    let error = file.read(PAGES - 1).unwrap_err();
    assert!(matches!(cause(&error), ObjectError::TimedOut { .. }), "{error}");
    let error = file.file.flush().unwrap_err();
    assert!(matches!(cause(&error), ObjectError::TimedOut { .. }), "{error}");
    faulty.set_stuck(false);
    assert_eq!(file.file.reopen().unwrap(), 0, "it was written, and not committed");
    file.expect_all(0..PAGES, 1);
    file.write(0, 2);
    faulty.set_stuck(true);
    file.pool.close().unwrap_err();
}

/// A file that cannot begin anew says why, as its other calls do.
#[test]
fn a_file_of_a_stuck_store_is_not_reopened_and_says_why() {
    let faulty = Faulty::new(memory(), 3);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    written(&store).pool.close().unwrap();
    let file = opened(ObjectSource::open(store, PLACE, options().timeout_ms(100)).unwrap());
    faulty.set_stuck(true);
    let error = file.file.reopen().unwrap_err();
    assert!(matches!(cause(&error), ObjectError::TimedOut { .. }), "{error}");
}

/// A write of one page of the pool may need more chunks than memory has for others: pages of the pool have up
/// to 1 MiB, and chunks of the smallest pages a thirty-second of that.
#[test]
fn a_large_page_of_the_pool_finds_room_for_its_chunks() {
    for chunk_pages in [64, 65, 128, 256] {
        let (sender, written) = mpsc::channel();
        std::thread::spawn(move || {
            let store = memory();
            let options = ObjectOptions::new().page_bytes(512).chunk_pages(chunk_pages);
            let open_pool =
                || PoolOptions::new().frames(16).page_bytes(1 << 20).threads_max(2).open().unwrap();
            let pool = open_pool();
            let source = ObjectSource::create(Arc::clone(&store), "f", options.clone()).unwrap();
            let file = pool.open_source(source, FileOptions::new()).unwrap();
            file.extend(4).unwrap();
            for number in 0..4 {
                stamp(&mut pool.default_tenant().create(file.page(number)).unwrap(), number, 1);
            }
            file.flush().unwrap();
            pool.close().unwrap();
            let pool = open_pool();
            let source = ObjectSource::open_read_only(store, "f", options).unwrap();
            let file = pool.open_source(source, FileOptions::new().read_only(true)).unwrap();
            for number in 0..4 {
                let page = pool.default_tenant().read(file.page(number)).unwrap().to_vec();
                assert_eq!(version(&page, number), 1);
            }
            sender.send(()).unwrap();
        });
        written.recv_timeout(Duration::from_secs(60)).expect("a write never gets room");
    }
}

/// A caller that runs asynchronously waits, as for the other calls.
#[test]
fn a_file_is_imported_inside_a_runtime() {
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(local.path(), vec![7; 500 * PAGE_BYTES]).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let store = memory();
    let pages = runtime.block_on(async { import(Arc::clone(&store), PLACE, local.path(), &options()) });
    assert_eq!(pages.unwrap(), 500);
    let file = runtime.block_on(async { open_read_only(&store) });
    assert_eq!(file.file.pages(), 500);
}

/// Pages of the pool that are many of the file's let a file grow beyond what a manifest can have.
#[test]
fn a_file_does_not_grow_beyond_what_can_be_opened() {
    let store = memory();
    let pool = PoolOptions::new().frames(16).page_bytes(1 << 20).threads_max(2).open().unwrap();
    let options = ObjectOptions::new().page_bytes(512);
    let source = ObjectSource::create(Arc::clone(&store), "f", options.clone()).unwrap();
    let file = pool.open_source(source, FileOptions::new()).unwrap();
    file.extend(1 << 29).unwrap();
    let error = file.extend(1).unwrap_err();
    assert!(error.to_string().contains("expected at most 1099511627776"), "{error}");
    assert_eq!(file.pages(), 1 << 29);
    pool.close().unwrap();
    let source = ObjectSource::open(store, "f", options).unwrap();
    assert_eq!(source.len_bytes().unwrap(), 1 << 49);
}

/// Where conditional puts overwrite, an import would take the place of a file that is there.
#[test]
fn a_file_is_not_imported_to_a_store_that_is_read_only() {
    let inner = memory();
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(local.path(), vec![7; 5 * PAGE_BYTES]).unwrap();
    import(Arc::clone(&inner), PLACE, local.path(), &options()).unwrap();
    let lax = Faulty::new(Arc::clone(&inner), 1);
    lax.set_lax();
    std::fs::write(local.path(), vec![8; 6 * PAGE_BYTES]).unwrap();
    let refused = import(lax, PLACE, local.path(), &options()).unwrap_err();
    assert!(matches!(refused, ObjectError::ReadOnly { .. }), "{refused}");
    assert_eq!(open_read_only(&inner).file.pages(), 5);
    assert_eq!(objects(&*inner, "chunk").len(), 1);
}

/// The length that the system tells of a device is 0, however much can be read from it.
#[test]
fn a_device_is_not_imported_as_an_empty_file() {
    for path in ["/dev/zero", "/dev"] {
        let refused = import(memory(), PLACE, std::path::Path::new(path), &options()).unwrap_err();
        assert!(refused.to_string().contains("expected a regular file"), "{refused}");
    }
}
