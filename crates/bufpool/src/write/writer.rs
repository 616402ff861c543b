//! Writing dirty pages in the background, and before it is too late in the foreground.
//!
//! A page that stays is written from a copy, made under a shared latch into a frame of the clean reserve: a writer of the page never
//! waits for I/O, and no page on the device is ever torn by us. A page that leaves is written from its own frame, in exchange for
//! which the page that comes in has got one of the reserve. Where there is no free reserve frame, and in deterministic mode, the page is
//! written from its own frame with the shared latch held. [`page_out`](crate::write::page_out) does that; here is who asks for it, and when:
//!
//! * the *background writer* (one thread, none in deterministic mode) writes dirty victims that misses left in the reserve, and cleans
//!   ahead of the ledger's head, so that later victims are clean, while none are on their way that are not; when more than
//!   `dirty_limit_percent` of the frames are dirty it goes on until that is no longer so. It skips pages that are latched, and leaves
//!   the reserve below its low mark to misses. [`write_window`](crate::write::window) keeps what it writes in flight.
//! * a *miss* with a dirty victim takes a reserve frame and waits for no write as long as there is one. When there is none it sends
//!   the next victims ahead ([`borrowed`](crate::write::borrowed)) and waits for one that a write in flight gives back, at most [`RESERVE_WAIT`]
//!   and not beyond the caller's own limit; if nothing is in flight, or that was too long, it helps: it writes the victims that wait in
//!   the reserve and that the log already allows, at most [`HELP_PAGES`] of them, and takes one of the frames that come free; only if
//!   none does it writes its own victim. It never advances the log.
//! * *flush and checkpoint* ([`checkpoint`](crate::write::checkpoint)) write what is dirty when they begin, and wait ([`flush`](crate::write::flush)).

use std::iter::Peekable;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bufpool_policies::{FileId, TenantId};
use parking_lot::{Condvar, Mutex};

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::io::Lane;
use crate::memory::frame::Frame;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Departing, Patience};
use crate::state::shared::PoolShared;
use crate::write::page_out::{OPERATION, Taken, Via};
use crate::write::window::{Launch, RUNS_TOGETHER};

/// Pages that are written together where somebody waits for a batch of them, and that the background writer looks at together.
pub(crate) const BATCH_PAGES: usize = 256;

/// Waiting victims that a miss writes at most.
const HELP_PAGES: usize = 8;

/// Waiting victims that are worth starting however busy the device is, if the reserve has room for eight times as many.
const GATHERED_PAGES: usize = 64;

/// So many runs in flight are enough to do for the device until [`RUNS_TOGETHER`] more have gathered.
const SUPPLIED_RUNS: usize = 4;

/// How long a miss waits for a frame that a write in flight may give back, before it writes itself, and a flush for one to copy to, before it
/// writes pages from where they are. Few writes last longer. In unit tests
/// it is longer than anybody waits, so that who waits in vain does not go unnoticed.
pub(crate) const RESERVE_WAIT: Duration =
    if cfg!(test) { Duration::from_secs(600) } else { Duration::from_millis(5) };

/// Pause before the background writer asks again a log that could not be advanced.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// A dirty victim in a frame that counts to the reserve from here on. Its word is held until it is written.
pub(crate) struct Departure {
    pub departing: Departing<OwnedWord>,
    pub lease: FrameLease,
}

impl Departure {
    /// What departures are sorted by.
    fn place(&self) -> (FileId, u64) {
        let word = self.departing.word();
        (word.file().id, word.number())
    }
}

/// What the background writer has to do.
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
    /// So many departures are a run worth starting; with twice as many pages in flight the device is busy.
    worthwhile: usize,
    /// Departures whose frames have not come back yet: about to wait, waiting, or in flight.
    leaving: usize,
    /// Departures since the writer looked ahead.
    unforeseen: usize,
    look_ahead: bool,
    /// The log did not allow the departures to be written.
    is_held_up: bool,
    is_working: bool,
    /// Pages that the background writer has begun to write.
    in_flight: usize,
    /// It waits for them, and for nothing else.
    waits_for_writes: bool,
    stop: bool,
}

