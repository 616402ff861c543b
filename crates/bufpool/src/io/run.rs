//! How many neighbouring pages make one transfer.

use super::buffer::Buffers;

/// The most bytes of one transfer of neighbouring pages, unless a page is larger. Local files are read and
/// written fastest in transfers of this size, and a pool's reserve and read-ahead are laid out for it.
pub(crate) const RUN_BYTES: usize = 256 << 10;

/// The most pages of one transfer of any file; the limit of one file is
/// [`Capabilities::run_pages`](super::source::Capabilities::run_pages).
pub(crate) fn run_pages(page_bytes: usize) -> usize {
    (RUN_BYTES / page_bytes).clamp(1, Buffers::PIECES_MAX)
}

/// Runs that are handed to the backend together. The kernel's block layer joins neighbours that a thread
/// submits at once into one request of the device. In many drivers such a request has room for 254 pieces of
/// memory, that is for three runs of 64 pages.
pub(crate) const RUNS_TOGETHER: usize = 3;
