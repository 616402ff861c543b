//! What a pool's tier is used for, as its [`Gauge`](crate::tier::gauge::Gauge) judges it.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a tier is used for. Its pages are those of the pool; a fixed sample of them is asked for and offered
/// in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Usage {
    /// All pages are offered and asked for, and the answers waited for.
    All,
    /// It is passed by: only the sample is offered, and asked for beside reads.
    Sample,
    /// It is passed by, and offered all pages: others have use for them.
    OffersAndSample,
    /// It is passed by on trial: all pages are offered, and asked for beside reads.
    Trial,
}

impl Usage {
    /// Reads wait for no answer of the tier.
    pub fn is_passed_by(self) -> bool {
        self != Self::All
    }

    /// Whether a page is asked for, whose place in the sample `is_sampled` tells.
    pub fn asks(self, is_sampled: impl FnOnce() -> bool) -> bool {
        matches!(self, Self::All | Self::Trial) || is_sampled()
    }

    /// Whether a page is offered, whose place in the sample `is_sampled` tells.
    pub fn offers(self, is_sampled: impl FnOnce() -> bool) -> bool {
        self != Self::Sample || is_sampled()
    }
}

/// A [`Usage`] that threads share. Nothing else depends on its order.
pub(super) struct SharedUsage(AtomicU8);

impl SharedUsage {
    const ALL: [Usage; 4] = [Usage::All, Usage::Sample, Usage::OffersAndSample, Usage::Trial];

    pub fn new(usage: Usage) -> Self {
        Self(AtomicU8::new(usage as u8))
    }

    pub fn get(&self) -> Usage {
        Self::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }

    /// Returns what it was.
    pub fn set(&self, usage: Usage) -> Usage {
        Self::ALL[usize::from(self.0.swap(usage as u8, Ordering::Relaxed))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_usage_asks_and_offers_what_it_says() {
        let shared = SharedUsage::new(Usage::All);
        let mut before = Usage::All;
        for (usage, asks, offers, is_passed_by) in [
            (Usage::Sample, false, false, true),
            (Usage::OffersAndSample, false, true, true),
            (Usage::Trial, true, true, true),
            (Usage::All, true, true, false),
        ] {
            assert_eq!(shared.set(usage), before);
            before = usage;
            assert_eq!(shared.get(), usage);
            assert_eq!((usage.asks(|| false), usage.offers(|| false)), (asks, offers), "{usage:?}");
            assert!(usage.asks(|| true) && usage.offers(|| true), "{usage:?}: the sample");
            assert_eq!(usage.is_passed_by(), is_passed_by, "{usage:?}");
        }
    }
}