impl Queue {
    fn is_busy(&self) -> bool {
        self.in_flight >= 2 * self.worthwhile
    }

    /// Departures wait for the background writer.
    fn has_departures(&self) -> bool {
        !self.departures.is_empty() && !self.is_held_up
    }

    /// They are worth starting now, rather than when they have more neighbours.
    fn has_gathered(&self) -> bool {
        let runs = if self.in_flight >= SUPPLIED_RUNS * self.worthwhile { RUNS_TOGETHER } else { 1 };
        self.has_departures() && (self.departures.len() >= runs * self.worthwhile || !self.is_busy())
    }

    /// Pages may be cleaned ahead now: the device has little to do, and no dirty victims to write.
    fn may_look_ahead(&self) -> bool {
        !self.is_busy() && self.may_clean()
    }

    /// No dirty victims are to be written. They are cleaned by leaving, which takes no copy, so as long as they come one after the other there
    /// is nothing to gain by being ahead of them.
    fn may_clean(&self) -> bool {
        self.leaving == 0 || self.is_held_up
    }

    fn has_work(&self) -> bool {
        self.has_gathered() || self.look_ahead && self.may_look_ahead()
    }
}

impl WriteBack {
    /// For a pool with `reserve` frames in its clean reserve.
    pub fn new(reserve: usize) -> Self {
        let worthwhile = (reserve / 8).clamp(1, GATHERED_PAGES);
        Self {
            queue: Mutex::new(Queue { worthwhile, ..Queue::default() }),
            work: Condvar::new(),
            idle: Condvar::new(),
            thread: Mutex::new(None),
        }
    }

    /// A miss leaves a page to be written.
    pub fn enqueue(&self, departure: Departure) {
        let mut queue = self.queue.lock();
        queue.leaving += 1;
        self.add(&mut queue, [departure]);
    }

    /// As [`enqueue`](Self::enqueue), for pages that [`leave`](Self::leave) has counted.
    pub fn enqueue_leaving(&self, departures: Vec<Departure>) {
        self.add(&mut self.queue.lock(), departures);
    }

    fn add(&self, queue: &mut Queue, departures: impl IntoIterator<Item = Departure>) {
        let before = queue.departures.len();
        queue.departures.extend(departures);
        queue.unforeseen += queue.departures.len() - before;
        // Victims ought to be clean.
        queue.look_ahead |= queue.unforeseen >= queue.worthwhile;
        if queue.has_work() {
            self.work.notify_one();
        }
    }

    /// The background writer is about to hand pages to the device. True if it has no others there.
    pub fn begin(&self, pages: usize) -> bool {
        let mut queue = self.queue.lock();
        queue.in_flight += pages;
        queue.in_flight == pages
    }

    /// They are written, or could not be.
    pub fn end(&self, pages: usize) {
        let mut queue = self.queue.lock();
        queue.in_flight -= pages;
        if queue.waits_for_writes {
            self.work.notify_one();
        }
    }

    /// So many pages count as departures, until they have [`left`](Self::left): their frames are about to be the reserve's, or free.
    pub fn leave(&self, pages: usize) {
        self.queue.lock().leaving += pages;
    }

    /// Departures have left, and their frames have been given back, or could not.
    pub fn left(&self, departures: usize) {
        let mut queue = self.queue.lock();
        queue.leaving -= departures;
        if queue.leaving == 0 && queue.look_ahead {
            self.work.notify_one();
        }
    }

    /// Whether pages are in flight that may give back frames of the reserve.
    fn is_writing(&self) -> bool {
        self.queue.lock().in_flight > 0
    }

