//! Goal: redb over a pool has the rows that were committed, and redb's own backend reads the same file.
//! Method: random transactions against a map, with the database closed and opened by either backend in
//! between.

mod common;

use bufpool_redb::PoolBackend;
use common::{Random, Rows, assert_same, change, open, rows_of, small_pool};
use redb::Database;

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
