//! The simulator against a naive one, on random traces: the same hits, misses, evictions, decisions,
//! overrules, mistakes and vindications for each of three tenants, under every two-level policy.
//!
//! Traces have directives in mid-stream, pins, floors, caps, and blocks that tenants share. Where all frames
//! that a miss could take are pinned, both have to report that. FIFO2-SP is compared with the naive FIFO2-SP
//! of the tests of `bufpool-policies`, in which tenants have managers instead of directives, from the first
//! access on.

#[path = "../../policies/tests/naive/mod.rs"]
mod naive;
mod oracle;

use std::collections::BTreeMap;

use bufpool_bench::simulate::{By, Counts, Policy, Setup, simulate};
use bufpool_bench::trace::{Directive, Item, Reference, Trace};
use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;
use naive::Outcome;
use naive::fifo2_sp::{Advice, Fifo2Sp};
use oracle::Oracle;
use proptest::prelude::*;

const TENANTS: u32 = 3;
const PRIORITIES: std::ops::RangeInclusive<i32> = -2..=2;

/// A step before it is known which blocks are pinned.
#[derive(Clone, Debug)]
enum Step {
    Access {
        tenant: u32,
        block: u64,
    },
    Policy {
        tenant: u32,
        prio: i32,
        policy: PolicyKind,
    },
    Priority {
        tenant: u32,
        first: u64,
        blocks: u64,
        prio: i32,
    },
    Temporary {
        tenant: u32,
        first: u64,
        blocks: u64,
        prio: i32,
    },
    Pin {
        block: u64,
    },
    /// Takes back the pin with this number, counted modulo the number of pins.
    Unpin {
        pin: usize,
    },
}

/// How often the kinds of steps occur, and on how many blocks.
#[derive(Clone, Copy, Debug)]
struct Shape {
    /// Blocks of each tenant. Those of tenant t begin at t * `blocks`, or at 0 if they are shared.
    blocks: u64,
    /// Whether all tenants use the same blocks.
    shared: bool,
    pins: bool,
}

fn step(shape: Shape) -> impl Strategy<Value = Step> {
    let Shape { blocks, shared, pins } = shape;
    let tenant = || 0..TENANTS;
    let own = move |tenant: u32, block: u64| if shared { block } else { u64::from(tenant) * blocks + block };
    // Uniform blocks, and a few hot ones. Scans come from `steps` below.
    let access = (tenant(), prop_oneof![0..blocks, 0..blocks.div_ceil(4)])
        .prop_map(move |(tenant, block)| Step::Access { tenant, block: own(tenant, block) });
    let policy = prop_oneof![1 => Just(PolicyKind::Lru), 2 => Just(PolicyKind::Mru)];
    let policy = (tenant(), PRIORITIES, policy).prop_map(|(tenant, prio, policy)| Step::Policy {
        tenant,
        prio,
        policy,
    });
    let range = move || (tenant(), 0..blocks, 1..=blocks, PRIORITIES);
    let priority = range().prop_map(move |(tenant, first, blocks, prio)| Step::Priority {
        tenant,
        first: own(tenant, first),
        blocks,
        prio,
    });
    let temporary = range().prop_map(move |(tenant, first, blocks, prio)| Step::Temporary {
        tenant,
        first: own(tenant, first),
        blocks: blocks.div_ceil(3),
        prio,
    });
    let pin = (tenant(), 0..blocks).prop_map(move |(tenant, block)| Step::Pin { block: own(tenant, block) });
    let unpin = any::<usize>().prop_map(|pin| Step::Unpin { pin });
    let weight = u32::from(pins);
    prop_oneof![
        80 => access,
        2 => policy,
        2 => priority,
        3 => temporary,
        4 * weight => pin,
        5 * weight => unpin,
    ]
}

/// Single steps, and scans over a tenant's blocks, in which MRU and priorities differ from LRU.
fn steps(shape: Shape) -> impl Strategy<Value = Vec<Step>> {
    let scan = (0..TENANTS, 0..shape.blocks, 1..=shape.blocks).prop_map(move |(tenant, first, length)| {
        let base = if shape.shared { 0 } else { u64::from(tenant) * shape.blocks };
        let block = move |at: u64| base + (first + at) % shape.blocks;
        (0..length).map(|at| Step::Access { tenant, block: block(at) }).collect::<Vec<_>>()
    });
    let single = step(shape).prop_map(|step| vec![step]);
    let parts = prop::collection::vec(prop_oneof![9 => single, 1 => scan], 1..250);
    parts.prop_map(|parts| parts.concat())
}

