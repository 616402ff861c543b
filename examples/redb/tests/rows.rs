//! Goal: redb over a pool has the rows that were committed, and redb's own backend reads the same file.
//! Method: random transactions against a map, with the database closed and opened by either backend in
//! between.

mod common;

use bufpool::IoOperation;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool_redb::PoolBackend;
use common::{Random, Rows, assert_same, change, open, rows_of, small_pool};
use redb::{Database, StorageBackend};

#[test]
fn committed_rows_are_there_for_either_backend() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let path = folder.path().join("x.redb");
    let (mut random, mut rows) = (Random(3), Rows::new());
    let pool = small_pool().open().unwrap();
    for round in 0..12 {
        let mut database = if round % 3 == 2 {
            Database::create(&path).unwrap()
        } else {
            open(PoolBackend::open(&pool, "x", &path).unwrap()).unwrap()
        };
        assert_same(&rows_of(&database), &rows);
        for _ in 0..30 {
            change(&database, &mut rows, &mut random).unwrap();
        }
        assert_same(&rows_of(&database), &rows);
        assert!(database.check_integrity().unwrap());
        if round % 4 == 1 {
            database.compact().unwrap();
        }
    }
    assert!(pool.stats().evictions > 1_000, "pages came and went");
    pool.close().unwrap();
}

#[test]
fn two_databases_share_a_pool() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let pool = small_pool().open().unwrap();
    let open = |name: &str| open(PoolBackend::open(&pool, name, folder.path().join(name)).unwrap()).unwrap();
    let databases = [open("a"), open("b")];
    std::thread::scope(|scope| {
        for (at, database) in databases.iter().enumerate() {
            scope.spawn(move || {
                let (mut random, mut rows) = (Random(5 + at as u64), Rows::new());
                for _ in 0..100 {
                    change(database, &mut rows, &mut random).unwrap();
                }
                assert_same(&rows_of(database), &rows);
            });
        }
    });
}

/// redb calls this once, whatever has failed.
#[test]
fn closing_lets_go_of_file_and_tenant_even_if_it_fails() {
    for operation in [IoOperation::Write, IoOperation::Sync] {
        let device = SimDevice::new(1);
        let pool = small_pool().deterministic(1).open_on(&device).unwrap();
        let backend = PoolBackend::open(&pool, "x", "x.redb").unwrap();
        backend.set_len(8192).unwrap();
        backend.sync_data().unwrap();
        backend.write(0, &[1; 8192]).unwrap();
        device.fail(SimFault { operation, nth: device.calls(operation) + 1, failure: SimFailure::Io });
        backend.close().unwrap_err();
        let stats = pool.stats();
        assert!(!stats.tenants.iter().any(|tenant| tenant.name == "x" && !tenant.closed), "{operation:?}");
        PoolBackend::open(&pool, "x", "x.redb").unwrap();
    }
}
