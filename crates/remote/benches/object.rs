//! What a pool over an object store costs beside the store's client alone, and what a commit costs.
//!
//! `cargo bench -p bufpool-remote --bench object -- [MIB]`, of a file of `MIB` MiB, 128 by default. With
//! `--features s3` on an S3 server of this machine, where one is installed, otherwise on a folder. Each
//! figure is the median of `ROUNDS` alternating rounds.
//!
//! * *Cold scan*: all pages in order, with 64 runs of 32 pages ahead by `prefetch`, beside range requests of
//!   the same runs, as many in flight.
//! * *Point lookups*: random pages with 64 in flight, beside range requests of a page.
//! * *Commit*: requests and bytes of a flush of 1,000 dirty pages, neighbours and scattered.
//!
//! A pool has each page in memory of its own, checked. `object_store alone` has neither, and drops what it
//! gets; `copied and checked` copies it to memory of its own, as large as the pool's, and computes the same
//! checksums.

#[path = "../tests/common/s3.rs"]
mod s3;

use std::cell::{Cell, RefCell};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;

use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_remote::object::object_store::local::LocalFileSystem;
use bufpool_remote::object::object_store::path::Path;
use bufpool_remote::object::object_store::{ObjectMeta, ObjectStore, ObjectStoreExt};
use bufpool_remote::object::{ObjectOptions, ObjectSource, import};
use futures_util::stream::{FuturesUnordered, StreamExt, TryStreamExt, iter};
use rustix::time::{ClockId, clock_gettime};

const PAGE_BYTES: usize = 8192;
const FRAMED_BYTES: u64 = PAGE_BYTES as u64 + 16;
const CHUNK_PAGES: u64 = 128;
/// Pages of a run: 256 KiB.
const RUN_PAGES: u64 = 32;
const IN_FLIGHT: usize = 64;
const LOOKUPS: usize = 4096;
const ROUNDS: usize = 7;
const MEMORY_BYTES: u64 = 64 << 20;

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
    let pages = (mib() << 20) / PAGE_BYTES as u64;
    println!("on {store}: {pages} pages of {PAGE_BYTES} bytes, chunks of {CHUNK_PAGES}");
    import_sevens(&store, pages);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bare = |keep| Bare::of(&store, pages, keep);
    let all = (0..pages).step_by(RUN_PAGES as usize);
    let bare_scan = |keep| {
        let bare = bare(keep);
        let runs: Vec<u64> = all.clone().collect();
        cost(|| runtime.block_on(bare.read(&runs, RUN_PAGES)))
    };
    let rounds = (0..ROUNDS).map(|_| {
        let (pool, file) = open(&store);
        [bare_scan(false), bare_scan(true), cost(|| scan(&pool, &file))]
    });
    tell("cold scan, MiB/s", mib() as f64, &rounds.collect::<Vec<_>>());

    let bare_lookups = |keep, numbers: &[u64]| {
        let bare = bare(keep);
        cost(|| runtime.block_on(bare.read(numbers, 1)))
    };
    let rounds = (0..ROUNDS).map(|round| {
        let (pool, file) = open(&store);
        let numbers = random_pages(round as u64, pages);
        let pool_seconds = cost(|| runtime.block_on(lookups(&pool, &file, &numbers)));
        [bare_lookups(false, &numbers), bare_lookups(true, &numbers), pool_seconds]
    });
    tell("point lookups with 64 in flight, per second", LOOKUPS as f64, &rounds.collect::<Vec<_>>());

    for (what, step) in [("neighbours", 1), ("scattered", 13)] {
        let pool = PoolOptions::new().memory_bytes(MEMORY_BYTES).page_bytes(PAGE_BYTES).open().unwrap();
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
    let pool = PoolOptions::new()
        .memory_bytes(MEMORY_BYTES)
        .page_bytes(PAGE_BYTES)
        .prefetch_limit_percent(50)
        .open()
        .unwrap();
    let source = ObjectSource::open_read_only(store.clone(), "bench", options()).unwrap();
    let file = pool.open_source(source, FileOptions::new().read_only(true)).unwrap();
    (pool, file)
}

/// The size of the file, from the command line.
fn mib() -> u64 {
    std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(128)
}

fn import_sevens(store: &Arc<dyn ObjectStore>, pages: u64) {
    let mut local = tempfile::NamedTempFile::new().unwrap();
    for _ in 0..pages {
        local.write_all(&[7; PAGE_BYTES]).unwrap();
    }
    import(store.clone(), "bench", local.path(), &options()).unwrap();
}

