//! Writing dirty pages: copies, batches, and the background writer.
//!
//! A page is written from a copy, made under a shared latch into a frame of the clean reserve: a writer of the page never
//! waits for I/O, and no page on the device is ever torn by us. Where there is no free reserve frame, and in deterministic mode, the page is
//! written from its own frame with the shared latch held.
//!
//! Who writes what:
//!
//! * the *background writer* (one thread, none in deterministic mode) writes dirty victims that misses left in the reserve, and cleans
//!   ahead of the ledger's head, so that later victims are clean; when more than `dirty_limit_percent` of the frames are dirty it goes on
//!   until that is no longer so. It skips pages that are latched, and leaves half of the reserve to misses.
//! * a *miss* writes its own victim, if the reserve has run out.
//! * *flush and checkpoint* ([`checkpoint`](crate::checkpoint)) write the rest.
//!
//! A mark counter tells what a write has made clean (see [`frame`](crate::frame)): a change that arrives while the copy is on its way
//! keeps the page dirty. The first failed write poisons the page's file: nothing of it is written any more, and nothing marked clean.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use bufpool_policies::FrameId;
use parking_lot::{Condvar, Mutex};

use crate::arena::{FrameLease, WriteFrom};
use crate::error::Result;
use crate::file::{FileShared, OwnedWord};
use crate::frame::{Frame, Mark};
use crate::io::Buffers;
use crate::latch::{Departing, Latch, Patience, Refusal, acquire_resident};
use crate::page_word::Want;
use crate::pool::PoolShared;

/// Pages handed to the device together.
pub(crate) const BATCH_PAGES: usize = 64;

/// Pause before the background writer asks again a log that could not be advanced.
const LOG_RETRY: Duration = Duration::from_millis(10);

const OPERATION: &str = "write page";

/// Frames of the clean reserve that are free now.
pub(crate) struct Reserve {
    free: Mutex<Vec<FrameLease>>,
    count: AtomicUsize,
    frames: usize,
}

impl Reserve {
    pub fn new(leases: Vec<FrameLease>) -> Self {
        let frames = leases.len();
        Self { free: Mutex::new(leases), count: AtomicUsize::new(frames), frames }
    }

    pub fn frames(&self) -> usize {
        self.frames
    }

