//! Grades of policies: their misses at many points, each a trace at a size, beside those of reference
//! policies.

mod lists;
mod phases;
mod points;
mod ratios;

pub use lists::{TraceList, read_folder, read_lists};
pub use phases::{PhasePoint, play_phases};
pub use points::{Grade, GradePoint, GradePoints};
pub use ratios::Ratios;
