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

use crate::state::departures::BATCH_PAGES;
use crate::state::departures::Departure;
use crate::state::departures::GATHERED_PAGES;
use crate::state::departures::Queue;
use crate::state::departures::WriteBack;
use std::iter::Peekable;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bufpool_policies::TenantId;

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::io::Lane;
use crate::memory::lease::FrameLease;
use crate::page::latch::{Departing, Patience};
use crate::state::shared::PoolShared;
use crate::write::borrowed::Borrowing;
use crate::write::page_out::PageOut;
use crate::write::page_out::{OPERATION, Taken, Via};
use crate::write::window::Launch;

/// Waiting victims that a miss writes at most.
const HELP_PAGES: usize = 8;

/// How long a miss waits for a frame that a write in flight may give back, before it writes itself, and a flush for one to copy to, before it
/// writes pages from where they are. Few writes last longer. In unit tests
/// it is longer than anybody waits, so that who waits in vain does not go unnoticed.
pub(crate) const RESERVE_WAIT: Duration =
    if cfg!(test) { Duration::from_secs(600) } else { Duration::from_millis(5) };

/// Pause before the background writer asks again a log that could not be advanced.
const LOG_RETRY: Duration = Duration::from_millis(10);

/// Sees to dirty victims that wait in the reserve.
#[derive(Clone, Copy)]
pub(crate) struct Victims<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Victims<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Writes what misses have left in the reserve, and waits; for a pool that has no background writer any more.
    pub(crate) fn write_departures(self) {
        let departures = self.pool.write_back.take_departures();
        let greatest = departures.iter().map(|departure| self.departure_lsn(departure)).max();
        let advanced = self.pool.advance_log(greatest.unwrap_or(0), OPERATION).is_ok();
        let durable = self.pool.log.durable();
        let (mut allowed, held_up): (Vec<_>, Vec<_>) = departures
            .into_iter()
            .partition(|departure| advanced || self.departure_lsn(departure) <= durable);
        self.pool.write_back.hold_up(held_up);
        allowed.sort_by_key(Departure::place);
        while !allowed.is_empty() {
            let rest = allowed.split_off(allowed.len().min(BATCH_PAGES));
            self.write_departure_batch(std::mem::replace(&mut allowed, rest));
        }
    }

    fn departure_lsn(self, departure: &Departure) -> u64 {
        self.pool.frames.get(departure.lease.frame()).page_lsn()
    }

    /// A reserve frame for a miss that found none: one that a write in flight gives back soon, or one of a few waiting victims that it
    /// writes itself. It waits for others no longer than until `deadline`, if there is one. A miss of a tenant lets the next victims
    /// leave meanwhile.
    #[cold]
    pub(crate) fn wait_for_reserve(
        self,
        tenant: Option<TenantId>,
        deadline: Option<Instant>,
    ) -> Option<FrameLease> {
        let until = Instant::now() + RESERVE_WAIT;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let lease = if self.pool.write_back.is_writing() {
            if let Some(tenant) = tenant {
                Borrowing::of(self.pool).borrow_frames(tenant, GATHERED_PAGES);
            }
            self.pool.reserve.take_until(until)
        } else {
            self.pool.reserve.take()
        };
        if lease.is_some() {
            return lease;
        }
        let durable = self.pool.log.durable();
        let mut some =
            self.pool.write_back.take_some(HELP_PAGES, |departure| self.departure_lsn(departure) <= durable);
        some.sort_by_key(Departure::place);
        let written = self.write_departure_batch(some);
        self.pool.counters.miss_writes.fetch_add(written as u64, Ordering::Relaxed);
        self.pool.reserve.take()
    }

    /// Writes departures sorted by file and number. Returns how many have left.
    fn write_departure_batch(self, batch: Vec<Departure>) -> usize {
        let pages = batch.iter().map(|departure| {
            let word = departure.departing.word();
            (word.file(), word.number(), &departure.lease)
        });
        let results = PageOut::of(self.pool).write_pages(&pages.collect::<Vec<_>>());
        let (all, mut written) = (results.len(), 0);
        for (departure, result) in batch.into_iter().zip(results) {
            if result.is_ok() {
                self.leave(&departure.departing, &departure.lease);
                self.pool.counters.dirty_frames.fetch_sub(1, Ordering::Relaxed);
                // The frame first: whoever waits for the page may need one.
                Borrowing::of(self.pool).give_back_to_reserve([departure.lease]);
                departure.departing.finish();
                written += 1;
            } else {
                departure.departing.restore(departure.lease);
            }
        }
        self.pool.write_back.left(all);
        self.pool.frame_may_be_free();
        written
    }

    /// A departing page is in its file, and its frame is empty. The caller counts it.
    pub(crate) fn leave(self, departing: &Departing<OwnedWord>, lease: &FrameLease) {
        let frame = self.pool.frames.get(lease.frame());
        debug_assert!(frame.is_dirty(), "nobody cleans a departing page");
        frame.vacate(departing.word().file().optimistic);
    }

    /// Those of the `count` pages nearest the ledger's head that are dirty and may be written, by file and number. The very nearest come
    /// last: misses that are on their way there would take every other page of a run. Also the greatest log
    /// sequence number among them.
    fn coldest_dirty(self, count: usize) -> (Vec<(Arc<FileShared>, u64)>, u64) {
        let mut coldest = Vec::with_capacity(count);
        let mut greatest_lsn = 0;
        let (mut near, mut pages): (Vec<_>, Vec<_>) = {
            let mut policy = self.pool.policy.lock();
            self.pool.drain_logs(&mut policy);
            policy.directory.coldest(count, &mut coldest);
            let nearest = (self.pool.reserve.frames() / 2).min(count / 4);
            let dirty = (0..).zip(coldest).filter_map(|(place, frame)| {
                let entry = self.pool.frames.get(frame);
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

/// Starts the background writer of a pool. It does not keep the pool alive.
pub(crate) fn start(pool: &Arc<PoolShared>) -> std::io::Result<()> {
    let (write_back, weak) = (Arc::clone(&pool.write_back), Arc::downgrade(pool));
    let body = move || run(&write_back, &weak);
    let thread = std::thread::Builder::new().name("bufpool-writer".into()).spawn(body)?;
    *pool.write_back.thread.lock() = Some(thread);
    Ok(())
}

fn run(write_back: &WriteBack, pool: &Weak<PoolShared>) {
    let mut lane = None;
    loop {
        {
            let mut queue = write_back.queue.lock();
            // Whoever waits here is told of departures that are worth starting, and not of the end of writes, which may make them so.
            debug_assert_eq!(queue.in_flight, 0, "the writer sees to the end of what it has begun");
            queue.is_working = false;
            write_back.idle.notify_all();
            while !queue.stop && !queue.has_work() {
                if std::mem::take(&mut queue.is_held_up) {
                    write_back.work.wait_for(&mut queue, LOG_RETRY);
                } else {
                    write_back.work.wait(&mut queue);
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
        let (allowed, later): (Vec<_>, Vec<_>) = departures
            .into_iter()
            .partition(|departure| Victims::of(pool).departure_lsn(departure) <= durable);
        self.launch_departures(allowed);
        let Some(greatest) = later.iter().map(|departure| Victims::of(pool).departure_lsn(departure)).max()
        else {
            return;
        };
        let advanced = self.advance_log(greatest).is_ok();
        let durable = pool.log.durable();
        let (allowed, held_up) = later
            .into_iter()
            .partition(|departure| advanced || Victims::of(pool).departure_lsn(departure) <= durable);
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
            let (pages, greatest_lsn) = Victims::of(pool).coldest_dirty(looked_at);
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
            match PageOut::of(pool).take_for_write(file, *number, Patience::None, Via::Copy) {
                Taken::NoRoom => return (launched, false),
                Taken::Outgoing(page) if page.page_lsn > pool.log.durable() => {
                    PageOut::of(pool).end_write(page);
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
        assert!(Victims::of(&shared).wait_for_reserve(None, Some(Instant::now())).is_none());
        assert!(
            Victims::of(&shared)
                .wait_for_reserve(None, Some(Instant::now() + Duration::from_millis(1)))
                .is_none()
        );
        // The write ends: whoever has no limit has waited for it.
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Victims::of(&shared).wait_for_reserve(None, None));
            shared.reserve.give_back(leases);
            waiting.join().unwrap()
        });
        assert!(waited.is_some(), "a frame came back");
        shared.reserve.give_back(waited);
        shared.write_back.end(2);
    }
}
