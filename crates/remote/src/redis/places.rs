//! Where pages stand in the server's queue, which is when they expire. Pure; the caller brings the time.
//!
//! A server with the policy `volatile-ttl` evicts what expires soonest. A page that is to stand at the tail
//! of a part `p` of the queue expires after [`BASE_MS`] and `p` of the *turnover*, the time in which the
//! server evicts as many keys as it has. Pages of all pools are compared with one another, by the server's
//! clock alone.

use std::time::{Duration, Instant};

use bufpool::tier::{Life, Segments, TierPolicy};
use bufpool_policies::PageId;
use bufpool_policies::tier::{AdaptTier, Promotion, TierOrder};

use super::server::Server;

/// A day: longer than a page is of use that nobody asks for, so that none expires while there is room.
const BASE_MS: u64 = 24 * 60 * 60 * 1000;
/// What is taken for the turnover before there were evictions. Pages stand in the order of their arrival
/// then.
const TURNOVER_MIN_MS: u64 = 1_000;
/// A longer turnover leaves nothing to decide.
const TURNOVER_MAX_MS: u64 = BASE_MS;
/// The least time over which evictions are counted.
const SAMPLE: Duration = Duration::from_secs(1);
/// Bytes that a server takes for a key beside the page.
const KEY_BYTES: u64 = 200;
/// The fewest and the most pages that are remembered.
const GHOSTS_MIN: u64 = 1 << 10;
const GHOSTS_MAX: u64 = 1 << 18;
/// Pages that are remembered, and that the server is taken to have room for, if it has no limit or before
/// its limit is known.
const GHOSTS_UNKNOWN: u32 = 1 << 16;

/// In how many milliseconds a page expires that is sent to the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Expiry {
    /// If the server does not have it.
    pub new_ms: u64,
    /// If it has; none if the page is replaced then, and stands where a new one does.
    pub present_ms: Option<u64>,
}

/// The places of pages that go down, and of those that are taken.
pub(super) struct Places {
    policy: TierPolicy,
    page_bytes: usize,
    /// What this pool's demotions and reads were worth.
    adapt: Option<(Segments, AdaptTier)>,
    promote: Option<Promote>,
    turnover_ms: u64,
    /// When the server was asked last, and what it had evicted then.
    sample: Option<(Instant, u64)>,
}

impl Places {
    /// For a pool of `frames` frames. What is drawn at random is given by `seed`.
    pub fn new(policy: TierPolicy, page_bytes: usize, frames: u32, seed: u64) -> Self {
        let adapt = match policy {
            TierPolicy::DemoteAdapt(segments) => Some((segments, AdaptTier::new(GHOSTS_UNKNOWN, segments))),
            _ => None,
        };
        let promote = (policy == TierPolicy::Promote).then(|| Promote::new(frames, seed));
        Self { policy, page_bytes, adapt, promote, turnover_ms: TURNOVER_MIN_MS, sample: None }
    }

    /// The server has said what it has.
    pub fn learn(&mut self, server: &Server, now: Instant) {
        if server.memory_max > 0 {
            self.set_room(server.memory_max / (self.page_bytes as u64 + KEY_BYTES));
        }
        let Some((then, evicted)) = self.sample else {
            self.sample = Some((now, server.evicted));
            return;
        };
        let passed = now.saturating_duration_since(then);
        if passed < SAMPLE {
            return;
        }
        self.sample = Some((now, server.evicted));
        // A server that was restarted counts from 0. One that evicts nothing says nothing new.
        if let Some(evictions) = server.evicted.checked_sub(evicted).filter(|evictions| *evictions > 0) {
            let turnover = passed.as_millis() * u128::from(server.keys) / u128::from(evictions);
            let turnover = u64::try_from(turnover).unwrap_or(u64::MAX);
            self.turnover_ms = turnover.clamp(TURNOVER_MIN_MS, TURNOVER_MAX_MS);
        }
    }

    /// The server has room for `pages` pages.
    fn set_room(&mut self, pages: u64) {
        if let Some((_, adapt)) = &mut self.adapt {
            let ghosts = pages.clamp(GHOSTS_MIN, GHOSTS_MAX) as u32;
            if ghosts != adapt.capacity() {
                adapt.resize(ghosts, &mut |_| {});
            }
        }
        if let Some(promote) = &mut self.promote {
            promote.promotion.resize(promote.frames, u32::try_from(pages).unwrap_or(u32::MAX));
        }
    }

    /// How long pages stay in the pool's memory.
    pub fn hear(&mut self, life: Life, now: Instant) {
        // Before there were evictions nobody knows how long they stay at the server.
        let is_full = self.sample.is_some_and(|(_, evicted)| evicted > 0);
        if let Some(promote) = &mut self.promote {
            promote.hear(life, if is_full { self.turnover_ms } else { 0 }, now);
        }
    }

