//! Part D of the published experiments, and the simulator's clients above a lower cache.
//!
//! Goal: figures are those of T. M. Wong, J. Wilkes: "My cache or yours? Making storage more exclusive",
//! USENIX ATC '02, as far as its streams are known. Counts are those of naive clients, which are vectors.

use std::collections::BTreeMap;

use bufpool_bench::experiments::exclusive::{best_shares, speed_ups};
use bufpool_bench::experiments::{self, Context, Verdict};
use bufpool_bench::random::Random;
use bufpool_bench::simulate::{By, Counts, LowerCache, Policy, Setup, simulate};
use bufpool_bench::streams::{self, Advice};
use bufpool_bench::trace::{Item, Reference, Trace};
use bufpool_policies::classic::PolicyKind;
use bufpool_policies::tier::{Arrival, TierKind, TierOrder, TierSetup};
use bufpool_policies::{Allocation, PageId};

const LRU: Policy = Policy::OneLevel(PolicyKind::Lru);
const CONTEXT: Context = Context { seed: 1, jobs: 2 };

fn lower(kind: TierKind, frames: u32) -> Option<LowerCache> {
    Some(LowerCache { kind, frames, client_per_tenant: false })
}

fn stream(name: &str, blocks: u64, accesses: u64) -> Trace {
    let set = [format!("blocks={blocks}"), format!("accesses={accesses}")];
    Trace::of(name, streams::items(name, &[&set[0], &set[1]], Advice::None, 1))
}

fn total(trace: &Trace, setup: &Setup) -> Counts {
    simulate(trace, LRU, setup, None).expect("a simulation").total()
}

/// Hit rates in per cent of client and array, each with `frames` blocks, after the warm-up.
fn percents(trace: &Trace, frames: u32, kind: TierKind) -> [f64; 2] {
    let setup = Setup { lower: lower(kind, frames), warm_up: trace.distinct(), ..Setup::frames(frames) };
    let counts = total(trace, &setup);
    [counts.hits, counts.tier_hits].map(|hits| 100.0 * hits as f64 / counts.accesses as f64)
}

/// Uniform reads and loops have the paper's rates at any scale.
#[test]
fn small_caches_have_the_rates_of_large_ones() {
    const FRAMES: u32 = 1024;
    let is_near = |found: [f64; 2], expected: [f64; 2]| {
        assert!((0..2).all(|at| (found[at] - expected[at]).abs() <= 0.8), "{found:?}, not {expected:?}");
    };
    let random = stream("random", 2048, 11 * 2048);
    is_near(percents(&random, FRAMES, TierKind::NoneLru), [49.9, 8.4]);
    is_near(percents(&random, FRAMES, TierKind::DemoteLru), [49.9, 21.6]);
    is_near(percents(&random, FRAMES, TierKind::Demote), [49.9, 46.4]);
    let cyclic = stream("cyclic", 2047, 11 * 2047);
    assert_eq!(percents(&cyclic, FRAMES, TierKind::NoneLru), [0.0, 0.0]);
    assert_eq!(percents(&cyclic, FRAMES, TierKind::DemoteLru), [0.0, 0.0]);
    assert_eq!(percents(&cyclic, FRAMES, TierKind::Demote), [0.0, 100.0]);
}

/// From a cold start, for uniform reads, loops and Zipf's law, under a one-level and a two-level policy of
/// the client. The one cache has a frame less than both, because a client ejects a page before it reads
/// another.
#[test]
fn a_client_above_demote_is_one_lru_cache() {
    const FRAMES: [u32; 3] = [100, 200, 301];
    for (name, blocks) in [("random", 500), ("cyclic", 299), ("cyclic", 300), ("zipf", 900)] {
        let trace = stream(name, blocks, 9000);
        for client in FRAMES {
            for array in FRAMES {
                let one = total(&trace, &Setup::frames(client + array - 1));
                for policy in [LRU, Policy::TwoLevel(Allocation::LruSp)] {
                    let setup = Setup { lower: lower(TierKind::Demote, array), ..Setup::frames(client) };
                    let counts = simulate(&trace, policy, &setup, None).unwrap().total();
                    assert_eq!(counts.hits + counts.tier_hits, one.hits, "{name}, {client} + {array}");
                    assert_eq!(counts.demotions, counts.evictions);
                }
            }
        }
    }
}