/// The store's client without a pool.
struct Bare {
    store: Arc<dyn ObjectStore>,
    /// In the order of their pages.
    chunks: Vec<Path>,
    /// Where the bytes are copied to after a check; empty if they are dropped.
    memory: RefCell<Vec<u8>>,
    at: Cell<usize>,
}

impl Bare {
    fn of(store: &Arc<dyn ObjectStore>, pages: u64, keep: bool) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = Path::from("bench/chunk");
        let mut chunks: Vec<ObjectMeta> = runtime.block_on(store.list(Some(&folder)).try_collect()).unwrap();
        chunks.sort_by(|a, b| a.location.cmp(&b.location));
        chunks.truncate(pages.div_ceil(CHUNK_PAGES) as usize);
        let chunks = chunks.into_iter().map(|meta| meta.location).collect();
        let memory = vec![1; if keep { MEMORY_BYTES as usize } else { 0 }];
        Self { store: store.clone(), chunks, memory: RefCell::new(memory), at: Cell::new(0) }
    }

    /// Reads runs of `pages` pages, which begin at `firsts`.
    async fn read(&self, firsts: &[u64], pages: u64) {
        let reads = iter(firsts.iter().map(|&first| self.read_run(first, pages)));
        let bytes: u64 = reads.buffer_unordered(IN_FLIGHT).fold(0, async |sum, bytes| sum + bytes).await;
        assert_eq!(bytes, firsts.len() as u64 * pages * FRAMED_BYTES);
    }

    async fn read_run(&self, first: u64, pages: u64) -> u64 {
        let from = first % CHUNK_PAGES * FRAMED_BYTES;
        let chunk = &self.chunks[(first / CHUNK_PAGES) as usize];
        let bytes = self.store.get_range(chunk, from..from + pages * FRAMED_BYTES).await.unwrap();
        if !self.memory.borrow().is_empty() {
            bytes.chunks(FRAMED_BYTES as usize).for_each(|framed| self.keep(framed));
        }
        bytes.len() as u64
    }

    fn keep(&self, framed: &[u8]) {
        let (memory, at) = (&mut *self.memory.borrow_mut(), self.at.get());
        std::hint::black_box(crc32c::crc32c(framed));
        memory[at..at + PAGE_BYTES].copy_from_slice(&framed[framed.len() - PAGE_BYTES..]);
        self.at.set((at + PAGE_BYTES) % memory.len());
    }
}

/// As many runs in flight.
fn scan(pool: &Pool, file: &File) {
    let tenant = pool.default_tenant();
    let run = |first: u64| (first..(first + RUN_PAGES).min(file.pages())).map(|number| file.page(number));
    let ahead = RUN_PAGES * IN_FLIGHT as u64;
    tenant.prefetch((0..ahead).map(|number| file.page(number)));
    for first in (0..file.pages()).step_by(RUN_PAGES as usize) {
        assert!(run(first).all(|page| tenant.read(page).unwrap()[0] == 7));
        tenant.prefetch(run(first + ahead));
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

fn random_pages(seed: u64, pages: u64) -> Vec<u64> {
    let mut random = seed + 1;
    let mut next = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % pages
    };
    (0..LOOKUPS).map(|_| next()).collect()
}

/// Seconds that something took, and seconds of processors of this process.
#[derive(Clone, Copy)]
struct Cost {
    elapsed: f64,
    processors: f64,
}

fn cost(work: impl FnOnce()) -> Cost {
    let (begun, before) = (Instant::now(), processor_seconds());
    work();
    Cost { elapsed: begun.elapsed().as_secs_f64(), processors: processor_seconds() - before }
}

fn processor_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Each round has the costs of the client alone, with copies, and of the pool.
fn tell(what: &str, amount: f64, rounds: &[[Cost; 3]]) {
    let median = |of: &dyn Fn(&[Cost; 3]) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(of).collect();
        figures.sort_by(f64::total_cmp);
        figures[figures.len() / 2]
    };
    let rate = |at: usize| amount / median(&|round| round[at].elapsed);
    println!("{what}: pool {:.0}", rate(2));
    for (at, what) in ["object_store alone", "copied and checked"].into_iter().enumerate() {
        let faster = median(&|round| round[at].elapsed / round[2].elapsed);
        let processors = median(&|round| round[2].processors / round[at].processors);
        println!(
            "  {what}: {:.0}, ratio {faster:.2}; processor time of the pool {processors:.2} of it",
            rate(at)
        );
    }
}
