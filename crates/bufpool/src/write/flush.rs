//! Pages that stay in memory on their way to their files, while a flush or checkpoint waits for them.
//!
//! As the background writer does, a flush keeps a window of [runs](crate::write::runs) in flight, as far as
//! the reserve goes beyond what is kept for misses, and gathers more while the device works. Its runs come
//! back to it, in its own thread: the pool may be being dropped, so that no other thread could hold it until
//! a run ends.
//!
//! While it has transfers it waits only for these, and it holds only copies and a ring: before the log is
//! advanced, which takes as long as the engine likes, all transfers have ended, and the ring is there for
//! others. Where the reserve has no free frame, it waits for one at most
//! [`RESERVE_WAIT`]; the remaining pages are written from their own
//! frames.

use std::iter::Peekable;
use std::slice::Iter;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::Result;
use crate::files::shared::FileShared;
use crate::io::Lane;
use crate::page::latch::Patience;
use crate::state::pace::BATCH_PAGES;
use crate::state::shared::PoolShared;
use crate::write::page_out::{Outgoing, PageOut, Prepared, WrittenFrom};
use crate::write::runs::{Launch, Returns, RunEnd};
use crate::write::victims::RESERVE_WAIT;

/// A page that is dirty, and its file.
pub(crate) type DirtyPage = (Arc<FileShared>, u64);

/// A flush at work.
pub(crate) struct Flush<'p> {
    pool: &'p PoolShared,
    /// Where its transfers are in flight; without one the backend makes them.
    lane: Option<Box<dyn Lane>>,
    returns: Arc<Returns>,
    operation: &'static str,
    /// The first failure.
    outcome: Result<()>,
    /// Copies of pages that were changed after the log was advanced.
    held: Vec<Outgoing>,
    /// Pages that could not be taken at once.
    later: Vec<&'p DirtyPage>,
}

impl<'p> Flush<'p> {
    /// A flush with nothing in flight; errors name it `operation`.
    pub fn new(pool: &'p PoolShared, operation: &'static str) -> Self {
        Self {
            pool,
            lane: pool.backend.leased_lane(),
            returns: Arc::default(),
            operation,
            outcome: Ok(()),
            held: Vec::new(),
            later: Vec::new(),
        }
    }

    /// Writes pages, sorted by file and number, for which the log was advanced a moment ago, and waits. Goes
    /// on after a failure, and returns the first; and the pages that others hold, or write, or that there was
    /// no frame to copy to.
    pub fn write(mut self, pages: &'p [DirtyPage]) -> (Result<()>, Vec<&'p DirtyPage>) {
        let mut rest = pages.iter().peekable();
        // All waits together: where others take the frames that come back, or none come back, the remaining
        // pages are written from their own frames that much sooner.
        let mut patience = RESERVE_WAIT;
        loop {
            let has_room = self.launch(&mut rest);
            let Some(next) = rest.peek() else { break };
            let pending = self.returns.pending();
            if !self.held.is_empty() && (has_room || pending == 0) {
                self.launch_held();
            } else if pending > 0 {
                self.wait_until(pending * 3 / 4);
            } else if !patience.is_zero() {
                let (start, left) = (Instant::now(), rest.len());
                self.pool.reserve.wait_for_spare(start + patience);
                self.launch(&mut rest);
                let helped = rest.len() < left;
                patience = if helped { patience.saturating_sub(start.elapsed()) } else { Duration::ZERO };
            } else {
                self.later.push(*next);
                rest.next();
            }
        }
        self.launch_held();
        self.wait_until(0);
        (std::mem::replace(&mut self.outcome, Ok(())), std::mem::take(&mut self.later))
    }

    /// Starts what can be had without waiting. False if the reserve has no frame for the next page; otherwise
    /// there are no more pages, or enough wait for the log.
    fn launch(&mut self, pages: &mut Peekable<Iter<'p, DirtyPage>>) -> bool {
        let pool = self.pool;
        let durable = pool.log.durable();
        let mut launch = Launch::for_flush(pool, self.lane.as_deref_mut(), &self.returns);
        let mut has_room = true;
        while has_room && self.held.len() < BATCH_PAGES {
            let Some(page @ (file, number)) = pages.peek().copied() else { break };
            if file.is_poisoned() {
                if self.outcome.is_ok() {
                    self.outcome = Err(file.poisoned_error(self.operation).at_page(*number));
                }
                pages.next();
                continue;
            }
            match PageOut::of(pool).take_for_write(file, *number, Patience::None, WrittenFrom::Copy) {
                Prepared::NoRoom => has_room = false,
                Prepared::Outgoing(page) if page.page_lsn > durable => self.held.push(page),
                Prepared::Outgoing(page) => launch.push_outgoing(page),
                Prepared::Clean => {}
                Prepared::InFlight | Prepared::Refused(_) => self.later.push(page),
            }
            if has_room {
                pages.next();
            }
        }
        drop(launch);
        self.note_refusal();
        has_room
    }

    /// Advances the log for the pages that wait for it, and starts those that it allows then. Nothing is in
    /// flight meanwhile, and the ring is there for others.
    fn launch_held(&mut self) {
        let Some(greatest) = self.held.iter().map(|page| page.page_lsn).max() else { return };
        self.wait_until(0);
        self.lane = None;
        let pool = self.pool;
        self.note(pool.advance_log(greatest, self.operation));
        self.lane = pool.backend.leased_lane();
        let durable = pool.log.durable();
        // Reversed, so that `pop` yields the pages in order.
        self.held.reverse();
        let mut launch = Launch::for_flush(pool, self.lane.as_deref_mut(), &self.returns);
        while let Some(page) = self.held.pop() {
            if page.page_lsn > durable {
                PageOut::of(pool).end_write(page);
            } else {
                launch.push_outgoing(page);
            }
        }
        drop(launch);
        pool.write_ends.announce();
        self.note_refusal();
    }

    /// Waits until no more than `pending` runs are in flight.
    fn wait_until(&mut self, pending: usize) {
        while self.returns.pending() > pending {
            // One at a time: there may be room for the next.
            let is_done = self.lane.as_deref_mut().is_some_and(|lane| lane.complete() || lane.wait());
            if !is_done {
                self.returns.wait();
            }
            for (run, result) in self.returns.take() {
                let outcome = RunEnd::of(self.pool).complete_run(run, result);
                self.note(outcome);
            }
        }
    }

    fn note(&mut self, outcome: Result<()>) {
        self.outcome = std::mem::replace(&mut self.outcome, Ok(())).and(outcome);
    }

    fn note_refusal(&mut self) {
        let refusal = self.returns.take_refusal();
        self.note(refusal.map_or(Ok(()), Err));
    }
}

/// A panic on the way leaves nothing in flight either.
impl Drop for Flush<'_> {
    fn drop(&mut self) {
        while let Some(page) = self.held.pop() {
            PageOut::of(self.pool).end_write(page);
        }
        self.wait_until(0);
        self.pool.write_ends.announce();
    }
}
