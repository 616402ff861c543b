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

/// One system call for the rest of `action` after `done` bytes. `pieces` is scratch space.
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

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::super::FileOpen;
    use super::super::conformance::directory;
    use super::*;
    use crate::io::options::Direct;
    use crate::sys::Mapping;

    const PAGE_BYTES: usize = 4096;

    /// Fills a page of `memory`.
    fn fill(memory: &Mapping, page: usize, byte: u8) {
        assert!((page + 1) * PAGE_BYTES <= memory.len());
        // SAFETY: within the mapping.
        let start = unsafe { memory.start().add(page * PAGE_BYTES) };
        // SAFETY: the page lies within the mapping, as just checked, and no operation uses it now.
        unsafe { start.write_bytes(byte, PAGE_BYTES) }
    }

    fn bytes(memory: &Mapping) -> Vec<u8> {
        // SAFETY: the mapping is that long, and no operation uses it now.
        unsafe { std::slice::from_raw_parts(memory.start().as_ptr(), memory.len()) }.to_vec()
    }

    /// Of two pages from page 1 of the file on, the first is done.
    #[test]
    fn a_transfer_that_was_cut_short_goes_on_behind_what_is_done() {
        let directory = directory();
        let path = directory.path().join("file");
        let how = FileOpen { direct: Direct::Off, ..FileOpen::READ_WRITE };
        let file = LocalFile::open(&path, &how).unwrap();
        let memory = Mapping::new(2 * PAGE_BYTES).unwrap();
        // SAFETY: the mapping is kept, and nobody else uses it while an attempt runs.
        let buffers = || unsafe { Buffer::new(memory.start(), memory.len()) }.into();
        let pages = |all: &[u8]| all.chunks(PAGE_BYTES).map(|page| page[0]).collect::<Vec<_>>();
        let offset = PAGE_BYTES as u64;
        let attempt = |action| attempt(&file, &action, PAGE_BYTES, &mut Vec::new()).unwrap();

        (0..2).for_each(|page| fill(&memory, page, page as u8 + 1));
        assert_eq!(attempt(Action::Write { offset, buffers: buffers() }), PAGE_BYTES);
        assert_eq!(pages(&std::fs::read(&path).unwrap()), [0, 0, 2]);
        (0..2).for_each(|page| fill(&memory, page, 9));
        assert_eq!(attempt(Action::Read { offset, buffers: buffers() }), PAGE_BYTES);
        assert_eq!(pages(&bytes(&memory)), [9, 2]);
    }
}
