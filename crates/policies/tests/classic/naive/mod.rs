//! Naive twins of the policies: vectors, linear searches, and no counter that can be computed instead.
//!
//! Frames stand in vectors from cold to hot. Twins share nothing with the policies except the trait.

mod adaptive;
mod clock_pro;
mod clocks;
mod lirs;
mod ordered;
mod queues;
mod w_tinylfu;

pub use adaptive::Arc;
pub use clock_pro::ClockPro;
pub use clocks::{Clock, Fifo2, Sieve};
pub use lirs::Lirs;
pub use ordered::{Lfu, Opt, Ordered};
pub use queues::{S3Fifo, TwoQueue};
pub use w_tinylfu::{LibCacheSimWTinyLfu, WTinyLfu};

use bufpool_policies::FrameId;

/// Removes the first item for which `is` holds.
fn take<T>(items: &mut Vec<T>, is: impl Fn(&T) -> bool) -> Option<T> {
    let at = items.iter().position(is)?;
    Some(items.remove(at))
}

/// Removes the oldest items until there are at most `max`.
fn keep_newest<T>(items: &mut Vec<T>, max: usize) {
    items.drain(..items.len().saturating_sub(max));
}

fn percent(percent: u32, capacity: u32) -> usize {
    (percent * capacity / 100) as usize
}

/// The methods of the trait that twins do not need.
macro_rules! nothing_to_report {
    ($name:literal) => {
        fn name(&self) -> &'static str {
            $name
        }
        fn check_invariants(&self) {}
        fn metadata_bytes(&self) -> usize {
            0
        }
    };
}
use nothing_to_report;

type Busy<'a> = &'a mut dyn FnMut(FrameId) -> bool;
