//! What does a cold sequential scan cost: page by page with read-ahead, and by a bare loop? `bufbench scan`
//! prints the ratio of the two.
//!
//! With the argument `instructions` callgrind counts instead how many instructions, loads and stores a page
//! takes, in all threads of the pool and without the kernel (valgrind has to be installed; a minute): the
//! bench starts itself twice for each page size and manager, with `scans=N`, and the difference is divided by
//! the pages.

mod callgrind;

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bufpool::{Direct, Io, ManagerKind};
use bufpool_bench::machine::data_file;
use bufpool_bench::measure::scan::{ScanTime, SequentialReads};
use criterion::{BenchmarkId, Criterion, Throughput};

/// Size of the file in MiB: twice the pool.
const MIB: u64 = 128;
const PAGE_BYTES: [usize; 2] = [8192, 4096];
/// Numbers of scans where instructions are counted.
const COUNTED_SCANS: [u64; 2] = [2, 4];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    if let [scans, page_bytes, manager, path] = &arguments[..]
        && let Some(scans) = scans.strip_prefix("scans=")
    {
        let page_bytes = page_bytes.parse().context("a page's bytes")?;
        let mut reads = open(Path::new(path), page_bytes, manager == "managed")?;
        return (0..scans.parse().context("scans=N wants a number")?).try_for_each(|_: u64| {
            reads.scan()?;
            Ok(())
        });
    }
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR"))?;
    let path = folder.path().join("pages");
    data_file::build(&path, MIB << 8, Direct::Prefer)?;
    if arguments.iter().any(|one| one == "instructions") {
        return count_instructions(&path);
    }
    with_criterion(&path)
}

fn open(path: &Path, page_bytes: usize, is_managed: bool) -> anyhow::Result<SequentialReads> {
    let manager = is_managed.then_some(ManagerKind::Auto);
    SequentialReads::new(path, page_bytes, Direct::Prefer, Io::Auto, manager)
}

fn with_criterion(path: &Path) -> anyhow::Result<()> {
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("scan");
    group.sample_size(10).throughput(Throughput::Bytes(MIB << 20));
    type Side = fn(&mut SequentialReads) -> anyhow::Result<ScanTime>;
    let sides: [(&str, Side); 2] =
        [("read-ahead", SequentialReads::scan), ("bare loop", SequentialReads::bare)];
    for page_bytes in PAGE_BYTES {
        let mut reads = open(path, page_bytes, true)?;
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
    Ok(())
}

fn count_instructions(path: &Path) -> anyhow::Result<()> {
    let path = path.to_str().context("a path in UTF-8")?;
    println!(
        "{:32} {:>12} {:>8} {:>8}",
        "a page of a scan, by callgrind:", "instructions", "loads", "stores"
    );
    for page_bytes in PAGE_BYTES {
        for manager in ["unmanaged", "managed"] {
            let [few, many] = COUNTED_SCANS.map(|scans| {
                callgrind::count(None, &[&format!("scans={scans}"), &page_bytes.to_string(), manager, path])
            });
            let (few, many) = (few?, many?);
            let pages = (COUNTED_SCANS[1] - COUNTED_SCANS[0]) * (MIB << 20) / page_bytes as u64;
            let a_page = |what: usize| (many[what] - few[what]) / pages as f64;
            let row = format!("{page_bytes} bytes, {manager}");
            println!("{row:32} {:12.1} {:8.1} {:8.1}", a_page(0), a_page(1), a_page(2));
        }
    }
    Ok(())
}
