//! Pages that are to come in before anybody asks for them, and those that did, by tenant.

use std::collections::VecDeque;
use std::sync::Arc;

use bufpool_policies::planner::Plan;
use bufpool_policies::{ContextId, Directory, FrameId, PageId, TenantId};

use crate::files::shared::FileShared;

/// Frames that may be found dirty or busy before a prefetch gives up.
pub(crate) const BUSY_MAX: u32 = 16;

/// On whose account pages come in ahead.
#[derive(Clone, Copy)]
pub(crate) struct Account {
    pub tenant: TenantId,
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

/// What is to be brought in ahead.
pub(crate) struct Wants {
    /// The planner's, with their files if these are open.
    pub plans: Vec<(Plan, Option<Arc<FileShared>>)>,
    /// The managers', and those of disclosed reads.
    pub wanted: Vec<Wanted>,
}

/// Pages that a tenant's manager or its disclosed reads want, the one needed first coming first.
pub(crate) struct Wanted {
    pub tenant: TenantId,
    pub expectation: Expectation,
    pub pages: Vec<(Arc<FileShared>, u64)>,
}

/// Pages of one tenant that came in ahead, or are on their way, in order. Those that were accessed or have
/// left stay listed until they reach the front.
#[derive(Default)]
pub(crate) struct AheadPages(VecDeque<(FrameId, PageId)>);

impl AheadPages {
    /// Notes one more.
    pub fn push(&mut self, frame: FrameId, page: PageId) {
        self.0.push_back((frame, page));
    }

    /// How many more may come while no more than `limit` are unused. Pages that nobody has accessed during as
    /// many references as there are frames are not counted any more, and demoted.
    pub fn room(&mut self, directory: &mut Directory, limit: usize) -> usize {
        let is_unused = |directory: &Directory, (frame, page)| {
            directory.is_ahead(frame, page) || directory.is_ahead_in_flight(frame, page)
        };
        let frames = u64::from(directory.frames());
        while let Some(&(frame, page)) = self.0.front() {
            if directory.is_ahead(frame, page) && directory.age(frame) > frames {
                directory.demote(frame);
            } else if is_unused(directory, (frame, page)) {
                break;
            }
            self.0.pop_front();
        }
        if self.0.len() >= limit {
            self.0.retain(|entry| is_unused(directory, *entry));
        }
        limit.saturating_sub(self.0.len())
    }
}
