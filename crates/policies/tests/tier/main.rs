//! Lower caches against naive ones, and what follows from their rules for clients above them.
//!
//! Goal: every scheme does what its rules say, whatever its driver calls. With demotions two LRU caches act
//! as one.
//!
//! Method: random calls, and random reads of several LRU clients. After each of them results and contents are
//! compared, and invariants are checked.

mod naive;

use std::collections::{HashMap, HashSet};

use bufpool_policies::tier::{Arrival, TierKind, TierOrder, TierSetup, TierSlot};
use bufpool_policies::{PageId, SplitMix64};
use naive::{NaiveTier, Outcome};
use proptest::prelude::*;

const SEED: u64 = 7;

const KINDS: [TierKind; 10] = [
    TierKind::NoneLru,
    TierKind::DemoteLru,
    TierKind::Demote,
    TierKind::Slru { protected_percent: 0 },
    TierKind::Slru { protected_percent: 40 },
    TierKind::Slru { protected_percent: 100 },
    TierKind::AdaptUni,
    TierKind::AdaptExp,
    TierKind::Promote,
    TierKind::Inclusive,
];

/// A tier and its naive twin, which get the same calls. Every result is compared.
struct Twins {
    order: Box<dyn TierOrder>,
    naive: NaiveTier,
    slots: HashMap<PageId, TierSlot>,
    capacity_max: u32,
}

impl Twins {
    fn new(kind: TierKind, frames: u32, client_frames: u32) -> Self {
        Self {
            order: kind.build(TierSetup { frames, client_frames, seed: SEED }),
            naive: NaiveTier::new(kind, frames, client_frames, SEED),
            slots: HashMap::new(),
            capacity_max: frames,
        }
    }

    fn read(&mut self, page: PageId) -> Option<Outcome> {
        let found = self.order.read(page);
        let expected = self.naive.read(page);
        let outcome = found.map(|found| Outcome { was_there: true, is_there: found.stays, ejected: None });
        assert_eq!(outcome, expected, "read of {page:?}");
        if let Some(found) = found {
            assert_eq!(self.slots[&page], found.slot, "the page was elsewhere");
        }
        self.check();
        expected
    }

    fn arrived(&mut self, page: PageId, arrival: Arrival, expected: Outcome) -> Outcome {
        let outcome = match arrival {
            Arrival::Stored { slot, ejected } => {
                if let Some(ejected) = ejected {
                    assert_eq!(self.slots[&ejected.page], ejected.slot, "the ejected page was elsewhere");
                    assert_eq!(slot, ejected.slot, "the slot of the ejected page is used again");
                }
                Outcome { was_there: false, is_there: true, ejected: ejected.map(|ejected| ejected.page) }
            }
            Arrival::Present(slot) => {
                assert_eq!(self.slots[&page], slot, "the page was elsewhere");
                Outcome { was_there: true, is_there: true, ejected: None }
            }
            Arrival::NotKept => {
                Outcome { was_there: false, is_there: self.slots.contains_key(&page), ejected: None }
            }
        };
        assert_eq!(outcome, expected, "{page:?} comes in");
        self.check();
        outcome
    }

    fn fill(&mut self, page: PageId) -> Outcome {
        let (arrival, expected) = (self.order.fill(page), self.naive.fill(page));
        self.arrived(page, arrival, expected)
    }

    fn demote(&mut self, page: PageId) -> Outcome {
        let (arrival, expected) = (self.order.demote(page), self.naive.demote(page));
        self.arrived(page, arrival, expected)
    }

    fn take(&mut self, page: PageId) {
        let slot = self.order.take(page);
        assert_eq!(slot.is_some(), self.naive.take(page), "{page:?} is taken");
        assert_eq!(slot, self.slots.get(&page).copied(), "the page was elsewhere");
        self.check();
    }

    fn forget(&mut self, page: PageId) {
        let slot = self.order.forget(page);
        assert_eq!(slot.is_some(), self.naive.forget(page), "{page:?} is forgotten");
        assert_eq!(slot, self.slots.get(&page).copied(), "the page was elsewhere");
        self.check();
    }

