//! Every one-level policy against its naive twin, and all of them against one contract.
//!
//! Method: random references, pins, refused proposals, misses in flight at the same time, moves between
//! levels and changes of capacity. After every step the policy's own invariants are checked. A twin is the
//! same policy written with plain vectors; it must name the same victim each time.

mod contract;
mod driver;
mod naive;
mod twins;
