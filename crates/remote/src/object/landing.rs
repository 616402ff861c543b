//! Pages on their way from chunks into the memory of a read.

use std::ops::Range;
use std::sync::Arc;

use bufpool::source::ReadRequest;
use object_store::path::Path;
use parking_lot::Mutex;

use super::chunk::{ChunkId, ENVELOPE_BYTES, check_envelope};
use super::error::ObjectError;

/// A read whose parts arrive in any order, on several threads. The part that arrives last ends it.
pub(super) struct Landing {
    flying: Mutex<Flying>,
    page_bytes: usize,
    /// The first page that is read.
    first: u64,
}

struct Flying {
    /// None once the read was finished. Parts that arrive later are dropped.
    request: Option<ReadRequest>,
    /// Parts that have not arrived.
    parts: usize,
}

impl Landing {
    /// A read of `parts` parts, at least one.
    pub fn new(request: ReadRequest, parts: usize, page_bytes: usize) -> Self {
        let first = request.offset() / page_bytes as u64;
        Self { flying: Mutex::new(Flying { request: Some(request), parts }), page_bytes, first }
    }

    /// The read has failed, if it has not ended.
    pub fn fail(&self, error: ObjectError) {
        let request = self.flying.lock().request.take();
        if let Some(request) = request {
            request.finish(Err(error.into()));
        }
    }

    /// A part has arrived.
    fn part_is_there(&self) {
        let mut flying = self.flying.lock();
        flying.parts -= 1;
        let request = if flying.parts == 0 { flying.request.take() } else { None };
        drop(flying);
        if let Some(request) = request {
            request.finish(Ok(()));
        }
    }
}

/// Pages that are neighbours in the file and in a chunk in the store.
#[derive(Clone)]
pub(super) struct Part {
    pub id: ChunkId,
    pub pages: Range<u64>,
    /// Place of the first in the chunk.
    pub at: u32,
}

impl Part {
    /// The bytes of the chunk's object.
    pub fn range(&self, page_bytes: u32) -> Range<u64> {
        let framed_bytes = u64::from(page_bytes) + ENVELOPE_BYTES as u64;
        let from = u64::from(self.at) * framed_bytes;
        from..from + (self.pages.end - self.pages.start) * framed_bytes
    }
}

/// A part as it arrives: checks each page, and fills the read's memory with it.
pub(super) struct Arrival {
    landing: Arc<Landing>,
    part: Part,
    object: Path,
    /// Pages that have arrived whole.
    pages: usize,
    envelope: [u8; ENVELOPE_BYTES],
    /// Bytes that have arrived of the next one, its envelope included.
    bytes: usize,
    /// The checksum of the part of its page that has arrived.
    sum: u32,
}

impl Arrival {
    pub fn new(landing: &Arc<Landing>, part: &Part, object: &Path) -> Self {
        let (landing, part, object) = (Arc::clone(landing), part.clone(), object.clone());
        Self { landing, part, object, pages: 0, envelope: [0; ENVELOPE_BYTES], bytes: 0, sum: 0 }
    }

    fn count(&self) -> usize {
        (self.part.pages.end - self.part.pages.start) as usize
    }

    /// Takes the next bytes of the part; those beyond it count for nothing.
    pub fn take(&mut self, mut bytes: &[u8]) -> Result<(), ObjectError> {
        let landing = Arc::clone(&self.landing);
        let mut flying = landing.flying.lock();
        let Some(request) = &mut flying.request else { return Ok(()) };
        while !bytes.is_empty() && self.pages < self.count() {
            let taken = if self.bytes < ENVELOPE_BYTES {
                self.take_envelope(bytes)
            } else {
                self.take_page(bytes, request)
            };
            bytes = &bytes[taken..];
            if self.bytes == ENVELOPE_BYTES + landing.page_bytes {
                self.check_page()?;
            }
        }
        Ok(())
    }

    fn number(&self) -> u64 {
        self.part.pages.start + self.pages as u64
    }

    fn take_envelope(&mut self, bytes: &[u8]) -> usize {
        let rest = &mut self.envelope[self.bytes..];
        let taken = rest.len().min(bytes.len());
        rest[..taken].copy_from_slice(&bytes[..taken]);
        self.bytes += taken;
        self.sum = self.part.id.checksum(self.number());
        taken
    }

    fn take_page(&mut self, bytes: &[u8], request: &mut ReadRequest) -> usize {
        let at = self.bytes - ENVELOPE_BYTES;
        let taken = (self.landing.page_bytes - at).min(bytes.len());
        self.sum = crc32c::crc32c_append(self.sum, &bytes[..taken]);
        let page = (self.number() - self.landing.first) as usize;
        request.fill(page * self.landing.page_bytes + at, &bytes[..taken]);
        self.bytes += taken;
        taken
    }

    fn check_page(&mut self) -> Result<(), ObjectError> {
        let number = self.number();
        check_envelope(&self.envelope, number, self.sum)
            .map_err(|what| ObjectError::corrupt(self.object.clone(), Some(number), what))?;
        self.pages += 1;
        self.bytes = 0;
        Ok(())
    }

    /// No more bytes follow.
    pub fn end(self) -> Result<(), ObjectError> {
        if self.pages < self.count() {
            let framed_bytes = self.landing.page_bytes + ENVELOPE_BYTES;
            let found = self.pages * framed_bytes + self.bytes;
            let what = format!("cut short: {found} bytes, expected {}", self.count() * framed_bytes);
            return Err(ObjectError::corrupt(self.object.clone(), Some(self.number()), what));
        }
        self.landing.part_is_there();
        Ok(())
    }
}
