//! Flush, checkpoint, and pages that leave by request.
//!
//! A flush writes what is dirty when it begins: pages dirtied later may or may not be written, and writers go
//! on. Latches that are not free are waited for one at a time, after everything taken so far is written, so
//! that a flush holds nothing while it waits and cannot be part of a deadlock; a thread that holds a latch
//! may miss, evict and wait for frames meanwhile.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bufpool_policies::{FileId, FrameId, PageId};

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::files::word::{Seized, SeizedPages};
use crate::io::Action;
use crate::io::run::run_pages;
use crate::memory::frame::Frame;
use crate::page::latch::Patience;
use crate::state::departing::{Departing, Reason};
use crate::state::shared::PoolShared;
use crate::sync::deadline_after;
use crate::write::borrowing::Borrowing;
use crate::write::drain::{Drain, Drained};
use crate::write::flush::{DirtyPage, Flush};
use crate::write::page_out::{PageOut, Prepared, WrittenFrom};

/// Frames given back under one hold of the policy lock.
const DROP_BATCH: usize = 1024;

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

    fn flush_patiently(self, file: &Arc<FileShared>, since: u64, patience: Patience) -> Result<()> {
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

    /// Drops seized pages unwritten. Returns how many of them were dirty.
    pub(crate) fn drop_pages(self, seized: SeizedPages) -> u64 {
        let mut dirty = 0;
        // From the last page on: the frame freed last is filled first, so that pages which come in again find
        // frames in their order.
        let mut seized = seized.into_latched().into_iter().rev().peekable();
        while seized.peek().is_some() {
            let mut absences = Vec::with_capacity(DROP_BATCH);
            let mut unlisted = Vec::new();
            let mut policy = self.pool.policy.lock();
            for Seized { number, latch } in seized.by_ref().take(DROP_BATCH) {
                let page = PageId::in_file(latch.word().file().id, number);
                let frame = latch.frame();
                dirty += u64::from(self.pool.frames.get(frame).is_dirty());
                let (lease, absence) = Departing::new(latch).finish(self.pool, Reason::Dropped);
                if policy.directory.page(frame) == Some(page) {
                    policy.directory.discard(frame);
                    policy.free.put(lease);
                } else {
                    // A victim that could not be written.
                    unlisted.push(lease);
                }
                absences.push(absence);
            }
            drop(policy);
            Borrowing::of(self.pool).give_back_to_reserve(unlisted);
            // After the directory has forgotten them: a thread that finds them absent may bring them in
            // again.
            drop(absences);
        }
        self.pool.frame_may_be_free();
        dirty
    }

    /// Makes the directory and the tier forget absent pages that the file no longer has.
    pub(crate) fn forget(self, file: &FileShared, pages: Range<u64>) {
        if !pages.is_empty() {
            self.forget_in_memory(file, pages.clone());
            self.pool.forget_in_tier(file, pages);
        }
    }

    fn forget_in_memory(self, file: &FileShared, pages: Range<u64>) {
        self.pool.policy.lock().directory.forget(&range_of(file, pages));
    }

    /// Closes a drained file for good: `last_step` runs, then its pages are dropped. If that fails the file
    /// is as before.
    pub(crate) fn shut(
        self,
        drained: Drained<'_>,
        last_step: impl FnOnce(&SeizedPages) -> Result<()>,
    ) -> Result<()> {
        last_step(&drained.seized)?;
        self.take_leave_of(drained);
        Ok(())
    }

    /// Drains files whose pages are written then, until `end`. The log is durable as far as these pages need
    /// it: it is not waited for with pages held, except when the time is over.
    fn drain_to_write<'f>(
        self,
        files: &'f [Arc<FileShared>],
        end: Instant,
        operation: &'static str,
    ) -> Result<Vec<Drained<'f>>> {
        loop {
            let drained = Drain::until(self.pool, end).drain_all(files, operation)?;
            let sound = drained.iter().filter(|drained| !drained.file.is_poisoned());
            let pages = sound.flat_map(|drained| &drained.seized.whole);
            let frames = pages.map(|Seized { latch, .. }| self.pool.frames.get(latch.frame()));
            let needed = frames.filter(|frame| frame.is_dirty()).map(Frame::page_lsn).max();
            let Some(lsn) = needed.filter(|lsn| *lsn > self.pool.log.durable() && Instant::now() < end)
            else {
                return Ok(drained);
            };
            drop(drained);
            self.pool.advance_log(lsn, operation).map_err(|error| match files {
                [file] => error.in_file(&file.name),
                _ => error,
            })?;
        }
    }

    /// Completes the closing of a drained file. Cannot fail, but may wait as long as `latch_wait_ms` for a
    /// transfer that has just ended to let go of the file.
    fn take_leave_of(self, drained: Drained<'_>) {
        let file = drained.file;
        file.gate.set_closed();
        self.drop_pages(drained.seized);
        let all = 0..1 << PageId::NUMBER_BITS;
        self.forget_in_memory(file, all.clone());
        if !file.copies_last() {
            self.pool.forget_in_tier(file, all.clone());
        }
        // In this order: once the descriptor is closed, a new file may have this one's inode.
        let mut policy = self.pool.policy.lock();
        policy.directory.end_priorities(&range_of(file, all.clone()));
        policy.files.remove(file.id);
        drop(policy);
        file.release_io(self.pool.latch_wait);
        file.table.release(&self.pool.page_table_budget);
    }

    pub(crate) fn close_file(self, file: &Arc<FileShared>) -> Result<()> {
        const OPERATION: &str = "close file";
        let (since, end) = (file.losses(), deadline_after(self.pool.latch_wait));
        let flushed = self.flush_patiently(file, since, Patience::Until(end));
        if flushed.is_err() && !file.is_poisoned() {
            return flushed;
        }
        let mut lost = Ok(());
        let files = std::slice::from_ref(file);
        for drained in self.drain_to_write(files, end, OPERATION)? {
            self.shut(drained, |seized| {
                if file.is_poisoned() {
                    // Perhaps by a page that was changed after the flush.
                    lost = Err(file.poisoned_error(OPERATION));
                    return Ok(());
                }
                self.flush_seized(file, seized, since, OPERATION)
            })?;
        }
        flushed.and(lost)
    }

    /// Writes the dirty ones of all pages of the file, and makes it durable. After a flush they are few.
    fn flush_seized(
        self,
        file: &Arc<FileShared>,
        seized: &SeizedPages,
        since: u64,
        operation: &'static str,
    ) -> Result<()> {
        seized.half_changed.iter().try_for_each(|word| file.check_whole(word.number(), operation))?;
        for Seized { number, latch } in &seized.whole {
            let entry = self.pool.frames.get(latch.frame());
            if entry.is_dirty() {
                let advanced = self.pool.advance_log(entry.page_lsn(), operation);
                advanced.map_err(|error| error.in_file(&file.name).at_page(*number))?;
                PageOut::of(self.pool).write_page((file, *number, &latch.lease()))?;
                self.pool.mark_clean(file, entry, entry.mark());
            }
        }
        self.sync_file(file, since, operation)
    }

    /// Closes all files, or fails and closes none. Once nothing can fail any more, calls `decided`, which
    /// marks the pool as closed, under the policy lock. The inner result says whether all that was dirty is
    /// on the device. None, with no file closed, if a file was opened or closed meanwhile.
    pub(crate) fn close_files(
        self,
        operation: &'static str,
        decided: impl FnOnce(),
    ) -> Result<Option<Result<()>>> {
        let files = self.open_files();
        let mut flushed = Ok(());
        let mut unflushed = Ok(());
        let since: Vec<u64> = files.iter().map(|file| file.losses()).collect();
        let end = deadline_after(self.pool.latch_wait);
        for (file, since) in files.iter().zip(&since) {
            match self.flush_patiently(file, *since, Patience::Until(end)) {
                // Its dirty pages are lost, and there is nothing to be had by leaving it open.
                Err(error) if file.is_poisoned() => flushed = flushed.and(Err(error)),
                outcome => unflushed = unflushed.and(outcome),
            }
        }
        if files.iter().any(|file| file.is_closed()) {
            return Ok(None);
        }
        unflushed?;
        let drained = match self.drain_to_write(&files, end, operation) {
            Err(error) if error.kind() == ErrorKind::FileClosed => return Ok(None),
            drained => drained?,
        };
        for (Drained { file, seized, .. }, since) in drained.iter().zip(since) {
            if file.is_poisoned() {
                // Perhaps by a page that was changed after the flush.
                flushed = flushed.and(Err(file.poisoned_error(operation)));
            } else {
                self.flush_seized(file, seized, since, operation)?;
            }
        }
        let policy = self.pool.policy.lock();
        // None of those that are drained can have been closed.
        if policy.files.len() != files.len() {
            return Ok(None);
        }
        decided();
        drop(policy);
        drained.into_iter().for_each(|drained| self.take_leave_of(drained));
        Ok(Some(flushed))
    }

    fn open_files(self) -> Vec<Arc<FileShared>> {
        self.pool.policy.lock().files.iter().cloned().collect()
    }

    pub(crate) fn reopen_file(self, file: &Arc<FileShared>) -> Result<u64> {
        const OPERATION: &str = "reopen file";
        let (since, end) = (file.losses(), deadline_after(self.pool.latch_wait));
        let was_sound = !file.is_poisoned();
        if was_sound {
            self.flush_patiently(file, since, Patience::Until(end))?;
        }
        let files = std::slice::from_ref(file);
        let mut drained = self.drain_to_write(files, end, OPERATION)?;
        let drained = drained.pop().expect("one for the file");
        // Only a poisoned file has something to lose. Another thread may have reopened it just now, and
        // written to it.
        if was_sound || !file.is_poisoned() {
            self.flush_seized(file, &drained.seized, file.losses(), OPERATION)?;
        }
        let _syncs = file.hold_syncs();
        let (pages, bytes) = match self.open_again(file, OPERATION) {
            Ok(lengths) => lengths,
            Err(error) => {
                self.take_leave_of(drained);
                return Err(error);
            }
        };
        let dirty = self.drop_pages(drained.seized);
        let before = file.gate.pages();
        file.gate.set_pages(pages);
        if let Some(length) = &file.byte_length {
            let _held = length.hold();
            length.set(bytes);
            length.set_allocated(bytes);
        }
        self.forget(file, pages.min(before)..before);
        file.heal();
        self.pool.forget_in_tier(file, 0..1 << PageId::NUMBER_BITS);
        Ok(dirty)
    }

    /// Takes the file as the device has it. Returns its numbers of pages and bytes.
    ///
    /// Descriptor and lock are kept. A path may lead to another file by now, and a descriptor that was opened
    /// later would not report what has failed and been told to others meanwhile.
    fn open_again(self, file: &FileShared, operation: &'static str) -> Result<(u64, u64)> {
        let io = file.io(operation)?;
        // What a failed sync has left in the operating system's cache looks like the file, and may never
        // reach it.
        io.drop_cache().map_err(|error| Error::from_io(operation, error).in_file(&file.name))?;
        self.pool.check_file(&*io, &file.name, file.byte_length.is_some(), operation)
    }
}

/// The pages, at least one, as policies know them.
fn range_of(file: &FileShared, pages: Range<u64>) -> RangeInclusive<PageId> {
    PageId::in_file(file.id, pages.start)..=PageId::in_file(file.id, pages.end - 1)
}
