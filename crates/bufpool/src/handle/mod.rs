//! What a handle of a user holds.

pub(crate) mod file;
pub(crate) mod keeper;
pub(crate) mod pool;
pub(crate) mod tenant;