    fn resize(&mut self, capacity: u32) {
        let mut ejected = Vec::new();
        self.order.resize(capacity, &mut |gone| ejected.push(gone));
        self.capacity_max = self.capacity_max.max(capacity);
        assert!(ejected.iter().all(|gone| self.slots[&gone.page] == gone.slot));
        let pages: Vec<PageId> = ejected.iter().map(|gone| gone.page).collect();
        assert_eq!(pages, self.naive.resize(capacity), "to {capacity}");
        assert_eq!(self.order.capacity(), capacity);
        self.check();
    }

    fn hear_age(&mut self, now: u64, age: u64) {
        self.order.hear_age(now, age);
        self.naive.hear_age(now, age);
    }

    fn reset_ratios(&mut self) {
        self.order.reset_ratios();
        self.naive.reset_ratios();
    }

    /// Checks that the contents are those of the twin, in its order, and that pages that stay keep their
    /// slots.
    fn check(&mut self) {
        self.order.check_invariants();
        let mut pages = Vec::new();
        self.order.for_each(&mut |page, slot| pages.push((page, slot)));
        let in_order: Vec<PageId> = pages.iter().map(|(page, _)| *page).collect();
        assert_eq!(in_order, self.naive.pages(), "contents of {}", self.naive.kind);
        assert_eq!(self.order.len() as usize, pages.len());
        let slots: HashMap<PageId, TierSlot> = pages.iter().copied().collect();
        for (page, slot) in &pages {
            assert_eq!(self.order.find(*page), Some(*slot));
            assert!(self.slots.get(page).is_none_or(|before| before == slot), "{page:?} has moved");
            assert!(slot.0 < self.capacity_max, "a slot beyond the tier");
        }
        assert_eq!(slots.values().collect::<HashSet<_>>().len(), slots.len(), "two pages in a slot");
        self.slots = slots;
    }
}

/// A call of a driver.
#[derive(Clone, Debug)]
enum Call {
    Read(u64),
    Fill(u64),
    Demote(u64),
    Take(u64),
    Forget(u64),
    Resize(u32),
    Age(u64),
    Reset,
}

fn call(pages: u64, capacity_max: u32) -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => (0..pages).prop_map(Call::Read),
        4 => (0..pages).prop_map(Call::Fill),
        6 => (0..pages).prop_map(Call::Demote),
        2 => (0..pages).prop_map(Call::Take),
        1 => (0..pages).prop_map(Call::Forget),
        1 => (0..=capacity_max).prop_map(Call::Resize),
        3 => (0..40_u64).prop_map(Call::Age),
        1 => Just(Call::Reset),
    ]
}

fn play(twins: &mut Twins, calls: &[Call]) {
    for (now, call) in calls.iter().enumerate() {
        match *call {
            Call::Read(page) => drop(twins.read(PageId(page))),
            Call::Fill(page) => drop(twins.fill(PageId(page))),
            Call::Demote(page) => drop(twins.demote(PageId(page))),
            Call::Take(page) => twins.take(PageId(page)),
            Call::Forget(page) => twins.forget(PageId(page)),
            Call::Resize(capacity) => twins.resize(capacity),
            Call::Age(age) => twins.hear_age(3 * now as u64, age),
            Call::Reset => twins.reset_ratios(),
        }
    }
}

proptest! {
    #[test]
    fn every_call_has_the_naive_result(
        frames in 0..25_u32,
        client_frames in 0..20_u32,
        calls in prop::collection::vec(call(40, 25), 1..250),
    ) {
        for kind in KINDS {
            play(&mut Twins::new(kind, frames, client_frames), &calls);
        }
    }
}

