//! Requests: what is to be done with a file, and who is told the result.

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bufpool_policies::{TenantId, contained};

use super::buffer::Buffers;
use super::error::{Cause, IoError, IoOperation};
use super::source::Source;
use crate::sharded::Shard;

/// What to do with a file.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Fill the buffers from the file, starting at the byte `offset`.
    Read { offset: u64, buffers: Buffers },
    /// Write the buffers to the file, starting at the byte `offset`.
    Write { offset: u64, buffers: Buffers },
    /// Make everything written so far durable, with the metadata needed to read it back (fdatasync),
    /// or with `all_metadata` all of it (fsync).
    Sync { all_metadata: bool },
    /// Really allocate the range, never a hole, and make the file at least that long. New bytes are
    /// zero, present ones stay.
    Allocate { offset: u64, bytes: u64 },
}

impl Action {
    /// The kind, for messages and for fault injection.
    pub(crate) fn operation(&self) -> IoOperation {
        match self {
            Self::Read { .. } => IoOperation::Read,
            Self::Write { .. } => IoOperation::Write,
            Self::Sync { .. } => IoOperation::Sync,
            Self::Allocate { .. } => IoOperation::Allocate,
        }
    }

    /// Where it starts in the file; 0 for a sync.
    pub(crate) fn offset(&self) -> u64 {
        match self {
            Self::Read { offset, .. } | Self::Write { offset, .. } | Self::Allocate { offset, .. } => *offset,
            Self::Sync { .. } => 0,
        }
    }

    /// How many bytes of the file it concerns; 0 for a sync.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::Read { buffers, .. } | Self::Write { buffers, .. } => buffers.len() as u64,
            Self::Allocate { bytes, .. } => *bytes,
            Self::Sync { .. } => 0,
        }
    }

    /// This action, failed because of `cause`.
    pub(crate) fn failed(&self, cause: Cause) -> IoError {
        IoError::new(self.operation(), self.offset(), self.len(), cause)
    }
}

/// A share of a source, which keeps it open for a request; shares are counted in [shards](Shard).
#[derive(Clone, Debug)]
pub(crate) struct SourceRef(Shard<Arc<dyn Source>>);

impl SourceRef {
    /// The first of a shard.
    pub fn new(source: Arc<dyn Source>) -> Self {
        Self(Shard::new(source))
    }

    /// Whether both belong to one shard, and so to one source.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether no other share of its shard is left.
    pub fn is_last(&self) -> bool {
        self.0.is_last()
    }
}

impl Deref for SourceRef {
    type Target = dyn Source;

    #[inline]
    fn deref(&self) -> &Self::Target {
        &**self.0
    }
}

/// One operation in flight, or about to be.
#[derive(Debug)]
pub(crate) struct Request {
    /// Where the file's pages are; kept open until the completion has been called.
    pub(crate) source: SourceRef,
    /// What to do.
    pub(crate) action: Action,
    /// The tenant that a read is made for, which decides whose turn it is when reads have to queue. `None`
    /// for all other requests, which do not queue.
    pub(crate) tenant: Option<TenantId>,
    /// Given back to the completion; the backend does not look at it.
    pub(crate) token: u64,
    /// Told the result.
    pub(crate) completion: Arc<dyn Completion>,
}

impl Request {
    /// Calls the completion. A panic in it is contained, because the thread it would unwind is
    /// working for others as well.
    pub(crate) fn complete(self, result: Result<(), IoError>) {
        let Self { source, action, token, completion, tenant: _ } = self;
        // The buffers are given back before the completion hears of the end.
        drop((source, action));
        contained(move || completion.complete(token, result));
    }
}

/// Receives results.
///
/// Called exactly once per request, on any thread, even one that waits for something else. It must be short
/// and must not panic, wait for I/O, or wait for a latch. It may submit requests.
pub(crate) trait Completion: Send + Sync + Any {
    /// The request with this token is done, and its buffers belong to the callee again.
    fn complete(&self, token: u64, result: Result<(), IoError>);
}

impl fmt::Debug for dyn Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Completion")
    }
}
