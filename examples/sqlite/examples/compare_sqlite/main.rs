//! SQLite by the pool, against SQLite's own cache.
//!
//! Three databases with the same contents: by the pool, with most of the memory; by a VFS with direct I/O and
//! without a cache, where SQLite's own cache has all of the memory; and by SQLite's unix VFS as it is, with
//! as much page cache as there is. Each step runs on one database after the other.
//!
//! ```text
//! cargo run --release -p bufpool-sqlite --example compare_sqlite -- [FOLDER [ROWS [SIDES [STEP...]]]]
//! ```
//!
//! FOLDER must be on a file system with direct I/O; its default is `target/sqlite-compare`. The default of
//! ROWS, 400,000, makes 152 MiB. SIDES are some of `pool,direct,unix`; the default is all. With STEPs, only
//! those steps run after the load whose names contain one of them. With `contexts` before FOLDER, the program
//! prints what each kind of context is worth instead ([`contexts`]), and ROWS are orders:
//!
//! ```text
//! RUSTFLAGS="-C force-frame-pointers=yes" CFLAGS=-fno-omit-frame-pointer cargo run --release \
//!     -p bufpool-sqlite --target-dir target/frames --example compare_sqlite -- contexts
//! ```

#[path = "../../tests/common/mod.rs"]
mod common;
mod contexts;
mod direct;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use std::{env, fs};

use bufpool::{Pool, PoolOptions};
use bufpool_sqlite::VfsOptions;
use common::{BUFPOOL, Db, UNIX};

const MEMORY_BYTES: u64 = 48 << 20;
/// The part of [`MEMORY_BYTES`] that SQLite's own cache has in front of the pool, for pages that SQLite
/// changes. It reads other pages in their frames.
const OWN_CACHE_BYTES: u64 = 1 << 20;
/// Frames of the clean reserve. Dirty pages are written when SQLite syncs, so few dirty victims need a frame
/// of the reserve at a time.
const RESERVE_FRAMES: u32 = 128;

/// A database under one of the three VFSs.
struct Side {
    name: &'static str,
    db: Db,
    /// Pages read since the program began; unknown for the page cache.
    pages_read: Box<dyn Fn() -> Option<u64>>,
}

/// What a step took.
#[derive(Clone, Copy)]
struct Cost {
    elapsed: Duration,
    processor: Duration,
    /// Of all threads.
    context_switches: u64,
    pages_read: Option<u64>,
}

fn main() {
    let mut arguments = env::args().skip(1).peekable();
    let is_about_contexts = arguments.next_if_eq("contexts").is_some();
    let folder = PathBuf::from(arguments.next().unwrap_or_else(|| "target/sqlite-compare".to_owned()));
    let rows = arguments.next().map(|rows| rows.parse().expect("ROWS is a number"));
    if is_about_contexts {
        return contexts::print(&folder, rows.unwrap_or(60_000));
    }
    let rows: u64 = rows.unwrap_or(400_000);
    fs::create_dir_all(&folder).expect("the folder can be made");
    let memory_bytes = MEMORY_BYTES - OWN_CACHE_BYTES;
    let options = PoolOptions::new().memory_bytes(memory_bytes).page_bytes(4096);
    let pool = options.reserve_high_frames(RESERVE_FRAMES).open().expect("a pool");
    bufpool_sqlite::register(BUFPOOL, &pool, VfsOptions::default()).expect("a VFS");
    direct::register(c"direct");
    let named = arguments.next().unwrap_or_else(|| "pool,direct,unix".to_owned());
    let only: Vec<String> = arguments.collect();
    let sides = sides(&folder, &pool, &named.split(',').collect::<Vec<_>>());
    print!("{:26}", "");
    sides.iter().for_each(|side| print!(" {:>27}", side.name));
    println!(" {:>6} {:>6} {:>6}", "time", "proc", "pages");
    for (step, sql) in steps(rows) {
        if step != "load" && !only.is_empty() && !only.iter().any(|name| step.contains(name.as_str())) {
            continue;
        }
        let costs: Vec<Cost> = sides.iter().map(|side| measure(side, &sql)).collect();
        print!("{step:26}");
        costs.iter().for_each(|cost| print!(" {:>27}", cost.to_string()));
        if let [pool, direct, ..] = &costs[..] {
            print!(" {:6.2}", pool.elapsed.as_secs_f64() / direct.elapsed.as_secs_f64());
            print!(" {:6.2}", pool.processor.as_secs_f64() / direct.processor.as_secs_f64());
            if let Some((pool, direct)) =
                pool.pages_read.zip(direct.pages_read).filter(|(_, direct)| *direct > 0)
            {
                print!(" {:6.2}", pool as f64 / direct as f64);
            }
        }
        println!();
    }
    println!(
        "\nseconds elapsed, of the processor, context switches, and pages read; then the first to the second"
    );
}

