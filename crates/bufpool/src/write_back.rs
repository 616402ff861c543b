//! Writing dirty pages in the background, and before it is too late in the foreground.
//!
//! A page is written from a copy, made under a shared latch into a frame of the clean reserve: a writer of the page never
//! waits for I/O, and no page on the device is ever torn by us. Where there is no free reserve frame, and in deterministic mode, the page is
//! written from its own frame with the shared latch held. [`page_out`](crate::page_out) does that; here is who asks for it, and when:
//!
//! * the *background writer* (one thread, none in deterministic mode) writes dirty victims that misses left in the reserve, and cleans
//!   ahead of the ledger's head, so that later victims are clean; when more than `dirty_limit_percent` of the frames are dirty it goes on
//!   until that is no longer so. It skips pages that are latched, and leaves the reserve below its low mark to misses.
//! * a *miss* with a dirty victim takes a reserve frame and waits for no write as long as there is one. When there is none it helps: it
//!   writes the victims that wait in the reserve and that the log already allows, at most [`HELP_PAGES`] of them, and takes one of
//!   the frames that come free; only if none does it writes its own victim. It never advances the log.
//! * *flush and checkpoint* ([`checkpoint`](crate::checkpoint)) write the rest.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::arena::FrameLease;
use crate::error::Result;
use crate::file::{FileShared, OwnedWord};
use crate::frame::Frame;
use crate::latch::{Departing, Patience};
use crate::page_out::{OPERATION, Taken, Via};
use crate::pool::PoolShared;

/// Pages handed to the device together: four transfers of 256 KiB at 4 KiB pages. With 64 the writer waits out one transfer after the
/// other, and adjacent dirty pages leave at 0.8 of the pace of a bare loop with one in flight; with 256, at 1.3 (`bufbench write-back`).
pub(crate) const BATCH_PAGES: usize = 256;

/// Waiting victims that a miss writes at most.
const HELP_PAGES: usize = 8;

/// Pause before the background writer asks again a log that could not be advanced.
const LOG_RETRY: Duration = Duration::from_millis(10);

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

    /// At most `most` departures that `allows` lets pass.
    fn take_some(&self, most: usize, allows: impl Fn(&Departure) -> bool) -> Vec<Departure> {
        let mut queue = self.queue.lock();
        let allowed = queue.departures.extract_if(.., |departure| allows(departure));
        allowed.take(most).collect()
    }

    fn take_look_ahead(&self) -> bool {
        std::mem::take(&mut self.queue.lock().look_ahead)
    }
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

    /// Writes what misses have left in the reserve: first what the log allows as it is, then what it can be advanced for. The rest
    /// waits in the queue for a later round.
    pub(crate) fn write_departures(&self) {
        let durable = self.log.durable();
        let departures = self.write_back.take_departures();
        let (allowed, later): (Vec<_>, Vec<_>) =
            departures.into_iter().partition(|departure| self.departure_lsn(departure) <= durable);
        self.write_allowed(allowed);
        let Some(greatest) = later.iter().map(|departure| self.departure_lsn(departure)).max() else {
            return;
        };
        let advanced = self.advance_log(greatest, OPERATION).is_ok();
        let durable = self.log.durable();
        let (allowed, held_up) =
            later.into_iter().partition(|departure| advanced || self.departure_lsn(departure) <= durable);
        self.write_back.hold_up(held_up);
        self.write_allowed(allowed);
    }

    fn departure_lsn(&self, departure: &Departure) -> u64 {
        self.frames.get(departure.lease.frame()).page_lsn()
    }

    fn write_allowed(&self, mut departures: Vec<Departure>) {
        departures.sort_by_key(|departure| (departure.file.id, departure.number));
        while !departures.is_empty() {
            let rest = departures.split_off(departures.len().min(BATCH_PAGES));
            self.write_departure_batch(std::mem::replace(&mut departures, rest));
        }
    }

    /// A reserve frame for a miss that found none: writes a few of the victims that hold them.
    #[cold]
    pub(crate) fn help_write_back(&self) -> Option<FrameLease> {
        let durable = self.log.durable();
        let mut some =
            self.write_back.take_some(HELP_PAGES, |departure| self.departure_lsn(departure) <= durable);
        some.sort_by_key(|departure| (departure.file.id, departure.number));
        let written = self.write_departure_batch(some);
        self.counters.miss_writes.fetch_add(written as u64, Ordering::Relaxed);
        self.reserve.take()
    }

    /// For the background writer and explicit flushes only.
    pub(crate) fn advance_log(&self, lsn: u64, operation: &'static str) -> Result<()> {
        self.log.advance(lsn, operation).inspect_err(|_| {
            self.counters.log_failures.fetch_add(1, Ordering::Relaxed);
        })
    }

    /// Writes departures sorted by file and number. Returns how many have left.
    fn write_departure_batch(&self, batch: Vec<Departure>) -> usize {
        let pages = batch.iter().map(|departure| (&departure.file, departure.number, &departure.lease));
        let results = self.write_pages(&pages.collect::<Vec<_>>());
        let mut written = 0;
        for (departure, result) in batch.into_iter().zip(results) {
            let frame = self.frames.get(departure.lease.frame());
            if result.is_ok() && self.mark_clean(frame, frame.mark()) {
                // Pages in reserve frames are read under latches only.
                frame.vacate(false);
                // The frame first: whoever waits for the page may need one.
                self.reserve.give_back(departure.lease);
                departure.departing.finish();
                written += 1;
            } else {
                departure.departing.restore(departure.lease);
            }
        }
        self.frame_may_be_free();
        written
    }

    /// Cleans pages that will be victims soon, and more while too many are dirty.
    fn write_ahead(&self) {
        let all = self.frames_count as usize;
        let mut looked_at = (all / 16).max(BATCH_PAGES);
        loop {
            let over_limit = self.counters.dirty_frames.load(Ordering::Relaxed) > self.dirty_limit;
            let mut pages = self.coldest_dirty(looked_at);
            pages.sort_by_key(|(file, number)| (file.id, *number));
            let mut written = 0;
            for batch in pages.chunks(BATCH_PAGES) {
                written += self.write_spare(batch);
                // Misses that wait for reserve frames come first.
                self.write_departures();
            }
            // Farther from the head only where there is little to do near it: looking takes the policy lock.
            if over_limit && pages.len() < BATCH_PAGES && looked_at < all {
                looked_at = (looked_at * 2).min(all);
            } else if written == 0 {
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

    /// Writes those of the pages that nobody holds, as far as the reserve is above its low mark. Returns how many.
    fn write_spare(&self, pages: &[(Arc<FileShared>, u64)]) -> usize {
        let mut batch = Vec::with_capacity(pages.len());
        for (file, number) in pages {
            if let Taken::Outgoing(page) = self.take_for_write(file, *number, Patience::None, Via::Copy) {
                batch.push(page);
            }
        }
        // Failures are counted, and what could not be written stays dirty.
        self.write_outgoing(batch, OPERATION).0
    }
}
