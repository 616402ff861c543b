//! Goal: the machine fetches and evicts what the rules say, and what the papers prove about the rules holds.
//! Method: random programs; a log of what happened, replayed to naive rules that search where the directory
//! has indexes; and small machines whose times can be added up by hand.

mod rules;

use bufpool_bench::simulate::machine::{
    self, CacheCounts, CacheOptions, Change, MachineOptions, MachineOutcome, MachinePolicy, ServiceTimes,
};
use bufpool_bench::simulate::{NextUses, Policy, Setup, simulate};
use bufpool_bench::trace::{Directive, Item, Reference, Trace};
use bufpool_policies::SplitMix64;
use rules::{Rules, Verdicts};

/// What a process does: its accesses, whether they are hinted, and how long it computes before each, in
/// microseconds.
struct Program {
    blocks: Vec<u64>,
    is_hinted: bool,
    compute_us: u32,
}

/// Process p is tenant p, with blocks of its own.
fn trace(programs: &[Program]) -> Trace {
    let mut items = Vec::new();
    for (tenant, program) in (0..).zip(programs) {
        items.push(Item::Directive(Directive::Compute { tenant, compute_us: program.compute_us }));
        if program.is_hinted {
            items.push(Item::Directive(Directive::HintsAll { tenant }));
        }
        let accesses = program.blocks.iter().map(|block| (u64::from(tenant) << 20) + block);
        items.extend(accesses.map(|block| Item::Access(Reference { block, site: 0, tenant })));
    }
    Trace::of("programs", items)
}

/// A loop, random accesses, or one after the other.
fn program(random: &mut SplitMix64, is_hinted: bool) -> Program {
    let blocks = 2 + random.below(30);
    let mut accesses: Vec<u64> = (0..random.below(4) * blocks).map(|access| access % blocks).collect();
    accesses.extend((0..20 + random.below(60)).map(|_| random.below(blocks)));
    Program { blocks: accesses, is_hinted, compute_us: 200 + random.below(12_000) as u32 }
}

fn machine(random: &mut SplitMix64) -> MachineOptions {
    MachineOptions { disks: 1 + random.below(3) as u32, ..MachineOptions::default() }
}

fn logged(trace: &Trace, machine: &MachineOptions, cache: &CacheOptions) -> MachineOutcome {
    machine::run_logged(trace, machine, cache).expect("a run")
}

#[test]
fn each_fetch_and_each_eviction_is_what_the_rules_say() {
    for seed in 0..400 {
        let mut random = SplitMix64::new(seed);
        let are_hinted: Vec<bool> = (0..1 + random.below(3)).map(|_| random.below(4) > 0).collect();
        let programs = are_hinted.iter().map(|is_hinted| program(&mut random, *is_hinted));
        let programs: Vec<Program> = programs.collect();
        let machine = machine(&mut random);
        for policy in MachinePolicy::ALL {
            let mut cache = CacheOptions::new(2 + random.below(40) as u32, policy);
            cache.keep_read = random.below(4) == 0;
            cache.reserve = random.below(4) == 0;
            let outcome = logged(&trace(&programs), &machine, &cache);
            let mut rules = Rules::new(&programs, &machine, &cache);
            rules.replay(&outcome.log, &format!("seed {seed}, {}", policy.name()));
            for (process, expected) in (0..).zip(&rules.verdicts) {
                let CacheCounts { overrules, mistakes, vindications, .. } = outcome.of(process).counts;
                assert_eq!(Verdicts { overrules, mistakes, vindications }, *expected, "seed {seed}");
            }
            let accesses: usize = programs.iter().map(|program| program.blocks.len()).sum();
            assert_eq!(outcome.all.counts.accesses as usize, accesses);
        }
    }
}

/// One hinted process with demand fetching only reads as often as Belady's optimum.
#[test]
fn reads_are_those_of_the_optimum_without_prefetching() {
    for seed in 0..60 {
        let mut random = SplitMix64::new(seed);
        let trace = trace(&[program(&mut random, true)]);
        let frames = 1 + random.below(30) as u32;
        let next_uses = NextUses::in_memory(&trace).unwrap();
        let best = simulate(&trace, Policy::Opt, &Setup::frames(frames), Some(&next_uses)).unwrap();
        let ran = logged(&trace, &machine(&mut random), &CacheOptions::new(frames, MachinePolicy::LruSp));
        assert_eq!(ran.all.counts.demand_misses, best.total().misses(), "seed {seed}, {frames} frames");
    }
}

