//! Frames of the pool that the clean reserve has for a while.
//!
//! Dirty victims leave as fast as the device takes them only if enough of them are in flight, and each in
//! flight has a frame of the reserve. A reserve of that size would take a large part of a small pool whether
//! anything is written or not. So it borrows: a miss that finds no free frame in the reserve, while writes
//! are in flight, makes the pages that would leave next leave at once, with their frames. From then on the
//! reserve has these frames too, and the pool's policies have as many fewer. That ends by itself: as soon as
//! the reserve has more free frames than its own number, the rest goes back to the pool, where the next
//! misses fill it without evicting anything. So a page leaves earlier than it had to by at most as many
//! misses as frames are borrowed, and no page does where no dirty ones are evicted faster than they are
//! written.
//!
//! A borrowed frame is a *spare* one of the directory like any other of the reserve. How many are borrowed
//! changes under the policy lock, with the directory's state. A miss that finds all frames busy gets what is
//! free of the borrowed ones first, and none are borrowed while it sleeps. When frames are borrowed, no
//! account falls below its floor, and as many stay with the pool as floors and threads have a right to; a
//! floor that is raised later counts from the next time on. Frames whose pages could not be written stay with
//! the reserve until their file is reopened.

use std::sync::atomic::Ordering;

use bufpool_policies::TenantId;

use crate::memory::lease::FrameLease;
use crate::policy::claims::Dirty;
use crate::policy::state::PolicyState;
use crate::state::departing::{Departing, Reason};
use crate::state::shared::PoolShared;

/// Lends frames of the pool to the reserve, and gives them back.
#[derive(Clone, Copy)]
pub(crate) struct Borrowing<'p> {
    pub pool: &'p PoolShared,
}

impl<'p> Borrowing<'p> {
    /// Of this pool.
    #[inline(always)]
    pub fn of(pool: &'p PoolShared) -> Self {
        Self { pool }
    }

    /// Lets up to `most` pages leave ahead of their time, and writes the dirty ones in the background.
    #[cold]
    pub(crate) fn borrow_frames(self, tenant: TenantId, most: usize) {
        if self.pool.reserve.may_borrow() == 0 || self.pool.frame_waiters.load(Ordering::Relaxed) > 0 {
            return;
        }
        let rules = self.pool.claim_rules(Dirty::Written);
        let mut victims = Vec::new();
        {
            let mut policy = self.pool.policy.lock();
            let unpromised =
                self.unpromised_frames(&policy).saturating_sub(self.pool.reserve.borrowed() as u64);
            let most = most.min(self.pool.reserve.may_borrow()).min(unpromised as usize);
            victims.extend((0..most).map_while(|_| policy.evict_next(tenant, &rules)));
            self.pool.reserve.borrow(victims.len());
            // Both counts change before the policy lock is let go of, so that a census finds these frames
            // borrowed and on their way.
            self.pool.write_back.pace().leave(victims.len());
        }
        if victims.is_empty() {
            return;
        }
        let mut departures = Vec::with_capacity(victims.len());
        let mut free = Vec::new();
        for latch in victims {
            let departing = Departing::new(latch);
            if self.pool.frames.get(departing.frame()).is_dirty() {
                departures.push(departing);
            } else {
                let (lease, absence) = departing.finish(self.pool, Reason::Clean);
                drop(absence);
                free.push(lease);
            }
        }
        self.pool.write_back.enqueue_leaving(departures);
        let clean = free.len();
        self.give_back_to_reserve(free);
        self.pool.write_back.left(clean);
    }

    /// Gives back frames that are empty or whose copies are no longer needed. Takes the policy lock if that
    /// leaves a surplus to repay, so it must not be called under that lock.
    pub(crate) fn give_back_to_reserve(self, leases: impl IntoIterator<Item = FrameLease>) {
        self.pool.reserve.give_back(leases);
        if self.pool.reserve.has_surplus() {
            self.repay_frames(self.pool.reserve.frames());
        }
    }

    /// Gives free borrowed frames back to the pool, as long as the reserve keeps `kept` that are free. True
    /// if there were any.
    #[cold]
    pub(crate) fn repay_frames(self, kept: usize) -> bool {
        let mut policy = self.pool.policy.lock();
        let repaid = self.pool.reserve.repay(kept);
        let any = !repaid.is_empty();
        for lease in repaid {
            policy.directory.release(lease.frame());
            policy.free.put(lease);
        }
        drop(policy);
        if any {
            self.pool.frame_may_be_free();
        }
        any
    }

    /// Frames that neither a floor nor a thread has a right to.
    fn unpromised_frames(self, policy: &PolicyState) -> u64 {
        self.pool.floors_limit().saturating_sub(policy.directory.floors_frames())
    }
}
