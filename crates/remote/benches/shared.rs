//! Two pools that share the memory of a Redis server: what a read of a page takes them, by what is kept
//! there.
//!
//! `cargo bench -p bufpool-remote --features redis --bench shared` starts a server where Redis or Valkey is
//! installed. The pools read the same pages in the same order, of a simulated drive of their own that takes 2
//! ms for a read, and one of them is `lag` reads behind the other. Each figure is the median of `ROUNDS`
//! alternating rounds of the mean over the reads of both pools, of which the first half is left out.
//!
//! What the bar is for is the sharing of experiment D11 (`bufbench paper --experiment D11`) at a sixteenth of
//! its size: Zipf's law over three times a pool's pages, the server with room for as many pages as a pool,
//! and a short lag. Two more, without a bar, read uniformly over far more pages than there is room for, so
//! that nearly each page is read once by each pool. With a short lag the first pool still has a page when the
//! second wants it. With a long one the first pool has given it up, and nobody wants it any more when the
//! second has taken it: there DEMOTE, which lets it go, is the better policy, as it is in the simulator
//! (`bufbench sim --clients --tier`), because ADAPT keeps longest what was taken.

#[path = "../tests/common/redis_server.rs"]
mod redis_server;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bufpool::manager::Allocation;
use bufpool::sim::SimDevice;
use bufpool::tier::{Segments, TierAdmit, TierPolicy};
use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_policies::SplitMix64;
use bufpool_remote::redis::RedisTier;
use redis_server::Server;

const PAGE_BYTES: usize = 8192;
const FRAMES: u32 = 256;
const READS: u64 = 6_000;
const LATENCY: Duration = Duration::from_millis(2);
const ROUNDS: usize = 3;
/// ADAPT against the better of DEMOTE and none, at most.
const BAR: f64 = 1.05;

/// What both pools read.
struct Sharing {
    name: &'static str,
    /// Pages of the file, and of these those that the server has room for.
    pages: u64,
    room: usize,
    /// Of Zipf's law; 0 for a uniform one.
    exponent: f64,
    /// Reads between the two pools.
    lag: u64,
    has_bar: bool,
}

const SHARINGS: [Sharing; 3] = [
    Sharing { name: "Zipf's law", pages: 768, room: 256, exponent: 1.0, lag: 6, has_bar: true },
    Sharing { name: "uniform", pages: 4_000, room: 1_024, exponent: 0.0, lag: 600, has_bar: false },
    Sharing { name: "uniform", pages: 4_000, room: 1_024, exponent: 0.0, lag: 60, has_bar: false },
];

const KINDS: [(&str, Option<TierPolicy>); 5] = [
    ("none", None),
    ("DEMOTE", Some(TierPolicy::Demote)),
    ("ADAPT-UNI", Some(TierPolicy::DemoteAdapt(Segments::Uniform))),
    ("ADAPT-EXP", Some(TierPolicy::DemoteAdapt(Segments::Exponential))),
    ("PROMOTE", Some(TierPolicy::Promote)),
];

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    for sharing in &SHARINGS {
        let mut figures: [Vec<Outcome>; KINDS.len()] = Default::default();
        for round in 0..ROUNDS {
            for ((_, policy), figures) in KINDS.into_iter().zip(&mut figures) {
                let Some(outcome) = run(sharing, policy, round as u64) else { return };
                figures.push(outcome);
            }
        }
        print(sharing, figures.map(median));
    }
}

fn print(sharing: &Sharing, medians: [Outcome; KINDS.len()]) {
    println!("{}, lag of {} reads:", sharing.name, sharing.lag);
    let better = medians[0].read_us.min(medians[1].read_us);
    for ((name, _), Outcome { read_us, tier_hits }) in KINDS.iter().zip(medians) {
        let ratio = read_us / better;
        let verdict = match name.starts_with("ADAPT") && sharing.has_bar {
            true if ratio <= BAR => ", within the bar",
            true => ", above the bar",
            false => "",
        };
        println!(
            "  {name:9} {read_us:6.0} us a read, {tier_hits:5} from the server, {ratio:.2} of the better{verdict}"
        );
    }
}

