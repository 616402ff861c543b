//! What is promised, and on what grounds; what it costs, and why; how an engine is put on the pool. Nothing
//! here but documentation.

pub mod engines;
pub mod guarantees;
pub mod performance;
pub mod programs;
