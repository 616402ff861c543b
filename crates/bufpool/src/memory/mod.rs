//! Frames: their bytes, the right to use them, and what is known of each.

pub(crate) mod arena;
pub(crate) mod frame;
pub(crate) mod lease;
pub(crate) mod request;
pub(crate) mod reserve;
