//! One transfer from its first byte to its last: what to do after each partial result.
//!
//! The rules of the [module above](super) in one place: [`Progress`] holds them for every backend, and
//! [`run`] applies them with blocking system calls.

use std::io;

use super::{Action, Buffer, Cause, IoError, IoFile, IoOperation, RETRIES_MAX};
use crate::sys;

/// How far a read or write has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes transferred for good: where the next attempt starts. A multiple of the file's alignment.
    done: usize,
    /// Attempts in a row that moved nothing.
    fruitless: u32,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Everything is transferred.
    Finished,
    /// Try again from [`Progress::done`].
    Continue,
    /// Report this.
    Fail(Cause),
}

impl Progress {
    /// Bytes that need no further attempt.
    pub(super) fn done(&self) -> usize {
        self.done
    }

    /// Takes the result of one attempt to transfer the rest of `action` on a file whose lengths are
    /// multiples of `granule` bytes: a number of bytes, or an error number.
    pub(super) fn advance(&mut self, action: &Action, granule: usize, result: Result<usize, i32>) -> Next {
        match result {
            Ok(bytes) => self.advance_bytes(action, granule, bytes),
            Err(libc::EINTR | libc::EAGAIN | libc::ECANCELED) if self.fruitless + 1 < RETRIES_MAX => {
                self.fruitless += 1;
                Next::Continue
            }
            Err(errno @ (libc::EINTR | libc::EAGAIN | libc::ECANCELED)) => {
                Next::Fail(Cause::NoProgress(errno))
            }
            Err(errno) => Next::Fail(Cause::Os(errno)),
        }
    }

    fn advance_bytes(&mut self, action: &Action, granule: usize, bytes: usize) -> Next {
        let reached = self.done + bytes;
        if reached as u64 >= action.len() {
            self.done = reached;
            return Next::Finished;
        }
        // A direct transfer can only go on from a multiple of the granule. One that stops elsewhere, or
        // at once, has met the end of the file if it reads.
        let whole = reached / granule * granule;
        if whole > self.done {
            self.done = whole;
            self.fruitless = 0;
            return Next::Continue;
        }
        if action.operation() == IoOperation::Read {
            return Next::Fail(Cause::EndOfFile { after_bytes: reached as u64 });
        }
        self.fruitless += 1;
        if self.fruitless < RETRIES_MAX { Next::Continue } else { Next::Fail(Cause::NoProgress(0)) }
    }
}

/// Does all of `action` in the calling thread.
pub(super) fn run(file: &IoFile, action: &Action) -> Result<(), IoError> {
    let fail = |error: io::Error| action.failed(Cause::Os(error.raw_os_error().unwrap_or(libc::EIO)));
    match action {
        Action::Read { .. } | Action::Write { .. } => run_transfer(file, action),
        Action::Sync { all_metadata } => sys::sync(file.fd(), !all_metadata).map_err(fail),
        Action::Allocate { offset, bytes } => file.allocate(*offset, *bytes).map_err(fail),
    }
}

fn run_transfer(file: &IoFile, action: &Action) -> Result<(), IoError> {
    let granule = file.alignment().offset_bytes as usize;
    let mut progress = Progress::default();
    let mut pieces = Vec::new();
    loop {
        let result = attempt(file, action, progress.done(), &mut pieces);
        match progress.advance(action, granule, result.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO))) {
            Next::Finished => return Ok(()),
            Next::Continue => {}
            Next::Fail(cause) => return Err(action.failed(cause)),
        }
    }
}

/// One system call for what is left after `done` bytes. `pieces` is scratch space.
fn attempt(file: &IoFile, action: &Action, done: usize, pieces: &mut Vec<Buffer>) -> io::Result<usize> {
    match action {
        Action::Read { offset, buffers } => {
            buffers.rest_into(done, pieces);
            // SAFETY: the pieces are valid for writes and nobody else uses them until the operation is
            // complete: the promise of `Buffer::new`, and we have not reported completion yet.
            unsafe { sys::read_at(file.fd(), Buffer::iovecs(pieces), offset + done as u64) }
        }
        Action::Write { offset, buffers } => {
            buffers.rest_into(done, pieces);
            // SAFETY: the pieces are valid, initialized and not written by others until the operation is
            // complete: the promise of `Buffer::new`, and we have not reported completion yet.
            unsafe { sys::write_at(file.fd(), Buffer::iovecs(pieces), offset + done as u64) }
        }
        Action::Sync { .. } | Action::Allocate { .. } => unreachable!("not a transfer"),
    }
}
