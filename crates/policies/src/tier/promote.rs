//! PROMOTE: on its way up, a page is kept by one of the caches only, and no page is demoted.
//!
//! **Idea.** Each page that is read, from the tier or from the source, is passed up with a probability, and
//! the tier drops its copy; else the tier keeps it, and the reader does not. Pages that are read often get
//! to the client after a few reads. Kept pages are in LRU order.
//!
//! **Paper.** B. S. Gill: "On multi-level exclusive caching: offline optimality and why promotions are better
//! than demotions", FAST '08, section 5.
//!
//! **The probability** follows the paper's rule. The client tells how old the page is that it ejects, its
//! *life*; the tier's own life is the age of its next page to go. Pages that leave either are equally useful
//! where both lives are equal. So with r = the client's life / (both), p grows by p (1 - p) (2 r - 1): a
//! client whose pages live longer gets more of them. It does so at every second hint, as a change takes time
//! to show, and not while the distance of r from 1/2 is shrinking by 5 % a hint or more. It begins with the
//! client's share of all frames, which is also its largest value.
//!
//! **Departures.** Hints are heard a twentieth of the tier's life apart; the paper leaves the interval open.
//! The probability is at least 1/256, so that it can grow again. The tier has one probability for all
//! clients. In the paper each client has its own, as does a client here that keeps a [`Promotion`] itself.
//!
//! **Cost.** O(1). 30 to 34 bytes a page.

use super::order::{Arrival, Ejected, Found, TierOrder, TierSlot, eject_oldest, forget, room};
use crate::PageId;
use crate::ghost::Ghosts;
use crate::random::SplitMix64;

/// The one list.
const ALL: usize = 0;

/// Hints that are heard in a life of the tier, at most.
const HINTS: u64 = 20;
/// If r comes closer to 1/2 by at least this share of its distance from it, the probability is left alone.
const CLOSING: f64 = 0.05;
const PROBABILITY_MIN: f64 = 1.0 / 256.0;

/// The probability that a page is passed up, and how it follows the lives of pages. See the file's head.
pub struct Promotion {
    random: SplitMix64,
    probability: f64,
    probability_max: f64,
    heard_at: u64,
    /// Whether the next hint that is heard changes the probability.
    is_turn: bool,
    /// 2 r - 1 at the last hint that might have changed the probability.
    imbalance: f64,
}

impl Promotion {
    /// Between clients of `client_frames` frames in all and a tier of `tier_frames`. The sequence of random
    /// numbers is given by `seed`.
    pub fn new(client_frames: u32, tier_frames: u32, seed: u64) -> Self {
        let share = share(client_frames, tier_frames);
        Self {
            random: SplitMix64::new(seed),
            probability: share,
            probability_max: share,
            heard_at: 0,
            is_turn: false,
            imbalance: 0.0,
        }
    }

    /// The probability that a page is passed up.
    pub fn probability(&self) -> f64 {
        self.probability
    }

    /// The sizes have changed, and with them the largest probability. If the probability was the largest, it
    /// remains so.
    pub fn resize(&mut self, client_frames: u32, tier_frames: u32) {
        let share = share(client_frames, tier_frames);
        let is_largest = self.probability == self.probability_max;
        self.probability = if is_largest { share } else { self.probability.min(share) };
        self.probability_max = share;
    }

    /// Draws whether a page is passed up.
    pub fn passes_up(&mut self) -> bool {
        self.random.unit() < self.probability
    }

    /// At the time `now`, the client ejects pages that were not used for `client_life`, and the tier's next
    /// page to go was not used for `tier_life`, all in the same unit. Ignored if `tier_life` is 0.
    pub fn hear(&mut self, now: u64, client_life: u64, tier_life: u64) {
        if tier_life == 0 || now.saturating_sub(self.heard_at).saturating_mul(HINTS) < tier_life {
            return;
        }
        self.heard_at = now;
        self.is_turn = !self.is_turn;
        if self.is_turn {
            self.adapt(2.0 * client_life as f64 / (client_life as f64 + tier_life as f64) - 1.0);
        }
    }

    fn adapt(&mut self, imbalance: f64) {
        let before = std::mem::replace(&mut self.imbalance, imbalance);
        let is_closing = before * imbalance > 0.0 && imbalance.abs() <= (1.0 - CLOSING) * before.abs();
        if !is_closing {
            let grown = self.probability + self.probability * (1.0 - self.probability) * imbalance;
            self.probability = grown.clamp(PROBABILITY_MIN, self.probability_max);
        }
    }
}

/// The clients' share of all frames, as the largest probability.
fn share(client_frames: u32, tier_frames: u32) -> f64 {
    let frames = f64::from(tier_frames) + f64::from(client_frames);
    let share = if frames == 0.0 { 0.0 } else { f64::from(client_frames) / frames };
    share.max(PROBABILITY_MIN)
}

