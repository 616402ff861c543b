//! Who writes dirty pages, and when: the background writer, misses, flushes and checkpoints.
//!
//! A page that stays is written from a copy, made under a shared latch into a frame of the clean reserve: a
//! writer of the page never waits for I/O, and no page on the device is ever torn by us. A page that leaves
//! is written from its own frame, in exchange for which the page that comes in has got one of the reserve.
//! Where there is no free reserve frame, and in deterministic mode, the page is written from its own frame
//! with the shared latch held. [`page_out`](crate::write::page_out) does that; here is who asks for it, and
//! when:
//!
//! * the *background writer* (one thread, none in deterministic mode) writes dirty victims that misses left
//!   in the reserve, and cleans ahead of the ledger's head, so that later victims are clean. When more than
//!   `dirty_limit_percent` of the frames are dirty it goes on until that is no longer so. Before it cleans
//!   ahead it writes what policy programs [wish](crate::write::wishes) to be written. It skips pages that
//!   are latched, and leaves the reserve below its low mark to misses. [`Pace`](crate::state::pace::Pace)
//!   decides what it does when; [`window`](crate::write::runs) keeps what it writes in flight.
//! * a *miss* with a dirty victim takes a reserve frame and waits for no write as long as there is one. When
//!   there is none it makes the next victims leave ([`borrowed`](crate::write::borrowing)) and waits for a
//!   frame that a write in flight gives back, at most [`RESERVE_WAIT`](crate::write::victims::RESERVE_WAIT)
//!   and not beyond the caller's own limit. If nothing is in flight, or that was too long, it helps: it
//!   writes a few of the victims that wait in the reserve and that the log already allows
//!   ([`victims`](crate::write::victims)), and takes one of the frames that come free. Only if none does it
//!   writes its own victim. It never advances the log.
//! * *flush and checkpoint* ([`checkpoint`](crate::write::checkpoint)) write what is dirty when they begin,
//!   and wait ([`flush`](crate::write::flush)).

use std::iter::Peekable;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use bufpool_policies::PageId;

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::io::Lane;
use crate::page::latch::Patience;
use crate::state::departing::Departing;
use crate::state::pace::{AfterRound, Scan, Scanned, Until};
use crate::state::shared::PoolShared;
use crate::state::write_back::WriteBack;
use crate::write::page_out::{OPERATION, PageOut, Prepared, WrittenFrom};
use crate::write::runs::Launch;
use crate::write::victims::Victims;

/// Starts the background writer of a pool. It does not keep the pool alive.
pub(crate) fn start(pool: &Arc<PoolShared>) -> std::io::Result<()> {
    let (write_back, weak) = (Arc::clone(&pool.write_back), Arc::downgrade(pool));
    let body = move || run(&write_back, &weak);
    let thread = std::thread::Builder::new().name("bufpool-writer".into()).spawn(body)?;
    pool.write_back.run_by(thread);
    Ok(())
}

fn run(write_back: &WriteBack, pool: &Weak<PoolShared>) {
    let mut lane = None;
    while write_back.wait_for_work() {
        // What is in flight needs the pool, so it is held until that is written.
        let Some(pool) = pool.upgrade() else { return };
        if lane.is_none() {
            lane = pool.backend.lane();
        }
        Writer { pool: &pool, lane: lane.as_deref_mut() }.rounds();
    }
}

/// The background writer at work.
struct Writer<'p> {
    pool: &'p PoolShared,
    /// Where its writes are in flight; without one the backend makes them.
    lane: Option<&'p mut (dyn Lane + 'static)>,
}

