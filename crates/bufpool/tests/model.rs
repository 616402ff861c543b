//! Goal: to its users a pool is a set of files of pages. Method: random operations on a pool and on a model
//! of two vectors, with the directory's and the pool's invariants checked after each step; on the simulated
//! device, with and without the background writer, and with failing calls and power cuts. After a dirty page
//! was dropped, a read may find any version that it had since it was last known to be in the file. Then
//! inputs on which the fuzz target `pool_ops` once failed.

mod common;
mod pool_ops;
mod tiers_below;

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use bufpool::sim::{SimDevice, SimFailure, SimFault};
use bufpool::{FileOptions, IoOperation, Policy};
use common::{PAGE_BYTES, deterministic, directory, on_each_backend, small};
use pool_ops::{Case, FAILING, FAILURES, Mode, NUMBERS, Operation, PROGRAMS, TENANTS, World};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tiers_below::Below;

fn operations(with_faults: bool) -> impl Strategy<Value = Vec<Operation>> {
    let (tenant, number) = (0..TENANTS, 0..NUMBERS);
    let pages = (tenant.clone(), number.clone());
    let pages_of_hints = pages.clone();
    let fault = (prop::sample::select(&FAILING[..]), 1..20_u64, prop::sample::select(&FAILURES[..]));
    let fault = fault.prop_map(|(operation, after, failure)| Operation::Fault { operation, after, failure });
    let operation = prop_oneof![
        20 => pages.clone().prop_map(|(tenant, number)| Operation::Read { tenant, number }),
        15 => pages.clone().prop_map(|(tenant, number)| Operation::Write { tenant, number }),
        5 => pages.clone().prop_map(|(tenant, number)| Operation::Create { tenant, number }),
        4 => (pages.clone(), 0..20_u64)
            .prop_map(|((tenant, first), count)| Operation::CreateMany { tenant, first, count }),
        4 => pages.clone().prop_map(|(tenant, number)| Operation::Pin { tenant, number }),
        4 => (pages.clone(), 0..20_u64)
            .prop_map(|((tenant, first), count)| Operation::ReadMany { tenant, first, count }),
        3 => pages.clone().prop_map(|(tenant, number)| Operation::Poll { tenant, number }),
        2 => pages.clone().prop_map(|(tenant, number)| Operation::Keep { tenant, number }),
        3 => Just(Operation::LetGo),
        3 => (pages, 0..20_u64).prop_map(|((tenant, first), count)| Operation::Prefetch { tenant, first, count }),
        3 => (pages_of_hints, 0..20_u64).prop_map(|((tenant, first), count)| Operation::Hint { tenant, first, count }),
        6 => (0..20_u64).prop_map(|count| Operation::ReadHinted { count }),
        2 => (0..20_u64).prop_map(|count| Operation::SkipHints { count }),
        2 => (number.clone(), 0..20_u64).prop_map(|(first, count)| Operation::ReplanHints { first, count }),
        1 => Just(Operation::DropHints),
        3 => number.clone().prop_map(|number| Operation::FlushPage { number }),
        1 => Just(Operation::Flush),
        1 => Just(Operation::Checkpoint),
        2 => (0..20_u64).prop_map(|more| Operation::Extend { more }),
        1 => number.clone().prop_map(|to| Operation::Truncate { to }),
        2 => (number.clone(), 0..10_u64).prop_map(|(first, count)| Operation::Discard { first, count }),
        1 => (tenant.clone(), -1..2_i32, prop::sample::select(Policy::ALL.to_vec()))
            .prop_map(|(tenant, priority, policy)| Operation::Policy { tenant, priority, policy }),
        1 => (tenant.clone(), -1..2_i32).prop_map(|(tenant, priority)| Operation::Priority { tenant, priority }),
        2 => (tenant.clone(), number, 0..10_u64, -1..2_i32).prop_map(|(tenant, first, count, priority)| {
            Operation::TemporaryPriority { tenant, first, count, priority }
        }),
        1 => (tenant.clone(), 0..10_u32).prop_map(|(tenant, frames)| Operation::Floor { tenant, frames }),
        1 => (tenant.clone(), 1..40_u32).prop_map(|(tenant, frames)| Operation::Cap { tenant, frames }),
        3 => (tenant.clone(), 0..PROGRAMS.len()).prop_map(|(tenant, program)| Operation::Program { tenant, program }),
        2 => (tenant.clone(), -1..3_i8).prop_map(|(tenant, value)| Operation::Send { tenant, value }),
        1 => tenant.clone().prop_map(|tenant| Operation::ClearProgram { tenant }),
        1 => (tenant.clone(), 0..8_u32).prop_map(|(tenant, frames)| Operation::OpenPrivileged { tenant, frames }),
        1 => tenant.prop_map(|tenant| Operation::CloseTenant { tenant }),
        1 => Just(Operation::CloseFile),
        1 => Just(Operation::Reopen),
    ];
    let disaster = prop_oneof![
        2 => fault,
        1 => any::<u8>().prop_map(|seed| Operation::PowerCut { seed }),
    ];
    let disasters = u32::from(with_faults);
    prop::collection::vec(prop_oneof![20 => operation, disasters => disaster], 1..250)
}

