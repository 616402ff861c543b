//! What a pool over an object store costs beside the store's client alone, and what a commit costs.
//!
//! `cargo bench -p bufpool-remote --bench object`; with `--features s3` on an S3 server of this machine,
//! where one is installed, otherwise on a folder. Each figure is the median of `ROUNDS` alternating rounds.
//!
//! * *Cold scan*: all pages in order by `read_many`, beside range requests of the same runs, as many in flight.
//! * *Point lookups*: random pages with 64 in flight, beside range requests of a page.
//! * *Commit*: requests and bytes of a flush of 1,000 dirty pages, neighbours and scattered.

#[path = "../tests/common/s3.rs"]
mod s3;

use std::sync::Arc;
use std::time::Instant;

use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_remote::object::object_store::local::LocalFileSystem;
use bufpool_remote::object::object_store::path::Path;
use bufpool_remote::object::object_store::{ObjectStore, ObjectStoreExt};
use bufpool_remote::object::{ObjectOptions, ObjectSource, import};
use futures_util::stream::{FuturesUnordered, StreamExt, TryStreamExt, iter};

const PAGE_BYTES: usize = 8192;
const FRAMED_BYTES: u64 = PAGE_BYTES as u64 + 16;
const PAGES: u64 = (128 << 20) / PAGE_BYTES as u64;
const CHUNK_PAGES: u64 = 128;
/// Pages of a run: 256 KiB.
const RUN_PAGES: u64 = 32;
const IN_FLIGHT: usize = 64;
const LOOKUPS: usize = 4096;
const ROUNDS: usize = 5;

fn main() {
    // `cargo test --benches` only wants to know that it builds.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let server = s3::start();
    let store: Arc<dyn ObjectStore> = match &server {
        Some(server) => server.store(),
        None => Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()),
    };
    println!("on {store}: {PAGES} pages of {PAGE_BYTES} bytes, chunks of {CHUNK_PAGES}");
    let local = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(local.path(), vec![7; PAGES as usize * PAGE_BYTES]).unwrap();
    import(store.clone(), "bench", local.path(), &options()).unwrap();
    let chunks = chunks(&*store);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();

    let mib = (PAGES as usize * PAGE_BYTES) as f64 / f64::from(1 << 20);
    let (mut pools, mut bares) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        bares.push(mib / seconds(|| runtime.block_on(bare_scan(&*store, &chunks))));
        let (pool, file) = open(&store);
        pools.push(mib / seconds(|| scan(&pool, &file)));
    }
    tell("cold scan, MiB/s", pools, bares);

    let (mut pools, mut bares) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let pages = random_pages(round as u64);
        bares.push(LOOKUPS as f64 / seconds(|| runtime.block_on(bare_lookups(&*store, &chunks, &pages))));
        let (pool, file) = open(&store);
        pools.push(LOOKUPS as f64 / seconds(|| runtime.block_on(lookups(&pool, &file, &pages))));
    }
    tell("point lookups with 64 in flight, per second", pools, bares);

    for (what, step) in [("neighbours", 1), ("scattered", 13)] {
        let pool = PoolOptions::new().memory_bytes(64 << 20).page_bytes(PAGE_BYTES).open().unwrap();
        let source = ObjectSource::open(store.clone(), "bench", options()).unwrap();
        let file = pool.open_source(source.clone(), FileOptions::new()).unwrap();
        for number in 0..1000 {
            pool.default_tenant().write(file.page(number * step)).unwrap()[0] = step as u8;
        }
        let before = source.report();
        file.flush().unwrap();
        let after = source.report();
        let (puts, bytes) = (after.puts - before.puts, after.put_bytes - before.put_bytes);
        println!("commit of 1000 dirty pages, {what}: {puts} requests, {bytes} bytes");
        pool.close().unwrap();
    }
}

