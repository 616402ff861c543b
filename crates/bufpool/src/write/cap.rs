//! A tenant that has more frames than its cap allows gives them up.

use bufpool_policies::TenantId;

use crate::error::Result;
use crate::state::shared::PoolShared;
use crate::write::evict::{Emptying, Eviction};
use crate::write::wishes::Wishes;

/// Evicts what a tenant has above its cap.
pub(crate) fn shrink_to_cap(pool: &PoolShared, tenant: TenantId, how: Emptying) -> Result<()> {
    loop {
        let rules = pool.claim_rules(how.dirty());
        let (victim, wishes) = {
            let mut policy = pool.policy.lock();
            pool.drain_logs(&mut policy);
            (policy.shrink(tenant, &rules), policy.take_wishes())
        };
        let Some(victim) = victim else { return Ok(()) };
        let has_left = Eviction::of(pool).release(victim, tenant, how);
        Wishes::of(pool).carry_out(wishes, how);
        // A page that cannot be written yet stays for now.
        if !has_left? {
            return Ok(());
        }
    }
}
