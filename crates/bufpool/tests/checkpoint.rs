//! Goal: flush and checkpoint write all dirty pages and do not deadlock. Method: schedules of threads that
//! have broken other buffer pools, and a failing file among others. `sweeps.rs` has the tests of power cuts
//! and failing calls.

mod common;

use std::path::Path;
use std::sync::{Arc, Mutex};

use bufpool::engine::Log;
use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{File, IoOperation};
use common::{PAGE_BYTES, deterministic, directory, new_file, on_each_backend, small, stamp, version};

#[test]
fn a_checkpoint_goes_on_after_a_failing_file() {
    let device = SimDevice::new(1);
    let pool = deterministic().open_on(&device).unwrap();
    let files = ["a", "b", "c"].map(|name| new_file(&pool, Path::new(""), name, 2));
    let tenant = pool.default_tenant();
    for file in &files {
        stamp(&mut tenant.write(file.page(1)).unwrap(), 1, 4);
    }
    device.fail(SimFault { operation: IoOperation::Write, nth: 2, failure: SimFailure::Io });
    assert!(pool.checkpoint().is_err());
    let survived = device.crash_image(0);
    let written: Vec<bool> = ["a", "b", "c"]
        .map(|name| {
            survived.contents(name).is_some_and(|bytes| bytes[PAGE_BYTES..][..16] == common::pattern(1, 4))
        })
        .into();
    assert_eq!(written.iter().filter(|&&written| written).count(), 2, "{written:?}");
}

/// A log that removes a file while it is advanced.
struct Removing(Arc<Mutex<Option<File>>>);

impl Log for Removing {
    fn end(&self) -> u64 {
        2
    }

    fn durable(&self) -> u64 {
        u64::from(self.0.lock().unwrap().is_none())
    }

    fn advance(&self, _: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let file = self.0.lock().unwrap().take();
        Ok(file.map_or(Ok(()), File::remove)?)
    }
}

/// A checkpoint does not fail, and writes the other files, if a file is removed while it runs.
#[test]
fn a_checkpoint_passes_over_a_file_that_goes_meanwhile() {
    let device = SimDevice::new(1);
    let removed = Arc::default();
    let pool = deterministic().log(Box::new(Removing(Arc::clone(&removed)))).open_on(&device).unwrap();
    let [gone, file] = ["gone", "data"].map(|name| new_file(&pool, Path::new(""), name, 1));
    *removed.lock().unwrap() = Some(gone);
    let tenant = pool.default_tenant();
    let mut page = tenant.write(file.page(0)).unwrap();
    stamp(&mut page, 0, 4);
    page.set_lsn(1);
    drop(page);
    pool.checkpoint().unwrap();
    assert!(removed.lock().unwrap().is_none());
    let survived = device.crash_image(0);
    assert_eq!(version(&survived.contents("data").unwrap(), 0), 4);
    assert!(survived.contents("gone").is_none());
}

/// This schedule has broken an existing pool library: everything is flushed while a thread that holds an
/// exclusive guard fetches another page, which needs a frame, which needs a write.
#[test]
fn flushing_everything_while_a_latch_holder_misses() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 200);
        let tenant = pool.default_tenant();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0..200_u64 {
                    let mut held = tenant.write(file.page(number)).unwrap();
                    stamp(&mut held, number, 1);
                    let other = (number + 97) % 200;
                    if other > number {
                        tenant.write(file.page(other)).unwrap()[0] = 0;
                    }
                }
            });
            scope.spawn(|| (0..50).for_each(|_| pool.checkpoint().unwrap()));
            scope.spawn(|| (0..50).for_each(|_| file.flush().unwrap()));
        });
        pool.check_invariants();
        pool.close().unwrap();
    });
}

/// This schedule has broken another one: a page that changes while it is being written must not be marked
/// clean.
#[test]
fn a_writer_that_arrives_during_a_flush_is_not_forgotten() {
    on_each_backend(|io| {
        let directory = directory();
        let pool = small().io(io).open().unwrap();
        let file = new_file(&pool, directory.path(), "data", 4);
        let tenant = pool.default_tenant();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for version in 1..=2000 {
                    for number in 0..4 {
                        stamp(&mut tenant.write(file.page(number)).unwrap(), number, version);
                    }
                }
            });
            scope.spawn(|| (0..200).for_each(|_| file.flush().unwrap()));
        });
        file.flush().unwrap();
        assert_eq!(pool.stats().dirty_frames, 0);
        let bytes = std::fs::read(directory.path().join("data")).unwrap();
        for (number, page) in (0..).zip(bytes.chunks(PAGE_BYTES)) {
            assert_eq!(version(page, number), 2000);
        }
    });
}