    /// When a page expires that was read from its file; none if it is the pool's alone.
    pub fn of_filled(&mut self) -> Option<Expiry> {
        if let Some((segments, adapt)) = &self.adapt {
            let [_, segment] = adapt.entry_segments();
            return Some(Expiry {
                new_ms: self.at_tail(*segments, segment),
                present_ms: Some(self.longest()),
            });
        }
        let is_passed_up = self.promote.as_mut().is_none_or(|promote| promote.promotion.passes_up());
        (!is_passed_up).then_some(Expiry { new_ms: BASE_MS, present_ms: None })
    }

    /// When a page expires that goes down now.
    pub fn of_demoted(&mut self, page: PageId) -> Expiry {
        let present_ms = (self.policy != TierPolicy::Demote).then(|| self.longest());
        let Some((segments, adapt)) = &mut self.adapt else { return Expiry { new_ms: BASE_MS, present_ms } };
        let (segments, [segment, _]) = (*segments, adapt.entry_segments());
        adapt.demote(page);
        Expiry { new_ms: self.at_tail(segments, segment), present_ms }
    }

    /// In how many milliseconds a page expires at the tail of one of ten segments.
    fn at_tail(&self, segments: Segments, segment: usize) -> u64 {
        BASE_MS + (self.turnover_ms as f64 * tail(segments, segment)) as u64
    }

    /// In how many milliseconds a page expires that is asked for now; none if it does not stay.
    pub fn of_taken(&mut self, page: PageId) -> Option<u64> {
        if let Some((_, adapt)) = &mut self.adapt {
            adapt.read(page);
        }
        let is_passed_up = match &mut self.promote {
            Some(promote) => promote.promotion.passes_up(),
            None => self.policy == TierPolicy::Demote,
        };
        (!is_passed_up).then(|| self.longest())
    }

    /// Whether the pool must not keep a page that stays at the server.
    pub fn keeps_alone(&self) -> bool {
        self.promote.is_some()
    }

    pub fn memory_bytes(&self) -> usize {
        self.adapt.as_ref().map_or(0, |(_, adapt)| adapt.metadata_bytes())
    }

    /// In how many milliseconds a page at the end of the queue expires.
    fn longest(&self) -> u64 {
        BASE_MS + if self.adapt.is_some() { self.turnover_ms } else { 0 }
    }
}

/// Which pages are passed up to this pool.
struct Promote {
    frames: u32,
    promotion: Promotion,
    /// When this pool was heard first, and what its own time was then, in accesses. With them, an age in
    /// accesses is turned into milliseconds.
    heard: Option<(Instant, u64)>,
}

impl Promote {
    fn new(frames: u32, seed: u64) -> Self {
        Self { frames, promotion: Promotion::new(frames, GHOSTS_UNKNOWN, seed), heard: None }
    }

    fn hear(&mut self, life: Life, server_life_ms: u64, now: Instant) {
        let (then, life_then) = *self.heard.get_or_insert((now, life.now));
        let (passed, accesses) = (now.saturating_duration_since(then), life.now.saturating_sub(life_then));
        if accesses == 0 {
            return;
        }
        let age_ms = passed.as_secs_f64() * 1e3 * life.age as f64 / accesses as f64;
        self.promotion.hear(passed.as_millis() as u64, age_ms as u64, server_life_ms);
    }
}

