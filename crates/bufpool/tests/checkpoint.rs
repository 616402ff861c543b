//! Goal: what was acknowledged by flush, checkpoint or close survives a power cut, and none of them deadlocks.
//! Method: on the simulated device the power is cut after each call of a scripted workload in turn, and what survived is compared with what
//! was acknowledged; schedules with threads that have broken other pools.

mod common;

use std::path::Path;

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{FileOptions, IoOperation, PoolOptions};
use common::{PAGE_BYTES, deterministic, directory, new_file, on_each_backend, small, stamp, version};

const PAGES: u64 = 48;

/// What a run has been told is durable: for each page the versions that may be found from now on.
struct Acknowledged {
    /// The least version that must survive.
    least: Vec<u64>,
    /// The last one given out.
    last: Vec<u64>,
    exists: bool,
}

/// A scripted workload. Stops at the first error; what was acknowledged before counts.
fn script(options: PoolOptions, device: &SimDevice, told: &mut Acknowledged) -> bufpool::Result<()> {
    let pool = options.open_on(device)?;
    let file = pool.open_file("data", FileOptions::new().create(true))?;
    file.extend(PAGES)?;
    file.flush()?;
    told.exists = true;
    let tenant = pool.default_tenant();
    for round in 1..4_u64 {
        for number in (0..PAGES).filter(|number| number % round == 0) {
            told.last[number as usize] = round;
            stamp(&mut tenant.write(file.page(number))?, number, round);
            if number % 11 == 3 {
                file.flush_page(number)?;
                told.least[number as usize] = round;
            }
        }
        match round {
            1 => pool.checkpoint()?,
            2 => file.flush()?,
            _ => file.clone().close()?,
        }
        told.least.clone_from(&told.last);
    }
    pool.close()
}

fn found(bytes: &[u8], number: u64) -> Option<u64> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Some(0);
    }
    let first = u64::from_le_bytes(bytes[8..16].try_into().unwrap());
    let whole = bytes.chunks_exact(16).all(|part| part == common::pattern(number, first));
    whole.then_some(first)
}

fn fresh() -> Acknowledged {
    let zeros = vec![0; PAGES as usize];
    Acknowledged { least: zeros.clone(), last: zeros, exists: false }
}

/// Checks what survived on `device` against what was acknowledged. Returns pages checked, and pages found torn.
fn check(device: &SimDevice, told: &Acknowledged) -> (u64, u64) {
    if !told.exists {
        return (0, 0);
    }
    let bytes = device.contents("data").expect("the file was acknowledged");
    assert_eq!(bytes.len() as u64, PAGES * PAGE_BYTES as u64);
    let mut torn = 0;
    for (number, page) in (0..PAGES).zip(bytes.chunks(PAGE_BYTES)) {
        let (least, last) = (told.least[number as usize], told.last[number as usize]);
        match found(page, number) {
            Some(version) => {
                assert!((least..=last).contains(&version), "page {number}: {version}, not {least}..={last}");
            }
            // A page may be torn only while a newer version than the acknowledged one is on its way.
            None if least < last => torn += 1,
            None => panic!("page {number} was acknowledged as version {last} and is torn"),
        }
    }
    (PAGES, torn)
}

#[test]
fn nothing_acknowledged_is_lost_by_a_power_cut_at_any_call() {
    for (name, options) in [("deterministic", deterministic as fn() -> _), ("background writer", small)] {
        let device = SimDevice::new(1);
        script(options(), &device, &mut fresh()).unwrap();
        let calls = device.calls_total();
        let (mut cuts, mut pages, mut torn) = (0, 0, 0);
        for call in 1..=calls {
            let device = SimDevice::new(call);
            device.cut_power_at(call);
            let mut told = fresh();
            let outcome = script(options(), &device, &mut told);
            if device.power_is_cut() {
                cuts += 1;
                assert!(outcome.is_err() || call == calls, "call {call} of {calls}");
            }
            for image in 0..3 {
                let (checked, found_torn) = check(&device.crash_image(image), &told);
                pages += checked;
                torn += found_torn;
            }
        }
        println!("{name}: {cuts} power cuts, {pages} pages checked, {torn} torn in flight, 0 lost");
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_a_failure_of_any_call() {
    for operation in [IoOperation::Read, IoOperation::Write, IoOperation::Sync, IoOperation::Allocate] {
        let device = SimDevice::new(1);
        script(deterministic(), &device, &mut fresh()).unwrap();
        let calls = device.calls(operation);
        let (mut failed, mut pages) = (0, 0);
        for nth in 1..=calls {
            for failure in [SimFailure::Io, SimFailure::NoSpace, SimFailure::Torn, SimFailure::Short(1000)] {
                let device = SimDevice::new(nth);
                device.fail(SimFault { operation, nth, failure });
                let mut told = fresh();
                let outcome = script(deterministic(), &device, &mut told);
                failed += u64::from(outcome.is_err());
                if matches!(failure, SimFailure::Short(_)) {
                    outcome.unwrap();
                }
                pages += check(&device.crash_image(nth), &told).0;
            }
        }
        println!("{operation}: {calls} calls, {failed} runs failed, {pages} pages checked, 0 lost");
    }
}

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
        .map(|name| survived.contents(name).is_some_and(|bytes| found(&bytes[PAGE_BYTES..], 1) == Some(4)))
        .into();
    assert_eq!(written.iter().filter(|&&written| written).count(), 2, "{written:?}");
}

/// This schedule has broken an existing pool library: everything is flushed while a thread that holds an exclusive guard
/// fetches another page, which needs a frame, which needs a write.
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

/// So has this one: a change that arrives while the page is being written must not be marked clean.
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
