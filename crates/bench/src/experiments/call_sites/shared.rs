//! What the files of this experiment share.

use std::path::Path;

use anyhow::Result;
use bufpool_policies::ManagerKind;
use indicatif::ProgressBar;

use crate::experiments::finding::{Finding, Verdict};
use crate::simulate::{self, Policy, Setup};
use crate::trace::{Item, Reader, Trace};

pub(super) const ID: &str = "call-sites";

pub(super) const AUTO: Policy = Policy::Managed(ManagerKind::Auto);

pub(super) fn finding(
    what: &str,
    published: &str,
    ours: String,
    tolerance: &str,
    verdict: Verdict,
) -> Finding {
    Finding {
        id: ID,
        what: what.to_owned(),
        published: published.to_owned(),
        ours,
        tolerance: tolerance.to_owned(),
        verdict,
    }
}

pub(super) fn misses(trace: &Trace, policy: Policy, frames: u32, seed: u64) -> Result<u64> {
    let setup = Setup { revocation: true, seed, ..Setup::frames(frames) };
    Ok(simulate::misses(trace, policy, &setup, None)?)
}

pub(super) fn items(path: &Path) -> Result<Vec<Item>> {
    let bar = ProgressBar::hidden();
    let mut reader = Reader::open(path, None, &bar)?;
    let mut items = Vec::new();
    while let Some(item) = reader.next_item()? {
        items.push(item);
    }
    Ok(items)
}
