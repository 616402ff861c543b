//! FIFO2-SP against the naive one, decision by decision: several tenants with managers that change, pins,
//! floors, caps, privileged tenants, pages that end, pages ahead. After every step every count and the
//! directory's own invariants are compared.

mod directory_ops;
mod naive;

use std::collections::HashMap;

use bufpool_policies::{
    Access, Allocation, Block, FrameId, Manager, PageId, SplitMix64, TenantId, TenantStats,
    classic::{Departure, Fifo2, OneLevel},
};
use directory_ops::{Driver, PAGES, TENANTS};
use naive::{
    Outcome,
    fifo2_sp::{Advice, Fifo2Sp, scattered},
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Access {
        tenant: usize,
        page: u64,
    },
    BringAhead {
        tenant: usize,
        page: u64,
    },
    Pin {
        tenant: usize,
        page: u64,
    },
    Unpin,
    Manage {
        tenant: usize,
        advice: Option<Advice>,
    },
    Floor {
        tenant: usize,
        frames: usize,
    },
    Cap {
        tenant: usize,
        frames: usize,
    },
    /// Floor and cap become equal, which makes the tenant privileged.
    Privilege {
        tenant: usize,
        frames: usize,
    },
    End {
        tenant: usize,
        page: u64,
    },
    Close {
        tenant: usize,
    },
    Borrow {
        tenant: usize,
    },
    Repay,
}

/// A manager that follows the same advice as the naive one.
struct Adviser {
    advice: Advice,
    /// The tenant's blocks, in order of use.
    blocks: Vec<(FrameId, PageId)>,
}

impl Manager for Adviser {
    fn new_block(&mut self, block: &Block) {
        self.blocks.push((block.frame, block.page));
    }

    fn block_gone(&mut self, frame: FrameId, _page: PageId) {
        self.blocks.retain(|(other, _)| *other != frame);
    }

    fn block_accessed(&mut self, frame: FrameId, access: &Access) {
        self.block_gone(frame, access.page);
        self.blocks.push((frame, access.page));
    }

    fn replace_block(
        &mut self,
        candidate: FrameId,
        _missing: Option<&Access>,
        busy: &mut dyn FnMut(FrameId) -> bool,
    ) -> FrameId {
        let mut takeable = self.blocks.iter().filter(|(frame, _)| !busy(*frame));
        let choice = match self.advice {
            Advice::Oldest => takeable.next(),
            Advice::Newest => takeable.next_back(),
            Advice::Scattered => takeable.min_by_key(|(_, page)| scattered(page.0)),
        };
        choice.map_or(candidate, |(frame, _)| *frame)
    }

    fn placeholder_used(&mut self, _missing: &Access, _placeholder: FrameId) {}
}

/// One run: the options of a directory, and the operations on it.
#[derive(Debug)]
struct Case {
    frames: usize,
    /// Whether the tenants use the same pages; otherwise each has pages of its own.
    common: bool,
    operations: Vec<Op>,
}

impl Case {
    /// Runs the case on a directory and on the naive one, and panics if they differ. Returns the counts of
    /// all tenants.
    fn run(&self) -> TenantStats {
        let mut driver = Driver::new(self.frames, Allocation::Fifo2Sp, false);
        let mut naive = Fifo2Sp::new(self.frames, TENANTS);
        for (step, op) in self.operations.iter().enumerate() {
            self.apply(&mut driver, &mut naive, op);
            driver.directory.check_invariants();
            for tenant in 0..TENANTS {
                let id = TenantId(tenant as u32);
                let mut ours = driver.directory.tenant_stats(id);
                ours.outstanding = 0;
                assert_eq!(ours, naive.stats[tenant], "tenant {tenant} after step {step} {op:?}");
                assert_eq!(driver.directory.resident(id) as usize, naive.held(tenant), "step {step} {op:?}");
            }
            let outstanding = driver.directory.stats().outstanding;
            assert_eq!(outstanding, naive.outstanding() as u64, "step {step} {op:?}");
        }
        driver.directory.stats()
    }

