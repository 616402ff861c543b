//! What a hit looks at of its pool. Each file has a copy, beside where its page words and their frames lie, so that one address reaches
//! all of it.

use crate::guard::HoldsSlot;
use crate::hit_filter::HitFilter;

/// One pool's part of a hit; none of it changes but what the filter says.
#[derive(Clone)]
pub(crate) struct HotPool {
    /// Tells pools apart in the lifetime of the process.
    pub serial: u64,
    /// Which pages need not be noted.
    pub filter: HitFilter,
    /// Where threads count their guards and pins.
    pub holds_slot: HoldsSlot,
    /// Hits reach the directory.
    pub notes_hits: bool,
}
