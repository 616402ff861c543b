//! Cost-benefit allocation: which of the frames on offer goes, and whether a prefetch is worth it.
//!
//! Each estimator offers one frame: the queue of unhinted blocks its oldest, each stream the block that it
//! needs last. The rule is defined so; it does not find the cheapest of all blocks, which may be another one
//! because the price of a hinted block jumps at the horizon.
//!
//! Paper: Patterson and others, "Informed Prefetching and Caching", SOSP '95.

use super::aggressive::{NextUse, does_no_harm};

/// A frame on offer, and what giving it up costs, in seconds a second.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Offer {
    /// The frame.
    pub frame: u32,
    /// The greatest of the prices of all estimators that value the block.
    pub cost: f64,
}

/// The cheapest offer; of several the one that comes first.
pub fn cheapest(offers: impl IntoIterator<Item = Offer>) -> Option<Offer> {
    offers.into_iter().reduce(|best, offer| if offer.cost < best.cost { offer } else { best })
}

/// The frame that a prefetch would take.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Supply {
    /// What it costs; 0 for one that is free or of no value.
    pub cost: f64,
    /// When the prefetching stream needs its block; `None` if the stream does not name it.
    pub needed: Option<u64>,
    /// What frames are kept free for: the price of growing the queue of unhinted blocks.
    pub reserve_price: Option<f64>,
}

/// Whether a stream should fetch a block that it needs `depth` accesses ahead, which gains it `gain` seconds
/// a second. A frame with a block that the stream itself needs sooner is not taken; for others the price
/// decides.
pub fn is_worth_fetching(gain: f64, depth: u64, supply: &Supply) -> bool {
    let price = supply.reserve_price.map_or(supply.cost, |reserve| supply.cost.max(reserve));
    gain > price && supply.needed.is_none_or(|needed| does_no_harm(NextUse::Ahead(needed), depth))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_the_cheapest_goes() {
        let offers = [3.0, 1.0, 2.0, 1.0].into_iter().zip(0..).map(|(cost, frame)| Offer { frame, cost });
        assert_eq!(cheapest(offers), Some(Offer { frame: 1, cost: 1.0 }));
        assert_eq!(cheapest([]), None);
    }

    #[test]
    fn a_prefetch_pays_for_its_frame_and_does_no_harm() {
        let supply = |cost, needed, reserve_price| Supply { cost, needed, reserve_price };
        assert!(is_worth_fetching(1.0, 5, &supply(0.5, None, None)));
        assert!(!is_worth_fetching(0.5, 5, &supply(0.5, None, None)));
        assert!(!is_worth_fetching(1.0, 5, &supply(0.5, Some(5), None)));
        assert!(is_worth_fetching(1.0, 5, &supply(0.5, Some(6), None)));
        assert!(!is_worth_fetching(1.0, 5, &supply(0.0, None, Some(2.0))));
        assert!(!is_worth_fetching(0.0, 5, &supply(0.0, None, None)));
    }
}
