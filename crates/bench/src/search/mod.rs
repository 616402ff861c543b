//! The search for a policy program: changes programs of the library at random and keeps those that miss
//! least.
//!
//! A program's *grade* is the geometric mean, over points (a trace at a size), of its misses divided by those
//! of the best of FIFO, LRU, S3-FIFO and SIEVE at that point. Lower is better; below 1 the program beats at
//! each point, in the mean, the policy that is best there. It is the program itself that is graded: without
//! revocation, as by `bufbench sim --revocation off`.
//!
//! The search is a (mu + lambda) evolution: parents are drawn by tournament, each child differs from its
//! parent by a few changes, and the best of parents and children are the next parents. First only constants
//! change, then instructions as well. Children that the verifier refuses are not graded and do not count.
//!
//! *Samples.* A trace with many accesses is graded by the accesses to a fixed share of its blocks, chosen by
//! a hash of their numbers, at sizes that are reduced by as much (Waldspurger and others: "Efficient MRC
//! Construction with SHARDS", FAST 2015). Reuse among the blocks of the share is what it was, so the order of
//! policies mostly stays. Since it may not, the last choice, among the best few, is made by whole traces.
//!
//! Everything is drawn from one seed on one thread; threads grade only. So the number of threads makes no
//! difference to what is found.

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