/// From 1,023 pages on every segment of ADAPT-EXP has room. The capacities lie on both sides of that limit.
#[test]
fn large_exponential_segments_have_the_naive_results() {
    let mut random = SplitMix64::new(SEED);
    let mut twins = Twins::new(TierKind::AdaptExp, 1030, 0);
    for step in 0..6000 {
        let page = PageId(random.below(1500));
        match random.below(20) {
            0..8 => drop(twins.demote(page)),
            8..18 => {
                if twins.read(page).is_none() {
                    twins.fill(page);
                }
            }
            _ => twins.forget(page),
        }
        if step % 1000 == 999 {
            twins.resize([1022, 2100, 1023, 700][step / 1000 % 4]);
        }
    }
}

/// An LRU cache as a vector, most recently used last.
struct Client {
    pages: Vec<PageId>,
    frames: usize,
}

impl Client {
    fn new(frames: usize) -> Self {
        Self { pages: Vec::new(), frames }
    }

    /// Accesses a page. Returns whether it is a hit; a page that misses does not come in.
    fn hit(&mut self, page: PageId) -> bool {
        let Some(at) = self.pages.iter().position(|other| *other == page) else { return false };
        self.pages.remove(at);
        self.pages.push(page);
        true
    }

    fn eject(&mut self) -> Option<PageId> {
        (self.pages.len() == self.frames).then(|| self.pages.remove(0))
    }
}

/// The counts of a run of clients.
#[derive(Default, PartialEq, Eq, Debug)]
struct Counts {
    accesses: u64,
    hits: u64,
    tier_hits: u64,
    source_reads: u64,
    ejections: u64,
    demotions: u64,
    aborted: u64,
}

/// An access of a client, as in the paper's simulator: the client ejects and demotes a page before it reads.
/// Returns whether either cache had the page.
fn access(client: &mut Client, twins: &mut Twins, page: PageId, counts: &mut Counts) -> bool {
    counts.accesses += 1;
    if client.hit(page) {
        counts.hits += 1;
        return true;
    }
    let keeps_alone = twins.order.keeps_alone();
    if !keeps_alone && let Some(gone) = client.eject() {
        counts.ejections += 1;
        if twins.naive.kind.demotes() {
            counts.demotions += 1;
            counts.aborted += u64::from(twins.demote(gone).was_there);
        }
    }
    let found = twins.read(page);
    counts.tier_hits += u64::from(found.is_some());
    counts.source_reads += u64::from(found.is_none());
    let stays = found.unwrap_or_else(|| twins.fill(page)).is_there;
    if !(keeps_alone && stays) {
        counts.ejections += u64::from(client.eject().is_some());
        client.pages.push(page);
    }
    found.is_some()
}

/// Several clients above one tier, with some pages that all read. Counts add up, and under PROMOTE no page is
/// both in a single client and in the tier.
#[test]
fn clients_find_what_the_naive_tier_finds() {
    let mut random = SplitMix64::new(SEED);
    for kind in KINDS {
        for clients in 1..=3 {
            let mut twins = Twins::new(kind, 20, 8 * clients);
            let mut above: Vec<Client> = (0..clients).map(|_| Client::new(8)).collect();
            let mut counts = Counts::default();
            for now in 0..2500 {
                let who = random.below(u64::from(clients));
                let shared = random.below(3) == 0;
                let page = PageId(if shared { random.below(20) } else { 100 * (who + 1) + random.below(25) });
                twins.hear_age(now, random.below(60));
                access(&mut above[who as usize], &mut twins, page, &mut counts);
            }
            assert_eq!(counts.hits + counts.tier_hits + counts.source_reads, counts.accesses, "{kind}");
            assert_eq!(counts.demotions, if kind.demotes() { counts.ejections } else { 0 }, "{kind}");
            // In these two the segment that pages enter has no room.
            let keeps_nothing = [TierKind::Slru { protected_percent: 100 }, TierKind::AdaptExp];
            assert_eq!(counts.tier_hits == 0, keeps_nothing.contains(&kind), "{kind}");
            if kind == TierKind::Promote && clients == 1 {
                assert!(twins.naive.pages().iter().all(|page| !above[0].pages.contains(page)));
            }
        }
    }
}

fn is_hit_of_one_lru(cache: &mut Client, page: PageId) -> bool {
    let is_hit = cache.hit(page);
    if !is_hit {
        cache.eject();
        cache.pages.push(page);
    }
    is_hit
}

