//! Exclusive hold of all pages of a file, for operations that close, remove, reopen or shorten it.
//!
//! Such an operation goes in three steps, and others see nothing of it before the third:
//!
//! 1. *Drain*: loads are held off ([`HoldOff`]), and all resident pages are latched exclusively, none of them
//!    pinned or being written. [`Drained`] stands for that.
//! 2. *Decide*: the I/O that may fail. If it does, [`Drained`] is dropped, and those who wait are served as
//!    if nothing had been tried.
//! 3. *Publish*: the gate says what was decided, the pages leave, and then [`Drained`] is dropped. Those who
//!    wait look again.
//!
//! **Why this cannot deadlock.** A thread that holds a page, or a frame, may wait for another page of the
//! same file. So a drain waits in *tries*: a page that is not to be had by the end of a try makes it give
//! back everything, and rest for as long before the next one, while others have their pages. Tries become
//! longer, since loads and writes in flight take their time, but no longer than a quarter of `latch_wait_ms`:
//! a thread that waits for a try outlasts it.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;

use crate::error::{Error, ErrorKind, Result};
use crate::files::gate::HoldOff;
use crate::files::shared::FileShared;
use crate::files::word::{OwnedWord, Seized, SeizedPages};
use crate::page::latch::{Patience, Refusal, acquire_resident, wait_until_free};
use crate::state::shared::PoolShared;
use crate::sync::deadline_after;

/// The length of the first try.
const TRY_FIRST: Duration = Duration::from_millis(4);
/// The longest try, as a part of `latch_wait_ms`.
const TRIES_IN_WAIT: u32 = 4;

/// A file of which, from some page on, nobody else holds or loads a page, and whose length nobody else
/// changes. Dropping it leaves the file as it was, or as the gate says by then.
pub(crate) struct Drained<'f> {
    // Dropped in this order: a load that the gate lets pass finds no page latched.
    pub seized: SeizedPages,
    _loads: HoldOff<'f>,
    _length: MutexGuard<'f, ()>,
    pub file: &'f Arc<FileShared>,
}

/// Why a try came to nothing.
enum Obstacle<'f> {
    /// Waiting is of no use.
    Final(Error),
    /// The page is latched, being loaded, or being written.
    Page(OwnedWord),
    /// Another operation has the file.
    Operation(&'f FileShared),
}

/// Gets hold of all pages of a file.
#[derive(Clone, Copy)]
pub(crate) struct Drain<'p> {
    pool: &'p PoolShared,
    /// When it gives up.
    end: Instant,
}

impl<'p> Drain<'p> {
    /// Of this pool, for `latch_wait_ms` from now on.
    pub fn of(pool: &'p PoolShared) -> Self {
        Self::until(pool, deadline_after(pool.latch_wait))
    }

    /// Of this pool, until `end`.
    pub fn until(pool: &'p PoolShared, end: Instant) -> Self {
        Self { pool, end }
    }

