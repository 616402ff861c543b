//! How long statistics and the redo point hold the policy lock of a large pool:
//! `cargo run --release -p bufpool --example lock_holds [FRAMES]`, by default 2 million frames of 512 bytes.
//! Misses wait meanwhile. Prints the mean of the holds that the pool has timed, one in 61.

use std::error::Error;
use std::time::Instant;

use bufpool::engine::Log;
use bufpool::{Direct, FileOptions, Pool, PoolOptions};

const PAGE_BYTES: usize = 512;
/// One page in this many is dirty.
const DIRTY_SHARE: u64 = 100;
const CALLS: u32 = 61;

/// Everything is durable at once.
struct Durable;

impl Log for Durable {
    fn end(&self) -> u64 {
        1
    }

    fn durable(&self) -> u64 {
        1
    }

    fn advance(&self, _: u64) -> Result<(), Box<dyn Error + Send + Sync>> {
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let frames: u32 = std::env::args().nth(1).map_or(Ok(2_000_000), |frames| frames.parse())?;
    let folder = tempfile::tempdir_in(".")?;
    let path = folder.path().join("data");
    std::fs::File::create(&path)?.set_len(u64::from(frames) * PAGE_BYTES as u64)?;
    let options = PoolOptions::new().frames(frames).page_bytes(PAGE_BYTES).direct(Direct::Off);
    let pool = options.log(Box::new(Durable)).open()?;
    let file = pool.open_file(&path, FileOptions::new())?;
    let tenant = pool.default_tenant();
    for number in 0..u64::from(frames) {
        if number % DIRTY_SHARE == 0 {
            tenant.write(file.page(number))?[0] = 1;
        } else {
            drop(tenant.read(file.page(number))?);
        }
    }
    print_holds("stats()", &pool, || drop(pool.stats()));
    print_holds("min_dirty_lsn()", &pool, || assert!(pool.min_dirty_lsn().is_some()));
    Ok(())
}

/// Of `CALLS` calls.
fn print_holds(name: &str, pool: &Pool, mut call: impl FnMut()) {
    let (before, begun) = (pool.stats(), Instant::now());
    (0..CALLS).for_each(|_| call());
    let milliseconds = begun.elapsed().as_secs_f64() * 1e3 / f64::from(CALLS);
    let after = pool.stats();
    let (holds, held_ns) = (after.lock_holds - before.lock_holds, after.lock_held_ns - before.lock_held_ns);
    println!(
        "{name:16} {milliseconds:8.2} ms a call, {} holds a call, of {:.1} us",
        holds / u64::from(CALLS),
        held_ns as f64 / holds as f64 / 1e3
    );
}
