//! The directory against the naive LRU-SP, access by access: several tenants, directives in mid-stream, pins,
//! floors, caps, shared pages, pages that end. After every step residency, ledger order, every count and the
//! directory's own invariants are compared. Cases are random, or inputs on which the fuzz target
//! `directory_ops` once failed.

mod directory_ops;
mod naive;

use std::fs;
use std::path::Path;

use bufpool_policies::{Allocation, TenantId};
use directory_ops::{Case, Op, PAGES, TENANTS};
use proptest::prelude::*;

/// Which of the operations beyond accesses and directives a case may use.
#[derive(Clone, Copy, Debug)]
struct Kind {
    /// The weight of each kind of directive.
    directives: u32,
    pins: bool,
    shares: bool,
    ends: bool,
    /// Whether pages come in ahead of their first access.
    ahead: bool,
}

impl Kind {
    const DIRECTIVES: Self = Self { directives: 2, pins: false, shares: false, ends: false, ahead: false };
    const ALL: Self = Self { directives: 2, pins: true, shares: true, ends: true, ahead: true };
    const NO_ADVICE: Self = Self { directives: 0, pins: true, shares: false, ends: true, ahead: true };
}

fn op(kind: Kind) -> impl Strategy<Value = Op> {
    let tenant = 0..TENANTS;
    let place = (tenant.clone(), 0..PAGES);
    let range = (0..TENANTS, 0..PAGES, 1..PAGES, -2..3i32);
    let ending = prop_oneof![
        4 => place.clone().prop_map(|(tenant, page)| Op::End { tenant, page }),
        1 => (1..TENANTS).prop_map(|tenant| Op::Close { tenant }),
        3 => (0..TENANTS).prop_map(|tenant| Op::Borrow { tenant }),
        2 => Just(Op::Repay),
    ];
    prop_oneof![
        40 => (place.clone(), 0..4).prop_map(move |((tenant, page), chance)| match kind.ahead && chance == 0 {
            true => Op::BringAhead { tenant, page },
            false => Op::Access { tenant, page },
        }),
        // A small hot set makes placeholders come and go.
        20 => (tenant.clone(), 0..6u64).prop_map(|(tenant, page)| Op::Access { tenant, page }),
        kind.directives => (tenant.clone(), -2..3i32, any::<bool>())
            .prop_map(|(tenant, priority, mru)| Op::Policy { tenant, priority, mru }),
        kind.directives => range.clone()
            .prop_map(|(tenant, first, more, priority)| Op::Priority { tenant, first, more, priority }),
        kind.directives => range.prop_map(|(tenant, first, more, priority)| Op::Temporary { tenant, first, more, priority }),
        if kind.pins { 4 } else { 0 } => place.clone().prop_map(|(tenant, page)| Op::Pin { tenant, page }),
        if kind.pins { 4 } else { 0 } => Just(Op::Unpin),
        if kind.shares { 1 } else { 0 } => (tenant.clone(), 0..6usize).prop_map(|(tenant, frames)| Op::Floor { tenant, frames }),
        if kind.shares { 2 } else { 0 } => (tenant, 1..30usize).prop_map(|(tenant, frames)| Op::Cap { tenant, frames }),
        if kind.ends { 6 } else { 0 } => ending,
    ]
}

fn operations(kind: Kind) -> impl Strategy<Value = Vec<Op>> {
    prop::collection::vec(op(kind), 1..400)
}

fn allocation() -> impl Strategy<Value = Allocation> {
    prop_oneof![
        Just(Allocation::LruSp),
        Just(Allocation::LruS),
        Just(Allocation::AllocLru),
        Just(Allocation::GlobalLru)
    ]
}

