//! Pages that are in memory already: a source that takes no longer than a copy.

use std::io;

use bufpool::source::{Capabilities, FileIdentity, ReadRequest, Source};

use super::{PAGE_BYTES, contents};

/// Pages kept in memory. A page with a higher number has the bytes of one of these after its first word.
const PAGES_IN_MEMORY: usize = 1 << 13;

/// Pages, each of which begins with its [`contents`].
#[derive(Debug)]
pub struct MemoryPages {
    bytes: Vec<u8>,
    pages: u32,
}

impl MemoryPages {
    /// `pages` pages. Allocates 32 MiB, whatever their number.
    pub fn new(pages: u32) -> Self {
        let bytes = (0..PAGES_IN_MEMORY * PAGE_BYTES).map(|at| at as u8).collect();
        Self { bytes, pages }
    }

    /// Copies page `number` to `into`, which has [`PAGE_BYTES`] bytes.
    pub fn copy(&self, number: u32, into: &mut [u8]) {
        let at = number as usize % PAGES_IN_MEMORY * PAGE_BYTES;
        into.copy_from_slice(&self.bytes[at..at + PAGE_BYTES]);
        into[..8].copy_from_slice(&contents(number).to_le_bytes());
    }
}

/// The pages as a source of a pool. Pools may share them.
#[derive(Debug)]
pub struct Shared(pub std::sync::Arc<MemoryPages>);

impl Source for Shared {
    fn identity(&self) -> FileIdentity {
        FileIdentity::from_number(1)
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities::default()
    }

    fn note(&self) -> String {
        format!("{} pages in memory", self.0.pages)
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(u64::from(self.0.pages) * PAGE_BYTES as u64)
    }

    fn read(&self, mut request: ReadRequest) {
        let mut number = (request.offset() / PAGE_BYTES as u64) as u32;
        for piece in request.pieces() {
            for page in piece.chunks_exact_mut(PAGE_BYTES) {
                self.0.copy(number, page);
                number += 1;
            }
        }
        request.finish(Ok(()));
    }
}