    /// Drains a file of its pages from `from` on.
    pub(crate) fn drain<'f>(
        self,
        file: &'f Arc<FileShared>,
        from: u64,
        operation: &'static str,
    ) -> Result<Drained<'f>> {
        self.in_tries(operation, |until| self.try_drain(file, from, until, operation))
    }

    /// As [`drain`](Self::drain), with what `first` gets hold of before each try. It is given back after one
    /// that comes to nothing.
    pub(crate) fn drain_with<'f, T>(
        self,
        file: &'f Arc<FileShared>,
        from: u64,
        operation: &'static str,
        first: impl Fn() -> Result<T>,
    ) -> Result<(T, Drained<'f>)> {
        self.in_tries(operation, |until| {
            let first = first().map_err(Obstacle::Final)?;
            Ok((first, self.try_drain(file, from, until, operation)?))
        })
    }

    /// Drains files, in the order of their numbers, of all pages.
    pub(crate) fn drain_all<'f>(
        self,
        files: &'f [Arc<FileShared>],
        operation: &'static str,
    ) -> Result<Vec<Drained<'f>>> {
        let all = |until| files.iter().map(|file| self.try_drain(file, 0, until, operation)).collect();
        self.in_tries(operation, all)
    }

    /// Takes exclusive latches on all resident pages of a range, none of them pinned or being written, and
    /// the file's length lock, which keeps out other operations that take pages away. Latches alone do not:
    /// the latch of a page whose writer has panicked belongs to nobody, so it excludes nobody. On failure
    /// nothing is held.
    pub(crate) fn seize<'f>(
        self,
        file: &'f Arc<FileShared>,
        pages: Range<u64>,
        operation: &'static str,
    ) -> Result<(SeizedPages, MutexGuard<'f, ()>)> {
        self.in_tries(operation, |until| {
            let length = file.try_lock_length(until).ok_or(Obstacle::Operation(file))?;
            file.check_open(operation).map_err(Obstacle::Final)?;
            Ok((self.try_seize(file, pages.clone(), until, operation)?, length))
        })
    }

    /// Tries, and rests between tries, until one succeeds or it is time to give up.
    fn in_tries<'f, T>(
        self,
        operation: &'static str,
        attempt: impl Fn(Instant) -> Result<T, Obstacle<'f>>,
    ) -> Result<T> {
        let end = self.end;
        let longest = self.pool.latch_wait / TRIES_IN_WAIT;
        let mut length = TRY_FIRST.min(longest);
        loop {
            let obstacle = match attempt(end.min(Instant::now() + length)) {
                Ok(gained) => return Ok(gained),
                Err(Obstacle::Final(error)) => return Err(error),
                Err(obstacle) => obstacle,
            };
            let now = Instant::now();
            if now >= end {
                return Err(self.obstacle_error(obstacle, operation));
            }
            let rest = end.min(now + length);
            match obstacle {
                Obstacle::Page(word) => wait_until_free(&word, rest),
                Obstacle::Operation(file) => file.wait_for_operation(rest),
                Obstacle::Final(_) => unreachable!("returned above"),
            }
            length = (2 * length).min(longest);
        }
    }

    fn try_drain<'f>(
        self,
        file: &'f Arc<FileShared>,
        from: u64,
        until: Instant,
        operation: &'static str,
    ) -> Result<Drained<'f>, Obstacle<'f>> {
        let length = file.try_lock_length(until).ok_or(Obstacle::Operation(file))?;
        // Another operation may have closed it before this one had its turn.
        file.check_open(operation).map_err(Obstacle::Final)?;
        let loads = file.gate.hold_off_loads(from);
        let seized = self.try_seize(file, from..u64::MAX, until, operation)?;
        Ok(Drained { seized, _loads: loads, _length: length, file })
    }

    fn try_seize<'f>(
        self,
        file: &Arc<FileShared>,
        pages: Range<u64>,
        until: Instant,
        operation: &'static str,
    ) -> Result<SeizedPages, Obstacle<'f>> {
        let mut seized = SeizedPages::default();
        for (number, _) in
            file.table.words(pages.start, pages.end).filter(|(_, word)| !word.state().is_absent())
        {
            let word = OwnedWord::new(Arc::clone(file), number);
            if file.is_half_changed(number) {
                self.check_unused(&word, until, operation)?;
                seized.half_changed.push(word);
                continue;
            }
            let latch = match acquire_resident(word.clone(), &mut Patience::Until(until)) {
                Ok(Some(latch)) => latch,
                Ok(None) => continue,
                Err(Refusal::TimedOut) => return Err(Obstacle::Page(word)),
                Err(Refusal::Own) => {
                    let error = self.pool.latch_error(file, number, Refusal::Own, operation);
                    return Err(Obstacle::Final(error));
                }
            };
            self.check_unused(&word, until, operation)?;
            seized.whole.push(Seized { number, latch });
        }
        Ok(seized)
    }

    /// Fails if the page, which is latched exclusively, is pinned. Waits until a write of it in flight is
    /// over, because the end of that write marks the frame.
    fn check_unused<'f>(
        self,
        word: &OwnedWord,
        until: Instant,
        operation: &'static str,
    ) -> Result<(), Obstacle<'f>> {
        let Some(frame) = word.state().resident_frame() else { return Ok(()) };
        let entry = self.pool.frames.get(frame);
        if entry.pins() > 0 {
            let error = word.file().error(ErrorKind::PageBusy, operation, "the page is pinned");
            return Err(Obstacle::Final(error.at_page(word.number())));
        }
        if self.pool.write_ends.wait_until(entry, until) { Ok(()) } else { Err(Obstacle::Page(word.clone())) }
    }

    /// The error of an operation that has tried long enough.
    fn obstacle_error(self, obstacle: Obstacle<'_>, operation: &'static str) -> Error {
        match obstacle {
            Obstacle::Final(error) => error,
            Obstacle::Page(word) if word.file().is_half_changed(word.number()) => {
                let error =
                    word.file().error(ErrorKind::PageBusy, operation, "the page is still being written");
                error.at_page(word.number())
            }
            Obstacle::Page(word) => {
                self.pool.latch_error(word.file(), word.number(), Refusal::TimedOut, operation)
            }
            Obstacle::Operation(file) => file.busy_error(operation, self.pool.latch_wait),
        }
    }
}
