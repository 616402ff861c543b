//! A tenant is whatever should be isolated: a table, a query, a thread.
//!
//! `cargo run -p bufpool-examples --example tenants` prints:
//!
//! ```text
//! tenant         accesses  misses
//! currencies           60      20   read again after the query, without a miss
//! report              450     250   LRU would have missed 450 times
//! worker 0            100     100
//! worker 1            100     100
//! ```

use bufpool::{File, FileOptions, ManagerKind, Policy, Pool, PoolOptions, Result, Tenant};

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    // Deterministic mode, so that the numbers above are the ones you get.
    let pool = PoolOptions::new().frames(128).threads_max(4).deterministic(1).open()?;
    let file = |name: &str, pages| file_of(&pool, &folder.path().join(name), pages);

    // A tenant for a table: 20 frames that no other tenant can take, for a small table that every query
    // joins with.
    let currencies = file("currencies", 20)?;
    let table = pool.tenant("currencies").floor_frames(20).open()?;
    scan(&table, &currencies, 2)?;

    // A tenant for a query, which knows that it will read its 150 pages again in the same order. It may have
    // 100 frames at most.
    let lineitem = file("lineitem", 150)?;
    let query = pool.tenant("report").cap_frames(100).open()?;
    query.set_policy(0, Policy::Mru)?;
    scan(&query, &lineitem, 3)?;
    scan(&table, &currencies, 1)?;
    query.close()?;

    // A tenant for each thread. Each asks for a manager of its own, so what one thread reads does not change
    // which of another thread's pages go. Tenants that ask for nothing share one manager.
    let logs = [file("log 0", 100)?, file("log 1", 100)?];
    let worker = |name: &str| pool.tenant(name).manager(Some(ManagerKind::Auto)).open();
    let workers = [worker("worker 0")?, worker("worker 1")?];
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            workers.iter().zip(&logs).map(|(worker, log)| scope.spawn(|| scan(worker, log, 1))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("a worker does not panic"))
    })?;

    println!("{:<14} {:>8} {:>7}", "tenant", "accesses", "misses");
    for tenant in pool.stats().tenants.iter().skip(1) {
        let remark = match tenant.name.as_str() {
            "currencies" if tenant.misses == currencies.pages() => {
                "   read again after the query, without a miss".to_owned()
            }
            // LRU misses each page of a loop over more pages than it has frames.
            "report" => format!("   LRU would have missed {} times", tenant.accesses),
            _ => String::new(),
        };
        println!("{:<14} {:>8} {:>7}{remark}", tenant.name, tenant.accesses, tenant.misses);
    }
    Ok(())
}

fn scan(tenant: &Tenant, file: &File, times: u32) -> Result<()> {
    for _ in 0..times {
        for number in 0..file.pages() {
            tenant.read(file.page(number))?;
        }
    }
    Ok(())
}

fn file_of(pool: &Pool, path: &std::path::Path, pages: u64) -> Result<File> {
    let file = pool.open_file(path, FileOptions::new().create(true))?;
    file.extend(pages)?;
    Ok(file)
}
