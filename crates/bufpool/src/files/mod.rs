//! What all handles of a file share.

pub(crate) mod bytes;
pub(crate) mod gate;
pub(crate) mod open;
pub(crate) mod shared;
pub(crate) mod unsynced;
pub(crate) mod word;
