//! What does a hit cost, and what is each part of it?
//!
//! `cargo bench -p bufpool-bench --bench hit` prints a table of ratios: medians of 7 alternating rounds, with their range.

use std::path::Path;

use bufpool_bench::hits::{Array, Contender, PoolContender, PoolKind, PoolPages, take_turns, zipf_visits};

const PAGES: u32 = 1 << 16;
const VISITS: usize = 1 << 20;
const ROUNDS: usize = 7;

fn main() -> anyhow::Result<()> {
    let visits = zipf_visits(PAGES, VISITS, 1);
    let array = Array::new(PAGES, false);
    let huge = Array::new(PAGES, true);
    let pages = PoolPages::new(Path::new(env!("CARGO_TARGET_TMPDIR")), PAGES)?;
    let default = PoolContender::new(PoolKind::Default, &pages)?;
    let untagged = PoolContender::new(PoolKind::Untagged, &pages)?;
    let off = PoolContender::new(PoolKind::LogOff, &pages)?;
    let contenders: Vec<&dyn Contender> = vec![&array, &huge, &default, &untagged, &off];
    let times = take_turns(&contenders, &visits, 1, ROUNDS)?;
    for one in &times {
        let (least, most) = one.range_ns();
        println!(
            "{:24} {:8.1} ns ({least:.1} to {most:.1})  {:6.2} x array",
            one.name,
            one.median_ns(),
            one.ratio_to(&times[0])
        );
    }
    println!("noted: {:.3}", default.share_noted());
    Ok(())
}