/// Steps as a trace: every unpin takes back a pin that is outstanding.
fn items(steps: &[Step]) -> Vec<Item> {
    let mut pinned = Vec::new();
    steps
        .iter()
        .filter_map(|step| {
            Some(match *step {
                Step::Access { tenant, block } => Item::Access(Reference { block, site: tenant + 1, tenant }),
                Step::Policy { tenant, prio, policy } => {
                    Item::Directive(Directive::Policy { tenant, prio, policy })
                }
                Step::Priority { tenant, first, blocks, prio } => {
                    Item::Directive(Directive::Priority { tenant, first, last: first + blocks - 1, prio })
                }
                Step::Temporary { tenant, first, blocks, prio } => {
                    Item::Directive(Directive::TemporaryPriority {
                        tenant,
                        first,
                        last: first + blocks - 1,
                        prio,
                    })
                }
                Step::Pin { block } => {
                    pinned.push(block);
                    Item::Directive(Directive::Pin(block))
                }
                Step::Unpin { .. } if pinned.is_empty() => return None,
                Step::Unpin { pin } => {
                    Item::Directive(Directive::Unpin(pinned.swap_remove(pin % pinned.len())))
                }
            })
        })
        .collect()
}

fn shape() -> impl Strategy<Value = Shape> {
    (2_u64..16, any::<bool>(), any::<bool>()).prop_map(|(blocks, shared, pins)| Shape {
        blocks,
        shared,
        pins,
    })
}

fn frames() -> impl Strategy<Value = u32> {
    prop_oneof![1 => 1_u32..4, 4 => 4_u32..30]
}

/// Floors whose sum fits in the frames, and caps that are not below them.
fn shares(frames: u32) -> impl Strategy<Value = (BTreeMap<u32, u32>, BTreeMap<u32, u32>)> {
    let share = (0..=frames / TENANTS, prop::option::of(1..=frames));
    prop::collection::vec(share, TENANTS as usize).prop_map(|shares| {
        let (mut floors, mut caps) = (BTreeMap::new(), BTreeMap::new());
        for (tenant, (floor, cap)) in (0..).zip(shares) {
            floors.insert(tenant, floor);
            if let Some(cap) = cap {
                caps.insert(tenant, cap.max(floor));
            }
        }
        (floors, caps)
    })
}

/// The counts of the simulator; none if all frames that a miss could take are pinned.
fn simulated(items: &[Item], policy: Policy, setup: &Setup) -> Option<BTreeMap<u64, Counts>> {
    let trace = Trace::of("random", items.iter().cloned());
    match simulate(&trace, policy, setup, None) {
        Ok(outcome) => Some(outcome.counts),
        Err(error) => {
            assert!(error.to_string().contains("pinned"), "{error}");
            None
        }
    }
}

fn check(steps: &[Step], setup: &Setup) -> Result<(), TestCaseError> {
    let items = items(steps);
    for allocation in [Allocation::LruSp, Allocation::LruS, Allocation::AllocLru] {
        let expected = Oracle::new(allocation, setup).play(&items).ok();
        prop_assert_eq!(simulated(&items, Policy::TwoLevel(allocation), setup), expected, "{:?}", allocation);
    }
    Ok(())
}

/// The counts of the naive FIFO2-SP, with these managers of the tenants; none if all frames that a miss could
/// take are pinned.
fn naive_fifo2_sp(
    items: &[Item],
    managers: &[Option<PolicyKind>],
    setup: &Setup,
) -> Option<BTreeMap<u64, Counts>> {
    let mut naive = Fifo2Sp::new(setup.frames as usize, TENANTS as usize);
    for (tenant, manager) in managers.iter().enumerate() {
        let advice = manager.map(|policy| match policy {
            PolicyKind::Mru => Advice::Newest,
            _ => Advice::Oldest,
        });
        naive.set_manager(tenant, advice);
    }
    setup.floors.iter().for_each(|(tenant, floor)| naive.set_floor(*tenant as usize, *floor as usize));
    for (tenant, cap) in &setup.caps {
        naive.set_cap(*tenant as usize, *cap as usize);
    }
    let mut pins = Vec::new();
    for item in items {
        match *item {
            Item::Access(Reference { block, tenant, .. }) => {
                if naive.access(tenant as usize, block) == Outcome::Exhausted {
                    return None;
                }
            }
            Item::Directive(Directive::Pin(block)) => pins.push(block),
            Item::Directive(Directive::Unpin(block)) => {
                pins.swap_remove(pins.iter().position(|pin| *pin == block).expect("it is pinned"));
            }
            Item::Directive(_) => {}
        }
        naive.pinned = pins.iter().copied().collect();
    }
    let counts = (0..).zip(&naive.stats).filter(|(_, stats)| stats.accesses > 0).map(|(tenant, stats)| {
        let counts = Counts {
            accesses: stats.accesses,
            hits: stats.hits,
            evictions: stats.evictions,
            decisions: stats.decisions,
            overrules: stats.overrules,
            mistakes: stats.mistakes,
            vindications: stats.vindications,
            revocations: stats.revocations,
            ..Counts::default()
        };
        (tenant, counts)
    });
    Some(counts.collect())
}

