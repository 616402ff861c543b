//! One page: its word, the table that has it, latches on it, and readers without one.

pub(crate) mod latch;
pub(crate) mod readers;
pub(crate) mod table;
pub(crate) mod word;
pub(crate) mod words;
