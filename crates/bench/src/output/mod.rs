//! What users get: tables, charts, a page with both, and bars of progress.

pub mod plot;
pub mod progress;
pub mod report;
mod table;

pub use table::{Cell, Format, Table, unwritable};