/// One list of pages, and the probability that a page is passed up instead. See the file's head.
pub struct PromoteTier {
    capacity: u32,
    client_frames: u32,
    /// Next to go at the head.
    pages: Ghosts<1>,
    /// Per slot: when its page was used last.
    used_at: Vec<u64>,
    promotion: Promotion,
    now: u64,
}

impl PromoteTier {
    /// An empty tier below clients of `client_frames` frames in all. The sequence of random numbers is given
    /// by `seed`.
    pub fn new(capacity: u32, client_frames: u32, seed: u64) -> Self {
        Self {
            capacity,
            client_frames,
            pages: Ghosts::with_capacity(room(capacity)),
            used_at: Vec::with_capacity(room(capacity) as usize),
            promotion: Promotion::new(client_frames, capacity, seed),
            now: 0,
        }
    }

    /// The probability that a page is passed up.
    pub fn probability(&self) -> f64 {
        self.promotion.probability()
    }

    fn use_slot(&mut self, slot: u32) {
        if slot as usize >= self.used_at.len() {
            self.used_at.resize(slot as usize + 1, 0);
        }
        self.used_at[slot as usize] = self.now;
    }

    fn keep(&mut self, page: PageId) -> Arrival {
        if let Some(slot) = self.pages.slot(page) {
            self.pages.shift(slot, ALL);
            self.use_slot(slot);
            return Arrival::Present(TierSlot(slot));
        }
        if self.capacity == 0 {
            return Arrival::NotKept;
        }
        let is_full = self.pages.len(ALL) == self.capacity;
        let ejected = is_full.then(|| eject_oldest(&mut self.pages, ALL)).flatten();
        let slot = self.pages.push(ALL, page);
        self.use_slot(slot);
        Arrival::Stored { slot: TierSlot(slot), ejected }
    }

    /// The time since the next page to go was used; 0 if there is none. It grows as long as the tier is not
    /// full.
    fn life(&self) -> u64 {
        self.pages.oldest(ALL).map_or(0, |(slot, _)| self.now - self.used_at[slot as usize])
    }
}

impl TierOrder for PromoteTier {
    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.pages.len(ALL)
    }

    fn find(&self, page: PageId) -> Option<TierSlot> {
        self.pages.slot(page).map(TierSlot)
    }

    fn read(&mut self, page: PageId) -> Option<Found> {
        let slot = self.pages.slot(page)?;
        let stays = !self.promotion.passes_up();
        if stays {
            self.pages.shift(slot, ALL);
            self.use_slot(slot);
        } else {
            self.pages.take(page);
        }
        Some(Found { slot: TierSlot(slot), stays })
    }

    fn fill(&mut self, page: PageId) -> Arrival {
        if self.promotion.passes_up() { Arrival::NotKept } else { self.keep(page) }
    }

    /// Clients demote nothing; what one demotes nevertheless is kept.
    fn demote(&mut self, page: PageId) -> Arrival {
        self.keep(page)
    }

    fn take(&mut self, page: PageId) -> Option<TierSlot> {
        self.forget(page)
    }

    fn forget(&mut self, page: PageId) -> Option<TierSlot> {
        forget(&mut self.pages, page)
    }

    fn resize(&mut self, capacity: u32, ejected: &mut dyn FnMut(Ejected)) {
        self.capacity = capacity;
        self.promotion.resize(self.client_frames, capacity);
        while self.pages.len(ALL) > capacity {
            eject_oldest(&mut self.pages, ALL).into_iter().for_each(&mut *ejected);
        }
    }

    fn keeps_alone(&self) -> bool {
        true
    }

    fn hear_age(&mut self, now: u64, age: u64) {
        self.now = self.now.max(now);
        self.promotion.hear(self.now, age, self.life());
    }

    fn for_each(&self, visit: &mut dyn FnMut(PageId, TierSlot)) {
        self.pages.iter(ALL).for_each(|(slot, page)| visit(page, TierSlot(slot)));
    }

    fn check_invariants(&self) {
        self.pages.check_invariants();
        assert!(self.pages.len(ALL) <= self.capacity, "there are more pages than there is room for");
        let allowed = PROBABILITY_MIN..=self.promotion.probability_max;
        assert!(allowed.contains(&self.promotion.probability), "the probability is out of its range");
        let times = self.pages.iter(ALL).map(|(slot, _)| self.used_at[slot as usize]);
        assert!(times.is_sorted(), "pages are not in the order of their last use");
    }

    fn metadata_bytes(&self) -> usize {
        self.pages.memory_bytes() + self.used_at.capacity() * size_of::<u64>()
    }
}
