//! The sessions that are recorded.

use super::common::Db;

/// A session of one or more connections.
pub struct Session {
    /// The name of the trace's file.
    pub name: &'static str,
    /// Connections to the same database, at least one.
    pub connections: usize,
    /// Fills the database; not recorded.
    pub load: fn(&Db),
    /// Runs the statements that are recorded.
    pub run: fn(&[Db]),
}

/// All of them.
pub const ALL: &[Session] = &[
    Session { name: "sqlite_tpch_1", connections: 1, load: |db| load_orders(db, 2_000), run: queries },
    Session { name: "sqlite_tpch_4", connections: 1, load: |db| load_orders(db, 8_000), run: queries },
    Session { name: "sqlite_oltp", connections: 4, load: |db| load_orders(db, 8_000), run: transactions },
    Session { name: "sqlite_index_build", connections: 1, load: load_wide, run: build_indexes },
    Session { name: "sqlite_join", connections: 1, load: load_wide, run: join },
];

/// The numbers 1 to `last` as a table `n(i)`.
fn numbers(last: u64) -> String {
    format!("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {last})")
}

/// Tables like those of TPC-H: customers, parts, orders with four lines each.
fn load_orders(db: &Db, orders: u64) {
    let (customers, parts, lines) = (orders / 10, orders / 8, 4 * orders);
    db.run(&format!(
        "CREATE TABLE customer(c_key INTEGER PRIMARY KEY, c_nation INT, c_segment INT, c_text);
         CREATE TABLE part(p_key INTEGER PRIMARY KEY, p_type INT, p_size INT, p_text);
         CREATE TABLE orders(o_key INTEGER PRIMARY KEY, o_customer INT, o_date INT, o_text);
         CREATE TABLE lineitem(l_order INT, l_part INT, l_quantity INT, l_price INT, l_shipped INT, l_mode INT, l_text);
         BEGIN;
         {} INSERT INTO customer SELECT i, i * 7919 % 25, i % 5, printf('%160d', i) FROM n;
         {} INSERT INTO part SELECT i, i * 31 % 50, i % 40, printf('%130d', i) FROM n;
         {} INSERT INTO orders SELECT i, 1 + i * 2654435761 % {customers}, i * 48271 % 2400, printf('%90d', i) FROM n;
         {} INSERT INTO lineitem SELECT 1 + i / 4 % {orders}, 1 + i * 2246822519 % {parts}, i % 50, i * 37 % 1000,
            (i / 4 * 48271 + i * 13) % 2500, i % 7, printf('%70d', i) FROM n;
         CREATE INDEX orders_customer ON orders(o_customer);
         CREATE INDEX orders_date ON orders(o_date);
         CREATE INDEX lineitem_order ON lineitem(l_order);
         CREATE INDEX lineitem_part ON lineitem(l_part);
         COMMIT;
         ANALYZE",
        numbers(customers),
        numbers(parts),
        numbers(orders),
        numbers(lines)
    ));
}

/// Queries like TPC-H's 1, 3, 4, 5, 6, 10, 12, 14, 17 and 18, each twice.
fn queries(connections: &[Db]) {
    const QUERIES: [&str; 10] = [
        "SELECT l_mode, sum(l_quantity), avg(l_price), count(*) FROM lineitem WHERE l_shipped < 2300 GROUP BY l_mode",
        "SELECT o_key, sum(l_price) AS revenue FROM customer, orders, lineitem WHERE c_segment = 2 AND c_key = o_customer
         AND l_order = o_key AND o_date < 1100 AND l_shipped > 1100 GROUP BY o_key ORDER BY revenue DESC LIMIT 10",
        "SELECT o_date / 100, count(*) FROM orders WHERE o_date BETWEEN 600 AND 900
         AND EXISTS (SELECT 1 FROM lineitem WHERE l_order = o_key AND l_shipped > o_date) GROUP BY 1",
        "SELECT c_nation, sum(l_price) FROM customer, orders, lineitem WHERE c_key = o_customer AND l_order = o_key
         AND o_date BETWEEN 400 AND 800 GROUP BY c_nation",
        "SELECT sum(l_price * l_quantity) FROM lineitem WHERE l_shipped BETWEEN 300 AND 700 AND l_quantity < 24",
        "SELECT c_key, c_text, sum(l_price) AS lost FROM customer, orders, lineitem WHERE c_key = o_customer
         AND l_order = o_key AND o_date BETWEEN 1000 AND 1200 AND l_mode = 3 GROUP BY c_key ORDER BY lost DESC LIMIT 20",
        "SELECT l_mode, count(*) FROM orders, lineitem WHERE o_key = l_order AND l_mode IN (1, 5)
         AND l_shipped BETWEEN 900 AND 1300 GROUP BY l_mode",
        "SELECT sum(CASE WHEN p_type < 10 THEN l_price ELSE 0 END) FROM lineitem, part WHERE l_part = p_key
         AND l_shipped BETWEEN 1500 AND 1700",
        "SELECT sum(l_price) / 7 FROM lineitem, part WHERE p_key = l_part AND p_type = 7 AND l_quantity <
         (SELECT 0.9 * avg(l_quantity) FROM lineitem AS other WHERE other.l_part = p_key)",
        "SELECT o_key, sum(l_quantity) AS sold FROM orders, lineitem WHERE o_key = l_order GROUP BY o_key
         HAVING sold > 150 ORDER BY sold DESC LIMIT 100",
    ];
    for round in 0..2 {
        for number in 0..QUERIES.len() {
            // The second round in another order.
            connections[0].run(QUERIES[(number * (1 + 2 * round)) % QUERIES.len()]);
        }
    }
}

