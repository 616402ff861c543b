//! The process that a pool belongs to.
//!
//! A child that fork makes of it has a copy of the handles, and nothing that makes them work: no threads, no
//! ring, locks that are held for good by threads that are not there. Files and their locks are the parent's.
//! So the child's handles refuse every call with [`ErrorKind::ForkedChild`] before it takes a lock, and
//! dropping them does nothing.
//!
//! Hits need not ask: page words and frames read as zeros in the child, so that every page is absent there,
//! and an access goes on to where this is asked.

use std::io;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::sys::ForkMark;

/// Says whether the calling process is the one that opened the pool. Clones are of the same pool.
#[derive(Clone)]
pub(crate) struct Owner(Arc<ForkMark>);

impl Owner {
    /// The calling process.
    pub fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(ForkMark::new()?)))
    }

    /// The calling process is the owner. One load.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.0.is_here()
    }

    /// An error in a child that was forked.
    #[inline]
    pub fn check(&self, operation: &'static str) -> Result<()> {
        if self.is_here() { Ok(()) } else { Err(self.error(operation)) }
    }

    /// What a child is told.
    pub fn refusal(&self) -> String {
        format!(
            "the pool belongs to process {}, and a child that was forked from it cannot use it",
            self.0.process()
        )
    }

    #[cold]
    fn error(&self, operation: &'static str) -> Error {
        Error::new(ErrorKind::ForkedChild, operation, self.refusal())
    }
}
