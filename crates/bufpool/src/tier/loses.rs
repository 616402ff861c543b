//! A tier for tests, whose answers do not reach the pool: loads that ask it are lost.

use std::sync::Arc;

use crate::engine::PageName;
use crate::error::Result;
use crate::io::sim::SimDevice;
use crate::tier::{
    Attachment, Demoted, Tier, TierAdmit, TierBuffer, TierDone, TierPage, TierPolicy, TierRange, TierReport,
    Version,
};
use crate::{File, FileOptions, Pool, PoolOptions};

/// A pool of 32 frames above such a tier, with a file of `pages`.
pub(crate) fn pool_that_loses(pages: usize) -> (Pool, File) {
    let device = SimDevice::new(1);
    device.put("data", &vec![0; pages * 4096]);
    let options = PoolOptions::new().frames(32).page_bytes(4096).threads_max(8).read_ahead(false);
    let options = options.tier(Arc::new(Loses), TierPolicy::Demote, TierAdmit::All);
    let pool = options.open_on(&device).unwrap();
    let file = pool.open_file("data", FileOptions::new()).unwrap();
    (pool, file)
}

/// See the [module](self).
struct Loses;

impl Tier for Loses {
    fn attach(&self, _: &Attachment) -> Result<()> {
        Ok(())
    }

    fn demote(&self, _: PageName, _: Version, _: TierPage) -> Demoted {
        Demoted::Refused
    }

    fn take(&self, _: PageName, _: Version, _: TierBuffer, done: TierDone) {
        done.lose();
    }

    fn forget(&self, _: TierRange) {}

    fn report(&self) -> TierReport {
        TierReport::default()
    }
}