impl Writer<'_> {
    /// Starts what there is to write, until nothing is in flight.
    fn rounds(&mut self) {
        loop {
            self.start_departures();
            if self.pool.write_back.pace().begin_scan() {
                self.write_wished();
                self.clean_ahead();
            }
            loop {
                // A miss may take what there was to start, so this is asked anew after each wait.
                let after = self.pool.write_back.pace().after_round();
                match after {
                    AfterRound::GoOn => break,
                    AfterRound::Wait => self.wait_until(Until::MoreWork),
                    AfterRound::Over => return,
                }
            }
        }
    }

    /// Waits until a part of what is in flight is written, or there are departures to start. False if nothing
    /// is in flight, or the writer has to stop.
    fn wait_for_room(&mut self) -> bool {
        let Some(room) = self.pool.write_back.pace().room() else { return false };
        self.wait_until(room);
        !self.pool.write_back.pace().is_stopped()
    }

    fn wait_until(&mut self, until: Until) {
        let write_back = &self.pool.write_back;
        while write_back.pace().must_wait(until) {
            // One at a time, because others wait for its frames, and because there may be more to start
            // meanwhile.
            if !self.lane.as_deref_mut().is_some_and(|lane| lane.complete() || lane.wait()) {
                write_back.wait_for_writes(until);
            }
        }
    }

    /// Waits for the transfers in the lane first: threads may wait for departing pages among them, and the
    /// log may take long.
    fn advance_log(&mut self, lsn: u64) -> Result<()> {
        if lsn > self.pool.log.durable() && self.lane.is_some() {
            self.wait_until(Until::AllWritten);
        }
        self.pool.advance_log(lsn, OPERATION)
    }

    /// Starts writing what misses have left in the reserve: first what the log allows as it is, then what it
    /// can be advanced for. The rest goes back to the queue, for a later round.
    fn start_departures(&mut self) {
        let pool = self.pool;
        let durable = pool.log.durable();
        let departures = Victims::of(pool).without_poisoned(pool.write_back.take_gathered());
        let lsn = |departure: &Departing| Victims::of(pool).departure_lsn(departure);
        let (allowed, later): (Vec<_>, Vec<_>) =
            departures.into_iter().partition(|departure| lsn(departure) <= durable);
        self.launch_departures(allowed);
        let Some(greatest) = later.iter().map(lsn).max() else { return };
        let advanced = self.advance_log(greatest).is_ok();
        let durable = pool.log.durable();
        let (allowed, held_up) =
            later.into_iter().partition(|departure| advanced || lsn(departure) <= durable);
        pool.write_back.put_back(held_up);
        self.launch_departures(allowed);
    }

    fn launch_departures(&mut self, mut departures: Vec<Departing>) {
        departures.sort_by_key(Departing::place);
        let lane = self.lane.as_deref_mut().filter(|_| self.pool.hooks.is_none());
        let mut launch = Launch::new(self.pool, lane);
        departures.into_iter().for_each(|departure| launch.push_departure(departure));
    }

    /// Writes the pages that programs wish to be written, as far as they are still dirty.
    fn write_wished(&mut self) {
        let wished = self.pool.write_back.take_wished();
        if wished.is_empty() {
            return;
        }
        let mut greatest_lsn = 0;
        let mut pages: Vec<_> = {
            let policy = self.pool.policy.lock();
            let resident = |page: PageId| {
                let file = policy.file(page.file())?;
                let frame = file.table.get(page.number())?.state().resident_frame()?;
                greatest_lsn = greatest_lsn.max(self.pool.frames.get(frame).page_lsn());
                Some((Arc::clone(file), page.number()))
            };
            wished.into_iter().filter_map(resident).collect()
        };
        pages.sort_by_key(|(file, number)| (file.id, *number));
        // A failure is counted, and what the log does not allow stays dirty.
        let _ = self.advance_log(greatest_lsn);
        self.start_ahead(&pages);
    }

    /// Cleans pages that will be victims soon, and more while too many are dirty.
    fn clean_ahead(&mut self) {
        let pool = self.pool;
        let mut scan = Scan::new(pool.frames_count as usize);
        loop {
            let dirty = pool.counters.dirty_frames.load(Ordering::Relaxed);
            let over_limit = dirty > pool.dirty_limit.load(Ordering::Relaxed);
            let (pages, greatest_lsn) = self.coldest_dirty(scan.depth());
            // Once for all of them. A failure is counted, and what the log does not allow stays dirty.
            let _ = self.advance_log(greatest_lsn);
            let started = self.start_ahead(&pages);
            let next = pool.write_back.pace().scanned(&mut scan, pages.len(), started, over_limit);
            match next {
                Scanned::Again => {}
                Scanned::AgainWithRoom if self.wait_for_room() => {}
                Scanned::AgainWithRoom | Scanned::Over => return,
            }
        }
    }

    /// Those of the `count` pages nearest the ledger's head that are dirty and may be written, by file and
    /// number. The very nearest come last: misses that are on their way there would take every other page of
    /// a run. Also the greatest log sequence number among them.
    fn coldest_dirty(&self, count: usize) -> (Vec<(Arc<FileShared>, u64)>, u64) {
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

    /// Starts writing those of the pages that are not latched and that the log allows, as far as the reserve
    /// is above its low mark or gets there by what is in flight. Returns how many.
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
            // Misses have reached these pages meanwhile, and evict them one by one.
            if pool.write_back.pace().has_departures() {
                return started;
            }
        }
        started
    }

    /// Starts writing pages until the reserve has no room, or another thread has a page. Returns how many,
    /// and whether the reserve still has room.
    fn launch_ahead<'a>(
        &mut self,
        pages: &mut Peekable<impl Iterator<Item = &'a (Arc<FileShared>, u64)>>,
    ) -> (usize, bool) {
        let pool = self.pool;
        let mut launch = Launch::new(pool, self.lane.as_deref_mut());
        let mut launched = 0;
        while let Some((file, number)) = pages.peek() {
            match PageOut::of(pool).take_for_write(file, *number, Patience::None, WrittenFrom::Copy) {
                Prepared::NoRoom => return (launched, false),
                Prepared::Outgoing(page) if page.page_lsn > pool.log.durable() => {
                    PageOut::of(pool).let_go(page);
                }
                Prepared::Outgoing(page) => {
                    launch.push_outgoing(page);
                    launched += 1;
                }
                Prepared::Clean | Prepared::InFlight | Prepared::Refused(_) => {
                    pages.next();
                    return (launched, true);
                }
            }
            pages.next();
        }
        (launched, true)
    }
}
