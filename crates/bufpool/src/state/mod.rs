//! What all handles of a pool share, and how threads and futures wait for it.

pub(crate) mod timer;
