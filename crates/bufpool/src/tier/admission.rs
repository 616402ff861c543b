//! Which pages are offered to a tier.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};

use bufpool_policies::{PageId, PageWorth};

use crate::tier::TierAdmit;

/// A second's bytes divided by this may be offered at once after a pause.
const BURSTS_A_SECOND: u128 = 10;
const SECOND_NS: u128 = 1_000_000_000;

/// The rule of admission, with the pages that it remembers.
pub(crate) struct Admission {
    admit: TierAdmit,
    evicted: Evicted,
    rate: Option<Rate>,
}

/// Pages that have left memory, and those of them that came back before as many others had left. If pages
/// leave in LRU order, a page that comes back leaves again only after that many others. So coming back is
/// noted at once, and the next eviction only looks it up.
struct Evicted {
    gone: Lately,
    back: Lately,
}

/// A set of the pages that were added last.
struct Lately {
    /// Each page with the serial number that it was added by.
    pages: HashMap<PageId, u64>,
    /// Pages with their serial numbers, oldest first. Pages that were taken out still count here until they
    /// reach the front.
    order: VecDeque<(PageId, u64)>,
    added: u64,
    most: usize,
}

/// A token bucket.
struct Rate {
    bytes_per_second: u64,
    /// In bytes times [`SECOND_NS`], so that nothing is lost by rounding.
    level: u128,
    filled_ns: u64,
}

impl Admission {
    /// For a pool of `frames` frames.
    pub fn new(admit: TierAdmit, bytes_per_second: Option<u64>, frames: u32) -> Self {
        let most = frames as usize;
        let evicted = Evicted { gone: Lately::new(most), back: Lately::new(most) };
        let rate = bytes_per_second.map(Rate::new);
        Self { admit, evicted, rate }
    }

    /// Whether [`comes_in`](Self::comes_in) needs to be called.
    pub fn watches_misses(&self) -> bool {
        self.admit == TierAdmit::SecondEviction
    }

    /// Whether all pages are offered, except for a limit of bytes a second.
    pub fn is_of_all(&self) -> bool {
        self.admit == TierAdmit::All
    }

    /// Notes that the page comes into memory.
    pub fn comes_in(&mut self, page: PageId) {
        if self.evicted.gone.take(page) {
            self.evicted.back.add(page);
        }
    }

    /// Notes a page that leaves memory. Whether to offer it, if the limit [leaves room](Self::spend_rate).
    pub fn admit(&mut self, page: PageId, worth: PageWorth) -> bool {
        match self.admit {
            _ if worth == PageWorth::Never => false,
            TierAdmit::All => true,
            TierAdmit::SecondEviction => self.evicted.note(page),
            TierAdmit::HitOnce => worth == PageWorth::Again,
        }
    }

    /// Whether to offer a page that has been read from its file; its bytes are spent then.
    pub fn admit_read(&mut self, page: PageId, page_bytes: usize, now_ns: u64) -> bool {
        let is_admitted = match self.admit {
            TierAdmit::All => true,
            TierAdmit::SecondEviction => self.evicted.note_read(page),
            TierAdmit::HitOnce => false,
        };
        is_admitted && self.spend_rate(page_bytes, now_ns)
    }

    /// Whether the limit of bytes a second leaves room for a page, which is spent then.
    pub fn spend_rate(&mut self, page_bytes: usize, now_ns: u64) -> bool {
        self.rate.as_mut().is_none_or(|rate| rate.takes(page_bytes as u64, now_ns))
    }
}

impl Evicted {
    /// Notes an eviction. Returns whether the page had come back soon after an earlier one.
    fn note(&mut self, page: PageId) -> bool {
        let is_second = self.back.take(page);
        self.gone.add(page);
        is_second
    }

    /// Whether a page that comes from its file has come back soon.
    fn note_read(&mut self, page: PageId) -> bool {
        self.back.take(page)
    }
}

impl Lately {
    fn new(most: usize) -> Self {
        Self { pages: HashMap::new(), order: VecDeque::new(), added: 0, most }
    }

    fn add(&mut self, page: PageId) {
        if let Entry::Vacant(place) = self.pages.entry(page) {
            self.added += 1;
            place.insert(self.added);
            self.order.push_back((page, self.added));
        }
        while self.order.len() > self.most {
            let (oldest, serial) = self.order.pop_front().expect("there are too many");
            // The page may have been taken out, and added again under another number.
            if self.pages.get(&oldest) == Some(&serial) {
                self.pages.remove(&oldest);
            }
        }
    }

    fn take(&mut self, page: PageId) -> bool {
        self.pages.remove(&page).is_some()
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
    fn a_second_eviction_counts_if_the_page_came_back_soon() {
        let mut admission = Admission::new(TierAdmit::SecondEviction, None, 2);
        let mut leaves = |page| admission.admit(PageId(page), PageWorth::Again);
        assert_eq!([leaves(1), leaves(2), leaves(3)], [false; 3]);
        [1, 2, 9].into_iter().for_each(|page| admission.comes_in(PageId(page)));
        let mut leaves = |page| admission.admit(PageId(page), PageWorth::Again);
        assert_eq!([leaves(4), leaves(5), leaves(6)], [false; 3]);
        assert_eq!([leaves(1), leaves(2), leaves(9)], [false, true, false], "two others had left after 1");
        assert!(!leaves(2), "it begins anew");
    }

    #[test]
    fn a_page_that_was_taken_and_comes_again_is_remembered_anew() {
        let mut lately = Lately::new(2);
        lately.add(PageId(1));
        assert!(lately.take(PageId(1)) && !lately.take(PageId(1)));
        lately.add(PageId(1));
        lately.add(PageId(2));
        assert!(lately.take(PageId(1)), "one other page came after it");
        lately.add(PageId(3));
        lately.add(PageId(4));
        assert!(!lately.take(PageId(2)) && lately.take(PageId(3)) && lately.take(PageId(4)));
    }

    #[test]
    fn a_page_that_was_hit_counts() {
        let mut admission = Admission::new(TierAdmit::HitOnce, None, 2);
        assert!(!admission.admit(PageId(1), PageWorth::Once));
        assert!(admission.admit(PageId(1), PageWorth::Again));
    }

    #[test]
    fn a_page_of_a_scan_does_not() {
        let mut admission = Admission::new(TierAdmit::All, None, 2);
        assert!(admission.admit(PageId(1), PageWorth::Once));
        assert!(!admission.admit(PageId(1), PageWorth::Never));
    }

    #[test]
    fn a_limit_of_bytes_a_second_is_kept() {
        let mut admission = Admission::new(TierAdmit::All, Some(40_960), 2);
        let mut admitted = 0;
        for step in 0..1000 {
            admitted += u64::from(admission.spend_rate(4096, step * 10_000_000));
        }
        assert_eq!(admitted, 99, "ten a second, from the end of the first tenth on");
    }
}
