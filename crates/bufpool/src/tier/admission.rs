//! Which pages are offered to a tier.

use std::collections::{HashSet, VecDeque};

use bufpool_policies::{PageId, PageWorth};

use crate::tier::TierAdmit;

/// After a pause, this part of a second's bytes may be offered at once.
const BURSTS_A_SECOND: u128 = 10;
const SECOND_NS: u128 = 1_000_000_000;

/// The rule, and what it remembers.
pub(crate) struct Admission {
    admit: TierAdmit,
    evicted: Evicted,
    rate: Option<Rate>,
}

/// Pages that have left memory, oldest first, each once.
struct Evicted {
    pages: HashSet<PageId>,
    order: VecDeque<PageId>,
    most: usize,
}

/// A bucket that fills with time.
struct Rate {
    bytes_per_second: u64,
    /// In bytes times nanoseconds a second, so that nothing is lost by rounding.
    level: u128,
    filled_ns: u64,
}

impl Admission {
    /// For a pool of `frames` frames.
    pub fn new(admit: TierAdmit, bytes_per_second: Option<u64>, frames: u32) -> Self {
        let most = if admit == TierAdmit::SecondEviction { frames as usize } else { 0 };
        let evicted = Evicted { pages: HashSet::new(), order: VecDeque::new(), most };
        let rate = bytes_per_second.map(Rate::new);
        Self { admit, evicted, rate }
    }

    /// Whether to offer a page that leaves memory at `now_ns`.
    pub fn admits(&mut self, page: PageId, worth: PageWorth, page_bytes: usize, now_ns: u64) -> bool {
        let is_admitted = match self.admit {
            _ if worth == PageWorth::Never => false,
            TierAdmit::All => true,
            TierAdmit::SecondEviction => self.evicted.note(page),
            TierAdmit::HitOnce => worth == PageWorth::Again,
        };
        is_admitted && self.rate.as_mut().is_none_or(|rate| rate.takes(page_bytes as u64, now_ns))
    }
}

impl Evicted {
    /// Notes an eviction; whether the page is remembered from an earlier one, which is forgotten then.
    fn note(&mut self, page: PageId) -> bool {
        if self.pages.remove(&page) {
            return true;
        }
        self.pages.insert(page);
        self.order.push_back(page);
        while self.order.len() > self.most {
            let oldest = self.order.pop_front().expect("there are too many");
            self.pages.remove(&oldest);
        }
        false
    }
}

impl Rate {
    fn new(bytes_per_second: u64) -> Self {
        Self { bytes_per_second, level: 0, filled_ns: 0 }
    }

    fn takes(&mut self, bytes: u64, now_ns: u64) -> bool {
        let passed_ns = now_ns.saturating_sub(self.filled_ns);
        self.filled_ns = self.filled_ns.max(now_ns);
        let cost = u128::from(bytes) * SECOND_NS;
        let most = (u128::from(self.bytes_per_second) * SECOND_NS / BURSTS_A_SECOND).max(cost);
        self.level = (self.level + u128::from(passed_ns) * u128::from(self.bytes_per_second)).min(most);
        let has_room = self.level >= cost;
        self.level -= if has_room { cost } else { 0 };
        has_room
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_second_eviction_counts_if_it_is_not_long_after_the_first() {
        let mut admission = Admission::new(TierAdmit::SecondEviction, None, 2);
        let mut offer = |page| admission.admits(PageId(page), PageWorth::Again, 4096, 0);
        assert_eq!([offer(1), offer(2), offer(1), offer(2)], [false, false, true, true]);
        assert_eq!(
            [offer(1), offer(2), offer(3), offer(1)],
            [false, false, false, false],
            "1 is too long ago"
        );
        assert_eq!([offer(3), offer(1)], [true, true]);
    }

    #[test]
    fn a_page_that_was_hit_counts() {
        let mut admission = Admission::new(TierAdmit::HitOnce, None, 2);
        assert!(!admission.admits(PageId(1), PageWorth::Once, 4096, 0));
        assert!(admission.admits(PageId(1), PageWorth::Again, 4096, 0));
    }

    #[test]
    fn a_page_of_a_scan_does_not() {
        let mut admission = Admission::new(TierAdmit::All, None, 2);
        assert!(admission.admits(PageId(1), PageWorth::Once, 4096, 0));
        assert!(!admission.admits(PageId(1), PageWorth::Never, 4096, 0));
    }

    #[test]
    fn a_limit_of_bytes_a_second_is_kept() {
        let mut admission = Admission::new(TierAdmit::All, Some(40_960), 2);
        let mut admitted = 0;
        for step in 0..1000 {
            admitted += u64::from(admission.admits(PageId(step), PageWorth::Once, 4096, step * 10_000_000));
        }
        assert_eq!(admitted, 99, "ten a second, from the end of the first tenth on");
    }
}
