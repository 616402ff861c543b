//! A page comes in: a frame is found, the page is read and verified, and published.

pub(crate) mod frame;
pub(crate) mod miss;
pub(crate) mod page_load;
pub(crate) mod prefetch;
pub(crate) mod verify;
