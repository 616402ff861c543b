//! The well-known single-level replacement policies, one file each, all in the same order: idea, paper,
//! departures from the paper, what a refused proposal does, cost; then fields, hit, insert, victim, check.
//!
//! They have two uses: for comparison, where one instance owns all frames of a cache, and as policies of one
//! priority level of a tenant's pool, where an instance owns the level's frames. A driver maps pages to
//! frames, and tells the policy what happens in this order:
//!
//! - a resident page is referenced: [`OneLevel::hit`];
//! - a page comes in and a frame is free: [`OneLevel::insert`];
//! - a page comes in and no frame is free: [`OneLevel::victim`], as often as the answer turns out to be
//!   unusable, then [`OneLevel::remove`] for the frame taken, then [`OneLevel::insert`];
//! - a page leaves for another reason or another level: [`OneLevel::remove`]; one that comes from another
//!   level: [`OneLevel::insert`].
//!
//! Costs, with n resident pages. Time is per access; where it is amortised, the worst single call is O(n).
//! Memory is in bytes per frame, ghosts (pages that are remembered though they have left) included.
//!
//! | policy | hit | miss | memory |
//! | --- | --- | --- | --: |
//! | LRU, MRU | O(1), moves a list node | O(1) | 8 |
//! | FIFO | nothing | O(1) | 8 |
//! | CLOCK, SIEVE | sets a byte | O(1) amortised | 9 |
//! | FIFO2 | sets a byte | O(1) amortised | 10 |
//! | LFU | O(1), moves a list node | O(1) | 12 to 44 |
//! | 2Q | O(1), moves a list node if hot | O(1) | 20 to 22 |
//! | ARC | O(1), moves a list node | O(1) | 31 to 35 |
//! | S3-FIFO | increments a byte | O(1) amortised | 29 to 33 |
//! | LIRS | O(1), moves a list node | O(1) | 54 to 61 |
//! | CLOCK-Pro | sets a bit | O(1) amortised | 59 to 63 |
//! | W-TinyLFU | O(1), moves a list node, counts | O(1), O(n) once in five n accesses | 25 to 33 |
//! | OPT | O(log n) | O(log n) | 16 |
//!
//! Arrays are made for the capacity at the start; where they have to grow, they double. Each busy frame that
//! `victim` passes costs it one more step.

mod arc;
mod clock;
mod clock_pro;
mod fifo;
mod fifo2;
pub(crate) mod fifo2_queues;
mod kind;
mod lfu;
mod lirs;
mod local_frames;
mod lru;
mod mru;
mod opt;
mod policy;
mod s3_fifo;
mod segments;
mod sieve;
mod two_queue;
mod w_tinylfu;
mod w_tinylfu_libcachesim;

pub use arc::Arc;
pub use clock::Clock;
pub use clock_pro::{ClockPro, ClockProParameters};
pub use fifo::Fifo;
pub use fifo2::Fifo2;
pub use kind::{PolicyKind, build, build_for_level};
pub use lfu::Lfu;
pub use lirs::{Lirs, LirsParameters};
pub use lru::Lru;
pub use mru::Mru;
pub use opt::Opt;
pub use policy::{Departure, OneLevel};
pub use s3_fifo::{S3Fifo, S3FifoParameters};
pub use sieve::Sieve;
pub use two_queue::{TwoQueue, TwoQueueParameters};
pub use w_tinylfu::{WTinyLfu, WTinyLfuParameters};
pub use w_tinylfu_libcachesim::LibCacheSimWTinyLfu;
