//! A small storage engine on `bufpool`, shared by the examples and the benchmarks.
//!
//! - [`heap`]: an unordered file of fixed-size tuples,
//! - [`btree`]: a B+-tree from fixed-size keys to fixed-size values, for several threads,
//! - [`operators`]: scans, joins and a merge over both, which tell the pool what they will read.
//!
//! All take the tenant that pays for an access as an argument, visit each page through one guard (one access
//! per page visit, however many tuples are read from it), and repeat `#[track_caller]`, so that the pool sees
//! the engine's call sites. Nothing is logged: after a crash only what the last checkpoint wrote is certain,
//! and pages written since then may be there or not.
#![forbid(unsafe_code)]

pub mod btree;
mod error;
pub mod heap;
pub mod operators;
mod space;

pub use error::{Error, Result};

/// The example of the workspace's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
