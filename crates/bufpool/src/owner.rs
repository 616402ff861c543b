//! The process that a pool belongs to.
//!
//! A child that fork makes of it has a copy of the handles, and nothing that makes them work: no threads, no
//! ring, locks that are held for good by threads that are not there. Files and their locks are the parent's.
//! So the child's handles refuse every call with [`ErrorKind::ForkedChild`] before it takes a lock, and
//! dropping them does nothing.
//!
//! Hits need no check: page words and frames read as zeros in the child, so every page is absent there, and
//! an access takes the slow path, which checks.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
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

    /// An error in a child that was forked, and in code of the engine that runs under the policy lock.
    #[inline]
    pub fn check(&self, operation: &'static str) -> Result<()> {
        if self.may_call() { Ok(()) } else { Err(self.error(operation)) }
    }

    /// The calling thread may use the pool and take its locks.
    #[inline]
    pub fn may_call(&self) -> bool {
        self.is_here() && !self.is_called_back()
    }

    /// The calling thread runs code of the engine that the pool has called under the policy lock.
    #[inline]
    pub fn is_called_back(&self) -> bool {
        CALLED_BY.get() == self.address()
    }

    /// Until the result is dropped, the calling thread counts as running the engine's code under this pool's
    /// policy lock.
    #[inline]
    pub fn enter(&self) -> CalledBack {
        CalledBack { before: CALLED_BY.replace(self.address()), _not_send: PhantomData }
    }

    fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
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
        if self.is_here() {
            let message =
                "a manager or recorder called the pool that it was called by, and would wait for itself";
            return Error::new(ErrorKind::SelfDeadlock, operation, message);
        }
        Error::new(ErrorKind::ForkedChild, operation, self.refusal())
    }
}

thread_local! {
    /// The address of the [`ForkMark`] of the pool that has called the engine's code on this thread; 0 for
    /// none.
    static CALLED_BY: Cell<usize> = const { Cell::new(0) };
}

/// Code of the engine runs on this thread, called by a pool.
pub(crate) struct CalledBack {
    before: usize,
    _not_send: PhantomData<*const ()>,
}

impl Drop for CalledBack {
    #[inline]
    fn drop(&mut self) {
        CALLED_BY.set(self.before);
    }
}
