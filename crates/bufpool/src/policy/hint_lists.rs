//! Lists of disclosed reads: opened, closed, and counted by the contexts that they were opened in.

use bufpool_policies::hints::{HintCounts, HintListId};
use bufpool_policies::{ContextId, HintOptions, TenantId};

use crate::engine::recorder::Event;
use crate::policy::state::PolicyState;

impl PolicyState {
    /// Opens a list of reads that a tenant discloses from a context.
    pub fn open_hints(&mut self, tenant: TenantId, context: ContextId, options: HintOptions) -> HintListId {
        let list = self.directory.open_hints(tenant, options).expect("the tenant is open");
        self.tenants[tenant.index()].hint_sites.at(context).open.push(list);
        list
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
