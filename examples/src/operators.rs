//! Query operators that tell the pool which pages they will read.
//!
//! Each makes a plan: an iterator of pages, each with what it is read for. The caller loops over [`Fetches`],
//! which gives the pages in the order of the plan, while the pool fetches the next ones. If the loop ends
//! early, at a LIMIT or an error, dropping the `Fetches` withdraws the rest.
//!
//! | operator | its plan |
//! | --- | --- |
//! | [`index_scan()`] | the heap pages of an index range, in the order of the keys |
//! | [`bitmap_scan()`] | the heap pages of a set of tuples, in the order of the file |
//! | [`index_join()`] | the heap pages of the partners, sorted within each batch of keys |
//! | [`nested_loop()`] | a block of the outer relation, all of the inner one, the next block |
//! | [`merge`](merge::merge) | the pages of sorted runs, in the order in which the merge needs them |

mod bitmap_scan;
mod fetches;
mod index_join;
mod index_scan;
pub mod merge;
mod nested_loop;

pub use self::bitmap_scan::bitmap_scan;
pub use self::fetches::{Fetches, Plan, Visit};
pub use self::index_join::index_join;
pub use self::index_scan::index_scan;
pub use self::nested_loop::{Side, nested_loop};
