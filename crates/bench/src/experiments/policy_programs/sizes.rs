//! Sizes of the cache: the memory that the paper's machine had left for data.

/// 64, 48, 32 and 16 MB, less the 6 MB of the kernel, in pages of 4 KB.
pub(super) const SIZES: [u32; 4] = [14_848, 10_752, 6_656, 2_560];
