//! A file of bytes over a file of pages.
//!
//! SQLite reads and writes at byte positions: pages of its own size, and a few bytes of the header. While the
//! file is open it has whole pages, and the bytes behind the database are zeros. SQLite does not mind them
//! after a crash, since the header says how many pages the database has. Closing cuts the file to its length.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bufpool::{At, File, FileOptions, Pool, Result};

/// The bytes of a database, in a pool.
///
/// Nobody changes bytes that another reads or writes, nor the length beside other changes: SQLite's locks see
/// to that.
pub(crate) struct Pages {
    file: File,
    length_bytes: AtomicU64,
}

/// A part of a range of bytes that lies in one page.
struct Piece {
    page: u64,
    /// In the page.
    bytes: Range<usize>,
    /// In the range.
    part: Range<usize>,
}

impl Pages {
    /// Of an open file, which has whole pages.
    pub fn open(pool: &Pool, file: OwnedFd, length_bytes: u64, read_only: bool) -> Result<Self> {
        let file = pool.open_fd(file, FileOptions::new().read_only(read_only))?;
        Ok(Self { file, length_bytes: AtomicU64::new(length_bytes) })
    }

    pub fn length_bytes(&self) -> u64 {
        // Relaxed: whoever changes it does so under a lock of SQLite's.
        self.length_bytes.load(Ordering::Relaxed)
    }

    fn set_length_bytes(&self, bytes: u64) {
        self.length_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Fills `into` from `offset` on, and returns how many bytes there are; those behind the end are zeros.
    pub fn read(&self, access: At<'_>, offset: u64, into: &mut [u8]) -> Result<usize> {
        let there = self.length_bytes().saturating_sub(offset).min(into.len() as u64) as usize;
        let numbers = self.numbers(offset, there);
        if numbers.end > numbers.start + 1 {
            // What is absent becomes one transfer.
            access.prefetch(numbers.map(|number| self.file.page(number)));
        }
        for Piece { page, bytes, part } in self.pieces(offset, there) {
            into[part].copy_from_slice(&access.read(self.file.page(page))?[bytes]);
        }
        into[there..].fill(0);
        Ok(there)
    }

    /// Writes `from` at `offset`, and lengthens the file to there. Pages that are written whole, or were
    /// behind the end, are not read.
    pub fn write(&self, access: At<'_>, offset: u64, from: &[u8]) -> Result<()> {
        let (before, end) = (self.length_bytes(), offset + from.len() as u64);
        self.reserve(end)?;
        for Piece { page, bytes, part } in self.pieces(offset, from.len()) {
            let is_new = bytes.len() == self.file.page_bytes() || page * self.page_bytes() >= before;
            let page = self.file.page(page);
            let mut guard = if is_new { access.create(page)? } else { access.write(page)? };
            guard[bytes].copy_from_slice(&from[part]);
        }
        self.set_length_bytes(before.max(end));
        Ok(())
    }

    /// Allocates pages for a file of `bytes`, which keeps its length.
    pub fn reserve(&self, bytes: u64) -> Result<()> {
        let (pages, wanted) = (self.file.pages(), bytes.div_ceil(self.page_bytes()));
        if wanted > pages { self.file.extend(wanted - pages).map(drop) } else { Ok(()) }
    }

    /// Sets the length. What is added is zeros.
    pub fn set_len(&self, access: At<'_>, bytes: u64) -> Result<()> {
        self.reserve(bytes)?;
        if bytes < self.length_bytes() {
            self.file.truncate(bytes.div_ceil(self.page_bytes()))?;
            let in_last_page = (bytes % self.page_bytes()) as usize;
            if in_last_page > 0 {
                access.write(self.file.page(bytes / self.page_bytes()))?[in_last_page..].fill(0);
            }
        }
        self.set_length_bytes(bytes);
        Ok(())
    }

    /// Returns when everything written before is on the device.
    pub fn sync(&self) -> Result<()> {
        self.file.flush()
    }

    /// Writes what is dirty and gives the file back to the system. Of a file that fails to be written the
    /// rest is given up; SQLite's journal or log has what was committed.
    pub fn close(&self) -> Result<()> {
        let closed = self.file.clone().close();
        if closed.is_err() {
            // The failure has poisoned the file, and such a file is closed without being written.
            let _ = self.file.clone().close();
        }
        closed
    }

    fn page_bytes(&self) -> u64 {
        self.file.page_bytes() as u64
    }

    /// The pages that a range of bytes lies in.
    fn numbers(&self, offset: u64, bytes: usize) -> Range<u64> {
        let first = offset / self.page_bytes();
        if bytes == 0 { first..first } else { first..(offset + bytes as u64).div_ceil(self.page_bytes()) }
    }

    fn pieces(&self, offset: u64, bytes: usize) -> impl Iterator<Item = Piece> {
        let (page_bytes, end) = (self.page_bytes(), offset + bytes as u64);
        self.numbers(offset, bytes).map(move |page| {
            let page_start = page * page_bytes;
            let (from, to) = (offset.max(page_start), end.min(page_start + page_bytes));
            Piece {
                page,
                bytes: (from - page_start) as usize..(to - page_start) as usize,
                part: (from - offset) as usize..(to - offset) as usize,
            }
        })
    }
}
