//! What users get: tables, charts, a page with both, files as a whole, and bars of progress.

pub mod plot;
pub mod progress;
pub mod report;
mod table;
mod whole_file;

pub use table::{Cell, Format, Table, unwritable};
pub use whole_file::WholeFile;
