//! How a policy does at many points, each a trace at a size, beside reference policies.

mod phases;
mod ratios;

pub use phases::{PhasePoint, play_phases};
pub use ratios::Ratios;
