//! Nobody gives a directive: the pool finds out by itself what each part of a program does with its pages.
//!
//! A query joins orders with parts, looks up customers through an index, and reads a log once, all through
//! one fetch function. Scopes say which operator is at work.
//!
//! `cargo run -p bufpool-examples --example call_sites` prints:
//!
//! ```text
//! context                      file       pattern    accesses  misses  frames
//! Q7 > join > fetch            parts      loop          20000   13055     279
//! Q7 > index probe > fetch     customers  other         20000    1486     120
//! Q7 > log scan > fetch        log        one-shot      20000   20000       1
//! 34541 misses; LRU has 47257
//! ```

use bufpool::stats::StreamStats;
use bufpool::{File, FileOptions, ManagerKind, Pool, PoolOptions, Result, Tenant, context, site};

const FRAMES: u32 = 400;

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let mut lru_misses = 0;
    // The first run has no manager, so LRU decides. The second has AMP, whose report names the pattern of
    // each stream. A pool on which `manager` is not called has the manager `auto`.
    for manager in [None, Some(ManagerKind::Amp)] {
        // Deterministic mode, so that the numbers above are the ones you get.
        let pool = PoolOptions::new().frames(FRAMES).deterministic(1).manager(manager).open()?;
        let session = pool.tenant("session").open()?;
        run(&pool, &session, folder.path())?;
        let stats = pool.stats();
        if manager.is_none() {
            lru_misses = stats.misses;
            continue;
        }
        println!(
            "{:<28} {:<10} {:<10} {:>8} {:>7} {:>7}",
            "context", "file", "pattern", "accesses", "misses", "frames"
        );
        for StreamStats { file, seen, .. } in &stats.streams {
            let context = stats.contexts.iter().find(|context| context.id == seen.context.0);
            let context = context.expect("streams come from contexts");
            println!(
                "{:<28} {:<10} {:<10} {:>8} {:>7} {:>7}",
                format!("{} > {}", context.scopes, context.name.as_deref().unwrap_or("-")),
                file.rsplit('/').next().unwrap_or("-"),
                seen.class,
                seen.hits + seen.misses,
                seen.misses,
                seen.frames
            );
        }
        println!("{} misses; LRU has {lru_misses}", stats.misses);
        pool.close()?;
    }
    Ok(())
}

/// The query. It reads all parts again and again, looks customers up in random order, and reads the log once.
fn run(pool: &Pool, session: &Tenant, folder: &std::path::Path) -> Result<()> {
    let file = |name: &str, pages| {
        let file = pool.open_file(folder.join(name), FileOptions::new().create(true))?;
        file.extend(pages - file.pages())?;
        Ok(file)
    };
    let (parts, customers, log) = (file("parts", 600)?, file("customers", 150)?, file("log", 20_000)?);
    let mut random = 1_u64;
    let _query = context!("Q7");
    for step in 0..20_000 {
        {
            let _join = context!("join");
            fetch(session, &parts, step % parts.pages())?;
        }
        {
            let _probe = context!("index probe");
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            fetch(session, &customers, (random >> 33) % customers.pages())?;
        }
        {
            let _scan = context!("log scan");
            fetch(session, &log, step)?;
        }
    }
    Ok(())
}

/// The one place of the engine that fetches pages. All accesses have this call site, so it tells nothing
/// apart; the site is named for the report.
fn fetch(session: &Tenant, file: &File, number: u64) -> Result<()> {
    let page = session.at(site!("fetch")).read(file.page(number))?;
    std::hint::black_box(page[0]);
    Ok(())
}
