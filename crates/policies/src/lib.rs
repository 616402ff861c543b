//! Who gives up a frame, and which page goes.
//!
//! No I/O, no threads, no clock, no unsafe code: every event, every number that grows with time and every
//! random seed is passed in, so the same inputs always give the same decisions.
#![forbid(unsafe_code)]

pub mod classic;
mod ids;
mod list;

pub use ids::{Access, ContextId, FileId, FrameId, PageId, TenantId};
