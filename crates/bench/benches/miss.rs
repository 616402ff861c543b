//! A miss through the pool beside a read of a bare io_uring loop, at four depths. An element is a page of 4
//! KiB. The file is many times as large as the pool, and read with direct I/O.
//!
//! Then misses on a source in memory, by one thread, two, and eight, beside other pools and caches; see
//! `bufbench misses`.

use criterion::{BenchmarkId, Criterion, Throughput};

use bufpool::{Direct, Io};
use bufpool_bench::machine::bare_loop::LoopTime;
use bufpool_bench::machine::data_file;
use bufpool_bench::measure::io::{Asking, RandomReads};
use bufpool_bench::measure::misses::{Drawing, contenders, turn};
use bufpool_bench::workload::SCHEMES;

const PAGES: u64 = 1 << 15;
const LISTS: Asking = Asking::Lists(1 << 11);
const SEED: u64 = 1;

type Side = fn(&mut RandomReads, u64) -> anyhow::Result<LoopTime>;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    compare(&mut criterion);
    without_a_device(&mut criterion);
    criterion.final_summary();
}

fn compare(criterion: &mut Criterion) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for the data file");
    let path = folder.path().join("random-reads.pages");
    if let Err(error) = data_file::build(&path, PAGES, Direct::Require) {
        println!("skipped: {error:#}");
        return;
    }
    for depth in [1, 8, 32, 128] {
        let reads = RandomReads::new(&path, depth, Direct::Require, Io::Auto, None, LISTS, SEED);
        let mut reads = reads.expect("a pool on the file");
        let count = 500 * u64::from(depth.min(8));
        let mut group = criterion.benchmark_group(format!("random 4 KiB read, depth {depth}"));
        group.throughput(Throughput::Elements(count)).sample_size(10);
        let sides: [(&str, Side); 2] = [("pool", RandomReads::pool_misses), ("bare loop", RandomReads::bare)];
        for (name, side) in sides {
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter_custom(|iterations| {
                    (0..iterations).map(|_| side(&mut reads, count).expect("the reads succeed").elapsed).sum()
                });
            });
        }
        group.finish();
    }
}

fn without_a_device(criterion: &mut Criterion) {
    const FRAMES: u32 = 1 << 14;
    const MISSES: usize = 1 << 14;
    let schemes: Vec<_> = SCHEMES.iter().filter(|scheme| scheme.in_main_job).collect();
    let contenders = contenders(&schemes, FRAMES).expect("pools on a source in memory");
    let mut drawing = Drawing::new(FRAMES / 8, SEED);
    for threads in [1, 2, 8] {
        let mut group = criterion.benchmark_group(format!("miss without a device, {threads} threads"));
        group.throughput(Throughput::Elements(MISSES as u64)).sample_size(10);
        for contender in &contenders {
            group.bench_function(BenchmarkId::from_parameter(contender.name()), |bencher| {
                bencher.iter_custom(|iterations| {
                    let mut round = || {
                        let visits = drawing.draw(threads, MISSES, 0);
                        turn(&**contender, &visits).expect("the reads succeed").elapsed
                    };
                    (0..iterations).map(|_| round()).sum()
                });
            });
        }
        group.finish();
    }
}
