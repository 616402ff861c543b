//! What each kind of context is worth to the pool under SQLite: pages read by queries like those of TPC-H,
//! one after the other, three times over, with none, with the statement, with classes of pages, and with the
//! calls above a read as the context.

use std::ffi::CString;
use std::fs;
use std::path::Path;

use bufpool::PoolOptions;
use bufpool_sqlite::{Contexts, VfsOptions};

use crate::common::{Db, UNIX};

/// Sizes of the pool, in percent of the database.
const SHARES: [u64; 3] = [10, 20, 40];
const ROUNDS: usize = 3;

const VARIANTS: [(&str, Contexts); 6] = [
    ("none", Contexts::NONE),
    ("page class", Contexts { page_classes: true, ..Contexts::NONE }),
    ("4 calls", Contexts { stack_depth: 4, ..Contexts::NONE }),
    ("8 calls", Contexts { stack_depth: 8, ..Contexts::NONE }),
    ("statement", Contexts { statements: true, ..Contexts::NONE }),
    ("statement, page class", Contexts { statements: true, page_classes: true, ..Contexts::NONE }),
];

/// Queries of a decision support system: scans, joins by an index, and lookups for a range.
const QUERIES: [&str; 8] = [
    "SELECT flag, sum(quantity), sum(price) FROM lineitem GROUP BY flag",
    "SELECT sum(l.price) FROM customer c CROSS JOIN orders o ON o.customer = c.k
     CROSS JOIN lineitem l ON l.order_key = o.k WHERE c.segment = 1",
    "SELECT count(*) FROM orders o WHERE o.day BETWEEN 300 AND 390
     AND EXISTS (SELECT 1 FROM lineitem l WHERE l.order_key = o.k AND l.day > o.day + 60)",
    "SELECT sum(price) FROM lineitem INDEXED BY lineitem_day WHERE day BETWEEN 500 AND 530",
    "SELECT sum(o.priority) FROM lineitem l CROSS JOIN orders o ON o.k = l.order_key WHERE l.mode = 3",
    "SELECT sum(p.size) FROM lineitem l INDEXED BY lineitem_day CROSS JOIN part p ON p.k = l.part
     WHERE l.day BETWEEN 900 AND 930",
    "SELECT sum(l.quantity) FROM part p CROSS JOIN lineitem l ON l.part = p.k WHERE p.brand = 7",
    "SELECT count(*) FROM customer c CROSS JOIN orders o ON o.customer = c.k WHERE c.nation = 4",
];

/// Prints the table. `orders` is the number of rows of that table; there are four times as many line items.
pub fn print(folder: &Path, orders: u64) {
    fs::create_dir_all(folder).expect("the folder can be made");
    let path = folder.join("tpch.db");
    load(&path, orders);
    let pages = fs::metadata(&path).expect("the database was made").len() / 4096;
    println!(
        "{pages} pages; pages read, and to those without contexts, where the pool holds this share, in percent\n"
    );
    print!("{:24}", "context");
    SHARES.iter().for_each(|share| print!("{:>12} %{:8}", share, ""));
    println!();
    let mut without = [None; SHARES.len()];
    for (name, contexts) in VARIANTS {
        print!("{name:24}");
        for (share, without) in SHARES.into_iter().zip(&mut without) {
            match pages_read(&path, pages * share / 100, &format!("{name} {share}"), contexts) {
                Ok(read) => {
                    let without = *without.get_or_insert(read);
                    print!("{read:12} {:<9.3}", read as f64 / without as f64);
                }
                Err(why) => print!("{why:>22}"),
            }
        }
        println!();
    }
}

fn load(path: &Path, orders: u64) {
    let _ = fs::remove_file(path);
    let db = Db::open(path, UNIX);
    let (items, customers, parts) = (4 * orders, orders / 10, orders / 8);
    let series = |last: u64| {
        format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last})")
    };
    db.run(&format!(
        "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; BEGIN;
         CREATE TABLE customer(k INTEGER PRIMARY KEY, segment INTEGER, nation INTEGER, comment);
         CREATE TABLE part(k INTEGER PRIMARY KEY, brand INTEGER, size INTEGER, comment);
         CREATE TABLE orders(k INTEGER PRIMARY KEY, customer INTEGER, day INTEGER, priority INTEGER, comment);
         CREATE TABLE lineitem(k INTEGER PRIMARY KEY, order_key INTEGER, part INTEGER, day INTEGER, quantity INTEGER,
            price INTEGER, flag INTEGER, mode INTEGER, comment);
         {} INSERT INTO customer SELECT i, i * 31 % 5, i * 7919 % 25, printf('%120d', i) FROM n;
         {} INSERT INTO part SELECT i, i * 7 % 25, i % 50, printf('%100d', i) FROM n;
         {} INSERT INTO orders SELECT i, 1 + i * 7919 % {customers}, i * 104729 % 2400, i % 5, printf('%70d', i)
            FROM n;
         {} INSERT INTO lineitem SELECT i, 1 + i / 4, 1 + i * 7919 % {parts}, i * 15485863 % 2500, i % 50,
            i % 1000, i % 3, i % 7, printf('%60d', i) FROM n;
         CREATE INDEX orders_customer ON orders(customer);
         CREATE INDEX lineitem_order ON lineitem(order_key);
         CREATE INDEX lineitem_part ON lineitem(part);
         CREATE INDEX lineitem_day ON lineitem(day);
         COMMIT",
        series(customers),
        series(parts),
        series(orders),
        series(items)
    ));
}

/// Pages that a pool of `frames` frames reads for all queries, [`ROUNDS`] times.
fn pages_read(path: &Path, frames: u64, name: &str, contexts: Contexts) -> Result<u64, &'static str> {
    let options = PoolOptions::new().frames(frames as u32).page_bytes(4096);
    let pool = options.open().expect("a pool");
    if contexts.stack_depth > 0
        && let Err(_) = pool.tenant("probe").stack_contexts(contexts.stack_depth).open()
    {
        return Err("no frame pointers");
    }
    let vfs = Box::leak(CString::new(name).expect("no name has zeros").into_boxed_c_str());
    let options = VfsOptions { contexts, ..VfsOptions::default() };
    bufpool_sqlite::register(vfs, &pool, options).expect("a VFS");
    let db = Db::open(path, vfs);
    db.run("PRAGMA mmap_size = 1000000000; PRAGMA cache_size = -256");
    for _ in 0..ROUNDS {
        for query in QUERIES {
            assert!(!db.rows(query).is_empty());
        }
    }
    Ok(pool.stats().reads)
}
