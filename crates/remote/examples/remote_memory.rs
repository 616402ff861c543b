//! Two processes that share the memory of a Redis server: what one of them has read, the other need not.
//!
//! `cargo run -p bufpool-remote --example remote_memory --features redis` starts a server where Redis or
//! Valkey is installed, and itself again as the second process. The table is on a simulated drive that takes
//! 5 ms for a read. Prints what it is on, and then, but for the counts:
//!
//! ```text
//! first process: 2000 pages read from the table, 1744 of them given up to the server
//! second process: 1500 of 1500 pages came from the server, 0 of them wrong
//! ```

#[path = "../tests/common/redis_server.rs"]
mod redis_server;

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use std::{env, error};

use bufpool::manager::Allocation;
use bufpool::sim::SimDevice;
use bufpool::tier::{Segments, TierAdmit, TierPolicy};
use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_remote::redis::RedisTier;
use redis_server::Server;

type Result<T, E = Box<dyn error::Error>> = std::result::Result<T, E>;

const PAGE_BYTES: usize = 8192;
const PAGES: u64 = 2_000;
const FRAMES: u32 = 256;
/// Pages that one read gets.
const RUN: u64 = 50;
/// Set for the second process: where the server is.
const URL: &str = "REMOTE_MEMORY_URL";

fn main() -> Result<()> {
    if let Ok(url) = env::var(URL) {
        return second(&url);
    }
    let Some(server) = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "volatile-ttl"]) else {
        return Ok(());
    };
    let (pool, file) = open(&server.url())?;
    println!("on {}", tier(&pool).report.note);
    read_runs(&pool, &file, 0..PAGES)?;
    let given_up = tier(&pool).demotions - tier(&pool).refused;
    println!("first process: {PAGES} pages read from the table, {given_up} of them given up to the server");
    drop(file);
    pool.close()?;
    let status = Command::new(env::current_exe()?).env(URL, server.url()).status()?;
    if status.success() { Ok(()) } else { Err("the second process failed".into()) }
}

/// What the second process does.
fn second(url: &str) -> Result<()> {
    let (pool, file) = open(url)?;
    let tenant = pool.default_tenant();
    // Pages that the first process had in its own memory show what a read from the table costs.
    for number in PAGES - 10..PAGES {
        check(&tenant.read(file.page(number))?, number)?;
    }
    let lookups = 1_500;
    // In no order of the table's.
    for number in (0..lookups).map(|at| at * 7 % lookups) {
        check(&tenant.read(file.page(number))?, number)?;
    }
    let tier = tier(&pool);
    println!(
        "second process: {} of {lookups} pages came from the server, {} of them wrong",
        tier.hits, tier.wrong
    );
    drop((file, tenant));
    Ok(pool.close()?)
}

/// The table, which is the same in both processes, as its tag and epoch say.
fn open(url: &str) -> Result<(Pool, File)> {
    let mut contents = vec![0; PAGES as usize * PAGE_BYTES];
    for (number, page) in (0_u64..).zip(contents.chunks_exact_mut(PAGE_BYTES)) {
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
    let device = SimDevice::new(1);
    device.put("orders", &contents);
    device.set_latency(Duration::from_millis(5), Duration::from_millis(5));
    let tier = Arc::new(RedisTier::new(url, "example")?);
    let policy = TierPolicy::DemoteAdapt(Segments::Uniform);
    // In LRU order alone, so that a page that is read once goes to the server as well.
    let options = PoolOptions::new().frames(FRAMES).page_bytes(PAGE_BYTES).threads_max(4);
    let options = options.allocation(Allocation::GlobalLru).manager(None).read_ahead(false);
    let pool = options.tier(tier, policy, TierAdmit::All).open_on(&device)?;
    let file = pool.open_file("orders", FileOptions::new().read_only(true).tag(7).epoch(1))?;
    Ok((pool, file))
}

/// Reads neighbouring pages at once; they come from the table.
fn read_runs(pool: &Pool, file: &File, numbers: std::ops::Range<u64>) -> Result<()> {
    for begin in numbers.step_by(RUN as usize) {
        let pages: Vec<_> = (begin..begin + RUN).map(|number| file.page(number)).collect();
        for (number, guard) in (begin..).zip(pool.default_tenant().read_many(&pages)) {
            check(&guard?.ok_or("no page")?, number)?;
        }
    }
    Ok(())
}

fn check(page: &[u8], number: u64) -> Result<()> {
    if page[..8] == number.to_le_bytes() { Ok(()) } else { Err(format!("page {number} is another").into()) }
}

fn tier(pool: &Pool) -> bufpool::tier::TierStats {
    pool.stats().tier.expect("the pool has a tier")
}