    /// Whether there are departures whose frames have not come back yet.
    pub fn is_leaving(&self) -> bool {
        self.queue.lock().leaving > 0
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
        let mut lane = None;
        loop {
            {
                let mut queue = self.queue.lock();
                // Whoever waits here is told of departures that are worth starting, and not of the end of writes, which may make them so.
                debug_assert_eq!(queue.in_flight, 0, "the writer sees to the end of what it has begun");
                queue.is_working = false;
                self.idle.notify_all();
                while !queue.stop && !queue.has_work() {
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
            // What is in flight needs the pool, so it is held until that is written.
            let Some(pool) = pool.upgrade() else { return };
            if lane.is_none() {
                lane = pool.backend.lane();
            }
            let mut writer = Writer { pool: &pool, lane: lane.as_deref_mut() };
            writer.round();
            while writer.wait_for_more() {
                writer.round();
            }
        }
    }

    fn take_departures(&self) -> Vec<Departure> {
        std::mem::take(&mut self.queue.lock().departures)
    }

    /// Those that are worth starting. The latest stay, for neighbours that come after them, if there are enough others.
    fn take_gathered(&self) -> Vec<Departure> {
        let mut queue = self.queue.lock();
        if !queue.has_gathered() {
            return Vec::new();
        }
        let waiting = queue.departures.len();
        let stay = if waiting >= queue.worthwhile { waiting % queue.worthwhile } else { 0 };
        queue.departures.drain(..waiting - stay).collect()
    }

    /// At most `most` departures that `allows` lets pass.
    fn take_some(&self, most: usize, allows: impl Fn(&Departure) -> bool) -> Vec<Departure> {
        let mut queue = self.queue.lock();
        let allowed = queue.departures.extract_if(.., |departure| allows(departure));
        allowed.take(most).collect()
    }

    /// True if the writer may not look on now: it does so again, if it has found something, when it may. While too many pages are dirty a busy
    /// device is no reason to rest.
    fn postpone_look_ahead(&self, found_some: bool, over_limit: bool) -> bool {
        let mut queue = self.queue.lock();
        let may = !queue.stop && if over_limit { queue.may_clean() } else { queue.may_look_ahead() };
        queue.look_ahead |= !may && (found_some || over_limit);
        !may
    }

    /// Whether to look ahead now. Later if it may not now.
    fn take_look_ahead(&self) -> bool {
        let mut queue = self.queue.lock();
        if !queue.may_look_ahead() {
            return false;
        }
        queue.unforeseen = 0;
        std::mem::take(&mut queue.look_ahead)
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
            let limit = self.dirty_limit.load(Ordering::Relaxed);
            let is_due = dirty >= limit && (dirty - limit).is_multiple_of(BATCH_PAGES as u64);
            if is_due && self.owner.is_here() {
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
        if !self.log.is_some() || !self.owner.is_here() {
            return None;
        }
        let policy = self.policy.lock();
        let rec_lsn = |frame: &Frame| {
            let page = frame.page()?;
            let word = policy.file(page.file())?.table.get(page.number())?;
            let counts = frame.is_dirty() || word.state().is_exclusive();
            Some(frame.rec_lsn()).filter(|lsn| counts && *lsn != u64::MAX)
        };
        // A departing page stays in its frame until it is written.
        self.frames.iter().filter_map(|(_, frame)| rec_lsn(frame)).min()
    }

    /// Writes what misses have left in the reserve, and waits; for a pool that has no background writer any more.
    pub(crate) fn write_departures(&self) {
        let departures = self.write_back.take_departures();
        let greatest = departures.iter().map(|departure| self.departure_lsn(departure)).max();
        let advanced = self.advance_log(greatest.unwrap_or(0), OPERATION).is_ok();
        let durable = self.log.durable();
        let (mut allowed, held_up): (Vec<_>, Vec<_>) = departures
            .into_iter()
            .partition(|departure| advanced || self.departure_lsn(departure) <= durable);
        self.write_back.hold_up(held_up);
        allowed.sort_by_key(Departure::place);
        while !allowed.is_empty() {
            let rest = allowed.split_off(allowed.len().min(BATCH_PAGES));
            self.write_departure_batch(std::mem::replace(&mut allowed, rest));
        }
    }

    fn departure_lsn(&self, departure: &Departure) -> u64 {
        self.frames.get(departure.lease.frame()).page_lsn()
    }

    /// A reserve frame for a miss that found none: one that a write in flight gives back soon, or one of a few waiting victims that it
    /// writes itself. It waits for others no longer than until `deadline`, if there is one. A miss of a tenant lets the next victims
    /// leave meanwhile.
    #[cold]
    pub(crate) fn wait_for_reserve(
        &self,
        tenant: Option<TenantId>,
        deadline: Option<Instant>,
    ) -> Option<FrameLease> {
        let until = Instant::now() + RESERVE_WAIT;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let lease = if self.write_back.is_writing() {
            if let Some(tenant) = tenant {
                self.borrow_frames(tenant, GATHERED_PAGES);
            }
            self.reserve.take_until(until)
        } else {
            self.reserve.take()
        };
        if lease.is_some() {
            return lease;
        }
        let durable = self.log.durable();
        let mut some =
            self.write_back.take_some(HELP_PAGES, |departure| self.departure_lsn(departure) <= durable);
        some.sort_by_key(Departure::place);
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
        let pages = batch.iter().map(|departure| {
            let word = departure.departing.word();
            (word.file(), word.number(), &departure.lease)
        });
        let results = self.write_pages(&pages.collect::<Vec<_>>());
        let (all, mut written) = (results.len(), 0);
        for (departure, result) in batch.into_iter().zip(results) {
            if result.is_ok() {
                self.leave(&departure.departing, &departure.lease);
                self.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
                // The frame first: whoever waits for the page may need one.
                self.give_back_to_reserve([departure.lease]);
                departure.departing.finish();
                written += 1;
            } else {
                departure.departing.restore(departure.lease);
            }
        }
        self.write_back.left(all);
        self.frame_may_be_free();
        written
    }

    /// A departing page is in its file, and its frame is empty. The caller counts it.
    pub(crate) fn leave(&self, departing: &Departing<OwnedWord>, lease: &FrameLease) {
        let frame = self.frames.get(lease.frame());
        debug_assert!(frame.is_dirty(), "nobody cleans a departing page");
        frame.vacate(departing.word().file().optimistic);
    }

    /// Those of the `count` pages nearest the ledger's head that are dirty and may be written, by file and number. The very nearest come
    /// last: misses that are on their way there would take every other page of a run. Also the greatest log
    /// sequence number among them.
    fn coldest_dirty(&self, count: usize) -> (Vec<(Arc<FileShared>, u64)>, u64) {
        let mut coldest = Vec::with_capacity(count);
        let mut greatest_lsn = 0;
        let (mut near, mut pages): (Vec<_>, Vec<_>) = {
            let mut policy = self.policy.lock();
            self.drain_logs(&mut policy);
            policy.directory.coldest(count, &mut coldest);
            let nearest = (self.reserve.frames() / 2).min(count / 4);
            let dirty = (0..).zip(coldest).filter_map(|(place, frame)| {
                let entry = self.frames.get(frame);
                let page = entry.page().filter(|_| entry.is_dirty() && !entry.is_writing())?;
                let file = policy.file(page.file()).filter(|file| !file.is_poisoned())?;
                greatest_lsn = greatest_lsn.max(entry.page_lsn());
                Some((place < nearest, (Arc::clone(file), page.number())))
            });
            dirty.partition(|(is_near, _)| *is_near)
        };
        let by_place = |(_, (file, number)): &(bool, (Arc<FileShared>, u64))| (file.id, *number);
        near.sort_by_key(by_place);
        pages.sort_by_key(by_place);
        let pages = pages.into_iter().chain(near).map(|(_, page)| page).collect();
        (pages, greatest_lsn)
    }
}

/// The background writer at work.
struct Writer<'p> {
    pool: &'p PoolShared,
    /// Where its writes are in flight; without one the backend sees to them.
    lane: Option<&'p mut (dyn Lane + 'static)>,
}

impl Writer<'_> {
    /// Starts what there is to write.
    fn round(&mut self) {
        self.start_departures();
        if self.pool.write_back.take_look_ahead() {
            self.write_ahead();
        }
    }

