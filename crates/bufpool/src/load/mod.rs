//! A page comes in: a frame is found, the page is read and verified, and published.

mod census;
pub(crate) mod frame_search;
pub(crate) mod miss;
pub(crate) mod page_load;
pub(crate) mod page_read;
pub(crate) mod prefetch;