fn options() -> ObjectOptions {
    ObjectOptions::new()
        .page_bytes(PAGE_BYTES as u32)
        .chunk_pages(CHUNK_PAGES as u32)
        .requests_in_flight(IN_FLIGHT as u32)
}

fn open(store: &Arc<dyn ObjectStore>) -> (Pool, File) {
    let pool = PoolOptions::new().memory_bytes(64 << 20).page_bytes(PAGE_BYTES).open().unwrap();
    let source = ObjectSource::open_read_only(store.clone(), "bench", options()).unwrap();
    let file = pool.open_source(source, FileOptions::new().read_only(true)).unwrap();
    (pool, file)
}

/// The chunks of the imported file, in the order of its pages.
fn chunks(store: &dyn ObjectStore) -> Vec<Path> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = Path::from("bench/chunk");
    let mut chunks: Vec<_> = runtime.block_on(store.list(Some(&folder)).try_collect()).unwrap();
    chunks.sort_by(|a: &bufpool_remote::object::object_store::ObjectMeta, b| a.location.cmp(&b.location));
    chunks.into_iter().map(|meta| meta.location).collect()
}

async fn bare_read(store: &dyn ObjectStore, chunks: &[Path], first: u64, pages: u64) -> u64 {
    let from = first % CHUNK_PAGES * FRAMED_BYTES;
    let chunk = &chunks[(first / CHUNK_PAGES) as usize];
    store.get_range(chunk, from..from + pages * FRAMED_BYTES).await.unwrap().len() as u64
}

async fn bare_scan(store: &dyn ObjectStore, chunks: &[Path]) {
    let runs = (0..PAGES).step_by(RUN_PAGES as usize);
    let reads = iter(runs.map(|first| bare_read(store, chunks, first, RUN_PAGES)));
    let bytes: u64 = reads.buffer_unordered(IN_FLIGHT).fold(0, async |sum, bytes| sum + bytes).await;
    assert_eq!(bytes, PAGES * FRAMED_BYTES);
}

async fn bare_lookups(store: &dyn ObjectStore, chunks: &[Path], pages: &[u64]) {
    let reads = iter(pages.iter().map(|&page| bare_read(store, chunks, page, 1)));
    let bytes: u64 = reads.buffer_unordered(IN_FLIGHT).fold(0, async |sum, bytes| sum + bytes).await;
    assert_eq!(bytes, LOOKUPS as u64 * FRAMED_BYTES);
}

/// As many runs in flight.
fn scan(pool: &Pool, file: &File) {
    let tenant = pool.default_tenant();
    for first in (0..PAGES).step_by(RUN_PAGES as usize * IN_FLIGHT) {
        let end = (first + RUN_PAGES * IN_FLIGHT as u64).min(PAGES);
        let pages: Vec<_> = (first..end).map(|number| file.page(number)).collect();
        assert!(tenant.read_many(&pages).into_iter().all(|page| page.unwrap().unwrap()[0] == 7));
    }
}

async fn lookups(pool: &Pool, file: &File, pages: &[u64]) {
    let tenant = pool.default_tenant();
    let mut rest = pages.iter();
    let read = |&number: &u64| tenant.read_async(file.page(number));
    let mut flying: FuturesUnordered<_> = rest.by_ref().take(IN_FLIGHT).map(read).collect();
    while let Some(page) = flying.next().await {
        assert_eq!(page.unwrap()[0], 7);
        flying.extend(rest.next().map(read));
    }
}

fn random_pages(seed: u64) -> Vec<u64> {
    let mut random = seed + 1;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % PAGES
    };
    (0..LOOKUPS).map(|_| next()).collect()
}

fn seconds(work: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    work();
    begun.elapsed().as_secs_f64()
}

fn tell(what: &str, pool: Vec<f64>, bare: Vec<f64>) {
    let median = |mut figures: Vec<f64>| {
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let (pool, bare) = (median(pool), median(bare));
    println!("{what}: pool {pool:.0}, object_store alone {bare:.0}, ratio {:.2}", pool / bare);
}