    /// Whether a frame could be had a moment ago.
    pub fn has_free(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    pub fn take(&self) -> Option<FrameLease> {
        self.take_leaving(0)
    }

    /// A frame, if `left` remain after it.
    fn take_leaving(&self, left: usize) -> Option<FrameLease> {
        let mut free = self.free.lock();
        if free.len() <= left {
            return None;
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        free.pop()
    }

    pub fn give_back(&self, lease: FrameLease) {
        self.free.lock().push(lease);
        self.count.fetch_add(1, Ordering::Relaxed);
    }
}

/// A dirty victim in a reserve frame, its word held until it is written.
pub(crate) struct Departure {
    pub file: Arc<FileShared>,
    pub number: u64,
    pub departing: Departing<OwnedWord>,
    pub lease: FrameLease,
}

/// What the background writer has to do.
#[derive(Default)]
pub(crate) struct WriteBack {
    queue: Mutex<Queue>,
    work: Condvar,
    /// The background writer has nothing to do; for tests.
    idle: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Queue {
    departures: Vec<Departure>,
    look_ahead: bool,
    /// The log did not allow the departures to be written.
    is_held_up: bool,
    is_working: bool,
    stop: bool,
}

impl WriteBack {
    /// A miss leaves a page to be written.
    pub fn enqueue(&self, departure: Departure) {
        let mut queue = self.queue.lock();
        queue.departures.push(departure);
        queue.look_ahead = true;
        self.work.notify_one();
    }

    /// Puts back what the log does not allow to be written yet.
    fn hold_up(&self, departures: Vec<Departure>) {
        let mut queue = self.queue.lock();
        queue.is_held_up = !departures.is_empty();
        queue.departures.extend(departures);
    }

    /// There may be pages worth writing ahead of their eviction.
    pub fn kick(&self) {
        let mut queue = self.queue.lock();
        if !std::mem::replace(&mut queue.look_ahead, true) {
            self.work.notify_one();
        }
    }

    /// Starts the background writer. It does not keep the pool alive.
    pub fn start(self: &Arc<Self>, pool: Weak<PoolShared>) -> std::io::Result<()> {
        let writer = Arc::clone(self);
        let body = move || writer.run(&pool);
        let thread = std::thread::Builder::new().name("bufpool-writer".into()).spawn(body)?;
        *self.thread.lock() = Some(thread);
        Ok(())
    }

    /// Ends the background writer, after the round it is in. Whatever is queued stays.
    pub fn stop(&self) {
        self.queue.lock().stop = true;
        self.work.notify_one();
        let thread = self.thread.lock().take();
        // The writer may be the one that drops the pool's last handle.
        if let Some(thread) = thread.filter(|thread| thread.thread().id() != std::thread::current().id()) {
            let _ = thread.join();
        }
    }

    /// Waits until the background writer, if there is one, has nothing to do.
    pub fn wait_until_idle(&self) {
        if self.thread.lock().is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        while queue.is_working || queue.look_ahead || !queue.departures.is_empty() && !queue.is_held_up {
            self.idle.wait(&mut queue);
        }
    }

    fn run(&self, pool: &Weak<PoolShared>) {
        loop {
            {
                let mut queue = self.queue.lock();
                queue.is_working = false;
                self.idle.notify_all();
                while !queue.stop && !queue.look_ahead && (queue.departures.is_empty() || queue.is_held_up) {
                    if std::mem::take(&mut queue.is_held_up) {
                        self.work.wait_for(&mut queue, LOG_RETRY);
                    } else {
                        self.work.wait(&mut queue);
                    }
                }
                if queue.stop {
                    return;
                }
                queue.is_working = true;
            }
            let Some(pool) = pool.upgrade() else { return };
            pool.write_back_round();
        }
    }

    fn take_departures(&self) -> Vec<Departure> {
        std::mem::take(&mut self.queue.lock().departures)
    }

    fn take_look_ahead(&self) -> bool {
        std::mem::take(&mut self.queue.lock().look_ahead)
    }
}

/// A page about to be written, and where from.
pub(crate) struct Outgoing {
    file: Arc<FileShared>,
    number: u64,
    frame: FrameId,
    mark: Mark,
    /// The page is not written before the log is durable up to here.
    page_lsn: u64,
    /// Where the log ended when the page was copied: no later change was logged before.
    log_end: u64,
    source: Source,
}

enum Source {
    /// A copy in the reserve.
    Copy(FrameLease),
    /// The page's own frame, latched shared.
    Latched(Latch<OwnedWord>),
}

/// What there is to do for a page that should be written.
pub(crate) enum Taken {
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
pub(crate) enum Via {
    /// A copy in the reserve, half of which is left to misses.
    Copy,
    /// Its own frame, whose latch is held until it is written.
    Place,
}

impl PoolShared {
    /// A clean page is about to be changed; called under its exclusive latch.
    ///
    /// `granted_lsn` is where the log ended when the latch was granted.
    pub(crate) fn mark_dirty(&self, frame: &Frame, granted_lsn: u64) {
        if frame.mark_dirty() {
            frame.set_rec_lsn(granted_lsn);
            let dirty = self.counters.dirty_frames.fetch_add(1, Ordering::Relaxed) + 1;
            // Once at the limit, and once in a while above it.
            if dirty >= self.dirty_limit && (dirty - self.dirty_limit).is_multiple_of(BATCH_PAGES as u64) {
                self.write_back.kick();
            }
        }
    }

    /// Notes where the log ends, for a page just latched exclusively. Returns it.
    pub(crate) fn note_grant(&self, frame: &Frame) -> u64 {
        let end = self.log.end();
        // From here on the engine may log a change; until it makes the page dirty, the latch makes this number count.
        if !frame.is_dirty() {
            frame.set_rec_lsn(end);
        }
        end
    }

    /// See [`Pool::min_dirty_lsn`](crate::Pool::min_dirty_lsn).
    pub(crate) fn min_dirty_lsn(&self) -> Option<u64> {
        if !self.log.is_some() {
            return None;
        }
        let policy = self.policy.lock();
        let rec_lsn = |frame: &Frame| {
            let page = frame.page()?;
            let word = policy.file(page.file())?.table.get(page.number())?;
            let counts = frame.is_dirty() || word.state().is_exclusive();
            Some(frame.rec_lsn()).filter(|lsn| counts && *lsn != u64::MAX)
        };
        // Reserve frames come last, and a departing page is entered there before it leaves its frame.
        self.frames.iter().filter_map(|(_, frame)| rec_lsn(frame)).min()
    }

    /// One round of the background writer.
    fn write_back_round(&self) {
        self.write_departures();
        if self.write_back.take_look_ahead() {
            self.write_ahead();
        }
    }

    /// Writes what misses have left in the reserve.
    pub(crate) fn write_departures(&self) {
        let mut departures = self.allowed_by_log(self.write_back.take_departures());
        departures.sort_by_key(|departure| (departure.file.id, departure.number));
        while !departures.is_empty() {
            let rest = departures.split_off(departures.len().min(BATCH_PAGES));
            self.write_departure_batch(std::mem::replace(&mut departures, rest));
        }
    }

    /// Advances the log for the departures. Those that it holds up wait in the queue for a later round.
    fn allowed_by_log(&self, departures: Vec<Departure>) -> Vec<Departure> {
        let lsn = |departure: &Departure| self.frames.get(departure.lease.frame()).page_lsn();
        let greatest = departures.iter().map(lsn).max().unwrap_or(0);
        if self.advance_log(greatest, OPERATION).is_ok() {
            return departures;
        }
        let durable = self.log.durable();
        let (allowed, held_up) = departures.into_iter().partition(|departure| lsn(departure) <= durable);
        self.write_back.hold_up(held_up);
        allowed
    }

    /// For the background writer and explicit flushes only.
    pub(crate) fn advance_log(&self, lsn: u64, operation: &'static str) -> Result<()> {
        self.log.advance(lsn, operation).inspect_err(|_| {
            self.counters.log_failures.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn write_departure_batch(&self, mut batch: Vec<Departure>) {
        for Departure { file, number, lease, .. } in &mut batch {
            self.prepare_for_write(file, *number, self.arena.bytes_mut(lease));
        }
        let pages = batch.iter().map(|departure| (&departure.file, departure.number, &departure.lease));
        let results = self.write_pages(&pages.collect::<Vec<_>>());
        for (departure, written) in batch.into_iter().zip(results) {
            let frame = self.frames.get(departure.lease.frame());
            if written && frame.mark_written(frame.mark()) {
                self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
                frame.vacate();
                // The frame first: whoever waits for the page may need one.
                self.reserve.give_back(departure.lease);
                departure.departing.finish();
            } else {
                departure.departing.restore(departure.lease);
            }
        }
        self.frame_may_be_free();
    }

    /// Cleans pages that will be victims soon, and more while too many are dirty.
    fn write_ahead(&self) {
        let mut looked_at = (self.frames_count / 16).max(BATCH_PAGES as u32) as usize;
        loop {
            let over_limit = self.counters.dirty_frames.load(Ordering::Relaxed) > self.dirty_limit;
            let mut pages = self.coldest_dirty(looked_at);
            if pages.is_empty() && (!over_limit || looked_at >= self.frames_count as usize) {
                return;
            }
            pages.sort_by_key(|(file, number)| (file.id, *number));
            let mut written = 0;
            for batch in pages.chunks(BATCH_PAGES) {
                written += self.write_spare(batch);
                // Misses that wait for reserve frames come first.
                self.write_departures();
            }
            if over_limit {
                looked_at = (looked_at * 2).min(self.frames_count as usize);
            }
            if written == 0 && (!over_limit || looked_at >= self.frames_count as usize) {
                return;
            }
        }
    }

    /// Those of the `count` pages nearest the ledger's head that are dirty and may be written.
    fn coldest_dirty(&self, count: usize) -> Vec<(Arc<FileShared>, u64)> {
        let mut policy = self.policy.lock();
        self.drain_logs(&mut policy);
        let mut coldest = Vec::with_capacity(count);
        policy.directory.coldest(count, &mut coldest);
        let dirty = coldest.into_iter().filter_map(|frame| {
            let entry = self.frames.get(frame);
            let page = entry.page().filter(|_| entry.is_dirty() && !entry.is_writing())?;
            let file = policy.file(page.file()).filter(|file| !file.is_poisoned())?;
            Some((Arc::clone(file), page.number()))
        });
        dirty.collect()
    }

    /// Writes those of the pages that nobody holds, as far as the reserve allows. Returns how many.
    fn write_spare(&self, pages: &[(Arc<FileShared>, u64)]) -> usize {
        let mut batch = Vec::with_capacity(pages.len());
        for (file, number) in pages {
            if let Taken::Outgoing(page) = self.take_for_write(file, *number, Patience::None, Via::Copy) {
                batch.push(page);
            }
        }
        let count = batch.len();
        match self.write_outgoing(batch, OPERATION) {
            Ok(()) => count,
            // Counted; there is no use in going on now.
            Err(_) => 0,
        }
    }

    /// Latches a page shared and prepares it for writing.
    pub(crate) fn take_for_write(
        &self,
        file: &Arc<FileShared>,
        number: u64,
        patience: Patience,
        via: Via,
    ) -> Taken {
        if file.table.get(number).is_none() {
            return Taken::Clean;
        }
        let word = OwnedWord::new(Arc::clone(file), number);
        // Hooks may change what is written; in place that takes the exclusive latch.
        let in_place = via == Via::Place && self.hooks.is_some();
        let want = if in_place { Want::Exclusive } else { Want::Shared };
        let mut latch = match acquire_resident(word, want, patience) {
            Ok(Some(latch)) => latch,
            Ok(None) => return Taken::Clean,
            Err(refusal) => return Taken::Refused(refusal),
        };
        let frame = latch.frame();
        let entry = self.frames.get(frame);
        if !entry.is_dirty() {
            return Taken::Clean;
        }
        if entry.is_writing() {
            return Taken::InFlight;
        }
        let copy = match via {
            Via::Place => None,
            Via::Copy => match self.reserve.take_leaving(self.reserve.frames() / 2) {
                None => return Taken::NoRoom,
                copy => copy,
            },
        };
        if !entry.begin_write() {
            copy.into_iter().for_each(|copy| self.reserve.give_back(copy));
            return Taken::InFlight;
        }
        if !entry.is_dirty() {
            // Another write ended between the two looks.
            entry.end_write();
            self.writes_ended();
            copy.into_iter().for_each(|copy| self.reserve.give_back(copy));
            return Taken::Clean;
        }
        let (mark, page_lsn, log_end) = (entry.mark(), entry.page_lsn(), self.log.end());
        let source = match copy {
            Some(mut copy) => {
                let bytes = self.arena.bytes_mut(&mut copy);
                bytes.copy_from_slice(latch.bytes(&self.arena));
                drop(latch);
                self.prepare_for_write(file, number, bytes);
                Source::Copy(copy)
            }
            None => {
                if in_place {
                    self.prepare_for_write(file, number, latch.bytes_mut(&self.arena));
                }
                Source::Latched(latch)
            }
        };
        let file = Arc::clone(file);
        Taken::Outgoing(Outgoing { file, number, frame, mark, page_lsn, log_end, source })
    }

    /// Writes pages sorted by file and number, and waits. What could not be written stays dirty: because of its file,
    /// which is poisoned then, or because of the log, which is the error returned.
    pub(crate) fn write_outgoing(&self, mut batch: Vec<Outgoing>, operation: &'static str) -> Result<()> {
        let greatest = batch.iter().map(|page| page.page_lsn).max().unwrap_or(0);
        let advanced = self.advance_log(greatest, operation);
        if advanced.is_err() {
            let durable = self.log.durable();
            let held_up = batch.extract_if(.., |page| page.page_lsn > durable);
            held_up.for_each(|page| self.end_write(page));
        }
        let views: Vec<_> = batch.iter().map(|page| page.source.view()).collect();
        let pages = batch.iter().zip(&views).map(|(page, view)| (&page.file, page.number, view.lease()));
        let results = self.write_pages(&pages.collect::<Vec<_>>());
        drop(views);
        for (page, written) in batch.into_iter().zip(results) {
            let entry = self.frames.get(page.frame);
            if written && entry.mark_written(page.mark) {
                self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
            } else if written && self.log.is_some() {
                // Changed since it was copied, so after this.
                entry.set_rec_lsn(page.log_end);
            }
            self.end_write(page);
        }
        self.writes_ended();
        self.frame_may_be_free();
        advanced
    }

    fn end_write(&self, page: Outgoing) {
        self.frames.get(page.frame).end_write();
        if let Source::Copy(copy) = page.source {
            self.reserve.give_back(copy);
        }
    }

    /// Wakes those in [`wait_for_write`](Self::wait_for_write).
    fn writes_ended(&self) {
        drop(self.write_ended_lock.lock());
        self.write_ended.notify_all();
    }

    /// Waits until the write of a page that was in flight is over.
    pub(crate) fn wait_for_write(&self, entry: &Frame) {
        let mut guard = self.write_ended_lock.lock();
        while entry.is_writing() {
            self.write_ended.wait(&mut guard);
        }
    }

    /// Writes one page from a frame whose lease the caller has, and marks it clean as of `mark`.
    pub(crate) fn write_leased(
        &self,
        file: &Arc<FileShared>,
        number: u64,
        lease: &FrameLease,
        mark: Mark,
    ) -> Result<()> {
        if file.is_poisoned() {
            return Err(file.poisoned_error(OPERATION).at_page(number));
        }
        let io = file.io(OPERATION)?;
        if let Err(error) = self.arena.write(&*self.backend, &io, number, lease) {
            return Err(self.write_failed(file, number, error));
        }
        file.set_unsynced();
        self.counters.writes.fetch_add(1, Ordering::Relaxed);
        if self.frames.get(lease.frame()).mark_written(mark) {
            self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Writes pages sorted by file and number, neighbours together. Says of each whether it is in its file now.
    fn write_pages(&self, pages: &[(&Arc<FileShared>, u64, &FrameLease)]) -> Vec<bool> {
        let mut results = vec![true; pages.len()];
        let ios: Vec<_> = pages
            .iter()
            .map(|(file, ..)| if file.is_poisoned() { None } else { file.io(OPERATION).ok() })
            .collect();
        let mut writes: Vec<WriteFrom<'_>> = Vec::new();
        // The index of the first page of each write.
        let mut firsts = Vec::new();
        for (index, ((_, number, lease), io)) in pages.iter().zip(&ios).enumerate() {
            let Some(io) = io else {
                results[index] = false;
                continue;
            };
            match writes.last_mut() {
                Some(last)
                    if Arc::ptr_eq(last.file, io)
                        && last.number + last.frames.len() as u64 == *number
                        && last.frames.len() < Buffers::PIECES_MAX =>
                {
                    last.frames.push(lease);
                }
                _ => {
                    writes.push(WriteFrom { file: io, number: *number, frames: vec![lease] });
                    firsts.push(index);
                }
            }
        }
        if writes.is_empty() {
            return results;
        }
        for (write, error) in self.arena.write_all(&*self.backend, &writes) {
            let write = write as usize;
            let first = firsts[write];
            results[first..first + writes[write].frames.len()].fill(false);
            self.write_failed(pages[first].0, pages[first].1, error);
        }
        let written = results.iter().filter(|written| **written).count();
        self.counters.writes.fetch_add(written as u64, Ordering::Relaxed);
        for ((file, ..), _) in pages.iter().zip(&results).filter(|(_, written)| **written) {
            file.set_unsynced();
        }
        results
    }

    fn write_failed(&self, file: &FileShared, number: u64, error: crate::io::IoError) -> crate::Error {
        self.counters.write_failures.fetch_add(1, Ordering::Relaxed);
        file.poison(file.io_error(OPERATION, error).at_page(number))
    }
}

/// A lease to read from, owned or lent by a latch.
enum View<'a> {
    Copy(&'a FrameLease),
    Latched(crate::latch::FrameView<'a>),
}

impl View<'_> {
    fn lease(&self) -> &FrameLease {
        match self {
            Self::Copy(lease) => lease,
            Self::Latched(view) => view,
        }
    }
}

impl Source {
    fn view(&self) -> View<'_> {
        match self {
            Self::Copy(lease) => View::Copy(lease),
            Self::Latched(latch) => View::Latched(latch.lease()),
        }
    }
}
