//! The programs of `examples/programs` that have no twin in Rust: LHD misses what a naive LHD misses, which
//! is written here; GET-SCAN and LIRS do what their comments promise.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

use bufpool_bench::random::Random;
use bufpool_bench::simulate::{By, Policy, Setup, misses, simulate};
use bufpool_bench::trace::{Item, Reference, Trace};
use bufpool_policies::Allocation;
use bufpool_policies::program::Program;

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/programs").join(format!("{name}.policy"))
}

fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap()
}

/// Blocks, each with the site that accesses it.
fn trace(accesses: impl IntoIterator<Item = (u64, u32)>) -> Trace {
    let access = |(block, site)| Item::Access(Reference { block, site, tenant: 0 });
    Trace::of("stream", accesses.into_iter().map(access))
}

fn setup(text: &str, frames: u32) -> Setup {
    Setup { program: Some(Program::parse(text).unwrap()), ..Setup::frames(frames) }
}

fn program_misses(trace: &Trace, text: &str, frames: u32) -> u64 {
    misses(trace, Policy::Program(Allocation::LruSp), &setup(text, frames), None).unwrap()
}

/// The policy that lhd.policy describes, written plainly and without regard to speed.
struct Lhd {
    frames: usize,
    /// Pages not used since they came in, used once, more often, and back soon after they left.
    classes: [VecDeque<u64>; 4],
    /// Pages that left the first class, and the others.
    left: [VecDeque<u64>; 2],
    credit: [i64; 4],
    cost: [i64; 4],
    now: i64,
    since: i64,
    aged: i64,
    misses: u64,
}

impl Lhd {
    fn new(frames: usize) -> Self {
        let (classes, left) = Default::default();
        let (credit, cost) = ([0; 4], [1; 4]);
        Self { frames, classes, left, credit, cost, now: 0, since: 0, aged: 0, misses: 0 }
    }

    fn access(&mut self, page: u64) {
        let is_here = |class: &VecDeque<u64>| class.contains(&page);
        match self.classes.iter().position(is_here) {
            Some(class) => {
                self.now += 1;
                self.credit[class] += 2;
                self.classes[class].retain(|other| *other != page);
                self.classes[if class == 0 { 1 } else { 2 }].push_back(page);
            }
            None => self.miss(page),
        }
    }

    fn miss(&mut self, page: u64) {
        self.misses += 1;
        if self.classes.iter().map(VecDeque::len).sum::<usize>() == self.frames {
            self.evict();
        }
        self.now += 1;
        self.settle();
        let from = self.left.iter().position(|left| left.contains(&page));
        let class = match from {
            Some(left) => {
                self.left[left].retain(|other| *other != page);
                self.credit[2 * left] += 1;
                3
            }
            None => 0,
        };
        self.classes[class].push_back(page);
    }

    fn evict(&mut self) {
        let density = |class: &usize| (self.credit[*class] << 20) / self.cost[*class];
        let with_pages = (0..4).filter(|class| !self.classes[*class].is_empty());
        let class = with_pages.min_by_key(density).unwrap();
        let page = self.classes[class].pop_front().unwrap();
        let left = &mut self.left[class.min(1)];
        left.push_back(page);
        if left.len() > self.frames {
            left.pop_front();
        }
    }

    fn settle(&mut self) {
        let passed = self.now - self.since;
        self.since = self.now;
        let mut pages = 0;
        for (cost, class) in self.cost.iter_mut().zip(&self.classes) {
            *cost += class.len() as i64 * passed;
            pages += class.len() as i64;
        }
        if self.now - self.aged > 8 * pages {
            self.aged = self.now;
            self.credit.iter_mut().for_each(|credit| *credit /= 2);
            self.cost.iter_mut().for_each(|cost| *cost = (*cost / 2).max(1));
        }
    }
}

#[test]
fn lhd_misses_what_its_twin_misses() {
    let mut random = Random::new(4);
    let mut skewed = |most: f64| (random.unit().powi(3) * most) as u64;
    let hot: Vec<u64> = (0..8000).map(|_| skewed(300.0)).collect();
    let looped = (0..8000).map(|at| at % 120).collect();
    let mixed = hot.iter().zip(0..).map(|(block, at)| if at % 3 == 0 { 1000 + at % 90 } else { *block });
    let phases = (0..8000_u64).map(|at| if at / 1500 % 2 == 0 { hot[at as usize] } else { 500 + at % 70 });
    let streams = [looped, mixed.collect(), phases.collect(), hot.clone()];
    for (number, stream) in streams.iter().enumerate() {
        let trace = trace(stream.iter().map(|block| (*block, 0)));
        for frames in [1, 2, 5, 30, 64, 100] {
            let mut twin = Lhd::new(frames as usize);
            stream.iter().for_each(|block| twin.access(*block));
            let found = program_misses(&trace, &text("lhd"), frames);
            assert_eq!(found, twin.misses, "stream {number}, {frames} frames");
        }
    }
}

