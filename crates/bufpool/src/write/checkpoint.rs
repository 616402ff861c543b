//! Flush and checkpoint.
//!
//! A flush writes what is dirty when it begins: pages dirtied later may or may not be written, and writers go
//! on. Latches that are not free are waited for one at a time, after everything taken so far is written, so
//! that a flush holds nothing while it waits and cannot be part of a deadlock; a thread that holds a latch
//! may miss, evict and wait for frames meanwhile.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufpool_policies::{FileId, FrameId, PageId};

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::io::Action;
use crate::io::run::run_pages;
use crate::memory::frame::Frame;
use crate::page::latch::Patience;
use crate::state::shared::PoolShared;
use crate::write::flush::{DirtyPage, Flush};
use crate::write::page_out::{PageOut, Prepared, WrittenFrom};

/// Writes what is dirty, and makes it durable.
#[derive(Clone, Copy)]
pub(crate) struct Checkpoint<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Checkpoint<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Makes durable what is dirty now, in all files. Goes on after a failure, and returns the first.
    pub(crate) fn checkpoint(self) -> Result<()> {
        let files: Vec<_> = self.open_files().into_iter().map(|file| (file.losses(), file)).collect();
        let mut outcome = self.write_dirty(&self.dirty_pages(None), self.patience(), "checkpoint");
        for (since, file) in files {
            // A call that has closed a file meanwhile has made it durable, reported that it is not, or
            // removed it.
            let synced = match self.sync_file(&file, since, "checkpoint") {
                Err(error) if error.kind() == ErrorKind::FileClosed => Ok(()),
                synced => synced,
            };
            outcome = outcome.and(synced);
        }
        outcome
    }

    /// Makes durable what is dirty now in the file. `since` is what its [losses](FileShared::losses) were
    /// when that was asked for.
    pub(crate) fn flush_file(self, file: &Arc<FileShared>, since: u64) -> Result<()> {
        self.flush_patiently(file, since, self.patience())
    }

    /// As [`flush_file`](Self::flush_file), waiting with this `patience` for each page.
    pub(super) fn flush_patiently(
        self,
        file: &Arc<FileShared>,
        since: u64,
        patience: Patience,
    ) -> Result<()> {
        const OPERATION: &str = "flush file";
        let written = self.write_dirty(&self.dirty_pages(Some(file.id)), patience, OPERATION);
        written.and(self.sync_file(file, since, OPERATION))
    }

    pub(crate) fn flush_page(self, file: &Arc<FileShared>, number: u64) -> Result<()> {
        const OPERATION: &str = "flush page";
        let since = file.losses();
        self.write_dirty(&[(Arc::clone(file), number)], self.patience(), OPERATION)?;
        self.sync_file(file, since, OPERATION)
    }

    /// How long to wait for each page.
    fn patience(self) -> Patience {
        Patience::Limit(self.pool.latch_wait)
    }

    /// Pages that are dirty now, of one file or of all, by file and number. None is overlooked: a dirty page
    /// stays in its frame until it is written, departing or not.
    fn dirty_pages(self, only: Option<FileId>) -> Vec<DirtyPage> {
        let dirty = self.pool.frames.iter().filter(|(_, frame)| frame.is_dirty());
        let mut pages: Vec<PageId> = dirty.filter_map(|(_, frame)| frame.page()).collect();
        pages.retain(|page| only.is_none_or(|file| page.file() == file));
        pages.sort_unstable();
        pages.dedup();
        let policy = self.pool.policy.lock();
        let with_file = |page: PageId| Some((Arc::clone(policy.file(page.file())?), page.number()));
        pages.into_iter().filter_map(with_file).collect()
    }

    /// Writes pages sorted by file and number, and waits for each of them that is latched with this
    /// `patience`. Goes on after a failure, and returns the first.
    fn write_dirty(self, pages: &[DirtyPage], patience: Patience, operation: &'static str) -> Result<()> {
        let advanced = self.pool.advance_log(self.greatest_lsn(pages), operation);
        let mut outcome = advanced.map_err(|error| match pages {
            [(file, number)] => error.in_file(&file.name).at_page(*number),
            [(first, _), .., (last, _)] if first.id == last.id => error.in_file(&first.name),
            _ => error,
        });
        let mut rest: Vec<&DirtyPage> = pages.iter().collect();
        if rest.len() > 1 && self.pool.reserve.frames() > 0 {
            let (written, later) = Flush::new(self.pool, operation).write(pages);
            (outcome, rest) = (outcome.and(written), later);
        }
        if rest.len() > 1 {
            let (written, later) = self.write_in_place(&rest, operation);
            (outcome, rest) = (outcome.and(written), later);
        }
        for (file, number) in rest {
            // A page that waits for a log which cannot be advanced is not worth waiting for.
            let log_fails = matches!(&outcome, Err(error) if error.kind() == ErrorKind::Log);
            let patience = if log_fails { Patience::None } else { patience };
            outcome = outcome.and(self.write_waiting(file, *number, patience, operation));
        }
        outcome
    }

    /// How far the log has to be durable before these pages are written.
    fn greatest_lsn(self, pages: &[DirtyPage]) -> u64 {
        let lsn_in = |frame: FrameId| self.pool.frames.get(frame).page_lsn();
        if let [(file, number)] = pages {
            let frame = file.table.get(*number).and_then(|word| word.state().resident_frame());
            return frame.map_or(0, lsn_in);
        }
        let (Some((first, _)), Some((last, _))) = (pages.first(), pages.last()) else { return 0 };
        let only = Some(first.id).filter(|id| *id == last.id);
        // All dirty pages count, departing ones too: they wait for the log, and this call may wait for them.
        let is_dirty = |frame: &Frame| {
            frame.is_dirty() && only.is_none_or(|id| frame.page().is_some_and(|page| page.file() == id))
        };
        let dirty = self.pool.frames.iter().filter(|(_, frame)| is_dirty(frame));
        dirty.map(|(frame, _)| lsn_in(frame)).max().unwrap_or(0)
    }

    /// As [`Flush::write`], for pages that there is no frame to copy to. They are latched while they are
    /// written, so only as many at a time as the longest transfer of any source has. They may be of several
    /// files; how many of them are one transfer is up to each file's source.
    fn write_in_place<'a>(
        self,
        pages: &[&'a DirtyPage],
        operation: &'static str,
    ) -> (Result<()>, Vec<&'a DirtyPage>) {
        let (mut outcome, mut later) = (Ok(()), Vec::new());
        for chunk in pages.chunks(run_pages(self.pool.page_bytes)) {
            let mut batch = Vec::with_capacity(chunk.len());
            for page @ (file, number) in chunk.iter().copied() {
                if file.is_poisoned() {
                    outcome = outcome.and_then(|()| Err(file.poisoned_error(operation).at_page(*number)));
                    continue;
                }
                match PageOut::of(self.pool).take_for_write(
                    file,
                    *number,
                    Patience::None,
                    WrittenFrom::OwnFrame,
                ) {
                    // The log is not waited for with pages held.
                    Prepared::Outgoing(outgoing) if outgoing.page_lsn > self.pool.log.durable() => {
                        PageOut::of(self.pool).let_go(outgoing);
                        later.push(page);
                    }
                    Prepared::Outgoing(page) => batch.push(page),
                    Prepared::Clean => {}
                    Prepared::InFlight | Prepared::NoRoom | Prepared::Refused(_) => later.push(page),
                }
            }
            outcome = outcome.and(PageOut::of(self.pool).write_outgoing(batch, operation).1);
        }
        (outcome, later)
    }

    /// Writes one page, waiting for its latch and for a write in flight. Holds nothing else meanwhile.
    fn write_waiting(
        self,
        file: &Arc<FileShared>,
        number: u64,
        patience: Patience,
        operation: &'static str,
    ) -> Result<()> {
        let mut written_from = WrittenFrom::Copy;
        while !file.is_poisoned() {
            match PageOut::of(self.pool).take_for_write(file, number, patience, written_from) {
                Prepared::Clean => return Ok(()),
                Prepared::Outgoing(page) if page.page_lsn > self.pool.log.durable() => {
                    let lsn = page.page_lsn;
                    PageOut::of(self.pool).let_go(page);
                    let advanced = self.pool.advance_log(lsn, operation);
                    advanced.map_err(|error| error.in_file(&file.name).at_page(number))?;
                }
                Prepared::Outgoing(page) => {
                    return PageOut::of(self.pool).write_outgoing(vec![page], operation).1;
                }
                Prepared::NoRoom => written_from = WrittenFrom::OwnFrame,
                Prepared::InFlight => {
                    let frame = file.table.get(number).and_then(|word| word.state().resident_frame());
                    if let Some(frame) = frame {
                        self.pool.write_ends.wait(self.pool.frames.get(frame));
                    }
                }
                Prepared::Refused(refusal) => {
                    return Err(self.pool.latch_error(file, number, refusal, operation));
                }
            }
        }
        Err(file.poisoned_error(operation).at_page(number))
    }

    /// Makes durable what was written to the file.
    pub(crate) fn sync_file(self, file: &Arc<FileShared>, since: u64, operation: &'static str) -> Result<()> {
        file.sync_with(since, operation, || {
            let io = file.io(operation)?;
            let failed = |error| {
                self.pool.counters.write_failures.fetch_add(1, Ordering::Relaxed);
                file.poison(error)
            };
            let settled = file.settle_length(&*io);
            settled.map_err(|error| failed(Error::from_io(operation, error).in_file(&file.name)))?;
            let synced = self.pool.backend.run(&io, Action::Sync { all_metadata: false });
            synced.map_err(|error| failed(file.io_error(operation, error)))
        })
    }

    /// All files of the pool that are open.
    pub(super) fn open_files(self) -> Vec<Arc<FileShared>> {
        self.pool.policy.lock().files.iter().cloned().collect()
    }
}
