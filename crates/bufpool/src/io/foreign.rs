//! Sources that the engine made, as the pool holds them.

use std::any::Any;
use std::io;
use std::sync::Arc;

use bufpool_policies::contained;

use super::done::{Done, ReadRequest, WriteRequest};
use super::identity::FileIdentity;
use super::source::{Capabilities, Source};

/// A source of the engine's. Other shares of the engine's source may be anywhere; the shares of this value
/// are the pool's. Answers that must never change are asked for once. A panic in a call that may fail
/// becomes an error; panics in requests are contained where the requests begin.
#[derive(Debug)]
pub(crate) struct Foreign {
    source: Arc<dyn Source>,
    identity: FileIdentity,
    capabilities: Capabilities,
    note: String,
}

impl Foreign {
    /// Panics if the source's `identity`, `capabilities` or `note` does.
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        let (identity, capabilities, note) = (source.identity(), source.capabilities(), source.note());
        Self { source, identity, capabilities, note }
    }

    /// True if `held` holds the same source of the engine's.
    pub(crate) fn is_in(&self, held: &dyn Source) -> bool {
        let held: Option<&Self> = (held as &dyn Any).downcast_ref();
        held.is_some_and(|held| Arc::ptr_eq(&held.source, &self.source))
    }
}

/// What `call` returns. A panic in it is an error of the source.
fn checked<T>(call: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    contained(call).unwrap_or_else(|| Err(io::Error::other("the source panicked")))
}

impl Source for Foreign {
    fn identity(&self) -> FileIdentity {
        self.identity
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn note(&self) -> String {
        contained(|| self.source.note()).unwrap_or_else(|| self.note.clone())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        checked(|| self.source.len_bytes())
    }

    fn set_len_bytes(&self, bytes: u64) -> io::Result<()> {
        checked(|| self.source.set_len_bytes(bytes))
    }

    fn read(&self, request: ReadRequest) {
        self.source.read(request);
    }

    fn write(&self, request: WriteRequest) {
        self.source.write(request);
    }

    fn sync(&self, all_metadata: bool, done: Done) {
        self.source.sync(all_metadata, done);
    }

    fn allocate(&self, offset: u64, bytes: u64, done: Done) {
        self.source.allocate(offset, bytes, done);
    }

    fn drop_cache(&self) -> io::Result<()> {
        checked(|| self.source.drop_cache())
    }
}
