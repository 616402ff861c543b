//! Victims that leave later than the page that takes their place comes in, and misses that find the reserve
//! empty.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bufpool_policies::TenantId;

use crate::memory::lease::FrameLease;
use crate::state::departing::{Departing, Reason};
use crate::state::pace::{BATCH_PAGES, GATHERED_PAGES};
use crate::state::shared::PoolShared;
use crate::write::borrowing::Borrowing;
use crate::write::page_out::{OPERATION, PageOut};

/// Most waiting victims that a miss writes.
const HELP_PAGES: usize = 8;

/// How long a miss waits for a frame that a write in flight may give back before it writes itself, and a
/// flush for a frame to copy to before it writes pages from where they are. Few writes last longer. In unit
/// tests it is longer than any test lasts, so that a wait in vain shows.
pub(crate) const RESERVE_WAIT: Duration =
    if cfg!(test) { Duration::from_secs(600) } else { Duration::from_millis(5) };

/// Victims in frames of the reserve, and what callers do with them that cannot wait for the background
/// writer.
#[derive(Clone, Copy)]
pub(crate) struct Victims<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Victims<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Writes what misses have left in the reserve, and waits; for a pool whose background writer has ended.
    pub(crate) fn write_departures(self) {
        let departures = self.without_poisoned(self.pool.write_back.take_all());
        let greatest = departures.iter().map(|departure| self.departure_lsn(departure)).max();
        let advanced = self.pool.advance_log(greatest.unwrap_or(0), OPERATION).is_ok();
        let durable = self.pool.log.durable();
        let (mut allowed, held_up): (Vec<_>, Vec<_>) = departures
            .into_iter()
            .partition(|departure| advanced || self.departure_lsn(departure) <= durable);
        self.pool.write_back.put_back(held_up);
        allowed.sort_by_key(Departing::place);
        while !allowed.is_empty() {
            let rest = allowed.split_off(allowed.len().min(BATCH_PAGES));
            self.write_departure_batch(std::mem::replace(&mut allowed, rest));
        }
    }

    /// Those of the departures whose files take writes. The others stay where they are, whatever the log
    /// allows.
    pub(crate) fn without_poisoned(self, departures: Vec<Departing>) -> Vec<Departing> {
        let is_poisoned = |departure: &Departing| departure.word().file().is_poisoned();
        let (lost, rest): (Vec<_>, Vec<_>) = departures.into_iter().partition(is_poisoned);
        if !lost.is_empty() {
            let count = lost.len();
            lost.into_iter().for_each(Departing::restore);
            self.pool.write_back.left(count);
            self.pool.frame_may_be_free();
        }
        rest
    }

    /// The log must be durable up to here before the departure is written.
    pub(crate) fn departure_lsn(self, departure: &Departing) -> u64 {
        self.pool.frames.get(departure.frame()).page_lsn()
    }

    /// A reserve frame for a miss that found none: one that a write in flight gives back soon, or one of a
    /// few waiting victims that the miss writes itself. It waits for others no longer than until `deadline`,
    /// if there is one. A miss of a tenant makes the tenant's next victims leave meanwhile.
    #[cold]
    pub(crate) fn wait_for_reserve(
        self,
        tenant: Option<TenantId>,
        deadline: Option<Instant>,
    ) -> Option<FrameLease> {
        let until = Instant::now() + RESERVE_WAIT;
        let until = deadline.map_or(until, |deadline| deadline.min(until));
        let is_writing = self.pool.write_back.pace().is_writing();
        let lease = if is_writing {
            if let Some(tenant) = tenant {
                Borrowing::of(self.pool).borrow_frames(tenant, GATHERED_PAGES);
            }
            self.pool.reserve.take_until(until)
        } else {
            self.pool.reserve.take()
        };
        if lease.is_some() {
            return lease;
        }
        let durable = self.pool.log.durable();
        let mut some =
            self.pool.write_back.take_some(HELP_PAGES, |departure| self.departure_lsn(departure) <= durable);
        some.sort_by_key(Departing::place);
        let written = self.write_departure_batch(some);
        self.pool.counters.miss_writes.fetch_add(written as u64, Ordering::Relaxed);
        self.pool.reserve.take()
    }

    /// Writes departures sorted by file and number. Returns how many have left.
    fn write_departure_batch(self, batch: Vec<Departing>) -> usize {
        let pages = batch.iter().map(|departure| {
            let word = departure.word();
            (word.file(), word.number(), departure.lease())
        });
        let results = PageOut::of(self.pool).write_pages(&pages.collect::<Vec<_>>());
        let (all, mut written) = (results.len(), 0);
        for (departure, result) in batch.into_iter().zip(results) {
            if result.is_ok() {
                let (lease, absence) = departure.finish(self.pool, Reason::Written);
                // The frame first: a thread that waits for the page may need one.
                Borrowing::of(self.pool).give_back_to_reserve([lease]);
                drop(absence);
                written += 1;
            } else {
                departure.restore();
            }
        }
        self.pool.write_back.left(all);
        self.pool.frame_may_be_free();
        written
    }
}

#[cfg(all(test, not(bufpool_loom)))]
mod tests {
    use super::*;
    use crate::PoolOptions;

    /// All frames of the reserve are in a write that does not end: a miss that may not wait, or not for long,
    /// does not.
    #[test]
    fn a_wait_for_the_reserve_ends_at_the_callers_limit() {
        let pool = PoolOptions::new().frames(64).reserve_high_frames(2).open().unwrap();
        let shared = pool.shared();
        // The writes in flight are the test's own.
        shared.write_back.stop();
        let leases: Vec<_> = std::iter::from_fn(|| shared.reserve.take()).collect();
        shared.write_back.pace().begin(leases.len());
        assert!(Victims::of(shared).wait_for_reserve(None, Some(Instant::now())).is_none());
        assert!(
            Victims::of(shared)
                .wait_for_reserve(None, Some(Instant::now() + Duration::from_millis(1)))
                .is_none()
        );
        // The write ends: a miss without a limit has waited for it.
        let waited = std::thread::scope(|scope| {
            let waiting = scope.spawn(|| Victims::of(shared).wait_for_reserve(None, None));
            while !shared.reserve.is_waited_for() {
                assert!(!waiting.is_finished(), "the write may end soon");
                std::thread::yield_now();
            }
            shared.reserve.give_back(leases);
            waiting.join().unwrap()
        });
        assert!(waited.is_some(), "a frame came back");
        shared.reserve.give_back(waited);
        shared.write_back.end(2);
    }
}
