//! A source that computes its pages and answers after a fixed time.

use std::io;
use std::time::Duration;

use anyhow::Result;
use bufpool::source::{Capabilities, FileIdentity, ReadRequest, Source};

use super::delay::Delay;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;

/// Pages that begin with their number, a little-endian 64-bit number, and are zeros otherwise. Read-only.
#[derive(Debug)]
pub struct Numbered {
    pages: u64,
    /// `None` if reads end at once.
    delay: Option<Delay>,
}

impl Numbered {
    /// `pages` pages; a read takes at least `latency`. Starts a thread unless `latency` is 0.
    ///
    /// # Errors
    /// If there is no thread to be had for the delay.
    pub fn new(pages: u64, latency: Duration) -> Result<Self> {
        let delay = if latency.is_zero() { None } else { Some(Delay::new(latency)?) };
        Ok(Self { pages, delay })
    }
}

impl Source for Numbered {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(1)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn note(&self) -> String {
        format!("{} numbered pages", self.pages)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(self.pages * PAGE_BYTES as u64)
    }

    fn read(&self, request: ReadRequest) {
        match &self.delay {
            Some(delay) => delay.run(move || fill(request)),
            None => fill(request),
        }
    }
}

fn fill(mut request: ReadRequest) {
    let first = request.offset() / PAGE_BYTES as u64;
    let mut page = [0; PAGE_BYTES];
    for at in 0..request.len() / PAGE_BYTES {
        page[..8].copy_from_slice(&(first + at as u64).to_le_bytes());
        request.fill(at * PAGE_BYTES, &page);
    }
    request.finish(Ok(()));
}
