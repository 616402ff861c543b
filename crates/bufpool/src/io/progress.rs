//! What to do after each partial result of a transfer; the rules of the [module above](super) in one place.

use super::buffer::Buffer;
use super::error::{Cause, RETRIES_MAX};
use super::request::Action;

/// How far a read or write has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Bytes transferred for good: where the next attempt starts. A multiple of the file's alignment.
    done: usize,
    /// Attempts in a row that moved nothing.
    fruitless: u32,
}

/// The rules for transfers at the end of a file.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct End {
    /// Direct I/O starts at multiples of this many bytes.
    pub granule: usize,
    /// Bytes by which a read may be longer than the file: what is missing reads as zeros.
    pub missing_bytes_max: usize,
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

    /// Takes the result of one attempt to transfer the rest of `action`: a number of bytes, or an error
    /// number. `end` is that of the file.
    pub(super) fn advance(&mut self, action: &Action, end: End, result: Result<usize, i32>) -> Next {
        match result {
            Ok(bytes) => self.advance_bytes(action, end, bytes),
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

    fn advance_bytes(&mut self, action: &Action, end: End, bytes: usize) -> Next {
        let reached = self.done + bytes;
        if reached as u64 >= action.len() {
            self.done = reached;
            return Next::Finished;
        }
        // A direct transfer can only go on from a multiple of the granule. A read that stops elsewhere, or
        // moves nothing, has met the end of the file.
        let whole = reached / end.granule * end.granule;
        if whole > self.done {
            self.done = whole;
            self.fruitless = 0;
            return Next::Continue;
        }
        if let Action::Read { buffers, .. } = action {
            if action.len() - reached as u64 <= end.missing_bytes_max as u64 {
                buffers.rest(reached).for_each(Buffer::fill_zeros);
                return Next::Finished;
            }
            return Next::Fail(Cause::EndOfFile { after_bytes: reached as u64 });
        }
        self.fruitless += 1;
        if self.fruitless < RETRIES_MAX { Next::Continue } else { Next::Fail(Cause::NoProgress(0)) }
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::NonNull;

    use super::*;
    use crate::io::error::IoOperation;

    const PAGE_BYTES: usize = 4096;
    const END: End = End { granule: 512, missing_bytes_max: 0 };

    fn action(operation: IoOperation) -> Action {
        // SAFETY: never dereferenced: no transfer is made.
        let buffer = unsafe { Buffer::new(NonNull::dangling(), 4 * PAGE_BYTES) };
        match operation {
            IoOperation::Write => Action::Write { offset: 0, buffers: buffer.into() },
            _ => Action::Read { offset: 0, buffers: buffer.into() },
        }
    }

    #[test]
    fn interruptions_refusals_and_cancellations_are_continued_but_not_for_ever() {
        for errno in [libc::EINTR, libc::EAGAIN, libc::ECANCELED] {
            let (action, mut progress) = (action(IoOperation::Read), Progress::default());
            for _ in 1..RETRIES_MAX {
                assert_eq!(progress.advance(&action, END, Err(errno)), Next::Continue);
            }
            let last = progress.advance(&action, END, Err(errno));
            assert_eq!(last, Next::Fail(Cause::NoProgress(errno)));
        }
    }

    #[test]
    fn progress_is_counted_anew_after_each_byte_moved() {
        let (action, mut progress) = (action(IoOperation::Write), Progress::default());
        for part in 1..4 {
            for _ in 1..RETRIES_MAX {
                assert_eq!(progress.advance(&action, END, Err(libc::EAGAIN)), Next::Continue);
            }
            assert_eq!(progress.advance(&action, END, Ok(PAGE_BYTES)), Next::Continue);
            assert_eq!(progress.done(), part * PAGE_BYTES);
        }
        assert_eq!(progress.advance(&action, END, Ok(PAGE_BYTES)), Next::Finished);
    }

    #[test]
    fn short_transfers_go_on_from_whole_granules() {
        let (action, mut progress) = (action(IoOperation::Read), Progress::default());
        assert_eq!(progress.advance(&action, END, Ok(700)), Next::Continue);
        assert_eq!(progress.done(), 512, "the part of a granule is read again");
        assert_eq!(progress.advance(&action, END, Ok(4 * PAGE_BYTES - 512)), Next::Finished);
    }

    #[test]
    fn a_read_that_moves_nothing_has_met_the_end_and_a_write_is_tried_again() {
        let (read, mut progress) = (action(IoOperation::Read), Progress::default());
        assert_eq!(progress.advance(&read, END, Ok(PAGE_BYTES)), Next::Continue);
        let ended = progress.advance(&read, END, Ok(100));
        assert_eq!(ended, Next::Fail(Cause::EndOfFile { after_bytes: PAGE_BYTES as u64 + 100 }));
        let (write, mut progress) = (action(IoOperation::Write), Progress::default());
        for _ in 1..RETRIES_MAX {
            assert_eq!(progress.advance(&write, END, Ok(0)), Next::Continue);
        }
        assert_eq!(progress.advance(&write, END, Ok(0)), Next::Fail(Cause::NoProgress(0)));
    }

    #[test]
    fn what_is_missing_at_the_end_of_a_file_of_bytes_reads_as_zeros() {
        let end = End { granule: 512, missing_bytes_max: PAGE_BYTES - 1 };
        for (there, is_enough) in
            [(4 * PAGE_BYTES - 1, true), (3 * PAGE_BYTES + 1, true), (3 * PAGE_BYTES, false)]
        {
            let mut memory = [7_u8; 4 * PAGE_BYTES];
            // SAFETY: the array outlives the action, and nobody else uses it meanwhile.
            let buffer = unsafe { Buffer::new(NonNull::from(&mut memory).cast(), memory.len()) };
            let (read, mut progress) =
                (Action::Read { offset: 0, buffers: buffer.into() }, Progress::default());
            assert_eq!(progress.advance(&read, end, Ok(there)), Next::Continue);
            let rest = there - progress.done();
            let ended = progress.advance(&read, end, Ok(rest));
            assert_eq!(ended == Next::Finished, is_enough, "{there}: {ended:?}");
            let zeros_from = if is_enough { there } else { memory.len() };
            assert!(memory[..zeros_from].iter().all(|byte| *byte == 7));
            assert!(memory[zeros_from..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn any_other_error_is_reported_at_once() {
        for errno in [libc::EIO, libc::ENOSPC, libc::EBADF] {
            let failed = Progress::default().advance(&action(IoOperation::Write), END, Err(errno));
            assert_eq!(failed, Next::Fail(Cause::Os(errno)));
        }
    }
}
