//! What a handle of a user holds.

pub(crate) mod owner;
pub(crate) mod pool;
