//! Requests in the hands of their source, and their ends.

use std::io;
use std::sync::Arc;

use bufpool_policies::contained;

use super::buffer::Buffers;
use super::error::{Cause, IoError, IoOperation};
use super::request::{Action, Completion, Request, SourceRef};

/// The end of a request, to be told by its source: once, on any thread, during a call of the source or
/// outside any. A `Done` that is dropped has failed with EIO, so each request ends exactly once.
///
/// It keeps the source open. Telling runs the pool's completion, which is short, does no I/O, and takes
/// locks of the pool. So the source must not hold a lock meanwhile that another call of it needs.
#[derive(Debug)]
pub struct Done {
    /// None once the result was told.
    request: Option<Untold>,
    operation: IoOperation,
    offset: u64,
    bytes: u64,
}

/// Whom to tell.
#[derive(Debug)]
struct Untold {
    source: SourceRef,
    token: u64,
    completion: Arc<dyn Completion>,
}

impl Done {
    /// What was asked for is done, or has failed for the reason given. The error is shown to users with
    /// operation, place and file, and is the [`source`](std::error::Error::source) of what they get. Its kind
    /// counts: [`StorageFull`](io::ErrorKind::StorageFull) becomes
    /// [`ErrorKind::NoSpace`](crate::ErrorKind::NoSpace), [`UnexpectedEof`](io::ErrorKind::UnexpectedEof)
    /// [`ErrorKind::UnexpectedEof`](crate::ErrorKind::UnexpectedEof),
    /// [`InvalidData`](io::ErrorKind::InvalidData) [`ErrorKind::Corrupt`](crate::ErrorKind::Corrupt), and all
    /// others [`ErrorKind::Io`](crate::ErrorKind::Io).
    pub fn finish(self, result: io::Result<()>) {
        let result = result.map_err(|error| self.error(error.into()));
        self.end(result);
    }

    /// As [`Done::finish`], for sources that know which part of the operation failed.
    pub(crate) fn end(mut self, result: Result<(), IoError>) {
        self.tell(result);
    }

    /// The error of this operation with this cause.
    fn error(&self, cause: Cause) -> IoError {
        IoError::new(self.operation, self.offset, self.bytes, cause)
    }

    /// Calls the completion, in which a panic is contained, because the calling thread may be working for
    /// others as well.
    fn tell(&mut self, result: Result<(), IoError>) {
        let Some(Untold { source, token, completion }) = self.request.take() else { return };
        // The owner of the request may want to see the source closed when it hears of the end.
        contained(move || drop(source));
        contained(move || completion.complete(token, result));
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let error = self.error(Cause::Os(libc::EIO));
        self.tell(Err(error));
    }
}

/// A read in the hands of its source: where to read, the memory to fill, and whom to tell. Dropping it fails
/// the read.
///
/// The memory is the pool's own page frames, lent until the end is told: [`ReadRequest::finish`] takes it
/// back. It may be filled in any order, and by another thread than that of the call.
#[derive(Debug)]
pub struct ReadRequest {
    buffers: Buffers,
    done: Done,
}

impl ReadRequest {
    /// The first byte to read, counted from the beginning of the file.
    pub fn offset(&self) -> u64 {
        self.done.offset
    }

    /// How many bytes to read: neighbouring pages, at least one.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// The memory to fill, in file order: one piece, or several that are neighbours in the file and not in
    /// memory. Their lengths are multiples of a page. What they hold beforehand is undefined.
    pub fn pieces(&mut self) -> impl Iterator<Item = &mut [u8]> {
        self.buffers.pieces().iter().map(|&piece| {
            // SAFETY: a read's buffers are nobody else's until its end is told (`Buffer::new`), which takes
            // `self`. Pieces of one request do not overlap, and the slices borrow `self` mutably.
            unsafe { piece.lend_mut() }
        })
    }

    /// Fills the memory from its byte `at` on with `bytes`.
    ///
    /// # Panics
    ///
    /// If they do not fit.
    pub fn fill(&mut self, at: usize, mut bytes: &[u8]) {
        let len = self.len();
        let end = at.checked_add(bytes.len());
        assert!(end.is_some_and(|end| end <= len), "{} bytes at {at} of {len}", bytes.len());
        let mut skip = at;
        for piece in self.pieces() {
            let from = skip.min(piece.len());
            skip -= from;
            let room = &mut piece[from..];
            let (now, later) = bytes.split_at(room.len().min(bytes.len()));
            room[..now.len()].copy_from_slice(now);
            bytes = later;
        }
    }

    /// All is read, or the read has failed; see [`Done::finish`].
    pub fn finish(self, result: io::Result<()>) {
        self.done.finish(result);
    }

    pub(crate) fn into_parts(self) -> (Action, Done) {
        (Action::Read { offset: self.done.offset, buffers: self.buffers }, self.done)
    }
}

/// A write in the hands of its source: where to write, the bytes, and whom to tell. Dropping it fails the
/// write.
///
/// The bytes are lent until the end is told, and do not change meanwhile.
#[derive(Debug)]
pub struct WriteRequest {
    buffers: Buffers,
    done: Done,
}

impl WriteRequest {
    /// The first byte to write, counted from the beginning of the file.
    pub fn offset(&self) -> u64 {
        self.done.offset
    }

    /// How many bytes to write: neighbouring pages, at least one.
    #[allow(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// The bytes, in file order: one piece, or several that are neighbours in the file and not in memory.
    /// Their lengths are multiples of a page.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.buffers.pieces().iter().map(|&piece| {
            // SAFETY: nobody writes a write's buffers until its end is told (`Buffer::new`), which takes
            // `self`, and the slices borrow `self`.
            unsafe { piece.lend() }
        })
    }

    /// All is written, or the write has failed; see [`Done::finish`].
    pub fn finish(self, result: io::Result<()>) {
        self.done.finish(result);
    }

    pub(crate) fn into_parts(self) -> (Action, Done) {
        (Action::Write { offset: self.done.offset, buffers: self.buffers }, self.done)
    }
}

/// Lets the source of `request` do it. A panic in the source fails the request, if it has not ended.
pub(super) fn begin(request: Request) {
    let Request { source, action, tenant: _, token, completion } = request;
    let (operation, offset, bytes) = (action.operation(), action.offset(), action.len());
    let untold = Untold { source: source.clone(), token, completion };
    let done = Done { request: Some(untold), operation, offset, bytes };
    contained(move || match action {
        Action::Read { buffers, .. } => source.read(ReadRequest { buffers, done }),
        Action::Write { buffers, .. } => source.write(WriteRequest { buffers, done }),
        Action::Sync { all_metadata } => source.sync(all_metadata, done),
        Action::Allocate { offset, bytes } => source.allocate(offset, bytes, done),
    });
}
