//! A storage engine in small: transactions on the pages of one file, a redo log, checkpoints, recovery.
//!
//! A page carries the number of its last log record, a hash of itself, and for each thread of the engine the
//! number of that thread's last transaction on it. Transaction `n` of a thread changes two pages that follow
//! from thread and `n`, so a test that knows how many transactions survived knows what every page must be.

mod log;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bufpool::tier::{FileTier, TierAdmit, TierPolicy};
use bufpool::{ErrorKind, File, FileOptions, Pool, PoolOptions, Tenant};
use log::RedoLog;

pub const PAGE_BYTES: usize = 8192;
pub const PAGES: u64 = 96;
pub const THREADS: usize = 3;
const SLOTS_START: usize = 16;

pub struct Engine {
    pool: Pool,
    file: File,
    tenant: Tenant,
    log: RedoLog,
    master: PathBuf,
}

/// What recovery had to do.
#[derive(Clone, Copy, Default, Debug)]
pub struct Recovery {
    /// Records replayed.
    pub records: u64,
    /// Pages that were found as a mix of versions, and repaired.
    pub torn: u64,
}

impl Engine {
    /// Opens what an earlier engine left in `directory`, and recovers it.
    pub fn open(directory: &Path) -> (Self, Recovery) {
        let master = directory.join("master");
        let redo_lsn = fs::read_to_string(&master).map_or(1, |text| text.parse().unwrap());
        let (log, records) = RedoLog::open(&directory.join("log"), redo_lsn);
        let mut options = PoolOptions::new().frames(24).page_bytes(PAGE_BYTES).threads_max(8);
        // Every other process has a tier, in which a kill may leave half-written pages.
        if std::process::id().is_multiple_of(2) {
            let tier = Arc::new(FileTier::new(directory.join("tier"), 32));
            options = options.tier(tier, TierPolicy::Demote, TierAdmit::All);
        }
        let pool = options.log(Box::new(log.clone())).open().unwrap();
        let file = open_when_unlocked(&pool, &directory.join("data"));
        if file.pages() < PAGES {
            file.extend(PAGES - file.pages()).unwrap();
        }
        let engine = Self { tenant: pool.default_tenant(), pool, file, log, master };
        let torn = (0..PAGES).filter(|&number| !engine.is_whole(number)).count() as u64;
        // The log names the pages in the order in which they are needed.
        let mut ahead = engine.tenant.hint([]).unwrap();
        let images =
            || records.iter().flat_map(|(lsn, images)| images.iter().map(move |image| (*lsn, image)));
        ahead.extend(images().map(|(_, (number, _))| engine.file.page(*number).into()));
        images().for_each(|(lsn, (number, image))| engine.redo(lsn, *number, image));
        drop(ahead);
        engine.checkpoint();
        (engine, Recovery { records: records.len() as u64, torn })
    }

    /// Writes the image of a record to a page, unless the page has this record, or a later one, already.
    fn redo(&self, lsn: u64, number: u64, image: &[u8]) {
        let mut page = self.tenant.write(self.file.page(number)).unwrap();
        if !is_whole(&page) || lsn_of(&page) < lsn {
            page.copy_from_slice(image);
            page.set_lsn(lsn);
        }
    }

    /// Whether the page is one version and no mix. Panics if it is ahead of the log.
    fn is_whole(&self, number: u64) -> bool {
        let page = self.tenant.read(self.file.page(number)).unwrap();
        let whole = is_whole(&page);
        assert!(!whole || lsn_of(&page) < self.log.end(), "page {number} was written before its log record");
        whole
    }

