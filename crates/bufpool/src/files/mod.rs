//! What all handles of a file share.

pub(crate) mod gate;
