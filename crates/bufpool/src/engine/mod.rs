//! What an engine implements or hands over: hooks, a log, a recorder.

#[cfg(feature = "checksum")]
pub(crate) mod checksum;
pub(crate) mod hooks;
pub(crate) mod log;
pub(crate) mod recorder;
