//! The programs of part A, the caches that they run in, and how changes are printed.

use bufpool_policies::Allocation;
use bufpool_policies::classic::PolicyKind;

use super::service::{self, Program, Ran};
use crate::experiments::finding::listed;
use crate::simulate::machine::ServiceTimes;
use crate::simulate::{Policy, Setup, SimError};
use crate::streams::{self, Advice};
use crate::trace::{Directive, Item, Reference};

pub(super) const LRU: Policy = Policy::OneLevel(PolicyKind::Lru);
pub(super) const GLOBAL_LRU: Policy = Policy::TwoLevel(Allocation::GlobalLru);
pub(super) const LRU_SP: Policy = Policy::TwoLevel(Allocation::LruSp);
pub(super) const LRU_S: Policy = Policy::TwoLevel(Allocation::LruS);
pub(super) const ALLOC_LRU: Policy = Policy::TwoLevel(Allocation::AllocLru);

/// Frames of the caches: 6.4, 8, 12 and 16 MB of 8 KB blocks.
pub(super) const SIZES: [u32; 4] = [819, 1024, 1536, 2048];

/// The programs: name, and processor time of an access in milliseconds. din, which simulates a cache,
/// computes for long on a block; searching text and linking do not.
pub(super) const APPLICATIONS: [(&str, f64); 8] = [
    ("cs1", 1.0),
    ("cs2", 1.0),
    ("cs3", 1.0),
    ("din", 10.0),
    ("gli", 1.0),
    ("ldk", 1.0),
    ("pjn", 1.0),
    ("sort", 1.0),
];

/// The mixes: programs that run together.
pub(super) const MIXES: [&[&str]; 9] = [
    &["cs2", "gli"],
    &["cs3", "ldk"],
    &["gli", "sort"],
    &["din", "sort"],
    &["sort", "ldk"],
    &["pjn", "ldk"],
    &["din", "cs2", "ldk"],
    &["cs1", "gli", "ldk"],
    &["din", "cs3", "gli", "ldk"],
];

/// The paper's two disks: an RZ56 (16 ms to seek, 8.3 ms of rotation on average, 1.875 MB/s) and an RZ26
/// (10.5 ms, 5.54 ms, 3.3 MB/s), for blocks of 8 KB. A block that follows the one before needs no seek.
pub(super) const TWO_DISKS: [ServiceTimes; 2] = [
    ServiceTimes { sequential_us: 12_700, random_us: 28_700 },
    ServiceTimes { sequential_us: 8_000, random_us: 18_500 },
];

/// The programs whose files were on the RZ26.
const ON_RZ26: [&str; 2] = ["pjn", "sort"];

/// Frames of the ReadN experiments.
pub(super) const READ_N_FRAMES: u32 = 819;

pub(super) fn items(name: &str, advice: Advice, seed: u64) -> Vec<Item> {
    streams::items(name, &[], advice, seed)
}

pub(super) fn program(name: &str, advice: Advice, seed: u64) -> Program {
    let (_, compute_ms) = APPLICATIONS.into_iter().find(|(known, _)| *known == name).expect("an application");
    Program { items: items(name, advice, seed), compute_ms, disk: 0, period_ms: 0.0 }
}

/// Runs the programs together, each with its files on the disk where the paper had them.
pub(super) fn run_on_two_disks(
    names: &[&str],
    advice: Advice,
    policy: Policy,
    frames: u32,
    seed: u64,
) -> Result<Vec<Ran>, SimError> {
    let on_its_disk =
        |name: &&str| Program { disk: usize::from(ON_RZ26.contains(name)), ..program(name, advice, seed) };
    let programs: Vec<Program> = names.iter().map(on_its_disk).collect();
    service::run_on(&TWO_DISKS, &programs, policy, &Setup::frames(frames))
}

/// The program ReadN with groups of `n` blocks, over a file of `blocks` blocks; each group is read five
/// times. Foolish advice is MRU.
pub(super) fn read_n(blocks: u64, n: u64, advice: Advice) -> Program {
    let fool = Directive::Policy { tenant: 0, prio: 0, policy: PolicyKind::Mru };
    let advice = (advice == Advice::Foolish).then_some(Item::Directive(fool));
    let accesses =
        streams::grouped(0, blocks, n, 5).map(|block| Item::Access(Reference { block, site: 1, tenant: 0 }));
    Program { items: advice.into_iter().chain(accesses).collect(), compute_ms: 1.0, disk: 0, period_ms: 0.0 }
}

pub(super) fn read_300(advice: Advice) -> Program {
    read_n(1310, 300, advice)
}

/// The time at which the last program ended, in seconds.
pub(super) fn elapsed_s(ran: &[Ran]) -> f64 {
    ran.iter().map(|ran| ran.elapsed_s).fold(0.0, f64::max)
}

pub(super) fn misses(ran: &[Ran]) -> u64 {
    ran.iter().map(|ran| ran.counts.misses()).sum()
}

pub(super) fn percent_change(before: f64, after: f64) -> f64 {
    (after / before - 1.0) * 100.0
}

/// `-84 %`, and `+0 %` for changes too small to see.
pub(super) fn percent(change: f64) -> String {
    let rounded = change.round();
    format!("{:+.0} %", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Changes as findings list them: `-84 %, +0 %`.
pub(super) fn percents(changes: &[f64]) -> String {
    let texts: Vec<String> = changes.iter().copied().map(percent).collect();
    texts.join(", ")
}

pub(super) fn least(changes: &[f64]) -> f64 {
    changes.iter().copied().fold(f64::INFINITY, f64::min)
}

pub(super) fn sizes() -> String {
    listed(&SIZES)
}
