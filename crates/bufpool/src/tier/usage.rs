//! What a pool's tier is used for, as its [`Gauge`](crate::tier::gauge::Gauge) judges it.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bufpool_policies::{PageId, mix64};

/// While the tier is passed by, it is still asked for one page in this many: a sixteenth of the pool's
/// frames, between [`SAMPLED_IN_MIN`] and this. Smaller pools sample more, so that there are enough pages to
/// judge by.
const SAMPLED_IN_MAX: u64 = 1024;
const SAMPLED_IN_MIN: u64 = 64;
const SAMPLED_FRAMES: u64 = 16;
/// The sample changes after this many times as many misses in a row as there are pages to one of it, if none
/// of them was of it. That does not happen by chance where pages are missed alike.
const MISSES_A_SAMPLED: u64 = 16;

/// What a tier is used for. Its pages are those of the pool; a sample of them is asked for and offered in any
/// case.
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

/// The pages that a tier which is passed by is measured with: the same ones as long as they are missed now
/// and then. Nothing else depends on the order of its atomics.
pub(super) struct Sample {
    sampled_in: u64,
    /// What the hashes of the pages leave when they are divided by `sampled_in`.
    rest: AtomicU64,
    /// Misses in a row of pages outside the sample.
    others: AtomicU64,
}

impl Sample {
    /// For a pool with `frames` frames.
    pub fn new(frames: u32) -> Self {
        let sampled_in = (u64::from(frames) / SAMPLED_FRAMES).clamp(SAMPLED_IN_MIN, SAMPLED_IN_MAX);
        Self { sampled_in, rest: AtomicU64::default(), others: AtomicU64::default() }
    }

    /// Whether the page belongs to it.
    pub fn has(&self, page: PageId) -> bool {
        self.rest_of(page) == self.rest.load(Ordering::Relaxed)
    }

    /// As [`has`](Self::has), for a page that is missed. After many misses of others it becomes one that the
    /// page belongs to.
    pub fn has_missed(&self, page: PageId) -> bool {
        let is_due = || {
            let others = self.others.fetch_add(1, Ordering::Relaxed) + 1;
            others >= self.sampled_in * MISSES_A_SAMPLED
        };
        let has = self.has(page) || is_due();
        if has {
            self.rest.store(self.rest_of(page), Ordering::Relaxed);
            self.others.store(0, Ordering::Relaxed);
        }
        has
    }

    fn rest_of(&self, page: PageId) -> u64 {
        mix64(page.0) % self.sampled_in
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sample lasts while its pages are missed, and otherwise gives way to one with a page in use.
    #[test]
    fn a_sample_is_of_pages_in_use() {
        let sample = Sample::new(100);
        let (first, others): (Vec<PageId>, Vec<PageId>) =
            (0..1000).map(PageId).partition(|page| sample.has(*page));
        let lasts = 16 * 64;
        for of_it in &first[..3] {
            let mut missed = others.iter().cycle().take(lasts - 1);
            assert!(missed.all(|page| !sample.has_missed(*page)));
            assert!(sample.has_missed(*of_it));
        }
        let found = others.iter().cycle().position(|page| sample.has_missed(*page));
        let now = others[(lasts - 1) % others.len()];
        assert_eq!(found, Some(lasts - 1));
        assert!(sample.has(now) && !sample.has(first[0]));
    }

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
