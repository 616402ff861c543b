//! A table of numbers, what it has to contain, and pools for it.
#![allow(dead_code)]

use std::collections::BTreeMap;

use bufpool::PoolOptions;
use redb::{Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition};

const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("table");

/// What the table contains: numbers, and the length and first byte of their values.
pub type Rows = BTreeMap<u64, (usize, u8)>;

/// A seeded generator.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Few frames, so that pages come and go.
pub fn small_pool() -> PoolOptions {
    PoolOptions::new().frames(64).page_bytes(4096).threads_max(8)
}

pub fn open(backend: impl StorageBackend) -> Result<Database, redb::DatabaseError> {
    Database::builder().set_cache_size(0).create_with_backend(backend)
}

/// Changes some rows in one transaction; `rows` follows if it commits.
pub fn change(database: &Database, rows: &mut Rows, random: &mut Random) -> Result<(), redb::Error> {
    let mut after = rows.clone();
    let writing = database.begin_write()?;
    {
        let mut table = writing.open_table(TABLE)?;
        for _ in 0..1 + random.below(40) {
            let key = random.below(2_000);
            if random.below(4) == 0 {
                table.remove(key)?;
                after.remove(&key);
            } else {
                let (len, byte) = ((random.below(3_000)) as usize, random.below(256) as u8);
                table.insert(key, &vec![byte; len][..])?;
                after.insert(key, (len, byte));
            }
        }
    }
    if random.below(8) == 0 {
        writing.abort()?;
    } else {
        writing.commit()?;
        *rows = after;
    }
    Ok(())
}

/// What the table contains.
pub fn rows_of(database: &Database) -> Rows {
    let reading = database.begin_read().unwrap();
    let table = match reading.open_table(TABLE) {
        Err(redb::TableError::TableDoesNotExist(_)) => return Rows::new(),
        table => table.unwrap(),
    };
    let rows = table.iter().unwrap().map(|row| {
        let (key, value) = row.unwrap();
        let bytes = value.value();
        let first = bytes.first().copied().unwrap_or(0);
        assert!(bytes.iter().all(|byte| *byte == first), "row {}", key.value());
        (key.value(), (bytes.len(), first))
    });
    rows.collect()
}

/// The same rows; the first byte of nothing does not matter.
pub fn assert_same(found: &Rows, expected: &Rows) {
    let plain = |rows: &Rows| -> Vec<(u64, usize, u8)> {
        rows.iter().map(|(key, (len, byte))| (*key, *len, if *len == 0 { 0 } else { *byte })).collect()
    };
    assert_eq!(plain(found), plain(expected));
}
