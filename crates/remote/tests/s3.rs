//! Goal: what is shown with stores in memory holds with a real S3 server.
//! Method: versitygw, started here where it is installed; `--features s3`.
#![cfg(feature = "s3")]

mod common;
#[path = "common/s3.rs"]
mod s3;

use std::sync::Arc;

use bufpool_remote::object::object_store::{ObjectStore, ObjectStoreExt};
use bufpool_remote::object::{ObjectError, ObjectSource};
use common::{Faults, Faulty, PLACE, block, cause, create, objects, open, open_read_only, options};

const PAGES: u64 = 300;

#[test]
fn a_file_lives_on_a_real_server() {
    let Some(server) = s3::start() else { return };
    let store = server.store();
    let file = create(&store);
    file.file.extend(PAGES).unwrap();
    file.write_all(0..PAGES, 1);
    file.file.flush().unwrap();
    let reader = open_read_only(&store);
    file.write_all(0..PAGES, 2);
    file.file.flush().unwrap();
    reader.expect_all(0..PAGES, 1);
    let sleeper = open(&store);
    sleeper.write(5, 3);
    file.write(6, 4);
    file.file.flush().unwrap();
    assert!(file.source.collect_garbage().unwrap().chunks > 0);
    let error = sleeper.file.flush().unwrap_err();
    assert!(matches!(cause(&error), ObjectError::Superseded { .. }), "{error}");
    let error = (0..PAGES).find_map(|number| reader.read(number).err()).unwrap();
    assert!(matches!(cause(&error), ObjectError::ChunkGone { .. }), "{error}");
    let file = open(&store);
    file.expect_all(0..5, 2);
    assert_eq!(file.read(6).unwrap(), 4);
    let chunk = objects(&store, "chunk").remove(0).location;
    block(store.put(&chunk, vec![0; 10].into())).unwrap();
    let error = (0..PAGES).find_map(|number| open_read_only(&store).read(number).err()).unwrap();
    assert!(matches!(cause(&error), ObjectError::Corrupt { object, .. } if object == chunk.to_string()));
}

#[test]
fn of_two_writers_on_a_real_server_one_wins_each_time() {
    const ROUNDS: u64 = 100;
    let Some(server) = s3::start() else { return };
    let faulty = Faulty::new(server.store(), 7);
    let store: Arc<dyn ObjectStore> = faulty.clone();
    let first = create(&store);
    first.file.extend(PAGES).unwrap();
    first.file.flush().unwrap();
    let writers = [first, open(&store)];
    faulty.set(Faults { fail: 20, drop_answer: 100, delay: 0 });
    for round in 0..ROUNDS {
        let marks = [2 * round + 10, 2 * round + 11];
        let flushed: Vec<_> = std::thread::scope(|scope| {
            let flush = |(writer, mark): (&'_ common::Opened, u64)| {
                writer.write(round % PAGES, mark);
                writer.file.flush()
            };
            let flushes: Vec<_> =
                (writers.iter().zip(marks)).map(|writer| scope.spawn(move || flush(writer))).collect();
            flushes.into_iter().map(|flush| flush.join().unwrap()).collect()
        });
        let winner = flushed.iter().position(Result::is_ok).expect("one wins");
        let error = flushed[1 - winner].as_ref().expect_err("one loses");
        assert!(matches!(cause(error), ObjectError::Superseded { .. }), "{error}");
        writers[1 - winner].file.reopen().unwrap();
        for writer in &writers {
            assert_eq!(writer.read(round % PAGES).unwrap(), marks[winner], "round {round}");
        }
    }
    assert_eq!(objects(&store, "manifest").len() as u64, ROUNDS + 2);
}

#[test]
fn the_server_keeps_its_word() {
    let Some(server) = s3::start() else { return };
    let store = server.store();
    create(&store).pool.close().unwrap();
    for _ in 0..20 {
        let source = ObjectSource::open(store.clone(), PLACE, options()).unwrap();
        assert_eq!(source.report().read_only, None);
    }
    assert_eq!(objects(&store, "probe").len(), 0);
}
