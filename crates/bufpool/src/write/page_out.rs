//! One page, or a batch of pages, to its file: taken under a latch, written from where it stays unchanged,
//! marked clean.
//!
//! A mark counter tells what a write has made clean (see [`frame`](crate::memory::frame)): a change that
//! arrives while the copy is on its way keeps the page dirty. The first failed write poisons the page's file:
//! nothing of it is written any more, and nothing marked clean.
//!
//! Hooks work on copies. Those of pages that leave, and of pages written from their own frames, lie in the
//! [`HookBuffers`](crate::memory::reserve::HookBuffers). So neither what hooks do nor a write that fails
//! changes what readers see.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bufpool_policies::{FrameId, contained};

use crate::error::{Error, ErrorKind, Result};
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::io::IoError;
use crate::memory::frame::{Frame, Mark};
use crate::memory::lease::FrameLease;
use crate::memory::request::WriteFrom;
use crate::page::latch::{FrameView, Latch, Patience, Refusal, Shared, acquire_resident};
use crate::page::readers;
use crate::state::shared::PoolShared;
use crate::sys;
use crate::write::borrowing::Borrowing;

/// The operation that errors of all writes name.
pub(crate) const OPERATION: &str = "write page";

/// A page about to be written, and where from.
pub(crate) struct Outgoing {
    pub file: Arc<FileShared>,
    pub number: u64,
    /// The page is not written before the log is durable up to here.
    pub page_lsn: u64,
    pub seen: Snapshot,
    source: OutgoingBytes,
}

/// A page as it was when it was taken to be written; it stays in its frame, which is marked as being written.
pub(crate) struct Snapshot {
    frame: FrameId,
    mark: Mark,
    /// Where the log ended then. Changes made after the snapshot were logged from here on.
    log_end: u64,
}

enum OutgoingBytes {
    /// A copy in the reserve.
    Copy(FrameLease),
    /// The page's own frame, latched shared.
    Latched(Latch<OwnedWord, Shared>),
}

/// What there is to do for a page that should be written.
pub(crate) enum Prepared {
    /// To be written; the page's frame is marked as being written.
    Outgoing(Outgoing),
    /// Nothing: absent, or clean.
    Clean,
    /// Another write of the page is in flight.
    InFlight,
    /// No reserve frame is free for a copy.
    NoRoom,
    /// Latched by others for too long, or by the caller itself.
    Refused(Refusal),
}

/// Where a page is written from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WrittenFrom {
    /// A copy in the reserve, from what lies above its low mark.
    Copy,
    /// Its own frame, whose latch is held until it is written.
    OwnFrame,
}

/// One page of a batch: file, number, and bytes that nobody changes meanwhile.
pub(crate) type PageBytes<'a> = (&'a Arc<FileShared>, u64, &'a FrameLease);

