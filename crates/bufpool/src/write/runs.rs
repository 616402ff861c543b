//! Runs of pages in flight to their files: what the background writer and [flushes](crate::write::flush) keep
//! the device busy with.
//!
//! A run is neighbouring pages of a file in frames that count to the clean reserve: copies of pages that stay
//! in memory, and dirty victims on their way out. When it is written its pages are marked clean and its
//! frames given back at once, while the next run is gathered. So the device has work as long as there are
//! dirty pages. The reserve bounds what is in flight, since every page in flight has a frame of it.
//!
//! Nobody waits for the background writer's runs: their completions, in the writer or a thread of the
//! backend, do all that, and a miss that needs a reserve frame waits for the nearest of them. Runs of a flush
//! come back to it.

use std::sync::{Arc, Weak};

use parking_lot::{Condvar, Mutex};

use crate::error::{Error, Result};
use crate::files::shared::FileShared;
use crate::files::word::OwnedWord;
use crate::io::run::RUNS_TOGETHER;
use crate::io::{IoError, Lane, Request};
use crate::memory::lease::FrameLease;
use crate::page::latch::HeldWord;
use crate::state::departing::{Departing, Reason};
use crate::state::shared::{PoolShared, drop_pool_elsewhere};
use crate::write::borrowing::Borrowing;
use crate::write::page_out::{Outgoing, PageOut, Snapshot};

/// What becomes of a page when it is in its file.
pub(crate) enum Fate {
    /// It stays in its frame, clean unless it was changed since it was copied.
    Stays(Snapshot),
    /// It leaves. If it could not be written it stays, outside the directory.
    Departs(HeldWord<OwnedWord>),
}

/// Neighbouring pages of a file, and the frames of the reserve that they are written from.
pub(crate) struct Run {
    file: Arc<FileShared>,
    first: u64,
    fates: Vec<Fate>,
    leases: Vec<FrameLease>,
}

impl Run {
    fn is_continued_by(&self, file: &Arc<FileShared>, number: u64) -> bool {
        Arc::ptr_eq(&self.file, file)
            && self.first + self.fates.len() as u64 == number
            && self.fates.len() < file.run_pages
    }

    /// Whether the pages stay, in which case hooks have prepared them one by one, or leave. No launch has
    /// both.
    fn stays(&self) -> bool {
        let stays = matches!(self.fates[0], Fate::Stays(_));
        debug_assert!(self.fates.iter().all(|fate| matches!(fate, Fate::Stays(_)) == stays));
        stays
    }

    fn split_off(&mut self, at: usize) -> Self {
        Self {
            file: Arc::clone(&self.file),
            first: self.first + at as u64,
            fates: self.fates.split_off(at),
            leases: self.leases.split_off(at),
        }
    }
}

/// Who completes a run.
#[derive(Clone)]
enum Owner {
    /// The thread that the completion is called in. The thread that started the run keeps the pool alive
    /// until the run has ended.
    Pool(Weak<PoolShared>),
    /// The flush that waits for it.
    Flush(Arc<Returns>),
}

/// Gathers pages, in the order of their files, into runs and hands them to the backend; the rest when it is
/// dropped.
pub(crate) struct Launch<'p> {
    pool: &'p PoolShared,
    lane: Option<&'p mut (dyn Lane + 'static)>,
    owner: Owner,
    run: Option<Run>,
    requests: Vec<Request>,
}

impl<'p> Launch<'p> {
    /// Into `lane`, if there is one. In a pool with hooks there must be none for pages that leave: their
    /// buffers have to come back while the caller waits for more.
    pub fn new(pool: &'p PoolShared, lane: Option<&'p mut (dyn Lane + 'static)>) -> Self {
        Self::with_owner(pool, lane, Owner::Pool(pool.me.clone()))
    }

    /// As [`new`](Self::new); the runs come back to `returns`.
    pub fn for_flush(
        pool: &'p PoolShared,
        lane: Option<&'p mut (dyn Lane + 'static)>,
        returns: &Arc<Returns>,
    ) -> Self {
        Self::with_owner(pool, lane, Owner::Flush(Arc::clone(returns)))
    }

