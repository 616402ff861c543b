//! Files and pools that close, and pages that leave by request.
//!
//! A file that closes is [drained](super::drain) first. Then its dirty pages are written, unless it is
//! poisoned, and made durable. Its pages are dropped when nothing can fail any more.

use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use std::time::Instant;

use bufpool_policies::PageId;

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::files::word::{Seized, SeizedPages};
use crate::memory::frame::Frame;
use crate::page::latch::Patience;
use crate::state::departing::{Departing, Reason};
use crate::state::shared::PoolShared;
use crate::sync::deadline_after;
use crate::write::borrowing::Borrowing;
use crate::write::checkpoint::Checkpoint;
use crate::write::drain::{Drain, Drained};
use crate::write::page_out::PageOut;

/// Frames given back under one hold of the policy lock.
const DROP_BATCH: usize = 1024;

/// Closes files, and makes pages leave that a file is to have no longer.
#[derive(Clone, Copy)]
pub(crate) struct Closing<'p> {
    pool: &'p PoolShared,
}

impl<'p> Closing<'p> {
    /// Of this pool.
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
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
        let flushed = Checkpoint::of(self.pool).flush_patiently(file, since, Patience::Until(end));
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
        Checkpoint::of(self.pool).sync_file(file, since, operation)
    }

    /// Closes all files, or fails and closes none. Once nothing can fail any more, calls `decided`, which
    /// marks the pool as closed, under the policy lock. The inner result says whether all that was dirty is
    /// on the device. None, with no file closed, if a file was opened or closed meanwhile.
    pub(crate) fn close_files(
        self,
        operation: &'static str,
        decided: impl FnOnce(),
    ) -> Result<Option<Result<()>>> {
        let files = Checkpoint::of(self.pool).open_files();
        let mut flushed = Ok(());
        let mut unflushed = Ok(());
        let since: Vec<u64> = files.iter().map(|file| file.losses()).collect();
        let end = deadline_after(self.pool.latch_wait);
        for (file, since) in files.iter().zip(&since) {
            match Checkpoint::of(self.pool).flush_patiently(file, *since, Patience::Until(end)) {
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

    pub(crate) fn reopen_file(self, file: &Arc<FileShared>) -> Result<u64> {
        const OPERATION: &str = "reopen file";
        let (since, end) = (file.losses(), deadline_after(self.pool.latch_wait));
        let was_sound = !file.is_poisoned();
        if was_sound {
            Checkpoint::of(self.pool).flush_patiently(file, since, Patience::Until(end))?;
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