    /// Waits at the end of a round: true when there is more to start, false once nothing is in flight.
    fn wait_for_more(&mut self) -> bool {
        let has_more = |queue: &Queue| queue.has_work() && !queue.stop;
        loop {
            self.wait_while(|queue| !has_more(queue));
            let queue = self.pool.write_back.queue.lock();
            // A miss may have taken meanwhile what there was to start.
            if queue.in_flight == 0 || has_more(&queue) {
                return queue.in_flight > 0;
            }
        }
    }

    /// Waits until a quarter of what is in flight is written, or there are departures to start. False if nothing is in flight, or it
    /// has to stop.
    fn wait_for_room(&mut self) -> bool {
        let in_flight = self.pool.write_back.queue.lock().in_flight;
        let enough = in_flight * 3 / 4;
        self.wait_while(|queue| queue.in_flight > enough && !queue.has_gathered() && !queue.stop);
        in_flight > 0 && !self.pool.write_back.queue.lock().stop
    }

    /// Waits while something is in flight and `still` holds.
    fn wait_while(&mut self, still: impl Fn(&Queue) -> bool) {
        let write_back = &self.pool.write_back;
        let still = |queue: &Queue| queue.in_flight > 0 && still(queue);
        while still(&write_back.queue.lock()) {
            // One at a time, because somebody waits for its frames, and because there may be more to start meanwhile.
            if self.lane.as_deref_mut().is_some_and(|lane| lane.complete() || lane.wait()) {
                continue;
            }
            let mut queue = write_back.queue.lock();
            if still(&queue) {
                queue.waits_for_writes = true;
                write_back.work.wait(&mut queue);
                queue.waits_for_writes = false;
            }
        }
    }