/// Of the sides that are named, in this order: pool, direct, unix.
fn sides(folder: &Path, pool: &Pool, named: &[&str]) -> Vec<Side> {
    let pool = pool.clone();
    let open = |name, vfs, cache_bytes: Option<u64>, pages_read| {
        if !named.contains(&name) {
            return None;
        }
        let path = folder.join(name).with_extension("db");
        for suffix in ["", "-journal"] {
            let _ = fs::remove_file(format!("{}{suffix}", path.display()));
        }
        let db = Db::open(path, vfs);
        db.run("PRAGMA page_size = 4096");
        if vfs == BUFPOOL {
            db.run("PRAGMA mmap_size = 1000000000");
        }
        if let Some(bytes) = cache_bytes {
            db.run(&format!("PRAGMA cache_size = -{}", bytes >> 10));
        }
        Some(Side { name, db, pages_read })
    };
    let sides = [
        open("pool", BUFPOOL, Some(OWN_CACHE_BYTES), Box::new(move || Some(pool.stats().reads))),
        open(
            "direct",
            c"direct",
            Some(MEMORY_BYTES),
            Box::new(|| Some(direct::PAGES_READ.load(Ordering::Relaxed))),
        ),
        open("unix", UNIX, None, Box::new(|| None)),
    ];
    sides.into_iter().flatten().collect()
}

/// Steps with their statements.
fn steps(rows: u64) -> Vec<(String, String)> {
    let series = |last: u64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last})")
    };
    let mut steps = vec![(
        "load".to_owned(),
        format!(
            "CREATE TABLE t(k INTEGER PRIMARY KEY, a, b);
             CREATE TABLE w(k PRIMARY KEY, b) WITHOUT ROWID;
             BEGIN;
             {n} INSERT INTO t SELECT i, i * 7919 % {rows}, printf('%200d', i) FROM n;
             {n} INSERT INTO w SELECT i, printf('%140d', i) FROM n;
             CREATE INDEX t_a ON t(a);
             COMMIT",
            n = series(rows)
        ),
    )];
    for round in 1..=3 {
        steps.push((format!("scan {round}"), "SELECT sum(length(b)) FROM t".to_owned()));
    }
    for round in 1..=4 {
        steps.push((format!("scan WITHOUT ROWID {round}"), "SELECT sum(length(b)) FROM w".to_owned()));
    }
    steps.push(("integrity_check".to_owned(), "PRAGMA integrity_check".to_owned()));
    let lookups = 60_000;
    for round in 1..=2 {
        steps.push((
            format!("{lookups} lookups {round}"),
            format!(
                "{} SELECT sum(length(t.b)) FROM n CROSS JOIN t ON t.k = 1 + i * 2654435761 % {rows}",
                series(lookups)
            ),
        ));
    }
    // Most lookups are in a part that fits.
    steps.push((
        format!("{lookups} lookups, skewed"),
        format!(
            "{} SELECT sum(length(t.b)) FROM n CROSS JOIN t
             ON t.k = 1 + i * 2654435761 % (CASE WHEN i % 10 < 8 THEN {rows} / 5 ELSE {rows} END)",
            series(lookups)
        ),
    ));
    steps.push((
        "join by an index".to_owned(),
        format!("SELECT sum(length(t.b)) FROM w CROSS JOIN t ON t.a = w.k WHERE w.k <= {}", rows / 4),
    ));
    steps
}

/// Runs the statements of a step.
fn measure(side: &Side, sql: &str) -> Cost {
    let (pages, (processor, switches), begin) = ((side.pages_read)(), process_costs(), Instant::now());
    let rows = side.db.rows(sql);
    assert!(rows.len() <= 1, "{}", side.name);
    let elapsed = begin.elapsed();
    let pages_read = (side.pages_read)().zip(pages).map(|(after, before)| after - before);
    let (processor_after, switches_after) = process_costs();
    Cost {
        elapsed,
        processor: processor_after - processor,
        context_switches: switches_after - switches,
        pages_read,
    }
}

/// Processor time and context switches of the process, with all its threads.
fn process_costs() -> (Duration, u64) {
    // SAFETY: all of its bits may be zero.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: there is a place for the result.
    assert_eq!(unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) }, 0);
    let duration = |time: libc::timeval| {
        Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)
    };
    let switches = usage.ru_nvcsw + usage.ru_nivcsw;
    (duration(usage.ru_utime) + duration(usage.ru_stime), switches as u64)
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (elapsed, processor) = (self.elapsed.as_secs_f64(), self.processor.as_secs_f64());
        write!(f, "{elapsed:.2} {processor:.2} {}", self.context_switches)?;
        self.pages_read.map_or(Ok(()), |pages| write!(f, " {pages}"))
    }
}