/// A setup with floors and caps of those tenants alone that the steps name.
fn setup(
    steps: &[Step],
    frames: u32,
    shared_pages: bool,
    shares: (BTreeMap<u32, u32>, BTreeMap<u32, u32>),
) -> Setup {
    let named = |tenant: u32| {
        steps.iter().any(|step| match *step {
            Step::Access { tenant: by, .. }
            | Step::Policy { tenant: by, .. }
            | Step::Priority { tenant: by, .. }
            | Step::Temporary { tenant: by, .. } => by == tenant,
            Step::Pin { .. } | Step::Unpin { .. } => false,
        })
    };
    let (mut floors, mut caps) = shares;
    floors.retain(|tenant, _| named(*tenant));
    caps.retain(|tenant, _| named(*tenant));
    Setup { by: By::Tenant, shared_pages, floors, caps, ..Setup::frames(frames) }
}

proptest! {
    #[test]
    fn plain_two_level_schemes_agree(
        (steps, frames) in shape().prop_flat_map(|shape| (steps(shape), frames()))
    ) {
        check(&steps, &setup(&steps, frames, false, Default::default()))?;
    }

    #[test]
    fn floors_and_caps_agree(
        (steps, frames, shares) in (shape(), frames())
            .prop_flat_map(|(shape, frames)| (steps(shape), Just(frames), shares(frames)))
    ) {
        check(&steps, &setup(&steps, frames, false, shares))?;
    }

    #[test]
    fn fifo2_sp_agrees(
        (steps, frames, shares) in (shape(), frames()).prop_flat_map(|(shape, frames)| {
            let shares = prop_oneof![Just(Default::default()), shares(frames)];
            (steps(shape), Just(frames), shares)
        }),
        managers in prop::collection::vec(
            prop_oneof![Just(None), Just(Some(PolicyKind::Lru)), Just(Some(PolicyKind::Mru))],
            TENANTS as usize,
        ),
    ) {
        let given = managers.iter().zip(0..).filter_map(|(manager, tenant)| {
            manager.map(|policy| Item::Directive(Directive::Policy { tenant, prio: 0, policy }))
        });
        // Tenants give no directives beyond their managers.
        let is_directive =
            |step: &Step| !matches!(step, Step::Access { .. } | Step::Pin { .. } | Step::Unpin { .. });
        let steps: Vec<_> = steps.into_iter().filter(|step| !is_directive(step)).collect();
        let items: Vec<_> = given.chain(items(&steps)).collect();
        let setup = Setup { revocation: true, ..setup(&steps, frames, false, shares) };
        let expected = naive_fifo2_sp(&items, &managers, &setup);
        prop_assert_eq!(simulated(&items, Policy::TwoLevel(Allocation::Fifo2Sp), &setup), expected);
    }

    #[test]
    fn the_rule_for_shared_pages_agrees(
        (steps, frames, shares) in (2_u64..16, any::<bool>(), frames()).prop_flat_map(|(blocks, pins, frames)| {
            let shares = prop_oneof![Just(Default::default()), shares(frames)];
            (steps(Shape { blocks, shared: true, pins }), Just(frames), shares)
        })
    ) {
        check(&steps, &setup(&steps, frames, true, shares))?;
    }

    /// One-level LRU, which knows pins but no tenants, is the ledger without managers.
    #[test]
    fn lru_is_the_ledger_without_managers(
        (steps, frames) in shape().prop_flat_map(|shape| (steps(shape), frames()))
    ) {
        let items = items(&steps);
        let setup = Setup::frames(frames);
        let expected = Oracle::new(Allocation::GlobalLru, &setup).play(&items).ok().map(|counts| {
            let mut total = Counts::default();
            counts.values().for_each(|counts| total.add(counts));
            total
        });
        for policy in [Policy::OneLevel(PolicyKind::Lru), Policy::TwoLevel(Allocation::GlobalLru)] {
            let found = simulated(&items, policy, &setup).map(|counts| counts[&0]);
            prop_assert_eq!(found, expected, "{:?}", policy);
        }
    }
}
