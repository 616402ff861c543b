//! The pool keeps pages, the engine keeps a log: what both do so that a committed change outlives a power
//! cut.
//!
//! `cargo run -p bufpool-examples --example crash_recovery` prints:
//!
//! ```text
//! 100 changes committed, 15 more not, then the power is cut
//! 55 of them were not in the file and are redone; nothing is lost, nothing uncommitted is there
//! ```
//!
//! The device is simulated, so that its power can be cut. The log is a list, of which a first part is
//! durable.

use std::sync::{Arc, Mutex};

use bufpool::sim::SimDevice;
use bufpool::{File, FileOptions, Pool, PoolOptions, Result, WriteGuard};

const PAGES: u64 = 60;
const PAGE_BYTES: usize = 4096;

/// A change of a page, and its log sequence number.
#[derive(Clone, Copy)]
struct Record {
    lsn: u64,
    page: u64,
    value: u64,
}

/// The log. A real one is a file, and `durable` grows when that file was synced.
#[derive(Default)]
struct Records {
    all: Vec<Record>,
    durable: usize,
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Records>>);

impl Log {
    fn append(&self, page: u64, value: u64) -> Record {
        let mut records = self.0.lock().unwrap();
        let record = Record { lsn: records.all.len() as u64 + 1, page, value };
        records.all.push(record);
        record
    }

    fn commit(&self) {
        let mut records = self.0.lock().unwrap();
        records.durable = records.all.len();
    }

    fn records(&self) -> usize {
        self.0.lock().unwrap().all.len()
    }

    fn after_power_cut(&self) -> Self {
        let records = self.0.lock().unwrap();
        let all = records.all[..records.durable].to_vec();
        Self(Arc::new(Mutex::new(Records { durable: all.len(), all })))
    }
}

/// What the pool asks before it writes a page: the page's last record must be durable.
impl bufpool::engine::Log for Log {
    fn end(&self) -> u64 {
        self.0.lock().unwrap().all.len() as u64 + 1
    }

    fn durable(&self) -> u64 {
        self.0.lock().unwrap().durable as u64
    }

    fn advance(&self, _: u64) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        self.commit();
        Ok(())
    }
}

fn main() -> Result<()> {
    let (device, log) = (SimDevice::new(7), Log::default());
    // Here a page is written as a whole or not at all. Where a page may be torn, an engine logs whole pages.
    device.set_sector_bytes(PAGE_BYTES);
    let (pool, file) = open(&device, &log)?;
    file.extend(PAGES)?;
    file.flush()?;
    let tenant = pool.default_tenant();
    for change in 1..=115 {
        // The record is appended while the page is latched: the log has the order of the changes.
        let mut guard = tenant.write(file.page(change * 7 % PAGES))?;
        let record = log.append(guard.page().number(), change * change);
        apply(&mut guard, record);
        if change % 20 == 0 {
            log.commit();
        }
    }
    let survived = device.crash_image(3);
    device.cut_power();
    let (before, after) = (log.records(), log.after_power_cut());
    let committed = after.records();
    println!("{committed} changes committed, {} more not, then the power is cut", before - committed);
    recover(&survived, &after)
}

/// Redoes what the file lacks of the committed changes.
fn recover(device: &SimDevice, log: &Log) -> Result<()> {
    let (pool, file) = open(device, log)?;
    let tenant = pool.default_tenant();
    let records = log.0.lock().unwrap().all.clone();
    // The log names the pages in the order in which they are needed, so the pool can fetch them ahead.
    let mut ahead = tenant.hint([])?;
    ahead.extend(records.iter().map(|record| file.page(record.page).into()));
    let mut redone = 0;
    for record in &records {
        let mut guard = tenant.write(file.page(record.page))?;
        assert!(number_at(&guard, 0) <= records.len() as u64, "no page is ahead of its log");
        if number_at(&guard, 0) < record.lsn {
            apply(&mut guard, *record);
            redone += 1;
        }
    }
    drop(ahead);
    pool.checkpoint()?;
    for page in 0..PAGES {
        let last = records.iter().rev().find(|record| record.page == page).map_or(0, |last| last.value);
        assert_eq!(number_at(&tenant.read(file.page(page))?, 8), last);
    }
    println!(
        "{redone} of them were not in the file and are redone; nothing is lost, nothing uncommitted is there"
    );
    pool.close()
}

fn open(device: &SimDevice, log: &Log) -> Result<(Pool, File)> {
    let options = PoolOptions::new().frames(32).page_bytes(PAGE_BYTES).threads_max(4).deterministic(1);
    let pool = options.log(Box::new(log.clone())).open_on(device)?;
    let file = pool.open_file("accounts", FileOptions::new().create(true))?;
    Ok((pool, file))
}

/// A page holds the log sequence number of its last record, and a value.
fn apply(page: &mut WriteGuard<'_>, record: Record) {
    page[..8].copy_from_slice(&record.lsn.to_le_bytes());
    page[8..16].copy_from_slice(&record.value.to_le_bytes());
    page.set_lsn(record.lsn);
}

fn number_at(page: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(page[offset..offset + 8].try_into().unwrap())
}
