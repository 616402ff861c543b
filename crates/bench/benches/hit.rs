//! What does a hit cost, and what is each part of it?
//!
//! `cargo bench -p bufpool-bench --bench hit` prints ratios of times beside their bars: medians of 7
//! alternating rounds of 2^20 visits to 64 Ki resident pages of 4 KiB, drawn from a Zipf distribution (0.99),
//! in processor time of the visiting thread. With `--features peers` quick_cache is a contender, too. Then
//! criterion measures each contender by itself, in elapsed time. Arguments behind `--` choose:
//!
//! * names of contenders: only these;
//! * `one-page`: only the part in which one thread, and then two, visit one page;
//! * `sizes`: 64 Ki, 1 Mi and 4 Mi pages of 512 bytes, against an array of as many (8 GB of memory, some
//!   minutes);
//! * `instructions`: how many instructions, loads and stores a visit takes, counted by callgrind (valgrind
//!   has to be installed; a minute): the bench starts itself twice for each contender, with the contender's
//!   name and `visits=N`, which makes N visits to 1,024 pages, and divides the difference of the two counts
//!   by that of the visits.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use bufpool_bench::measure::hits::{
    Array, Contender, Latched, OneLock, OpenPool, Optimistic, Owned, PAGE_BYTES, PoolKind, PoolPages, Times,
    Words, take_turns, zipf_visits,
};
use criterion::{Criterion, Throughput};

mod callgrind;

const PAGES: u32 = 1 << 16;
const VISITS: usize = 1 << 20;
const ROUNDS: usize = 7;

/// Numbers of pages where sizes are compared, and bytes of a page, which are few so that all pages fit in
/// memory.
const SIZES: [u32; 3] = [1 << 16, 1 << 20, 1 << 22];
const SMALL_PAGE_BYTES: usize = 512;
/// How many times as long as a visit to the array a hit may take, at each size.
const SIZES_BAR: f64 = 4.0;

/// Visits to a page after which the pool does not note all hits on it any more.
const WARM_VISITS: usize = 4;
/// Pages, and numbers of visits, where instructions are counted.
const COUNTED_PAGES: u32 = 1 << 10;
const COUNTED_VISITS: [usize; 2] = [1 << 13, 1 << 15];

fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|one| !one.starts_with('-')).collect();
    let is_asked = |what: &str| arguments.iter().any(|one| one == what);
    let counted = arguments.iter().find_map(|one| one.strip_prefix("visits="));
    let special =
        |one: &str| ["one-page", "instructions", "sizes"].contains(&one) || one.starts_with("visits=");
    let names: Vec<&str> = arguments.iter().map(String::as_str).filter(|one| !special(one)).collect();
    if is_asked("instructions") {
        return count_instructions(&names);
    }
    if is_asked("sizes") {
        return SIZES.into_iter().try_for_each(compare_at);
    }
    let pages = if counted.is_some() { COUNTED_PAGES } else { PAGES };
    let contenders = Contenders::new(pages)?;
    let all = contenders.all()?;
    let in_play: Vec<&dyn Contender> = all
        .iter()
        .map(AsRef::as_ref)
        .filter(|one| names.is_empty() || names.iter().any(|name| *name == one.name()))
        .collect();
    if let Some(visits) = counted {
        return visit_once(&in_play, visits.parse().context("visits=N wants a number")?);
    }
    if !is_asked("one-page") {
        let times = take_turns(&in_play, &zipf_visits(PAGES, VISITS, 1), 1, ROUNDS)?;
        print(&times, "one thread, all pages");
        bars(&times);
    }
    if names.is_empty() && !is_asked("one-page") {
        with_criterion(&in_play);
    }
    if names.is_empty() {
        println!("hits noted: {:.3}", contenders.default.share_noted());
        println!("metadata: {:.4} of page memory", contenders.default.share_metadata());
        hot_page(&contenders.default, &contenders.log_off)?;
    }
    Ok(())
}

/// Measures the same visits with criterion, one contender after the other, for comparisons with earlier runs.
fn with_criterion(contenders: &[&dyn Contender]) {
    let visits = zipf_visits(PAGES, VISITS, 1);
    let mut criterion = Criterion::default().configure_from_args();
    let mut group = criterion.benchmark_group("hit");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    group.throughput(Throughput::Elements(1));
    for contender in contenders {
        group.bench_function(contender.name(), |bencher| {
            bencher.iter_custom(|iterations| {
                let count = iterations as usize;
                let began = Instant::now();
                for _ in 0..count / VISITS {
                    contender.visit(&visits).expect("every page is in memory");
                }
                contender.visit(&visits[..count % VISITS]).expect("every page is in memory");
                began.elapsed()
            });
        });
    }
    group.finish();
    criterion.final_summary();
}

/// The pools and arrays that contenders visit.
struct Contenders {
    // The file that the pools read from, as long as they are open.
    #[cfg_attr(not(feature = "peers"), expect(dead_code))]
    pages: PoolPages,
    default: OpenPool,
    unmanaged: OpenPool,
    program: OpenPool,
    plain: OpenPool,
    log_off: OpenPool,
    array: Array,
    huge: Array,
}

