//! Disclosed reads: what a tenant says it will access, in which order, and what follows from that.
//!
//! A tenant discloses reads in [lists](HintList). The lists of an account tell which of its pages is needed
//! last, and so goes first, and which absent pages to bring in before they are needed (`AccountHints`). The
//! [depth rule](Depth) says how far ahead of its reader a list fetches.
//!
//! [`costs`] and [`cost_benefit`] price frames and prefetches, by the rates and hit ratios that
//! [`estimators`] observes. [`aggressive`] is the published rule by which a stream prefetches in batches.
//!
//! Papers: Patterson et al., "Informed Prefetching and Caching", SOSP '95; Cao, Felten, Karlin, Li, "A Study
//! of Integrated Prefetching and Caching Strategies", SIGMETRICS '95; Tomkins, Patterson, Gibson, "Informed
//! Multi-Process Prefetching and Caching", SIGMETRICS '97.

mod account;
pub mod aggressive;
mod blocks;
pub mod cost_benefit;
pub mod costs;
mod counts;
mod depth;
pub mod estimators;
mod list;
mod open_list;
mod page_map;
mod policy;
mod position_set;

pub(crate) use account::{AccountHints, Offer};
pub use costs::CostModel;
pub use counts::{HintCounts, ListState};
pub use depth::{DEPTH_MIN, Depth};
pub use list::{Consumed, HINTS_MAX, HintList, NEVER};
pub(crate) use open_list::Room;
pub use policy::{AGGRESSIVE_BATCH, HintPolicy};

use crate::ids::TenantId;

/// Names a list of disclosed reads for as long as it is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HintListId {
    pub(crate) tenant: TenantId,
    pub(crate) serial: u64,
}

impl HintListId {
    /// The tenant whose list it is.
    pub fn tenant(self) -> TenantId {
        self.tenant
    }
}