    fn apply(&self, driver: &mut Driver, naive: &mut Fifo2Sp, op: &Op) {
        let id = |tenant: usize| TenantId(tenant as u32);
        let name = |tenant: usize, page: u64| if self.common { page } else { tenant as u64 * 1000 + page };
        match *op {
            Op::Access { tenant, page } => {
                let page = name(tenant, page);
                assert_eq!(driver.access(tenant, page), naive.access(tenant, page), "{op:?}");
            }
            Op::BringAhead { tenant, page } => {
                let page = name(tenant, page);
                assert_eq!(driver.bring_ahead(tenant, page), naive.bring_ahead(tenant, page), "{op:?}");
            }
            Op::Pin { tenant, page } => {
                let page = name(tenant, page);
                if naive.is_resident(page) {
                    driver.pinned.insert(page);
                    naive.pinned.insert(page);
                }
            }
            Op::Unpin => {
                driver.pinned.pop_first();
                naive.pinned.pop_first();
            }
            Op::Manage { tenant, advice } if !naive.closed[tenant] => {
                let adviser = advice.map(|advice| Box::new(Adviser { advice, blocks: Vec::new() }));
                match adviser {
                    Some(adviser) => driver.directory.set_manager(id(tenant), adviser, false).unwrap(),
                    None => driver.directory.clear_manager(id(tenant)).unwrap(),
                }
                naive.set_manager(tenant, advice);
            }
            Op::Floor { tenant, frames } if !naive.closed[tenant] => {
                if self.is_legal(naive, tenant, frames, naive.caps[tenant]) {
                    driver.directory.set_floor(id(tenant), frames as u32).unwrap();
                    naive.set_floor(tenant, frames);
                }
            }
            Op::Cap { tenant, frames } if !naive.closed[tenant] => {
                let frames = frames.min(self.frames).max(naive.floors[tenant]).max(1);
                assert_eq!(driver.set_cap(tenant, frames), naive.set_cap(tenant, frames), "{op:?}");
            }
            Op::Privilege { tenant, frames } if !naive.closed[tenant] => {
                if self.is_legal(naive, tenant, frames, self.frames) {
                    let (all, floor) = (self.frames, frames as u32);
                    assert_eq!(driver.set_cap(tenant, all), naive.set_cap(tenant, all), "{op:?}");
                    driver.directory.set_floor(id(tenant), floor).unwrap();
                    naive.set_floor(tenant, frames);
                    assert_eq!(driver.set_cap(tenant, frames), naive.set_cap(tenant, frames), "{op:?}");
                }
            }
            Op::Manage { .. } | Op::Floor { .. } | Op::Cap { .. } | Op::Privilege { .. } => {}
            Op::Borrow { tenant } => {
                assert_eq!(driver.borrow_frame(tenant), naive.evict_next(tenant), "{op:?}");
            }
            Op::Repay => {
                if naive.lent > 0 {
                    driver.repay_frame();
                    naive.lent -= 1;
                }
            }
            Op::Close { tenant } => {
                if driver.directory.close_tenant(id(tenant)).is_ok() {
                    naive.close(tenant);
                }
            }
            Op::End { tenant, page } => {
                let page = name(tenant, page);
                if !naive.pinned.contains(&page) {
                    driver.end(page);
                    naive.end(page);
                }
            }
        }
    }

    fn is_legal(&self, naive: &Fifo2Sp, tenant: usize, floor: usize, cap: usize) -> bool {
        let others: usize =
            (0..TENANTS).filter(|other| *other != tenant).map(|other| naive.floors[other]).sum();
        floor <= cap && others + floor <= self.frames
    }
}

