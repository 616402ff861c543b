//! Pages that are to come in before anybody asks for them, and those that did, by tenant.

use std::collections::VecDeque;
use std::sync::Arc;

use bufpool_policies::planner::{Plan, Planner};
use bufpool_policies::{ContextId, DEFAULT_TENANT, Directory, FrameId, PageId, TenantId, Want};

use crate::files::shared::FileShared;

/// Frames that may be found dirty or busy before a prefetch gives up.
pub(crate) const BUSY_MAX: u32 = 16;

/// Whom pages that come in ahead are charged to.
#[derive(Clone, Copy)]
pub(crate) struct AheadCharge {
    pub tenant: TenantId,
    /// The tenant's [`serial`](crate::policy::tenant_entry::TenantEntry::serial): its number may be another's
    /// before the pages come in.
    pub serial: u64,
    /// From where the access is expected.
    pub context: ContextId,
    /// Whether the access is disclosed, or guessed.
    pub expectation: Expectation,
}

/// Why a page is expected to be accessed: what limits the pages that come in for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Expectation {
    /// By its pattern, its manager, or a request without an order: `prefetch_limit_percent`.
    Guessed,
    /// By a list of its reads: `hint_limit_percent`.
    Disclosed,
}

/// What may come in ahead, and who asks for it.
pub(crate) struct Ahead {
    /// None where nothing is read ahead by the pattern of accesses.
    pub planner: Option<Box<dyn Planner>>,
    pub(super) limits: AheadLimits,
    /// Whose access came last.
    pub(super) last_accessor: TenantId,
    /// Pages that managers and disclosed reads want, in their order; at most one answer of each kind and
    /// tenant.
    pub(super) wanted: Vec<(TenantId, Expectation, Vec<Want>)>,
}

/// Limits of what comes in ahead.
#[derive(Clone, Copy)]
pub(crate) struct AheadLimits {
    /// Of the frames that a tenant may own, the most whose pages came in ahead by guess and are unused.
    pub prefetch_percent: u8,
    /// The same for pages of disclosed reads.
    pub hint_percent: u8,
    /// Reads in flight for a list of disclosed reads at most.
    pub hints_in_flight: u32,
}

impl Ahead {
    pub fn new(planner: Option<Box<dyn Planner>>, limits: AheadLimits) -> Self {
        Self { planner, limits, last_accessor: DEFAULT_TENANT, wanted: Vec::new() }
    }

    pub fn metadata_bytes(&self) -> usize {
        self.planner.as_ref().map_or(0, |planner| planner.metadata_bytes())
    }

    pub fn hints_in_flight_max(&self) -> u32 {
        self.limits.hints_in_flight
    }
}

/// What is to be brought in ahead.
pub(crate) struct Wants {
    /// The planner's, with whom they are charged to, and their files if these are open.
    pub plans: Vec<(Plan, AheadCharge, Option<Arc<FileShared>>)>,
    /// The managers', and those of disclosed reads.
    pub wanted: Vec<Wanted>,
}

/// Pages that a tenant's manager or its disclosed reads want, the one needed first coming first.
pub(crate) struct Wanted {
    pub charge: AheadCharge,
    pub pages: Vec<(Arc<FileShared>, u64)>,
}

/// References noted, for each frame of the pool, after which a page that came in ahead and was not accessed
/// yet is not expected any more, even if nothing comes in. Where pages do come in, no more are noted while as
/// many come as there are frames (see [`HitFilter`](crate::hits::filter::HitFilter)), however slow a join
/// scans.
const REFERENCES_PER_FRAME: u64 = 16;

/// Pages of one tenant that came in ahead, or are on their way, in order. Those that were accessed or have
/// left stay listed until they reach the front.
#[derive(Default)]
pub(crate) struct AheadPages(VecDeque<AheadPage>);

#[derive(Clone, Copy)]
struct AheadPage {
    frame: FrameId,
    page: PageId,
    /// The directory's [arrivals](Directory::arrivals) when it was admitted.
    since: u64,
}

impl AheadPage {
    fn has_come(&self, directory: &Directory) -> bool {
        directory.is_ahead(self.frame, self.page)
    }

    fn is_unused(&self, directory: &Directory) -> bool {
        self.has_come(directory) || directory.is_ahead_in_flight(self.frame, self.page)
    }

    /// Whether it has come, and has waited too long to be expected any more.
    fn is_not_expected(&self, directory: &Directory) -> bool {
        let frames = u64::from(directory.frames());
        self.has_come(directory)
            && (directory.arrivals() - self.since > frames
                || directory.age(self.frame) > frames * REFERENCES_PER_FRAME)
    }
}

impl AheadPages {
    /// Notes one more, just admitted.
    pub fn push(&mut self, frame: FrameId, page: PageId, directory: &Directory) {
        self.0.push_back(AheadPage { frame, page, since: directory.arrivals() });
    }

    /// How many more may come while no more than `limit` are unused. Pages that nobody has accessed while
    /// as many came in as there are frames, or for very long ([`REFERENCES_PER_FRAME`]), are not counted any
    /// more, and demoted.
    pub fn room(&mut self, directory: &mut Directory, limit: usize) -> usize {
        while let Some(first) = self.0.front() {
            if first.is_not_expected(directory) {
                directory.demote(first.frame);
            } else if first.is_unused(directory) {
                break;
            }
            self.0.pop_front();
        }
        if self.0.len() >= limit {
            self.0.retain(|page| page.is_unused(directory));
        }
        limit.saturating_sub(self.0.len())
    }
}
