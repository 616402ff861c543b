//! What the pool costs. Each measurement compares it with something else in alternating rounds of one
//! process.
//!
//! | module | what it measures | against |
//! | --- | --- | --- |
//! | [`io`] | random misses at some depth, with lists of pages or futures | a bare loop's reads |
//! | [`scan`] | a cold sequential scan with read-ahead | a bare loop's reads of 256 KiB |
//! | [`write_back`] | writes of dirty pages; hits meanwhile | a bare loop's writes; hits alone |
//! | [`hints`] | index scans and joins that disclose their reads; lists that are wrong | reads in batches, single reads, OPT |
//! | [`programs`] | replacements by policy programs | the same policies in Rust, a thread, a process |
//! | [`tiers`] | a tier that does not pay, one that does, and what one costs | the same pool without it |
//! | [`tenants`] | many tenants, in the simulator and in a pool | one tenant, and one manager for all |
//! | [`hits`] | hits of resident pages | an array, other caches, a database |
//! | [`misses`] | misses on a source in memory | two pools, other caches |
//!
//! [`comparison`] has the type of their results.

pub mod comparison;
pub mod hints;
pub mod hits;
pub mod io;
pub mod misses;
pub mod programs;
pub mod scan;
pub mod tenants;
pub mod tiers;
pub mod write_back;
