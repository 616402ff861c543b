//! Where pages stand in the server's queue, which is when they expire. Pure; the caller brings the time.
//!
//! A server with the policy `volatile-ttl` evicts what expires soonest. A page that is to stand at the tail of
//! a part `p` of the queue expires after [`BASE_MS`] and `p` of the *turnover*, the time in which the server
//! evicts as many keys as it has. Pages of all pools are compared with one another, and so are the servers'
//! clocks alone.

use std::time::{Duration, Instant};

use bufpool::tier::{Segments, TierPolicy};
use bufpool_policies::PageId;
use bufpool_policies::tier::{AdaptTier, TierOrder};

use super::server::Server;

/// A day: longer than a page is of use that nobody asks for, so that none expires while there is room.
const BASE_MS: u64 = 24 * 60 * 60 * 1000;
/// What is taken for the turnover before there were evictions. Pages stand in the order of their arrival then.
const TURNOVER_MIN_MS: u64 = 1_000;
/// A longer turnover leaves nothing to decide.
const TURNOVER_MAX_MS: u64 = BASE_MS;
/// The least time over which evictions are counted.
const SAMPLE: Duration = Duration::from_secs(1);
/// Bytes that a server takes for a key beside the page.
const KEY_BYTES: u64 = 200;
/// Pages that are remembered.
const GHOSTS_MIN: u64 = 1 << 10;
const GHOSTS_MAX: u64 = 1 << 18;
/// The same, of a server without a limit, or before it is known.
const GHOSTS_UNKNOWN: u32 = 1 << 16;

/// The places of pages that go down, and of those that are taken.
pub(super) struct Places {
    policy: TierPolicy,
    page_bytes: usize,
    /// What this pool's demotions and reads were worth.
    adapt: Option<(Segments, AdaptTier)>,
    turnover_ms: u64,
    /// When the server was asked last, and what it had evicted then.
    sample: Option<(Instant, u64)>,
}

impl Places {
    pub fn new(policy: TierPolicy, page_bytes: usize) -> Self {
        let adapt = match policy {
            TierPolicy::DemoteAdapt(segments) => Some((segments, AdaptTier::new(GHOSTS_UNKNOWN, segments))),
            _ => None,
        };
        Self { policy, page_bytes, adapt, turnover_ms: TURNOVER_MIN_MS, sample: None }
    }

    /// The server has said what it has.
    pub fn learn(&mut self, server: &Server, now: Instant) {
        if let Some((_, adapt)) = &mut self.adapt
            && server.memory_max > 0
        {
            let pages = server.memory_max / (self.page_bytes as u64 + KEY_BYTES);
            let pages = pages.clamp(GHOSTS_MIN, GHOSTS_MAX) as u32;
            if pages != adapt.capacity() {
                adapt.resize(pages, &mut |_| {});
            }
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

    /// In how many milliseconds a page expires that goes down now.
    pub fn of_demoted(&mut self, page: PageId) -> u64 {
        let Some((segments, adapt)) = &mut self.adapt else { return BASE_MS };
        let [segment, _] = adapt.entry_segments();
        adapt.demote(page);
        BASE_MS + (self.turnover_ms as f64 * tail(*segments, segment)) as u64
    }

    /// In how many milliseconds a page expires that is asked for now; none if it does not stay.
    pub fn of_taken(&mut self, page: PageId) -> Option<u64> {
        if let Some((_, adapt)) = &mut self.adapt {
            adapt.read(page);
        }
        (self.policy != TierPolicy::Demote).then(|| self.longest())
    }

    /// At the end of the queue; none if a page that is there is replaced rather than kept.
    pub fn of_present(&self) -> Option<u64> {
        (self.policy != TierPolicy::Demote).then(|| self.longest())
    }

    pub fn memory_bytes(&self) -> usize {
        self.adapt.as_ref().map_or(0, |(_, adapt)| adapt.metadata_bytes())
    }

    fn longest(&self) -> u64 {
        BASE_MS + if self.adapt.is_some() { self.turnover_ms } else { 0 }
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
    use super::*;

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
        let mut places = Places::new(TierPolicy::DemoteAdapt(Segments::Uniform), 4096);
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
        let mut places = Places::new(TierPolicy::DemoteAdapt(Segments::Uniform), 4096);
        places.turnover_ms = 100_000;
        assert_eq!(places.of_demoted(PageId(0)), BASE_MS + 10_000);
        for page in 1..200 {
            places.of_demoted(PageId(page));
            assert_eq!(places.of_taken(PageId(page)), Some(BASE_MS + 100_000));
        }
        assert_eq!(places.of_demoted(PageId(1000)), BASE_MS + 100_000);
        assert_eq!(places.of_present(), Some(BASE_MS + 100_000));
    }

    #[test]
    fn pages_of_one_place_go_in_the_order_of_their_arrival() {
        let mut places = Places::new(TierPolicy::Demote, 4096);
        places.learn(&server(1000, 0), Instant::now());
        assert_eq!((places.of_demoted(PageId(1)), places.of_taken(PageId(1))), (BASE_MS, None));
        assert_eq!(places.of_present(), None);
        let mut places = Places::new(TierPolicy::Inclusive, 4096);
        assert_eq!((places.of_demoted(PageId(1)), places.of_taken(PageId(1))), (BASE_MS, Some(BASE_MS)));
    }
}
