//! Disclosed reads: what they bring where they are right, and cost where they are wrong.

mod index_scan;
mod join;
mod wrong;

pub use self::index_scan::index_scans;
pub use self::join::joins;
pub use self::wrong::wrong_lists;
