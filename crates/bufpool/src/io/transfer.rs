//! Operations on local files by blocking system calls, from the first byte to the last.

use std::io;

use super::buffer::Buffer;
use super::error::{Cause, IoError};
use super::local::LocalFile;
use super::progress::{Next, Progress};
use super::request::Action;
use crate::sys;

/// Does all of `action` in the calling thread.
pub(super) fn run(file: &LocalFile, action: &Action) -> Result<(), IoError> {
    let fail = |error: io::Error| action.failed(Cause::Os(error.raw_os_error().unwrap_or(libc::EIO)));
    match action {
        Action::Read { .. } | Action::Write { .. } => run_transfer(file, action),
        Action::Sync { all_metadata } => sys::sync(file.fd(), !all_metadata).map_err(fail),
        Action::Allocate { offset, bytes } => file.allocate_now(*offset, *bytes).map_err(fail),
    }
}

fn run_transfer(file: &LocalFile, action: &Action) -> Result<(), IoError> {
    let mut progress = Progress::default();
    let mut pieces = Vec::new();
    loop {
        let result = attempt(file, action, progress.done(), &mut pieces);
        match progress.advance(action, file.end(), result.map_err(|e| e.raw_os_error().unwrap_or(libc::EIO)))
        {
            Next::Finished => return Ok(()),
            Next::Continue => {}
            Next::Fail(cause) => return Err(action.failed(cause)),
        }
    }
}

/// One system call for what is left after `done` bytes. `pieces` is scratch space.
fn attempt(file: &LocalFile, action: &Action, done: usize, pieces: &mut Vec<Buffer>) -> io::Result<usize> {
    match action {
        Action::Read { offset, buffers } => {
            // SAFETY: the pieces are valid for writes and nobody else uses them until the operation is
            // complete: the promise of `Buffer::new`, and we have not reported completion yet.
            buffers.with_rest(done, pieces, |rest| unsafe {
                sys::read_at(file.fd(), Buffer::iovecs(rest), offset + done as u64)
            })
        }
        Action::Write { offset, buffers } => {
            // SAFETY: the pieces are valid, initialized and not written by others until the operation is
            // complete: the promise of `Buffer::new`, and we have not reported completion yet.
            buffers.with_rest(done, pieces, |rest| unsafe {
                sys::write_at(file.fd(), Buffer::iovecs(rest), offset + done as u64)
            })
        }
        Action::Sync { .. } | Action::Allocate { .. } => unreachable!("not a transfer"),
    }
}