/// Four connections in turn look up, change and insert orders and their lines, most of them recent ones. One
/// statement in twenty is a report over a range. The arguments of a statement are in a table of the
/// connection, so that the text of the statement, which tells contexts apart, is always the same.
fn transactions(connections: &[Db]) {
    const ORDERS: u64 = 8_000;
    for db in connections {
        db.run("PRAGMA temp_store = MEMORY; CREATE TEMP TABLE args(key INT, other INT)");
        db.run("INSERT INTO args VALUES(0, 0)");
    }
    for at in 0..6_000_u64 {
        let db = &connections[at as usize % connections.len()];
        let drawn = at.wrapping_mul(2_654_435_761) >> 7;
        let (customer, part) = (1 + drawn % (ORDERS / 10), 1 + drawn % (ORDERS / 8));
        let order = if at % 10 < 7 { ORDERS - drawn % (ORDERS / 10) } else { 1 + drawn % ORDERS };
        let run = |key: u64, other: u64, statement: &str| {
            db.run(&format!("UPDATE args SET key = {key}, other = {other}"));
            db.run(statement);
        };
        match at % 20 {
            0..9 => run(order, 0, "SELECT sum(l_price) FROM lineitem WHERE l_order = (SELECT key FROM args)"),
            9..13 => run(
                customer,
                0,
                "SELECT count(*), max(o_date) FROM orders WHERE o_customer = (SELECT key FROM args)",
            ),
            13..16 => {
                run(order, 0, "UPDATE orders SET o_date = o_date + 1 WHERE o_key = (SELECT key FROM args)");
            }
            16..18 => run(
                ORDERS + 1 + at,
                customer,
                "INSERT INTO orders SELECT key, other, 2400, printf('%90d', key) FROM args",
            ),
            18 => run(
                ORDERS + at,
                part,
                "INSERT INTO lineitem SELECT key, other, 3, 10, 2400, 1, printf('%70d', key) FROM args",
            ),
            _ => run(
                drawn % 2300,
                drawn % 2300 + 20,
                "SELECT count(o_text) FROM orders
                 WHERE o_date BETWEEN (SELECT key FROM args) AND (SELECT other FROM args)",
            ),
        }
    }
}

/// A table of 7 MiB: 40,000 rows of about 180 bytes, with other values of `a`, `b` and `c` from row to row.
fn load_wide(db: &Db) {
    db.run(&format!(
        "CREATE TABLE wide(k INTEGER PRIMARY KEY, a INT, b INT, c INT, t);
         BEGIN; {} INSERT INTO wide SELECT i, i * 7919 % 40000, i * 48271 % 977, i % 40, printf('%160d', i) FROM n; COMMIT",
        numbers(40_000)
    ));
}

fn build_indexes(connections: &[Db]) {
    let db = &connections[0];
    for (name, columns) in [("wide_a", "a"), ("wide_b", "b, a"), ("wide_c", "c, b")] {
        db.run(&format!("CREATE INDEX {name} ON wide({columns})"));
        db.run(&format!(
            "SELECT count(*) FROM wide INDEXED BY {name} WHERE {columns} > 0",
            columns = &columns[..1]
        ));
    }
    db.run("DELETE FROM wide WHERE k % 17 = 3");
    db.run("REINDEX wide_b");
}

/// The table is joined with itself, first by an index and then by its key. Half of its rows, then a quarter,
/// each fetch one row elsewhere in the table.
fn join(connections: &[Db]) {
    let db = &connections[0];
    db.run("CREATE INDEX wide_a ON wide(a)");
    db.run("SELECT sum(length(inner.t)) FROM wide AS outer CROSS JOIN wide AS inner ON inner.a = outer.k WHERE outer.c < 20");
    db.run("SELECT count(*) FROM wide AS outer CROSS JOIN wide AS inner ON inner.k = outer.a WHERE outer.c >= 30");
}
