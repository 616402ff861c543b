//! `bufbench scan`: a cold sequential scan with read-ahead, against a bare io_uring loop in the same process.

use anyhow::{Result, ensure};
use bufpool::{ManagerKind, PAGE_BYTES_MAX, PAGE_BYTES_MIN};
use clap::Args;

use super::data_folder::DataFolder;
use crate::cli::{Backend, Common, whole};
use crate::machine::data_file;
use crate::measure::scan::{ScanTime, SequentialReads};
use crate::output::{Cell, Table, note};
use crate::rounds::{Spread, alternate};

const COLUMNS: &[&str] = &[
    "page_bytes",
    "ours_mib_per_s",
    "raw_mib_per_s",
    "ratio",
    "least_ratio",
    "greatest_ratio",
    "ours_cpu_us_per_mib",
    "raw_cpu_us_per_mib",
];

/// Arguments of `bufbench scan`.
#[derive(Args, Clone, Debug)]
pub struct ScanArgs {
    /// Page sizes in bytes, separated by commas
    #[arg(long, value_name = "BYTES", value_delimiter = ',', default_value = "8192,4096")]
    pub page_bytes: Vec<usize>,
    /// MiB in the file
    #[arg(long, default_value_t = 512, value_parser = whole::<u64>(128..=1 << 16))]
    pub mib: u64,
    /// Give the tenant no manager, so that the pool and its I/O alone are measured
    #[arg(long)]
    pub unmanaged: bool,
    /// The pool's I/O backend
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,
}

/// Measures and prints the table.
///
/// # Errors
/// If the data file cannot be made, the kernel makes no ring for the bare loop, or the pool fails.
pub fn run(args: &ScanArgs, common: &Common) -> Result<()> {
    let fits = |bytes: &usize| bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(bytes);
    ensure!(
        args.page_bytes.iter().all(fits),
        "--page-bytes: expected powers of two from {PAGE_BYTES_MIN} to {PAGE_BYTES_MAX}"
    );
    let folder = DataFolder::new(common)?;
    let path = folder.path().join("sequential-reads.pages");
    data_file::build(&path, args.mib << 8, folder.direct())?;
    let mut table = Table::new(COLUMNS);
    for &page_bytes in &args.page_bytes {
        let manager = (!args.unmanaged).then_some(ManagerKind::Auto);
        let mut reads = SequentialReads::new(&path, page_bytes, folder.direct(), args.backend.io(), manager)?;
        let rounds =
            alternate(&format!("pages of {page_bytes} bytes"), || Ok((reads.scan()?, reads.bare()?)))?;
        let stats = reads.pool().stats();
        note(format_args!(
            "pages of {page_bytes} bytes: backend {}, {} misses and {} waits for a page on its way in {} accesses, {} wasted",
            reads.pool().io().backend,
            stats.misses,
            stats.waited,
            stats.accesses,
            stats.prefetch_wasted
        ));
        table.push(row(page_bytes, &rounds));
    }
    table.print(common.format)
}

fn row(page_bytes: usize, rounds: &[(ScanTime, ScanTime)]) -> Vec<Cell> {
    let spread = |measure: &dyn Fn(&(ScanTime, ScanTime)) -> f64| Spread::of(rounds.iter().map(measure));
    let ours = spread(&|(ours, _)| ours.mib_per_s()).median;
    let raw = spread(&|(_, raw)| raw.mib_per_s()).median;
    let ratios = spread(&|(ours, raw)| ours.mib_per_s() / raw.mib_per_s());
    vec![
        (page_bytes as u64).into(),
        Cell::real(ours, 0),
        Cell::real(raw, 0),
        Cell::Ratio(ours / raw),
        Cell::Ratio(ratios.least),
        Cell::Ratio(ratios.greatest),
        Cell::real(spread(&|(ours, _)| ours.cpu_us_per_mib()).median, 1),
        Cell::real(spread(&|(_, raw)| raw.cpu_us_per_mib()).median, 1),
    ]
}
