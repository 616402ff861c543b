//! Workloads on real pages: Wisconsin relations joined, scanned, looked up and sorted through a live pool.
//!
//! A workload names the files that it needs, its default memory, the directives that the papers give for it,
//! and the answer that it has to give. [`run()`] runs one under a [`Scheme`], in a pool of its own that
//! begins empty, and measures it. A new workload is one file with one type, and one line in [`WORKLOADS`] or
//! [`EXTRA_WORKLOADS`].

mod answer;
mod batches;
mod bitmap_scan;
mod block_nested_loop_join;
mod bound;
mod btree_lookup;
mod contract;
mod database;
mod depths;
mod external_sort;
mod index_join;
mod index_scan;
mod lookup;
mod measurement;
mod neighbour_mixes;
mod neighbours;
mod options;
mod range_scan;
mod read_n;
mod run;
mod scan_and_lookup;
mod scheme;
mod session;
pub mod wisconsin;

use anyhow::{Result, anyhow};

pub use self::answer::Answer;
pub use self::bound::Bound;
pub use self::contract::Workload;
pub use self::database::{Database, Index, IndexTree, PAGE_BYTES, Sizes, Table};
pub use self::index_scan::TuplesByIndex;
pub use self::measurement::Measurement;
pub use self::options::{Memory, RunOptions};
pub use self::run::run;
pub use self::scheme::{Manager, SCHEMES, Scheme};
pub use self::session::Session;

/// The workloads of the main job, in the order of its table.
pub const WORKLOADS: &[&dyn Workload] = &[
    &block_nested_loop_join::BlockNestedLoopJoin,
    &index_join::IndexJoin,
    &scan_and_lookup::ScanAndLookup,
    &lookup::Lookup::UNIFORM,
    &lookup::Lookup::ZIPF,
    &range_scan::RangeScan,
    &index_scan::IndexScan,
    &bitmap_scan::BitmapScan,
    &external_sort::ExternalSort,
];

/// Workloads that `live` and `record` know besides those of the main job.
pub const EXTRA_WORKLOADS: &[&dyn Workload] =
    &[&btree_lookup::BTreeLookup, &read_n::ReadN, &neighbours::Neighbours];

/// The workload of that name.
///
/// # Errors
/// If there is none; the message names all workloads.
pub fn find(name: &str) -> Result<&'static dyn Workload> {
    let mut all = WORKLOADS.iter().chain(EXTRA_WORKLOADS);
    all.find(|workload| workload.name() == name)
        .copied()
        .ok_or_else(|| anyhow!("no workload is named {name:?}: expected one of {}", names_of(|_| true)))
}

/// The names of the workloads for which `is_wanted` holds, separated by commas.
pub fn names_of(is_wanted: impl Fn(&dyn Workload) -> bool) -> String {
    let all = WORKLOADS.iter().chain(EXTRA_WORKLOADS).filter(|workload| is_wanted(**workload));
    all.map(|workload| workload.name()).collect::<Vec<_>>().join(", ")
}