/// A client's own hits do not depend on the array, except under PROMOTE; and INCLUSIVE has the counts of
/// NONE-LRU.
#[test]
fn clients_hit_alike_above_any_array_but_promote() {
    let trace = stream("zipf", 900, 9000);
    let alone = total(&trace, &Setup::frames(100));
    for name in TierKind::NAMES.map(|name| name.replace("PERCENT", "50")) {
        let kind: TierKind = name.parse().unwrap();
        let setup = Setup { lower: lower(kind, 150), ..Setup::frames(100) };
        let counts = total(&trace, &setup);
        let (tier_hits, demotions, aborted) = (counts.tier_hits, counts.demotions, counts.aborted);
        if kind == TierKind::Promote {
            assert!(counts.evictions < alone.evictions && counts.tier_hits > 0);
        } else {
            assert_eq!(Counts { tier_hits: 0, demotions: 0, aborted: 0, ..counts }, alone, "{name}");
        }
        assert_eq!(demotions, if kind.demotes() { counts.evictions } else { 0 }, "{name}");
        assert!(aborted <= demotions && tier_hits <= counts.misses(), "{name}");
    }
    let [none, inclusive] = [TierKind::NoneLru, TierKind::Inclusive]
        .map(|kind| total(&trace, &Setup { lower: lower(kind, 150), ..Setup::frames(100) }));
    assert_eq!(none, inclusive);
}

/// A client as a vector, most recently used last.
#[derive(Default)]
struct Client {
    pages: Vec<PageId>,
    used_at: BTreeMap<PageId, u64>,
    counts: Counts,
}

/// Clients by the rules of the paper's simulator, above a lower cache of any scheme.
struct Naive {
    clients: BTreeMap<u32, Client>,
    frames: usize,
    kind: TierKind,
    order: Box<dyn TierOrder>,
}

impl Naive {
    fn access(&mut self, now: u64, page: PageId, tenant: u32) {
        let client = self.clients.get_mut(&tenant).unwrap();
        client.counts.accesses += 1;
        client.used_at.insert(page, now);
        if let Some(at) = client.pages.iter().position(|other| *other == page) {
            client.counts.hits += 1;
            client.pages.remove(at);
            return client.pages.push(page);
        }
        if self.kind != TierKind::Promote {
            self.eject(now, tenant);
        }
        let found = self.order.read(page);
        let stays = match found {
            Some(found) => found.stays,
            None => self.order.fill(page) != Arrival::NotKept,
        };
        self.clients.get_mut(&tenant).unwrap().counts.tier_hits += u64::from(found.is_some());
        if self.kind != TierKind::Promote || !stays {
            self.eject(now, tenant);
            self.clients.get_mut(&tenant).unwrap().pages.push(page);
        }
    }

    fn eject(&mut self, now: u64, tenant: u32) {
        let client = self.clients.get_mut(&tenant).unwrap();
        if client.pages.len() < self.frames {
            return;
        }
        let gone = client.pages.remove(0);
        client.counts.evictions += 1;
        self.order.hear_age(now, now - client.used_at[&gone]);
        if self.kind.demotes() {
            client.counts.demotions += 1;
            client.counts.aborted += u64::from(matches!(self.order.demote(gone), Arrival::Present(_)));
        }
    }
}

