//! What all handles of a pool share, and how threads and futures wait for it.

pub(crate) mod aside;
pub(crate) mod counters;
pub(crate) mod departing;
pub(crate) mod dirty;
pub(crate) mod flushes;
pub(crate) mod pace;
pub(crate) mod plans;
pub(crate) mod shared;
pub(crate) mod waiting;
pub(crate) mod write_back;
