//! Lists of disclosed reads: opened, closed, and counted by the contexts that they were opened in.

use std::sync::atomic::{AtomicBool, Ordering};

use bufpool_policies::hints::{HintCounts, HintListId};
use bufpool_policies::{ContextId, HintOptions, TenantId};
use parking_lot::Mutex;

use crate::engine::recorder::Event;
use crate::policy::state::PolicyState;

/// A list whose handle is dropped.
pub(crate) struct DroppedList {
    pub id: HintListId,
    pub context: ContextId,
    pub depth_max: u32,
    /// How many of its hints the handle has consumed or skipped; none if the handle did not move it.
    pub position: Option<u64>,
}

/// Lists whose handles were dropped by code that the pool had called under the policy lock. No more than are
/// open.
#[derive(Default)]
pub(crate) struct DroppedLists {
    /// Set after a list is noted, and read by threads that hold the policy lock, as the one that sets it.
    is_any: AtomicBool,
    lists: Mutex<Vec<DroppedList>>,
}

impl DroppedLists {
    /// Notes one more.
    pub fn push(&self, list: DroppedList) {
        self.lists.lock().push(list);
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Closes the lists noted, for a caller that holds the policy lock.
    #[inline]
    pub fn close(&self, policy: &mut PolicyState) {
        if self.is_any.load(Ordering::Relaxed) {
            self.is_any.store(false, Ordering::Relaxed);
            let lists = std::mem::take(&mut *self.lists.lock());
            lists.into_iter().for_each(|list| policy.close_dropped(&list));
        }
    }
}

impl PolicyState {
    /// Opens a list of reads that a tenant discloses from a context.
    pub fn open_hints(&mut self, tenant: TenantId, context: ContextId, options: HintOptions) -> HintListId {
        let list = self.directory.open_hints(tenant, options).expect("the tenant is open");
        self.tenants[tenant.index()].hint_sites.at(context).open.push(list);
        list
    }

    /// Closes a list with its handle, unless it was closed with its tenant.
    pub fn close_dropped(&mut self, list: &DroppedList) {
        if self.directory.hint_counts(list.id).is_none() {
            return;
        }
        if let Some(position) = list.position {
            self.directory.hints_consumed(list.id, position);
        }
        self.close_hints(list.id, list.context, list.depth_max);
    }

    /// Closes a list that was opened from the context, and notes what became of it. Returns that.
    pub fn close_hints(&mut self, list: HintListId, context: ContextId, depth_max: u32) -> HintCounts {
        self.record(Event::HintsEnd { tenant: list.tenant().0 });
        self.end_hints(list, context, depth_max)
    }

    /// As [`close_hints`](Self::close_hints), where the recorder has been told.
    pub fn end_hints(&mut self, list: HintListId, context: ContextId, depth_max: u32) -> HintCounts {
        let counts = self.directory.close_hints(list).unwrap_or_default();
        let site = self.tenants[list.tenant().index()].hint_sites.at(context);
        site.counts.add(&counts);
        site.depth_max = site.depth_max.max(depth_max);
        site.open.retain(|open| *open != list);
        counts
    }

    /// Closes the tenant's lists, because the tenant is about to be closed.
    pub fn close_all_hints(&mut self, tenant: TenantId) {
        for (list, context) in self.tenants[tenant.index()].hint_sites.open_lists() {
            self.close_hints(list, context, 0);
        }
    }
}