/// Accesses and changes of managers and, with `all`, all other operations too.
fn op(all: bool) -> impl Strategy<Value = Op> {
    let place = (0..TENANTS, 0..PAGES);
    let advice = prop_oneof![
        Just(None),
        Just(Some(Advice::Oldest)),
        Just(Some(Advice::Newest)),
        Just(Some(Advice::Scattered)),
    ];
    let rest = prop_oneof![
        4 => place.clone().prop_map(|(tenant, page)| Op::BringAhead { tenant, page }),
        3 => place.clone().prop_map(|(tenant, page)| Op::Pin { tenant, page }),
        4 => Just(Op::Unpin),
        1 => (0..TENANTS, 0..8usize).prop_map(|(tenant, frames)| Op::Floor { tenant, frames }),
        1 => (0..TENANTS, 1..30usize).prop_map(|(tenant, frames)| Op::Cap { tenant, frames }),
        1 => (0..TENANTS, 1..8usize).prop_map(|(tenant, frames)| Op::Privilege { tenant, frames }),
        3 => place.clone().prop_map(|(tenant, page)| Op::End { tenant, page }),
        1 => (1..TENANTS).prop_map(|tenant| Op::Close { tenant }),
        2 => (0..TENANTS).prop_map(|tenant| Op::Borrow { tenant }),
        2 => Just(Op::Repay),
    ];
    prop_oneof![
        40 => place.prop_map(|(tenant, page)| Op::Access { tenant, page }),
        20 => (0..TENANTS, 0..6u64).prop_map(|(tenant, page)| Op::Access { tenant, page }),
        2 => (0..TENANTS, advice).prop_map(|(tenant, advice)| Op::Manage { tenant, advice }),
        if all { 20 } else { 0 } => rest,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn the_directory_equals_its_model_with_accesses_and_managers(
        frames in 1..30usize,
        common in any::<bool>(),
        operations in prop::collection::vec(op(false), 1..400),
    ) {
        Case { frames, common, operations }.run();
    }

    #[test]
    fn the_directory_equals_its_model_with_all_operations(
        frames in 1..40usize,
        common in any::<bool>(),
        operations in prop::collection::vec(op(true), 1..400),
    ) {
        Case { frames, common, operations }.run();
    }
}

/// The random cases reach overrules that turn out wrong, and overrules that turn out right.
#[test]
fn cases_reach_every_count() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(op(true), 400);
    let mut sum = TenantStats::default();
    for _ in 0..20 {
        let mut operations = strategy.new_tree(&mut runner).unwrap().current();
        operations.retain(|op| !matches!(op, Op::Close { .. }));
        sum.add(&Case { frames: 20, common: false, operations }.run());
    }
    assert!(sum.overrules > 100 && sum.mistakes > 20 && sum.vindications > 20, "{sum:?}");
}

/// Without managers FIFO2-SP is the policy FIFO2 over all frames, also with pins.
#[test]
fn without_managers_it_is_fifo2() {
    const FRAMES: usize = 13;
    let mut driver = Driver::new(FRAMES, Allocation::Fifo2Sp, false);
    let mut alone = Fifo2::new(FRAMES as u32);
    let mut frame_of = HashMap::new();
    let mut random = SplitMix64::new(5);
    for _ in 0..20_000 {
        let pages = if random.below(3) == 0 { 6 } else { PAGES };
        let page = random.below(pages);
        if random.below(20) == 0 {
            driver.pinned.clear();
            driver.pinned.extend(frame_of.keys().copied().filter(|_| random.below(4) == 0));
        }
        let tenant = random.below(TENANTS as u64) as usize;
        let evicted = match driver.access(tenant, page) {
            Outcome::Hit => {
                alone.hit(frame_of[&page], PageId(page));
                continue;
            }
            Outcome::Loaded { evicted } => evicted,
            Outcome::Exhausted => continue,
        };
        let mut frame = FrameId(frame_of.len() as u32);
        if let Some(gone) = evicted {
            let is_pinned = |frame: FrameId| {
                frame_of.iter().any(|(page, at)| *at == frame && driver.pinned.contains(page))
            };
            let victim = alone.victim(PageId(page), &mut |frame| is_pinned(frame));
            assert_eq!(victim, frame_of.remove(&gone), "page {gone} went");
            frame = victim.expect("a page went");
            alone.remove(frame, PageId(gone), Departure::Evicted);
        }
        alone.insert(frame, PageId(page));
        frame_of.insert(page, frame);
    }
}

/// A manager that keeps being wrong is revoked, and restored after its sentence.
#[test]
fn revocation_is_that_of_lru_sp() {
    let mut operations = vec![Op::Manage { tenant: 1, advice: Some(Advice::Newest) }];
    // Groups of pages, each read several times before the next, for which giving up the newest page is wrong.
    for round in 0..400_u64 {
        for step in 0..30_u64 {
            operations.push(Op::Access { tenant: 1, page: (round % 3) * 6 + step % 6 });
            if step % 3 == 0 {
                operations.push(Op::Access { tenant: 0, page: (step + 7 * round) % PAGES });
            }
        }
    }
    let counts = Case { frames: 11, common: false, operations }.run();
    assert!(counts.revocations >= 2, "{counts:?}");
    assert!(counts.decisions < counts.evictions / 2, "most of the time it is not asked: {counts:?}");
}