/// An LRU client of N frames above DEMOTE with M frames hits, in either cache, exactly when one LRU cache of
/// N + M - 1 frames does, from the first access on. Once the tier is full, the number of pages in both caches
/// never grows.
fn equals_one_lru(client_frames: usize, frames: u32, pages: impl Iterator<Item = u64>) {
    let mut twins = Twins::new(TierKind::Demote, frames, 0);
    let mut client = Client::new(client_frames);
    let mut one = Client::new(client_frames + frames as usize - 1);
    let (mut counts, mut twice) = (Counts::default(), usize::MAX);
    for (at, page) in pages.enumerate() {
        let page = PageId(page);
        let expected = is_hit_of_one_lru(&mut one, page);
        let is_hit = access(&mut client, &mut twins, page, &mut counts);
        assert_eq!(is_hit, expected, "access {at}, {page:?}: {client_frames} + {frames} frames");
        let in_both = twins.naive.pages().iter().filter(|page| client.pages.contains(page)).count();
        if client_frames > 1 && twins.order.len() == frames {
            assert!(in_both <= twice, "access {at}: {in_both} pages are in both caches");
            twice = in_both;
        }
    }
}

#[test]
fn demote_makes_two_lru_caches_one() {
    let mut random = SplitMix64::new(SEED);
    for (client_frames, frames) in [(1, 1), (1, 9), (2, 1), (5, 5), (9, 2), (4, 13)] {
        let sum = client_frames as u64 + u64::from(frames);
        for pages in [sum - 1, sum, 2 * sum] {
            let draws: Vec<u64> = (0..1500).map(|_| random.below(pages.max(1))).collect();
            equals_one_lru(client_frames, frames, draws.into_iter());
            equals_one_lru(client_frames, frames, (0..600).map(|at| at % pages.max(1)));
        }
    }
}

proptest! {
    #[test]
    fn demote_is_one_lru_whatever_is_read(
        client_frames in 1..8_usize,
        frames in 1..8_u32,
        pages in prop::collection::vec(0..20_u64, 1..300),
    ) {
        equals_one_lru(client_frames, frames, pages.into_iter());
    }
}

/// The contents of NONE-LRU depend only on what is read from it: they are the pages that were read last,
/// whatever the client ejects.
#[test]
fn contents_of_none_lru_do_not_depend_on_ejections() {
    let mut random = SplitMix64::new(SEED);
    let draws: Vec<PageId> = (0..800).map(|_| PageId(random.below(30))).collect();
    let mut read: Vec<PageId> = Vec::new();
    let mut twins = Twins::new(TierKind::NoneLru, 10, 4);
    let mut client = Client::new(4);
    for page in draws {
        let is_resident = client.pages.contains(&page);
        access(&mut client, &mut twins, page, &mut Counts::default());
        if !is_resident {
            read.retain(|other| *other != page);
            read.push(page);
        }
        let newest = &read[read.len().saturating_sub(10)..];
        assert_eq!(twins.naive.pages(), newest);
    }
}

/// The client's share of the frames is the first and the greatest value of the probability. Reports that
/// pages live shorter or longer in the client lower or raise it.
#[test]
fn promote_passes_up_less_to_a_client_whose_pages_are_short_lived() {
    use bufpool_policies::tier::PromoteTier;
    let mut tier = PromoteTier::new(10, 30, SEED);
    assert_eq!(tier.probability(), 0.75);
    let mut now = 0;
    let mut hint = |tier: &mut PromoteTier, life_of_client: u64| {
        for _ in 0..40 {
            now += 10;
            tier.demote(PageId(now));
            tier.hear_age(now, life_of_client);
            tier.check_invariants();
        }
    };
    hint(&mut tier, 1);
    let low = tier.probability();
    assert!(low < 0.1, "{low}");
    hint(&mut tier, 100_000);
    assert!(tier.probability() > low);
    for _ in 0..20 {
        hint(&mut tier, 100_000);
    }
    assert_eq!(tier.probability(), 0.75, "no more than the client's share");
}
