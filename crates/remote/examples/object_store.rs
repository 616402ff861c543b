//! A heap file and a B+-tree on an object store, with a local file as a tier between: made, committed, read
//! by another pool, and two writers.
//!
//! `cargo run -p bufpool-remote --example object_store --features s3` starts an S3 server where versitygw is
//! installed. Without the feature, or the server, a folder is the store; a tier that is no faster than that
//! is passed by, and the example says so. Prints the place, and then, but for the counts of the tier:
//!
//! ```text
//! loaded 20000 orders, committed in manifest 2
//! order 12345 is of customer 345
//! a second pool sees 20000 orders
//! 2000 lookups missed 1423 pages, of which the store was asked for 127
//! the tier saved 1296 reads of 5.1 ms each
//! the second writer lost: its file shows customer 1 for order 7
//! garbage: collected
//! ```

#[path = "../tests/common/s3.rs"]
mod s3;

use std::sync::Arc;

use bufpool::tier::{FileTier, TierAdmit, TierPolicy};
use bufpool::{File, FileOptions, Pool, PoolOptions};
use bufpool_examples::btree::BTree;
use bufpool_examples::heap::{HeapFile, Layout, Rid};
use bufpool_remote::object::object_store::ObjectStore;
use bufpool_remote::object::object_store::local::LocalFileSystem;
use bufpool_remote::object::{ObjectError, ObjectOptions, ObjectSource, Worker};

type Result<T, E = Box<dyn std::error::Error>> = std::result::Result<T, E>;
type Index = BTree<8, 8>;

const ORDERS: u64 = 20_000;
const TUPLE_BYTES: usize = 32;
const LOOKUPS: u64 = 2_000;

fn main() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let server = s3::start();
    let store: Arc<dyn ObjectStore> = match &server {
        Some(server) => server.store(),
        None => Arc::new(LocalFileSystem::new_with_prefix(folder.path())?),
    };
    println!("on {store}");
    load(&store)?;
    read(&store)?;
    let drive = tempfile::tempdir()?;
    look_up(&store, FileTier::new(drive.path().join("tier"), 1024))?;
    race(&store)
}

fn options(worker: &Arc<Worker>) -> ObjectOptions {
    // No grace period, because nobody reads old manifests here.
    ObjectOptions::new().page_bytes(8192).grace_secs(0).worker(worker.clone())
}

fn pool() -> Result<Pool> {
    Ok(PoolOptions::new().frames(256).page_bytes(8192).open()?)
}

/// Opens one of the two files in a pool.
fn open(store: &Arc<dyn ObjectStore>, name: &str, pool: &Pool) -> Result<(File, Arc<ObjectSource>)> {
    let source = ObjectSource::open(store.clone(), name, options(&Worker::start()?))?;
    Ok((pool.open_source(source.clone(), FileOptions::new())?, source))
}

fn tuple(order: u64, customer: u64) -> [u8; TUPLE_BYTES] {
    let mut tuple = [0; TUPLE_BYTES];
    tuple[..8].copy_from_slice(&order.to_be_bytes());
    tuple[8..16].copy_from_slice(&customer.to_be_bytes());
    tuple
}

fn customer_of(heap: &HeapFile, index: &Index, pool: &Pool, order: u64) -> Result<u64> {
    let tenant = pool.default_tenant();
    let rid = index.get(&tenant, &order.to_be_bytes())?.map(Rid::from_bytes).ok_or("no such order")?;
    let customer = heap.get(&tenant, rid, |tuple| tuple[8..16].try_into().map(u64::from_be_bytes))?;
    Ok(customer.ok_or("no such tuple")??)
}

