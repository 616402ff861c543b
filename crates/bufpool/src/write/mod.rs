//! A page goes out: written by a miss, a flush, a checkpoint or the background writer.

pub(crate) mod borrowing;
pub(crate) mod cap;
pub(crate) mod checkpoint;
pub(crate) mod closing;
pub(crate) mod drain;
pub(crate) mod evict;
pub(crate) mod flush;
pub(crate) mod flush_thread;
pub(crate) mod page_out;
pub(crate) mod runs;
pub(crate) mod victims;
pub(crate) mod wishes;
pub(crate) mod writer;
