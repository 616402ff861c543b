//! Page checksums as [`PageHooks`] (feature `checksum`): CRC-32C over contents, file tag and page number. So
//! they detect a page that was written to a wrong place as well as one that was torn or changed.

use std::sync::Arc;

use crate::engine::hooks::{PageHooks, PageName};

/// Computes checksums when pages are written and verifies them when pages are read. A page of zeros passes,
/// because it was never written.
pub struct Checksum {
    place: Place,
}

/// Where checksums are kept if not in the pages themselves. A checksum must become durable together with its
/// page.
pub trait ChecksumStore: Send + Sync {
    /// The checksum of a page, if it has one.
    fn load(&self, page: PageName) -> Option<u32>;

    /// Stores the checksum of a page that is about to be written.
    fn store(&self, page: PageName, checksum: u32);
}

enum Place {
    /// At this byte of the page, four bytes, little-endian.
    Page {
        offset: usize,
    },
    Beside(Arc<dyn ChecksumStore>),
}

const BYTES: usize = size_of::<u32>();

impl Checksum {
    /// Checksums in the page, in the four bytes at `offset`, which then belong to the pool. If pages are
    /// shorter than `offset + 4` bytes, writing one poisons its file, and reading one fails unless it is all
    /// zeros.
    pub fn in_page(offset: usize) -> Self {
        Self { place: Place::Page { offset } }
    }

    /// Checksums in `store`, beside the pages.
    pub fn beside(store: Arc<dyn ChecksumStore>) -> Self {
        Self { place: Place::Beside(store) }
    }

    fn compute(&self, page: PageName, bytes: &[u8]) -> u32 {
        let mut checksum = crc32c::crc32c(&page.file_tag.to_le_bytes());
        checksum = crc32c::crc32c_append(checksum, &page.number.to_le_bytes());
        match self.place {
            Place::Beside(_) => crc32c::crc32c_append(checksum, bytes),
            Place::Page { offset } => {
                checksum = crc32c::crc32c_append(checksum, &bytes[..offset]);
                crc32c::crc32c_append(checksum, &bytes[offset + BYTES..])
            }
        }
    }
}

impl PageHooks for Checksum {
    fn on_read(&self, page: PageName, bytes: &mut [u8]) -> Result<(), String> {
        if bytes.iter().all(|&byte| byte == 0) {
            return Ok(());
        }
        let kept = match &self.place {
            Place::Beside(store) => store.load(page).ok_or("the page has no checksum")?,
            Place::Page { offset } => {
                let field = bytes.get(*offset..*offset + BYTES).and_then(|field| field.try_into().ok());
                u32::from_le_bytes(field.ok_or("the page is too short for a checksum")?)
            }
        };
        let computed = self.compute(page, bytes);
        if computed == kept {
            return Ok(());
        }
        Err(format!("CRC-32C is {computed:08x}, expected {kept:08x}"))
    }

    fn before_write(&self, page: PageName, bytes: &mut [u8]) {
        let checksum = self.compute(page, bytes);
        match &self.place {
            Place::Beside(store) => store.store(page, checksum),
            Place::Page { offset } => {
                bytes[*offset..*offset + BYTES].copy_from_slice(&checksum.to_le_bytes());
            }
        }
    }

    fn changes_bytes(&self) -> bool {
        matches!(self.place, Place::Page { .. })
    }
}
