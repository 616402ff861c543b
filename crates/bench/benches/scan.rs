//! What does a cold sequential scan cost, page by page with read-ahead, and with a bare loop? `bufbench scan`
//! prints the ratio of the two in one run.

use std::time::Duration;

use bufpool::{Direct, Io, ManagerKind};
use bufpool_bench::machine::data_file;
use bufpool_bench::measure::scan::{ScanTime, SequentialReads};
use criterion::{BenchmarkId, Criterion, Throughput};

/// MiB of the file: twice the pool.
const MIB: u64 = 128;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for data files");
    let path = folder.path().join("pages");
    data_file::build(&path, MIB << 8, Direct::Prefer).expect("a data file");
    let mut group = criterion.benchmark_group("scan");
    group.sample_size(10).throughput(Throughput::Bytes(MIB << 20));
    type Side = fn(&mut SequentialReads) -> anyhow::Result<ScanTime>;
    let sides: [(&str, Side); 2] =
        [("read-ahead", SequentialReads::scan), ("bare loop", SequentialReads::bare)];
    for page_bytes in [8192, 4096] {
        let reads =
            SequentialReads::new(&path, page_bytes, Direct::Prefer, Io::Auto, Some(ManagerKind::Auto));
        let mut reads = reads.expect("a pool and a bare loop");
        for (name, side) in sides {
            group.bench_function(BenchmarkId::new(name, page_bytes), |bencher| {
                bencher.iter_custom(|iterations| {
                    let scan = |_| side(&mut reads).expect("the file is read").elapsed;
                    (0..iterations).map(scan).sum::<Duration>()
                });
            });
        }
    }
    group.finish();
    criterion.final_summary();
}
