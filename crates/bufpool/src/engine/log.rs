//! The write-ahead rule: no page reaches its file before the log records that describe its changes are
//! durable.
//!
//! The engine gives the pool a [`Log`]. For each frame the pool keeps two log sequence numbers. `page_lsn`
//! is the greatest that the engine has passed to [`WriteGuard::set_lsn`](crate::WriteGuard::set_lsn); the
//! page is not written before the log is durable up to it. `rec_lsn` is the end of the log when the guard
//! under which the clean page was first changed was granted; no record of a change that is not in the file
//! lies before it. So an engine must append the record of a change *while it holds the guard*.
//!
//! | call-back | called from |
//! | --- | --- |
//! | [`Log::end`] | every grant of a [`WriteGuard`](crate::WriteGuard), and every copy for writing |
//! | [`Log::durable`] | misses, the background writer, explicit flushes |
//! | [`Log::advance`] | the background writer and explicit flushes; never a miss |
//!
//! If a call-back fails or panics, the pages that depend on it stay dirty and in memory, and the flush
//! reports [`ErrorKind::Log`].

use std::sync::atomic::{AtomicU64, Ordering};

use bufpool_policies::contained;

use crate::error::{Error, ErrorKind, Result};

/// The engine's log, as far as the pool needs to know it.
///
/// Call-backs are called by any thread, also by one that holds latches, but never under the pool's locks.
/// They must not call into the pool.
pub trait Log: Send + Sync {
    /// The log sequence number that the next record will have, or any number above that of the last record.
    /// Must be cheap: it is called for each write guard.
    fn end(&self) -> u64;

    /// The number up to which all records are durable. Must be cheap, and never falls.
    fn durable(&self) -> u64;

    /// Makes the records up to `lsn` durable, and waits until they are.
    ///
    /// # Errors
    ///
    /// Whatever the engine likes; the message is repeated in the pool's error.
    fn advance(&self, lsn: u64) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;
}

/// The log of a pool, or none.
pub(crate) struct LogLink {
    log: Option<Box<dyn Log>>,
    /// The greatest durable number seen.
    durable: AtomicU64,
}

impl LogLink {
    pub fn new(log: Option<Box<dyn Log>>) -> Self {
        let durable = if log.is_some() { 0 } else { u64::MAX };
        Self { log, durable: AtomicU64::new(durable) }
    }

    #[inline]
    pub fn is_some(&self) -> bool {
        self.log.is_some()
    }

    /// The end of the log now. 0 without a log, and if the call-back panics: too low a number is safe.
    pub fn end(&self) -> u64 {
        let end = |log: &dyn Log| contained(|| log.end()).unwrap_or(0);
        self.log.as_deref().map_or(0, end)
    }

    /// The number up to which the log is durable. Without a log everything is.
    pub fn durable(&self) -> u64 {
        if let Some(log) = &self.log
            && let Some(now) = contained(|| log.durable())
        {
            self.durable.fetch_max(now, Ordering::Relaxed);
        }
        self.durable.load(Ordering::Relaxed)
    }

    /// Makes the log durable up to `lsn`, if it is not yet. Waits for the engine.
    pub fn advance(&self, lsn: u64, operation: &'static str) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        if self.durable() >= lsn {
            return Ok(());
        }
        // The error is formatted within `contained`, because that is the engine's code, too, and may panic.
        let advance = || log.advance(lsn).map_err(|error| error.to_string());
        let message = match contained(advance) {
            Some(Ok(())) if self.durable() >= lsn => return Ok(()),
            Some(Ok(())) => {
                format!("it says it was advanced to {lsn} and is durable only up to {}", self.durable())
            }
            Some(Err(error)) => format!("it could not be advanced to {lsn}: {error}"),
            None => format!("it panicked when it was to be advanced to {lsn}"),
        };
        Err(Error::new(
            ErrorKind::Log,
            operation,
            format!("the engine's log: {message}; its pages stay dirty"),
        ))
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use std::fmt;

    use super::*;

    /// An error that cannot be shown.
    #[derive(Debug)]
    struct Unspeakable;

    impl fmt::Display for Unspeakable {
        fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
            panic!("there are no words for it")
        }
    }

    impl std::error::Error for Unspeakable {}

    struct Stuck;

    impl Log for Stuck {
        fn end(&self) -> u64 {
            9
        }

        fn durable(&self) -> u64 {
            3
        }

        fn advance(&self, _: u64) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
            Err(Box::new(Unspeakable))
        }
    }

    #[test]
    fn an_error_that_panics_when_shown_is_an_error_of_the_log() {
        let link = LogLink::new(Some(Box::new(Stuck)));
        let error = link.advance(5, "write pages back").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Log);
        assert!(error.to_string().contains("panicked when it was to be advanced to 5"), "{error}");
        assert!(link.advance(3, "write pages back").is_ok());
    }
}
