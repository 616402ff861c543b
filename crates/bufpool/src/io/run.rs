//! How many neighbouring pages are one transfer.

use super::buffer::Buffers;

/// Most bytes of one transfer of neighbouring pages, unless a page is larger: what local files are read and
/// written fastest in, and what a pool's reserve and its read-ahead are laid out for.
pub(crate) const RUN_BYTES: usize = 256 << 10;

/// Most pages of one transfer of any file; a file's own are
/// [`Capabilities::run_pages`](super::source::Capabilities::run_pages).
pub(crate) fn run_pages(page_bytes: usize) -> usize {
    (RUN_BYTES / page_bytes).clamp(1, Buffers::PIECES_MAX)
}

/// Runs that are handed to the backend together: of what a thread submits at once the kernel's block layer
/// joins neighbours into one request of the device, which in many drivers has room for 254 pieces of memory,
/// and of ours for three runs of 64.
pub(crate) const RUNS_TOGETHER: usize = 3;
