//! Open a pool, make a file, write pages, read them back.
//!
//! `cargo run -p bufpool-examples --example quickstart` prints:
//!
//! ```text
//! page 42 holds order 42
//! 200 accesses, 100 pages made, at least 36 of them evicted
//! page 42 still holds order 42
//! ```

use bufpool::{FileOptions, PoolOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("orders");

    // 64 frames of 8 KiB for a file of 100 pages: some have to go.
    let pool = PoolOptions::new().frames(64).page_bytes(8192).open()?;
    let orders = pool.open_file(&path, FileOptions::new().create(true))?;
    let tenant = pool.default_tenant();

    // A new page is made, not read. The guard is an exclusive latch; dropping it lets go.
    for number in orders.extend(100)? {
        let mut page = tenant.create(orders.page(number))?;
        page[..8].copy_from_slice(&number.to_le_bytes());
    }

    // Shared guards dereference to the page's bytes.
    for number in 0..100 {
        let page = tenant.read(orders.page(number))?;
        if number == 42 {
            println!("page 42 holds order {}", u64::from_le_bytes(page[..8].try_into()?));
        }
    }

    let stats = pool.stats();
    assert!(stats.evictions >= 36);
    println!("{} accesses, {} pages made, at least 36 of them evicted", stats.accesses, stats.creations);

    // Everything is on disk when this returns.
    pool.close()?;

    let pool = PoolOptions::new().frames(64).page_bytes(8192).open()?;
    let orders = pool.open_file(&path, FileOptions::new().read_only(true))?;
    let tenant = pool.default_tenant();
    let page = tenant.read(orders.page(42))?;
    println!("page 42 still holds order {}", u64::from_le_bytes(page[..8].try_into()?));
    Ok(())
}
