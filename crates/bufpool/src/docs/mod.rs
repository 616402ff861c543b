//! What is promised, and on what grounds; what it costs, and why. Nothing here but documentation.

pub mod guarantees;
pub mod performance;
pub mod programs;
