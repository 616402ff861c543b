//! How fast does the pool get rid of dirty pages, beside a bare io_uring loop on the same file?

use bufpool::{Direct, Io};
use bufpool_bench::page_writes::{Order, PageWrites};
use bufpool_bench::random_reads;
use criterion::{Criterion, Throughput};

const PAGES: u64 = 1 << 15;
const FRAMES: u32 = 1 << 12;
/// Pages made dirty, or written, in each iteration.
const WRITES: u64 = 1 << 11;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the data file");
    let path = folder.path().join("page-writes.pages");
    if let Err(error) = random_reads::build(&path, PAGES, Direct::Prefer) {
        println!("skipped: {error:#}");
        return;
    }
    for (name, order) in [
        ("random 4 KiB", Order::Random { depth: 32 }),
        ("sequential 256 KiB", Order::Sequential { depth: 8, fills: true }),
    ] {
        let writes = PageWrites::new(&path, order, FRAMES, Direct::Prefer, Io::Auto, 1);
        let mut writes = writes.expect("a pool and a bare loop on the file");
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Elements(WRITES));
        group.bench_function("pool", |bencher| {
            bencher.iter(|| writes.pool_writes(WRITES).expect("the pool writes"));
        });
        group.bench_function("bare loop", |bencher| {
            bencher.iter(|| writes.bare(WRITES).expect("the bare loop writes"));
        });
        group.finish();
    }
    criterion.final_summary();
}
