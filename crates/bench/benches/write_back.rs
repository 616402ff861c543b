//! How fast does the pool write dirty pages, beside a bare io_uring loop on the same file?

use std::time::Duration;

use bufpool::{Direct, PoolOptions};
use bufpool_bench::machine::bare_loop::LoopTime;
use bufpool_bench::machine::data_file;
use bufpool_bench::measure::write_back::{Bare, Order, PageWrites, Way};
use criterion::{Criterion, Throughput};

const PAGES: u64 = 1 << 15;
const FRAMES: u32 = 1 << 12;
/// Pages made dirty, or written, in each iteration.
const WRITES: u64 = 1 << 11;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the data file");
    let path = folder.path().join("page-writes.pages");
    if let Err(error) = data_file::build(&path, PAGES, Direct::Prefer) {
        println!("skipped: {error:#}");
        return;
    }
    let depth = |depth| Bare { depth, fills: false };
    for (name, what) in [
        ("random 4 KiB, cleaned", (Order::Random, Way::Cleaned, depth(32))),
        ("random 4 KiB, evicted", (Order::Random, Way::Evicted, depth(32))),
        ("sequential 256 KiB, cleaned", (Order::Sequential, Way::Cleaned, depth(8))),
        ("sequential 256 KiB, evicted", (Order::Sequential, Way::Evicted, depth(8))),
    ] {
        let writes = PageWrites::new(&path, what, FRAMES, PoolOptions::new(), Direct::Prefer, 1);
        let mut writes = writes.expect("a pool and a bare loop on the file");
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10).throughput(Throughput::Elements(WRITES));
        group.bench_function("pool", |bencher| {
            bencher
                .iter_custom(|times| of_each(times, || writes.pool_writes(WRITES).expect("the pool writes")));
        });
        group.bench_function("bare loop", |bencher| {
            bencher
                .iter_custom(|times| of_each(times, || writes.bare(WRITES).expect("the bare loop writes")));
        });
        group.finish();
    }
    criterion.final_summary();
}

/// The time that `times` times [`WRITES`] pages take, from the elapsed times of `times` rounds.
fn of_each(times: u64, mut round: impl FnMut() -> LoopTime) -> Duration {
    let of_one = |time: LoopTime| time.elapsed.mul_f64(WRITES as f64 / time.operations as f64);
    (0..times).map(|_| of_one(round())).sum()
}