    /// What is in the lane ends first: readers of departing pages wait for it, and the log may take its time.
    fn advance_log(&mut self, lsn: u64) -> Result<()> {
        if lsn > self.pool.log.durable() && self.lane.is_some() {
            self.wait_while(|_| true);
        }
        self.pool.advance_log(lsn, OPERATION)
    }

    /// Starts writing what misses have left in the reserve: first what the log allows as it is, then what it can be advanced for. The rest
    /// goes back to the queue, for a later round.
    fn start_departures(&mut self) {
        let pool = self.pool;
        let durable = pool.log.durable();
        let departures = pool.write_back.take_gathered();
        let (allowed, later): (Vec<_>, Vec<_>) =
            departures.into_iter().partition(|departure| pool.departure_lsn(departure) <= durable);
        self.launch_departures(allowed);
        let Some(greatest) = later.iter().map(|departure| pool.departure_lsn(departure)).max() else {
            return;
        };
        let advanced = self.advance_log(greatest).is_ok();
        let durable = pool.log.durable();
        let (allowed, held_up) =
            later.into_iter().partition(|departure| advanced || pool.departure_lsn(departure) <= durable);
        pool.write_back.hold_up(held_up);
        self.launch_departures(allowed);
    }

    fn launch_departures(&mut self, mut departures: Vec<Departure>) {
        departures.sort_by_key(Departure::place);
        let lane = self.lane.as_deref_mut().filter(|_| self.pool.hooks.is_none());
        let mut launch = Launch::new(self.pool, lane);
        departures.into_iter().for_each(|departure| launch.push_departure(departure));
    }

