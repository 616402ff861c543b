//! The engine's redo log: records of page images, made durable in groups.
//!
//! A record's log sequence number is its offset plus 1, so that numbers start at 1 and the log is durable up
//! to its durable length.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::{PAGE_BYTES, hash};

/// Length and hash of what follows.
const HEADER_BYTES: usize = 16;

/// The images that a transaction leaves of the pages it changed.
pub type Images = Vec<(u64, Vec<u8>)>;

/// A log that is appended to; clones are the same log.
#[derive(Clone)]
pub struct RedoLog(Arc<LogContents>);

struct LogContents {
    /// Records not yet handed to the file.
    tail: Mutex<Vec<u8>>,
    end: AtomicU64,
    durable: AtomicU64,
    file: Mutex<File>,
}

impl RedoLog {
    /// Opens the log, and returns with it the records from `redo_lsn` on. What follows the last whole record
    /// is cut off: nobody was told that it is durable.
    pub fn open(path: &Path, redo_lsn: u64) -> (Self, Vec<(u64, Images)>) {
        let mut file =
            OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let mut records = Vec::new();
        let mut end = redo_lsn as usize - 1;
        while let Some((images, next)) = parse(&bytes, end) {
            records.push((end as u64 + 1, images));
            end = next;
        }
        file.set_len(end as u64).unwrap();
        file.sync_data().unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        let length = || AtomicU64::new(end as u64);
        let shared =
            LogContents { tail: Mutex::default(), end: length(), durable: length(), file: Mutex::new(file) };
        (Self(Arc::new(shared)), records)
    }

    /// Appends a record to the log in memory. `prepare` is told its number before the images are taken.
    pub fn append(&self, prepare: impl FnOnce(u64) -> Images) -> u64 {
        let mut tail = self.0.tail.lock();
        let lsn = self.0.end.load(Ordering::Relaxed) + 1;
        let mut body = Vec::new();
        for (page, image) in prepare(lsn) {
            body.extend(page.to_le_bytes());
            body.extend(image);
        }
        tail.extend((body.len() as u64).to_le_bytes());
        tail.extend(hash(&body).to_le_bytes());
        tail.extend(&body);
        self.0.end.fetch_add((HEADER_BYTES + body.len()) as u64, Ordering::Release);
        lsn
    }

    /// Makes the records up to `lsn` durable, and with them all that were appended before the call.
    pub fn commit(&self, lsn: u64) -> std::io::Result<()> {
        let mut file = self.0.file.lock();
        if self.0.durable.load(Ordering::Acquire) >= lsn {
            return Ok(());
        }
        let tail = std::mem::take(&mut *self.0.tail.lock());
        file.write_all(&tail)?;
        file.sync_data()?;
        self.0.durable.fetch_add(tail.len() as u64, Ordering::Release);
        Ok(())
    }

    /// The number of the next record.
    pub fn end(&self) -> u64 {
        self.0.end.load(Ordering::Acquire) + 1
    }
}

impl bufpool::engine::Log for RedoLog {
    fn end(&self) -> u64 {
        RedoLog::end(self)
    }

    fn durable(&self) -> u64 {
        self.0.durable.load(Ordering::Acquire)
    }

    fn advance(&self, lsn: u64) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
        Ok(self.commit(lsn)?)
    }
}

/// The record at `offset` and the offset behind it, if it is there as a whole.
fn parse(bytes: &[u8], offset: usize) -> Option<(Images, usize)> {
    let number = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let start = offset + HEADER_BYTES;
    let end = start.checked_add(usize::try_from(number(offset)?).ok()?)?;
    let body = bytes.get(start..end)?;
    if hash(body) != number(offset + 8)? {
        return None;
    }
    let images = body.chunks(8 + PAGE_BYTES).map(|part| {
        let (page, image) = part.split_at(8);
        (u64::from_le_bytes(page.try_into().expect("eight bytes")), image.to_vec())
    });
    Some((images.collect(), end))
}