#[derive(Clone, Copy)]
struct Outcome {
    read_us: f64,
    tier_hits: u64,
}

fn median(mut outcomes: Vec<Outcome>) -> Outcome {
    outcomes.sort_by(|a, b| a.read_us.total_cmp(&b.read_us));
    outcomes[outcomes.len() / 2]
}

/// How far the first pool is.
#[derive(Default)]
struct Progress {
    reads: Mutex<u64>,
    changed: Condvar,
}

impl Progress {
    fn advance(&self) {
        *self.reads.lock().unwrap() += 1;
        self.changed.notify_all();
    }

    fn wait_for(&self, reads: u64) {
        let behind = |now: &mut u64| *now < reads.min(READS);
        drop(self.changed.wait_while(self.reads.lock().unwrap(), behind).unwrap());
    }
}

/// The pages that both pools read.
fn order(sharing: &Sharing, seed: u64) -> Vec<u64> {
    let weight = |number: u64| (number as f64 + 1.0).powf(-sharing.exponent);
    let mut sum = 0.0;
    let sums: Vec<f64> = (0..sharing.pages)
        .map(|number| {
            sum += weight(number);
            sum
        })
        .collect();
    let mut random = SplitMix64::new(seed);
    let draw = |_| {
        let drawn = random.unit() * sum;
        sums.partition_point(|before| *before <= drawn) as u64
    };
    (0..READS).map(draw).map(|number| number.min(sharing.pages - 1)).collect()
}

/// None if there is no server.
fn run(sharing: &Sharing, policy: Option<TierPolicy>, seed: u64) -> Option<Outcome> {
    let room = sharing.room * PAGE_BYTES * 5 / 4;
    let order = order(sharing, seed);
    let server = Server::start(&["--maxmemory", &room.to_string(), "--maxmemory-policy", "volatile-ttl"])?;
    let (progress, spent_us) = (Progress::default(), AtomicU64::new(0));
    let client = |is_first: bool| {
        let (pool, file) = open(sharing.pages, policy.map(|policy| (policy, server.url())));
        let tenant = pool.default_tenant();
        for (at, number) in (0..).zip(&order) {
            if !is_first {
                progress.wait_for(at + sharing.lag);
            }
            let begun = Instant::now();
            assert_eq!(tenant.read(file.page(*number)).unwrap()[..8], number.to_le_bytes());
            if at >= READS / 2 {
                spent_us.fetch_add(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
            if is_first {
                progress.advance();
            }
        }
        let hits = pool.stats().tier.map_or(0, |tier| tier.hits);
        drop((file, tenant));
        pool.close().unwrap();
        hits
    };
    let tier_hits = std::thread::scope(|scope| {
        let second = scope.spawn(|| client(false));
        client(true) + second.join().unwrap()
    });
    Some(Outcome { read_us: spent_us.into_inner() as f64 / READS as f64, tier_hits })
}

/// In LRU order alone, as the published policies have it.
fn open(pages: u64, tier: Option<(TierPolicy, String)>) -> (Pool, File) {
    let mut contents = vec![0; pages as usize * PAGE_BYTES];
    for (number, page) in (0_u64..).zip(contents.chunks_exact_mut(PAGE_BYTES)) {
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
    let device = SimDevice::new(1);
    device.put("table", &contents);
    device.set_latency(LATENCY, LATENCY);
    let options = PoolOptions::new().frames(FRAMES).page_bytes(PAGE_BYTES).threads_max(4);
    let options = options.allocation(Allocation::GlobalLru).manager(None).read_ahead(false);
    let options = match tier {
        Some((policy, url)) => {
            options.tier(Arc::new(RedisTier::new(&url, "bench").unwrap()), policy, TierAdmit::All)
        }
        None => options,
    };
    let pool = options.open_on(&device).unwrap();
    let file = pool.open_file("table", FileOptions::new().read_only(true).tag(7).epoch(1)).unwrap();
    (pool, file)
}
