//! What do lookups and range scans through an index cost, under LRU and under LRU-SP with the papers'
//! directives?

mod common;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    common::compare(&mut criterion, &["lookup-uniform", "lookup-zipf", "range-scan"]);
    criterion.final_summary();
}
