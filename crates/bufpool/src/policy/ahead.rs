//! Pages that came in before anybody asked for them, by tenant.

use std::collections::VecDeque;

use bufpool_policies::{ContextId, Directory, FrameId, PageId, TenantId};

/// Frames that may be found dirty or busy before a prefetch gives up.
pub(crate) const BUSY_MAX: u32 = 16;

/// On whose account pages come in ahead.
#[derive(Clone, Copy)]
pub(crate) struct Account {
    pub tenant: TenantId,
    /// From where the access is expected.
    pub context: ContextId,
}

/// Pages of one tenant that came in ahead, or are on their way, in order. Those that were accessed or have left stay listed until they
/// reach the front.
#[derive(Default)]
pub(crate) struct AheadPages(VecDeque<(FrameId, PageId)>);

impl AheadPages {
    /// Notes one more.
    pub fn push(&mut self, frame: FrameId, page: PageId) {
        self.0.push_back((frame, page));
    }

    /// How many more may come while no more than `limit` are unused. Pages that nobody has accessed during as many references as there are
    /// frames are not counted any more, and demoted.
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