#[test]
fn clients_count_as_naive_ones() {
    let mut random = Random::new(7);
    let mut kinds = TierKind::NAMES.map(|name| name.replace("PERCENT", "30").parse().unwrap()).to_vec();
    kinds.push(TierKind::Slru { protected_percent: 80 });
    for (tenants, frames, array) in [(1, 9, 20), (3, 9, 20), (4, 5, 12), (2, 30, 1100)] {
        let references: Vec<Reference> = (0..4000)
            .map(|_| {
                let tenant = 3 * random.below(tenants) as u32;
                let block = match random.below(2) {
                    0 => random.below(u64::from(array) + 10),
                    _ => 10_000 * u64::from(tenant + 1) + random.below(u64::from(frames) * 2),
                };
                Reference { block, site: 0, tenant }
            })
            .collect();
        let trace = Trace::of("clients", references.iter().copied().map(Item::Access));
        for kind in &kinds {
            for warm_up in [0, 1500] {
                let lower = LowerCache { kind: *kind, frames: array, client_per_tenant: true };
                let all = frames * tenants as u32;
                let setup =
                    Setup { lower: Some(lower), warm_up, by: By::Tenant, seed: 5, ..Setup::frames(all) };
                let counts = simulate(&trace, LRU, &setup, None).expect("a simulation").counts;
                let mut naive = Naive {
                    clients: (0..tenants as u32).map(|tenant| (3 * tenant, Client::default())).collect(),
                    frames: frames as usize,
                    kind: *kind,
                    order: kind.build(TierSetup { frames: array, client_frames: all, seed: 5 }),
                };
                for (now, reference) in references.iter().enumerate() {
                    if now as u64 == warm_up {
                        naive.order.reset_ratios();
                        naive.clients.values_mut().for_each(|client| client.counts = Counts::default());
                    }
                    naive.access(now as u64, PageId(reference.block), reference.tenant);
                }
                let expected: BTreeMap<u64, Counts> = naive
                    .clients
                    .iter()
                    .map(|(tenant, client)| (u64::from(*tenant), client.counts))
                    .collect();
                assert_eq!(counts, expected, "{kind}, {tenants} clients, warm-up {warm_up}");
            }
        }
    }
}

/// Which published figures are reproduced, and that none is contradicted.
#[test]
fn published_figures_are_found_where_they_can_be() {
    let mut not_reproduced = Vec::new();
    let mut reproduced = BTreeMap::new();
    for experiment in experiments::all().filter(|experiment| {
        // The experiments of sizes and shares have tests of their own, at a smaller scale.
        experiment.id.starts_with('D') && !["D8", "D9", "D12"].contains(&experiment.id)
    }) {
        for finding in experiment.run(&CONTEXT).expect("an experiment") {
            match finding.verdict {
                Verdict::Reproduced => *reproduced.entry(finding.id).or_insert(0) += 1,
                Verdict::SameOrder(_) => {}
                Verdict::NotReproduced(_) | Verdict::NotRun(_) => not_reproduced.push(finding),
            }
        }
    }
    assert!(not_reproduced.is_empty(), "{not_reproduced:?}");
    let expected = [("D1", 1), ("D10", 1), ("D11", 2), ("D2", 1), ("D3", 3), ("D4", 2), ("D5", 2), ("D6", 1)];
    let expected: BTreeMap<&str, i32> = expected.into_iter().chain([("D7", 1)]).collect();
    assert_eq!(reproduced, expected);
}

#[test]
fn demotions_gain_most_where_sizes_are_equal() {
    let found = speed_ups(256, &CONTEXT).expect("simulations");
    let best = found.iter().max_by(|a, b| a.1[1].total_cmp(&b.1[1])).unwrap();
    assert_eq!(best.0, 32, "{found:?}");
    for (size, [demote_lru, demote]) in &found {
        assert!(demote >= demote_lru, "{size}/32: DEMOTE-LRU is faster");
        assert!(*demote > 1.02 || !(3..=320).contains(size), "{size}/32: {demote}");
    }
}

#[test]
fn no_share_of_protected_blocks_is_the_best_for_all() {
    let found = best_shares(256, &CONTEXT).expect("simulations");
    let common = (1..=99).filter(|share| found.iter().all(|(_, best)| best.contains(share)));
    assert_eq!(common.count(), 0, "{found:?}");
    let least = |name: &str| found.iter().find(|(other, _)| *other == name).expect("a workload").1[0];
    assert!(least("RANDOM") < 8 && least("8 clients with blocks of their own") > 8, "{found:?}");
}
