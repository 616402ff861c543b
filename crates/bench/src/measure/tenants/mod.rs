//! What many tenants cost: in the simulator, each with a manager of its own, and in a pool, each with a
//! floor.

mod live;
mod simulated;

pub use live::{LiveCosts, Work, live};
pub use simulated::{Simulated, simulated};