/// The random cases reach overrules that turn out wrong, and overrules that turn out right.
#[test]
fn cases_reach_every_count() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(op(Kind::ALL), 400);
    let mut sum = bufpool_policies::TenantStats::default();
    for _ in 0..20 {
        let mut operations = strategy.new_tree(&mut runner).unwrap().current();
        operations.retain(|op| !matches!(op, Op::Close { .. }));
        let case = Case {
            frames: 20,
            allocation: Allocation::LruSp,
            shared_pages: true,
            common: true,
            members: 0,
            operations,
        };
        let (driver, _) = case.run();
        sum.add(&driver.directory.stats());
    }
    assert!(sum.overrules > 100 && sum.mistakes > 20 && sum.vindications > 20, "{sum:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, ..ProptestConfig::default() })]

    #[test]
    fn the_directory_equals_its_model_with_private_pages(
        frames in 1..30usize,
        allocation in allocation(),
        operations in operations(Kind::DIRECTIVES),
    ) {
        Case { frames, allocation, shared_pages: false, common: false, members: 0, operations }.run();
    }

    #[test]
    fn the_directory_equals_its_model_with_shared_pages(
        frames in 1..30usize,
        allocation in allocation(),
        shared_pages in any::<bool>(),
        operations in operations(Kind::DIRECTIVES),
    ) {
        Case { frames, allocation, shared_pages, common: true, members: 0, operations }.run();
    }

    #[test]
    fn the_directory_equals_its_model_with_all_operations(
        frames in 18..40usize,
        allocation in allocation(),
        shared_pages in any::<bool>(),
        common in any::<bool>(),
        members in 0..8u8,
        operations in operations(Kind::ALL),
    ) {
        Case { frames, allocation, shared_pages, common, members, operations }.run();
    }

    /// Two or three tenants in the commons, which leave it late, with a directive, a floor or a cap.
    #[test]
    fn the_commons(
        frames in 10..30usize,
        shared_pages in any::<bool>(),
        common in any::<bool>(),
        members in prop_oneof![Just(3u8), Just(6), Just(7)],
        mut operations in operations(Kind::NO_ADVICE),
        rest in prop::collection::vec(op(Kind::ALL), 0..60),
    ) {
        operations.extend(rest);
        Case { frames, allocation: Allocation::LruSp, shared_pages, common, members, operations }.run();
    }

    /// Cases that are made from bytes, as those of the fuzz target.
    #[test]
    fn cases_from_bytes(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        if let Ok(case) = Case::from_bytes(&bytes) {
            case.run();
        }
    }
}

/// Inputs on which the fuzz target once failed.
#[test]
fn regressions() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/regressions/directory_ops");
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

/// A manager that keeps being wrong is revoked, restored on probation and revoked again, each time for
/// longer. The random cases are too short for that.
#[test]
fn revocation_and_restoration() {
    let mut operations = vec![Op::Policy { tenant: 1, priority: 0, mru: true }];
    // Groups of pages, each read several times before the next, for which MRU is wrong.
    for round in 0..400_u64 {
        for step in 0..30_u64 {
            operations.push(Op::Access { tenant: 1, page: (round % 3) * 6 + step % 6 });
            if step % 3 == 0 {
                operations.push(Op::Access { tenant: 0, page: (step + 7 * round) % PAGES });
            }
        }
        // A loop, for which MRU is right.
        if round % 40 > 20 {
            operations.extend((0..PAGES).map(|page| Op::Access { tenant: 1, page }));
        }
    }
    for shared_pages in [false, true] {
        let case = Case {
            frames: 11,
            allocation: Allocation::LruSp,
            shared_pages,
            common: false,
            members: 0,
            operations: operations.clone(),
        };
        let (driver, _) = case.run();
        let counts = driver.directory.stats();
        assert!(counts.revocations >= 3, "{counts:?}");
        assert!(counts.decisions < counts.evictions / 2, "most of the time it is not asked: {counts:?}");
    }
}

/// A directory of one frame, which is pinned at times.
#[test]
fn edge_of_exhaustion() {
    let access = |tenant, page| Op::Access { tenant, page };
    let operations = vec![
        access(0, 1),
        access(1, 2),
        Op::Policy { tenant: 1, priority: 0, mru: true },
        access(1, 3),
        access(1, 2),
        Op::Pin { tenant: 1, page: 2 },
        access(0, 1),
        access(1, 2),
        Op::Unpin,
        access(0, 1),
    ];
    let case = Case {
        frames: 1,
        allocation: Allocation::LruSp,
        shared_pages: false,
        common: true,
        members: 0,
        operations,
    };
    let (driver, _) = case.run();
    assert_eq!(driver.directory.stats().accesses, 6, "an exhausted access is none");
}

/// Frames that are borrowed on behalf of a tenant do not take it below its floor, even if its pages are the
/// oldest.
#[test]
fn borrowing_leaves_the_askers_floor_alone() {
    let mut operations = vec![Op::Floor { tenant: 1, frames: 3 }];
    operations.extend((0..4).map(|page| Op::Access { tenant: 1, page }));
    operations.extend((0..2).map(|page| Op::Access { tenant: 0, page }));
    // The first borrows the one frame above the floor, and the others none.
    operations.extend((0..3).map(|_| Op::Borrow { tenant: 1 }));
    let case = Case {
        frames: 6,
        allocation: Allocation::LruSp,
        shared_pages: false,
        common: false,
        members: 0,
        operations,
    };
    let (driver, naive) = case.run();
    assert_eq!(driver.directory.resident(TenantId(1)), 3);
    assert_eq!(naive.lent, 1);
}
