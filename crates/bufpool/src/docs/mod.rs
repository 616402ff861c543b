//! What is promised, and on what grounds. Nothing here but documentation.

pub mod guarantees;
