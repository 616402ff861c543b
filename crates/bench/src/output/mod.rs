//! Output: tables, charts, a page with both, files that are written whole or not at all, notes, and progress
//! bars.

pub mod plot;
pub mod progress;
pub mod report;
mod standard;
mod table;
mod whole_file;

pub use standard::{UNPRINTABLE, note};
pub use table::{Cell, Format, Table, unwritable};
pub use whole_file::WholeFile;
