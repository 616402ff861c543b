//! How many neighbouring pages are one transfer.

use crate::io::Buffers;

/// Most bytes of one transfer of neighbouring pages, unless a page is larger.
pub(crate) const RUN_BYTES: usize = 256 << 10;

/// Most pages of one transfer.
pub(crate) fn run_pages(page_bytes: usize) -> usize {
    (RUN_BYTES / page_bytes).clamp(1, Buffers::PIECES_MAX)
}
