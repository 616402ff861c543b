//! `bufbench sim --tier`: a lower cache below those that are simulated.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use bufpool_policies::tier::{Segments, TIER_FRAMES_MAX, TierKind, UnknownTier};

use crate::output::{Cell, note};
use crate::simulate::{Counts, Latency, LowerCache};
use crate::trace::Size;

/// The columns of a lower cache.
pub(super) const TIER_COLUMNS: [&str; 5] = ["tier_hits", "demotions", "aborted", "refused", "latency_ms"];

/// The value of `--latency`, which has commas of its own.
#[derive(Clone, Copy, PartialEq, Default, Debug)]
pub struct LatencyFlag(pub Latency);

impl FromStr for LatencyFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        text.parse().map(Self)
    }
}

/// A lower cache, and its size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct TierFlag {
    kind: TierKind,
    size: Size,
}

impl TierFlag {
    /// The lower cache for a trace of `distinct` distinct blocks. Warns on standard error if it has too few
    /// frames for all segments of its kind.
    ///
    /// # Errors
    ///
    /// If it has too many frames.
    pub(super) fn lower_cache(self, distinct: u64, client_per_tenant: bool) -> Result<LowerCache> {
        let Self { kind, size } = self;
        let frames = size.frames(distinct);
        if frames > TIER_FRAMES_MAX {
            bail!("--tier {self}: expected at most {TIER_FRAMES_MAX} frames, found {frames}");
        }
        if let Some(least) = kind.segments().map(Segments::capacity_min).filter(|least| frames < *least) {
            note(format_args!(
                "bufbench: --tier {self}: with {frames} frames, fewer than {least}, only the last segment exists"
            ));
        }
        Ok(LowerCache { kind, frames, client_per_tenant })
    }
}

impl fmt::Display for TierFlag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.size)
    }
}

impl FromStr for TierFlag {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((kind, size)) = text.rsplit_once(':') else {
            return Err(format!("expected KIND:FRAMES with one of the kinds {}", TierKind::NAMES.join(" ")));
        };
        let kind = kind.parse().map_err(|unknown: UnknownTier| unknown.to_string())?;
        Ok(Self { kind, size: size.parse()? })
    }
}

/// The values of [`TIER_COLUMNS`], empty without a lower cache, which has this `latency`. `refused` is always
/// 0: a simulated lower cache takes no time, so it always has room for a demotion.
pub(super) fn tier_cells(latency: Option<Latency>, counts: &Counts) -> [Cell; TIER_COLUMNS.len()] {
    let Some(latency) = latency else { return [const { Cell::Empty }; TIER_COLUMNS.len()] };
    [
        counts.tier_hits.into(),
        counts.demotions.into(),
        counts.aborted.into(),
        0.into(),
        latency.mean_ms(counts).map_or(Cell::Empty, |mean_ms| Cell::real(mean_ms, 6)),
    ]
}