    fn with_owner(pool: &'p PoolShared, lane: Option<&'p mut (dyn Lane + 'static)>, owner: Owner) -> Self {
        Self { pool, lane, owner, run: None, requests: Vec::new() }
    }

    /// One more page that stays, whose log records are durable. It was taken by way of a copy, which nobody
    /// else looks at, so that hooks may prepare it where it is.
    pub fn push_outgoing(&mut self, page: Outgoing) {
        let (file, number) = (Arc::clone(&page.file), page.number);
        let (seen, mut copy) = page.into_copy();
        PageOut::of(self.pool).prepare_for_write(&file, number, self.pool.arena.bytes_mut(&mut copy));
        let run = self.run_at(&file, number);
        run.fates.push(Fate::Stays(seen));
        run.leases.push(copy);
    }

    /// One more page that leaves, whose log records are durable.
    pub fn push_departure(&mut self, departing: Departing) {
        debug_assert!(self.lane.is_none() || self.pool.hooks.is_none());
        let (word, lease) = departing.into_parts();
        let run = self.run_at(word.word().file(), word.word().number());
        run.fates.push(Fate::Departs(word));
        run.leases.push(lease);
    }

    /// The run that page `number` continues, or begins.
    fn run_at(&mut self, file: &Arc<FileShared>, number: u64) -> &mut Run {
        if !self.run.as_ref().is_some_and(|run| run.is_continued_by(file, number)) {
            self.end_run();
        }
        self.run.get_or_insert_with(|| Run {
            file: Arc::clone(file),
            first: number,
            fates: Vec::new(),
            leases: Vec::new(),
        })
    }

    /// Hands all that was gathered to the backend.
    pub fn go(&mut self) {
        self.end_run();
        self.submit();
    }

    fn submit(&mut self) {
        match &mut self.lane {
            Some(lane) => lane.submit(&mut self.requests),
            None => self.pool.backend.submit(&mut self.requests),
        }
    }

    fn end_run(&mut self) {
        let Some(mut run) = self.run.take() else { return };
        if self.pool.hooks.is_none() || run.stays() {
            return self.launch(run, None);
        }
        while !run.fates.is_empty() {
            // Runs that are not submitted yet hold buffers that `prepare` may wait for.
            self.submit();
            let pages = run.leases.iter().zip(run.first..).map(|(lease, number)| (&run.file, number, lease));
            let prepared = PageOut::of(self.pool).prepare(&pages.collect::<Vec<_>>());
            let later = run.split_off(prepared.len());
            self.launch(run, Some(prepared));
            run = later;
        }
    }

    /// `prepared` is what hooks have made of the pages for the file.
    fn launch(&mut self, run: Run, prepared: Option<Vec<FrameLease>>) {
        let io = match run.file.io_for_write(run.first) {
            Ok(io) => io,
            Err(error) => {
                prepared.into_iter().for_each(|buffers| self.pool.hook_buffers.give_back(buffers));
                RunEnd::of(self.pool).end_run(run, false);
                if let Owner::Flush(returns) = &self.owner {
                    returns.refuse(error);
                }
                return;
            }
        };
        let is_alone = self.owner.begin(self.pool, run.fates.len());
        let owner = self.owner.clone();
        let Run { file, first, fates, leases } = run;
        let (source, kept) = match prepared {
            None => (leases, None),
            Some(prepared) => (prepared, Some((leases, Arc::clone(&self.pool.hook_buffers)))),
        };
        let request = self.pool.arena.write_request(io, first, source, move |source, result| {
            let leases = match kept {
                None => source,
                Some((kept, hook_buffers)) => {
                    hook_buffers.give_back(source);
                    kept
                }
            };
            owner.end(Run { file, first, fates, leases }, result);
        });
        self.requests.push(request);
        // An idle device gets the run at once; otherwise a few runs are submitted together.
        if is_alone || self.requests.len() >= RUNS_TOGETHER {
            self.submit();
        }
    }
}

impl Drop for Launch<'_> {
    fn drop(&mut self) {
        self.go();
    }
}

impl Owner {
    /// `pages` pages are about to be handed to the backend. True if nothing else of this owner is in flight.
    fn begin(&self, pool: &PoolShared, pages: usize) -> bool {
        match self {
            Self::Pool(_) => pool.write_back.pace().begin(pages),
            Self::Flush(returns) => returns.expect(),
        }
    }

    /// The transfer is over. Runs in a thread of the backend, or in the one that has the lane.
    fn end(self, run: Run, result: std::result::Result<(), IoError>) {
        match self {
            Self::Pool(pool) => {
                let Some(pool) = pool.upgrade() else { return };
                let count = run.fates.len();
                // The file remembers a failure.
                let _ = RunEnd::of(&pool).complete_run(run, result);
                pool.write_back.end(count);
                drop_pool_elsewhere(pool);
            }
            Self::Flush(returns) => returns.give_back(run, result),
        }
    }
}

