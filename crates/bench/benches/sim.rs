//! How many accesses does the simulator play in a second, on one core?
//!
//! `oltp` is the trace OLTP, ten times over, from the folder of shared traces (`BUFPOOL_TRACES`, by default
//! `shared/traces` beside the repository); if it is not there, a Zipf stream. `resident` is a loop over as
//! many blocks as there are frames, so that all but the first accesses are hits and all metadata is in the
//! processor's caches.

use std::path::{Path, PathBuf};

use bufpool_bench::simulate::{NextUses, Policy, Setup, simulate};
use bufpool_bench::streams::{self, Advice};
use bufpool_bench::trace::{Item, Reader, Trace};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use indicatif::ProgressBar;

const REPEATS: usize = 10;

fn traces_dir() -> PathBuf {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    std::env::var_os("BUFPOOL_TRACES").map_or(beside, PathBuf::from)
}

fn items_of(path: &Path) -> Vec<Item> {
    let mut reader = Reader::open(path, None, &ProgressBar::hidden()).expect("a trace");
    std::iter::from_fn(|| reader.next_item().expect("a well-formed trace")).collect()
}

fn stream(name: &str, set: &[&str]) -> Vec<Item> {
    streams::items(name, set, Advice::None, 1)
}

fn oltp() -> Trace {
    let path = traces_dir().join("OLTP.txt.gz");
    let items = if path.exists() {
        items_of(&path)
    } else {
        eprintln!("{} is absent: a Zipf stream takes its place", path.display());
        stream("zipf", &["blocks=200000", "accesses=1000000", "alpha=0.8"])
    };
    let steps = items.len() * REPEATS;
    Trace::of("oltp", items.into_iter().cycle().take(steps))
}

fn resident() -> Trace {
    Trace::of("resident", stream("loop", &["blocks=1000", "passes=1000"]))
}

fn policies(criterion: &mut Criterion) {
    for (trace, frames) in [(oltp(), 18_688), (resident(), 1000)] {
        let next_uses = NextUses::in_memory(&trace).expect("a trace in memory");
        let mut group = criterion.benchmark_group(trace.name());
        group.throughput(Throughput::Elements(trace.accesses())).sample_size(10);
        for name in ["lru", "clock", "lru-sp", "opt"] {
            let policy: Policy = name.parse().expect("a known policy");
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                let setup = Setup::frames(frames);
                bencher.iter(|| simulate(&trace, policy, &setup, Some(&next_uses)).expect("a simulation"));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, policies);
criterion_main!(benches);