/// With right hints no page is evicted for a page that the process needs later than it, whatever the policy.
#[test]
fn a_prefetch_does_no_harm() {
    for seed in 0..100 {
        let mut random = SplitMix64::new(seed);
        let one = [program(&mut random, true)];
        let machine = machine(&mut random);
        for policy in [MachinePolicy::Tip2, MachinePolicy::Aggressive, MachinePolicy::Horizon] {
            let cache = CacheOptions::new(2 + random.below(30) as u32, policy);
            let log = logged(&trace(&one), &machine, &cache).log;
            let (mut position, mut evicted) = (0, None);
            for change in log {
                let next = |block: u64| one[0].blocks[position..].iter().position(|next| *next == block);
                match change {
                    Change::Asked(..) => position += 1,
                    Change::Evicted(block) => evicted = Some(block),
                    Change::Prefetched(_, fetched) => {
                        let gone = evicted.take().and_then(next);
                        assert!(gone.is_none_or(|gone| Some(gone) > next(fetched)), "seed {seed}");
                    }
                    Change::Missed(..) => evicted = None,
                    Change::Hinted(_) | Change::Arrived(_) | Change::Ended(_) => {}
                }
            }
        }
    }
}

#[test]
fn twice_the_speed_of_everything_changes_no_decision() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let programs = [program(&mut random, true), program(&mut random, false)];
        let cache = CacheOptions::new(5 + random.below(30) as u32, MachinePolicy::Tip2);
        let slow = MachineOptions { hit_us: 400, ..MachineOptions::default() };
        let times = ServiceTimes { sequential_us: 2_500, random_us: 11_000 };
        let fast = MachineOptions { times, quantum_us: 50_000, driver_us: 250, hit_us: 200, ..slow };
        let even = |program: &Program, compute_us| Program {
            blocks: program.blocks.clone(),
            is_hinted: program.is_hinted,
            compute_us,
        };
        let slower = programs.each_ref().map(|program| even(program, program.compute_us / 2 * 2));
        let faster = programs.each_ref().map(|program| even(program, program.compute_us / 2));
        let (slow, fast) = (logged(&trace(&slower), &slow, &cache), logged(&trace(&faster), &fast, &cache));
        assert_eq!(slow.log, fast.log, "seed {seed}");
        assert_eq!(slow.all.elapsed_us, 2 * fast.all.elapsed_us);
    }
}

/// Without hints TIP2 is LRU over all processes.
#[test]
fn without_hints_cost_benefit_is_lru() {
    for seed in 0..40 {
        let mut random = SplitMix64::new(seed);
        let programs = [program(&mut random, false), program(&mut random, false)];
        let (trace, machine, frames) = (trace(&programs), machine(&mut random), 2 + random.below(40) as u32);
        let with = |policy| logged(&trace, &machine, &CacheOptions::new(frames, policy));
        assert_eq!(with(MachinePolicy::Tip2), with(MachinePolicy::Lru), "seed {seed}");
    }
}

/// The unhinted process ends first; the hinted one then takes all of its frames.
#[test]
fn nobody_accesses_the_queue_and_it_drains() {
    let unhinted = Program { blocks: (0..40).cycle().take(400).collect(), is_hinted: false, compute_us: 0 };
    let hinted =
        Program { blocks: (0..200).cycle().take(4000).collect(), is_hinted: true, compute_us: 5_000 };
    let cache = CacheOptions::new(100, MachinePolicy::Tip2);
    let outcome = logged(&trace(&[hinted, unhinted]), &MachineOptions::default(), &cache);
    assert!(outcome.of_until_first_end(1).frames_owned >= 40, "the loop was held");
    let evicted = outcome.log.iter().rev().take_while(|change| **change != Change::Ended(1));
    let queue = 1 << 20;
    let left = evicted.filter(|change| matches!(change, Change::Evicted(block) if *block >= queue)).count();
    assert_eq!(left as u64, outcome.of_until_first_end(1).frames_owned, "none of its blocks is left");
}

/// 1 ms of computing, 0.425 ms for the block, 0.5 ms to start a read of 22 or 5 ms.
#[test]
fn times_add_up() {
    let alone = |blocks: &[u64], is_hinted| {
        let programs = [Program { blocks: blocks.to_vec(), is_hinted, compute_us: 1_000 }];
        let cache = CacheOptions::new(10, MachinePolicy::Aggressive);
        *machine::run(&trace(&programs), &MachineOptions::default(), &cache).unwrap().of(0)
    };
    let ran = alone(&[5, 6, 8, 5], false);
    assert_eq!(ran.counts.demand_misses, 3);
    assert_eq!(ran.cpu_us, 4 * 1_425 + 3 * 500);
    assert_eq!(ran.stall_us, 3 * 500 + 22_000 + 5_000 + 22_000);
    assert_eq!(ran.elapsed_us, 4 * 1_425 + ran.stall_us);
    // All three come in ahead in one batch. The first read is started at once, the others while it is under
    // way.
    let ran = alone(&[5, 6, 8, 5], true);
    assert_eq!((ran.counts.demand_misses, ran.counts.prefetches, ran.wasted), (0, 3, 0));
    assert_eq!(ran.elapsed_us, 500 + 22_000 + 5_000 + 22_000 + 1_425);
}

#[test]
fn runs_repeat_exactly() {
    let mut random = SplitMix64::new(9);
    let programs = [program(&mut random, true), program(&mut random, false)];
    for policy in MachinePolicy::ALL {
        let run = || logged(&trace(&programs), &MachineOptions::default(), &CacheOptions::new(12, policy));
        assert_eq!(run(), run());
    }
}
