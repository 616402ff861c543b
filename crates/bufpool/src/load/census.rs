//! Who holds the frames, counted when there is none left.

use std::time::Duration;

use crate::policy::state::PolicyState;
use crate::state::shared::PoolShared;

/// Who holds the frames.
pub(super) struct Census {
    /// Guards and pins on pages of each tenant that has any.
    holds: Vec<(String, u64)>,
    /// Frames on their way in or out.
    in_flight: u32,
    /// Dirty pages of poisoned files.
    poisoned: u32,
    /// Dirty pages whose log records are not durable.
    unlogged: u32,
    /// Somebody other than the caller holds a frame, so waiting may help.
    pub others_may_let_go: bool,
}

impl Census {
    /// Of all frames; costs a look at each under the policy lock.
    pub fn take(pool: &PoolShared) -> Self {
        // The engine's log is asked before the policy lock is taken: it may wait for a thread that misses.
        let durable_lsn = pool.log.durable();
        Self::count(pool, &pool.policy.lock(), durable_lsn)
    }

    fn count(pool: &PoolShared, policy: &PolicyState, durable_lsn: u64) -> Self {
        let mut by_tenant = vec![0_u64; policy.tenants.len()];
        let mut census =
            Self { holds: Vec::new(), in_flight: 0, poisoned: 0, unlogged: 0, others_may_let_go: false };
        // Of the frames that policies fill, those that are neither free nor hold a page are on their way.
        census.in_flight = policy.directory.frames();
        if !pool.write_back.pace().is_leaving() {
            // Nothing is leaving, so no borrowed frame is in flight. Free ones were repaid before the count,
            // or will be at the next look; the others hold pages that cannot be written.
            census.in_flight -= pool.reserve.borrowed() as u32;
        }
        for (frame, entry) in pool.frames.iter() {
            let is_free = policy.free.has(frame);
            let (page, owner) = (entry.page(), policy.directory.owner(frame));
            census.in_flight -= u32::from(is_free || page.is_some() && owner.is_some());
            let (Some(page), Some(owner)) = (page, owner) else { continue };
            let Some(file) = policy.file(page.file()) else { continue };
            let holders = file.table.get(page.number()).map_or(0, |word| word.state().holders());
            by_tenant[owner.index()] += u64::from(holders) + entry.pins();
            census.in_flight += u32::from(entry.is_writing());
            census.poisoned += u32::from(entry.is_dirty() && file.is_poisoned());
            census.unlogged += u32::from(entry.is_dirty() && entry.page_lsn() > durable_lsn);
        }
        let holds: u64 = by_tenant.iter().sum();
        // Without holds and poisoned pages nothing explains why no frame was found, so it is worth looking
        // again.
        census.others_may_let_go = census.in_flight > 0
            || census.unlogged > 0
            || holds > pool.hot.tag.holds_slot().own_holds(pool.hot.serial)
            || holds == 0 && census.poisoned == 0;
        let named = policy.tenants.iter().map(|entry| entry.name.to_string()).zip(by_tenant);
        census.holds = named.filter(|(_, holds)| *holds > 0).collect();
        census
    }

    /// Why no frame can be had.
    pub fn message(&self, others_may_let_go: bool, frame_wait: Duration) -> String {
        let mut message = String::from("every frame that could be taken is in use: ");
        for (tenant, holds) in &self.holds {
            message += &format!("{holds} guards and pins on pages of tenant {tenant}, ");
        }
        message += &format!(
            "{} frames in flight, {} dirty pages of poisoned files, {} dirty pages ahead of the durable log; ",
            self.in_flight, self.poisoned, self.unlogged
        );
        message += &match (others_may_let_go, self.poisoned) {
            (true, _) => format!("none came free within frame_wait_ms = {}", frame_wait.as_millis()),
            (false, 0) => "the calling thread holds them all itself, so waiting would not help".into(),
            (false, _) => "nobody but the calling thread holds any, so waiting would not help: reopen the poisoned files".into(),
        };
        message
    }
}
