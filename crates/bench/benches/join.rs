//! How much time does LRU-SP with the papers' directives save in a join, on this device?

mod common;

use criterion::Criterion;

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    common::compare(&mut criterion, &["block-nested-loop-join", "index-join"]);
    criterion.final_summary();
}