    /// Cleans pages that will be victims soon, and more while too many are dirty.
    fn write_ahead(&mut self) {
        let pool = self.pool;
        let all = pool.frames_count as usize;
        let mut looked_at = (all / 16).max(BATCH_PAGES);
        loop {
            let dirty = pool.counters.dirty_frames.load(Ordering::Relaxed);
            let over_limit = dirty > pool.dirty_limit.load(Ordering::Relaxed);
            let (pages, greatest_lsn) = pool.coldest_dirty(looked_at);
            // Once for all of them. A failure is counted, and what the log does not allow stays dirty.
            let _ = self.advance_log(greatest_lsn);
            let started = self.start_ahead(&pages);
            if pool.write_back.postpone_look_ahead(started > 0, over_limit) {
                return;
            }
            // Farther from the head only where there is little to do near it: looking takes the policy lock.
            if over_limit && pages.len() < BATCH_PAGES && looked_at < all {
                looked_at = (looked_at * 2).min(all);
            } else if started == 0 && !(over_limit && self.wait_for_room()) {
                return;
            }
        }
    }

    /// Starts writing those of the pages that nobody holds and the log allows, as far as the reserve is above its low mark or gets there
    /// by what is in flight. Returns how many.
    fn start_ahead(&mut self, pages: &[(Arc<FileShared>, u64)]) -> usize {
        let pool = self.pool;
        let mut started = 0;
        let mut rest = pages.iter().peekable();
        while rest.peek().is_some() {
            let (launched, has_room) = self.launch_ahead(&mut rest);
            started += launched;
            if !has_room && !self.wait_for_room() {
                return started;
            }
            self.start_departures();
            if !has_room {
                continue;
            }
            // Misses have come so far meanwhile, and take page by page what would be runs.
            if pool.write_back.queue.lock().has_departures() {
                return started;
            }
        }
        started
    }

    /// Until there is no room in the reserve, which is the second result, or somebody else has a page.
    fn launch_ahead<'a>(
        &mut self,
        pages: &mut Peekable<impl Iterator<Item = &'a (Arc<FileShared>, u64)>>,
    ) -> (usize, bool) {
        let pool = self.pool;
        let mut launch = Launch::new(pool, self.lane.as_deref_mut());
        let mut launched = 0;
        while let Some((file, number)) = pages.peek() {
            match pool.take_for_write(file, *number, Patience::None, Via::Copy) {
                Taken::NoRoom => return (launched, false),
                Taken::Outgoing(page) if page.page_lsn > pool.log.durable() => {
                    pool.end_write(page);
                    pool.write_ends.announce();
                }
                Taken::Outgoing(page) => {
                    launch.push_outgoing(page);
                    launched += 1;
                }
                Taken::Clean | Taken::InFlight | Taken::Refused(_) => {
                    pages.next();
                    return (launched, true);
                }
            }
            pages.next();
        }
        (launched, true)
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use crate::PoolOptions;

    use super::*;

    /// All frames of the reserve are in a write that does not end: a miss that may not wait, or not for long, does not.
    #[test]
    fn a_wait_for_the_reserve_ends_at_the_callers_limit() {
        let pool = PoolOptions::new().frames(64).reserve_high_frames(2).open().unwrap();
        let shared = pool.shared();
        let leases: Vec<_> = std::iter::from_fn(|| shared.reserve.take()).collect();
        shared.write_back.begin(leases.len());
        assert!(shared.wait_for_reserve(None, Some(Instant::now())).is_none());
        assert!(shared.wait_for_reserve(None, Some(Instant::now() + Duration::from_millis(1))).is_none());
        // The write ends: whoever has no limit has waited for it.
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| shared.wait_for_reserve(None, None));
            shared.reserve.give_back(leases);
            waiting.join().unwrap()
        });
        assert!(waited.is_some(), "a frame came back");
        shared.reserve.give_back(waited);
        shared.write_back.end(2);
    }
}
