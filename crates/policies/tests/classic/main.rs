//! Every one-level policy against its naive twin, and all policies against one contract.
//!
//! Method: random accesses, pins, refused victims, two misses at the same time, moves between levels, and
//! changes of capacity. After every step the policy's invariants are checked. A twin is the same policy
//! written with plain vectors; it must name the same victim each time.

mod contract;
mod driver;
mod naive;
mod twins;
