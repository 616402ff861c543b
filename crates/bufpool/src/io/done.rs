//! The end of a request that its source does itself.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::error::{Cause, IoError, IoOperation};
use super::request::{Action, Completion, Request};
use super::source::Source;

/// A request in the hands of its source, which it keeps open. Finishing it tells the result; one that is
/// dropped unfinished has failed (EIO). So each request ends exactly once.
#[derive(Debug)]
pub(crate) struct Done {
    /// None once the result was told.
    request: Option<Untold>,
    operation: IoOperation,
    offset: u64,
    bytes: u64,
}

/// Whom to tell.
#[derive(Debug)]
struct Untold {
    source: Arc<dyn Source>,
    token: u64,
    completion: Arc<dyn Completion>,
}

impl Done {
    /// What was asked for is done, or has failed. Calls the completion, in which a panic is contained,
    /// because the calling thread may be working for others as well.
    pub(crate) fn finish(mut self, result: Result<(), IoError>) {
        self.tell(result);
    }

    /// What was asked for, failed because of `cause`.
    pub(crate) fn error(&self, cause: Cause) -> IoError {
        IoError::new(self.operation, self.offset, self.bytes, cause)
    }

    fn tell(&mut self, result: Result<(), IoError>) {
        let Some(Untold { source, token, completion }) = self.request.take() else { return };
        // The buffers go back to their owner before the owner hears of it.
        drop(source);
        let _ = catch_unwind(AssertUnwindSafe(move || completion.complete(token, result)));
    }
}

impl Drop for Done {
    fn drop(&mut self) {
        let error = self.error(Cause::Os(libc::EIO));
        self.tell(Err(error));
    }
}

/// Lets the source of `request` do it. A panic in the source fails the request, if it has not ended.
pub(super) fn begin(request: Request) {
    let Request { source, action, tenant: _, token, completion } = request;
    let (operation, offset, bytes) = (action.operation(), action.offset(), action.len());
    let untold = Untold { source: Arc::clone(&source), token, completion };
    let done = Done { request: Some(untold), operation, offset, bytes };
    let _ = catch_unwind(AssertUnwindSafe(move || match action {
        Action::Read { offset, buffers } => source.read(offset, buffers, done),
        Action::Write { offset, buffers } => source.write(offset, buffers, done),
        Action::Sync { all_metadata } => source.sync(all_metadata, done),
        Action::Allocate { offset, bytes } => source.allocate(offset, bytes, done),
    }));
}
