//! What an engine implements for a pool: its log, what is done to pages on their way between memory and file,
//! and who is told the trace of a run.
//!
//! | the engine has | it implements | it passes it to |
//! | --- | --- | --- |
//! | a write-ahead log | [`Log`] | [`PoolOptions::log`](crate::PoolOptions::log) |
//! | checksums, encryption, verification | [`PageHooks`] | [`PoolOptions::hooks`](crate::PoolOptions::hooks) |
//! | a use for traces | [`Recorder`] | [`PoolOptions::recorder`](crate::PoolOptions::recorder) |
//!
//! The feature `checksum` adds `Checksum`, hooks that verify pages by CRC-32C.
//!
//! None of them may call into the pool.

#[cfg(feature = "checksum")]
pub(crate) mod checksum;
pub(crate) mod hooks;
pub(crate) mod log;
pub(crate) mod recorder;

#[cfg(feature = "checksum")]
pub use checksum::{Checksum, ChecksumStore};
pub use hooks::{PageHooks, PageName};
pub use log::Log;
pub use recorder::{Event, Recorder};
