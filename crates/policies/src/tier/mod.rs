//! The directories of lower caches: which pages they have, and which of these goes next.
//!
//! A lower cache (a *tier*: compressed memory, a local file, another machine) serves misses of one or more
//! caches above it, its clients. A client that ejects a clean page may offer it down (DEMOTE), so that the
//! two caches hold different pages. The schemes are those of T. M. Wong, J. Wilkes: "My cache or yours?
//! Making storage more exclusive", USENIX ATC '02, with the details of its authors' simulator; and PROMOTE of
//! B. S. Gill: "On multi-level exclusive caching", FAST '08.
//!
//! A [`TierOrder`] knows pages by number only. It names a slot for each page; its driver, a simulator or a
//! live tier, keeps the bytes by slot. The driver calls in this order:
//!
//! - a client misses: it ejects a page for it, first; if that is clean, [`TierOrder::demote`];
//! - then it reads the page that it misses: [`TierOrder::read`], or [`TierOrder::take`] if its copy shall be
//!   the only one; if the page is not there it comes from the source, and [`TierOrder::fill`] says whether it
//!   stays on its way up;
//! - a page is written, truncated or discarded: [`TierOrder::forget`].
//!
//! | scheme | READ, and what it fills | DEMOTE | time | bytes a page |
//! | --- | --- | --- | --- | --: |
//! | NONE-LRU, inclusive | last to go | not used | O(1) | 22 to 26 |
//! | DEMOTE-LRU | last to go | last to go | O(1) | 22 to 26 |
//! | DEMOTE | **next to go** | last to go | O(1) | 22 to 26 |
//! | SLRU | probation; protected when hit | the same | O(1) | 22 to 26 |
//! | DEMOTE-ADAPT | where reads have earned it | where demotions have | O(1), at most 10 moves | 66 to 78 |
//! | PROMOTE | kept, or passed up | not used | O(1) | 30 to 34 |
//!
//! Nothing is allocated once a tier is as full as it was before.

mod adapt;
mod kind;
mod lru;
mod order;
mod promote;
mod slru;

pub use adapt::{AdaptTier, Segments};
pub use kind::{TIER_FRAMES_MAX, TierKind, TierSetup, UnknownTier};
pub use lru::LruTier;
pub use order::{Arrival, Ejected, Found, TierOrder, TierSlot};
pub use promote::{PromoteTier, Promotion};
pub use slru::SlruTier;
