//! From a call to a latched page: hits, guards, optimistic reads, futures, batches.

pub(crate) mod batch;
pub(crate) mod futures;
pub(crate) mod guard;
pub(crate) mod hints;
pub(crate) mod hit;
pub(crate) mod hit_log;
pub(crate) mod optimistic;
pub(crate) mod owned;