/// Completes runs.
#[derive(Clone, Copy)]
pub(crate) struct RunEnd<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> RunEnd<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// The transfer is over: its pages are clean, or their file is poisoned.
    pub(crate) fn complete_run(self, run: Run, result: std::result::Result<(), IoError>) -> Result<()> {
        let outcome = match result {
            Ok(()) => {
                self.pool.count_written(&run.file, run.fates.len());
                Ok(())
            }
            Err(error) => Err(PageOut::of(self.pool).write_failed(&run.file, run.first, error)),
        };
        self.end_run(run, outcome.is_ok());
        outcome
    }

    /// The pages are in their file, or stay dirty.
    fn end_run(self, run: Run, is_written: bool) {
        let mut free = Vec::with_capacity(run.leases.len());
        let mut absences = Vec::with_capacity(run.leases.len());
        let mut left = 0;
        for (fate, lease) in run.fates.into_iter().zip(run.leases) {
            match fate {
                Fate::Stays(seen) => {
                    if is_written {
                        PageOut::of(self.pool).note_written(&run.file, &seen);
                    }
                    PageOut::of(self.pool).end_write_of(&seen);
                    free.push(lease);
                }
                Fate::Departs(word) => {
                    let departing = Departing::from_parts(word, lease);
                    if is_written {
                        let (lease, absence) = departing.finish(self.pool, Reason::Written);
                        free.push(lease);
                        absences.push(absence);
                    } else {
                        departing.restore();
                    }
                    left += 1;
                }
            }
        }
        // The frames first: a thread that waits for a page may need one.
        Borrowing::of(self.pool).give_back_to_reserve(free);
        // After the frames are given back: while a page counts as leaving, a miss may wait for its frame.
        if left > 0 {
            self.pool.write_back.left(left);
        }
        drop(absences);
        self.pool.write_ends.announce();
        self.pool.frame_may_be_free();
    }
}

/// Runs that have ended, for the [flush](crate::write::flush) that has started them.
#[derive(Default)]
pub(crate) struct Returns {
    state: Mutex<ReturnsState>,
    changed: Condvar,
}

#[derive(Default)]
struct ReturnsState {
    /// Runs that were started and not taken back.
    pending: usize,
    ended: Vec<(Run, std::result::Result<(), IoError>)>,
    /// Why a run was not even started.
    refusal: Option<Error>,
}

impl Returns {
    /// One more run is about to start. True if there are no others.
    pub fn expect(&self) -> bool {
        let mut state = self.state.lock();
        state.pending += 1;
        state.pending == 1
    }

    /// A run has ended.
    pub fn give_back(&self, run: Run, result: std::result::Result<(), IoError>) {
        self.state.lock().ended.push((run, result));
        self.changed.notify_one();
    }

    /// A run could not be started. The first reason is kept.
    pub fn refuse(&self, error: Error) {
        self.state.lock().refusal.get_or_insert(error);
    }

    /// Why one could not be started, if that was not asked before.
    pub fn take_refusal(&self) -> Option<Error> {
        self.state.lock().refusal.take()
    }

    /// How many were started and not taken back.
    pub fn pending(&self) -> usize {
        self.state.lock().pending
    }

    /// Those that have ended since the last call.
    pub fn take(&self) -> Vec<(Run, std::result::Result<(), IoError>)> {
        let mut state = self.state.lock();
        state.pending -= state.ended.len();
        std::mem::take(&mut state.ended)
    }

    /// Waits until one has ended, leaving the work to others.
    pub fn wait(&self) {
        let mut state = self.state.lock();
        while state.ended.is_empty() && state.pending > 0 {
            self.changed.wait(&mut state);
        }
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_flush_sleeps_while_its_runs_are_in_flight() {
        let returns = Returns::default();
        assert!(returns.expect() && !returns.expect(), "the first has no others beside it");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| returns.wait());
            // It sleeps, looks again, and sleeps.
            for _ in 0..2 {
                while !returns.changed.notify_one() {
                    assert!(!waiting.is_finished(), "both runs are in flight");
                    std::thread::yield_now();
                }
            }
            returns.state.lock().pending = 0;
            returns.changed.notify_one();
        });
    }
}
