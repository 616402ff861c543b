//! The search for a policy program. It changes programs of the library at random and keeps those that miss
//! least.
//!
//! A program's *grade* is the geometric mean, over points (a trace at a size), of its misses divided by those
//! of the best of FIFO, LRU, S3-FIFO and SIEVE at that point. Lower is better. Below 1 the program misses
//! less, in the mean, than whichever of the four is best at each point. Programs are graded without
//! revocation, as by `bufbench sim --revocation off`.
//!
//! The search is a (mu + lambda) evolution: parents are drawn by tournament, each child differs from its
//! parent by a few changes, and the best of parents and children are the next parents. First only constants
//! change, except in programs without constants; then instructions change as well. Children that the verifier
//! refuses are not graded and do not count.
//!
//! *Samples.* For a trace with many accesses, programs are graded on the accesses to a fixed share of its
//! blocks, chosen by a hash of the block numbers, in caches that are smaller by the same factor (Waldspurger
//! and others: "Efficient MRC Construction with SHARDS", FAST 2015). The order of the accesses to these
//! blocks is that of the trace, so the ranking of policies is mostly the same. Since it may differ, the last
//! choice, among the best few, is made on whole traces.
//!
//! All random numbers are drawn from one seed on one thread; the other threads only grade. So the result does
//! not depend on the number of threads.

mod draft;
mod error;
mod evolve;
mod library;
mod mutate;
mod points;

pub use error::SearchError;
pub use evolve::{Found, SearchOptions, search};
pub use library::library;
pub use points::{OPPONENTS, Point, Points};