    /// Executes a transaction and makes it durable. Both pages are latched until its record is in the log.
    pub fn transact(&self, thread: usize, number: u64) {
        let [first, second] = pages_of(thread, number);
        let mut guards = [first, second].map(|page| self.tenant.write(self.file.page(page)).unwrap());
        let lsn = self.log.append(|lsn| {
            let images = guards.iter_mut().map(|page| {
                page[slot(thread)].copy_from_slice(&number.to_le_bytes());
                page[..8].copy_from_slice(&lsn.to_le_bytes());
                let sum = hash_of(page);
                page[8..16].copy_from_slice(&sum.to_le_bytes());
                page.set_lsn(lsn);
                (page.page().number(), page.to_vec())
            });
            images.collect()
        });
        drop(guards);
        self.log.commit(lsn).unwrap();
    }

    /// Makes the pages durable; recovery need not look at what was logged before.
    pub fn checkpoint(&self) {
        let end = self.log.end();
        self.pool.checkpoint().unwrap();
        self.set_redo_start(end);
    }

    /// Moves the start of recovery to the first record that a page in memory still needs. Pages that were
    /// written but not synced survive the kill of the process; an engine that has to survive a power cut
    /// syncs first.
    pub fn advance_redo_start(&self) {
        let end = self.log.end();
        self.set_redo_start(self.pool.min_dirty_lsn().map_or(end, |lsn| lsn.min(end)));
    }

    fn set_redo_start(&self, lsn: u64) {
        // Recovery cannot begin at a record that is not in the log's file.
        self.log.commit(lsn.saturating_sub(1)).unwrap();
        let new = self.master.with_extension("new");
        fs::write(&new, lsn.to_string()).unwrap();
        fs::File::open(&new).unwrap().sync_all().unwrap();
        fs::rename(&new, &self.master).unwrap();
    }

    /// The number of a thread's last transaction on each page.
    pub fn transactions(&self, thread: usize) -> Vec<u64> {
        let number = |page| {
            let page = self.tenant.read(self.file.page(page)).unwrap();
            assert!(is_whole(&page), "page {} is a mix of versions", page.page().number());
            u64::from_le_bytes(page[slot(thread)].try_into().unwrap())
        };
        (0..PAGES).map(number).collect()
    }
}

/// The two pages that a transaction changes, the lower one first: that is the order of latches.
pub fn pages_of(thread: usize, number: u64) -> [u64; 2] {
    let mix = hash(&[number.to_le_bytes(), (thread as u64).to_le_bytes()].concat());
    let (first, more) = (mix % PAGES, 1 + (mix >> 32) % (PAGES - 1));
    let second = (first + more) % PAGES;
    [first.min(second), first.max(second)]
}

fn slot(thread: usize) -> std::ops::Range<usize> {
    // Far from each other, so that a mix of two versions shows.
    let start = SLOTS_START + thread * (PAGE_BYTES - SLOTS_START) / THREADS / 8 * 8;
    start..start + 8
}

fn lsn_of(page: &[u8]) -> u64 {
    u64::from_le_bytes(page[..8].try_into().expect("eight bytes"))
}

/// Whether a page is as some transaction left it, or was never changed.
fn is_whole(page: &[u8]) -> bool {
    page[8..16] == hash_of(page).to_le_bytes() || page.iter().all(|&byte| byte == 0)
}

/// The hash of a page without the bytes of the hash itself.
fn hash_of(page: &[u8]) -> u64 {
    hash(&page[..8]) ^ hash(&page[16..])
}

/// FNV-1a over words of eight bytes (Fowler, Noll and Vo), the last one filled up with zeros.
fn hash(bytes: &[u8]) -> u64 {
    bytes.chunks(8).fold(0xcbf2_9ce4_8422_2325, |hash, chunk| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mixed = (hash ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
        mixed ^ mixed >> 29
    })
}

/// Writes that a killed process has handed to the kernel may still be going on; the file stays locked until
/// they are over.
fn open_when_unlocked(pool: &Pool, path: &Path) -> File {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        match pool.open_file(path, FileOptions::new().create(true)) {
            Err(error) if error.kind() == ErrorKind::FileLocked && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(1));
            }
            opened => return opened.unwrap(),
        }
    }
}