/// A tier, or none in half of the cases.
fn below() -> impl Strategy<Value = Below> {
    prop_oneof![Just(Below::Nothing), prop::sample::select(&Below::ALL[..])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn in_deterministic_mode(operations in operations(false), seed: u64, optimistic: bool, below in below()) {
        Case { mode: Mode::Deterministic, optimistic, below, seed, operations }.run();
    }

    #[test]
    fn in_deterministic_mode_with_faults(operations in operations(true), seed: u64, optimistic: bool, below in below()) {
        Case { mode: Mode::Deterministic, optimistic, below, seed, operations }.run();
    }

    #[test]
    fn with_the_background_writer(operations in operations(false), seed: u64, optimistic: bool, below in below(), dirty_limit_percent in 1..100_u8) {
        let mode = Mode::BackgroundWriter { dirty_limit_percent };
        Case { mode, optimistic, below, seed, operations }.run();
    }

    #[test]
    fn with_the_background_writer_and_faults(operations in operations(true), seed: u64, optimistic: bool, below in below()) {
        let mode = Mode::BackgroundWriter { dirty_limit_percent: 10 };
        Case { mode, optimistic, below, seed, operations }.run();
    }

    /// Cases made from bytes, as the fuzz target makes them.
    #[test]
    fn cases_from_bytes(case in prop::collection::vec(any::<u8>(), 0..1000).prop_map(|bytes| Case::from_bytes(&bytes))) {
        case.unwrap().run();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn on_real_files(operations in operations(false), optimistic: bool) {
        on_each_backend(|io| {
            let directory = directory();
            let world = World::new(move || small().io(io), optimistic, None, directory.path());
            pool_ops::run(world, &operations, false);
        });
    }
}

/// Dirty victims leave faster than they are written, without and with faults.
#[test]
fn while_frames_are_borrowed() {
    for with_faults in [false, true] {
        let config = ProptestConfig { source_file: Some(file!()), ..ProptestConfig::with_cases(60) };
        let most_borrowed = AtomicU32::new(0);
        let cases = (operations(with_faults), any::<u64>(), any::<bool>(), below());
        let run = |(mut operations, seed, optimistic, below): (Vec<Operation>, _, _, _)| {
            operations.insert(0, Operation::Extend { more: NUMBERS });
            let case = Case { mode: Mode::Borrowing, optimistic, below, seed, operations };
            most_borrowed.fetch_max(case.run(), Ordering::Relaxed);
            Ok(())
        };
        TestRunner::new(config).run(&cases, run).unwrap();
        assert!(most_borrowed.into_inner() > 0);
    }
}

/// Inputs on which the fuzz target once failed.
#[test]
fn regressions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/pool_ops");
    let Ok(inputs) = fs::read_dir(&directory) else {
        println!("skipped: there is no {}", directory.display());
        return;
    };
    for input in inputs {
        let path = input.unwrap().path();
        println!("{}", path.display());
        Case::from_bytes(&fs::read(path).unwrap()).unwrap().run();
    }
}

/// Pages that were written before a failed sync are made durable by the next flush that succeeds.
#[test]
fn a_flush_after_a_failed_sync_syncs_again() {
    let device = SimDevice::new(1);
    let pool = deterministic().open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new().create(true)).unwrap();
    file.extend(1).unwrap();
    let nth = device.calls(IoOperation::Sync) + 1;
    device.fail(SimFault { operation: IoOperation::Sync, nth, failure: SimFailure::Io });
    file.flush().unwrap_err();
    file.reopen().unwrap();
    assert_eq!(file.pages(), 1);
    file.flush().unwrap();
    for seed in 0..20 {
        assert_eq!(device.crash_image(seed).contents("data").unwrap().len(), PAGE_BYTES, "image {seed}");
    }
}