fn load(store: &Arc<dyn ObjectStore>) -> Result<()> {
    let pool = pool()?;
    let worker = Worker::start()?;
    let source = ObjectSource::create(store.clone(), "orders/heap", options(&worker))?;
    let heap =
        HeapFile::new(pool.open_source(source.clone(), FileOptions::new())?, Layout::Slotted, TUPLE_BYTES)?;
    let index = ObjectSource::create(store.clone(), "orders/index", options(&worker))?;
    let tenant = pool.default_tenant();
    let index = Index::create(pool.open_source(index, FileOptions::new())?, &tenant)?;
    for order in 0..ORDERS {
        let rid = heap.insert(&tenant, &tuple(order, order % 1000))?;
        index.insert(&tenant, &order.to_be_bytes(), &rid.to_bytes())?;
    }
    pool.close()?;
    println!("loaded {ORDERS} orders, committed in manifest {}", source.report().manifest);
    Ok(())
}

fn read(store: &Arc<dyn ObjectStore>) -> Result<()> {
    let pool = pool()?;
    let heap = HeapFile::new(open(store, "orders/heap", &pool)?.0, Layout::Slotted, TUPLE_BYTES)?;
    let index = Index::open(open(store, "orders/index", &pool)?.0, &pool.default_tenant())?;
    println!("order 12345 is of customer {}", customer_of(&heap, &index, &pool, 12345)?);
    let orders = index.scan(&pool.default_tenant(), ..)?.count() as u64;
    println!("a second pool sees {orders} orders");
    Ok(pool.close()?)
}

/// Lookups by a pool that has room for fewer pages than the tables have. The tier keeps what it gives up.
fn look_up(store: &Arc<dyn ObjectStore>, tier: FileTier) -> Result<()> {
    let options = PoolOptions::new().frames(64).page_bytes(8192).read_ahead(false);
    let pool = options.tier(Arc::new(tier), TierPolicy::Inclusive, TierAdmit::All).open()?;
    let heap = HeapFile::new(open(store, "orders/heap", &pool)?.0, Layout::Slotted, TUPLE_BYTES)?;
    let index = Index::open(open(store, "orders/index", &pool)?.0, &pool.default_tenant())?;
    let mut order = 0;
    for _ in 0..LOOKUPS {
        order = (order + 7_919) % ORDERS;
        assert_eq!(customer_of(&heap, &index, &pool, order)?, order % 1000);
    }
    let stats = pool.stats();
    let tier = stats.tier.ok_or("the pool has no tier")?;
    println!(
        "{LOOKUPS} lookups missed {} pages, of which the store was asked for {}",
        stats.misses, stats.reads
    );
    println!("the tier saved {} reads of {:.1} ms each", tier.hits, tier.source_latency_us / 1000.0);
    if let Some(why) = tier.passed_by {
        println!("the tier is passed by: {why}");
    }
    Ok(pool.close()?)
}

/// Two writers change the same order. The one that flushes first wins; the other is told, and goes on with
/// what the first has committed.
fn race(store: &Arc<dyn ObjectStore>) -> Result<()> {
    let (first, second) = (pool()?, pool()?);
    let (file, source) = open(store, "orders/heap", &first)?;
    let heap = HeapFile::new(file.clone(), Layout::Slotted, TUPLE_BYTES)?;
    let (other_file, _) = open(store, "orders/heap", &second)?;
    let other = HeapFile::new(other_file.clone(), Layout::Slotted, TUPLE_BYTES)?;
    let index = Index::open(open(store, "orders/index", &second)?.0, &second.default_tenant())?;
    let rid = index.get(&second.default_tenant(), &7_u64.to_be_bytes())?.ok_or("no such order")?;
    let rid = Rid::from_bytes(rid);
    heap.update(&first.default_tenant(), rid, |old| old.copy_from_slice(&tuple(7, 1)))?;
    other.update(&second.default_tenant(), rid, |old| old.copy_from_slice(&tuple(7, 2)))?;
    file.flush()?;
    let lost = other_file.flush().err().ok_or("both have won")?;
    assert!(matches!(ObjectError::of(&lost), Some(ObjectError::Superseded { .. })), "{lost}");
    other_file.reopen()?;
    let customer = customer_of(&other, &index, &second, 7)?;
    println!("the second writer lost: its file shows customer {customer} for order 7");
    assert!(source.collect_garbage()?.chunks > 0);
    println!("garbage: collected");
    first.close()?;
    Ok(second.close()?)
}
