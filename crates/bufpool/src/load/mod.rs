//! A page comes in: a frame is found, the page is read and verified, and published.

pub(crate) mod frame;
pub(crate) mod load;
pub(crate) mod miss;
pub(crate) mod prefetch;
pub(crate) mod verify;