impl Contenders {
    fn new(count: u32) -> anyhow::Result<Self> {
        let pages = PoolPages::new(Path::new(env!("CARGO_TARGET_TMPDIR")), count, PAGE_BYTES)?;
        let open = |kind| OpenPool::new(kind, &pages, count + 64);
        Ok(Self {
            default: open(PoolKind::Default)?,
            unmanaged: open(PoolKind::Unmanaged)?,
            program: open(PoolKind::Program)?,
            plain: open(PoolKind::Plain)?,
            log_off: open(PoolKind::LogOff)?,
            array: Array::new(count, false),
            huge: Array::new(count, true),
            pages,
        })
    }

    fn all(&self) -> anyhow::Result<Vec<Box<dyn Contender + '_>>> {
        Ok(vec![
            Box::new(&self.array),
            Box::new(&self.huge),
            Box::new(Words::new(&self.huge, true)),
            Box::new(Words::new(&self.huge, false)),
            Box::new(Latched(&self.log_off)),
            Box::new(Owned(&self.log_off)),
            Box::new(Optimistic(&self.log_off)),
            Box::new(Latched(&self.default)),
            Box::new(Owned(&self.default)),
            Box::new(Optimistic(&self.default)),
            Box::new(Latched(&self.plain)),
            Box::new(Latched(&self.unmanaged)),
            Box::new(Latched(&self.program)),
            #[cfg(feature = "peers")]
            Box::new(self.quick_cache()?),
        ])
    }

    #[cfg(feature = "peers")]
    fn quick_cache(&self) -> anyhow::Result<impl Contender> {
        use bufpool_bench::measure::hits::{Cached, QuickCache};
        Cached::<QuickCache>::new(&self.pages, self.pages.pages())
    }
}

/// Visits all pages until not all their hits are noted any more, and then makes `visits` visits.
fn visit_once(contenders: &[&dyn Contender], visits: usize) -> anyhow::Result<()> {
    let warm: Vec<u32> = (0..WARM_VISITS).flat_map(|_| 0..COUNTED_PAGES).collect();
    for contender in contenders {
        contender.visit(&warm)?;
        contender.visit(&zipf_visits(COUNTED_PAGES, COUNTED_VISITS[1], 1)[..visits])?;
    }
    Ok(())
}

/// Compares pools and arrays with `count` pages, after visits until not all hits are noted any more.
fn compare_at(count: u32) -> anyhow::Result<()> {
    let pages = PoolPages::new(Path::new(env!("CARGO_TARGET_TMPDIR")), count, SMALL_PAGE_BYTES)?;
    let open = |kind| OpenPool::new(kind, &pages, count + 64);
    let (default, log_off) = (open(PoolKind::Default)?, open(PoolKind::LogOff)?);
    let array = Array::<SMALL_PAGE_BYTES>::new(count, false);
    let huge = Array::<SMALL_PAGE_BYTES>::new(count, true);
    let pools = [&log_off, &default];
    let [latched_off, latched] = pools.map(Latched);
    let [optimistic_off, optimistic] = pools.map(Optimistic);
    let contenders: [&dyn Contender; 6] =
        [&array, &huge, &latched_off, &optimistic_off, &latched, &optimistic];
    let once: Vec<u32> = (0..count).collect();
    for contender in contenders {
        (0..WARM_VISITS).try_for_each(|_| contender.visit(&once).map(drop))?;
    }
    let times = take_turns(&contenders, &zipf_visits(count, VISITS, 1), 1, ROUNDS)?;
    print(
        &times,
        &format!("one thread, {count} pages of {SMALL_PAGE_BYTES} bytes; at most {SIZES_BAR} expected"),
    );
    println!("hits noted: {:.3}", default.share_noted());
    Ok(())
}

fn count_instructions(names: &[&str]) -> anyhow::Result<()> {
    const NAMES: [&str; 12] = [
        "array",
        "word-latched",
        "word-checked",
        "bufpool-log-off",
        "bufpool-owned-log-off",
        "bufpool-optimistic-log-off",
        "bufpool",
        "bufpool-owned",
        "bufpool-optimistic",
        "bufpool-plain",
        "bufpool-unmanaged",
        "bufpool-program",
    ];
    println!("{:32} {:>12} {:>8} {:>8}", "a visit, by callgrind:", "instructions", "loads", "stores");
    for name in if names.is_empty() { &NAMES } else { names } {
        let [few, many] = COUNTED_VISITS.map(|visits| count(name, visits));
        let (few, many) = (few?, many?);
        let a_visit = |what: usize| (many[what] - few[what]) / (COUNTED_VISITS[1] - COUNTED_VISITS[0]) as f64;
        println!("{name:32} {:12.1} {:8.1} {:8.1}", a_visit(0), a_visit(1), a_visit(2));
    }
    Ok(())
}

/// How many instructions, loads and stores `visits` visits of a contender make, with the functions that they
/// call and nothing else.
fn count(name: &str, visits: usize) -> anyhow::Result<[f64; 3]> {
    let toggle = Some("<bufpool_bench::measure::hits::*::visit*");
    callgrind::count(toggle, &[&format!("visits={visits}"), name])
}

/// Measures visits to one page, by one thread and by two.
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
        ("bufpool-owned-log-off", "bufpool-log-off", 1.5),
        ("bufpool-owned", "bufpool", 1.5),
        ("bufpool-unmanaged", "bufpool-plain", 1.05),
        ("bufpool-program", "bufpool-unmanaged", 1.01),
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
