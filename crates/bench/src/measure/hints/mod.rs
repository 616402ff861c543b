//! Disclosed reads: what they gain where the lists are right, and what they cost where the lists are wrong.

mod index_scan;
mod join;
mod many;
mod wrong;

pub use self::index_scan::index_scans;
pub use self::join::joins;
pub use self::many::many_lists;
pub use self::wrong::wrong_lists;