/// Takes pages to be written, and writes them.
#[derive(Clone, Copy)]
pub(crate) struct PageOut<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> PageOut<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Latches a page shared and prepares it for writing.
    pub(crate) fn take_for_write(
        self,
        file: &Arc<FileShared>,
        number: u64,
        patience: Patience,
        written_from: WrittenFrom,
    ) -> Prepared {
        if file.table.get(number).is_none() {
            return Prepared::Clean;
        }
        if file.is_half_changed(number) {
            return Prepared::Refused(Refusal::TimedOut);
        }
        let word = OwnedWord::new(Arc::clone(file), number);
        let latch = match acquire_resident(word, &mut { patience }) {
            Ok(Some(latch)) => latch,
            Ok(None) => return Prepared::Clean,
            Err(refusal) => return Prepared::Refused(refusal),
        };
        let frame = latch.frame();
        let entry = self.pool.frames.get(frame);
        if !entry.is_dirty() {
            return Prepared::Clean;
        }
        if entry.is_writing() {
            return Prepared::InFlight;
        }
        let copy = match written_from {
            WrittenFrom::OwnFrame => None,
            WrittenFrom::Copy => match self.take_copy_frame() {
                None => return Prepared::NoRoom,
                copy => copy,
            },
        };
        if let Some(instead) = self.begin_write(entry) {
            Borrowing::of(self.pool).give_back_to_reserve(copy);
            return instead;
        }
        let (mark, page_lsn, log_end) = (entry.mark(), entry.page_lsn(), self.pool.log.end());
        Prepared::Outgoing(Outgoing {
            file: Arc::clone(file),
            number,
            page_lsn,
            seen: Snapshot { frame, mark, log_end },
            source: self.outgoing_bytes(latch, copy),
        })
    }

    /// Marks the frame of a dirty page as being written; or says what there is to do for the page instead.
    fn begin_write(self, entry: &Frame) -> Option<Prepared> {
        if !entry.begin_write() {
            return Some(Prepared::InFlight);
        }
        if entry.is_dirty() {
            return None;
        }
        // Another write ended between the caller's look and the mark.
        entry.end_write();
        self.pool.write_ends.announce();
        Some(Prepared::Clean)
    }

    /// Copies a latched page to `copy` and lets go of it, or keeps its latch where there is none.
    fn outgoing_bytes(self, latch: Latch<OwnedWord, Shared>, copy: Option<FrameLease>) -> OutgoingBytes {
        let Some(mut copy) = copy else { return OutgoingBytes::Latched(latch) };
        let (to, from) = (self.pool.arena.bytes_mut(&mut copy), latch.bytes(&self.pool.arena));
        // Hooks read the copy next, so it should be in the cache. Without hooks only the device reads it, or
        // the kernel where files are buffered.
        if self.pool.hooks.is_some() {
            to.copy_from_slice(from);
        } else {
            sys::copy_uncached(to, from);
        }
        drop(latch);
        OutgoingBytes::Copy(copy)
    }

    /// A frame of the reserve for a copy of a page that stays. None if none can be had without waiting.
    fn take_copy_frame(self) -> Option<FrameLease> {
        let copy = self.pool.reserve.take_spare()?;
        let frame = self.pool.frames.get(copy.frame());
        if frame.may_have_readers() {
            if !readers::going_on().are_over() {
                Borrowing::of(self.pool).give_back_to_reserve([copy]);
                return None;
            }
            frame.readers_left();
        }
        Some(copy)
    }

    /// Writes pages sorted by file and number, and waits. Returns how many were written, and the first
    /// failure: what could not be written stays dirty, because of its file, which is poisoned then, or
    /// because of the log.
    pub(crate) fn write_outgoing(
        self,
        mut batch: Vec<Outgoing>,
        operation: &'static str,
    ) -> (usize, Result<()>) {
        let greatest = batch.iter().map(|page| page.page_lsn).max().unwrap_or(0);
        let mut outcome = self.pool.advance_log(greatest, operation);
        if outcome.is_err() {
            let durable = self.pool.log.durable();
            let held_up = batch.extract_if(.., |page| page.page_lsn > durable);
            held_up.for_each(|page| self.end_write(page));
        }
        let views: Vec<_> = batch.iter().map(|page| page.source.view()).collect();
        let pages = batch.iter().zip(&views).map(|(page, view)| (&page.file, page.number, view.lease()));
        let results = self.write_pages(&pages.collect::<Vec<_>>());
        drop(views);
        let mut written = 0;
        for (page, result) in batch.into_iter().zip(results) {
            match result {
                Ok(()) => {
                    self.note_written(&page.file, &page.seen);
                    written += 1;
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
            self.end_write(page);
        }
        self.pool.write_ends.announce();
        self.pool.frame_may_be_free();
        (written, outcome)
    }

    /// A page that stays in memory is in its file as it was seen.
    pub(crate) fn note_written(self, file: &FileShared, seen: &Snapshot) {
        let entry = self.pool.frames.get(seen.frame);
        if !self.pool.mark_clean(file, entry, seen.mark) && self.pool.log.is_some() {
            // The page was changed after it was copied, so those changes were logged from `log_end` on.
            entry.set_rec_lsn(seen.log_end);
        }
    }

    /// The page is not written now.
    pub(crate) fn let_go(self, page: Outgoing) {
        self.end_write(page);
        self.pool.write_ends.announce();
    }

    /// The page's write is over, or is not made. The caller announces it.
    pub(crate) fn end_write(self, page: Outgoing) {
        self.end_write_of(&page.seen);
        if let OutgoingBytes::Copy(copy) = page.source {
            Borrowing::of(self.pool).give_back_to_reserve([copy]);
        }
    }

    /// As [`end_write`](Self::end_write), for a page whose copy is given back otherwise.
    pub(crate) fn end_write_of(self, seen: &Snapshot) {
        self.pool.frames.get(seen.frame).end_write();
    }

    /// Writes one page and waits.
    pub(crate) fn write_page(self, page: PageBytes<'_>) -> Result<()> {
        self.write_pages(&[page]).pop().expect("one result a page")
    }

    /// Writes pages sorted by file and number, neighbours together, and waits. Says of each whether it is in
    /// its file now.
    pub(crate) fn write_pages(self, pages: &[PageBytes<'_>]) -> Vec<Result<()>> {
        if self.pool.hooks.is_none() {
            return self.write_unprepared(pages);
        }
        let mut results = Vec::with_capacity(pages.len());
        while let Some(rest) = pages.get(results.len()..).filter(|rest| !rest.is_empty()) {
            let buffers = self.prepare(rest);
            let prepared =
                rest.iter().zip(&buffers).map(|((file, number, _), buffer)| (*file, *number, buffer));
            results.extend(self.write_unprepared(&prepared.collect::<Vec<_>>()));
            self.pool.hook_buffers.give_back(buffers);
        }
        results
    }

    /// Copies of the first of `pages` (not empty), as hooks prepare them for their files: at least one, and
    /// as many as there are buffers for. Waits for the first buffer.
    pub(crate) fn prepare(self, pages: &[PageBytes<'_>]) -> Vec<FrameLease> {
        let mut buffers = self.pool.hook_buffers.take(pages.len());
        for ((file, number, lease), buffer) in pages.iter().zip(&mut buffers) {
            let bytes = self.pool.arena.bytes_mut(buffer);
            bytes.copy_from_slice(self.pool.arena.bytes(lease));
            PageOut::of(self.pool).prepare_for_write(file, *number, bytes);
        }
        buffers
    }

    /// Lets the hooks prepare contents for writing.
    pub(crate) fn prepare_for_write(self, file: &FileShared, number: u64, bytes: &mut [u8]) {
        let Some(hooks) = &self.pool.hooks else { return };
        let name = file.page_name(number);
        if contained(|| hooks.before_write(name, bytes)).is_none() {
            let error = Error::new(ErrorKind::Corrupt, OPERATION, "the hook before_write panicked");
            file.poison(error.in_file(&file.name).at_page(number));
        }
    }

    fn write_unprepared(self, pages: &[PageBytes<'_>]) -> Vec<Result<()>> {
        let ios: Vec<_> = pages.iter().map(|(file, number, _)| file.io_for_write(*number)).collect();
        let mut writes: Vec<WriteFrom<'_>> = Vec::new();
        // The index of the first page of each write.
        let mut firsts = Vec::new();
        for (index, ((file, number, lease), io)) in pages.iter().zip(&ios).enumerate() {
            let Ok(io) = io else { continue };
            match writes.last_mut() {
                Some(last)
                    if last.file.is_same(io)
                        && last.number + last.frames.len() as u64 == *number
                        && last.frames.len() < file.run_pages =>
                {
                    last.frames.push(lease);
                }
                _ => {
                    writes.push(WriteFrom { file: io, number: *number, frames: vec![lease] });
                    firsts.push(index);
                }
            }
        }
        let mut failures = Vec::new();
        if !writes.is_empty() {
            for (write, error) in self.write_all(&writes) {
                let (first, count) = (firsts[write as usize], writes[write as usize].frames.len());
                failures
                    .push((first..first + count, self.write_failed(pages[first].0, pages[first].1, error)));
            }
        }
        drop(writes);
        let mut results: Vec<_> = ios.into_iter().map(|io| io.map(drop)).collect();
        for (failed, error) in failures {
            results[failed].fill_with(|| Err(error.duplicate()));
        }
        let written = pages.iter().zip(&results).filter(|(_, result)| result.is_ok());
        written.for_each(|((file, ..), _)| self.pool.count_written(file, 1));
        results
    }

    /// One write goes the short way, without a group.
    fn write_all(self, writes: &[WriteFrom<'_>]) -> Vec<(u64, IoError)> {
        match writes {
            [WriteFrom { file, number, frames }] if frames.len() == 1 => {
                let written = self.pool.arena.write(&*self.pool.backend, file, *number, frames[0]);
                written.err().map(|error| (0, error)).into_iter().collect()
            }
            many => self.pool.arena.write_all(&*self.pool.backend, many),
        }
    }

    pub(crate) fn write_failed(self, file: &FileShared, number: u64, error: IoError) -> Error {
        self.pool.counters.write_failures.fetch_add(1, Ordering::Relaxed);
        file.poison(file.io_error(OPERATION, error).at_page(number))
    }
}

/// A lease to read from, owned or lent by a latch.
enum View<'a> {
    Copy(&'a FrameLease),
    Latched(FrameView<'a>),
}

impl View<'_> {
    fn lease(&self) -> &FrameLease {
        match self {
            Self::Copy(lease) => lease,
            Self::Latched(view) => view,
        }
    }
}

impl Outgoing {
    /// What is to be done when it is written, and the copy to write. Only for a page that was taken
    /// [`WrittenFrom::Copy`].
    pub(crate) fn into_copy(self) -> (Snapshot, FrameLease) {
        match self.source {
            OutgoingBytes::Copy(copy) => (self.seen, copy),
            OutgoingBytes::Latched(_) => unreachable!("it was taken by way of a copy"),
        }
    }
}

impl OutgoingBytes {
    fn view(&self) -> View<'_> {
        match self {
            Self::Copy(lease) => View::Copy(lease),
            Self::Latched(latch) => View::Latched(latch.lease()),
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::PoolOptions;
    use crate::io::sim::SimDevice;

    /// Until the reads are over that were going on when its page had left. All spare frames are such ones.
    #[test]
    fn a_frame_that_is_being_read_gets_no_copy() {
        let options = PoolOptions::new().page_bytes(4096).frames(64).threads_max(8);
        let pool = options.open_on(&SimDevice::new(1)).unwrap();
        let pool = &*pool.default_tenant().pool;
        let take_all = || std::iter::from_fn(|| pool.reserve.take_until(Instant::now()));
        let spares: Vec<FrameLease> = take_all().collect();
        assert!(!spares.is_empty());
        for spare in &spares {
            assert!(!pool.frames.get(spare.frame()).vacate(true), "a spare frame is clean");
        }
        let all = spares.len();
        Borrowing::of(pool).give_back_to_reserve(spares);

        let reader = readers::own_reader().unwrap();
        let section = reader.enter().unwrap();
        assert!((0..2 * all).all(|_| PageOut::of(pool).take_copy_frame().is_none()));
        drop(section);
        // Other tests of this process may be reading.
        let taken = (0..1_000_000).find_map(|_| {
            std::thread::yield_now();
            PageOut::of(pool).take_copy_frame()
        });
        let taken = taken.expect("nobody reads any more");
        assert!(!pool.frames.get(taken.frame()).may_have_readers());
        Borrowing::of(pool).give_back_to_reserve([taken]);
        assert_eq!(take_all().count(), all);
    }
}
