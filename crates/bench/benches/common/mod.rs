//! Workloads under the schemes of the main job. Each iteration has a pool that begins empty.

use std::path::PathBuf;
use std::time::Duration;

use bufpool::{Direct, Io};
use bufpool_bench::workload::{self, Database, RunOptions, SCHEMES, Sizes};
use criterion::{BenchmarkId, Criterion};

/// So few tuples that ten iterations take seconds, and so many that memory holds only a part.
const SIZES: Sizes = Sizes { tuples: 8_000 };
const SEED: u64 = 1;

/// Measures each workload under each scheme. Only the workload itself counts, not opening and closing its
/// pool.
pub fn compare(criterion: &mut Criterion, workloads: &[&str]) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder for data files");
    let database = Database::new(PathBuf::from(folder.path()), SIZES, SEED, Direct::Prefer, Io::Auto);
    let options = RunOptions { seed: SEED, ..RunOptions::default() };
    for name in workloads {
        let workload = workload::find(name).expect("a workload of this crate");
        let mut group = criterion.benchmark_group(*name);
        group.sample_size(10);
        for scheme in SCHEMES.iter().filter(|scheme| scheme.in_main_job) {
            group.bench_function(BenchmarkId::from_parameter(scheme.name), |bencher| {
                bencher.iter_custom(|iterations| {
                    let run = |_| workload::run(workload, scheme, &database, &options, None);
                    let elapsed = (0..iterations).map(|n| run(n).expect("the workload runs").elapsed);
                    elapsed.sum::<Duration>()
                });
            });
        }
        group.finish();
    }
}