/// Misses of the lookups, whose site is 2, in a stream that begins with an access of a scan, whose site is 1.
/// So the context of scans is 1, too: contexts are numbered in the order of their first accesses.
fn lookup_misses(trace: &Trace, text: &str, frames: u32) -> u64 {
    let setup = Setup { by: By::Site, ..setup(text, frames) };
    simulate(trace, Policy::Program(Allocation::LruSp), &setup, None).unwrap().counts[&2].misses()
}

#[test]
fn get_scan_knows_a_scan_by_its_pattern() {
    // A scan for a while, then 20 pages in turn, each after the next page of the scan.
    let alone = (960..1000).map(|block| (block, 1));
    let beside = (0..4000_u64).map(|at| if at % 2 == 0 { (1000 + at / 2, 1) } else { (at / 2 % 20 * 7, 2) });
    let stream = alone.chain(beside);
    let trace = trace(stream);
    assert_eq!(lookup_misses(&trace, &text("get-scan"), 30), 20, "each page once");
    assert_eq!(lookup_misses(&trace, &text("lru"), 30), 2000, "each time");
}

#[test]
fn get_scan_knows_a_scan_by_its_context() {
    let mut random = Random::new(9);
    // Scans that come back to their pages in no order, so that only their context tells that they are scans.
    let mut scanned = || (1000 + random.below(500) * 3, 1);
    let stream: Vec<_> =
        (0..4000_u64).map(|at| if at % 2 == 0 { scanned() } else { (at / 2 % 20 * 7, 2) }).collect();
    let trace = trace(stream);
    let told = text("get-scan").replace("int scan_context = -2", "int scan_context = 1");
    assert_ne!(told, text("get-scan"));
    assert_eq!(lookup_misses(&trace, &told, 30), 20, "each page once");
    assert!(lookup_misses(&trace, &text("get-scan"), 30) > 1000, "nothing tells them apart");
}

#[test]
fn a_lookup_makes_a_page_of_a_scan_its_own() {
    // A scan by context, ten of whose pages lookups use from then on, beside another long scan.
    let scan = (0..60).map(|block| (block, 1));
    let looked_up = (0..10).map(|at| (50 + at, 2));
    let beside = (0..2000_u64).map(|at| if at % 2 == 0 { (1000 + at, 1) } else { (50 + at / 2 % 10, 2) });
    let trace = trace(scan.chain(looked_up).chain(beside));
    let told = text("get-scan").replace("int scan_context = -2", "int scan_context = 1");
    assert_eq!(lookup_misses(&trace, &told, 15), 0);
}

#[test]
fn lirs_keeps_a_part_of_a_loop_and_hot_pages_beside_scans() {
    // 40 rounds of 150 pages in 100 frames, of which one in 50 is for pages that are not kept. The misses are
    // at most those of 98 pages that stay, and at least those of 100.
    let looped = trace((0..6000).map(|at| (at % 150, 0)));
    let found = program_misses(&looped, &text("lirs"), 100);
    assert!((150 + 39 * (150 - 100)..=150 + 39 * (150 - 98)).contains(&found), "{found}");
    let stream = (0..4000_u64).map(|at| if at % 2 == 0 { (1000 + at, 1) } else { (at / 2 % 20, 2) });
    let beside = trace(stream);
    // Pages that come in when all frames are in use are HIR pages, and become LIR pages when they come back.
    assert!((20..=40).contains(&lookup_misses(&beside, &text("lirs"), 30)), "each page once or twice");
    assert_eq!(lookup_misses(&beside, &text("lru"), 30), 2000, "each time");
}

#[test]
fn the_program_found_is_written_as_the_search_writes_it() {
    let text = text("found");
    let code = text.split_once("policy found").map(|(_, code)| format!("policy found{code}")).unwrap();
    assert_eq!(Program::parse(&text).unwrap().to_text(), code);
}