/// Where the tail of one of ten segments is, as a part of the queue.
fn tail(segments: Segments, segment: usize) -> f64 {
    match segments {
        Segments::Uniform => (segment + 1) as f64 / 10.0,
        Segments::Exponential => f64::from((2_u32 << segment) - 1) / 1023.0,
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use super::*;

    fn places_under(policy: TierPolicy) -> Places {
        Places::new(policy, 4096, 1000, 1)
    }

    fn server(keys: u64, evicted: u64) -> Server {
        let mut server = Server::default();
        (server.keys, server.evicted, server.memory_max) = (keys, evicted, 100 << 20);
        server
    }

    #[test]
    fn tails_rise_to_the_end_of_the_queue() {
        for segments in [Segments::Uniform, Segments::Exponential] {
            let tails: Vec<_> = (0..10).map(|segment| tail(segments, segment)).collect();
            assert!(tails.is_sorted() && tails[0] > 0.0 && tails[9] == 1.0, "{tails:?}");
        }
    }

    #[test]
    fn the_turnover_follows_the_evictions() {
        let mut places = places_under(TierPolicy::DemoteAdapt(Segments::Uniform));
        let now = Instant::now();
        places.learn(&server(1000, 50), now);
        assert_eq!(places.turnover_ms, TURNOVER_MIN_MS);
        places.learn(&server(1000, 90), now + SAMPLE / 2);
        assert_eq!(places.turnover_ms, TURNOVER_MIN_MS, "too early");
        places.learn(&server(1000, 250), now + 2 * SAMPLE);
        assert_eq!(places.turnover_ms, 10_000, "100 a second");
        places.learn(&server(1000, 250), now + 4 * SAMPLE);
        places.learn(&server(1000, 3), now + 6 * SAMPLE);
        assert_eq!(places.turnover_ms, 10_000, "none, and a restart");
        places.learn(&server(1000, 2003), now + 8 * SAMPLE);
        assert_eq!(places.turnover_ms, TURNOVER_MIN_MS);
    }

    #[test]
    fn demotions_that_are_asked_for_again_stand_further_back() {
        let mut places = places_under(TierPolicy::DemoteAdapt(Segments::Uniform));
        places.turnover_ms = 100_000;
        let at = |ms| Expiry { new_ms: BASE_MS + ms, present_ms: Some(BASE_MS + 100_000) };
        assert_eq!(places.of_demoted(PageId(0)), at(10_000));
        for page in 1..200 {
            places.of_demoted(PageId(page));
            assert_eq!(places.of_taken(PageId(page)), Some(BASE_MS + 100_000));
        }
        assert_eq!(places.of_demoted(PageId(1000)), at(100_000));
    }

    /// Each page is read twice while its name is remembered, and the pool has demoted none.
    #[test]
    fn pages_read_from_their_files_stand_further_back_where_reads_are_repeated() {
        let mut places = places_under(TierPolicy::DemoteAdapt(Segments::Uniform));
        places.turnover_ms = 100_000;
        let at = |ms| Some(Expiry { new_ms: BASE_MS + ms, present_ms: Some(BASE_MS + 100_000) });
        assert_eq!(places.of_filled(), at(10_000));
        for page in (0..200).flat_map(|page| [page, page]) {
            places.of_taken(PageId(page));
        }
        assert_eq!(places.of_filled(), at(100_000));
    }

    #[test]
    fn pages_of_one_place_go_in_the_order_of_their_arrival() {
        let mut places = places_under(TierPolicy::Demote);
        places.learn(&server(1000, 0), Instant::now());
        assert_eq!(places.of_demoted(PageId(1)), Expiry { new_ms: BASE_MS, present_ms: None });
        assert_eq!((places.of_taken(PageId(1)), places.of_filled()), (None, None));
        let mut places = places_under(TierPolicy::Inclusive);
        assert_eq!(places.of_demoted(PageId(1)), Expiry { new_ms: BASE_MS, present_ms: Some(BASE_MS) });
        assert_eq!((places.of_taken(PageId(1)), places.of_filled()), (Some(BASE_MS), None));
    }

    #[test]
    fn promoted_pages_stay_or_are_passed_up() {
        let mut places = places_under(TierPolicy::Promote);
        places.set_room(3000);
        let kept = Expiry { new_ms: BASE_MS, present_ms: None };
        let filled_up = (0..1000).filter(|_| places.of_filled() != Some(kept)).count();
        let taken_up = (0..1000).filter(|_| places.of_taken(PageId(1)) != Some(BASE_MS)).count();
        for found in [filled_up, taken_up] {
            assert!(found.abs_diff(250) < 50, "a quarter of all frames is the pool's, {found}");
        }
        assert!(places.keeps_alone());
    }

    /// A hundred accesses a second.
    #[test]
    fn a_pool_whose_pages_live_shorter_than_the_servers_gets_fewer() {
        let mut places = places_under(TierPolicy::Promote);
        places.set_room(1000);
        let begun = Instant::now();
        let probability = |places: &Places| places.promote.as_ref().unwrap().promotion.probability();
        let hear = |places: &mut Places, age: u64, times: Range<u64>| {
            for second in times {
                let now = begun + Duration::from_secs(second);
                places.hear(Life { now: 100 * second, age }, now);
            }
        };
        hear(&mut places, 1, 0..100);
        assert_eq!(probability(&places), 0.5, "nobody knows how long pages stay there");
        places.learn(&server(1000, 0), begun);
        places.learn(&server(1000, 1000), begun + Duration::from_secs(10));
        assert_eq!(places.turnover_ms, 10_000);
        hear(&mut places, 100, 100..200);
        let low = probability(&places);
        assert!(low < 0.1, "a second against ten: {low}");
        hear(&mut places, 10_000, 200..400);
        assert!(probability(&places) > 2.0 * low, "a hundred seconds");
    }
}
