//! A tier of tests, whose answers do not get through to the pool: the load that has asked is lost.

use crate::engine::PageName;
use crate::error::Result;
use crate::tier::{
    Attachment, Demoted, Tier, TierBuffer, TierDone, TierPage, TierRange, TierReport, Version,
};

/// See the [module](self).
pub(crate) struct Loses;

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
