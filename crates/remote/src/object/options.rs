//! How a file on an object store is opened.

use std::sync::Arc;
use std::time::Duration;

use super::error::ObjectError;
use super::manifest::CHUNK_PAGES_MAX;
use super::worker::Worker;

/// How a file on an object store is opened.
///
/// ```
/// let options = bufpool_remote::object::ObjectOptions::new().chunk_pages(256).timeout_ms(5_000);
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    pub(super) page_bytes: u32,
    pub(super) chunk_pages: u32,
    pub(super) requests_in_flight: u32,
    pub(super) timeout: Duration,
    pub(super) grace: Duration,
    pub(super) worker: Option<Arc<Worker>>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        Self {
            page_bytes: 8192,
            chunk_pages: 128,
            requests_in_flight: 64,
            timeout: Duration::from_secs(30),
            grace: Duration::from_secs(3600),
            worker: None,
        }
    }
}

impl ObjectOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Bytes of a page of a file that is made: that of the pool, a power of two from 512 to 1,048,576.
    /// Default 8,192. A file that exists has the size that it was made with.
    pub fn page_bytes(mut self, bytes: u32) -> Self {
        self.page_bytes = bytes;
        self
    }

    /// Most pages of a chunk that is written, from 64 to 256. Default 128.
    pub fn chunk_pages(mut self, pages: u32) -> Self {
        self.chunk_pages = pages;
        self
    }

    /// Most reads in flight, from 1 to 4,096; more of them wait. Default 64. Besides, up to 8 chunks are
    /// uploaded at a time. Written pages take memory for at most 16 chunks, those being uploaded included, or
    /// for one chunk and 1 MiB where that is more.
    pub fn requests_in_flight(mut self, requests: u32) -> Self {
        self.requests_in_flight = requests;
        self
    }

    /// How long an answer of the store is waited for, with all repetitions of the call; at least 1. Default
    /// 30,000. The time does not include the wait for a turn
    /// ([`requests_in_flight`](Self::requests_in_flight), 8 uploads): at a store that does not answer, a
    /// call may wait this long for each turn before its own. Reads of a folder's files take as long as the
    /// operating system takes, as those of local files.
    pub fn timeout_ms(mut self, milliseconds: u32) -> Self {
        self.timeout = Duration::from_millis(milliseconds.into());
        self
    }

    /// How long chunks of a manifest stay after another has taken its place, by the store's clock, for
    /// readers that have it open; see
    /// [`ObjectSource::collect_garbage`](super::ObjectSource::collect_garbage). Default 3,600.
    pub fn grace_secs(mut self, seconds: u32) -> Self {
        self.grace = Duration::from_secs(seconds.into());
        self
    }

    /// The thread that speaks to the store. By default one of the file's own.
    pub fn worker(mut self, worker: Arc<Worker>) -> Self {
        self.worker = Some(worker);
        self
    }

    pub(super) fn check(&self) -> Result<(), ObjectError> {
        let ranges = [
            ("page_bytes", self.page_bytes, 512, 1 << 20),
            ("chunk_pages", self.chunk_pages, 64, CHUNK_PAGES_MAX as u32),
            ("requests_in_flight", self.requests_in_flight, 1, 4_096),
        ];
        for (name, value, least, most) in ranges {
            if !(least..=most).contains(&value) {
                let what = format!("{name} is {value}, expected {least} to {most}");
                return Err(ObjectError::Options { what });
            }
        }
        if !self.page_bytes.is_power_of_two() {
            let what = format!("page_bytes is {}, expected a power of two", self.page_bytes);
            return Err(ObjectError::Options { what });
        }
        if self.timeout.is_zero() {
            return Err(ObjectError::Options { what: "timeout_ms is 0, expected at least 1".into() });
        }
        Ok(())
    }

    pub(super) fn worker_or_new(&self) -> Result<Arc<Worker>, ObjectError> {
        self.worker.clone().map_or_else(
            || Worker::start().map_err(|error| ObjectError::local("starting a thread", None, error)),
            Ok,
        )
    }
}
