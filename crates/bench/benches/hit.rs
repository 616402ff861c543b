//! What does a hit cost, and what is each part of it?
//!
//! `cargo bench -p bufpool-bench --bench hit` prints the bars' ratios: medians of 7 alternating rounds of 2^20 visits to 64 Ki
//! resident pages of 4 KiB, drawn from a Zipf distribution (0.99), in processor time of the visiting thread. With `--features
//! peers` it knows quick_cache, too. Names on the command line choose contenders; `one-round` makes a single short round, for
//! counting instructions: `valgrind --tool=callgrind target/release/deps/hit-... one-round bufpool`.

use std::path::Path;

use bufpool_bench::hits::{
    Array, Contender, Latched, OneLock, OpenPool, Optimistic, PoolKind, PoolPages, Times, Words, take_turns,
    zipf_visits,
};

const PAGES: u32 = 1 << 16;
const VISITS: usize = 1 << 20;
const ROUNDS: usize = 7;

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    let is_short = arguments.iter().any(|one| one == "one-round");
    let chosen: Vec<&String> = arguments.iter().filter(|one| *one != "one-round").collect();
    let pages = PoolPages::new(Path::new(env!("CARGO_TARGET_TMPDIR")), PAGES)?;
    let open = |kind| OpenPool::new(kind, &pages, PAGES + 64);
    let pools = [PoolKind::Default, PoolKind::Unmanaged, PoolKind::Plain, PoolKind::LogOff].map(open);
    let [default, unmanaged, plain, log_off] = pools;
    let (default, unmanaged, plain, log_off) = (default?, unmanaged?, plain?, log_off?);
    let (array, huge) = (Array::new(PAGES, false), Array::new(PAGES, true));
    #[cfg(feature = "peers")]
    let quick_cache = bufpool_bench::hits::Cached::<bufpool_bench::hits::QuickCache>::new(&pages, PAGES)?;
    let contenders: Vec<Box<dyn Contender + '_>> = vec![
        Box::new(&array),
        Box::new(&huge),
        Box::new(Words::new(&huge, true)),
        Box::new(Words::new(&huge, false)),
        Box::new(Latched(&log_off)),
        Box::new(Optimistic(&log_off)),
        Box::new(Latched(&default)),
        Box::new(Optimistic(&default)),
        Box::new(Latched(&plain)),
        Box::new(Latched(&unmanaged)),
        #[cfg(feature = "peers")]
        Box::new(quick_cache),
    ];
    let in_play: Vec<&dyn Contender> = contenders
        .iter()
        .map(AsRef::as_ref)
        .filter(|one| chosen.is_empty() || chosen.iter().any(|name| **name == one.name()))
        .collect();
    let visits = zipf_visits(PAGES, if is_short { VISITS / 8 } else { VISITS }, 1);
    let times = take_turns(&in_play, &visits, 1, if is_short { 1 } else { ROUNDS })?;
    print(&times, "one thread, all pages");
    if chosen.is_empty() && !is_short {
        bars(&times);
        println!("hits noted: {:.3}", default.share_noted());
        println!("metadata: {:.4} of page memory", default.share_metadata());
        hot_page(&default, &log_off)?;
    }
    Ok(())
}

/// Two threads that visit one page, and one.
fn hot_page(default: &OpenPool, log_off: &OpenPool) -> anyhow::Result<()> {
    let visits = vec![7; VISITS];
    let lock = OneLock::new(7);
    let contenders: [&dyn Contender; 5] =
        [&lock, &Latched(default), &Optimistic(default), &Latched(log_off), &Optimistic(log_off)];
    let alone = take_turns(&contenders, &visits, 1, ROUNDS)?;
    print(&alone, "one thread, one page");
    let both = take_turns(&contenders, &visits, 2, ROUNDS)?;
    print(&both, "two threads, one page; each thread's time");
    for (times, alone) in both.iter().zip(&alone) {
        println!(
            "{:32} {:6.2} of the lock's throughput, {:5.2} of one thread's",
            times.name,
            1.0 / times.ratio_to(&both[0]),
            2.0 / times.ratio_to(alone)
        );
    }
    Ok(())
}

fn print(times: &[Times], what: &str) {
    println!("{what}:");
    for one in times {
        let (least, most) = one.range_ns();
        let floor = one.ratio_to(&times[0]);
        println!(
            "{:32} {:8.1} ns ({least:.1} to {most:.1}) {floor:8.2} x {}",
            one.name,
            one.median_ns(),
            times[0].name
        );
    }
}

fn bars(times: &[Times]) {
    let of = |name: &str| times.iter().find(|times| times.name == name);
    for (name, other, bar) in [
        ("bufpool-log-off", "array", 3.0),
        ("bufpool-optimistic-log-off", "array", 2.2),
        ("bufpool", "array", 4.5),
        ("bufpool-optimistic", "array", 3.5),
        ("bufpool-unmanaged", "bufpool-plain", 1.05),
        ("bufpool", "bufpool-plain", 1.15),
        ("bufpool", "quick_cache", 0.5),
    ] {
        if let (Some(times), Some(other)) = (of(name), of(other)) {
            println!("{name} / {}: {:.2}, expected at most {bar}", other.name, times.ratio_to(other));
        }
    }
    for (name, floor) in [("bufpool-log-off", "word-latched"), ("bufpool-optimistic-log-off", "word-checked")]
    {
        if let (Some(times), Some(floor)) = (of(name), of(floor)) {
            println!("{name} / {}: {:.2}", floor.name, times.ratio_to(floor));
        }
    }
}
